"""Checks for the exercises: each says what is right, or names the usual slip.

    def my_advantages(rewards): ...
    checks.check_bandit_advantages(my_advantages)

An exercise that is still `...` reads as "not attempted yet". The reference is always the library's own function.
"""

import numpy as np

from grpo_lib.softmax_policy import bandit_advantages, kl_divergence, softmax
from grpo_lib.verdicts import judge

__all__ = [
    "check_bandit_advantages",
    "check_bandit_push",
    "check_completion_mask",
    "check_group_advantages",
    "check_k3",
    "check_kl_divergence",
    "check_token_log_probs",
    "check_zero_variance_share",
]

REWARDS = [(np.array([1.0, 0.0, 0.0, 1.0, 0.0]),), (np.array([2.0, 0.5, 1.0]),)]


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


def check_group_advantages(attempt):
    """Check `f(rewards)` for one group of a language model: (r - mean) / (sample standard deviation + 1e-4).

    >>> check_group_advantages(lambda r: r - r.mean()).slip
    'no division'
    """
    import torch

    from grpo_lib.advantages import group_advantages

    cases = [(torch.tensor(case[0], dtype=torch.float32),) for case in REWARDS]
    slips = {
        "population std": (
            lambda r: (r - r.mean()) / (r.std(correction=0) + 1e-4),
            "You divide by the population standard deviation; the language-model part takes the sample's.",
        ),
        "no division": (lambda r: r - r.mean(), "You subtract the mean but do not divide by the standard deviation."),
        "sign": (
            lambda r: -group_advantages(r, len(r)),
            "The sign is turned: a good reward needs a positive advantage.",
        ),
    }
    reference = lambda r: group_advantages(r, len(r))  # noqa: E731
    return judge("group advantages", attempt, reference, cases, slips, praise="As in the library.", rtol=1e-3)


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


def check_k3(attempt):
    """Check `f(log_probs, ref_log_probs)`: k3 = exp(d) - d - 1 with d = ref_log_probs - log_probs.

    >>> check_k3(lambda new, ref: (new - ref).exp() - (new - ref) - 1).slip
    'sign of d'
    """
    import torch

    from grpo_lib.losses import kl_estimate

    cases = [(torch.tensor([-1.0, -2.0, -0.3]), torch.tensor([-1.5, -0.5, -0.3]))]
    slips = {
        "sign of d": (
            lambda new, ref: kl_estimate(ref, new),
            "d is turned: take log π_ref - log π. Near 0 both look alike; further out they do not.",
        ),
        "k1": (lambda new, ref: new - ref, "This is k1: right on average, but it can be negative."),
        "k2": (lambda new, ref: (new - ref).square() / 2, "This is k2: never negative, but biased."),
        "no -1": (lambda new, ref: kl_estimate(new, ref) + 1, "At equal log-probs k3 must be 0: the -1 is missing."),
    }
    return judge("k3", attempt, kl_estimate, cases, slips, praise="Never negative, and 0 only where both agree.")


def check_completion_mask(attempt):
    """Check `f(completion_ids, eos_token_id)`: 1 up to and including the first end token, then 0; (B, T).

    >>> check_completion_mask(lambda ids, eos: (ids != eos).long()).slip
    'by id'
    """
    import torch

    from grpo_lib.masks import create_completion_mask

    ids = torch.tensor([[5, 6, 2, 2, 2], [5, 6, 7, 8, 9], [2, 4, 4, 2, 4]])
    mask = create_completion_mask
    slips = {
        "end token cut off": (
            lambda ids, eos: mask(ids, eos) * (ids != eos),
            "The first end token itself must count: without it the model never learns to stop.",
        ),
        "by id": (
            lambda ids, eos: (ids != eos).long(),
            "You compare with the id alone. What stands after the first end token is out, whatever its id.",
        ),
        "nothing masked": (lambda ids, eos: torch.ones_like(ids), "Tokens after the first end token must be 0."),
        "truncated row dropped": (
            lambda ids, eos: mask(ids, eos) * (ids == eos).any(dim=1, keepdim=True),
            "A row without an end token was cut at the length limit: all its tokens count.",
        ),
    }
    return judge("completion mask", attempt, mask, [(ids, 2)], slips, praise="The end token is in, all after it out.")


def check_token_log_probs(attempt):
    """Check `f(logits, input_ids, num_completion_tokens)`: log-probs of the last tokens, (B, L + T, V) → (B, T).

    >>> check_token_log_probs(lambda x, ids, n: x.log_softmax(-1)[:, -n:].gather(-1, ids[:, -n:, None])[..., 0])
    ✗ token log-probs: not yet. Off by one: the logits at one position predict the next token, so shift them by one.
    """
    import torch

    from grpo_lib.logprobs import selective_log_softmax

    logits = torch.sin(torch.arange(60.0)).view(2, 6, 5) * 2
    ids = torch.tensor([[0, 1, 2, 3, 4, 0], [4, 3, 1, 0, 2, 2]])

    def reference(logits, ids, n):
        return selective_log_softmax(logits[:, -n - 1 : -1], ids[:, -n:])

    def pick(values, ids):
        return values.gather(-1, ids[..., None])[..., 0]

    slips = {
        "off by one": (
            lambda logits, ids, n: selective_log_softmax(logits[:, -n:], ids[:, -n:]),
            "Off by one: the logits at one position predict the next token, so shift them by one.",
        ),
        "not normalised": (
            lambda logits, ids, n: pick(logits[:, -n - 1 : -1], ids[:, -n:]),
            "These are logits: subtract the log-sum-exp over the vocabulary.",
        ),
        "probabilities": (
            lambda logits, ids, n: reference(logits, ids, n).exp(),
            "These are probabilities: take their logarithm.",
        ),
        "normalised over positions": (
            lambda logits, ids, n: pick(logits.log_softmax(1)[:, -n - 1 : -1], ids[:, -n:]),
            "The softmax runs over the positions; it must run over the vocabulary (dim=-1).",
        ),
    }
    return judge(
        "token log-probs", attempt, reference, [(logits, ids, 3)], slips, praise="All at most 0, as they must."
    )


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
