"""Exercise checks on scoring: position ids of a padded batch, perplexity of a completion. Only a call loads torch."""

from grpo_lib.verdicts import judge

__all__ = ["check_perplexity", "check_position_ids"]


def check_position_ids(attempt):
    """Check `f(attention_mask)`: positions counted from each row's first real token; (B, L) → (B, L).

    >>> check_position_ids(lambda mask: mask.cumsum(dim=-1)).slip
    'counted from 1'
    """
    import torch

    from grpo_lib.masks import position_ids_from_mask

    mask = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    slips = {
        "padding counted": (
            lambda mask: torch.arange(mask.shape[1]).expand_as(mask),
            "Every row gets 0, 1, 2, …: the padding is counted. Count the real tokens only.",
        ),
        "counted from 1": (
            lambda mask: mask.cumsum(dim=-1),
            "The first real token stands at 0, not at 1: take one off.",
        ),
        "below 0": (
            lambda mask: mask.cumsum(dim=-1) - 1,
            "Padding gets -1, which is no row of a table of positions: raise it to 0.",
        ),
        "shifted by one padding": (
            lambda mask: (torch.arange(mask.shape[1]) - (mask == 0).any(dim=-1, keepdim=True).long()).clamp(min=0),
            "You shift a padded row by 1, whatever its padding: shift it by the number of its padding tokens.",
        ),
    }
    praise = "Each row counts from its own first token."
    return judge("position ids", attempt, position_ids_from_mask, [(mask,)], slips, praise=praise)


def check_perplexity(attempt):
    """Check `f(log_probs, completion_mask)`: exp of minus the mean log-prob of a row's own tokens; (B, T) → (B,).

    >>> check_perplexity(lambda log_probs, mask: (-log_probs.mean(dim=-1)).exp()).slip
    'padding counted'
    """
    import torch

    log_probs = torch.tensor([[-0.5, -1.0, -0.25, -0.1], [-2.0, -0.2, -5.0, -7.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])

    def mean(log_probs, mask):
        return (log_probs * mask).sum(-1) / mask.sum(-1)

    slips = {
        "padding counted": (
            lambda log_probs, mask: (-log_probs.mean(-1)).exp(),
            "The padding counts too. Take each row's own tokens only: multiply by the mask.",
        ),
        "divided by T": (
            lambda log_probs, mask: (-(log_probs * mask).mean(-1)).exp(),
            "You divide by T: divide by the number of tokens in the row's mask.",
        ),
        "sum": (
            lambda log_probs, mask: (-(log_probs * mask).sum(-1)).exp(),
            "This is one over the probability of the whole completion: take the mean of the log-probs, not their sum.",
        ),
        "sign": (
            lambda log_probs, mask: mean(log_probs, mask).exp(),
            "This is at most 1, and a perplexity at least: there is a minus before the mean.",
        ),
        "mean of probabilities": (
            lambda log_probs, mask: 1 / mean(log_probs.exp(), mask),
            "You average probabilities: average the log-probs, then take the exponential.",
        ),
    }
    praise = "At least 1, as it must be."
    return judge(
        "perplexity",
        attempt,
        lambda log_probs, mask: (-mean(log_probs, mask)).exp(),
        [(log_probs, mask)],
        slips,
        praise=praise,
    )
