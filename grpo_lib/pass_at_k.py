"""pass@k: would one of k samples have been right?"""

import numpy as np
from scipy.stats import hypergeom

from grpo_lib._arguments import check_count

__all__ = ["pass_at_k"]


def pass_at_k(num_correct, num_samples, k):
    """Estimate without bias, for each problem, the chance that at least one of k samples is right.

        1 - C(n - c, k) / C(n, k)          # the share of all choices of k from the n samples with a right one

    The hypergeometric distribution, from scipy. The mean over problems is pass@k. The plain 1 - (1 - c/n)^k is biased:
    on the average it is too small (k > 1).

    Source: Chen et al. 2021, Evaluating Large Language Models Trained on Code, section 2.1 (arXiv:2107.03374).

    Args:
        num_correct: (N,) right samples of each problem, c, or one number. num_samples: samples a problem, n.
        k: 1 to n.
    Returns:
        (N,) float array (or one float), 0 to 1.
    Raises:
        ValueError: if k is larger than n, or a count is no whole number from 0 to n.

    >>> pass_at_k([0, 1, 4], 4, 2)
    array([0. , 0.5, 1. ])
    """
    c, n = _check_counts(num_correct, num_samples, k)
    return hypergeom.sf(0, n, c, k)  # k of n drawn, c of them right: more than 0 right ones


def _check_counts(num_correct, num_samples, k):
    n = check_count("num_samples", num_samples, 1)
    if check_count("k", k, 1) > n:
        raise ValueError(f"k must be at most num_samples, got k = {k} of {n} samples: draw more samples a problem")
    c = np.asarray(num_correct)
    if not np.issubdtype(c.dtype, np.number) or (c != np.floor(c)).any() or (c < 0).any() or (c > n).any():
        raise ValueError(f"num_correct must be whole numbers from 0 to num_samples = {n}, got {num_correct!r}")
    return c, n
