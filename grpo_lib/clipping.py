"""The clipped surrogate's value, for numpy arrays and torch tensors alike; neither needs the other."""

import numpy as np

from grpo_lib._arguments import check_number

__all__ = ["clip_bounds", "surrogate_value"]


def clip_bounds(clip):
    """The range of ratios that the clip leaves alone.

        None → (0, inf),   epsilon → (1 - epsilon, 1 + epsilon),   (low, high) → (1 - low, 1 + high)

    Source: Schulman et al. 2017, PPO, equation 7 (arXiv:1707.06347); a pair, Yu et al. 2025, DAPO (arXiv:2503.14476).

    Args:
        clip: epsilon, 0 < epsilon < 1; a pair (low, high) of such numbers, high without an upper limit; or None.
    Returns:
        (smallest, largest) ratio.
    Raises:
        ValueError: on anything else.

    >>> clip_bounds((0.2, 0.28))
    (0.8, 1.28)
    """
    if clip is None:
        return 0.0, np.inf
    low, high = clip if isinstance(clip, (tuple, list)) and len(clip) == 2 else (clip, clip)
    rule = ". clip is None, one number epsilon, or a pair (low, high)"
    low, high = (check_number("clip", bound, 0, inclusive=False, why=rule) for bound in (low, high))
    if low >= 1:
        raise ValueError(f"clip's lower epsilon must be below 1, got {low!r}: ratios are positive{rule}")
    return 1 - low, 1 + high


def surrogate_value(ratio, advantages, low, high):
    """PPO's pessimistic minimum: the gain for moving with the advantage.

        min(ratio · A, clip(ratio, low, high) · A),   a minimum for either sign of A

    Where the clip cuts, the value no longer depends on the ratio, and the gradient is 0: for A > 0 above `high`, for
    A < 0 below `low`.

    Source: Schulman et al. 2017, PPO, equation 7 (arXiv:1707.06347).

    Args:
        ratio, advantages: arrays or tensors of shapes that fit each other, ratio = π / π_old > 0.
        low, high: the smallest and the largest ratio that are left alone, as `clip_bounds` returns them.
    Returns:
        (value, clipped): what is to be maximised, and True where the clip cuts.

    >>> value, clipped = surrogate_value(np.array([1.5, 1.5, 0.5, 0.5]), np.array([1, -1, 1, -1]), 0.8, 1.2)
    >>> value, clipped
    (array([ 1.2, -1.5,  0.5, -0.8]), array([ True, False, False,  True]))
    """
    free = ratio * advantages
    bound = ratio.clip(low, high) * advantages
    if hasattr(free, "minimum"):  # a tensor
        return free.minimum(bound), bound < free
    return np.minimum(free, bound), bound < free
