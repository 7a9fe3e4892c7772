"""Exercise checks on where the bandit rests: its place, the smallest beta, the largest rate, groups large enough."""

from dataclasses import dataclass

import numpy as np

from grpo_lib.resting_points import critical_beta, resting_point
from grpo_lib.softmax_policy import kl_gradient, softmax, zero_variance_probability
from grpo_lib.verdicts import judge

__all__ = ["check_critical_beta", "check_group_size", "check_largest_rate", "check_resting_point"]


def check_resting_point(attempt):
    """Check `f(ref, rewards, beta)`: pi_k = ref_k exp(r_k / beta), made to sum to 1.

    >>> check_resting_point(lambda ref, rewards, beta: ref * np.exp(rewards / beta)).slip
    'sum'
    """
    cases = [(np.array([0.2, 0.1, 0.7]), np.array([1.0, 0.0, 0.0]), 0.5)]
    cases += [(np.array([0.3, 0.3, 0.2, 0.2]), np.array([2.0, -1.0, 0.5, 0.0]), 1.6)]

    def rest(ref, rewards, beta):
        return resting_point(ref, rewards, beta, normalise=False)[0].probs

    def tilt(ref, power):
        return ref * np.exp(power) / (ref * np.exp(power)).sum()

    slips = {
        "sum": (lambda ref, r, beta: ref * np.exp(r / beta), "It does not sum to 1: divide by the sum."),
        "times beta": (
            lambda ref, r, beta: tilt(ref, r * beta),
            "The exponent is r / beta, not r * beta: a larger beta must hold the policy closer to ref.",
        ),
        "sign": (lambda ref, r, beta: tilt(ref, -r / beta), "The sign is turned: words that pay must gain."),
        "no ref": (lambda ref, r, beta: softmax(r / beta), "ref is missing: the pull is towards it, not to uniform."),
    }
    return judge("resting point", attempt, rest, cases, slips, praise="The learning rate does not stand in it.")


@dataclass(frozen=True, eq=False)
class _MeanUpdate:
    """Expected push + pull of G samples, leave-one-out, not divided; a class so that a verdict can name it."""

    ref: np.ndarray
    rewards: np.ndarray
    beta: float
    G: int

    def __call__(self, theta):
        pi = softmax(theta)
        push = pi * (self.rewards - pi @ self.rewards)
        return self.G * (push - self.beta * kl_gradient(theta, self.ref))

    def __repr__(self):
        return f"the update of a bandit with rewards {self.rewards.tolist()}, beta {self.beta:g}, G = {self.G}"


def _slopes(update, theta, h=1e-5):
    """(K, K): how much each update falls for each logit that rises, by central differences."""
    nudges = h * np.eye(len(theta))
    return -np.array([(update(theta + nudge) - update(theta - nudge)) / (2 * h) for nudge in nudges])


def check_largest_rate(attempt):
    """Check `f(update, theta)`: 2 / s, s the steepest slope of `update` at rest (its Jacobian's largest -eigenvalue).

    >>> check_largest_rate(lambda update, theta: ...)
    ○ largest learning rate: not attempted yet.
    """
    cases = []
    for ref, rewards, beta, G in (
        ([0.2, 0.1, 0.2, 0.5], [1, 0, 0, 0], 1.0, 20),
        ([0.3, 0.3, 0.4], [2, -1, 0.5], 1.6, 4),
    ):
        ref, rewards = np.array(ref), np.array(rewards, dtype=float)
        [point] = resting_point(ref, rewards, beta, normalise=False)
        cases.append((_MeanUpdate(ref, rewards, beta, G), np.log(point.probs)))

    def steepness(update, theta):
        return np.sort(np.linalg.eigvals(_slopes(update, theta)).real)

    slips = {
        "1 / s": (lambda *a: 1 / steepness(*a)[-1], "At 1 / s a step lands on the rest; it is unstable above 2 / s."),
        "smallest": (lambda *a: 2 / steepness(*a)[1], "This is the flattest direction; the steepest blows up first."),
        "sum": (lambda *a: 2 / steepness(*a).sum(), "You add the slopes up; each direction stands alone: the largest."),
        "diagonal": (
            lambda *a: 2 / np.diag(_slopes(*a)).max(),
            "You nudge each logit and look at its own update only; take the eigenvalues of the whole table.",
        ),
        "sign": (lambda *a: -2 / steepness(*a)[-1], "The sign is turned: the slopes are negative, a rate is not."),
    }
    reference = lambda *a: 2 / steepness(*a)[-1]  # noqa: E731
    return judge("largest learning rate", attempt, reference, cases, slips, praise="With twice the G it is half of it.")


def check_critical_beta(attempt):
    """Check `f(p_ref)`: the smallest beta at which a run with divided advantages can rest, one word paying 1.

        min over p > p_ref of (1 / sqrt(p (1 - p))) / (logit(p) - logit(p_ref))

    >>> check_critical_beta(lambda p_ref: ...)
    ○ smallest beta that rests: not attempted yet.
    """
    u = np.linspace(1e-4, 30, 300_001)  # distances in log-odds

    def needed(p_ref, power=0.5, start=1.0):
        odds = np.exp(u + start * np.log(p_ref / (1 - p_ref)))
        p = odds / (1 + odds)
        return p, 1 / (p * (1 - p)) ** power / u

    def place(p_ref):
        p, beta = needed(p_ref)
        return p[beta.argmin()]

    slips = {
        "the place": (place, "This is the P(ant) at which the smallest beta rests; give back that beta."),
        "no reference": (
            lambda p_ref: needed(p_ref, start=0.0)[1].min(),
            "The distance is counted from the start: subtract the log-odds of p_ref.",
        ),
        "variance": (
            lambda p_ref: needed(p_ref, power=1.0)[1].min(),
            "You divide by the variance p (1 - p); the standard deviation is its square root.",
        ),
        "sign of the start": (
            lambda p_ref: needed(p_ref, start=-1.0)[1].min(),
            "You add the log-odds of p_ref; the distance is a difference.",
        ),
    }
    reference = lambda p_ref: critical_beta(np.array([p_ref, 1 - p_ref]), np.array([1.0, 0.0]))  # noqa: E731
    cases = [(0.182,), (0.05,), (0.6,)]
    praise = "Below it the push wins everywhere: a slider that ends there seems dead."
    return judge("smallest beta that rests", attempt, reference, cases, slips, praise=praise, rtol=1e-3)


def check_group_size(attempt):
    """Check `f(p, share)`: the smallest G >= 2 for which at most `share` of the groups teach nothing.

    >>> check_group_size(lambda p, share: ...)
    ○ group size: not attempted yet.
    """

    def smallest(silent, share):
        return next(G for G in range(2, 10_000) if silent(G) <= share)

    def reference(p, share):
        return smallest(lambda G: zero_variance_probability(p, G), share)

    slips = {
        "only failures": (
            lambda p, share: smallest(lambda G: (1 - p) ** G, share),
            "Groups that are right throughout teach nothing either: add p^G.",
        ),
        "only successes": (
            lambda p, share: smallest(lambda G: p**G, share),
            "Groups that are wrong throughout teach nothing either: add (1 - p)^G.",
        ),
        "one short": (
            lambda p, share: reference(p, share) - 1,
            "One too small: there more than `share` of the groups are still silent.",
        ),
        "one too many": (lambda p, share: reference(p, share) + 1, "One less would do as well."),
    }
    praise = "The further p is from one half, the larger the group has to be."
    cases = [(0.182, 0.1), (0.9, 0.5), (0.5, 0.05)]
    return judge("group size", attempt, reference, cases, slips, praise=praise)
