"""Every setting of ours in TRL's configuration: its value, TRL's default, or why it is not there."""

import math
from dataclasses import MISSING, fields, replace

import pytest

trl = pytest.importorskip("trl")

from grpo_lib.records import GRPOSettings  # noqa: E402
from grpo_lib.schedule import learning_rate_factor  # noqa: E402
from grpo_lib.trl_names import TESTED_TRL, TRL_NAMES  # noqa: E402
from grpo_lib.trl_schedule import trl_callbacks  # noqa: E402
from grpo_lib.trl_settings import (  # noqa: E402
    FIXED,
    PREFERRED,
    mapped_options,
    settings_without_counterpart,
    trl_config,
)

FIELDS = {field.name: field for field in fields(GRPOSettings)}
# for each field, a value that is not its default, and what of TRL's configuration it must become
CHANGED = {
    "batch_size": (6, {"per_device_train_batch_size": 24, "generation_batch_size": 24}),
    "num_generations": (3, {"num_generations": 3, "per_device_train_batch_size": 12}),
    "max_completion_length": (17, {"max_completion_length": 17}),
    "beta": (0.03, {"beta": 0.03}),
    "learning_rate": (3e-4, {"learning_rate": 3e-4}),
    "warmup_steps": (5, {"warmup_steps": 5, "lr_scheduler_type": "constant_with_warmup"}),
    "schedule": ("cosine", {"lr_scheduler_type": "cosine"}),
    "schedule_steps": (9, {}),
    "ref_sync_every": (3, {"sync_ref_model": True, "ref_model_sync_steps": 3, "ref_model_mixup_alpha": 1.0}),
    "updates_per_rollout": (2, {"num_iterations": 2, "max_steps": 14, "steps_per_generation": 1}),
    "epsilon": (0.1, {"epsilon": 0.1}),
    "epsilon_high": (0.28, {"epsilon_high": 0.28}),
    "loss_type": ("dr_grpo", {"loss_type": "dr_grpo"}),
    "importance_sampling_level": ("sequence", {"importance_sampling_level": "sequence"}),
    "delta": (1.5, {"delta": 1.5}),
    "bias_correction_kl": (True, {"use_bias_correction_kl": True}),
    "mask_truncated_completions": (True, {"mask_truncated_completions": True}),
    "sapo_temperatures": ((0.5, 2.0), {"sapo_temperature_pos": 0.5, "sapo_temperature_neg": 2.0}),
    "vespo_gammas": (
        ((1.0, 2.0), (4.0, 5.0)),
        {"vespo_k_pos": 1.0, "vespo_lambda_pos": 2.0, "vespo_k_neg": 4.0, "vespo_lambda_neg": 5.0},
    ),
    "scale": ("batch", {"scale_rewards": "batch"}),
    "baseline": ("loo", None),
    "temperature": (0.7, {"temperature": 0.7}),
    "max_grad_norm": (None, {"max_grad_norm": math.inf}),
    "micro_batch_size": (4, {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}),
    "track_kl": (True, {}),
    "autocast": ("bfloat16", {"bf16": True, "fp16": False}),
    "max_prompt_length": (50, {}),
    "weight_decay": (0.2, {"weight_decay": 0.2}),
    "seed": (7, {"seed": 7}),
}
NOT_FIELDS_OF_A_CONFIG = {"schedule_steps", "baseline", "track_kl", "max_prompt_length"}


def config(settings=None, *, num_steps=7, **options):
    return trl_config(settings or GRPOSettings(), "unused", num_steps=num_steps, use_cpu=True, **options)


def trl_default(name):
    """TRL's default as its configuration has it, once it is made (bf16 and checkpointing are filled in there)."""
    found = {field.name: field.default for field in fields(trl.GRPOConfig)}[name]
    assert found is not MISSING
    filled = {"bf16": trl.GRPOConfig("unused", use_cpu=True).bf16, "activation_checkpointing": True}
    return filled.get(name, found)


def test_the_version_is_the_tested_one():
    assert trl.__version__ == TESTED_TRL


def test_every_setting_has_a_row_and_a_case():
    rows = [row.ours for row in TRL_NAMES if row.ours]
    assert sorted(rows) == sorted(FIELDS) and len(set(rows)) == len(rows)
    assert CHANGED.keys() == FIELDS.keys()
    assert {row.ours for row in TRL_NAMES if row.ours and not row.trl} == NOT_FIELDS_OF_A_CONFIG
    assert all(row.note for row in TRL_NAMES if not row.trl)
    assert {name for row in TRL_NAMES if not row.ours for name in row.trl} >= {*FIXED, *PREFERRED} - {"report_to"}


@pytest.mark.parametrize("row", TRL_NAMES, ids=lambda row: row.ours or "-".join(row.trl))
def test_the_table_s_defaults_are_trl_s(row):
    assert len(row.trl) == len(row.defaults)
    assert tuple(map(trl_default, row.trl)) == row.defaults


def test_the_table_names_all_that_the_settings_decide():
    named = {name for row in TRL_NAMES for name in row.trl}
    assert mapped_options(GRPOSettings(beta=0.1, ref_sync_every=2), 5).keys() - named == {"max_steps"}


@pytest.mark.parametrize("name", FIELDS)
def test_each_setting_arrives(name):
    value, expected = CHANGED[name]
    assert value != FIELDS[name].default
    extra = {"schedule_steps": 9} if name == "schedule" else {}
    settings = GRPOSettings(**{name: value, **extra})
    if expected is None:
        with pytest.raises(ValueError, match=f"TRL cannot follow {name} = {value!r}: .*RLOOTrainer"):
            config(settings)
        return
    plain, made = config(), config(settings)
    assert {key: getattr(made, key) for key in expected} == expected
    assert all(
        getattr(plain, key) != value for key, value in expected.items() if key not in ("fp16", "steps_per_generation")
    )
    assert expected or name in NOT_FIELDS_OF_A_CONFIG  # and is then said or harmless


def test_the_defaults_are_ours_not_trl_s():
    made = config()
    assert (made.loss_type, made.beta, made.use_bias_correction_kl) == ("grpo", 0.1, False)
    assert (made.bf16, made.fp16, made.gradient_checkpointing, made.disable_dropout) == (False, False, False, True)
    assert (made.top_k, made.top_p, made.min_p, made.repetition_penalty) == (0, 1.0, None, 1.0)
    assert (made.max_grad_norm, made.max_steps, made.logging_steps) == (0.1, 7, 1)
    assert made.report_to == [] and made.save_strategy == "no" and made.router_aux_loss_coef == 0.0
    assert made.generation_batch_size == 16 and not made.remove_unused_columns and not made.sync_ref_model


def test_cispo_s_cap_is_one_more():
    assert config(GRPOSettings(loss_type="cispo", epsilon_high=4.0)).epsilon_high == 5.0
    assert config(GRPOSettings(loss_type="cispo", epsilon=0.2)).epsilon_high == 1.2
    assert config(GRPOSettings(epsilon=0.2)).epsilon_high is None


def test_a_sync_counts_our_steps_and_needs_a_reference():
    made = config(GRPOSettings(beta=0.1, ref_sync_every=3, updates_per_rollout=2))
    assert (made.ref_model_sync_steps, made.max_steps, made.logging_steps) == (6, 14, 2)
    assert not config(GRPOSettings(beta=0.0, ref_sync_every=3)).sync_ref_model


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_step_is_batch_size_prompts_in_each_process(world_size, monkeypatch):
    monkeypatch.setattr(trl.GRPOConfig, "world_size", property(lambda _: world_size))
    made = config(GRPOSettings(batch_size=5, num_generations=4, micro_batch_size=10))
    assert made.generation_batch_size == 20 * world_size
    assert (made.per_device_train_batch_size, made.gradient_accumulation_steps) == (10, 2)
    assert made.steps_per_generation * made.per_device_train_batch_size % made.num_generations == 0  # whole groups


def test_what_has_no_counterpart_is_said():
    said = settings_without_counterpart
    assert said(GRPOSettings()) == said(GRPOSettings(track_kl=True)) == {}
    everything = GRPOSettings(
        **{name: value for name, (value, _) in CHANGED.items() if name not in ("loss_type", "delta", "beta")},
        loss_type="bnpo",
        beta=0.0,
    )
    names = {"baseline", "track_kl", "ref_sync_every", "max_prompt_length", "schedule", "weight_decay"}
    assert said(everything).keys() == names | {"micro_batch_size"}
    uneven = GRPOSettings(micro_batch_size=5)
    assert "a divisor of batch_size * num_generations = 16" in said(uneven)["micro_batch_size"]
    with pytest.raises(ValueError, match="TRL cannot follow micro_batch_size = 5: its parts are of one size"):
        config(uneven)
    assert config(GRPOSettings(micro_batch_size=99)).per_device_train_batch_size == 16


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"learning_rte": 1e-3}, TypeError, "no option learning_rte: did you mean learning_rate"),
        ({"peft_config": None}, TypeError, "no option peft_config: it goes to GRPOTrainer itself"),
        ({"qwertyuiop": 1}, TypeError, "see trl.GRPOConfig"),
        ({"learning_rate": 1e-3}, ValueError, "learning_rate = 0.001 contradicts learning_rate, which makes it 5e-06"),
        ({"scale_rewards": "none"}, ValueError, "scale_rewards = 'none' contradicts scale, which makes it 'group'"),
        ({"max_steps": 3}, ValueError, "max_steps = 3 contradicts num_steps, which makes it 7"),
        ({"bf16": True}, ValueError, "bf16 = True contradicts autocast, which makes it False"),
        ({"steps_per_generation": 2}, ValueError, "steps_per_generation follows from micro_batch_size"),
        ({"num_train_epochs": 2}, ValueError, "num_train_epochs follows from num_steps"),
        ({"top_k": 50}, ValueError, "top_k = 50: our loop has 0, so that what is sampled is what is scored"),
        ({"disable_dropout": False}, ValueError, "disable_dropout = False: our loop has True"),
        ({"generation_kwargs": {"top_p": 0.9}}, ValueError, "top_p = 0.9: our loop has 1.0"),
        ({"generation_kwargs": {"temperature": 2.0}}, ValueError, "temperature = 2.0: our loop has 'it from the"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        config(**options)


def test_further_options_of_trl_are_taken():
    made = config(
        num_generations=4,
        save_steps=2,
        logging_steps=5,
        gradient_checkpointing=True,
        top_k=0,
        reward_weights=[1.0, 0.5],
    )
    assert (made.save_steps, made.save_strategy, made.logging_steps) == (2, "steps", 5)
    assert made.gradient_checkpointing and made.reward_weights == [1.0, 0.5]
    assert config(generation_kwargs={"suppress_tokens": [3]}).generation_kwargs == {"suppress_tokens": [3]}


def test_a_trl_without_a_field_is_named(monkeypatch):
    def __init__(self, output_dir, beta=0.0):
        pass

    monkeypatch.setattr(trl, "GRPOConfig", type("GRPOConfig", (), {"__init__": __init__}))
    with pytest.raises(ImportError, match='this TRL has no .*use_bias_correction_kl.*: pip install "trl=='):
        config()


# --- the learning rate


@pytest.mark.parametrize(
    "options",
    [
        {"warmup_steps": 3},
        {"schedule": "linear", "schedule_steps": 4},
        {"schedule": "cosine", "schedule_steps": 6, "warmup_steps": 2, "updates_per_rollout": 2},
        {"schedule": "linear"},
    ],
    ids=str,
)
def test_the_rate_of_each_update_is_ours(options, real_trainer):
    from transformers import TrainerCallback

    rates, num_steps = [], 4

    class Watch(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, optimizer=None, **_):
            rates.append({group["lr"] for group in optimizer.param_groups})

    settings = GRPOSettings(
        batch_size=2, max_completion_length=3, beta=0.0, learning_rate=1e-3, **{"schedule_steps": 4, **options}
    )
    if "schedule_steps" not in options:
        object.__setattr__(settings, "schedule_steps", None)  # then the decay ends with TRL's run
    trainer = real_trainer(settings, lambda completions, **_: [1.0] * len(completions), num_steps=num_steps)
    trainer.add_callback(Watch())
    trainer.train()
    s = replace(settings, schedule_steps=settings.schedule_steps or num_steps)
    factors = [learning_rate_factor(s.schedule, i + 1, s.warmup_steps, s.schedule_steps) for i in range(num_steps)]
    expected = [1e-3 * factor for factor in factors for _ in range(s.updates_per_rollout)]
    assert [len(found) for found in rates] == [1] * len(expected)
    assert [next(iter(found)) for found in rates] == pytest.approx(expected, rel=1e-12)


def test_a_constant_rate_needs_no_callback_and_a_foreign_scheduler_is_refused():
    assert trl_callbacks(GRPOSettings()) == []
    [callback] = trl_callbacks(GRPOSettings(warmup_steps=2))
    with pytest.raises(TypeError, match="needs a LambdaLR, got object"):
        callback.on_train_begin(config(), None, None, lr_scheduler=object())
