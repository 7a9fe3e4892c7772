"""Exercise checks on claims: how much of a rise is form, how many problems it needs, picked here and reported there."""

import math

import numpy as np
from scipy.stats import norm

from grpo_lib.sample_size import unpaired_problems
from grpo_lib.verdicts import judge

__all__ = ["check_form_points", "check_picked_gain", "check_problems_needed"]

Z_TWO_SIDES, Z_POWER = norm.ppf(0.975), norm.ppf(0.8)  # 1.96 and 0.84


def check_form_points(attempt):
    """Check `f(strict_before, strict_after, lenient_before, lenient_after)`: how much of the strict rise is form.

    >>> check_form_points(lambda s_0, s_1, l_0, l_1: l_1 - l_0).slip
    'right numbers'
    """
    slips = {
        "right numbers": (
            lambda s_0, s_1, l_0, l_1: l_1 - l_0,
            "That is the lenient rise: the right numbers that are new. Form is what is left of the strict rise.",
        ),
        "before alone": (
            lambda s_0, s_1, l_0, l_1: l_0 - s_0,
            "That is what stood outside a tag before; what still does after training has not moved into one.",
        ),
        "after alone": (
            lambda s_0, s_1, l_0, l_1: l_1 - s_1,
            "That is what still stands outside a tag: take it off what stood there before.",
        ),
        "turned": (
            lambda s_0, s_1, l_0, l_1: (l_1 - l_0) - (s_1 - s_0),
            "Turned round: the strict rise less the lenient one.",
        ),
        "all of it": (lambda s_0, s_1, l_0, l_1: s_1 - s_0, "That is the whole strict rise."),
    }
    cases = [(0.298, 0.892, 0.390, 0.894), (0.017, 0.487, 0.383, 0.550), (0.2, 0.5, 0.2, 0.5), (0.1, 0.4, 0.6, 0.5)]
    return judge(
        "how much is form",
        attempt,
        lambda s_0, s_1, l_0, l_1: (s_1 - s_0) - (l_1 - l_0),
        cases,
        slips,
        praise="More than the whole rise where the lenient accuracy falls.",
    )


def check_problems_needed(attempt):
    """Check `f(before, after)`: problems for each of two models, unpaired, at 95 % and a power of 0.8, rounded up.

    >>> check_problems_needed(lambda before, after: 2 * unpaired_problems(before, after)).slip
    'for both'
    """

    def needed(before, after, z_1=Z_TWO_SIDES, z_2=Z_POWER, root=math.sqrt, up=math.ceil):
        mean = (before + after) / 2
        chance = z_1 * root(2 * mean * (1 - mean))
        there = z_2 * root(before * (1 - before) + after * (1 - after))
        return up(((chance + there) / (after - before)) ** 2)

    slips = {
        "half the time": (
            lambda *a: needed(*a, z_2=0.0),
            "Without the second term the difference is noticed half of the time: 0.84 makes it four times out of five.",
        ),
        "one-sided": (lambda *a: needed(*a, z_1=norm.ppf(0.95)), "1.645 is for one side; two sides at 95 % take 1.96."),
        "for both": (
            lambda *a: 2 * needed(*a),
            "That counts the problems of both models together; give those of each.",
        ),
        "no square": (
            lambda before, after: math.ceil(math.sqrt(needed(before, after, up=float))),
            "Square it: half the difference takes four times the problems.",
        ),
        "rounded down": (lambda *a: needed(*a, up=math.floor), "Round up: one problem fewer has too little power."),
        "no roots": (lambda *a: needed(*a, root=float), "z multiplies a standard deviation: take the roots."),
    }
    cases = [(0.5, 0.7), (0.2, 0.6), (0.9, 0.6), (0.3, 0.5), (0.05, 0.25)]
    praise = "Half the difference takes four times the problems."
    return judge("problems needed", attempt, unpaired_problems, cases, slips, praise=praise, rtol=1e-6)


def check_picked_gain(attempt):
    """Check `f(picking, reporting)`: pick a checkpoint on one set, report on another its gain over row 0, the start.

    >>> check_picked_gain(lambda picking, reporting: picking.mean(axis=1).max() - picking[0].mean()).slip
    'one set'
    """

    def gain(rows, best):
        return rows[best].mean() - rows[0].mean()

    def picked(rows):
        return rows.mean(axis=1).argmax()

    slips = {
        "one set": (
            lambda picking, reporting: gain(picking, picked(picking)),
            "You report on the set you picked on: that is the winner's curse itself.",
        ),
        "picked on the report": (
            lambda picking, reporting: gain(reporting, picked(reporting)),
            "You pick on the set you report on: look at it once, for the checkpoint that was picked elsewhere.",
        ),
        "the last": (
            lambda picking, reporting: gain(reporting, -1),
            "You report the last checkpoint; pick the one that is best on `picking`.",
        ),
        "no start": (
            lambda picking, reporting: reporting[picked(picking)].mean(),
            "That is its accuracy; take off the start's, on the same set.",
        ),
        "two sets": (
            lambda picking, reporting: reporting[picked(picking)].mean() - picking[0].mean(),
            "The start must be measured on the same problems: row 0 of `reporting`.",
        ),
    }
    draws = np.random.default_rng(3)
    cases = [
        tuple((draws.random((rows, n)) < level).astype(int) for n in (8, 20))
        for rows, level in ((4, 0.4), (6, 0.3), (5, 0.6))
    ]
    return judge(
        "picked, then reported",
        attempt,
        lambda picking, reporting: gain(reporting, picked(picking)),
        cases,
        slips,
        praise="It may well be below 0.",
    )
