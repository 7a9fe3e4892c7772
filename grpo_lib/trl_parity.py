"""Our loss beside TRL's own code, on one batch of log-probs: live where TRL is installed, stored values elsewhere.

python -m grpo_lib.trl_parity         writes the stored values anew, with the TRL that is installed
"""

import functools
import json
from collections import defaultdict
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch

from grpo_lib._arguments import check_choice
from grpo_lib.losses import policy_loss
from grpo_lib.trl_names import TESTED_TRL
from grpo_lib.trl_settings import import_trl, trl_config
from grpo_lib.trl_variants import parity_batch, parity_variants

__all__ = ["LossRow", "compare_losses", "our_loss", "parity_batch", "parity_variants", "trl_loss"]

STORED = "data/trl_losses.json"


class LossRow(NamedTuple):
    """A variant, both losses, how far they are apart, how far the gradients are at most, and "live" or "stored"."""

    variant: str
    ours: float
    trl: float
    difference: float
    gradient_difference: float
    source: str


def our_loss(settings, log_probs, old_log_probs, ref_log_probs, advantages, mask):
    """Our `policy_loss` with a run's settings: (loss, its gradient at the log-probs)."""
    leaf = log_probs.detach().clone().requires_grad_()
    options = {k: v for k, v in settings.loss_options.items() if k != "mask_truncated_completions"}
    loss, _ = policy_loss(leaf, old_log_probs, ref_log_probs, advantages, mask, **options)
    return _with_gradient(loss, leaf)


def trl_loss(settings, log_probs, old_log_probs, ref_log_probs, advantages, mask):
    """TRL's loss of the same batch, from its own code: `GRPOTrainer._compute_loss`, told what `trl_config` says.

    The trainer is one without model and data: where it would score the completions it is given the log-probs.

    Args:
        settings: a `GRPOSettings`. The tensors: see `policy_loss`; mask holds what counts in the loss.
    Returns:
        (loss, gradient): a scalar and (B, T), both without graph.
    Raises:
        ImportError: without TRL, or with one whose trainer asks for more than 1.16's.
    """
    leaf = log_probs.detach().clone().requires_grad_()
    given = {"old_per_token_logps": old_log_probs, "ref_per_token_logps": ref_log_probs}
    inputs = {
        "prompt_ids": torch.zeros(len(mask), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(mask),
        "completion_mask": mask,
        "advantages": advantages,
        "num_items_in_batch": mask.sum(),
        **{name: value for name, value in given.items() if value is not None},
    }
    try:
        return _with_gradient(_trainer_without_model(settings, leaf)._compute_loss(None, inputs), leaf)
    except AttributeError as error:
        raise ImportError(
            f'TRL {import_trl().__version__} takes its loss in another way ({error}): pip install "trl=={TESTED_TRL}"'
        ) from error


def compare_losses(variants=None, *, live=None):
    """Take both losses for each variant, on `parity_batch()`.

    Args:
        variants: names out of `parity_variants()`; None takes all.
        live: ask TRL itself (True), use what it said when the values were stored (False), or whichever can be had
            (None). Stored values are of TRL 1.16.0.
    Returns:
        a list of `LossRow`.

    >>> [row] = compare_losses(["grpo, token, k3"], live=False)
    >>> row.difference < 1e-12, row.gradient_difference < 1e-12, row.source
    (True, True, 'stored')
    """
    known = parity_variants()
    for name in variants or ():
        check_choice("variant", name, known)
    live = _has_trl() if live is None else live
    stored = None if live else json.loads(resources.files("grpo_lib").joinpath(STORED).read_text(encoding="utf-8"))
    rows = []
    for name in known if variants is None else variants:
        arguments = _arguments(*known[name])
        ours, gradient = our_loss(*arguments)
        if live:
            theirs, their_gradient = trl_loss(*arguments)
        else:
            case = stored["variants"][name]
            theirs, their_gradient = (
                torch.tensor(case["loss"], dtype=torch.float64),
                torch.tensor(case["gradient"], dtype=torch.float64),
            )
        apart, gradients_apart = abs(ours.item() - theirs.item()), (gradient - their_gradient).abs().max().item()
        rows.append(LossRow(name, ours.item(), theirs.item(), apart, gradients_apart, "live" if live else "stored"))
    return rows


def _arguments(settings, off_policy):
    batch = parity_batch()
    truncated = batch.pop("truncated")
    if settings.mask_truncated_completions:
        batch["mask"] = batch["mask"] * ~truncated[:, None]
    if not off_policy:
        batch["old_log_probs"] = None
    return (settings, *batch.values())


def _with_gradient(loss, leaf):
    (gradient,) = torch.autograd.grad(loss, leaf)
    return loss.detach(), gradient


def _has_trl():
    try:
        import_trl()
    except ImportError:
        return False
    return True


@functools.lru_cache(maxsize=64)
def _config(settings):
    return trl_config(settings, "unused", num_steps=1)


def _trainer_without_model(settings, log_probs):
    """A GRPOTrainer that has read its configuration as its `__init__` does, and nothing else."""
    args = _config(settings)
    trainer = object.__new__(import_trl().GRPOTrainer)
    same = ("beta", "loss_type", "importance_sampling_level", "max_completion_length", "top_entropy_quantile")
    same += ("off_policy_mask_threshold", "use_vllm", "vllm_importance_sampling_correction")
    for name in same:
        setattr(trainer, name, getattr(args, name))
    trainer.args, trainer.epsilon_low = args, args.epsilon
    trainer.epsilon_high = args.epsilon if args.epsilon_high is None else args.epsilon_high
    trainer.aux_loss_enabled, trainer._entropy_bonus_enabled, trainer.current_gradient_accumulation_steps = (
        False,
        False,
        1,
    )
    trainer.model, trainer._metrics = SimpleNamespace(training=True), defaultdict(lambda: defaultdict(list))
    alone = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    trainer.accelerator = alone
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (log_probs, torch.zeros_like(log_probs), None)
    return trainer


def store(path=None):
    """Write TRL's losses and gradients of all variants to the library's data folder."""
    path = path or Path(__file__).parent / STORED
    variants = {}
    for name, variant in parity_variants().items():
        loss, gradient = trl_loss(*_arguments(*variant))
        variants[name] = {
            "loss": loss.item(),
            "gradient": [[float(f"{x:.15g}") for x in row] for row in gradient.tolist()],
        }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in variants.items())
    text = f'{{"trl": "{import_trl().__version__}", "variants": {{\n{lines}\n}}}}\n'
    path.write_text(text, encoding="utf-8")
    print(f"{len(variants)} variants of TRL {import_trl().__version__} in {path}")


if __name__ == "__main__":
    store()
