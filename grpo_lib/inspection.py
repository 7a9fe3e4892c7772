"""What a loss does to each token of a recorded rollout: its part of the loss, and what the next update does to it."""

import inspect
from dataclasses import dataclass

import torch

from grpo_lib.losses import LOSS_TYPES, policy_loss
from grpo_lib.recorded import Recording

__all__ = ["DEFAULTS", "Inspection", "describe_changes", "inspect_rollout", "setting_text"]

DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(policy_loss).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}
_CHANGED = 0.01  # a push that differs by less than this share counts as the same


@dataclass(frozen=True, eq=False)
class Inspection:
    """The loss of a recording, token by token; float64 tensors of shape (B, T), 0 (or False) where the mask is 0.

    log_probs, old_log_probs, ref_log_probs, ratio, advantage, surrogate, kl, weight, clipped: as in `policy_loss`;
    ref_log_probs and kl are None without a reference.
    contribution: -weight · (surrogate - beta · KL); they sum to `loss`.
    policy_gradient, kl_gradient: d loss / d log π of the surrogates, and of the KL terms.
    options: every keyword argument of `policy_loss` that was in force.
    """

    recording: Recording
    options: dict
    loss: float
    mask: torch.Tensor
    log_probs: torch.Tensor
    old_log_probs: torch.Tensor
    ref_log_probs: torch.Tensor | None
    ratio: torch.Tensor
    advantage: torch.Tensor
    surrogate: torch.Tensor
    kl: torch.Tensor | None
    weight: torch.Tensor
    clipped: torch.Tensor
    contribution: torch.Tensor
    policy_gradient: torch.Tensor
    kl_gradient: torch.Tensor

    @property
    def gradient(self):
        """d loss / d log π."""
        return self.policy_gradient + self.kl_gradient

    @property
    def push(self):
        """-d loss / d log π: where a step of gradient descent sends each log-prob, if it could move alone."""
        return 0.0 - self.gradient


def inspect_rollout(recording, **loss_options):
    """Take a recording's loss apart: one number a token for each of its ingredients, and the gradient.

        loss = sum_{b,t} contribution,      push = -d loss / d log π(token)

    The log-probs are treated as free: a real update moves them through shared weights, so that each also feels its
    neighbours' pushes.

    Args:
        recording: a `Recording`.
        loss_options: keyword arguments of `policy_loss`; max_completion_length is the recording's unless given.
    Returns:
        an `Inspection`.
    Raises:
        ValueError, TypeError: as `policy_loss` does.

    >>> recording = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1]] * 2, [[-1.0, -2.0]] * 2)
    >>> inspect_rollout(recording, beta=0.0).push.tolist()
    [[0.25, 0.25], [-0.25, -0.25]]
    """
    if not isinstance(recording, Recording):
        raise TypeError(
            f"a Recording is needed, got a {type(recording).__name__}; of a live rollout make one with "
            "record_rollout(model, tokenizer, rollout)"
        )
    unknown = set(loss_options) - set(DEFAULTS)
    if unknown:
        raise TypeError(f"unknown loss option {sorted(unknown)}; there are: {', '.join(DEFAULTS)}")
    options = {**DEFAULTS, "max_completion_length": recording.max_completion_length, **loss_options}
    mask, keep = recording.mask, recording.mask.bool()
    old, ref = (None if x is None else x.double() for x in (recording.old_log_probs, recording.ref_log_probs))
    advantages = recording.advantages.double()

    def loss_of(advantages, **change):
        leaf = recording.log_probs.double().requires_grad_()
        loss, watch = policy_loss(leaf, old, ref, advantages, mask, **{**options, **change})
        [gradient] = torch.autograd.grad(loss, leaf)
        return loss.item(), watch, gradient

    loss, watch, _ = loss_of(advantages)
    _, _, policy_gradient = loss_of(advantages, beta=0.0)
    _, _, kl_gradient = loss_of(torch.zeros_like(advantages))  # what is left is beta · KL
    kl = watch["kl"] if ref is not None else torch.zeros_like(policy_gradient)
    pulled = kl * watch["ratio"] if options["bias_correction_kl"] else kl
    parts = {
        "ratio": watch["ratio"],
        "advantage": advantages[:, None].expand(mask.shape),
        "contribution": 0.0 - watch["weight"] * (watch["surrogate"] - options["beta"] * pulled),
        "policy_gradient": policy_gradient,
        "kl_gradient": kl_gradient,
        "surrogate": watch["surrogate"],
    }
    parts = {name: torch.where(keep, value, torch.zeros_like(value)) for name, value in parts.items()}
    return Inspection(
        recording=recording,
        options=options,
        loss=loss,
        mask=mask,
        log_probs=recording.log_probs.double(),
        old_log_probs=old,
        ref_log_probs=ref,
        kl=None if ref is None else torch.where(keep, kl, torch.zeros_like(kl)),
        weight=watch["weight"],
        clipped=watch["clipped"],
        **parts,
    )


def setting_text(options):
    """A loss's settings in words: those that matter to its variant, and those that are not at their default.

    >>> setting_text({**DEFAULTS, "loss_type": "dapo", "beta": 0.0, "epsilon_high": 0.28})
    'dapo, token level, beta 0, clip 0.2 down and 0.28 up'
    """
    value = {**DEFAULTS, **options}
    name, low, high = value["loss_type"], value["epsilon"], value["epsilon_high"]
    surrogate = LOSS_TYPES[name][0]
    words = [name] if surrogate == "vespo" else [name, f"{value['importance_sampling_level']} level"]
    words.append(f"beta {value['beta']:g}")
    if surrogate == "cispo":
        words.append(f"cap {1 + (low if high is None else high):g}")
    elif surrogate == "clip":
        words.append(f"clip {low:g}" if high in (None, low) else f"clip {low:g} down and {high:g} up")
    if value["delta"] is not None:
        words.append(f"delta {value['delta']:g}")
    if value["bias_correction_kl"] and value["beta"]:
        words.append("KL weighed by the ratio")
    return ", ".join(words)


def describe_changes(now, before, rows=slice(None)):
    """Say which tokens another setting moves otherwise, and how.

    Args:
        now, before: two `Inspection`s of one recording. rows: the rows to look at.
    Returns:
        (text, counts): one line; and a dict with the numbers of tokens: those on which the policy term (or anything)
        "start"s or "stop"s to push, that "turn" round, are pushed "harder", "softer", or the "same" (within 1 %).
    Raises:
        ValueError: if they are not of one recording.

    >>> recording = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1], [1, 0]], [[-1.0, -2.0]] * 2)
    >>> describe_changes(*(inspect_rollout(recording, beta=0.0, loss_type=name) for name in ("dapo", "grpo")))[1]
    {'start': 0, 'stop': 0, 'turn': 0, 'harder': 2, 'softer': 1, 'same': 0}
    """
    if now.recording is not before.recording:
        raise ValueError("two inspections of one recording are needed, got those of two recordings")
    keep = now.mask[rows].bool()
    new, old = now.push[rows][keep], before.push[rows][keep]
    acts, acted = (x.policy_gradient[rows][keep] != 0 for x in (now, before))
    start, stop = (acts & ~acted) | ((old == 0) & (new != 0)), (acted & ~acts) | ((old != 0) & (new == 0))
    factor, left = torch.where(old == new, 1.0, new / old), ~(start | stop)
    kinds = {
        "start": start,
        "stop": stop & ~start,
        "turn": left & (factor < 0),
        "harder": left & (factor > 1 + _CHANGED),
        "softer": left & (factor >= 0) & (factor < 1 - _CHANGED),
        "same": left & ((factor - 1).abs() <= _CHANGED),
    }
    counts = {name: int(kind.sum()) for name, kind in kinds.items()}
    shares = {"harder": " (up to {:.2g} times as hard)", "softer": " (down to {:.2g} times)"}
    for name, extreme in (("harder", max), ("softer", min)):
        shares[name] = shares[name].format(extreme(factor[kinds[name]].tolist())) if counts[name] else ""
    words = {"start": "newly pushed", "stop": "no longer pushed", "turn": "pushed the other way"}
    words |= {"harder": "pushed harder", "softer": "pushed more softly", "same": "pushed as before"}
    if now.options["beta"]:
        words["stop"] += " but by the KL"
    parts = [f"{text} {counts[name]}{shares.get(name, '')}" for name, text in words.items() if counts[name]]
    return f"Of {len(new)} tokens: {', '.join(parts)}.", counts
