"""Exercise checks on evaluation: Wilson's interval, pass@k, McNemar, a published claim."""

import math

import numpy as np
from scipy.stats import binom

from grpo_lib.comparison import mcnemar_test
from grpo_lib.intervals import wilson_interval
from grpo_lib.pass_at_k import pass_at_k
from grpo_lib.published_claims import pairings
from grpo_lib.verdicts import judge

__all__ = ["check_mcnemar", "check_pairings", "check_pass_at_k", "check_wilson_interval"]

Z = 1.959963984540054  # the 97.5 % point of the normal distribution


def check_wilson_interval(attempt):
    """Check `f(correct, total)`: the 95 % Wilson interval (low, high) of a share.

    >>> check_wilson_interval(lambda correct, total: (0.0, 1.0)).status
    'not yet'
    """

    def plain(correct, total):
        p = correct / total
        half = Z * math.sqrt(p * (1 - p) / total)
        return p - half, p + half

    def wilson(correct, total, z=Z, scale=True):
        p = correct / total
        half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total**2))
        below = 1 + z * z / total if scale else 1
        return (p + z * z / (2 * total) - half) / below, (p + z * z / (2 * total) + half) / below

    slips = {
        "plain": (
            plain,
            "That is p ± z √(p (1 - p) / n): it has no width at 0 right. Use Wilson's.",
        ),
        "one standard error": (lambda c, n: wilson(c, n, z=1.0), "z must be 1.96 for 95 %; 1 gives about 68 %."),
        "one-sided": (
            lambda c, n: wilson(c, n, z=1.6448536269514722),
            "1.645 leaves 5 % on each side; take 1.96.",
        ),
        "no denominator": (lambda c, n: wilson(c, n, scale=False), "Divide by 1 + z² / n at the end, both ends."),
    }
    cases = [(7, 30), (27, 30), (0, 20), (643, 1319)]
    return judge("Wilson interval", attempt, wilson_interval, cases, slips, praise="Also at 0 right of 20.", rtol=1e-3)


def check_pass_at_k(attempt):
    """Check `f(num_samples, num_correct, k)` for one problem: the unbiased estimate of pass@k.

    >>> check_pass_at_k(lambda n, c, k: 1 - (1 - c / n) ** k).slip
    'plug-in'
    """
    slips = {
        "plug-in": (
            lambda n, c, k: 1 - (1 - c / n) ** k,
            "That draws with replacement, and is too small on the average: count choices of k from the n samples.",
        ),
        "first k": (
            lambda n, c, k: min(1.0, c * k / n),
            "The chances of the k samples cannot be added: two of them may be right at once.",
        ),
        "all right": (
            lambda n, c, k: math.comb(c, k) / math.comb(n, k),
            "That is the chance that all k are right; one is enough.",
        ),
        "none right": (
            lambda n, c, k: math.comb(n - c, k) / math.comb(n, k),
            "That is the chance that none of the k is right: take it from 1.",
        ),
    }
    cases = [(n, c, k) for n, c, k in ((8, 0, 4), (8, 1, 4), (8, 3, 2), (8, 3, 1), (8, 6, 4), (16, 2, 8), (8, 8, 8))]
    reference = lambda n, c, k: pass_at_k(c, n, k)  # noqa: E731
    return judge("pass@k", attempt, reference, cases, slips, praise="1 where fewer than k are wrong.")


def check_mcnemar(attempt):
    """Check `f(before, after)`: the exact two-sided p-value of McNemar's test, from right and wrong of each problem.

    >>> check_mcnemar(lambda before, after: 1.0).status
    'not yet'
    """

    def cells(before, after):
        return int(((before == 0) & (after == 1)).sum()), int(((before == 1) & (after == 0)).sum())

    def exact(before, after):
        return mcnemar_test(*cells(before, after))

    def one_sided(before, after):
        gained, lost = cells(before, after)
        return binom.cdf(min(gained, lost), gained + lost, 0.5)

    def chi_square(before, after):
        gained, lost = cells(before, after)
        return math.erfc(abs(gained - lost) / math.sqrt(2 * (gained + lost)))

    def all_problems(before, after):
        gained, lost = cells(before, after)
        same = len(before) - gained - lost
        return mcnemar_test(gained + same // 2, lost + same // 2)

    def right_counts(before, after):
        return mcnemar_test(int(after.sum()), int(before.sum()))

    slips = {
        "one-sided": (one_sided, "That is one tail; a model may also get worse: count both, never above 1."),
        "chi-square": (chi_square, "That is the large-sample form; with few changes take the coin itself, binomtest."),
        "all problems": (all_problems, "Problems with the same outcome twice say nothing: leave them out of the toss."),
        "right counts": (
            right_counts,
            "You toss with the two totals of right answers; toss with the problems that changed.",
        ),
    }
    cases = [_results(*counts) for counts in ((3, 8, 2, 7), (10, 6, 1, 3), (5, 2, 7, 6))]
    return judge("McNemar", attempt, exact, cases, slips, praise="Only the problems that changed count.")


def _results(both, gained, lost, neither):
    pairs = [(1, 1)] * both + [(0, 1)] * gained + [(1, 0)] * lost + [(0, 0)] * neither
    before, after = np.array(pairs).T
    return before, after


def check_pairings(attempt):
    """Check `f(correct_before, correct_after, total)`: the smallest and largest p that two published counts leave open.

    >>> check_pairings(lambda before, after, total: ...)
    ○ what a claim leaves open: not attempted yet.
    """

    def extremes(before, after, total):
        values = [mcnemar_test(table.gained, table.lost) for table in pairings(before, after, total)]
        return min(values), max(values)

    def few_losses(before, after, total):
        return (mcnemar_test(max(after - before, 0), max(before - after, 0)),) * 2

    def any_losses(before, after, total):
        tables = [(after - before + lost, lost) for lost in range(max(0, before - after), before + 1)]
        values = [mcnemar_test(*table) for table in tables]
        return min(values), max(values)

    slips = {
        "no losses": (few_losses, "You take it that no problem was lost; some of the first model's right ones may be."),
        "room for losses": (
            any_losses,
            "A lost problem is wrong afterwards: there is room for total - correct_after of them and no more.",
        ),
        "turned round": (
            lambda before, after, total: extremes(before, after, total)[::-1],
            "Give the smallest p first, then the largest.",
        ),
    }
    cases = [(7, 27, 30), (8, 9, 30), (20, 26, 40), (12, 6, 20)]
    return judge("what a claim leaves open", attempt, extremes, cases, slips, praise="The worst case is the claim.")
