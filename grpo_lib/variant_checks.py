"""Exercise checks on the loss family: token weights, the sequence ratio, Dr. GRPO's advantages, CISPO's weight."""

from grpo_lib.bandit_checks import REWARDS
from grpo_lib.verdicts import judge

__all__ = ["check_cispo_weight", "check_dr_grpo_advantages", "check_sequence_ratio", "check_token_weights"]


def check_token_weights(attempt):
    """Check `f(mask, max_completion_length)`: token weights of [grpo, bnpo, dr_grpo, luspo], (4, B, T).

    >>> check_token_weights(lambda mask, limit: [mask / mask.sum()] * 4).slip
    'one for all'
    """
    import torch

    from grpo_lib.loss_weights import token_weights
    from grpo_lib.losses import LOSS_TYPES

    names = ("grpo", "bnpo", "dr_grpo", "luspo")

    def reference(mask, limit):
        return torch.stack([token_weights(mask, LOSS_TYPES[n][1], max_completion_length=limit) for n in names])

    def but(name, wrong):
        """The reference, with another formula for one of the four."""

        def slip(mask, limit):
            weights = reference(mask, limit)
            weights[names.index(name)] = wrong(mask.float(), limit)
            return weights

        return slip

    slips = {
        "padding counted": (
            lambda mask, limit: reference(torch.ones_like(mask), limit),
            "The padding is weighed too. A masked token has weight 0 and does not count in any length.",
        ),
        "one for all": (
            lambda mask, limit: reference(mask, limit)[[1, 1, 1, 1]],
            "All four are the same mean over the tokens: that is bnpo. The others divide differently.",
        ),
        "grpo without B": (
            but("grpo", lambda mask, limit: mask / mask.sum(dim=1, keepdim=True)),
            "grpo: this sums the completions' means; divide by their number as well.",
        ),
        "mean over positions": (
            but("grpo", lambda mask, limit: mask / mask.numel()),
            "grpo: you divide by all B · T positions, masked ones too. A completion's mean is over its own tokens.",
        ),
        "grpo by tokens": (
            but("grpo", lambda mask, limit: mask / mask.sum()),
            "grpo: one mean over all tokens is bnpo. Take the mean of each completion first, then over completions.",
        ),
        "bnpo by completion": (
            but("bnpo", lambda mask, limit: mask / mask.sum(dim=1, keepdim=True) / len(mask)),
            "bnpo: a mean per completion is grpo. Here every token of the batch counts the same.",
        ),
        "longest in the batch": (
            but("dr_grpo", lambda mask, limit: mask / mask.numel()),
            "dr_grpo: you divide by the longest completion of the batch. Take the length limit of sampling, which is "
            "the same in every batch.",
        ),
        "dr_grpo without B": (
            but("dr_grpo", lambda mask, limit: mask / limit),
            "dr_grpo: divide by the number of completions as well.",
        ),
        "luspo by length": (
            but("luspo", lambda mask, limit: mask / mask.sum(dim=1, keepdim=True) / len(mask)),
            "luspo: that is grpo's weight. Here a completion's length is not divided out again.",
        ),
        "luspo without B": (but("luspo", lambda mask, limit: mask), "luspo: it is still a mean over completions."),
    }
    mask = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])  # no two of B, T, lengths, limit agree
    other = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    praise = "Four denominators, as in the library."
    return judge("token weights", attempt, reference, [(mask, 11), (other, 9)], slips, praise=praise)


def check_sequence_ratio(attempt):
    """Check `f(log_probs, old_log_probs, mask)`: GSPO's ratio, one a completion, (B,).

    >>> check_sequence_ratio(lambda new, old, mask: ((new - old) * mask).sum(dim=1).exp()).slip
    'no root'
    """
    import torch

    from grpo_lib.surrogates import importance_ratio

    new = torch.tensor([[-1.0, -0.5, -2.0], [-0.3, -1.2, -0.7]])
    old = torch.tensor([[-1.3, -0.4, -2.9], [-0.1, -1.6, 0.0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])

    def mean(values, mask):
        return (values * mask).sum(dim=1) / mask.sum(dim=1)

    slips = {
        "no root": (
            lambda new, old, mask: ((new - old) * mask).sum(dim=1).exp(),
            "This is the ratio of the whole completions' probabilities. GSPO takes the |o|-th root: the mean of the "
            "log-ratios, not their sum.",
        ),
        "mean of ratios": (
            lambda new, old, mask: mean((new - old).exp(), mask),
            "You average the ratios. Average the log-ratios, then take exp: a geometric mean.",
        ),
        "padding counted": (
            lambda new, old, mask: (new - old).mean(dim=1).exp(),
            "Masked positions are in the mean; what stands there is not part of the completion.",
        ),
        "divided by T": (
            lambda new, old, mask: ((new - old) * mask).mean(dim=1).exp(),
            "The sum is right, but you divide by T; divide by the completion's own length.",
        ),
        "log-ratio": (lambda new, old, mask: mean(new - old, mask), "This is the logarithm of it: take exp."),
        "upside down": (
            lambda new, old, mask: mean(old - new, mask).exp(),
            "The ratio is upside down: π is above, π_old below.",
        ),
    }
    reference = lambda new, old, mask: importance_ratio(new, old, mask, "sequence")[:, 0]  # noqa: E731
    praise = "One ratio a completion, on the scale of one token."
    return judge("sequence ratio", attempt, reference, [(new, old, mask)], slips, praise=praise)


def check_dr_grpo_advantages(attempt):
    """Check `f(rewards)` for one group, (G,) → (G,): Dr. GRPO's advantages, r - mean.

    >>> check_dr_grpo_advantages(lambda r: (r - r.mean()) / (r.std() + 1e-4)).slip
    'divided'
    """
    import torch

    from grpo_lib.advantages import group_advantages

    cases = [(torch.tensor(case[0], dtype=torch.float32),) for case in REWARDS]
    slips = {
        "divided": (
            lambda r: group_advantages(r, len(r)),
            "You divide by the standard deviation: that is GRPO. Dr. GRPO leaves the size of the differences alone.",
        ),
        "leave-one-out": (
            lambda r: group_advantages(r, len(r), scale="none", baseline="loo"),
            "You subtract the mean of the others: that is RLOO, larger by G / (G - 1).",
        ),
        "sum": (lambda r: r - r.sum(), "You subtract the sum of the rewards; subtract their mean."),
        "sign": (lambda r: r.mean() - r, "The sign is turned: a good reward needs a positive advantage."),
    }
    reference = lambda r: group_advantages(r, len(r), scale="none")  # noqa: E731
    return judge("Dr. GRPO's advantages", attempt, reference, cases, slips, praise="The mean off, and nothing else.")


def check_cispo_weight(attempt):
    """Check `f(ratio, advantages, epsilon_high)`: what CISPO multiplies log π with, (T,), (T,), a number → (T,).

    >>> check_cispo_weight(lambda ratio, A, high: ratio * A).slip
    'no cap'
    """
    import torch

    from grpo_lib.clipping import surrogate_value

    ratio = torch.tensor([0.5, 0.9, 1.1, 1.5, 0.5, 0.9, 1.1, 1.5])
    advantages = torch.tensor([2.0] * 4 + [-0.5] * 4)

    slips = {
        "cut, not capped": (
            lambda ratio, A, high: torch.where(surrogate_value(ratio, A, 0.8, 1 + high)[1], 0.0, ratio * A),
            "This is what the clip leaves: 0 beyond the range. CISPO caps the weight and lets every token push.",
        ),
        "clipped below": (
            lambda ratio, A, high: ratio.clip(1 - high, 1 + high) * A,
            "The cap is on the upper side only: a token that became rare keeps its small weight.",
        ),
        "minimum": (
            lambda ratio, A, high: torch.minimum(ratio * A, ratio.clip(max=1 + high) * A),
            "No minimum here: the cap holds for both signs of A.",
        ),
        "no cap": (lambda ratio, A, high: ratio * A, "There is no cap: the ratio counts up to 1 + ε_high."),
        "capped at ε": (lambda ratio, A, high: ratio.clip(max=high) * A, "The cap is 1 + ε_high, not ε_high."),
        "no advantage": (lambda ratio, A, high: ratio.clip(max=1 + high), "The advantage is missing."),
    }
    reference = lambda ratio, A, high: ratio.clip(max=1 + high) * A  # noqa: E731
    praise = "A number: no gradient flows through it."
    return judge("CISPO's weight", attempt, reference, [(ratio, advantages, 0.28)], slips, praise=praise)
