"""Prompts of unequal length in one batch: padded on the left; and does the model read them as it should?"""

import warnings
import weakref

import torch

from grpo_lib.logprobs import _forward_arguments
from grpo_lib.masks import position_ids_from_mask
from grpo_lib.modes import evaluation_mode

__all__ = ["check_prompts_fit", "pad_left", "padding_gap", "warn_of_padding"]

_SEEN = weakref.WeakSet()


def check_prompts_fit(model, rows, new_tokens=0):
    """Refuse prompts that the model has no embedding or no position for, before an index runs out of range.

    Positions run out where they are rows of a table (GPT-2, OPT, GPT-J); rotary ones that are computed go on, past what
    the model was trained on.

    Args:
        rows: lists of token ids. new_tokens: T, how many may be sampled behind each.
    Raises:
        ValueError: naming the prompt, what it holds and what the model has.

    >>> from grpo_lib import load_tiny_policy
    >>> check_prompts_fit(load_tiny_policy()[0], [[5, 61]])
    Traceback (most recent call last):
    ValueError: prompt 0 holds the token id 61, and the model knows ids from 0 to 60: is the tokenizer another model's?
    """
    known = model.get_input_embeddings().weight.shape[0]
    places = _learned_positions(model)
    for row, ids in enumerate(rows):
        if not 0 <= min(ids) <= max(ids) < known:
            outside = next(token for token in ids if not 0 <= token < known)
            raise ValueError(
                f"prompt {row} holds the token id {outside}, and the model knows ids from 0 to {known - 1}: is the "
                "tokenizer another model's?"
            )
        if places is not None and len(ids) + new_tokens > places:
            raise ValueError(
                f"prompt {row} has {len(ids)} tokens and its completion may have {new_tokens}, together more than the "
                f"{places} positions of the model: lower max_completion_length, or leave such prompts out"
            )


def _learned_positions(model):
    """How many positions a model has a row for, learned or filled in at the start (GPT-J), or None without any."""
    places = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    tables = (module for module in model.modules() if isinstance(module, torch.nn.Embedding))
    tables = [table.num_embeddings for table in tables if table is not model.get_input_embeddings()]
    # OPT and BART keep two rows more than they have positions
    full = any(rows in (places, places + 2) for rows in tables)
    full = full or any(table.ndim == 2 and len(table) == places for table in model.buffers())
    return places if isinstance(places, int) and full else None


def pad_left(rows, pad_id, device=None):
    """Put rows of token ids into one batch, the shorter ones behind padding.

    Args:
        rows: B lists of ints, none empty. pad_id: fills the places in front.
    Returns:
        (ids, mask): (B, L) int64 each; the mask is 0 on padding. Rows go by place, whatever ids they hold.

    >>> pad_left([[5], [6, 7]], 0)
    (tensor([[0, 5],
            [6, 7]]), tensor([[0, 1],
            [1, 1]]))
    """
    length = max(len(row) for row in rows)
    ids = torch.tensor([[pad_id] * (length - len(row)) + row for row in rows], device=device)
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


def padding_gap(model, input_ids, attention_mask):
    """Measure how much padding on the left changes what a model predicts after a row: 0, but for rounding, is right.

    Args:
        model: a causal language model; dropout is off while it is looked at.
        input_ids, attention_mask: (1, L), with padding in front.
    Returns:
        float: the largest difference, over the vocabulary, of log-probs in nats.

    >>> from grpo_lib import load_tiny_policy
    >>> model, _ = load_tiny_policy()
    >>> padding_gap(model, torch.tensor([[0, 0, 5, 6, 7]]), torch.tensor([[0, 0, 1, 1, 1]])) < 1e-3
    True
    """
    real = attention_mask[0].bool()
    positions = "position_ids" in _forward_arguments(model)
    predicted = []
    with torch.no_grad(), evaluation_mode(model):
        for ids, mask in ((input_ids, attention_mask), (input_ids[:, real], attention_mask[:, real])):
            extra = {"position_ids": position_ids_from_mask(mask)} if positions else {}
            logits = model(input_ids=ids, attention_mask=mask, **extra).logits[0, -1]
            predicted.append(logits.float().log_softmax(-1))
    return (predicted[0] - predicted[1]).abs().max().item()


def warn_of_padding(model, input_ids, attention_mask):
    """Warn, once for a model, where padding on the left changes what it predicts.

    A model whose forward takes position_ids is right by `position_ids_from_mask`. Others count from the mask (OPT,
    BLOOM), pass padding over (Mamba) or get it wrong (the decoder of BART, RWKV): those are measured on the shortest
    row of the first batch that has padding.
    """
    padded = (attention_mask == 0).sum(dim=1)
    if not padded.any() or model in _SEEN or "position_ids" in _forward_arguments(model):
        return
    _SEEN.add(model)
    row = int(padded.argmax())
    half = torch.is_autocast_enabled(input_ids.device.type) or next(model.parameters()).dtype.itemsize < 4
    gap = padding_gap(model, input_ids[row : row + 1], attention_mask[row : row + 1])
    if not gap < (0.1 if half else 1e-3):
        warnings.warn(
            f"{type(model).__name__} reads a prompt differently when padding stands before it (log-probs off by up "
            f"to {gap:.2g} nats): its positions or its state count the padding. Use prompts of one length, or "
            "batch_size=1",
            stacklevel=3,
        )
