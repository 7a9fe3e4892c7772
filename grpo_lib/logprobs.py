"""The log-probability of each completion token under a model, in little memory."""

import inspect

import torch

from grpo_lib._arguments import check_count, check_number
from grpo_lib.masks import position_ids_from_mask

__all__ = ["compute_log_probs", "selective_log_softmax"]


def selective_log_softmax(logits, input_ids, *, temperature=1.0):
    """Take the log-probability of one token at each position.

        log p(y_t) = logits[t, y_t] - log(sum_v exp(logits[t, v]))        # logits divided by the temperature

    Goes through the batch row by row, forward and backward, so that a second (B, T, V) tensor never exists except for
    the gradient itself; beside it there is one (T, V) to work in. The sum runs in fp32 (in fp64 for fp64 logits),
    whatever the dtype of the logits.

    Args:
        logits: (B, T, V), any floating dtype.
        input_ids: (B, T), the tokens whose log-probability is wanted, 0 <= id < V.
        temperature: divides the logits, > 0.
    Returns:
        (B, T) log-probabilities in nats, fp32 (fp64 for fp64 logits), all <= 0.
    Raises:
        ValueError: if the shapes do not fit. TypeError: if the logits are not floating point.

    >>> selective_log_softmax(torch.tensor([[[2.0, 1.0, 0.0]]]), torch.tensor([[0]]))
    tensor([[-0.4076]])
    """
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating point, got dtype {logits.dtype}")
    if logits.ndim != 3 or tuple(input_ids.shape) != tuple(logits.shape[:2]):
        raise ValueError(
            f"logits must have shape (B, T, V) and input_ids (B, T), got {tuple(logits.shape)} and "
            f"{tuple(input_ids.shape)}"
        )
    check_number("temperature", temperature, 0, inclusive=False)
    return _SelectiveLogSoftmax.apply(logits, input_ids, float(temperature))


class _SelectiveLogSoftmax(torch.autograd.Function):
    """d log p(y) / d logits = (onehot(y) - softmax(logits / T)) / T, row by row, with one row to work in."""

    @staticmethod
    def forward(ctx, logits, input_ids, temperature):
        dtype = torch.promote_types(logits.dtype, torch.float32)
        work = torch.empty_like(logits[0], dtype=dtype)  # (T, V)
        log_z = torch.stack([_log_sum_exp_(work.copy_(row).div_(temperature)) for row in logits])  # (B, T)
        chosen = logits.gather(-1, input_ids[..., None]).squeeze(-1).to(dtype) / temperature  # (B, T)
        ctx.save_for_backward(logits, input_ids, log_z)
        ctx.temperature = temperature
        return chosen - log_z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        logits, input_ids, log_z = ctx.saved_tensors
        grad = torch.empty_like(logits)  # (B, T, V)
        in_place = grad.dtype == log_z.dtype  # else a row to work in, in more digits
        work = None if in_place else torch.empty_like(logits[0], dtype=log_z.dtype)
        for row, out, ids, z, g in zip(logits, grad, input_ids, log_z, grad_output, strict=True):
            g = g.to(z.dtype) / ctx.temperature
            slope = out if in_place else work  # (T, V)
            slope.copy_(row).div_(ctx.temperature).sub_(z[:, None]).exp_().mul_(-g[:, None])
            slope.scatter_add_(-1, ids[:, None], g[:, None])
            if not in_place:
                out.copy_(slope)
        return grad, None, None


def _log_sum_exp_(x):
    """(T, V) → (T,), in place: what x held is lost."""
    largest = x.amax(dim=-1, keepdim=True)
    return x.sub_(largest).exp_().sum(dim=-1).log_().add_(largest.squeeze(-1))


def compute_log_probs(
    model, input_ids, attention_mask, logits_to_keep, *, temperature=1.0, chunk_size=None, position_ids=None
):
    """Score the last `logits_to_keep` tokens of each row: their log-probabilities under the model.

        log_probs[b, t] = log softmax(logits[b, L + t - 1] / temperature)[input_ids[b, L + t]]

    The logits at one position predict the *next* token, so `logits_to_keep + 1` of them are asked for and the last is
    dropped. The temperature must be the one that was sampled with: then what is scored is what was sampled.
    The caller decides about gradients and about the model's mode (see `grpo_lib.modes`).

    Args:
        model: a causal language model; `model(input_ids=…, attention_mask=…).logits` is (B, L + T, V).
        input_ids: (B, L + T), prompt and completion. attention_mask: (B, L + T), 0 for padding.
        logits_to_keep: T, the number of completion tokens; L >= 1 tokens must stand before them.
        temperature: of sampling, > 0.
        chunk_size: rows per forward pass; None takes all at once. The values are the same.
        position_ids: (B, L + T); by default counted from the mask, and passed where the forward takes them.
    Returns:
        (B, T) in nats, fp32 (fp64 for fp64 logits).
    Raises:
        ValueError: on shapes that do not fit, on T outside 1 … length - 1, on a temperature that is not positive.

    >>> from grpo_lib import load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> ids = torch.tensor([tokenizer("1+2=").input_ids])
    >>> compute_log_probs(model, ids, torch.ones_like(ids), 3).shape
    torch.Size([1, 3])
    """
    _check(input_ids, attention_mask, logits_to_keep, temperature, chunk_size)
    if position_ids is None:
        position_ids = position_ids_from_mask(attention_mask)
    accepted = _forward_arguments(model)
    size = chunk_size or len(input_ids)
    chunks = []
    for i in range(0, len(input_ids), size):
        rows = slice(i, i + size)
        extra = {name: logits_to_keep + 1 for name in ("logits_to_keep", "num_logits_to_keep") if name in accepted}
        if "position_ids" in accepted:
            extra["position_ids"] = position_ids[rows]
        if "use_cache" in accepted:
            extra["use_cache"] = False
        logits = model(input_ids=input_ids[rows], attention_mask=attention_mask[rows], **extra).logits
        logits = logits[:, -(logits_to_keep + 1) : -1]  # (rows, T, V)
        chunks.append(selective_log_softmax(logits, input_ids[rows, -logits_to_keep:], temperature=temperature))
    return torch.cat(chunks)


def _forward_arguments(model):
    """The names that the model's forward takes; adapters, compiled and parallel wrappers are looked through."""
    inner = model
    for wrapped in ("_orig_mod", "module"):
        inner = getattr(inner, wrapped, inner)
    inner = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    return inspect.signature(inner.forward if hasattr(inner, "forward") else inner).parameters


def _check(input_ids, attention_mask, logits_to_keep, temperature, chunk_size):
    if input_ids.ndim != 2 or input_ids.shape != attention_mask.shape:
        raise ValueError(
            f"input_ids and attention_mask must have one shape (B, L + T), got {tuple(input_ids.shape)} and "
            f"{tuple(attention_mask.shape)}"
        )
    if len(input_ids) == 0:
        raise ValueError("input_ids holds no row: nothing to score")
    if not 1 <= logits_to_keep < input_ids.shape[1]:
        raise ValueError(
            f"logits_to_keep must be from 1 to the row's length less one prompt token, {input_ids.shape[1] - 1}, "
            f"got {logits_to_keep}"
        )
    check_number("temperature", temperature, 0, inclusive=False)
    if chunk_size is not None:
        check_count("chunk_size", chunk_size, 1, why=", or None")
