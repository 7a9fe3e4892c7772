"""Which tokens count: the completion mask, the truncation flag, the position ids of a padded batch."""

import torch

__all__ = ["create_completion_mask", "position_ids_from_mask", "truncated_completions"]


def create_completion_mask(completion_ids, eos_token_id):
    """Mark the tokens of each completion up to and including its first end token.

        mask[b, t] = 1  if  t <= position of the first end token in row b,  else 0

    The end token is *in*: it is what teaches the model to stop. The rule goes by position, never by comparing with
    the padding id, so it is right even when padding and end token share one id. A row without an end token was cut at
    the length limit and is all ones (see `truncated_completions`).

    Args:
        completion_ids: (B, T) token ids.
        eos_token_id: an int, a list of ints (several end tokens), or None (there is none: all ones).
    Returns:
        (B, T) int64, 0 or 1.
    Raises:
        TypeError, ValueError: if completion_ids is not a (B, T) tensor of integers, or an end token is not an int.

    >>> create_completion_mask(torch.tensor([[5, 6, 2, 2, 2], [5, 6, 7, 8, 9]]), eos_token_id=2)
    tensor([[1, 1, 1, 0, 0],
            [1, 1, 1, 1, 1]])
    """
    ends = _is_end_token(completion_ids, eos_token_id)
    ended_before = ends.cumsum(dim=1) - ends.long()  # (B, T) end tokens strictly before each position
    return (ended_before == 0).long()


def truncated_completions(completion_ids, eos_token_id):
    """Mark the completions that hold no end token: they were cut at the length limit.

    Args:
        completion_ids: (B, T) token ids.
        eos_token_id: an int, a list of ints, or None (then nothing can end, and every row counts as cut).
    Returns:
        (B,) bool.
    Raises:
        TypeError, ValueError: as for `create_completion_mask`.

    >>> truncated_completions(torch.tensor([[5, 6, 2, 2], [5, 6, 7, 8]]), eos_token_id=[2, 3])
    tensor([False,  True])
    """
    return ~_is_end_token(completion_ids, eos_token_id).any(dim=1)


def position_ids_from_mask(attention_mask):
    """Count positions from the first real token of each row, whatever padding stands before it.

        position[b, l] = max(sum(mask[b, :l + 1]) - 1, 0)

    Models with learned positions (GPT-2) score a left-padded row wrongly by nats without this.

    Args:
        attention_mask: (B, L), 1 for a real token and 0 for padding.
    Returns:
        (B, L) int64.

    >>> position_ids_from_mask(torch.tensor([[0, 0, 1, 1, 1]]))
    tensor([[0, 0, 0, 1, 2]])
    """
    return (attention_mask.long().cumsum(dim=-1) - 1).clamp(min=0)


def _is_end_token(completion_ids, eos_token_id):
    whole = isinstance(completion_ids, torch.Tensor) and not completion_ids.is_floating_point()
    if not whole or completion_ids.is_complex() or completion_ids.dtype == torch.bool:
        raise TypeError(f"completion_ids must be a tensor of token ids (integers), got {_describe(completion_ids)}")
    if completion_ids.ndim != 2:
        raise ValueError(f"completion_ids must have shape (B, T), got {tuple(completion_ids.shape)}")
    if eos_token_id is None:
        return torch.zeros_like(completion_ids, dtype=torch.bool)
    ends = eos_token_id.tolist() if hasattr(eos_token_id, "tolist") else eos_token_id  # of torch and numpy
    ends = list(ends) if isinstance(ends, (list, tuple, set, frozenset)) else [ends]
    for end in ends:
        if isinstance(end, bool) or not hasattr(end, "__index__"):
            raise TypeError(f"eos_token_id must be an int, a list of ints or None, got {eos_token_id!r}")
    ends = [int(end) for end in ends if -(2**63) <= int(end) < 2**63]  # no row can hold the others
    ends = torch.tensor(ends, dtype=torch.long, device=completion_ids.device)
    return torch.isin(completion_ids.long(), ends)  # an end token may lie outside the range of a small dtype


def _describe(value):
    return f"dtype {value.dtype}" if isinstance(value, torch.Tensor) else type(value).__name__
