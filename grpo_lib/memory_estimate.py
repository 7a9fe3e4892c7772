"""How much memory a run will take at its peak, before anything is loaded: the step itself, on tensors without numbers.

torch's `FakeTensorMode` runs the real code on tensors that have a shape and a dtype but no memory, and `LiveMemory`
adds up what would be alive. So the estimate follows the code, and there are no constants in it that could go stale.
"""

import inspect
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, DynamicCache

from grpo_lib._arguments import check_choice, check_count
from grpo_lib.adapters import add_lora, has_adapter, trainable_parameters
from grpo_lib.clock import PhaseClock
from grpo_lib.devices import GB
from grpo_lib.live_memory import LiveMemory
from grpo_lib.modes import enable_checkpointing
from grpo_lib.precision import loss_scaler, mixed_precision
from grpo_lib.reference import AdapterReference, make_reference
from grpo_lib.rollout import Rollout, score_rollout
from grpo_lib.update import update_policy

__all__ = ["MemoryEstimate", "check_memory", "estimate_memory"]

CPU = torch.device("cpu")


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes. peak: the largest of the phases. parts: what it is made of; phases: the peak of each, weights and all.

    parts: weights, reference, gradients, adam stay from step to step (gradients come and go within one); kv_cache is
    that of sampling, logits those of one micro-batch; activations: what else is alive at the peak of the update.
    """

    peak: int
    parts: dict
    phases: dict

    def __str__(self):
        rows = [f"peak {self.peak / GB:.2f} GB, in the phase {max(self.phases, key=self.phases.get)!r}"]
        rows += [f"  {name:<12}{size / GB:6.2f} GB at its peak" for name, size in self.phases.items()]
        rows += ["made of"] + [f"  {name:<12}{size / GB:6.2f} GB" for name, size in self.parts.items()]
        return "\n".join(rows)


def estimate_memory(config, settings, *, prompt_length, dtype="float32", lora=None, checkpointing=False):
    """Estimate the peak memory of a run's steps: sampling, the reference, the update with its optimizer step.

    Every completion is taken to be as long as it may be. What an operation needs only for itself is not in it (some
    libraries of a GPU take a few hundred megabytes beside), nor is the memory that the Python process has anyway.

    Args:
        config: the model's configuration, a `transformers.PretrainedConfig`; no weights are needed.
        settings: a `GRPOSettings`. prompt_length: L, tokens of the longest prompt.
        dtype: of the weights. lora: rank, or None where all weights learn. checkpointing: activations are recomputed.
    Returns:
        a `MemoryEstimate`.
    Raises:
        ValueError: on a length or dtype out of range.

    >>> from grpo_lib.models import tiny_config
    >>> from grpo_lib.records import GRPOSettings
    >>> estimate = estimate_memory(tiny_config(), GRPOSettings(beta=0.0, max_completion_length=24), prompt_length=15)
    >>> estimate.parts["gradients"] == 4 * 102_592, estimate.parts["adam"] > 8 * 102_592, estimate.parts["reference"]
    (True, True, 0)
    """
    check_count("prompt_length", prompt_length, 1)
    check_choice("dtype", dtype, ("float32", "bfloat16", "float16"))
    with torch.device("meta"):
        model, reference = _build(config, settings, getattr(torch, dtype), lora, checkpointing)
    with FakeTensorMode(), LiveMemory() as memory:
        _without_numbers(model)
        parts = {"weights": memory.now}
        if reference is not None:
            _without_numbers(reference)
        parts["reference"] = memory.now - parts["weights"]
        parameters = trainable_parameters(model)
        rollout = _longest_rollout(settings, prompt_length)
        before, phases = memory.now, {}
        with memory.aside():
            optimizer = _adam(parameters, settings)
        parts["adam"] = memory.now - before
        parts["gradients"] = sum(p.numel() * p.element_size() for p in parameters)
        with memory.phase() as phases["generate"]:
            parts["kv_cache"] = _sample(model, rollout, settings)
        part = rollout.rows(slice(0, settings.micro_batch_size))  # the others are alike
        if reference is not None:
            with memory.phase() as phases["reference"], mixed_precision(CPU, settings.autocast):
                score_rollout(reference, part)
        parts_seen = rollout.rows(slice(0, 2 * (settings.micro_batch_size or len(rollout))))  # with gradients there
        with memory.phase() as phases["update"]:
            unscaled = loss_scaler(CPU, None)  # a real one would read its own number
            update_policy(model, optimizer, parts_seen, settings, 0.0, PhaseClock(CPU), unscaled)
    phases = {name: peak for name, [peak] in phases.items()}
    parts["logits"] = _logit_bytes(config, settings, dtype)
    stays = sum(parts[name] for name in ("weights", "reference", "gradients", "adam", "logits"))
    parts["activations"] = max(0, phases["update"] - stays)
    return MemoryEstimate(max(phases.values()), parts, phases)


def check_memory(estimate, machine):
    """Compare an estimate with what is free; say how much room there is.

    Returns:
        a sentence. Raises:
        MemoryError: if it does not fit; the message says what to lower.

    >>> from grpo_lib.devices import MachineMemory
    >>> check_memory(MemoryEstimate(2 * 10**9, {}, {"update": 2 * 10**9}), MachineMemory("cpu", "CPU", 10**10, 10**10))
    '2.0 GB at the peak, 20% of the 10.0 GB that are free'
    """
    share = estimate.peak / max(1, machine.free)
    part = f"{share:.0%} of" if share < 100 else "far more than"
    told = f"{estimate.peak / GB:.1f} GB at the peak, {part} the {machine.free / GB:.1f} GB that are free"
    if share > 1:
        raise MemoryError(
            f"this run does not fit: {told} on {machine}.\n{estimate}\nLower micro_batch_size, then "
            "max_completion_length; switch checkpointing on; beta=0 keeps no reference; LoRA keeps no gradients and no "
            "Adam of the model beneath it"
        )
    return told


def _build(config, settings, dtype, lora, checkpointing):
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    if lora is not None:
        model = add_lora(model, lora)
    if checkpointing:  # without preserve_rng_state: it would read random states, which are not there
        enable_checkpointing(model, preserve_rng_state=False)
    if not settings.needs_reference:
        return model, None
    return model, make_reference(model, settings.autocast) if lora is None else AdapterReference(model, None)


def _without_numbers(model):
    """Put fake tensors of the CPU in the place of the meta device's; tied ones stay one."""
    fake = {}
    for module in model.modules():
        for kind in (module._parameters, module._buffers):
            for name, tensor in kind.items():
                if tensor is not None and tensor not in fake:
                    empty = torch.empty(tensor.shape, dtype=tensor.dtype, device=CPU)
                    is_parameter = isinstance(tensor, torch.nn.Parameter)
                    fake[tensor] = torch.nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
                if tensor is not None:
                    kind[name] = fake[tensor]


def _longest_rollout(settings, prompt_length):
    rows, length = settings.batch_size * settings.num_generations, settings.max_completion_length
    return Rollout(
        **{name: [""] * rows for name in ("prompts", "answers", "completions", "texts")},
        prompt_ids=torch.zeros(rows, prompt_length, dtype=torch.long),
        prompt_mask=torch.ones(rows, prompt_length, dtype=torch.long),
        completion_ids=torch.zeros(rows, length, dtype=torch.long),
        completion_mask=torch.ones(rows, length, dtype=torch.long),
        truncated=torch.zeros(rows, dtype=torch.bool),
        ref_log_probs=torch.zeros(rows, length) if settings.needs_reference else None,
        rewards=torch.zeros(rows),
        advantages=torch.zeros(rows),
        num_generations=settings.num_generations,
        temperature=settings.temperature,
    )


@torch.no_grad()
def _sample(model, rollout, settings):
    """The first and the last forward pass of `generate`, with the cache as full as it gets; returns its bytes."""
    prompts, new = rollout.prompt_ids, rollout.completion_ids
    cache = DynamicCache(config=model.config)
    forward = (model.get_base_model() if has_adapter(model) else model).forward
    name = "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"  # by release
    options = {name: cache, "use_cache": True, "logits_to_keep": 1}
    with mixed_precision(CPU, settings.autocast):
        _draw(model(input_ids=prompts, attention_mask=rollout.prompt_mask, **options).logits, settings)
        for layer, kept in enumerate(cache.layers):
            more = (*kept.keys.shape[:2], new.shape[1] - 1, kept.keys.shape[3])  # (B, heads, T - 1, size of a head)
            cache.update(kept.keys.new_empty(more), kept.values.new_empty(more), layer)
        mask = torch.ones(len(prompts), prompts.shape[1] + new.shape[1], dtype=torch.long)
        _draw(model(input_ids=new[:, -1:], attention_mask=mask, **options).logits, settings)
    return sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))


def _draw(logits, settings):
    """What `generate` does with the logits of a step."""
    scores = logits[:, -1].to(dtype=torch.float32, copy=True) / settings.temperature  # (B, V)
    torch.multinomial(scores.softmax(dim=-1), 1)


def _adam(parameters, settings):
    """An optimizer that has taken a step, so that its moments are there."""
    optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return optimizer


def _logit_bytes(config, settings, dtype):
    rows = min(settings.micro_batch_size or 10**9, settings.batch_size * settings.num_generations)
    half = settings.autocast is not None or dtype != "float32"
    return rows * (settings.max_completion_length + 1) * config.get_text_config().vocab_size * (2 if half else 4)
