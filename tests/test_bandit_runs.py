"""Sweeps against single runs, curves against golden resting points, and runs that reach them or go to the corner."""

import numpy as np
import pytest
from scipy.stats import binom

from grpo_lib.bandit import BanditGRPO, bandit_advantages, critical_beta, kl_gradient, resting_point, softmax
from grpo_lib.bandit_runs import describe, resting_curve, setting_texts, sweep_bandit

VOWEL = np.array([1.0, 0.0, 0.0, 0.0])
BETAS = [0.05, 0.1, 0.5, 1, 5]


def test_a_sweep_holds_the_histories_of_single_runs():
    options = dict(beta=1.0, learning_rate=0.05, baseline="loo", normalise=False)
    sweep = sweep_bandit(**options, num_samples=6, num_iterations=7, sample_seeds=[3, 4])
    for s, sample_seed in enumerate([3, 4]):
        run = BanditGRPO(**options, sample_seed=sample_seed)
        run.train(7, 6)
        np.testing.assert_array_equal(sweep.probs[s], run.prob_history)
        np.testing.assert_array_equal(sweep.rewards[s], run.reward_history)
        np.testing.assert_array_equal(sweep.kl_step[s], run.kl_div_history)
        np.testing.assert_array_equal(sweep.kl_ref[s], run.kl_ref_history)
    [point] = resting_point(run.ref_probs, VOWEL, 1.0, num_samples=6, normalise=False, baseline="loo")
    np.testing.assert_array_equal(sweep.resting_points[0].probs, point.probs)


def test_other_samples_same_start():
    sweep = sweep_bandit(num_iterations=3, sample_seeds=range(4))
    np.testing.assert_array_equal(sweep.probs[:, 0], [BanditGRPO().ref_probs] * 4)
    assert len(np.unique(sweep.probs[:, -1], axis=0)) == 4
    words = [BanditGRPO(sample_seed=1).step(50).samples, BanditGRPO(sample_seed=1).step(50).samples]
    np.testing.assert_array_equal(*words)
    start, stream = softmax(BanditGRPO().theta), np.random.RandomState(1)
    np.testing.assert_array_equal(words[0], stream.choice(4, size=50, p=start))


def test_a_sweep_needs_a_seed_and_says_where_nothing_is_known():
    with pytest.raises(ValueError, match="sample_seeds must hold at least one integer, got none"):
        sweep_bandit(sample_seeds=[])
    assert sweep_bandit(updates_per_rollout=2, num_iterations=1, sample_seeds=[0]).resting_points is None
    assert sweep_bandit(beta=0.0, num_iterations=1, sample_seeds=[0]).resting_points == []
    with pytest.raises(FloatingPointError, match="theta became"):
        sweep_bandit(beta=1.0, learning_rate=1e308)


def test_resting_curves_pass_through_the_golden_points(golden):
    g = golden("toy_fixed_points")
    rows = sorted(g["normalised"], key=lambda row: row["beta"])
    for key, num_samples in (("inf", None), ("G4", 4), ("G20", 20), ("G100", 100)):
        stable, unstable = resting_curve(g["ref"], VOWEL, [row["beta"] for row in rows], num_samples=num_samples)
        for kind, found in (("stable", stable), ("unstable", unstable)):
            wanted = [next((p for p, k in row[key] if k == kind), np.nan) for row in rows]
            np.testing.assert_allclose(found, wanted, rtol=1e-9)
    stable, unstable = resting_curve(g["ref"], VOWEL, BETAS, normalise=False)
    np.testing.assert_allclose(stable, [row["rev"][0] for row in g["fixed"]], rtol=1e-9)
    assert np.isnan(unstable).all()


# --- runs end where they should


@pytest.mark.parametrize("kl_direction", ["reverse", "forward"])
@pytest.mark.parametrize("beta", [0.5, 1, 5])
def test_sampled_runs_end_in_the_plain_golden_points(golden, beta, kl_direction):
    [row] = [row for row in golden("toy_fixed_points")["fixed"] if row["beta"] == beta]
    rate = 0.02 / beta
    options = dict(normalise=False, baseline="loo", kl_direction=kl_direction)  # leave-one-out has no (G - 1) / G
    sweep = sweep_bandit(beta, rate, num_iterations=900, sample_seeds=range(3), **options)
    ends = sweep.probs[:, 400:].mean(axis=1)  # over time: a run hovers around its resting point
    np.testing.assert_allclose(ends, [row["rev" if kl_direction == "reverse" else "fwd"]] * 3, atol=0.01)


@pytest.mark.parametrize("num_samples", [4, 20, 100])
@pytest.mark.parametrize("beta", [0.5, 1, 2, 5])  # at 0.8 push and pull nearly balance over a wide range
def test_sampled_runs_end_in_the_standardised_golden_points(golden, beta, num_samples):
    [row] = [row for row in golden("toy_fixed_points")["normalised"] if row["beta"] == beta]
    target = next(p for p, kind in row[f"G{num_samples}"] if kind == "stable")
    rate, steps = 0.2 / num_samples / max(beta, 1), 3000
    sweep = sweep_bandit(beta, rate, num_samples, num_iterations=steps, sample_seeds=range(3))
    ends = sweep.probs[:, steps // 2 :, 0].mean(axis=1)
    np.testing.assert_allclose(ends, target, atol=0.01)


def mean_push(p, num_samples):
    """The expected standardised push of the vowel's logit, one sample's share: E[sqrt(n (G - n))] / G, n ants of G."""
    if num_samples is None:
        return np.sqrt(p * (1 - p))
    n = np.arange(1, num_samples)
    return binom.pmf(n, num_samples, p) @ np.sqrt(n * (num_samples - n)) / num_samples


def expected_run(beta, *, num_samples=None, kl_direction="reverse", normalise=True, start=None, steps=4000, rate=0.5):
    """Ascent along the exact expected update: no luck in it, so it ends where the theory says."""
    ref = BanditGRPO().ref_probs
    theta = np.log(ref if start is None else np.r_[start, ref[1:] / ref[1:].sum() * (1 - start)])
    for _ in range(steps):
        p = softmax(theta)
        push = mean_push(p[0], num_samples) if normalise else p[0] * (1 - p[0])
        push = push * np.where(VOWEL > 0, 1, -p / max(1 - p[0], 1e-300))
        theta = theta + rate * (push - beta * kl_gradient(theta, ref, kl_direction))
    return softmax(theta)


@pytest.mark.parametrize("num_samples", [4, 20, 100])
@pytest.mark.parametrize("beta", [0.5, 0.7, 0.8, 0.9, 1, 2, 5])
def test_the_expected_run_reaches_the_standardised_golden_points(golden, beta, num_samples):
    [row] = [row for row in golden("toy_fixed_points")["normalised"] if row["beta"] == beta]
    target = next(p for p, kind in row[f"G{num_samples}"] if kind == "stable")
    end = expected_run(beta, num_samples=num_samples, steps=1500, rate=0.8 / max(beta, 1))
    assert end[0] == pytest.approx(target, abs=0.01)


@pytest.mark.parametrize("beta", [0.9, 1, 2, 5])
def test_the_expected_run_reaches_the_standardised_points_for_many_samples(golden, beta):
    [row] = [row for row in golden("toy_fixed_points")["normalised"] if row["beta"] == beta]
    (low, kind), (edge, other) = row["inf"]
    assert (kind, other) == ("stable", "unstable")
    assert expected_run(beta, steps=2000)[0] == pytest.approx(low, abs=1e-6)
    if edge < 0.99:  # from above the watershed the same beta lets the run go to the corner
        assert expected_run(beta, start=edge - 0.01, steps=4000)[0] == pytest.approx(low, abs=1e-3)
        assert expected_run(beta, start=edge + 0.01, steps=4000)[0] > 0.999


@pytest.mark.parametrize("beta", [0.05, 0.1, 0.5, 0.7, 0.8])
def test_below_the_critical_beta_the_run_goes_to_the_corner(golden, beta):
    g = golden("toy_fixed_points")
    [row] = [row for row in g["normalised"] if row["beta"] == beta]
    assert row["inf"] == [] and beta < critical_beta(g["ref"], VOWEL)
    assert expected_run(beta)[0] > 0.999


@pytest.mark.parametrize("kl_direction", ["reverse", "forward"])
@pytest.mark.parametrize("beta", BETAS)
def test_without_the_division_the_expected_run_reaches_every_golden_point(golden, beta, kl_direction):
    [row] = [row for row in golden("toy_fixed_points")["fixed"] if row["beta"] == beta]
    end = expected_run(beta, normalise=False, kl_direction=kl_direction, rate=1 / max(beta, 1))
    np.testing.assert_allclose(end, row["rev" if kl_direction == "reverse" else "fwd"], atol=0.01)


@pytest.mark.parametrize("beta", [0.05, 0.1])
def test_sampled_runs_go_to_the_corner_where_no_golden_point_exists(golden, beta):
    [row] = [row for row in golden("toy_fixed_points")["normalised"] if row["beta"] == beta]
    assert row["G20"] == []
    sweep = sweep_bandit(beta, 0.05, num_iterations=1500, sample_seeds=range(3))
    assert (sweep.probs[:, -1, 0] > 0.99).all() and sweep.resting_points == []


def test_the_forward_kl_has_no_critical_beta(golden):
    ref = golden("toy_fixed_points")["ref"]
    stable, unstable = resting_curve(ref, VOWEL, [0.1, 0.5, 0.8], kl_direction="forward")
    assert np.isnan(unstable).all()
    for beta, rest in zip([0.1, 0.5, 0.8], stable, strict=True):
        assert expected_run(beta, kl_direction="forward", steps=4000, rate=0.2)[0] == pytest.approx(rest, abs=1e-4)


def test_the_largest_stable_learning_rate_is_2_over_the_steepest_slope():
    run, G = BanditGRPO(), 20
    [point] = resting_point(run.ref_probs, VOWEL, 1.0, num_samples=G, normalise=False)

    def update(theta, rate):
        p = softmax(theta)
        return theta + rate * ((G - 1) * p * (VOWEL - p @ VOWEL) - G * kl_gradient(theta, run.ref_probs))

    theta, unit = np.log(point.probs), 1e-6 * np.eye(4)
    slopes = np.linalg.eigvals([(update(theta + e, 1) - update(theta - e, 1) - 2 * e) / 2e-6 for e in unit]).real
    limit = 2 / np.abs(slopes).max()
    for rate, settles in ((0.95 * limit, True), (1.05 * limit, False)):
        moved = theta + 1e-4 * np.array([1, -1, 2, 0])
        for _ in range(400):
            moved = update(moved, rate)
        assert (np.abs(softmax(moved) - point.probs).max() < 1e-5) == settles


def test_leave_one_out_makes_up_for_the_shrunken_push():
    rng = np.random.default_rng(0)
    for G in (2, 5, 20):
        rewards = rng.random(G)
        loo = bandit_advantages(rewards, normalise=False, baseline="loo")
        np.testing.assert_allclose(loo, bandit_advantages(rewards, normalise=False) * G / (G - 1), rtol=1e-12)
        np.testing.assert_allclose(loo[0], rewards[0] - rewards[1:].mean(), rtol=1e-9)


# --- settings in words


def test_settings_in_words():
    run = BanditGRPO(beta=1.0)
    assert describe(run, 20) == "beta 1, learning rate 0.01, 20 samples, standardised"
    run = BanditGRPO(
        beta=2, normalise=False, baseline="loo", kl_direction="forward", updates_per_rollout=4, clip=(0.2, 0.28)
    )
    said = describe(run, 8)
    assert said.endswith("not standardised, baseline leave-one-out, KL(ref‖π), 4 updates a rollout, clip (0.2, 0.28)")
    assert describe(BanditGRPO(epsilon=0.1, reward=[0, 2, 0, 0]), 8).endswith(", reward 0, 2, 0, 0, epsilon 0.1")
    assert describe(BanditGRPO(reward=[1, 0, 0, 0]), 8) == describe(BanditGRPO(), 8)
    texts = setting_texts(BanditGRPO(clip=None, updates_per_rollout=2), 8)
    assert texts["clip"] == ("no clip", True) and texts["baseline"] == ("baseline mean", False)
