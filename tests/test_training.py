import copy
import itertools
import json
import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model
from transformers import OPTConfig, OPTForCausalLM

from grpo_lib.checkpoints import latest_checkpoint
from grpo_lib.grpo import score_rollout
from grpo_lib.training import GRPORun, GRPOSettings, train_with_grpo

TOKENIZER = CountingTokenizer()
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
pytestmark = pytest.mark.filterwarnings("ignore:step .* every completion was cut")
FAST = {"batch_size": 3, "max_completion_length": 6, "learning_rate": 3e-3, "max_grad_norm": 1.0}


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def lively_model(name="qwen3"):
    torch.manual_seed(0)
    return tiny_model(name, initializer_range=0.6).eval()


def start(model=None, reward=count_w5, data=DATA, **settings):
    settings = GRPOSettings(**{**FAST, **settings})
    return GRPORun(model or lively_model(), TOKENIZER, data, settings, reward_function=reward)


def take(run, steps):
    return list(itertools.islice(run, steps))


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_reward_climbs_over_three_seeds():
    for seed in (0, 1, 2):
        records = take(start(beta=0.0, seed=seed), 40)
        first, last = (sum(r.reward_mean for r in part) / 5 for part in (records[:5], records[-5:]))
        assert last > first + 1.0


def test_same_seed_same_run_whatever_else_draws_numbers():
    one, two = start(beta=0.1), start(beta=0.1)
    for _ in range(4):
        next(one)
        torch.rand(7)
        next(two)
    assert one.history == two.history
    assert torch.equal(weights(one.model), weights(two.model))
    assert start(seed=1).streams.states["cpu"].tolist() != start(seed=0).streams.states["cpu"].tolist()


def test_run_leaves_torchs_own_stream_alone():
    run = start()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    next(run)
    assert torch.rand(1) == expected


def test_beta_acts_with_a_frozen_reference_and_is_dead_with_a_resynced_one():
    def final(beta, sync):
        run = start(beta=beta, ref_sync_every=sync, track_kl=True)
        take(run, 8)
        return weights(run.model), [r.kl for r in run.history]

    (frozen_0, _), (frozen_2, _) = final(0.0, None), final(2.0, None)
    assert (frozen_0 - frozen_2).abs().max() > 1e-3
    (synced_0, kl_0), (synced_2, kl_2) = final(0.0, 1), final(2.0, 1)
    assert (synced_0 - synced_2).abs().max() < 1e-5
    assert max(kl_0 + kl_2) < 1e-6


def test_kl_starts_at_zero_grows_and_the_reference_never_learns():
    run = start(beta=0.01)
    before = weights(run.reference).clone()
    records = take(run, 6)
    assert abs(records[0].kl) < 1e-6 < records[-1].kl
    assert torch.equal(weights(run.reference), before)
    assert all(p.grad is None and not p.requires_grad for p in run.reference.parameters())


def test_kl_is_none_and_no_reference_is_kept_at_beta_zero():
    run = start(beta=0.0)
    assert next(run).kl is None
    assert run.reference is None
    with pytest.raises(ValueError, match="did not keep"):
        run.change(beta=0.5)
    watched = start(beta=0.0, track_kl=True)
    assert next(watched).kl is not None
    watched.change(beta=0.5)
    assert next(watched).beta == 0.5


def test_settings_change_from_the_next_step_on():
    run = start(beta=0.1)
    next(run)
    run.change(learning_rate=0.0, num_generations=6)
    before = weights(run.model).clone()
    record = next(run)
    assert (record.learning_rate, record.num_generations, len(run.rollout)) == (0.0, 6, 18)
    assert torch.equal(weights(run.model), before)
    with pytest.raises(TypeError, match="lerning_rate"):
        run.change(lerning_rate=1.0)
    with pytest.raises(ValueError, match="beta must be"):
        run.change(beta=-1.0)
    assert run.settings.beta == 0.1


@pytest.mark.parametrize("updates", [1, 3])
def test_ratio_moves_only_where_a_rollout_is_used_again(updates):
    run = start(beta=0.0, updates_per_rollout=updates, learning_rate=0.05)
    records = take(run, 3)
    if updates == 1:
        assert all(abs(r.ratio_mean - 1) < 1e-6 and r.clip_fraction == 0 for r in records)
    else:
        assert all(abs(r.ratio_max - 1) > 1e-3 for r in records)
        assert any(r.clip_fraction > 0 for r in records)


def test_the_newest_rollout_can_be_inspected_with_its_true_ratios():
    run = start(updates_per_rollout=3, learning_rate=1e-3)
    next(run)
    record = next(run)
    now = score_rollout(run.model, run.rollout)
    ratio = (now - run.rollout.old_log_probs).exp()[run.rollout.completion_mask.bool()]
    assert 1 < record.ratio_max and 1 < ratio.max()  # after the last update a little further than in it


@pytest.mark.parametrize("size", [1, 5, 12])
def test_micro_batches_have_the_gradient_of_the_whole(size):
    whole, parts = start(beta=0.1), start(beta=0.1, micro_batch_size=size)
    a, b = next(whole), next(parts)
    assert math.isclose(a.loss, b.loss, abs_tol=1e-6)
    assert math.isclose(a.grad_norm, b.grad_norm, rel_tol=1e-5)
    torch.testing.assert_close(weights(whole.model), weights(parts.model), rtol=0, atol=2e-6)


def test_learning_rate_warms_up_without_an_idle_first_step():
    rates = [r.learning_rate for r in take(start(warmup_steps=4, learning_rate=4e-3), 6)]
    assert rates == pytest.approx([1e-3, 2e-3, 3e-3, 4e-3, 4e-3, 4e-3])


def test_every_prompt_takes_part():
    seen = []

    def spy(prompts, completions, answer):
        seen.extend(prompts[::4])
        return [0.0] * len(completions)

    take(start(reward=spy, data=DATA[:5], batch_size=2), 5)
    assert sorted(seen) == sorted(d["prompt"] for d in DATA[:5] * 2)
    assert seen[:5] != seen[5:]


def test_record_tells_the_rollout(monkeypatch):
    run = start(beta=0.1)
    record, r = next(run), run.rollout
    groups = r.rewards.view(3, 4)
    assert record.reward_mean == pytest.approx(r.rewards.mean().item())
    assert record.reward_std == pytest.approx(groups.std(dim=1).mean().item())
    assert record.zero_variance == pytest.approx(sum(len(set(g.tolist())) == 1 for g in groups) / 3)
    assert record.completion_length == pytest.approx(r.completion_mask.sum().item() / 12)
    assert record.truncated == pytest.approx(sum(1 not in ids for ids in r.completion_ids.tolist()) / 12)
    assert record.samples[0]["completion"] == r.texts[0]
    assert {"generate", "reward", "reference", "forward", "backward", "optimizer"} == set(record.seconds)
    json.dumps(record.__dict__, allow_nan=False)


def test_not_finite_stops_before_the_optimizer_step():
    run = start(beta=0.0)
    next(run)
    before = weights(run.model).clone()
    handle = run.model.lm_head.register_forward_hook(lambda m, i, out: out * float("nan") if out.requires_grad else out)
    with pytest.raises(FloatingPointError, match="the loss is nan .* before the optimizer step"):
        next(run)
    handle.remove()
    assert torch.equal(weights(run.model), before)
    assert len(run.history) == 1
    assert next(run).step == 2


def test_a_failing_reward_loses_nothing_and_the_step_can_be_taken_again():
    calm, shaky = start(), start()
    take(calm, 3)
    next(shaky)

    def failing(**kwargs):
        raise KeyError("no such column")

    shaky.reward_function = failing
    with pytest.raises(RuntimeError, match="failing raised KeyError on row 0 of 12.*no such column"):
        next(shaky)
    shaky.reward_function = count_w5
    take(shaky, 2)
    assert shaky.history == calm.history


def test_warnings_name_the_cap_once_and_half_precision():
    long = start(max_completion_length=1, data=[{"prompt": "w3 w4", "answer": ""}])
    long.model.lm_head.register_forward_hook(lambda m, i, out: out - 1e4 * (torch.arange(11) == 1))
    with pytest.warns(UserWarning, match="every completion was cut at max_completion_length = 1"):
        next(long)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(long)
    with pytest.warns(UserWarning, match="bfloat16.*float32"):
        start(lively_model().bfloat16())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_generations": 1}, ">= 2, got 1: a group of one"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0 prompts"),
        ({"batch_size": 2.5}, "batch_size must be an int"),
        ({"beta": float("nan")}, "beta must be a finite number >= 0, got nan"),
        ({"learning_rate": -1.0}, "learning_rate must be"),
        ({"temperature": 0.0}, "temperature must be a finite number > 0"),
        ({"loss_type": "ppo"}, "loss_type must be one of"),
        ({"epsilon": 1.5}, "epsilon must be below 1"),
        ({"seed": None}, "seed must be an integer"),
        ({"ref_sync_every": 0}, "ref_sync_every must be an integer >= 1, got 0, or None"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GRPOSettings(**settings)


def test_nothing_to_train_is_refused():
    for data in ([], {"prompt": ["w3"], "answer": ["w4"]}):
        with pytest.raises(ValueError, match="samples must be a list of at least one sample"):
            start(data=data)
    with pytest.raises(ValueError, match="sample 12 must be a dict"):
        start(data=[*DATA, {"question": "w3"}])
    with pytest.raises(ValueError, match="float16: AdamW's first step"):
        start(lively_model().half())
    with pytest.raises(ValueError, match="0 trainable parameters"):
        start(lively_model().requires_grad_(False))


# ---- checkpoints

RESUME = """
import sys
sys.path.insert(0, {tests!r})
from test_training import *
model = lively_model()
model.load_state_dict({{k: v * 0 for k, v in model.state_dict().items()}})  # all must come from the checkpoint
run = GRPORun(model, TOKENIZER, DATA, GRPOSettings(**FAST, beta=0.1), reward_function=count_w5)
run.load(latest_checkpoint({folder!r}))
take(run, 2)
torch.save(weights(run.model), {out!r})
json.dump([vars(r) for r in run.history], open({out!r} + ".json", "w"))
"""


def test_four_steps_equal_two_a_checkpoint_a_new_process_and_two(tmp_path):
    straight = start(beta=0.1)
    take(straight, 4)
    first = start(beta=0.1)
    take(first, 2)
    first.save(tmp_path / "ck")
    out = str(tmp_path / "out")
    code = RESUME.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "ck"), out=out)
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (torch.load(out, weights_only=True) - weights(straight.model)).abs().max() < 1e-6
    history = json.loads(Path(out + ".json").read_text())
    assert len(history) == 4
    for got, expected in zip(history, straight.history, strict=True):
        assert {k: v for k, v in got.items() if k != "seconds"} == {
            k: v for k, v in vars(expected).items() if k != "seconds"
        }
    assert history[2]["kl"] > 1e-6  # the reference is the old start, not the loaded policy


def test_checkpoint_holds_nothing_that_executes_and_keeps_the_last_good_one(tmp_path, monkeypatch):
    run = start(beta=0.1)
    next(run)
    path = run.save(tmp_path)
    assert {p.suffix for p in path.iterdir()} == {".safetensors", ".json"}
    next(run)

    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr("grpo_lib.checkpoints.save_file", full_disk)
    with pytest.raises(OSError, match="No space"):
        run.save(tmp_path)
    assert latest_checkpoint(tmp_path) == path
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_saving_the_same_step_again_replaces_it(tmp_path):
    run = start(beta=0.0)
    next(run)
    assert run.save(tmp_path) == run.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_a_step_saved_again_keeps_the_old_one_until_the_new_one_is_in_place(tmp_path, monkeypatch):
    run = start(beta=0.0)
    next(run)
    path = run.save(tmp_path)
    rename = Path.rename

    def fails_for_the_new_one(self, target):
        if Path(target) == path and (self / "state.json").is_file() and not failed:
            failed.append(self)
            raise OSError("the disk went away")
        return rename(self, target)

    failed = []
    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    with pytest.raises(OSError, match="went away"):
        run.save(tmp_path)
    assert failed and latest_checkpoint(tmp_path) == path
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]
    start(beta=0.0).load(path)


def test_tied_weights_survive_a_checkpoint(tmp_path):
    run = start(lively_model("gpt2"), beta=0.1)
    next(run)
    run.save(tmp_path)
    other = start(copy.deepcopy(lively_model("gpt2")), beta=0.1)
    other.load(latest_checkpoint(tmp_path))
    assert other.model.lm_head.weight is other.model.transformer.wte.weight
    assert next(other) == next(run)


def test_reference_missing_from_a_checkpoint_is_said(tmp_path):
    run = start(beta=0.0)
    next(run)
    run.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="without a reference"):
        start(beta=0.1).load(latest_checkpoint(tmp_path))
    with pytest.raises(FileNotFoundError, match="no complete checkpoint: state.json is missing"):
        run.load(tmp_path)


@pytest.mark.parametrize("name", ["policy", "reference", "optimizer", "rng", "state"])
def test_a_damaged_checkpoint_is_named_and_changes_nothing(tmp_path, name):
    run = start(beta=0.1)
    next(run)
    path = run.save(tmp_path)
    file = next(path.glob(f"{name}.*"))
    file.write_bytes(file.read_bytes()[:-20])
    other = start(beta=0.1)
    before = weights(other.model).clone()
    with pytest.raises(ValueError, match=f"{name}.*is damaged"):
        other.load(path)
    assert torch.equal(weights(other.model), before)


def test_a_run_without_reference_takes_up_one_that_had_one(tmp_path):
    run = start(beta=0.1)
    take(run, 2)
    path = run.save(tmp_path)
    other = start(beta=0.0)
    other.load(path)
    assert next(other) == next(run)


def test_settings_and_evaluations_of_numpy_and_torch_numbers_can_be_saved(tmp_path):
    run = start(beta=np.float32(0.1), micro_batch_size=np.int64(4))
    next(run)
    run.save(tmp_path)
    history = []
    train_with_grpo(
        lively_model(),
        TOKENIZER,
        DATA,
        1,
        quiet=True,
        history=history,
        evaluate=lambda *_: {"a": np.float32(0.5), "b": torch.tensor(0.25)},
        eval_every=1,
        checkpoint_dir=tmp_path / "other",
        **ARGUMENTS,
    )
    assert history[0].evaluation == {"a": 0.5, "b": 0.25}


def test_checkpoints_of_another_run_are_not_taken_for_ones_own(tmp_path):
    train_with_grpo(lively_model(), TOKENIZER, DATA, 2, quiet=True, checkpoint_dir=tmp_path, **ARGUMENTS)
    with pytest.raises(ValueError, match="step-000002 of another run, ahead of this one at step 0"):
        train_with_grpo(lively_model(), TOKENIZER, DATA, 1, quiet=True, checkpoint_dir=tmp_path, **ARGUMENTS)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["gpt2", "opt"])
def test_checkpointed_activations_are_recomputed_without_dropout(family, reentrant):
    def dropping():
        torch.manual_seed(0)
        if family == "gpt2":
            return tiny_model("gpt2", initializer_range=0.6, resid_pdrop=0.3, embd_pdrop=0.3, attn_pdrop=0.3)
        config = OPTConfig(
            vocab_size=11, hidden_size=8, ffn_dim=16, num_hidden_layers=2, num_attention_heads=2, dropout=0.3,
            word_embed_proj_dim=8, max_position_embeddings=32, eos_token_id=1, pad_token_id=0, init_std=0.6,
        )  # fmt: skip
        return OPTForCausalLM(config)

    plain, saving = start(dropping().eval(), beta=0.1), start(dropping().train(), beta=0.1)
    saving.model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        saving.model.enable_input_require_grads()
    a, b = next(plain), next(saving)
    assert a.kl == pytest.approx(b.kl, abs=1e-6)
    assert a.grad_norm == pytest.approx(b.grad_norm, rel=1e-4)
    assert saving.model.training


# ---- train_with_grpo

ARGUMENTS = {"batch_size": 3, "max_completion_length": 6, "learning_rate": 3e-3, "reward_function": count_w5}


def test_train_returns_the_model_and_fills_the_history():
    model, history = lively_model(), []
    before = weights(model).clone()
    assert train_with_grpo(model, TOKENIZER, DATA, 3, quiet=True, history=history, **ARGUMENTS) is model
    assert [r.step for r in history] == [1, 2, 3]
    assert not torch.equal(weights(model), before)


def test_output_is_short_and_quiet_is_quiet(capsys):
    train_with_grpo(lively_model(), TOKENIZER, DATA, 20, **ARGUMENTS)
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if "loss" in line]
    assert [int(line.split()[1]) for line in lines] == [5, 10, 15, 20]
    assert len(out.splitlines()) <= 20 // 5 + 5
    train_with_grpo(lively_model(), TOKENIZER, DATA, 6, quiet=True, **ARGUMENTS)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_interrupt_leaves_a_usable_model_history_and_checkpoint(tmp_path):
    model, history = lively_model(), []

    def stop(run, record):
        if record.step == 2:
            raise KeyboardInterrupt

    got = train_with_grpo(
        model, TOKENIZER, DATA, 9, quiet=True, history=history, callbacks=[stop], checkpoint_dir=tmp_path, **ARGUMENTS
    )
    assert got is model
    assert len(history) == 2
    assert latest_checkpoint(tmp_path).name == "step-000002"
    train_with_grpo(
        lively_model(),
        TOKENIZER,
        DATA,
        4,
        quiet=True,
        history=history,
        resume=True,
        checkpoint_dir=tmp_path,
        **ARGUMENTS,
    )
    straight = []
    train_with_grpo(lively_model(), TOKENIZER, DATA, 4, quiet=True, history=straight, **ARGUMENTS)
    assert history == straight


def test_evaluation_and_callbacks_reach_the_record():
    history = []

    def evaluate(model, tokenizer):
        return {"accuracy": 0.5}

    def faster(run, record):
        run.change(learning_rate=1e-2)

    train_with_grpo(
        lively_model(),
        TOKENIZER,
        DATA,
        4,
        quiet=True,
        history=history,
        evaluate=evaluate,
        eval_every=2,
        callbacks=[faster],
        **ARGUMENTS,
    )
    assert [r.evaluation for r in history] == [None, {"accuracy": 0.5}] * 2
    assert [r.learning_rate for r in history] == [3e-3, 1e-2, 1e-2, 1e-2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": 0}, "num_steps must be"),
        ({"eval_every": 5}, "go together"),
        ({"checkpoint_every": 5}, "need checkpoint_dir"),
        ({"resume": True}, "need checkpoint_dir"),
        ({"num_generations": 1}, ">= 2, got 1"),
        ({"log_every": 0}, "log_every must be"),
    ],
)
def test_bad_arguments_are_refused_before_training(arguments, message):
    model = lively_model()
    before = weights(model).clone()
    with pytest.raises(ValueError, match=message):
        train_with_grpo(model, TOKENIZER, DATA, **{**ARGUMENTS, **arguments})
    assert torch.equal(weights(model), before)
