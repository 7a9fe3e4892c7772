"""Did it help? Two models on the same problems: the paired table, McNemar's test, the paired bootstrap."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from grpo_lib._arguments import check_count
from grpo_lib.intervals import check_confidence, redrawn_interval

__all__ = [
    "Comparison",
    "PairedTable",
    "compare_paired",
    "mcnemar_test",
    "paired_bootstrap",
    "paired_table",
]

RESAMPLES = 5000


@dataclass(frozen=True)
class PairedTable:
    """How N problems fared under two models. both, neither: right, wrong twice; gained: wrong, then right; lost."""

    both: int
    gained: int
    lost: int
    neither: int

    @property
    def total(self):
        return self.both + self.gained + self.lost + self.neither


@dataclass(frozen=True)
class Comparison:
    """Accuracy before and after, their difference with its interval (low, high), and the p-value of no difference."""

    before: float
    after: float
    low: float
    high: float
    p_value: float

    @property
    def difference(self):
        return self.after - self.before

    def __repr__(self):
        told = f"{self.before:.3f} -> {self.after:.3f}: {self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        return f"{told}  (p = {self.p_value:.2g})"


def paired_table(before, after):
    """Sort the problems into the four cells of the paired table.

    Args:
        before, after: (N,) right or wrong of each problem, in the same order.
    Returns:
        a `PairedTable`.
    Raises:
        ValueError: on different lengths, no problem, or a value that is neither right nor wrong.

    >>> paired_table([1, 1, 0, 0, 0], [1, 0, 1, 1, 0])
    PairedTable(both=1, gained=2, lost=1, neither=1)
    """
    before, after = _pair(before, after)
    for name, values in (("before", before), ("after", after)):
        if not np.isin(values, (0, 1)).all():
            other = values[~np.isin(values, (0, 1))][0]
            raise ValueError(f"{name} must hold 0 or 1 (wrong or right) for each problem, got {other:g}")
    cells = [(before == b) & (after == a) for b, a in ((1, 1), (0, 1), (1, 0), (0, 0))]
    return PairedTable(*(int(cell.sum()) for cell in cells))


def mcnemar_test(gained, lost):
    """Return the exact p-value of McNemar's test: had nothing changed, gains and losses would be a coin's tosses.

        p = P(a fair coin's gained + lost tosses split at least as unevenly)

    Problems with the same outcome twice say nothing about the difference, and do not enter.

    Source: McNemar 1947, Psychometrika 12, 153-157 (doi.org/10.1007/BF02295996); the exact form is the sign test.

    Args:
        gained: problems wrong before and right after. lost: right before and wrong after.
    Returns:
        the two-sided p-value; 1.0 if no problem changed.
    Raises:
        ValueError: on a count that is no whole number >= 0.

    >>> round(mcnemar_test(gained=8, lost=2), 4)
    0.1094
    """
    check_count("gained", gained, 0)
    check_count("lost", lost, 0)
    if gained + lost == 0:
        return 1.0
    return float(binomtest(int(gained), int(gained + lost)).pvalue)


def paired_bootstrap(before, after, confidence=0.95, *, seed=0):
    """Return after - before and its interval: problems are redrawn, and each brings both of its results along.

    Source: Efron 1979, The Annals of Statistics 7, 1-26 (doi.org/10.1214/aos/1176344552); the percentile method of
    `scipy.stats.bootstrap(paired=True)`.

    Args:
        before, after: (N,) scores of the same problems: right or wrong, or the share of n samples that is right.
        confidence: of the interval. seed: of the redrawing.
    Returns:
        (difference, low, high).
    Raises:
        ValueError: on different lengths, fewer than two problems, or a score that is not finite.

    >>> [round(number, 3) for number in paired_bootstrap([0, 0, 0, 1] * 25, [1, 0, 0, 1] * 25)]
    [0.25, 0.17, 0.34]
    """
    before, after = _pair(before, after)
    check_confidence(confidence)
    if len(before) < 2:
        raise ValueError("a bootstrap over problems needs at least 2 problems, got 1")
    difference = after - before
    if np.ptp(difference) == 0:  # every resample is the same
        return (float(difference[0]),) * 3
    gain = lambda x, y, axis: y.mean(axis=axis) - x.mean(axis=axis)  # noqa: E731
    return float(difference.mean()), *redrawn_interval((before, after), gain, confidence, seed, RESAMPLES)


def compare_paired(before, after, confidence=0.95, *, seed=0):
    """Compare two models on the same problems: paired bootstrap and exact McNemar.

    Args:
        before, after: (N,) right or wrong of each problem, in the same order. The rest: as in `paired_bootstrap`.
    Returns:
        a `Comparison`.
    Raises:
        ValueError: as in `paired_table` and `paired_bootstrap`.

    >>> compare_paired([0, 0, 0, 1] * 25, [1, 0, 0, 1] * 25)
    0.250 -> 0.500: +0.250 [+0.170, +0.340]  (p = 6e-08)
    """
    table = paired_table(before, after)
    _, low, high = paired_bootstrap(before, after, confidence, seed=seed)
    shares = [(table.both + more) / table.total for more in (table.lost, table.gained)]
    return Comparison(*shares, low, high, mcnemar_test(table.gained, table.lost))


def _pair(before, after):
    """Two (N,) float arrays, N >= 1, checked."""
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if before.ndim != 1 or before.shape != after.shape or not len(before):
        raise ValueError(
            "before and after must be one value a problem, of the same problems in the same order, "
            f"got shapes {before.shape} and {after.shape}"
        )
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise ValueError("before and after must be finite")
    return before, after
