"""Our settings' names beside TRL's, with TRL's defaults: the table that the adapter follows and notebook 14 shows."""

from typing import NamedTuple

__all__ = ["TESTED_TRL", "TRL_NAMES", "TRLName"]

TESTED_TRL = "1.16.0"


class TRLName(NamedTuple):
    """One setting: its name here ("" for what our loop always does), TRL's names, their defaults in TRL, what differs.

    >>> TRL_NAMES[3].ours, TRL_NAMES[3].trl, TRL_NAMES[3].defaults
    ('beta', ('beta',), (0.0,))
    """

    ours: str
    trl: tuple
    defaults: tuple
    note: str = ""


TRL_NAMES = (
    TRLName(
        "batch_size",
        ("per_device_train_batch_size",),
        (8,),
        "prompts here, completions there; of each process",
    ),
    TRLName("num_generations", ("num_generations",), (8,)),
    TRLName("max_completion_length", ("max_completion_length",), (512,)),
    TRLName("beta", ("beta",), (0.0,), "0: no reference. Else TRL loads it from model.config._name_or_path"),
    TRLName("learning_rate", ("learning_rate",), (1e-6,)),
    TRLName("warmup_steps", ("warmup_steps",), (0,), "one step late there; trl_callbacks makes it ours"),
    TRLName("schedule", ("lr_scheduler_type",), ("linear",), "one step late there; trl_callbacks makes it ours"),
    TRLName("schedule_steps", (), (), "max_steps there; trl_callbacks makes it ours"),
    TRLName(
        "ref_sync_every",
        ("sync_ref_model", "ref_model_sync_steps", "ref_model_mixup_alpha"),
        (False, 512, 0.6),
        "a mixture of both policies there; 1.0 copies",
    ),
    TRLName("updates_per_rollout", ("num_iterations",), (1,), "TRL's steps are optimizer steps"),
    TRLName("epsilon", ("epsilon",), (0.2,)),
    TRLName("epsilon_high", ("epsilon_high",), (None,), "for cispo the cap itself there, 1 + epsilon_high here"),
    TRLName("loss_type", ("loss_type",), ("dapo",)),
    TRLName("importance_sampling_level", ("importance_sampling_level",), ("token",)),
    TRLName("delta", ("delta",), (None,)),
    TRLName("bias_correction_kl", ("use_bias_correction_kl",), (True,), "ratio · k3; matters where beta > 0"),
    TRLName("mask_truncated_completions", ("mask_truncated_completions",), (False,)),
    TRLName("sapo_temperatures", ("sapo_temperature_pos", "sapo_temperature_neg"), (1.0, 1.05)),
    TRLName(
        "vespo_gammas",
        ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
        (2.0, 3.0, 3.0, 2.0),
    ),
    TRLName("scale", ("scale_rewards",), ("group",), "batch: that of all processes"),
    TRLName("baseline", (), (), "only the mean there; RLOOTrainer leaves one out"),
    TRLName("temperature", ("temperature",), (1.0,), "of sampling and scoring, there too"),
    TRLName("max_grad_norm", ("max_grad_norm",), (1.0,), "None here is inf there"),
    TRLName(
        "micro_batch_size",
        ("per_device_train_batch_size", "gradient_accumulation_steps"),
        (8, 1),
        "completions a pass; it must divide the batch there",
    ),
    TRLName("track_kl", (), (), "KL only with beta > 0 there"),
    TRLName("autocast", ("bf16", "fp16"), (True, False), "bfloat16 unless told otherwise there"),
    TRLName("max_prompt_length", (), (), "trl_dataset checks it"),
    TRLName("weight_decay", ("weight_decay",), (0.0,), "biases and norms left out there"),
    TRLName("seed", ("seed",), (42,), "other draws and another order of the prompts from the same seed"),
    TRLName(
        "",
        ("top_k", "top_p", "min_p", "repetition_penalty"),
        (0, 1.0, None, 1.0),
        "what is sampled is what is scored; sampled_as_scored keeps a checkpoint's own settings out",
    ),
    TRLName("", ("disable_dropout",), (False,), "True: no dropout; sampled_as_scored also silences attention_dropout"),
    TRLName("", ("activation_checkpointing",), (True,), "False: faster, with more memory"),
    TRLName("", ("router_aux_loss_coef",), (None,), "0: no second loss for mixtures of experts"),
    TRLName("", ("logging_nan_inf_filter",), (True,), "False: a loss that is not finite is shown"),
)
