"""The bandit against golden runs, enumeration of all groups, finite differences and closed forms."""

import itertools
import re
from unittest.mock import create_autospec

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import binom, entropy

import grpo_lib.plots
from grpo_lib.bandit import (
    BanditGRPO,
    RestingPoint,
    bandit_advantages,
    critical_beta,
    kl_divergence,
    kl_gradient,
    resting_point,
    softmax,
    surrogate_gradient,
    zero_variance_probability,
)

VOWEL = np.array([1.0, 0.0, 0.0, 0.0])


def gradient_of(function, theta, step=1e-6):
    """Central differences."""
    theta = np.asarray(theta, dtype=float)
    unit = np.eye(theta.size) * step
    return np.array([(function(theta + e) - function(theta - e)) / (2 * step) for e in unit])


def expected_push(probs, rewards, G, **options):
    """E[sum_i A_i (onehot(w_i) - pi)] over all K^G groups, word by word."""
    total = np.zeros(len(probs))
    for words in map(list, itertools.product(range(len(probs)), repeat=G)):
        advantages = bandit_advantages(rewards[words], **options)
        push = sum(a * (np.eye(len(probs))[w] - probs) for a, w in zip(advantages, words, strict=True))
        total += probs[words].prod() * push
    return total


def golden_rows(golden, name):
    kl_direction, norm, beta = name.split("|")
    bandit = BanditGRPO(
        beta=float(beta.split("=")[1]), normalise=norm == "norm=True", kl_direction=kl_direction, learning_rate=0.01
    )
    bandit.train(50, 20)
    return bandit, golden("toy_beta_curves")[name]


CURVES = [
    f"{kl}|norm={norm}|beta={beta}"
    for kl in ("reverse", "forward")
    for norm in (True, False)
    for beta in ("0", "0.05", "0.1", "0.5", "1", "5")
]


# --- the golden runs


def test_with_beta_0_the_run_is_the_golden_one(golden):
    run = golden("toy_seed42")
    bandit = BanditGRPO(beta=0.0)
    np.testing.assert_allclose(bandit.theta, run["theta0"], rtol=1e-9)
    bandit.train(num_iterations=50, num_samples=20)
    np.testing.assert_allclose(bandit.theta, run["theta_final"], rtol=1e-9)
    np.testing.assert_allclose(bandit.prob_history[0], run["p0"], rtol=1e-9)
    # the golden list starts after the first update, ours with the start
    np.testing.assert_allclose(bandit.prob_history[1:], run["prob_history"], rtol=1e-9)
    np.testing.assert_allclose(bandit.reward_history, run["reward_history"], rtol=1e-9)
    np.testing.assert_allclose(bandit.kl_div_history, run["kl_history"], rtol=1e-9, atol=1e-16)


def test_all_golden_curves_are_covered(golden):
    assert set(CURVES) == set(golden("toy_beta_curves"))


@pytest.mark.parametrize("name", CURVES)
def test_beta_curves(golden, name):
    bandit, row = golden_rows(golden, name)
    np.testing.assert_allclose(bandit.theta, row["theta50"], rtol=1e-9)
    np.testing.assert_allclose(bandit.prob_history[-1], row["p50"], rtol=1e-9)
    np.testing.assert_allclose(np.array(bandit.prob_history)[10::10, 0], row["P_ant_every10"], rtol=1e-9)
    np.testing.assert_allclose(bandit.kl_ref_history[10::10], row["kl_pi_ref_every10"], rtol=1e-9)


def test_the_report_shows_every_tenth_iteration(golden, capsys):
    run = golden("toy_seed42")
    BanditGRPO(beta=0.0).train(report_every=10)
    printed = capsys.readouterr().out
    blocks = printed.split("Iteration ")[1:]
    assert [block.split("\n")[0] for block in blocks] == list(run["every10"])
    for block, expected in zip(blocks, run["every10"].values(), strict=True):
        words = dict(re.findall(r"(\w+) *: (0\.\d{3})\n", block))
        assert [words[word] for word in run["vocab"]] == [f"{p:.3f}" for p in expected["probs"]]
        assert f"Mean reward of its samples: {expected['mean_reward']:.3f}" in block
        assert f"KL of this step: {expected['kl']:.3f} nats" in block


def test_training_is_silent_unless_asked(capsys):
    BanditGRPO().train(12)
    assert capsys.readouterr().out == ""


# --- one step, and the histories


@pytest.mark.parametrize("options", [{}, {"updates_per_rollout": 3, "kl_direction": "forward", "clip": (0.01, 0.02)}])
def test_a_step_moves_theta_by_what_its_record_says(options):
    bandit = BanditGRPO(beta=0.7, learning_rate=0.05, **options)
    for _ in range(5):
        before = bandit.theta.copy()
        record = bandit.step(8)
        np.testing.assert_allclose(bandit.theta - before, 0.05 * (record.push + record.pull), atol=1e-14)
        np.testing.assert_allclose(record.probs_before, softmax(before))
        np.testing.assert_allclose(record.probs_after, softmax(bandit.theta))
        np.testing.assert_array_equal(record.rewards, VOWEL[record.samples])
        np.testing.assert_array_equal(record.advantages, bandit_advantages(record.rewards))
        assert record.kl_step == pytest.approx(entropy(record.probs_before, record.probs_after), abs=1e-14)


def test_push_and_pull_are_the_sums_over_samples_done_one_by_one():
    record = BanditGRPO(beta=0.0).step(8)
    rows = [a * (np.eye(4)[w] - record.probs_before) for a, w in zip(record.advantages, record.samples, strict=True)]
    np.testing.assert_allclose(record.push, sum(rows), atol=1e-14)
    np.testing.assert_array_equal(record.pull, np.zeros(4))
    bandit = BanditGRPO(beta=0.5)
    bandit.step(8)
    theta = bandit.theta.copy()
    pull = bandit.step(8).pull
    np.testing.assert_allclose(
        pull, -0.5 * 8 * gradient_of(lambda t: entropy(softmax(t), bandit.ref_probs), theta), atol=1e-8
    )


def test_history_indices():
    bandit = BanditGRPO()
    records = [bandit.step(6) for _ in range(4)]
    assert list(map(len, (bandit.prob_history, bandit.kl_ref_history))) == [5, 5]
    assert list(map(len, (bandit.reward_history, bandit.kl_div_history))) == [4, 4]
    assert [record.iteration for record in records] == [1, 2, 3, 4]
    for i, record in enumerate(records):  # reward and probabilities of one index belong to the same policy
        np.testing.assert_allclose(bandit.prob_history[i], record.probs_before)
        assert bandit.reward_history[i] == pytest.approx(record.rewards.mean())
        assert bandit.kl_div_history[i] == pytest.approx(kl_divergence(*bandit.prob_history[i : i + 2]), abs=1e-15)
    expected = [kl_divergence(probs, bandit.ref_probs) for probs in bandit.prob_history]
    np.testing.assert_allclose(bandit.kl_ref_history, expected, atol=1e-15)
    assert bandit.kl_ref_history[0] == 0.0


def test_a_second_train_continues():
    once, twice = BanditGRPO(), BanditGRPO()
    once.train(10)
    twice.train(4)
    twice.train(6)
    np.testing.assert_array_equal(once.prob_history, twice.prob_history)


def test_words_are_drawn_as_randomstate_choice_draws_them_one_at_a_time():
    probs = np.array([0.1, 0.2, 0.3, 0.4])
    ours, numpys, ones = (BanditGRPO(seed=7) for _ in range(3))
    drawn = ours._draw(probs, 500)
    np.testing.assert_array_equal(drawn, numpys._rng.choice(4, size=500, p=probs))
    np.testing.assert_array_equal(drawn, [ones.sample_word(probs) for _ in range(500)])


def test_rewards_of_words():
    bandit = BanditGRPO(("Owl", "bee", "emu"))
    assert [bandit.compute_reward(i) for i in range(3)] == [1.0, 0.0, 1.0]
    assert BanditGRPO(("Owl", "bee"), reward=len).rewards.tolist() == [3.0, 3.0]
    assert BanditGRPO(("Owl", "bee"), reward=[0.5, 2]).compute_reward(1) == 2.0
    with pytest.raises(ValueError, match=r"word_idx must be one of 0 \.\. 2, got -1"):
        bandit.compute_reward(-1)


def test_the_class_offers_the_functions():
    bandit = BanditGRPO()
    np.testing.assert_allclose(bandit.get_policy_probs([0, 0, 0, np.log(3)]), [1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert bandit.compute_kl_divergence([1, 0, 0, 0], [0.5, 0.5, 0, 0]) == pytest.approx(np.log(2))


def test_beta_acts_from_the_next_step_on():
    runs = {}
    for later in (0.0, 5.0):
        bandit = BanditGRPO(beta=0.0)
        bandit.train(10)
        bandit.beta = later
        bandit.train(40)
        runs[later] = bandit
    np.testing.assert_array_equal(runs[0.0].prob_history[10], runs[5.0].prob_history[10])
    assert runs[0.0].kl_ref_history[-1] > 1.4  # nats
    assert runs[5.0].kl_ref_history[-1] < 0.1


# --- the pure functions


def test_kl_divergence_and_its_special_cases():
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.5, 0.25, 0.25])
    assert kl_divergence(p, q) == pytest.approx(entropy(p, q), rel=1e-12)
    assert kl_divergence([1, 0], [0.5, 0.5]) == pytest.approx(np.log(2))  # 0 log 0 = 0
    assert kl_divergence([0.5, 0.5], [1, 0]) == np.inf
    assert kl_divergence(p, p) == 0.0


def test_kl_gradients_are_the_golden_ones_and_those_of_finite_differences(golden):
    g = golden("toy_kl_gradients")
    ref = softmax(g["ref_logits"])
    assert kl_divergence(softmax(g["theta"]), ref) == pytest.approx(g["KL_pi_ref"], rel=1e-9)
    assert kl_divergence(ref, softmax(g["theta"])) == pytest.approx(g["KL_ref_pi"], rel=1e-9)
    reverse, forward = kl_gradient(g["theta"], ref, "reverse"), kl_gradient(g["theta"], ref, "forward")
    np.testing.assert_allclose(reverse, g["gKL_pi_ref"], rtol=1e-9)
    np.testing.assert_allclose(forward, g["gKL_ref_pi"], rtol=1e-9)
    np.testing.assert_allclose(reverse, gradient_of(lambda t: entropy(softmax(t), ref), g["theta"]), atol=1e-8)
    np.testing.assert_allclose(forward, gradient_of(lambda t: entropy(ref, softmax(t)), g["theta"]), atol=1e-8)


def test_advantages_of_known_groups():
    np.testing.assert_allclose(bandit_advantages([1, 1, 2], eps=0), [-0.7071, -0.7071, 1.4142], atol=1e-4)
    np.testing.assert_allclose(bandit_advantages([1, 0], eps=0), bandit_advantages([1, -1], eps=0))
    np.testing.assert_allclose(bandit_advantages([3, 0, 0], normalise=False), [2, -1, -1])
    np.testing.assert_allclose(bandit_advantages([3, 0, 0], normalise=False, baseline="loo"), [3, -1.5, -1.5])
    assert bandit_advantages([0.1] * 7, eps=0).tolist() == [0.0] * 7


@pytest.mark.parametrize("G", [2, 3])
def test_leave_one_out_is_unbiased_and_the_mean_shrinks(golden, G):
    g = golden("toy_kl_gradients")
    probs = softmax(g["theta"])
    exact = G * np.array(g["gEA"])
    loo = expected_push(probs, VOWEL, G, normalise=False, baseline="loo")
    mean = expected_push(probs, VOWEL, G, normalise=False, baseline="mean")
    np.testing.assert_allclose(loo, exact, rtol=1e-8)
    np.testing.assert_allclose(mean, exact * (G - 1) / G, rtol=1e-8)


def test_zero_variance_probability_counts_the_groups_that_are_all_alike():
    p, G = 0.3, 5
    groups = itertools.product((1, 0), repeat=G)
    alike = sum(p ** sum(g) * (1 - p) ** (G - sum(g)) for g in groups if len(set(g)) == 1)
    assert zero_variance_probability(p, G) == pytest.approx(alike, rel=1e-12)
    np.testing.assert_allclose(zero_variance_probability(np.array([0, 0.5, 1]), 3), [1, 0.25, 1])


# --- ratio and clip


def surrogate(theta, old, samples, advantages, low, high):
    ratio = (softmax(theta) / old)[samples]
    return np.minimum(ratio * advantages, np.clip(ratio, 1 - low, 1 + high) * advantages).sum()


@pytest.mark.parametrize("clip", [0.2, (0.1, 0.3), None])
def test_clipped_gradient_against_finite_differences(clip):
    rng = np.random.default_rng(0)
    low, high = (1.0, 1e9) if clip is None else np.broadcast_to(clip, 2)
    shares = []
    for _ in range(20):
        old_theta = rng.normal(size=4)
        theta = old_theta + 0.4 * rng.normal(size=4)
        samples, advantages = rng.integers(4, size=12), rng.normal(size=12)
        found, share = surrogate_gradient(np.log(softmax(theta)), np.log(softmax(old_theta)), samples, advantages, clip)
        numeric = gradient_of(lambda t: surrogate(t, softmax(old_theta), samples, advantages, low, high), theta)  # noqa: B023
        np.testing.assert_allclose(found, numeric, atol=1e-7)
        shares.append(share)
    assert (max(shares) > 0) == (clip is not None)


def test_several_updates_climb_the_clipped_surrogate():
    lr, beta, G = 0.3, 0.4, 10
    bandit = BanditGRPO(beta=beta, learning_rate=lr, updates_per_rollout=3, clip=(0.2, 0.28))
    theta = start = bandit.theta.copy()
    record = bandit.step(G)

    def objective(t):
        value = surrogate(t, softmax(start), record.samples, record.advantages, 0.2, 0.28)
        return value - beta * G * entropy(softmax(t), bandit.ref_probs)

    theta = start + lr * gradient_of(
        lambda t: surrogate(t, softmax(start), record.samples, record.advantages, 1, 9), start
    )
    for _ in range(2):
        theta = theta + lr * gradient_of(objective, theta)
    np.testing.assert_allclose(bandit.theta, theta, atol=1e-6)
    assert record.clip_fraction > 0


def test_with_one_update_the_clip_is_inert():
    tight, none = BanditGRPO(clip=1e-6), BanditGRPO(clip=None)
    tight.train(10)
    none.train(10)
    np.testing.assert_array_equal(tight.prob_history, none.prob_history)


# --- resting points


def test_plain_resting_points_are_the_golden_ones(golden):
    g = golden("toy_fixed_points")
    for row in g["fixed"]:
        for key, kl_direction in (("rev", "reverse"), ("fwd", "forward")):
            [point] = resting_point(g["ref"], VOWEL, row["beta"], normalise=False, kl_direction=kl_direction)
            np.testing.assert_allclose(point.probs, row[key], rtol=1e-9)
            assert point.stable


def test_standardised_resting_points_are_the_golden_ones(golden):
    g = golden("toy_fixed_points")
    for row in g["normalised"]:
        for key, num_samples in (("inf", None), ("G4", 4), ("G20", 20), ("G100", 100)):
            points = resting_point(g["ref"], VOWEL, row["beta"], num_samples=num_samples)
            expected = [tuple(pair) for pair in row[key]]
            assert [(pytest.approx(p, rel=1e-9), kind) for p, kind in expected] == [
                (point.probs[0], "stable" if point.stable else "unstable") for point in points
            ], (row["beta"], key)


def test_critical_beta(golden):
    g = golden("toy_fixed_points")
    critical = critical_beta(g["ref"], VOWEL)
    assert critical == pytest.approx(g["critical_beta"], rel=1e-9)
    assert resting_point(g["ref"], VOWEL, critical * 0.999) == []
    below, above = resting_point(g["ref"], VOWEL, critical * 1.001)
    assert (below.stable, above.stable) == (True, False)
    assert critical_beta([0.5, 0.5], [1, 0]) == pytest.approx(1 / 0.6627434193, rel=1e-9)  # 1 / Laplace limit


@pytest.mark.parametrize("kl_direction", ["reverse", "forward"])
@pytest.mark.parametrize("baseline", ["mean", "loo"])
@pytest.mark.parametrize("normalise", [True, False])
def test_at_a_resting_point_push_and_pull_cancel(normalise, baseline, kl_direction):
    ref, G, beta = np.array([0.2, 0.3, 0.1, 0.4]), 3, 1.1
    rewards = np.array([0.5, 2.0, 2.0, 0.5]) if normalise else np.array([0.5, 2.0, 1.0, -0.3])
    options = {"normalise": normalise, "baseline": baseline}
    points = resting_point(ref, rewards, beta, num_samples=G, kl_direction=kl_direction, **options)
    assert len(points) == 1 and points[0].probs.sum() == pytest.approx(1)

    def drift(theta):
        pull = G * beta * kl_gradient(theta, ref, kl_direction)
        return expected_push(softmax(theta), rewards, G, **options) - pull

    theta = np.log(points[0].probs)
    np.testing.assert_allclose(drift(theta), 0, atol=1e-12)
    jacobian = approx_fprime(theta, drift, 1e-7)
    growth = np.sort(np.linalg.eigvals(jacobian).real)  # one is 0: adding a constant to theta changes nothing
    assert growth[-1] == pytest.approx(0, abs=1e-5) and growth[-2] < -1e-3


def test_stability_is_that_of_the_expected_update(golden):
    ref, G, beta = np.array(golden("toy_fixed_points")["ref"]), 100, 1.0

    def drift(theta):  # by binomial counts, words of no reward kept apart
        p = softmax(theta)
        n = np.arange(1, G)
        spread = (binom.pmf(n, G, p[0]) * np.sqrt(n * (G - n))).sum()
        push = np.where(VOWEL > 0, spread, -spread * p / (1 - p[0]))
        return push - G * beta * kl_gradient(theta, ref)

    for point in resting_point(ref, VOWEL, beta, num_samples=G)[:2]:
        growth = np.sort(np.linalg.eigvals(approx_fprime(np.log(point.probs), drift, 1e-7)).real)
        nonzero = growth[np.abs(growth).argsort()[1:]]
        assert (nonzero < 0).all() == point.stable


@pytest.mark.parametrize(("kl_direction", "key"), [("reverse", "rev"), ("forward", "fwd")])
def test_exact_ascent_ends_in_the_resting_point(golden, kl_direction, key):
    ref, rewards, beta = np.array([0.2, 0.5, 0.3]), np.array([1.0, 0.2, -0.4]), 0.6
    [point] = resting_point(ref, rewards, beta, normalise=False, kl_direction=kl_direction)
    theta = np.zeros(3)
    for _ in range(3000):
        p = softmax(theta)
        theta = theta + 0.3 * (p * (rewards - p @ rewards) - beta * kl_gradient(theta, ref, kl_direction))
    np.testing.assert_allclose(softmax(theta), point.probs, rtol=1e-9)
    row = next(row for row in golden("toy_fixed_points")["fixed"] if row["beta"] == 0.5)
    [point] = resting_point(golden("toy_fixed_points")["ref"], VOWEL, 0.5, normalise=False, kl_direction=kl_direction)
    np.testing.assert_allclose(point.probs, row[f"ascent20k_{key}"], rtol=1e-9)


def test_long_runs_hover_around_the_resting_point():
    bandit = BanditGRPO(beta=1.0)
    bandit.train(3000, 20)
    [point] = resting_point(bandit.ref_probs, bandit.rewards, 1.0, num_samples=20)
    assert np.mean(bandit.prob_history[1000:], axis=0) == pytest.approx(point.probs, abs=0.01)


def test_resting_points_at_the_limits():
    ref = [0.2, 0.3, 0.5]
    assert resting_point(ref, [1, 0, 0], 0) == []
    for normalise in (True, False):
        [point] = resting_point(ref, [0.7, 0.7, 0.7], 0.1, normalise=normalise)
        np.testing.assert_allclose(point.probs, ref)
    [far] = resting_point(ref, [1, 0, 0], 1e9, normalise=False)
    np.testing.assert_allclose(far.probs, ref, atol=1e-8)
    [near] = resting_point(ref, [1, 0, 0], 1e-300, normalise=False)
    assert near.probs.tolist() == [1.0, 0.0, 0.0]
    [short], [scaled] = (resting_point(ref, [r, 0, 0], 1.0, num_samples=8) for r in (1.0, 5.0))
    np.testing.assert_allclose(short.probs, scaled.probs, atol=1e-7)  # standardising forgets the size of the rewards


# --- the picture


def test_the_figure_gets_the_histories(monkeypatch):
    figure = create_autospec(grpo_lib.plots.bandit_figure, return_value="figure")
    monkeypatch.setattr(grpo_lib.plots, "bandit_figure", figure)
    bandit = BanditGRPO(beta=1.0)
    with pytest.raises(RuntimeError, match=r"nothing to plot yet: call train\(\)"):
        bandit.plot_training_progress()
    bandit.train(5)
    assert bandit.plot_training_progress() == "figure"
    vocab, *histories = figure.call_args.args
    assert vocab == ("ant", "bear", "cat", "dog")
    assert [history.shape for history in histories] == [(6, 4), (5,), (5,), (6,)]
    kept = (bandit.prob_history, bandit.reward_history, bandit.kl_div_history, bandit.kl_ref_history)
    for drawn, history in zip(histories, kept, strict=True):
        np.testing.assert_array_equal(drawn, history)
    assert figure.call_args.kwargs == {"resting_points": None}
    stable, unstable = RestingPoint(np.full(4, 0.25), True), RestingPoint(np.array([0.7, 0.1, 0.1, 0.1]), False)
    bandit.plot_training_progress([stable, unstable])
    assert figure.call_args.kwargs["resting_points"] == [stable.probs]
    bandit.plot_training_progress([[0.25] * 4])
    assert figure.call_args.kwargs["resting_points"] == [[0.25] * 4]


# --- errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"beta": -1}, "beta must be a finite number >= 0, got -1"),
        ({"beta": float("nan")}, "beta must be a finite number >= 0, got nan"),
        ({"beta": "0.1"}, "beta must be a finite number >= 0, got '0.1'"),
        ({"epsilon": -1e-8}, "epsilon must be a finite number >= 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number > 0, got inf"),
        ({"learning_rate": 0}, "learning_rate must be a finite number > 0, got 0"),
        ({"vocab": "ant"}, "vocab must be a sequence of at least two distinct, non-empty words, got 'ant'"),
        ({"vocab": ("ant", "ant")}, "distinct"),
        ({"vocab": ("ant", "")}, "non-empty"),
        ({"vocab": ("ant",)}, "at least two"),
        ({"baseline": "median"}, "baseline must be one of 'mean', 'loo', got 'median'"),
        ({"kl_direction": "both"}, "kl_direction must be one of 'reverse', 'forward', got 'both'"),
        ({"normalise": "yes"}, "normalise must be one of True, False, got 'yes'"),
        ({"updates_per_rollout": 0}, "updates_per_rollout must be an integer >= 1, got 0"),
        ({"clip": 0}, "clip must be a finite number > 0, got 0"),
        ({"clip": (0.1, 0.2, 0.3)}, r"a pair \(low, high\)"),
        ({"clip": 1.5}, "lower epsilon must be below 1, got 1.5"),
        ({"reward": [1, 2]}, "reward, one number per word, must be a vector of 4 finite numbers"),
        ({"reward": lambda word: float("nan")}, "finite"),
    ],
)
def test_bad_settings_say_the_rule_and_what_came_in(arguments, text):
    with pytest.raises(ValueError, match=text):
        BanditGRPO(**arguments)


def test_bad_calls_say_the_rule_and_what_came_in():
    bandit = BanditGRPO()
    for num_samples in (1, 2.5, True):
        with pytest.raises(ValueError, match=f"num_samples must be an integer >= 2, got {num_samples}. A group of one"):
            bandit.train(1, num_samples)
    with pytest.raises(ValueError, match="num_iterations must be an integer >= 1, got 0"):
        bandit.train(0)
    with pytest.raises(ValueError, match="report_every must be an integer >= 1, got 0"):
        bandit.train(1, report_every=0)
    bandit.train(1)
    bandit.beta = -0.5  # as a slider might
    with pytest.raises(ValueError, match="beta must be a finite number >= 0, got -0.5"):
        bandit.step()
    assert len(bandit.reward_history) == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: softmax([np.nan, 0]), "theta must be a vector of at least 2 finite numbers"),
        (lambda: kl_divergence([0.5, 0.6], [0.5, 0.5]), "p must be a vector of K >= 2 probabilities that sum to 1"),
        (lambda: kl_divergence([0.5, 0.5], [0.2, 0.3, 0.5]), "cover the same words, got 2 and 3"),
        (lambda: kl_gradient([0, 0, 0], [0.5, 0.5]), "theta must be a vector of 2 finite numbers"),
        (lambda: kl_gradient([0, 0], [1, 0]), "ref_probs must be above 0 everywhere"),
        (lambda: kl_gradient([0, 0], [0.5, 0.5], "k3"), "kl_direction must be one of"),
        (lambda: bandit_advantages([1.0]), "rewards must be a vector of at least 2"),
        (lambda: bandit_advantages([1.0, 0.0], baseline="max"), "baseline must be one of"),
        (lambda: zero_variance_probability(1.2, 4), r"p must lie in \[0, 1\]"),
        (lambda: resting_point([0.5, 0.5], [1, 0], -1), "beta must be a finite number >= 0, got -1"),
        (lambda: resting_point([0.5, 0.5], [1, 0], 1, num_samples=1), "num_samples must be an integer >= 2, got 1"),
        (lambda: resting_point([0.5, 0.5], [1, 0, 0], 1), "rewards must be a vector of 2"),
        (lambda: resting_point([1.0, 0.0], [1, 0], 1), "ref_probs must be above 0 everywhere"),
        (lambda: resting_point([0.2, 0.3, 0.5], [1, 0, 2], 1), "two distinct rewards, got 3"),
        (lambda: critical_beta([0.5, 0.5], [1, 1]), "equal rewards push nowhere"),
    ],
)
def test_the_functions_say_the_rule_and_what_came_in(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.filterwarnings("error")
def test_a_run_that_blows_up_stops_and_keeps_its_history():
    bandit = BanditGRPO(beta=1.0, learning_rate=1e308)
    with pytest.raises(FloatingPointError, match="theta became .* lower the learning rate, or beta"):
        bandit.train(50)
    assert np.isfinite(bandit.theta).all() and np.isfinite(bandit.prob_history).all()
    assert len(bandit.prob_history) == len(bandit.reward_history) + 1


@pytest.mark.filterwarnings("error")
def test_a_huge_learning_rate_gives_finite_histories():
    bandit = BanditGRPO(beta=1.0, learning_rate=1e3)
    bandit.train(50)
    assert (np.array(bandit.prob_history) == 0).any()  # probabilities underflow
    assert np.isfinite(bandit.kl_div_history).all() and np.isfinite(bandit.kl_ref_history).all()
