"""Exercise checks that need only numpy: advantages, the bandit's push, KL, groups without signal."""

import numpy as np

from grpo_lib.softmax_policy import bandit_advantages, kl_divergence, softmax
from grpo_lib.verdicts import judge

__all__ = [
    "check_bandit_advantages",
    "check_bandit_push",
    "check_centred_rewards",
    "check_kl_divergence",
    "check_leave_one_out",
    "check_zero_variance_share",
]

REWARDS = [(np.array([1.0, 0.0, 0.0, 1.0, 0.0]),), (np.array([2.0, 0.5, 1.0]),)]


def check_centred_rewards(attempt):
    """Check `f(rewards)`: each reward minus the mean of its group.

    >>> check_centred_rewards(lambda r: r - r.max()).slip
    'best reward'
    """
    slips = {
        "best reward": (lambda r: r - r.max(), "You subtract the best reward; subtract the group's mean."),
        "sum": (lambda r: r - r.sum(), "You subtract the sum; divide it by the number of rewards first."),
        "median": (lambda r: r - np.median(r), "You subtract the median; subtract the mean."),
        "sign": (lambda r: r.mean() - r, "The sign is turned: better than the mean must come out positive."),
        "divided": (bandit_advantages, "You also divide by the standard deviation; here only the mean is taken off."),
    }
    reference = lambda r: bandit_advantages(r, normalise=False)  # noqa: E731
    return judge("centred rewards", attempt, reference, REWARDS, slips, praise="They sum to 0.")


def _standardised(rewards, ddof=0, sign=1.0, centre=True):
    return sign * (rewards - (rewards.mean() if centre else 0.0)) / (rewards.std(ddof=ddof) + 1e-8)


def check_bandit_advantages(attempt):
    """Check `f(rewards)`: (r - mean) / population standard deviation, for rewards that are not all equal.

    >>> check_bandit_advantages(lambda r: (r - r.mean()) / r.std(ddof=1)).slip
    'sample std'
    """
    slips = {
        "sample std": (
            lambda r: _standardised(r, ddof=1),
            "You divide by the sample standard deviation; the bandit takes the population's, ddof=0.",
        ),
        "no division": (lambda r: r - r.mean(), "You subtract the mean but do not divide by the standard deviation."),
        "variance": (lambda r: (r - r.mean()) / r.var(), "You divide by the variance: take its square root."),
        "no centring": (lambda r: _standardised(r, centre=False), "You divide, but do not subtract the group's mean."),
        "sign": (
            lambda r: _standardised(r, sign=-1.0),
            "The sign is turned: a good reward needs a positive advantage.",
        ),
    }
    praise = "Mean 0 and standard deviation 1 within the group."
    return judge("bandit advantages", attempt, bandit_advantages, REWARDS, slips, praise=praise)


def _push(theta, words, advantages, onehot=1.0, probs=1.0, mean=False):
    total = sum(
        a * (onehot * np.eye(len(theta))[w] - probs * softmax(theta)) for w, a in zip(words, advantages, strict=True)
    )
    return total / len(words) if mean else total


def check_bandit_push(attempt):
    """Check `f(theta, words, advantages)`: the summed policy gradient, sum of A * (onehot(word) - softmax(theta)).

    >>> check_bandit_push(lambda theta, words, advantages: ...)
    ○ bandit push: not attempted yet.
    """
    theta = np.array([0.5, -0.1, 0.6, 1.5])
    cases = [(theta, np.array([0, 3, 3]), np.array([1.4, -0.7, -0.5])), (theta, np.array([2]), np.array([1.0]))]
    slips = {
        "no -pi": (
            lambda *a: _push(*a, probs=0.0),
            "You push the sampled word only. The gradient of log softmax also takes pi off every word.",
        ),
        "mean": (lambda *a: _push(*a, mean=True), "You average over the samples; the bandit sums over them."),
        "no advantage": (
            lambda theta, words, advantages: _push(theta, words, np.ones(len(words))),
            "Each word's gradient has to be weighted by its advantage.",
        ),
        "sign": (
            lambda *a: -_push(*a),
            "The sign is turned: theta climbs the objective, so it moves along the gradient.",
        ),
    }
    return judge("bandit push", attempt, _push, cases, slips, praise="It sums to 0: logits only trade places.")


def check_kl_divergence(attempt):
    """Check `f(p, q)`: KL(p‖q) = sum of p * log(p / q), in nats.

    >>> check_kl_divergence(lambda p, q: (q * np.log(q / p)).sum()).slip
    'direction'
    """
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.3, 0.4])
    slips = {
        "direction": (
            lambda p, q: kl_divergence(q, p),
            "This is KL(q‖p): the weights must be the first argument's, p.",
        ),
        "sign": (lambda p, q: -kl_divergence(p, q), "The sign is turned: a KL is never negative; it is log(p / q)."),
        "bits": (
            lambda p, q: kl_divergence(p, q) / np.log(2),
            "This is in bits (log2); the course counts in nats (log).",
        ),
        "no weights": (lambda p, q: np.log(p / q).sum(), "The logarithms need the weights p."),
    }
    return judge("KL divergence", attempt, kl_divergence, [(p, q), (q, p), (p, p)], slips, praise="And KL(p‖p) = 0.")


def check_zero_variance_share(attempt):
    """Check `f(rewards, num_generations)`: the share of groups whose rewards are all equal.

    >>> check_zero_variance_share(lambda rewards, num_generations: None)
    ○ share of zero-variance groups: not attempted yet.
    """
    cases = [
        (np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]), 4),
        (np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0]), 2),
    ]

    def share(rewards, num_generations):
        groups = rewards.reshape(-1, num_generations)
        return np.mean(groups.max(axis=1) == groups.min(axis=1))

    slips = {
        "only failures": (
            lambda r, g: np.mean(r.reshape(-1, g).max(axis=1) == 0),
            "Groups that are right throughout carry no signal either.",
        ),
        "count": (lambda r, g: share(r, g) * (len(r) // g), "This counts the groups; divide by their number."),
        "interleaved": (
            lambda r, g: np.mean(np.ptp(r.reshape(g, -1), axis=0) == 0),
            "A group is G rows in a row: reshape to (P, G), not to (G, P).",
        ),
        "complement": (lambda r, g: 1 - share(r, g), "This is the share of groups that do carry a signal."),
    }
    return judge("share of zero-variance groups", attempt, share, cases, slips, praise="These prompts teach nothing.")


def check_leave_one_out(attempt):
    """Check `f(rewards)`: each reward minus the mean of the *other* rewards of its group.

    >>> check_leave_one_out(lambda r: r - r.mean()).slip
    'own sample'
    """
    others = lambda r, share: r - (r.sum() - r) / (len(r) - share)  # noqa: E731
    slips = {
        "own sample": (
            lambda r: r - r.mean(),
            "The baseline still holds the sample itself: take the mean of the others.",
        ),
        "G for G - 1": (lambda r: others(r, 0), "You leave the sample out of the sum but divide by G; G - 1 are left."),
        "sum": (lambda r: r - (r.sum() - r), "You subtract the sum of the others; divide it by G - 1."),
        "sign": (lambda r: -others(r, 1), "The sign is turned: better than the others must come out positive."),
        "divided": (
            lambda r: bandit_advantages(r, baseline="loo"),
            "You also divide by the standard deviation; here only the baseline is taken off.",
        ),
    }
    reference = lambda r: bandit_advantages(r, normalise=False, baseline="loo")  # noqa: E731
    praise = "It is G / (G - 1) times as much as with the group's mean."
    return judge("leave-one-out advantages", attempt, reference, REWARDS, slips, praise=praise)
