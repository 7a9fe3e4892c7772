"""Our settings as TRL's: every field of `GRPOSettings` into `trl.GRPOConfig`, or why it has no counterpart there.

TRL (huggingface.co/docs/trl) is an extra: `pip install "trl==1.16.0"`. Names, defaults and what each setting does are
read from its source, version 1.16.0 (`trl/trainer/grpo_config.py`, `grpo_trainer.py`); the tests read them again.
"""

import difflib
import inspect
import math
import os
from collections.abc import Mapping

from grpo_lib._arguments import check_count
from grpo_lib.losses import LOSS_TYPES
from grpo_lib.trl_names import TESTED_TRL, TRL_NAMES

__all__ = ["TRL_NAMES", "import_trl", "settings_without_counterpart", "trl_config"]

# What our loop always does, where TRL lets one choose: an option that says otherwise is refused …
FIXED = {"top_k": 0, "top_p": 1.0, "min_p": None, "repetition_penalty": 1.0, "disable_dropout": True}
# … and what is set here but may be chosen freely.
PREFERRED = {
    "activation_checkpointing": False,
    "router_aux_loss_coef": 0.0,
    "logging_nan_inf_filter": False,
    "report_to": "none",
}
# TRL's own names for what a setting of ours decides already
_DECIDED = {
    "steps_per_generation": "micro_batch_size",
    "generation_batch_size": "batch_size",
    "num_train_epochs": "num_steps",
    "lr_scheduler_kwargs": "schedule",
}


def import_trl():
    """Import TRL, or say how to get it: it is an extra that nothing else in the library needs."""
    try:
        import trl

        trl.__version__  # noqa: B018  a folder of that name on the path can be imported too, and has none
    except (ImportError, AttributeError) as error:
        raise ImportError(f'this needs TRL, which is not installed: pip install "trl=={TESTED_TRL}"') from error
    return trl


def trl_config(settings, output_dir, *, num_steps, **trl_options):
    """Write a run's settings down as TRL's `GRPOConfig`.

    A step is what it is in our own loop: one rollout of `batch_size * num_generations` completions **in each process**
    and all its updates; with W processes W times as many. TRL counts completions, in each process, in parts
    (`per_device_train_batch_size`, our `micro_batch_size`) that are added up (`gradient_accumulation_steps`), and its
    `max_steps` are optimizer steps: num_steps * updates_per_rollout. Every group stays whole in one process.

    The learning rate is that of our own loop once the trainer also gets `callbacks=trl_callbacks(settings)` (see
    `grpo_lib.trl_schedule`); without, warm-up and decay come one step late, which is how transformers counts.
    `sampled_as_scored(model)` (`grpo_lib.trl_sampling`) keeps a checkpoint's own sampling settings and dropout out.
    With beta > 0 TRL loads its reference anew from where the model came from (`model.config._name_or_path`): save a
    model that exists only in memory first, and load it from there.

    Args:
        settings: a `GRPOSettings`.
        output_dir: where TRL may write. Nothing is written before the trainer trains.
        num_steps: of the whole run, as in `train_with_grpo`.
        **trl_options: any further field of `GRPOConfig` (use_vllm, deepspeed, save_steps, …).
    Returns:
        a `trl.GRPOConfig`.
    Raises:
        ImportError: without TRL.
        ValueError: on a setting that TRL cannot follow (see `settings_without_counterpart`), an option that
            (or the launcher) that contradicts `settings`, or a sampling distribution that would not be scored.
        TypeError: on an option that GRPOConfig does not have; the error names the ones that look like it.
    """
    check_count("num_steps", num_steps, 1)
    wanted = mapped_options(settings, num_steps)
    config_class = import_trl().GRPOConfig
    known = inspect.signature(config_class.__init__).parameters
    missing = sorted({*wanted, *FIXED, *PREFERRED} - known.keys())
    if missing:
        raise ImportError(f'this TRL has no {", ".join(missing)}: pip install "trl=={TESTED_TRL}"')
    for name, value in trl_options.items():
        _check_option(name, value, known, wanted)
    told = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if settings.autocast is None and told != "no":  # transformers follows it where neither bf16 nor fp16 is set
        raise ValueError(
            f"accelerate was told mixed precision {told}, our settings say autocast = None: set autocast, or "
            "launch with --mixed_precision no"
        )
    preferred = {name: value for name, value in PREFERRED.items() if name not in trl_options}
    if "gradient_checkpointing" in trl_options:  # its older name
        del preferred["activation_checkpointing"]
    if not any(name.startswith("save_") for name in trl_options):
        preferred["save_strategy"] = "no"
    if "logging_steps" not in trl_options:
        preferred["logging_steps"] = settings.updates_per_rollout  # one log a step of ours
    return config_class(output_dir=str(output_dir), **{**preferred, **trl_options, **FIXED, **wanted})


def mapped_options(settings, num_steps):
    """Return the keyword arguments of `GRPOConfig` that the settings decide; ValueError where TRL cannot follow."""
    refused = _refusals(settings)
    if refused:
        raise ValueError("; ".join(f"TRL cannot follow {name} = {value!r}: {why}" for name, value, why in refused))
    s, high = settings, settings.epsilon_high
    if LOSS_TYPES[s.loss_type][0] == "cispo":  # there the cap itself, here the cap is 1 + epsilon_high
        high = 1 + (s.epsilon if high is None else high)
    completions, updates = s.batch_size * s.num_generations, s.updates_per_rollout
    part = min(s.micro_batch_size or completions, completions)
    (k_pos, rate_pos), (k_neg, rate_neg) = s.vespo_gammas
    return {
        "max_steps": num_steps * updates,
        "per_device_train_batch_size": part,
        "gradient_accumulation_steps": completions // part,
        "num_generations": s.num_generations,
        "num_iterations": updates,
        "max_completion_length": s.max_completion_length,
        "temperature": s.temperature,
        "beta": s.beta,
        "use_bias_correction_kl": s.bias_correction_kl,
        **_reference(s),
        "learning_rate": s.learning_rate,
        "lr_scheduler_type": "constant_with_warmup" if s.schedule == "constant" and s.warmup_steps else s.schedule,
        "warmup_steps": s.warmup_steps * updates,
        "weight_decay": s.weight_decay,
        "max_grad_norm": math.inf if s.max_grad_norm is None else s.max_grad_norm,  # 0 would not measure the norm
        "epsilon": s.epsilon,
        "epsilon_high": high,
        "delta": s.delta,
        "loss_type": s.loss_type,
        "importance_sampling_level": s.importance_sampling_level,
        "mask_truncated_completions": s.mask_truncated_completions,
        "sapo_temperature_pos": s.sapo_temperatures[0],
        "sapo_temperature_neg": s.sapo_temperatures[1],
        "vespo_k_pos": k_pos,
        "vespo_lambda_pos": rate_pos,
        "vespo_k_neg": k_neg,
        "vespo_lambda_neg": rate_neg,
        "scale_rewards": s.scale,
        "bf16": s.autocast == "bfloat16",
        "fp16": s.autocast == "float16",
        "seed": s.seed,
    }


def settings_without_counterpart(settings):
    """Say which of these settings TRL does not have, as {name: why and what to do}.

    `trl_config` refuses those that would change the training (`baseline="loo"`, unequal micro-batches); the others
    are harmless, or made up for by what the text says.

    >>> from grpo_lib import GRPOSettings
    >>> settings_without_counterpart(GRPOSettings())
    {}
    >>> print(settings_without_counterpart(GRPOSettings(beta=0.0, track_kl=True))["track_kl"])
    with beta = 0 TRL keeps no reference and measures no KL; the training is the same
    """
    s = settings
    found = {name: why for name, _, why in _refusals(s)}
    if s.beta == 0 and s.track_kl:
        found["track_kl"] = "with beta = 0 TRL keeps no reference and measures no KL; the training is the same"
    if s.beta == 0 and s.ref_sync_every is not None:
        found["ref_sync_every"] = "with beta = 0 TRL has no reference to sync; the training is the same"
    if s.max_prompt_length is not None:
        found["max_prompt_length"] = "TRL takes prompts of any length: let trl_dataset check it, which gets a tokenizer"
    if s.warmup_steps or s.schedule != "constant":
        found["schedule"] = (
            "transformers' warm-up and decay come one step late and end with the run: "
            "give the trainer callbacks=trl_callbacks(settings), which sets the rate to ours"
        )
    if s.weight_decay:
        found["weight_decay"] = "TRL's optimizer leaves biases and norms out of the decay, ours decays all weights"
    if s.loss_type == "bnpo" and s.micro_batch_size is not None:
        found["micro_batch_size"] = "bnpo averages over each part alone, and TRL shuffles which completions share one"
    return found


def _reference(settings):
    """Copying the policy into the reference: in TRL a mixture of both, wholly the policy with alpha 1."""
    if settings.ref_sync_every is None or settings.beta == 0:
        return {"sync_ref_model": False}
    steps = settings.ref_sync_every * settings.updates_per_rollout
    return {"sync_ref_model": True, "ref_model_mixup_alpha": 1.0, "ref_model_sync_steps": steps}


def _refusals(settings):
    """[(name, value, why)] of the settings that would change the training."""
    found = []
    if settings.baseline != "mean":
        why = "its GRPOTrainer subtracts the group's mean; set baseline='mean', or use TRL's RLOOTrainer"
        found.append(("baseline", settings.baseline, why))
    size, completions = settings.micro_batch_size, settings.batch_size * settings.num_generations
    if size is not None and size < completions and completions % size:
        why = f"its parts are of one size; choose a divisor of batch_size * num_generations = {completions}"
        found.append(("micro_batch_size", size, why))
    return found


def _check_option(name, value, known, wanted):
    if name not in known or name in ("self", "output_dir"):
        trainer = inspect.signature(import_trl().GRPOTrainer.__init__).parameters
        close = difflib.get_close_matches(name, known, n=3)
        advice = f"did you mean {' or '.join(close)}?" if close else "see trl.GRPOConfig for those there are"
        if name in trainer:
            advice = "it goes to GRPOTrainer itself"
        raise TypeError(f"GRPOConfig has no option {name}: {advice}")
    decides = {trl: row.ours for row in TRL_NAMES for trl in row.trl if trl in wanted}
    if name in wanted and value != wanted[name]:
        ours = "num_steps" if name == "max_steps" else decides[name]
        raise ValueError(f"{name} = {value!r} contradicts {ours}, which makes it {wanted[name]!r}: change that instead")
    if name in _DECIDED:
        raise ValueError(f"{name} follows from {_DECIDED[name]} of our settings: change that instead")
    clash = {name: value} if name in FIXED else value if name == "generation_kwargs" else None
    for key in clash if isinstance(clash, Mapping) else ():
        if key in ("temperature", "max_new_tokens") or (key in FIXED and clash[key] != FIXED[key]):
            raise ValueError(
                f"{key} = {clash[key]!r}: our loop has {FIXED.get(key, 'it from the settings')!r}, so that what is "
                "sampled is what is scored, without dropout; leave it out, or build a GRPOConfig yourself"
            )
