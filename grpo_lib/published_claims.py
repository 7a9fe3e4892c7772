"""Judge a published claim from its counts alone: nobody says which problems changed."""

import numpy as np
from scipy.stats import fisher_exact

from grpo_lib._arguments import check_count
from grpo_lib.comparison import Comparison, PairedTable
from grpo_lib.intervals import wilson_interval

__all__ = ["compare_unpaired", "pairings"]


def compare_unpaired(correct_before, total_before, correct_after, total_after, confidence=0.95):
    """Compare two counts where nobody says which problems changed, or where the problems differ.

    The interval is Newcombe's, from the two Wilson intervals (l, u) of the shares p:

        low = d - √((p₂ - l₂)² + (u₁ - p₁)²),   high = d + √((u₂ - p₂)² + (p₁ - l₁)²),   d = p₂ - p₁

    The p-value is that of Fisher's exact test.

    Source: Newcombe 1998, Statistics in Medicine 17, 873-890, method 10
    (doi.org/10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I).

    Args:
        correct_before, total_before, correct_after, total_after: so many right of so many. confidence: as above.
    Returns:
        a `Comparison`.
    Raises:
        ValueError: on counts that do not fit.

    >>> compare_unpaired(8, 30, 9, 30)
    0.267 -> 0.300: +0.033 [-0.189, +0.251]  (p = 1)
    """
    low_1, high_1 = wilson_interval(correct_before, total_before, confidence)
    low_2, high_2 = wilson_interval(correct_after, total_after, confidence)
    before, after = correct_before / total_before, correct_after / total_after
    low = after - before - np.hypot(after - low_2, high_1 - before)
    high = after - before + np.hypot(high_2 - after, before - low_1)
    counts = [[correct_before, total_before - correct_before], [correct_after, total_after - correct_after]]
    return Comparison(before, after, float(low), float(high), float(fisher_exact(counts).pvalue))


def pairings(correct_before, correct_after, total):
    """List every paired table that two published counts on the same problems leave open.

    Args:
        correct_before, correct_after: right answers of the two models. total: the problems, the same for both.
    Returns:
        a list of `PairedTable`, the one with fewest losses first.
    Raises:
        ValueError: on counts that do not fit.

    >>> [(table.gained, table.lost) for table in pairings(7, 27, 30)]
    [(20, 0), (21, 1), (22, 2), (23, 3)]
    """
    check_count("total", total, 1)
    for name, count in (("correct_before", correct_before), ("correct_after", correct_after)):
        if check_count(name, count, 0) > total:
            raise ValueError(f"{name} must be at most total, got {count} of {total}")
    least, most = max(0, correct_before - correct_after), min(correct_before, total - correct_after)
    losses = range(least, most + 1)
    return [
        PairedTable(correct_before - lost, correct_after - correct_before + lost, lost, total - correct_after - lost)
        for lost in losses
    ]
