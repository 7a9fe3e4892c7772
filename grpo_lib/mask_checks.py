"""Exercise checks on masks: which completions were cut, and a mean over what counts. Only a call loads torch."""

from grpo_lib.verdicts import judge

__all__ = ["check_completion_means", "check_truncated"]


def check_truncated(attempt):
    """Check `f(completion_ids, eos_token_ids)`: which completions hold none of the end tokens; (B,) of 0 or 1.

    >>> check_truncated(lambda ids, eos: ids[:, -1] != eos[0]).slip
    'last token'
    """
    import torch

    from grpo_lib.masks import create_completion_mask, truncated_completions

    # padded, ended at the limit, cut, ended by the second end token, junk after the end, end token alone
    rows = [[5, 6, 2, 0, 0], [5, 6, 7, 8, 2], [5, 6, 7, 8, 9], [5, 1, 0, 0, 0], [5, 2, 9, 9, 9], [2, 0, 0, 0, 0]]
    ids = torch.tensor(rows)
    slips = {
        "last token": (
            lambda ids, eos: ids[:, -1] != eos[0],
            "You look at the last position only: a completion that ended early has padding there.",
        ),
        "by length": (
            lambda ids, eos: create_completion_mask(ids, eos).sum(dim=1) == ids.shape[1],
            "A completion whose end token is its last token fills the row too, and it was not cut.",
        ),
        "first end token only": (
            lambda ids, eos: truncated_completions(ids, eos[0]),
            "Any of the end tokens ends a completion, not only the first of the list.",
        ),
        "turned": (
            lambda ids, eos: ~truncated_completions(ids, eos),
            "These are the finished ones: turn it around.",
        ),
    }
    praise = "Cut is what holds no end token."
    return judge("truncated completions", attempt, truncated_completions, [(ids, [2, 1])], slips, praise=praise)


def check_completion_means(attempt):
    """Check `f(values, mask)`: the mean of each completion's counted tokens, 0 where none counts; (B, T) → (B,).

    >>> check_completion_means(lambda values, mask: values.nan_to_num().mul(mask).mean(dim=1)).slip
    'padding in the denominator'
    """
    import torch

    from grpo_lib.losses import masked_mean

    nan = float("nan")
    plain = torch.tensor([[0.2, 0.4, 0.9], [0.3, 0.6, 0.9], [0.5, 0.7, 0.7]])
    dirty = torch.tensor([[0.2, 0.4, nan], [0.3, 0.6, 0.9], [0.5, nan, 9.0]])
    some, none = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]]), torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 0]])
    cases = [(plain, some), (dirty, some), (plain, none)]

    def reference(values, mask):
        return masked_mean(values, mask, dim=1)

    def total(values, mask):
        return torch.where(mask.bool(), values, 0.0).sum(dim=1)

    slips = {
        "padding in the denominator": (
            lambda values, mask: total(values, mask) / mask.shape[1],
            "You divide by T. The mean is over the tokens that count: divide by the sum of the mask.",
        ),
        "NaN times 0": (
            lambda values, mask: (values * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1),
            "NaN · 0 is NaN: take masked values out (torch.where) instead of multiplying them by 0.",
        ),
        "0 / 0": (
            lambda values, mask: total(values, mask) / mask.sum(dim=1),
            "A completion of which no token counts gives 0 / 0: divide by at least 1.",
        ),
        "NaN times 0 and 0 / 0": (
            lambda values, mask: (values * mask).sum(dim=1) / mask.sum(dim=1),
            "Two things give NaN here: NaN · 0 (use torch.where), and 0 / 0 where no token counts.",
        ),
        "no mask": (lambda values, mask: values.mean(dim=1), "The masked tokens count too: use the mask."),
    }
    return judge("completion means", attempt, reference, cases, slips, praise="Padding of any kind leaves no trace.")
