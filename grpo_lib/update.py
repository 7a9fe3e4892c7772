"""The update half of a step: gradients of a rollout's loss, gradient clipping, the optimizer."""

import math
from dataclasses import replace

import torch

from grpo_lib.grpo import rollout_loss
from grpo_lib.losses import LOSS_TYPES
from grpo_lib.modes import evaluation_mode
from grpo_lib.precision import loss_scaler, mixed_precision

__all__ = ["accumulate_gradients", "update_policy"]


def update_policy(model, optimizer, rollout, settings, learning_rate, clock, scaler=None):
    """Take `settings.updates_per_rollout` optimizer steps on one rollout.

    The first update is on-policy: its log-probs are those of π_old in all that follow.

    Args:
        model, optimizer: changed in place. rollout: a `Rollout`. settings: a `GRPOSettings`.
        learning_rate: of these updates. clock: a `PhaseClock`.
        scaler: a `GradScaler`; None makes a new one. Where the gradients of float16 products overflow, the update is
            tried again with half the scale, on the same rollout: no step is skipped.
    Returns:
        (loss, grad_norm, watch): loss, norm before clipping and log-probs of the first update; ratio, clipped tokens
        and KL of the last one (see `rollout_loss`).
    Raises:
        FloatingPointError: if a loss or its gradient is not finite, before that optimizer step: the weights stay
        finite.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    scaler = scaler or loss_scaler(rollout.completion_ids.device, settings.autocast)
    first = None
    for _ in range(settings.updates_per_rollout):
        stepped = False
        while not stepped:
            optimizer.zero_grad(set_to_none=True)
            loss, watch = accumulate_gradients(model, rollout, settings, clock, scaler)
            with clock("optimizer"):
                grad_norm, stepped = _step(optimizer, scaler, loss, settings.max_grad_norm)
        if first is None:
            first = loss, grad_norm, {"log_probs": watch["log_probs"]}
            rollout = replace(rollout, old_log_probs=watch["log_probs"])
    optimizer.zero_grad(set_to_none=True)
    loss, grad_norm, first_watch = first
    return loss, grad_norm, {**watch, **first_watch}


def _step(optimizer, scaler, loss, max_grad_norm):
    """Clip and step: (norm before clipping, whether the step was taken). Not finite: the scale halves, or an error."""
    scaler.unscale_(optimizer)
    try:
        done = _clip_and_step(optimizer, scaler, loss, max_grad_norm)
    except BaseException:  # an interrupt too: else the scaler would refuse to unscale the gradients of the next step
        scaler.update(scaler.get_scale())
        raise
    scaler.update()
    return done


def _clip_and_step(optimizer, scaler, loss, max_grad_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    grad_norm = torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm or math.inf).item()
    finite = math.isfinite(loss) and math.isfinite(grad_norm)
    if not finite and not (math.isfinite(loss) and scaler.is_enabled() and scaler.get_scale() > 1):
        optimizer.zero_grad(set_to_none=True)
        raise FloatingPointError(
            f"the loss is {loss} and its gradient norm {grad_norm}; the run stopped before the optimizer step, "
            "so the weights are still finite. Lower the learning rate, or look for a token whose log-prob has "
            "run away from the reference's; or take up the last checkpoint"
        )
    scaler.step(optimizer)  # leaves the weights alone where a scaled gradient has overflowed
    return grad_norm, finite


def accumulate_gradients(model, rollout, settings, clock, scaler=None):
    """Add up the gradients of the micro-batches; the sum is the gradient of the whole rollout's loss.

    A loss that is a mean over completions takes each part by its share of them. One that divides by the tokens of the
    batch is told their number, and the parts just add up. Only bnpo's loss depends on the parts: it is a mean over the
    tokens of each.

    Returns:
        (loss, watch): the whole rollout's, see `rollout_loss`.
    """
    total, watches = 0.0, []
    size = settings.micro_batch_size or len(rollout)
    options = settings.loss_options
    scaler = scaler or loss_scaler(rollout.completion_ids.device, None)
    by_tokens = LOSS_TYPES[settings.loss_type][1] == "global mean"
    tokens = int(rollout.loss_mask(settings.mask_truncated_completions).sum())
    for start in range(0, len(rollout), size):
        part = rollout.rows(slice(start, start + size))
        share = 1.0 if by_tokens else len(part) / len(rollout)
        with evaluation_mode(model, keep_checkpointing=True):  # backward too: it may run modules again
            with clock("forward"), mixed_precision(part.completion_ids.device, settings.autocast):
                loss, watch = rollout_loss(model, part, num_items_in_batch=tokens, **options)
                loss = loss * share
            with clock("backward"):
                scaler.scale(loss).backward()
        total += loss.item()
        watches.append({**watch, "weight": watch["weight"] * share})
    names = [name for name, value in watches[0].items() if value is not None]
    return total, {"kl": None, **{name: torch.cat([w[name] for w in watches]) for name in names}}
