"""Exercise checks on a run: what its habits explain, which setting wrote a log, a beta that is steered."""

import numpy as np

from grpo_lib.verdicts import judge

__all__ = ["check_habits_alone", "check_next_beta", "check_run_names", "unnamed_logs"]

ASKED = ("beta = 2", "G = 2", "lr = 1e-3", "lr = 3e-5")
CHOICES = ("base", "lr = 3e-5", "lr = 1e-3", "beta = 2", "G = 2")
NAMES = [1 + CHOICES.index(name) for name in ASKED]
LOGGED = ("reward_mean", "completion_length", "kl_median", "zero_variance")


def check_habits_alone(attempt):
    """Check `f(before, right, after)`: the accuracy if each habit were used as often as after, and as good as before.

    >>> check_habits_alone(lambda before, right, after: right.sum() / before.sum()).slip
    'shares of before'
    """
    slips = {
        "shares of before": (
            lambda before, right, after: right.sum() / before.sum(),
            "That is the accuracy before: the habits' shares have not moved. Weigh their rates with `after`.",
        ),
        "unweighted": (
            lambda before, right, after: (right / before).mean(),
            "You take the plain mean of the habits' rates: a habit counts as often as it is used after training.",
        ),
        "counts for rates": (
            lambda before, right, after: (after * right).sum() / after.sum(),
            "`right` holds counts: divide by how often the habit was used before, and you have its rate.",
        ),
        "rates over after": (
            lambda before, right, after: (right / after * before).sum() / before.sum(),
            "Before and after are exchanged: rates are right / before, their weights are after.",
        ),
        "a sum": (
            lambda before, right, after: (right / before * after).sum(),
            "That is the number of right answers; divide by all completions after training.",
        ),
    }
    cases = [
        tuple(np.array(row, dtype=float) for row in table)
        for table in (
            ([94, 237, 169], [91, 58, 0], [490, 8, 2]),
            ([10, 40, 50], [9, 10, 1], [120, 60, 20]),
            ([25, 75], [20, 15], [30, 10]),
        )
    ]
    return judge(
        "habits alone",
        attempt,
        lambda before, right, after: (right / before * after).sum() / after.sum(),
        cases,
        slips,
        praise="What differs from this was learned, or lost, inside a habit.",
    )


def unnamed_logs(seed=2, steps=(10, 50, 100, 200)):
    """Four stored runs without a name: for each a list of rows, the mean of the ten steps up to each of `steps`.

    >>> len(unnamed_logs()), list(unnamed_logs()[0][0])
    (4, ['step', 'reward_mean', 'completion_length', 'kl_median', 'zero_variance'])
    """
    from grpo_lib.stored_runs import load_stored_runs

    logs = [load_stored_runs(name)[seed]["steps"] for name in ASKED]

    def row(log, step):
        return {"step": step, **{key: float(np.mean([r[key] for r in log[step - 10 : step]])) for key in LOGGED}}

    return [[row(log, step) for step in steps] for log in logs]


def check_run_names(attempt):
    """Check `f()` → for each of the four `unnamed_logs` the number of its setting among `CHOICES`, from 1.

    >>> check_run_names(lambda: [2, 5, 3, 4]).slip
    'A and D'
    """
    slips = {
        "A and D": (
            lambda: [2, 5, 3, 4],
            "A and D are exchanged. Both learn little, but D's KL still grows at the end: it is slow. A's rests.",
        ),
        "B is the base": (
            lambda: [4, 1, 3, 2],
            "B: two thirds of its groups are equal at the start. With eight completions of a prompt that is rare.",
        ),
        "C is slow": (
            lambda: [4, 5, 2, 3],
            "C and D are exchanged: C has long completions by step 50, then its reward goes to 0. Slow it is not.",
        ),
        "C is held": (
            lambda: [3, 5, 4, 2],
            "A and C are exchanged: a large beta keeps the KL small, and C's is the largest of the four.",
        ),
    }
    known = [slip() for slip, _ in slips.values()] + [NAMES]

    def letters(value):
        found = [int(number) for number in value] if np.shape(value) == (4,) else None
        if found is not None and found not in known:
            off = [letter for letter, a, b in zip("ABCD", found, NAMES, strict=True) if a != b]
            told = "Is the KL held, slow, or gone? What share of groups is equal at the start?"
            raise ValueError(f"Not yet found: {', '.join(off)}. {told}")
        return value

    praise = "Held by beta; groups too small; steps too large; steps too small."
    return judge("whose log", attempt, lambda: list(NAMES), [()], slips, praise=praise, measure=letters)


def check_next_beta(attempt):
    """Check `f(kl, target, beta)`: beta (1 + 0.1 e), with e = (kl - target) / target held between -0.2 and 0.2.

    Source: Ziegler et al. 2019, Fine-Tuning Language Models from Human Preferences, section 2.2 (arXiv:1909.08593).

    >>> check_next_beta(lambda kl, target, beta: beta * (1 + 0.1 * (kl / target - 1))).slip
    'no bounds'
    """

    def held(kl, target):
        return min(max(kl / target - 1, -0.2), 0.2)

    slips = {
        "no bounds": (
            lambda kl, target, beta: beta * (1 + 0.1 * (kl / target - 1)),
            "Hold e between -0.2 and 0.2: k3 spikes, and one step would change beta many times over.",
        ),
        "turned": (
            lambda kl, target, beta: beta * (1 - 0.1 * held(kl, target)),
            "Turned round: where the KL is above its target, beta must grow.",
        ),
        "not relative": (
            lambda kl, target, beta: beta * (1 + 0.1 * min(max(kl - target, -0.2), 0.2)),
            "The error is relative, (kl - target) / target: a KL of 0.06 against 0.03 is twice too far.",
        ),
        "added": (
            lambda kl, target, beta: beta + 0.1 * held(kl, target),
            "Multiply beta; added, the step is as large for a beta of 0.01 as for one of 10, and beta may pass 0.",
        ),
        "no gain": (lambda kl, target, beta: beta * (1 + held(kl, target)), "Take a tenth of e, not e itself."),
    }
    cases = [(0.033, 0.03, 0.5), (0.028, 0.03, 0.5), (0.3, 0.03, 2.0), (0.0, 0.05, 0.1), (0.05, 0.05, 1.0)]
    reference = lambda kl, target, beta: beta * (1 + 0.1 * held(kl, target))  # noqa: E731
    praise = "A beta of 0 stays 0: start above it."
    return judge("next beta", attempt, reference, cases, slips, praise=praise)
