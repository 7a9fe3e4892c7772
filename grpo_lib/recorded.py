"""What a recorded rollout holds, checked: all that its loss depends on, as plain numbers and strings."""

import itertools
from collections.abc import Mapping, Set
from dataclasses import dataclass

import torch

from grpo_lib._arguments import check_count

__all__ = ["Recording", "check_place", "check_recording"]


@dataclass(frozen=True, eq=False)
class Recording:
    """A rollout of B = P * G completions of up to T tokens, with their log-probs under three policies.

    Lists and tensors are both taken; numbers are kept as float32, and log-probs of masked tokens as 0.

    Args:
        tokens: B rows of T strings. rewards, advantages: (B,). mask: (B, T), 1 for the tokens that count.
        log_probs, old_log_probs, ref_log_probs: (B, T) in nats, under the policy as it is, the one that sampled, and
            the reference; old None stands for the policy itself, ref None for no reference (then beta must be 0).
        num_generations: G, completions a prompt, in consecutive rows. max_completion_length: the limit of sampling;
            None stands for T.
        truncated: (B,) bool, cut at the limit; None: those whose mask is all 1.
        prompts, texts, answers: B strings each; None: "", the tokens that count joined, "".
    Raises:
        ValueError: naming the field, where a shape or a number does not fit.

    >>> Recording([["4", "2"], ["7", "!"]], [1.0, 0.0], [0.7, -0.7], [[1, 1], [1, 0]], [[-1, -2], [-1, 0]]).texts
    ['42', '7']
    """

    tokens: list
    rewards: torch.Tensor
    advantages: torch.Tensor
    mask: torch.Tensor
    log_probs: torch.Tensor
    old_log_probs: torch.Tensor | None = None
    ref_log_probs: torch.Tensor | None = None
    num_generations: int | None = None
    max_completion_length: int | None = None
    truncated: torch.Tensor | None = None
    prompts: list | None = None
    texts: list | None = None
    answers: list | None = None

    def __post_init__(self):
        tokens, (rows, width) = _token_rows(self.tokens)
        mask = _flags("mask", self.mask, (rows, width))
        keep = mask.bool()
        self._fill("tokens", tokens, always=True)
        self._fill("mask", mask.long(), always=True)
        self._fill("old_log_probs", self.log_probs)
        self._fill("num_generations", rows)
        self._fill("max_completion_length", width)
        self._fill("truncated", keep.all(dim=1))
        self._fill("texts", ["".join(itertools.compress(*pair)) for pair in zip(tokens, keep.tolist(), strict=True)])
        for name in ("prompts", "answers"):
            self._fill(name, [""] * rows)
        for name in ("prompts", "texts", "answers"):
            self._fill(name, _strings(name, getattr(self, name), rows), always=True)
        for name in ("rewards", "advantages"):
            self._fill(name, _finite(name, _tensor(name, getattr(self, name), (rows,))), always=True)
        self._fill("truncated", _flags("truncated", self.truncated, (rows,)).bool(), always=True)
        for name in ("log_probs", "old_log_probs", "ref_log_probs"):
            if getattr(self, name) is not None or name != "ref_log_probs":
                table = _tensor(name, getattr(self, name), (rows, width))
                self._fill(name, _log_probs(name, table, keep), always=True)
        longest = max(1, int(mask.sum(dim=1).max()))
        for name, low in (("num_generations", 1), ("max_completion_length", longest)):
            self._fill(name, check_count(name, getattr(self, name), low), always=True)
        if rows % self.num_generations:
            raise ValueError(f"num_generations = {self.num_generations} must divide the {rows} completions")

    def _fill(self, name, value, always=False):
        if always or getattr(self, name) is None:
            object.__setattr__(self, name, value)

    def __len__(self):
        return len(self.tokens)

    @property
    def num_groups(self):
        """P, the number of prompts."""
        return len(self) // self.num_generations

    def group(self, number):
        """The rows of a group, as a slice; ValueError where there is no such group."""
        check_place("group", number, self.num_groups)
        return slice(number * self.num_generations, (number + 1) * self.num_generations)


def check_place(name, value, size):
    """Raise ValueError unless `value` is an index from 0 to `size` - 1."""
    if check_count(name, value, 0) >= size:
        raise ValueError(f"{name} must be below {size}, got {value}")


def check_recording(recording):
    """Return `recording`, or raise TypeError unless it is a `Recording`."""
    if isinstance(recording, Recording):
        return recording
    raise TypeError(
        f"a Recording is needed, got a {type(recording).__name__}; of a live rollout make one with "
        "record_rollout(model, tokenizer, rollout)"
    )


def _token_rows(tokens):
    if not isinstance(tokens, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in tokens):
        raise ValueError(f"tokens must be a list of rows, each a list of strings, got {str(tokens)[:60]!r}")
    rows = [list(row) for row in tokens]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths == {0}:
        raise ValueError(f"tokens must be B >= 1 rows of one length T >= 1, got lengths {sorted(widths)}")
    for i, row in enumerate(rows):
        _strings(f"tokens[{i}]", row, len(row))
    return rows, (len(rows), widths.pop())


def _strings(name, values, count):
    if isinstance(values, (str, bytes, Mapping, Set)):  # their list would be of letters, of keys, or in no order
        raise ValueError(f"{name} must be a list of {count} strings, got a {type(values).__name__}")
    values = list(values)
    if len(values) != count or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} must be {count} strings, got {len(values)} entries: {values[:3]!r} …")
    return values


def _tensor(name, values, shape):
    """A float32 tensor on the CPU, of this shape."""
    try:
        tensor = torch.as_tensor(values).detach().cpu().float()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers of shape {shape}: {error}") from error
    if tensor.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
    return tensor


def _flags(name, values, shape):
    tensor = _tensor(name, values, shape)
    if not ((tensor == 0) | (tensor == 1)).all():
        raise ValueError(f"{name} must hold 0 and 1 only")
    return tensor


def _finite(name, tensor):
    if not tensor.isfinite().all():
        raise ValueError(f"{name} must be finite, got {tensor[~tensor.isfinite()][0].item()} among its values")
    return tensor


def _log_probs(name, tensor, keep):
    tensor = _finite(name, torch.where(keep, tensor, torch.zeros_like(tensor)))
    if (tensor > 1e-4).any():
        raise ValueError(f"{name} must be logarithms of probabilities, at most 0; got {tensor.max().item():g}")
    return tensor
