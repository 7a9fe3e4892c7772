"""Where a number of a live panel is drawn: ranges from 0, round ticks, few points; what is not finite leaves a gap."""

import math
from bisect import bisect_left

__all__ = ["drawable", "pieces", "round_ticks", "value_range"]

MOST_POINTS = 300  # a curve; there are fewer pixels than that
LARGEST = 1e300  # differences of numbers beyond it overflow


def drawable(value):
    """Whether a value has a place on an axis: measured, finite, and not absurdly large.

    >>> [drawable(value) for value in (0.5, None, float("inf"), float("nan"))]
    [True, False, False, False]
    """
    return value is not None and abs(value) < LARGEST  # false for NaN as well


def pieces(steps, values, most=MOST_POINTS):
    """The points (step, value) of a curve, cut where a value is not drawable; at most `most` of them, and few enough.

    A long curve is told by the least and the greatest value of each of `most` / 2 stretches, so that no spike is lost.

    >>> pieces([1, 2, 3, 4], [0.5, 0.6, float("inf"), 0.7])
    [[(1, 0.5), (2, 0.6)], [(4, 0.7)]]
    """
    points, gaps, cut = [], [], []
    for step, value in zip(steps, values, strict=True):
        if drawable(value):
            points.append((step, value))
        else:
            gaps.append(step)
    before = None
    for point in _thinned(points, most):
        passed = bisect_left(gaps, point[0])
        if passed != before:
            cut.append([])
        cut[-1].append(point)
        before = passed
    return cut


def value_range(columns):
    """From 0, or from the least value below it, to the greatest value drawn.

    >>> value_range([[0.2, None, 3.0], [float("inf"), -1.0]])
    (-1.0, 3.0)
    """
    values = [value for column in columns for value in column if drawable(value)]
    low, high = min([0.0, *values]), max([0.0, *values])
    return (low, high) if high - low > 1e-9 else (low, low + 1.0)


def round_ticks(low, high, about=3):
    """Round numbers, 1, 2, 2.5 or 5 times a power of ten apart, that cover what lies between low and high.

    >>> round_ticks(0, 0.83), round_ticks(1, 150)
    ([0.0, 0.5, 1.0], [0.0, 50.0, 100.0, 150.0])
    """
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    gap = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [round(i * gap, 10) for i in range(math.floor(low / gap + 1e-9), math.ceil(high / gap - 1e-9) + 1)]


def _thinned(points, most):
    """Of each stretch the least and the greatest, in their order, and the newest point."""
    if len(points) <= most:
        return points
    stretch = math.ceil(len(points) / (most // 2 - 1))
    kept = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]
