"""How sure a figure is: an interval for a share, for a mean over problems, for a mean over seeds."""

import statistics

import numpy as np
from scipy.stats import binomtest, bootstrap, t

from grpo_lib._arguments import check_count

__all__ = ["mean_interval", "problem_interval", "wilson_interval"]

RESAMPLES = 2000


def wilson_interval(correct, total, confidence=0.95):
    """Return the Wilson interval of a share: which true accuracies fit so many right of so many.

        (p + z² / 2n ± z √(p (1 - p) / n + z² / 4n²)) / (1 + z² / n),        p = correct / total, n = total

    It stays inside 0 to 1 and has a width even at 0 or n right, where p ± z √(p (1 - p) / n) has none.

    Source: Wilson 1927, JASA 22, 209-212 (doi.org/10.1080/01621459.1927.10502953).

    Args:
        correct: right answers, 0 to total. total: independent problems, each answered once.
        confidence: of the interval.
    Returns:
        (low, high).
    Raises:
        ValueError: on counts that do not fit, or a confidence outside 0 to 1.

    >>> [round(end, 3) for end in wilson_interval(7, 30)]
    [0.118, 0.409]
    """
    check_count("total", total, 1)
    if check_count("correct", correct, 0) > total:
        raise ValueError(f"correct must be at most total, got {correct} of {total}")
    check_confidence(confidence)
    interval = binomtest(int(correct), int(total)).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def problem_interval(scores, confidence=0.95, *, seed=0):
    """Return the mean of one score a problem and its bootstrap interval over problems.

    For scores that are no yes or no: the share of n samples that is right, or pass@k. The samples of one problem are
    no n independent problems; so problems are redrawn, each with all its samples.

    Source: Efron 1979, The Annals of Statistics 7, 1-26 (doi.org/10.1214/aos/1176344552); the percentile method.

    Args:
        scores: (N,) one number a problem. confidence: of the interval. seed: of the redrawing.
    Returns:
        (mean, low, high).
    Raises:
        ValueError: on fewer than two problems, or a score that is not finite.

    >>> [round(number, 2) for number in problem_interval([0.0, 1.0, 0.5, 0.5] * 25)]
    [0.5, 0.43, 0.57]
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 1 or len(scores) < 2 or not np.isfinite(scores).all():
        raise ValueError(f"scores must be one finite number a problem, at least 2 problems, got shape {scores.shape}")
    check_confidence(confidence)
    if np.ptp(scores) == 0:  # every resample is the same
        return (float(scores[0]),) * 3
    return float(scores.mean()), *redrawn_interval((scores,), np.mean, confidence, seed, RESAMPLES)


def redrawn_interval(samples, statistic, confidence, seed, resamples):
    """The percentile bootstrap of a statistic of one or more samples of the same N problems: (low, high)."""
    interval = bootstrap(
        samples,
        statistic,
        paired=len(samples) > 1,
        vectorized=True,
        n_resamples=resamples,
        batch=200,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def mean_interval(values):
    """Return the mean over S seeds and its 95 % t-interval: what another set of seeds would have given, give or take.

        mean ± t(0.975, S - 1) * s / sqrt(S)                # s: the sample standard deviation

    Source: Student 1908, Biometrika 6, 1-25 (doi.org/10.1093/biomet/6.1.1).

    Args:
        values: S >= 2 numbers, one a seed.
    Returns:
        (mean, low, high); low and high are not held inside a share's 0 to 1.
    Raises:
        ValueError: on fewer than two values: one run has no spread.

    >>> [round(number, 3) for number in mean_interval([0.90, 0.92, 0.94])]
    [0.92, 0.87, 0.97]
    """
    if len(values) < 2:
        raise ValueError(f"an interval over seeds needs at least 2 values, got {len(values)}")
    mean = statistics.fmean(values)
    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def check_confidence(confidence):
    """Raise ValueError unless `confidence` lies strictly between 0 and 1.

    >>> check_confidence(95)
    Traceback (most recent call last):
    ValueError: confidence must lie between 0 and 1 (0.95 for 95 %), got 95
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1 (0.95 for 95 %), got {confidence!r}")
