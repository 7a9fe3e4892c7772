"""How the tokens of a batch are averaged: one weight a token, the denominators of the loss family."""

import torch

from grpo_lib._arguments import check_choice, check_count, check_number, check_shapes

__all__ = ["WEIGHTINGS", "masked_mean", "token_weights"]

WEIGHTINGS = ("completion mean", "completion sum", "local mean", "global mean", "constant length")


def masked_mean(values, mask, dim=None):
    """Average over the tokens that count; where none counts the result is 0.

        sum(values · mask) / max(sum(mask), 1)

    What stands at a masked position does not matter, not even a NaN, neither here nor in the gradient.

    >>> masked_mean(torch.tensor([[0.2, 0.4, float("nan")]]), torch.tensor([[1, 1, 0]]))
    tensor(0.3000)
    """
    check_shapes(values=values, mask=mask)
    keep = mask.bool()
    values = torch.where(keep, values, torch.zeros_like(values))
    if dim is None:
        return values.sum() / keep.sum().clamp(min=1)
    return values.sum(dim=dim) / keep.sum(dim=dim).clamp(min=1)


def token_weights(mask, weighting, *, max_completion_length=None, num_items_in_batch=None, dtype=torch.float32):
    """Weigh each token, so that the loss of a batch is -sum(weight · objective).

        "completion mean"    1 / (B |o_b|)     each completion counts the same, a token of a long one less
        "completion sum"     1 / B             each token the same, a long completion more
        "local mean"         1 / sum_b |o_b|   each token the same, within these B completions
        "global mean"        1 / N             each token the same, also where these B are one part of a larger batch
        "constant length"    1 / (B L_max)     each token the same, whatever lengths the batch happens to have

    |o_b| counts the unmasked tokens of completion b, N those of the larger batch. A completion without any weighs
    nothing, but is one of the B.

    Source: Shao et al. 2024, DeepSeekMath, equation 3 (arXiv:2402.03300), for the first; Yu et al. 2025, DAPO
    (arXiv:2503.14476), for the global mean; Liu et al. 2025, Dr. GRPO (arXiv:2503.20783), for the last.

    Args:
        mask: (B, T), 1 for the tokens that count.
        weighting: one of `WEIGHTINGS`.
        max_completion_length: L_max, for "constant length": the length limit of sampling, at least T.
        num_items_in_batch: N, for "global mean"; None: these B completions are all.
        dtype: of the result, fp32 at least.
    Returns:
        (B, T), 0 where the mask is.
    Raises:
        ValueError: on another weighting or shape, or "constant length" without an L_max that covers every completion.

    >>> mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    >>> token_weights(mask, "completion mean")
    tensor([[0.2500, 0.2500, 0.0000, 0.0000],
            [0.1250, 0.1250, 0.1250, 0.1250]])
    >>> token_weights(mask, "constant length", max_completion_length=5)[1]
    tensor([0.1000, 0.1000, 0.1000, 0.1000])
    """
    check_choice("weighting", weighting, WEIGHTINGS)
    if mask.ndim != 2 or 0 in mask.shape:
        raise ValueError(f"mask must have shape (B, T), at least one token, got {tuple(mask.shape)}")
    rows, lengths = len(mask), mask.bool().sum(dim=1, keepdim=True)  # B, (B, 1); counted as integers
    keep = mask.bool().to(torch.promote_types(dtype, torch.float32))
    if weighting == "completion mean":
        return keep / lengths.clamp(min=1) / rows
    if weighting == "completion sum":
        return keep / rows
    if weighting in ("local mean", "global mean"):
        if num_items_in_batch is None or weighting == "local mean":
            return keep / lengths.sum().clamp(min=1)
        check_number("num_items_in_batch", num_items_in_batch, 0)
        if num_items_in_batch < lengths.sum():
            raise ValueError(
                f"num_items_in_batch = {num_items_in_batch} is less than the {int(lengths.sum())} tokens of this part"
            )
        return keep / max(num_items_in_batch, 1)
    if max_completion_length is None:
        raise ValueError(
            "dividing by a constant length (dr_grpo) needs max_completion_length, the length limit of sampling; got "
            "None. The batch's own longest completion will not do: it varies from batch to batch"
        )
    check_count("max_completion_length", max_completion_length, 1)
    if max_completion_length < lengths.max():
        raise ValueError(
            f"max_completion_length = {max_completion_length}, but a completion has {int(lengths.max())} tokens"
        )
    return keep / (rows * max_completion_length)
