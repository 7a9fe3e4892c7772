"""Autocast, scaled losses, and the learning rate's schedule."""

import copy
import itertools
import math

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

from grpo_lib.precision import cast_linear_layers, loss_scaler, mixed_precision
from grpo_lib.schedule import learning_rate_factor
from grpo_lib.training import GRPORun, GRPOSettings, train_with_grpo

pytestmark = pytest.mark.filterwarnings("ignore:step .* every completion was cut")
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
FAST = {"batch_size": 3, "max_completion_length": 6, "learning_rate": 3e-3, "max_grad_norm": 1.0}


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def start(name="qwen3", reward=count_w5, **settings):
    torch.manual_seed(0)
    model = tiny_model(name, initializer_range=0.6).eval()
    settings = GRPOSettings(**{**FAST, **settings})
    return GRPORun(model, CountingTokenizer(), DATA, settings, reward_function=reward)


def take(run, steps):
    return list(itertools.islice(run, steps))


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# ---- autocast


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["qwen3", "llama", "gpt2"])
def test_stored_half_precision_computes_bit_for_bit_what_autocast_did(name, dtype):
    torch.manual_seed(0)
    model = tiny_model(name, initializer_range=0.6).eval()
    halved = cast_linear_layers(copy.deepcopy(model), getattr(torch, dtype))
    ids = torch.tensor([[3, 4, 5, 6], [6, 5, 4, 3]])
    with torch.no_grad():
        with mixed_precision("cpu", dtype):
            expected = model(ids).logits
        with mixed_precision("cpu", dtype):
            assert torch.equal(halved(ids).logits, expected)
        assert not torch.equal(model(ids).logits, expected.float())
    if name == "llama":
        assert halved.lm_head.weight.dtype == getattr(torch, dtype)
    if name == "gpt2":  # tied: the embedding stays as it is
        assert halved.lm_head.weight is halved.transformer.wte.weight
        assert halved.lm_head.weight.dtype == torch.float32


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_an_autocast_run_learns_in_fp32_and_starts_at_kl_0(dtype):
    run = start(autocast=dtype, beta=0.01, track_kl=True)
    seen = set()
    run.model.model.layers[0].mlp.register_forward_hook(lambda m, args, out: seen.add(out.dtype))
    records = take(run, 3)
    assert seen == {getattr(torch, dtype)}
    assert records[0].kl == 0.0 < records[-1].kl
    assert records[0].ratio_mean == pytest.approx(1.0, abs=1e-6)
    assert {p.dtype for p in run.model.parameters()} == {torch.float32}
    plain = start(beta=0.01, track_kl=True)
    assert records[0].grad_norm == pytest.approx(next(plain).grad_norm, rel=0.2)


def test_evaluation_runs_at_the_runs_precision():
    seen = []

    def evaluate(model, tokenizer):
        ids = torch.tensor([[3, 4]])
        seen.append(model.model.layers[0].mlp(model.model.embed_tokens(ids)).dtype)
        return {"accuracy": 0.0}

    torch.manual_seed(0)
    arguments = {**FAST, "beta": 0.0, "quiet": True, "reward_function": count_w5, "evaluate": evaluate, "eval_every": 1}
    for autocast in (None, "bfloat16"):
        train_with_grpo(tiny_model("qwen3"), CountingTokenizer(), DATA, 1, autocast=autocast, **arguments)
    assert seen == [torch.float32, torch.bfloat16]


def test_autocast_is_fixed_for_a_run_and_checked():
    run = start(autocast="bfloat16", beta=0.1)
    with pytest.raises(ValueError, match="autocast is 'bfloat16' in this run and cannot become None"):
        run.change(autocast=None)
    for settings in ({"autocast": "int8"}, {"autocast": torch.float16}):
        with pytest.raises(ValueError, match="autocast must be one of None, 'bfloat16', 'float16'"):
            GRPOSettings(**settings)


# ---- scaled losses


def test_a_scaled_loss_gives_the_same_step():
    plain, scaled = start(beta=0.1), start(beta=0.1)
    scaled.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    a, b = take(plain, 3), take(scaled, 3)
    assert [r.grad_norm for r in b] == pytest.approx([r.grad_norm for r in a], rel=1e-5)
    torch.testing.assert_close(weights(scaled.model), weights(plain.model), rtol=0, atol=1e-6)


def test_an_overflow_halves_the_scale_and_no_step_is_lost():
    plain, scaled = start(beta=0.0, autocast="float16"), start(beta=0.0, autocast="float16")
    scaled.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=100)
    steps = []
    scaled.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    a, b = next(plain), next(scaled)
    assert plain.scaler.get_scale() == 2.0**13
    assert 1 < scaled.scaler.get_scale() <= 2.0**30, "65,504 is the largest number of float16"
    assert len(steps) == 1 and b.step == 1 and b.learning_rate == a.learning_rate
    assert math.isfinite(b.grad_norm) and b.grad_norm == pytest.approx(a.grad_norm, rel=1e-2)
    torch.testing.assert_close(weights(scaled.model), weights(plain.model), rtol=0, atol=7e-3)  # Adam's step is 3e-3


def test_nan_is_not_taken_for_an_overflow():
    run = start(autocast="float16", beta=0.0)
    next(run)
    before, scale = weights(run.model).clone(), run.scaler.get_scale()
    run.model.lm_head.register_forward_hook(lambda m, i, out: out * float("nan") if out.requires_grad else out)
    with pytest.raises(FloatingPointError, match="the loss is nan"):
        next(run)
    assert torch.equal(weights(run.model), before)
    assert run.scaler.get_scale() == scale


def test_only_float16_is_scaled_and_the_scale_comes_back_with_a_checkpoint(tmp_path):
    assert [loss_scaler("cpu", name).is_enabled() for name in (None, "bfloat16", "float16")] == [False, False, True]
    run = start(autocast="float16", beta=0.1)
    run.scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
    next(run)
    path = run.save(tmp_path)
    other = start(autocast="float16", beta=0.1)
    other.load(path)
    assert other.scaler.get_scale() == run.scaler.get_scale() == 32.0
    assert next(other) == next(run)


# ---- the learning rate


def test_warm_up_then_constant_is_what_it_was():
    for warmup in (0, 1, 3, 10):
        for step in range(1, 30):
            expected = min(1.0, step / warmup) if warmup else 1.0
            assert learning_rate_factor("constant", step, warmup) == expected  # to the last bit


def test_schedules_against_their_formulas():
    for warmup, num_steps in ((0, 7), (3, 10)):
        for step in range(1, num_steps + 1):
            if step < warmup:
                expected = dict.fromkeys(("linear", "cosine"), step / warmup)
            else:
                done = (step - warmup) / (num_steps + 1 - warmup)
                expected = {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
            for name, value in expected.items():
                got = learning_rate_factor(name, step, warmup, num_steps)
                assert got == pytest.approx(value, abs=1e-12)
                assert got > 0, "an idle step"


def test_a_run_decays_to_its_end_and_later_steps_are_idle():
    history = []
    torch.manual_seed(0)
    model = tiny_model("qwen3", initializer_range=0.6)
    arguments = {**FAST, "learning_rate": 4e-3, "beta": 0.0, "reward_function": count_w5, "quiet": True}
    train_with_grpo(
        model, CountingTokenizer(), DATA, 4, history=history, schedule="linear", warmup_steps=1, **arguments
    )
    assert [record.learning_rate for record in history] == pytest.approx([4e-3, 3e-3, 2e-3, 1e-3])
    assert [learning_rate_factor(name, 9, 1, 4) for name in ("linear", "cosine")] == [0.0, 0.0]


def test_a_schedule_that_does_not_know_its_end_is_refused():
    with pytest.raises(ValueError, match="schedule = 'cosine' needs schedule_steps"):
        GRPOSettings(schedule="cosine")
    with pytest.raises(ValueError, match="schedule must be one of 'constant', 'linear', 'cosine'"):
        GRPOSettings(schedule="step")
    with pytest.raises(ValueError, match="where the run ends"):
        learning_rate_factor("linear", 1, 0)
