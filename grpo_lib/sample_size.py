"""How many problems a claim needs: the power of a comparison, and the number that reaches it."""

import math

import numpy as np
from scipy.stats import binom, norm

from grpo_lib._arguments import check_count

__all__ = ["paired_power", "paired_problems", "unpaired_power", "unpaired_problems"]

MOST_PROBLEMS = 200_000


def unpaired_power(before, after, num_problems, alpha=0.05):
    """Return the chance to notice a difference, each model on its own `num_problems` problems.

        Φ((|d| √n - z₁ √(2 p̄ (1 - p̄))) / √(p₁ (1 - p₁) + p₂ (1 - p₂))),   z₁ = Φ⁻¹(1 - α/2)    # normal approximation

    Source: Fleiss, Levin and Paik 2003, Statistical Methods for Rates and Proportions, 3rd edition, chapter 4
    (doi.org/10.1002/0471445428), without the continuity correction.

    Args:
        before, after: the true accuracies p₁, p₂. num_problems: n, for each model.
        alpha: how often a difference may be claimed where there is none.
    Returns:
        the power, 0 to 1, of the two-sided z-test with pooled variance.
    Raises:
        ValueError: on accuracies outside 0 to 1 or equal ones.

    >>> round(unpaired_power(0.5, 0.6, 388), 2)
    0.8
    """
    n = check_count("num_problems", num_problems, 1)
    z, pooled, spread = _unpaired(before, after, alpha)
    if spread == 0:
        return 1.0
    return float(norm.cdf((abs(after - before) * math.sqrt(n) - z * pooled) / spread))


def unpaired_problems(before, after, power=0.8, alpha=0.05):
    """Return how many problems each model needs, on problems of its own, to notice a difference.

        n = ((z₁ √(2 p̄ (1 - p̄)) + z₂ √(p₁ (1 - p₁) + p₂ (1 - p₂))) / (p₂ - p₁))²,   z₂ = Φ⁻¹(power), rounded up

    Args:
        power: the chance to notice it. The rest: as in `unpaired_power`, whose inverse this is.

    >>> unpaired_problems(0.5, 0.6)
    388
    """
    _check_share("power", power)
    z, pooled, spread = _unpaired(before, after, alpha)
    return max(1, math.ceil(((z * pooled + norm.ppf(power) * spread) / (after - before)) ** 2 - 1e-9))


def paired_power(gained, lost, num_problems, alpha=0.05):
    """Return the chance that McNemar's exact test notices a difference, both models on the same problems.

        Σ_m P(m of n problems change) · P(the split of m is uneven enough for p <= α),    m ~ Binomial(n, gained + lost)

    Args:
        gained: the share of problems that go from wrong to right. lost: from right to wrong. The difference of the
            accuracies is gained - lost.
        num_problems: n. alpha: as in `unpaired_power`.
    Returns:
        the power, 0 to 1.
    Raises:
        ValueError: on shares below 0, that add up to more than 1, or are equal.

    >>> round(paired_power(0.15, 0.05, 168), 2)
    0.8
    """
    _check_shares(gained, lost, alpha)
    n, changed = check_count("num_problems", num_problems, 1), gained + lost
    likely = binom.ppf([1e-12, 1 - 1e-12], n, changed)  # the m outside add nothing that floats could hold
    m = np.arange(int(likely[0]), int(likely[1]) + 1)
    tail = binom.ppf(alpha / 2, m, 0.5)
    tail = np.where(binom.cdf(tail, m, 0.5) <= alpha / 2, tail, tail - 1)  # at most so many on the rarer side
    rejected = binom.cdf(tail, m, gained / changed) + binom.sf(m - tail - 1, m, gained / changed)
    return float(binom.pmf(m, n, changed) @ np.where(tail < 0, 0.0, rejected))


def paired_problems(gained, lost, power=0.8, alpha=0.05):
    """Return how many problems are needed, the same for both models, for McNemar's exact test to notice.

    Found by bisection of `paired_power`. (Counts are whole, so the exact power wavers by a hair from n to n + 1.)

    Args:
        power: the chance to notice it. The rest: as in `paired_power`.
    Returns:
        n.
    Raises:
        ValueError: as in `paired_power`, or if more than 200,000 problems would be needed.

    >>> paired_problems(0.15, 0.05)
    168
    """
    _check_share("power", power)
    _check_shares(gained, lost, alpha)
    low, high = 0, 1
    while paired_power(gained, lost, high, alpha) < power:
        low, high = high, 2 * high
        if high > MOST_PROBLEMS:
            raise ValueError(f"more than {MOST_PROBLEMS} problems: gained {gained} and lost {lost} differ too little")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if paired_power(gained, lost, middle, alpha) >= power else (middle, high)
    return high


def _unpaired(before, after, alpha):
    _check_share("alpha", alpha)
    for name, value in (("before", before), ("after", after)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be an accuracy from 0 to 1, got {value!r}")
    if before == after:
        raise ValueError(f"before and after are both {before}: no number of problems shows a difference of 0")
    mean = (before + after) / 2
    spread = math.sqrt(before * (1 - before) + after * (1 - after))
    return norm.ppf(1 - alpha / 2), math.sqrt(2 * mean * (1 - mean)), spread


def _check_share(name, value):
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")


def _check_shares(gained, lost, alpha):
    _check_share("alpha", alpha)
    if not (gained >= 0 and lost >= 0 and gained + lost <= 1):
        raise ValueError(f"gained and lost must be shares >= 0 with a sum of at most 1, got {gained!r} and {lost!r}")
    if gained == lost:
        raise ValueError(f"gained and lost are both {gained}: no number of problems shows a difference of 0")
