"""Intervals, pass@k, paired comparison and sample sizes against enumeration, closed forms and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from grpo_lib.comparison import PairedTable, compare_paired, mcnemar_test, paired_bootstrap, paired_table
from grpo_lib.evaluation import evaluate_accuracy
from grpo_lib.intervals import mean_interval, problem_interval, wilson_interval
from grpo_lib.models import load_tiny_policy
from grpo_lib.pass_at_k import pass_at_k
from grpo_lib.problem_results import ProblemResults, evaluate_problems, lenient_match
from grpo_lib.published_claims import compare_unpaired, pairings
from grpo_lib.sample_size import paired_power, paired_problems, unpaired_power, unpaired_problems
from grpo_lib.tasks import addition_reward, load_addition

JUDGES = {"strict": addition_reward, "lenient": lenient_match}


# --- intervals


@pytest.mark.parametrize(("correct", "total"), [(0, 5), (7, 30), (27, 30), (20, 20)])
def test_wilson_ends_are_where_the_z_test_of_that_share_just_rejects(correct, total):
    z = norm.ppf(0.975)
    for end in wilson_interval(correct, total):
        if 1e-9 < end < 1 - 1e-9:
            assert abs(correct / total - end) == pytest.approx(z * math.sqrt(end * (1 - end) / total))
        else:  # an end at 0 or 1 belongs to 0 or all right
            assert correct in (0, total)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_wilson_covers_the_true_share_about_95_times_in_a_hundred(share):
    n = 60
    inside = [low <= share <= high for low, high in (wilson_interval(c, n) for c in range(n + 1))]
    coverage = float(np.dot(binom.pmf(np.arange(n + 1), n, share), inside))  # exact: every count, by its probability
    assert 0.92 < coverage < 0.99
    plain = [abs(c / n - share) <= 1.96 * math.sqrt(c / n * (1 - c / n) / n) for c in range(n + 1)]
    assert share != 0.05 or float(np.dot(binom.pmf(np.arange(n + 1), n, share), plain)) < 0.9  # why not the plain one


def test_problem_interval_is_near_the_normal_one_and_reproducible():
    scores = np.random.default_rng(0).random(400)
    mean, low, high = problem_interval(scores)
    half = 1.96 * scores.std() / 20
    assert (mean, low, high) == pytest.approx((scores.mean(), scores.mean() - half, scores.mean() + half), abs=0.004)
    assert problem_interval(scores) == (mean, low, high) != problem_interval(scores, seed=1)
    assert problem_interval([1.0, 1.0, 1.0]) == (1.0, 1.0, 1.0)


def test_many_samples_of_a_problem_are_not_many_problems():
    rng = np.random.default_rng(0)
    hits, naive_hits, runs = 0, 0, 200
    for seed in range(runs):
        p = rng.beta(0.3, 0.3, 40)  # problems are easy or hard; the mean is 0.5
        counts = rng.binomial(16, p)
        _, low, high = problem_interval(counts / 16, seed=seed)
        hits += low <= 0.5 <= high
        low, high = wilson_interval(int(counts.sum()), 40 * 16)
        naive_hits += low <= 0.5 <= high
    assert hits / runs > 0.88
    assert naive_hits / runs < 0.6


def test_mean_interval_over_seeds_against_simulated_coverage():
    rng = np.random.default_rng(0)
    runs = rng.normal(0.9, 0.02, (2000, 5))
    inside = [low <= 0.9 <= high for _, low, high in map(mean_interval, runs.tolist())]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)


# --- pass@k


def test_pass_at_k_counts_every_choice():
    for n in range(1, 8):
        for c, k in itertools.product(range(n + 1), range(1, n + 1)):
            choices = list(itertools.combinations([True] * c + [False] * (n - c), k))
            assert pass_at_k(c, n, k) == pytest.approx(np.mean([any(choice) for choice in choices]))


def test_pass_at_k_is_unbiased_and_the_plug_in_is_not():
    n, k, p = 10, 4, 0.2
    weights = binom.pmf(np.arange(n + 1), n, p)
    truth = 1 - (1 - p) ** k
    assert weights @ pass_at_k(np.arange(n + 1), n, k) == pytest.approx(truth)
    assert weights @ (1 - (1 - np.arange(n + 1) / n) ** k) < truth - 0.01


def test_pass_at_k_large_counts_and_bad_ones():
    c, n, k = 300, 1000, 100
    exact = 1 - math.comb(n - c, k) / math.comb(n, k)
    assert pass_at_k(c, n, k) == pytest.approx(exact, abs=1e-12)
    with pytest.raises(ValueError, match="k = 9 of 8 samples: draw more"):
        pass_at_k([1], 8, 9)
    for bad in ([9], [-1], [0.5], ["a"], [float("nan")]):
        with pytest.raises(ValueError, match="whole numbers from 0 to num_samples = 8"):
            pass_at_k(bad, 8, 2)


# --- paired


def test_mcnemar_against_all_tosses():
    for gained, lost in [(8, 2), (3, 3), (0, 6), (1, 0), (5, 7)]:
        changed = gained + lost
        splits = [sum(tosses) for tosses in itertools.product((0, 1), repeat=changed)]
        as_uneven = [abs(2 * heads - changed) >= abs(gained - lost) for heads in splits]
        assert mcnemar_test(gained, lost) == pytest.approx(np.mean(as_uneven))
    assert mcnemar_test(0, 0) == 1.0


def test_mcnemar_claims_too_often_at_most_five_times_in_a_hundred():
    n, p = 40, 0.2
    reject = sum(
        binom.pmf(m, n, p) * sum(binom.pmf(g, m, 0.5) for g in range(m + 1) if mcnemar_test(g, m - g) <= 0.05)
        for m in range(n + 1)
    )
    assert 0.01 < reject <= 0.05


def test_paired_bootstrap_against_the_exact_spread_and_its_coverage():
    rng = np.random.default_rng(0)
    n, shares = 150, [0.3, 0.2, 0.1, 0.4]  # both, gained, lost, neither: the difference is 0.1
    hits, runs = 0, 150
    for seed in range(runs):
        both, gained, lost, neither = rng.multinomial(n, shares)
        before, after = (
            np.repeat([1, 0, 1, 0], [both, gained, lost, neither]),
            np.repeat([1, 1, 0, 0], [both, gained, lost, neither]),
        )
        difference, low, high = paired_bootstrap(before, after, seed=seed)
        assert difference == pytest.approx((gained - lost) / n)
        half = 1.96 * (after - before).std() / math.sqrt(n)
        assert (high - low) / 2 == pytest.approx(half, rel=0.12)
        hits += low <= 0.1 <= high
    assert 0.9 < hits / runs <= 1


def test_pairing_is_what_makes_the_interval_narrow():
    rng = np.random.default_rng(1)
    hard = rng.random(400)
    before, after = (hard < 0.5).astype(int), (hard < 0.55).astype(int)
    _, low, high = paired_bootstrap(before, after)
    apart = compare_unpaired(int(before.sum()), 400, int(after.sum()), 400)
    assert low > 0 > apart.low
    assert high - low < 0.5 * (apart.high - apart.low)


def test_the_table_and_the_comparison_tell_the_same():
    before, after = np.array([1, 1, 0, 0, 0, 1]), np.array([1, 0, 1, 1, 0, 1])
    assert paired_table(before, after) == PairedTable(both=2, gained=2, lost=1, neither=1)
    found = compare_paired(before, after)
    assert (found.before, found.after) == (0.5, pytest.approx(4 / 6))
    assert found.difference == pytest.approx(before.size and 1 / 6) and found.p_value == mcnemar_test(2, 1) == 1.0
    assert compare_paired([1, 0], [1, 0]).low == compare_paired([1, 0], [1, 0]).high == 0


def test_bad_pairs_are_refused():
    for pair in (([1, 0], [1]), ([], []), ([[1]], [[1]])):
        with pytest.raises(ValueError, match="same problems in the same order"):
            paired_table(*pair)
    with pytest.raises(ValueError, match="after must hold 0 or 1"):
        paired_table([1, 0], [0.5, 1])
    with pytest.raises(ValueError, match="must be finite"):
        paired_bootstrap([1, 0], [float("nan"), 1])
    with pytest.raises(ValueError, match="at least 2 problems"):
        paired_bootstrap([1], [1])
    with pytest.raises(ValueError, match="gained must be an integer >= 0"):
        mcnemar_test(0.5, 1)
    with pytest.raises(ValueError, match="0.95 for 95 %"):
        paired_bootstrap([1, 0], [1, 1], 95)


# --- published counts


def test_newcombe_against_published_values():
    # Newcombe 1998, table II, method 10: 56/70 against 48/80 and 9/10 against 3/10
    for counts, low, high in [((48, 80, 56, 70), 0.0524, 0.3339), ((3, 10, 9, 10), 0.1705, 0.8090)]:
        found = compare_unpaired(*counts)
        assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


def test_fisher_s_p_value_by_enumeration():
    found = compare_unpaired(2, 8, 6, 8)
    ways = [math.comb(8, c) * math.comb(8, 8 - c) for c in range(9)]
    assert found.p_value == pytest.approx(sum(w for w in ways if w <= ways[2]) / sum(ways))


def test_pairings_by_enumeration():
    for before, after, total in [(1, 3, 4), (3, 1, 4), (2, 2, 4), (0, 4, 4)]:
        found = set()
        for first in itertools.product((0, 1), repeat=total):
            for second in itertools.product((0, 1), repeat=total):
                if (sum(first), sum(second)) == (before, after):
                    found.add(paired_table(first, second))
        listed = pairings(before, after, total)
        assert set(listed) == found and len(listed) == len(found)
    with pytest.raises(ValueError, match="correct_after must be at most total, got 5 of 4"):
        pairings(1, 5, 4)


# --- how many problems


def test_unpaired_power_against_simulation_and_its_inverse():
    rng = np.random.default_rng(0)
    n, runs = 300, 20_000
    x, y = rng.binomial(n, 0.4, runs), rng.binomial(n, 0.5, runs)
    pooled = (x + y) / (2 * n)
    z = (y - x) / n / np.sqrt(2 * pooled * (1 - pooled) / n)
    assert unpaired_power(0.4, 0.5, n) == pytest.approx(np.mean(abs(z) > norm.ppf(0.975)), abs=0.015)
    for pair in ((0.4, 0.5), (0.9, 0.8), (0.01, 0.02)):
        n = unpaired_problems(*pair, power=0.9)
        assert unpaired_power(*pair, n) >= 0.9 > unpaired_power(*pair, n - 1)


def test_paired_power_against_simulation_and_enumeration():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(120, [0.15, 0.05, 0.8], 4000)
    found = np.mean([mcnemar_test(g, lost) <= 0.05 for g, lost, _ in counts.tolist()])
    assert paired_power(0.15, 0.05, 120) == pytest.approx(found, abs=0.025)
    n, g, lost = 9, 0.5, 0.1
    exact = 0.0
    for a in range(n + 1):
        for b in range(n + 1 - a):
            if mcnemar_test(a, b) <= 0.05:
                ways = math.comb(n, a) * math.comb(n - a, b)
                exact += ways * g**a * lost**b * (1 - g - lost) ** (n - a - b)
    assert paired_power(g, lost, n) == pytest.approx(exact)
    assert paired_power(0.5, 0.1, 1) == 0.0  # one problem can prove nothing


def test_paired_problems_reach_the_power():
    for shares in ((0.15, 0.05), (0.02, 0.0), (0.05, 0.15), (1.0, 0.0)):
        n = paired_problems(*shares)
        assert paired_power(*shares, n) >= 0.8 > paired_power(*shares, n - 1)
    assert paired_problems(1.0, 0.0) == 6  # 2 * 0.5 ** 6 is the first below 0.05
    assert paired_problems(0.10, 0.05) < unpaired_problems(0.5, 0.55)


def test_sizes_refuse_what_has_no_answer():
    with pytest.raises(ValueError, match="no number of problems shows a difference of 0"):
        unpaired_problems(0.5, 0.5)
    with pytest.raises(ValueError, match="no number of problems shows a difference of 0"):
        paired_problems(0.1, 0.1)
    with pytest.raises(ValueError, match="sum of at most 1"):
        paired_power(0.7, 0.4, 10)
    with pytest.raises(ValueError, match="power must lie between 0 and 1, got 80"):
        paired_problems(0.2, 0.1, power=80)
    with pytest.raises(ValueError, match="before must be an accuracy from 0 to 1"):
        unpaired_power(50, 60, 100)
    with pytest.raises(ValueError, match="differ too little"):
        paired_problems(0.1001, 0.1)


# --- problem by problem


def test_problem_results_agree_with_evaluate_accuracy():
    model, tokenizer = load_tiny_policy()
    samples, options = load_addition("test")[:40], dict(max_completion_length=24, batch_size=16, seed=3)
    found = evaluate_problems(model, tokenizer, samples, JUDGES, **options)
    alone = evaluate_accuracy(model, tokenizer, samples, addition_reward, **options)
    assert found.accuracy("strict") == alone
    golds = [sample["answer"] for sample in samples]
    by_hand = addition_reward(golds, [row[0] for row in found.texts], golds)
    assert found.right["strict"][:, 0].tolist() == [value == 1 for value in by_hand]
    assert (found.right["lenient"] >= found.right["strict"]).all()


def test_many_samples_stand_with_their_problem():
    model, tokenizer = load_tiny_policy()
    samples = load_addition("test")[:6]
    found = evaluate_problems(model, tokenizer, samples, JUDGES, num_samples=5, max_completion_length=24, batch_size=4)
    assert found.right["strict"].shape == (6, 5) and [len(row) for row in found.texts] == [5] * 6
    for row, texts, sample in zip(found.right["strict"], found.texts, samples, strict=True):
        assert row.tolist() == [v == 1 for v in addition_reward([""] * 5, texts, [sample["answer"]] * 5)]
    with pytest.raises(ValueError, match="5 samples a problem, which are no independent problems"):
        found.accuracy("strict")


def test_pass_at_of_results():
    right = np.array([[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]], dtype=bool)
    found = ProblemResults({"strict": right}, [[""] * 4] * 4)
    for k in (1, 2, 4):
        each = [np.mean([any(c) for c in itertools.combinations(row, k)]) for row in right]
        value, low, high = found.pass_at(k, "strict")
        assert value == pytest.approx(np.mean(each)) and low < value < high
    with pytest.raises(ValueError, match="there are: strict"):
        found.pass_at(1, "lenient")


def test_lenient_match_reads_the_tag_first():
    texts = ["<answer>7</answer> of 9", "I get 7", "<answer>about 7</answer>", "<answer>8</answer> or 7", "none"]
    assert lenient_match([""] * 5, texts, ["7"] * 5) == [1.0, 1.0, 1.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="row 1 of 2: a gold answer must be one number"):
        lenient_match(["", ""], ["7", "7"], ["7", "see text"])


def test_bad_evaluations_are_refused():
    model, tokenizer = load_tiny_policy()
    samples = load_addition("test")[:2]
    with pytest.raises(ValueError, match="num_samples must be 1 at temperature 0, got 4"):
        evaluate_problems(model, tokenizer, samples, JUDGES, temperature=0, num_samples=4)
    with pytest.raises(ValueError, match="at least one judge"):
        evaluate_problems(model, tokenizer, samples, {})
    with pytest.raises(ValueError, match="judge 'graded' must give 0 or 1 for each completion, got 0.5"):
        graded = lambda completions, **more: [0.5] * len(completions)  # noqa: E731
        evaluate_problems(model, tokenizer, samples, {"graded": graded}, max_completion_length=2)
    with pytest.raises(ValueError, match="at least one sample"):
        evaluate_problems(model, tokenizer, [], JUDGES)


@pytest.mark.parametrize("counts", [(-1, 5), (6, 5), (1, 0), (0.5, 5)])
def test_bad_counts_are_refused(counts):
    with pytest.raises(ValueError, match="correct|total"):
        wilson_interval(*counts)


def test_bad_scores_are_refused():
    for scores in ([0.5], [[0.5, 1.0]], [0.5, float("nan")]):
        with pytest.raises(ValueError, match="one finite number a problem"):
            problem_interval(scores)
    with pytest.raises(ValueError, match="at least 2 values, got 1"):
        mean_interval([0.9])
