"""Exercise checks on masks: cut completions, masks of a sequence, means and lengths. Only a call loads torch."""

from grpo_lib.verdicts import judge

__all__ = ["check_completion_means", "check_lengths", "check_sequence_masks", "check_truncated"]


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


def check_sequence_masks(attempt):
    """Check `f(prompt_mask, completion_ids, eos_token_id)` → [attention mask, loss mask], each (B, L + T).

    >>> check_sequence_masks(lambda prompt_mask, completion_ids, eos_token_id: None)
    ○ attention and loss mask: not attempted yet.
    """
    import torch

    from grpo_lib.masks import create_completion_mask

    prompt_mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    ids = torch.tensor([[5, 2, 2, 4], [5, 6, 7, 8]])

    def masks(prompt, ids, eos, *, read=None, counted=None, before=None):
        mask = create_completion_mask(ids, eos)
        before, counted = (0 * prompt if before is None else before), (mask if counted is None else counted)
        return torch.stack(
            [torch.cat([prompt, mask if read is None else read], dim=1), torch.cat([before, counted], dim=1)]
        )

    slips = {
        "one for both": (
            lambda prompt, ids, eos: masks(prompt, ids, eos, before=prompt),
            "Both are the attention mask. In the loss mask the prompt's tokens are 0: the policy did not choose them.",
        ),
        "turned": (
            lambda prompt, ids, eos: masks(prompt, ids, eos).flip(0),
            "The two have changed places: first the attention mask, then the loss mask.",
        ),
        "prompt not read": (
            lambda prompt, ids, eos: masks(prompt, ids, eos)[[1, 1]],
            "Both are the loss mask. The model must look at the prompt: in the attention mask its tokens are 1.",
        ),
        "all of it read": (
            lambda prompt, ids, eos: masks(torch.ones_like(prompt), ids, eos, before=0 * prompt),
            "The attention mask is 1 on the prompt's padding: the model would read it as text.",
        ),
        "prompt padding counted": (
            lambda prompt, ids, eos: masks(prompt, ids, eos, before=1 - prompt),
            "The loss counts the prompt's padding: every prompt position must be 0 there, token or padding.",
        ),
        "end token left out": (
            lambda prompt, ids, eos: masks(prompt, ids, eos, counted=create_completion_mask(ids, eos) * (ids != eos)),
            "The loss leaves the end token out: the policy chose it, and without it the model never learns to stop.",
        ),
        "by id": (
            lambda prompt, ids, eos: masks(prompt, ids, eos, counted=(ids != eos).long()),
            "The loss mask compares with the end token's id: what stands after the first one is out, whatever its id.",
        ),
        "padding counted": (
            lambda prompt, ids, eos: masks(prompt, ids, eos, counted=torch.ones_like(ids)),
            "The loss counts what stands after the end token: it must be 0.",
        ),
    }
    praise = "Read: prompt and completion. Counted: what the policy chose."
    return judge("attention and loss mask", attempt, masks, [(prompt_mask, ids, 2)], slips, praise=praise)


def check_lengths(attempt):
    """Check `f(completion_ids, eos_token_ids)` → [mean length, share cut, mean length of the finished completions].

    >>> check_lengths(lambda ids, eos: [ids.shape[1], 0.0, ids.shape[1]]).right
    False
    """
    import torch

    from grpo_lib.masks import create_completion_mask, truncated_completions

    ids = torch.tensor(
        [[5, 6, 2, 0, 0, 0], [5, 6, 7, 8, 9, 9], [5, 1, 0, 0, 0, 0], [3, 4, 5, 6, 7, 2], [2, 0, 0, 0, 0, 0]]
    )

    def measured(ids, eos, mask=None):
        mask = create_completion_mask(ids, eos) if mask is None else mask
        cut, lengths = truncated_completions(ids, eos), mask.sum(dim=1).float()
        return torch.stack([lengths.mean(), cut.float().mean(), lengths[~cut].mean()])

    def loss_s_mask(ids, eos):
        kept = create_completion_mask(ids, eos) * ~truncated_completions(ids, eos)[:, None]
        return measured(ids, eos, kept)

    slips = {
        "the loss's mask": (
            loss_s_mask,
            "A completion that was cut counts with length 0: take lengths from the completion mask, not from a mask "
            "with the cut ones taken out.",
        ),
        "columns": (
            lambda ids, eos: measured(ids, eos, torch.ones_like(ids)),
            "You count columns: what stands after the end is no part of a completion.",
        ),
        "end token left out": (
            lambda ids, eos: measured(ids, eos, create_completion_mask(ids, eos) * ~torch.isin(ids, torch.tensor(eos))),
            "The end token is a token of the completion: it counts in the length.",
        ),
        "first end token only": (
            lambda ids, eos: measured(ids, eos[:1]),
            "Any of the end tokens ends a completion, not only the first of the list.",
        ),
        "share finished": (
            lambda ids, eos: (measured(ids, eos) - torch.tensor([0, 1, 0])) * torch.tensor([1, -1, 1]),
            "The second number is the share that was finished: turn it around.",
        ),
        "divided by all": (
            lambda ids, eos: torch.cat([measured(ids, eos)[:2], loss_s_mask(ids, eos)[:1]]),
            "The third number is the mean of the finished ones: divide by their number, not by B.",
        ),
    }
    praise = "Two lengths and the share cut: together they show what one mean length hides."
    return judge("lengths", attempt, measured, [(ids, [2, 1])], slips, praise=praise)
