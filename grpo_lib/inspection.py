"""What a loss does to each token of a recorded rollout: its part of the loss, and what the next update does to it."""

import inspect
from dataclasses import dataclass

import torch

from grpo_lib._arguments import check_choice
from grpo_lib.loss_formulas import level_matters
from grpo_lib.losses import LOSS_TYPES, policy_loss
from grpo_lib.recorded import Recording, check_recording

__all__ = ["DEFAULTS", "Inspection", "inspect_rollout", "setting_text"]

DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(policy_loss).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
} | {"mask_truncated_completions": False}


@dataclass(frozen=True, eq=False)
class Inspection:
    """The loss of a recording, token by token; float64 tensors of shape (B, T), 0 (or False) where the mask is 0.

    mask: 1 for the tokens that are part of this loss: the recording's, less the completions that are left out.
    log_probs, old_log_probs, ref_log_probs, ratio, advantage, surrogate, kl, weight, clipped: as in `policy_loss`;
    ref_log_probs and kl are None without a reference.
    contribution: -weight · (surrogate - beta · KL); they sum to `loss`.
    policy_gradient, kl_gradient: d loss / d log π of the surrogates, and of the KL terms.
    options: every keyword argument of `policy_loss` that was in force, and mask_truncated_completions.
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
        loss_options: keyword arguments of `rollout_loss`, as `GRPOSettings.loss_options` holds them: those of
            `policy_loss` (max_completion_length is the recording's unless given), and mask_truncated_completions.
    Returns:
        an `Inspection`.
    Raises:
        ValueError, TypeError: as `policy_loss` does. FloatingPointError: where the loss or its gradient is not finite,
        since a ratio is too large for a float; the error names the token.

    >>> recording = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1]] * 2, [[-1.0, -2.0]] * 2)
    >>> inspect_rollout(recording, beta=0.0).push.tolist()
    [[0.25, 0.25], [-0.25, -0.25]]
    """
    check_recording(recording)
    unknown = set(loss_options) - set(DEFAULTS)
    if unknown:
        raise TypeError(f"unknown loss option {sorted(unknown)}; there are: {', '.join(DEFAULTS)}")
    options = {**DEFAULTS, "max_completion_length": recording.max_completion_length, **loss_options}
    check_choice("mask_truncated_completions", options["mask_truncated_completions"], (False, True))
    left_out = recording.truncated & options["mask_truncated_completions"]  # (B,)
    mask = recording.mask * ~left_out[:, None]
    keep = mask.bool()
    of_policy_loss = {name: value for name, value in options.items() if name != "mask_truncated_completions"}
    old, ref = (None if x is None else x.double() for x in (recording.old_log_probs, recording.ref_log_probs))
    advantages = recording.advantages.double()

    def loss_of(advantages, **change):
        leaf = recording.log_probs.double().requires_grad_()
        loss, watch = policy_loss(leaf, old, ref, advantages, mask, **{**of_policy_loss, **change})
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
    _check_finite(recording, options, parts)
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


def _check_finite(recording, options, parts):
    bad = ~sum(parts[name] for name in ("contribution", "policy_gradient", "kl_gradient")).isfinite()
    if bad.any():
        row, token = bad.nonzero()[0].tolist()
        log_prob, old = (x[row, token].item() for x in (recording.log_probs, recording.old_log_probs))
        raise FloatingPointError(
            f"under {setting_text(options)} the loss of completion {row}, token {token}, or its gradient, is not "
            f"finite: the exponential of a log ratio is too large (here log π is {log_prob:g}, log π_old {old:g})"
        )


def setting_text(options):
    """A loss's settings in words: those that matter to its variant, and those that are not at their default.

    >>> setting_text({**DEFAULTS, "loss_type": "dapo", "beta": 0.0, "epsilon_high": 0.28})
    'dapo, token level, beta 0, clip 0.2 down and 0.28 up'
    """
    value = {**DEFAULTS, **options}
    name, low, high = value["loss_type"], value["epsilon"], value["epsilon_high"]
    surrogate = LOSS_TYPES[name][0]
    words = [name, f"{value['importance_sampling_level']} level"] if level_matters(value) else [name]
    words.append(f"beta {value['beta']:g}")
    if surrogate == "cispo":
        words.append(f"cap {1 + (low if high is None else high):g}")
    elif surrogate == "clip":
        words.append(f"clip {low:g}" if high in (None, low) else f"clip {low:g} down and {high:g} up")
    if value["delta"] is not None:
        words.append(f"delta {value['delta']:g}")
    if value["bias_correction_kl"] and value["beta"]:
        words.append("KL weighed by the ratio")
    return ", ".join([*words, *_further_words(value, surrogate)])


def _further_words(value, surrogate):
    """Settings that have no control: only where they are not at their default, and matter to the variant."""

    def own(name):
        return torch.as_tensor(value[name]).tolist() != torch.as_tensor(DEFAULTS[name]).tolist()

    if surrogate == "sapo" and own("sapo_temperatures"):
        yield "τ {:g} for A > 0 and {:g} else".format(*value["sapo_temperatures"])
    if surrogate == "vespo" and own("vespo_gammas"):
        pairs = ["({:g}, {:g})".format(*pair) for pair in value["vespo_gammas"]]
        yield "(k, λ) {} for A ≥ 0 and {} else".format(*pairs)
    weighting = LOSS_TYPES[value["loss_type"]][1]
    for name, symbol, where in (
        ("max_completion_length", "L_max", "constant length"),
        ("num_items_in_batch", "N", "global mean"),
    ):
        if weighting == where and value[name] is not None:
            yield f"{symbol} {value[name]:g}"
    if value["mask_truncated_completions"]:
        yield "cut completions left out"
