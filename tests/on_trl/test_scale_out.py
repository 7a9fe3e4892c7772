"""`train_with_trl` and its command in one process: records like our own run's, the model, the launcher, errors."""

import json
import os
import signal
import time
from dataclasses import asdict, fields, replace

import pytest

pytest.importorskip("trl")

import numpy as np
import torch
from trl_launches import COMMAND, HERE, launch

from grpo_lib import GRPORun, GRPOSettings, addition_reward, load_addition, load_policy, load_records, load_tiny_policy
from grpo_lib.generation import generate_completions
from grpo_lib.plots import TRAINING_COLUMNS, training_curves
from grpo_lib.processes import OwnError, ProcessStopped, launched_processes, stop_clearly
from grpo_lib.records import StepRecord
from grpo_lib.scale_out import load_run, main, parse_command, train_with_trl
from grpo_lib.trl_checkpoints import weights_digest
from grpo_lib.trl_records import RecordKeeper, record_from_logs

SETTINGS = GRPOSettings(batch_size=2, num_generations=4, max_completion_length=24, beta=0.04, learning_rate=3e-4)
DATA = load_addition("train")


def train(folder, settings=SETTINGS, *, model=None, data=DATA, reward=addition_reward, num_steps=2, **options):
    model, tokenizer = model or load_tiny_policy()
    options = {"quiet": True, "output_dir": folder} | options
    return train_with_trl(model, tokenizer, data, settings, num_steps=num_steps, reward_function=reward, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(folder, records, the trained model, its tokenizer, all rewards that were paid)."""
    paid = []

    def reward(prompts, completions, answer, **columns):
        paid.append(addition_reward(prompts, completions, answer))
        return paid[-1]

    folder, (model, tokenizer) = tmp_path_factory.mktemp("runs") / "alone", load_tiny_policy()
    records = train(folder, model=(model, tokenizer), reward=reward, num_steps=3)
    return folder, records, model, tokenizer, paid


@pytest.fixture(scope="module")
def own():
    """The records of our own run with the same settings, data and order."""
    model, tokenizer = load_tiny_policy()
    ours = GRPORun(model, tokenizer, DATA, SETTINGS, reward_function=addition_reward)
    return [next(ours) for _ in range(3)]


def test_neither_a_checkpoint_s_sampling_settings_nor_its_dropout_change_a_run(run, tmp_path):
    model, tokenizer = load_tiny_policy()
    model.generation_config.update(do_sample=True, min_p=0.9)
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    records = train(tmp_path / "asked", model=(model, tokenizer), num_steps=3)
    assert [record.samples for record in records] == [record.samples for record in run[1]]
    assert weights_digest(model) == weights_digest(run[2])
    assert model.generation_config.min_p == 0.9 and model.model.layers[0].self_attn.attention_dropout == 0.5


# --- records


def test_records_have_the_kind_of_our_own_run_s(run, own):
    for ours, theirs in zip(own, run[1], strict=True):
        for field in fields(StepRecord):
            mine, other = getattr(ours, field.name), getattr(theirs, field.name)
            if field.name == "kl_median":
                assert isinstance(mine, float) and other is None
            else:
                assert type(mine) is type(other), field.name
        assert theirs.samples[0].keys() == ours.samples[0].keys() and set(theirs.seconds) == {"reward", "rest"}
    assert [record.step for record in run[1]] == [1, 2, 3]


def test_records_say_what_the_reward_function_paid(run):
    _, records, _, _, paid = run
    for record, rewards in zip(records, paid, strict=True):
        groups = np.array(rewards).reshape(2, 4)
        assert record.reward_mean == pytest.approx(groups.mean())
        assert record.reward_std == pytest.approx(groups.std(axis=1, ddof=1).mean())
        assert record.zero_variance == (groups.std(axis=1) == 0).mean()
        assert [sample["reward"] for sample in record.samples] == rewards[:4]


def test_the_first_step_is_on_policy_and_at_the_start(run, own):
    first = run[1][0]
    assert abs(first.kl) < 1e-6 < run[1][2].kl and own[0].kl == pytest.approx(first.kl, abs=1e-6)
    assert (first.ratio_mean, first.ratio_max, first.clip_fraction) == (1.0, 1.0, 0.0)
    assert [record.learning_rate for record in run[1]] == [3e-4] * 3
    asked = [record.samples[0]["prompt"] for record in own]
    assert [record.samples[0]["prompt"] for record in run[1]] == asked  # the same prompts in the same order


def test_the_file_gives_the_records_back_and_our_curves_draw_them(run, own):
    folder, records, *_ = run
    assert load_records(folder) == load_records(folder / "steps.jsonl") == records
    figure = training_curves({"ours": own, "TRL": load_records(folder)}, columns=(*TRAINING_COLUMNS, "kl_median"))
    assert {trace.name for trace in figure.data} == {"ours", "TRL"}


def test_a_last_line_without_an_end_is_left_out_and_a_broken_one_named(run, tmp_path):
    text = (run[0] / "steps.jsonl").read_text()
    (tmp_path / "steps.jsonl").write_text(text + text[:50])
    assert load_records(tmp_path) == run[1]
    (tmp_path / "steps.jsonl").write_text(text + text[:50] + "\n")
    with pytest.raises(ValueError, match=r"steps.jsonl, line 4 is no step record"):
        load_records(tmp_path)
    with pytest.raises(FileNotFoundError, match="a run writes it with its first step"):
        load_records(tmp_path / "nowhere")


LOGS = {
    "loss": 0.5,
    "grad_norm": 2.0,
    "learning_rate": 1e-4,
    "entropy": 0.7,
    "kl": 0.01,
    "completions/mean_length": 8.0,
    "completions/clipped_ratio": 0.25,
}


def test_of_several_updates_the_first_gives_the_loss_and_the_last_what_was_clipped():
    settings = replace(SETTINGS, updates_per_rollout=2, num_generations=2)
    keeper = RecordKeeper(settings)
    keeper._rewards, keeper._started = torch.tensor([0.0, 1.0]), 0.0
    keeper.add(LOGS | {"clip_ratio/region_mean": 0.0})
    assert keeper.records == []
    keeper.add({"loss": 9.0, "grad_norm": 9.0, "learning_rate": 9.0, "entropy": 9.0, "clip_ratio/region_mean": 0.3})
    (record,) = keeper.records
    assert (record.loss, record.grad_norm, record.entropy, record.kl) == (0.5, 2.0, 0.7, 0.01)
    assert (record.clip_fraction, record.ratio_mean, record.ratio_max) == (0.3, None, None)
    capped = record_from_logs(1, settings, LOGS, {"cispo_clip_ratio": 0.4}, torch.tensor([0.0, 1.0]), [], {})
    unclipped = record_from_logs(1, settings, LOGS, {}, torch.tensor([0.0, 1.0]), [], {})
    assert (capped.clip_fraction, unclipped.clip_fraction) == (0.4, None)


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_a_loss_that_is_not_finite_stops_the_run(name):
    with pytest.raises(FloatingPointError, match=f"step 1: {name} is nan, and the weights are spoilt"):
        RecordKeeper(SETTINGS).add(LOGS | {name: float("nan")})


# --- the model


def test_the_trained_model_is_the_given_one_and_can_be_used_at_once(run):
    folder, _, model, tokenizer, _ = run
    assert weights_digest(model) != weights_digest(load_tiny_policy()[0])
    saved, _ = load_policy(str(folder / "model"), device="cpu")
    assert weights_digest(saved) == weights_digest(model)
    assert "forward" not in vars(model) and not model.training  # neither TRL's nor accelerate's is left on it
    texts = []
    for one in (model, saved):
        torch.manual_seed(0)
        texts.append(generate_completions(one, tokenizer, ["1+1=?"], num_generations=4, max_completion_length=8)[2])
    assert torch.equal(*texts)


def test_who_took_part(run):
    (alone,) = json.loads((run[0] / "processes.json").read_text())
    assert (alone["rank"], alone["world_size"], alone["pid"], alone["rows"]) == (0, 1, os.getpid(), 8)
    assert alone["device"] == "cpu" and alone["weights"] == weights_digest(run[2])


def test_an_adapter_learns_alone(tmp_path):
    pytest.importorskip("peft")
    model, tokenizer = load_policy("tiny", device="cpu", lora=4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = train(tmp_path / "run", model=(model, tokenizer), checkpoint_every=1)
    moved = {name for name, tensor in model.state_dict().items() if name in before and not tensor.equal(before[name])}
    assert moved and all("lora_" in name for name in moved)
    assert model.state_dict().keys() == before.keys()  # TRL's own second adapter, its reference, is gone
    saved, _ = load_policy("tiny", device="cpu", adapter=tmp_path / "run" / "model")
    assert weights_digest(saved) == weights_digest(model)
    again, tokenizer = load_policy("tiny", device="cpu", lora=4)
    assert train(tmp_path / "run", model=(again, tokenizer), num_steps=3, checkpoint_every=1, resume=True)[:2] == first


def test_an_async_reward_function_is_waited_for(tmp_path):
    async def later(prompts, completions, answer, **columns):
        return addition_reward(prompts, completions, answer)

    assert train(tmp_path / "a", reward=later, num_steps=1) == train(tmp_path / "b", num_steps=1)


def test_what_trl_turns_off_is_given_back(tmp_path):
    """Its cache, dropout, activation checkpointing and the hooks for it; what was saved has the cache too."""
    model, tokenizer = load_tiny_policy()
    model.model.add_module("drop", torch.nn.Dropout(0.3))

    def state():
        hooks = sum(len(module._forward_hooks) for module in model.modules())
        return model.config.use_cache, model.model.drop.p, model.is_activation_checkpointing, hooks, model.training

    before = state()
    train(tmp_path / "run", model=(model, tokenizer), num_steps=1, activation_checkpointing=True)
    assert state() == before == (True, 0.3, False, 0, False)
    assert json.loads((tmp_path / "run" / "model" / "config.json").read_text())["use_cache"] is True


def test_a_second_run_in_the_same_process_starts_afresh(run, tmp_path):
    train(tmp_path / "other", replace(SETTINGS, autocast="bfloat16", updates_per_rollout=2, warmup_steps=3))
    assert train(tmp_path / "again", num_steps=3) == run[1]


def test_our_own_run_goes_on_where_trl_s_ended(run):
    _, _, model, tokenizer, _ = run
    record = next(GRPORun(model, tokenizer, DATA, replace(SETTINGS, beta=0.0), reward_function=addition_reward))
    assert record.ratio_max == pytest.approx(1.0, abs=1e-4) and record.grad_norm >= 0


def test_a_launcher_s_mixed_precision_is_not_taken_in_silence(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")  # accelerate launch, or its configuration file
    with pytest.raises(ValueError, match="accelerate was told mixed precision bf16, our settings say autocast = None"):
        train(tmp_path / "run")
    assert len(train(tmp_path / "run", replace(SETTINGS, autocast="bfloat16"), num_steps=1)) == 1


def test_a_reference_to_sync_is_refused_with_an_adapter_and_leaves_no_run_behind(tmp_path):
    pytest.importorskip("peft")
    with pytest.raises(ValueError, match="TRL syncs no reference of a model with an adapter"):
        train(tmp_path, replace(SETTINGS, ref_sync_every=1), model=load_policy("tiny", device="cpu", lora=2))
    with pytest.raises(ValueError, match="reward weights .* must match number of reward functions"):  # TRL's own
        train(tmp_path, reward_weights=[1.0, 2.0])
    assert not (tmp_path / "steps.jsonl").exists()


# --- the command


def test_the_command_trains_and_says_how_many_processes_do(tmp_path, capsys):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(asdict(SETTINGS)))
    folder = tmp_path / "run"
    arguments = ["--out", str(folder), "--steps", "2", "--settings", str(settings), "--beta", "0", "--log-every", "1"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert f"1 process: pid {os.getpid()} on cpu; 2 prompts x 4 completions a step in each, 8 together" in said
    assert "step    2  loss" in said
    records = load_records(folder)
    assert [record.beta for record in records] == [0.0, 0.0] and records[0].kl is None
    assert records[0] == train(tmp_path / "called", replace(SETTINGS, beta=0.0), num_steps=1)[0]


def test_flags_go_before_the_file_and_the_file_before_the_task_s_settings(tmp_path):
    file = tmp_path / "settings.json"
    file.write_text('{"beta": 0.5, "batch_size": 3}')
    _, settings = parse_command(["--out", "x", "--settings", str(file), "--beta", "0.25"])
    assert (settings.beta, settings.batch_size, settings.num_generations) == (0.25, 3, 8)  # 8: of the tiny task


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trl", "bf16"], "--trl takes NAME=VALUE, got 'bf16'"),
        (["--reward", "my_rewards"], "--reward takes MODULE:FUNCTION, such as my_rewards:shaped"),
        (["--reward", "not_there:shaped"], "No module named 'not_there'; run the command in the folder that holds"),
        (["--data", "folder"], "the problems of 'addition' are made here"),
        (["--num-generations", "1"], "num_generations must be an integer >= 2"),
        (["--trl", "output_dir=there"], "output_dir has a flag of its own"),
        (["--settings", "nowhere.json"], "nowhere.json"),
        (["--steps", "0", "--schedule", "linear"], "schedule_steps must be an integer >= 1"),
    ],
)
def test_a_command_that_cannot_work_says_why(arguments, message, capsys):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        load_run(parse_command(["--out", "x", *arguments])[0])
    assert message in str(caught.value)
    assert main(["--out", "x", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("python -m grpo_lib.scale_out: error: ") and message in said  # and no traceback


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"betta": 1}', "s.json: GRPOSettings has no betta"),
        ("[1, 2]", r"s.json must hold an object, such as .*, got \[1, 2\]"),
        ("{beta: 1}", "s.json is no JSON: Expecting property name"),
    ],
)
def test_a_settings_file_that_does_not_fit_is_named(text, message, tmp_path):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        parse_command(["--out", "x", "--settings", str(tmp_path / "s.json")])


def test_a_decay_ends_with_the_command_s_run():
    command = ["--out", "x", "--steps", "7"]
    assert parse_command([*command, "--schedule", "cosine"])[1].schedule_steps == 7
    assert parse_command([*command, "--schedule", "linear", "--schedule-steps", "9"])[1].schedule_steps == 9
    assert parse_command(command)[1].schedule_steps is None  # so that a constant run may be taken further


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setattr("rank_rewards.calls", 0)
    monkeypatch.setenv("INTERRUPT", "rank 0 in step 3")
    folder = tmp_path / "run"
    assert main([*COMMAND, "--out", str(folder)]) == 130
    said = capsys.readouterr().err
    assert f"interrupted. The run took 2 steps. The newest complete checkpoint is {folder / 'checkpoint-2'}" in said


def test_options_that_trl_does_not_have_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match="GRPOConfig has no option use_vlm: did you mean use_vllm"):
        train(tmp_path / "run", use_vlm=True)
    assert not (tmp_path / "run" / "steps.jsonl").exists()


# --- the launcher


def test_what_a_launcher_leaves_in_the_environment():
    assert launched_processes({"WORLD_SIZE": "4", "ACCELERATE_USE_CPU": "False", "MASTER_ADDR": "a"}, gpus=4) == 4
    assert launched_processes({"ACCELERATE_USE_CPU": "True"}) == 1  # accelerate launch --cpu --num_processes 1
    assert launched_processes({"MASTER_ADDR": "a"}) == 1  # of a cluster, without accelerate
    assert launched_processes({"ACCELERATE_USE_CPU": "True", "MASTER_ADDR": "a", "PMI_SIZE": "2"}) == 1  # mpirun
    with pytest.raises(RuntimeError, match="2 GPUs are visible, but one process runs.*--nproc_per_node 2"):
        launched_processes({}, gpus=2)


def test_accelerate_that_starts_one_process_for_two_is_found_out(tmp_path):
    command = ("accelerate.commands.accelerate_cli", "launch", "--cpu", "--num_processes", "2")
    status, text = launch(command, "-m", "grpo_lib.scale_out", "--out", tmp_path / "run", "--steps", "1")
    assert status != 0 and not (tmp_path / "run").exists()
    assert "accelerate launch was asked for several processes, but started this one alone" in text


@pytest.mark.parametrize(
    "text",
    [
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3421",
        "[../gloo/transport/tcp/buffer.cc:72] Timed out waiting 1800000ms for recv operation to complete",
        "NCCL communicator was aborted on rank 0.",
    ],
)
def test_what_gloo_and_nccl_say_of_a_lost_process_is_put_in_words(text, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="process 0 has lost another process of the run, .* take it up so"):
        with stop_clearly(lambda: "take it up so"):
            raise RuntimeError(text)


def test_a_reward_that_lost_its_network_is_not_taken_for_a_lost_process(tmp_path, monkeypatch):
    def judge(prompts, completions, **columns):
        raise ConnectionResetError("Connection reset by peer")

    with pytest.raises(RuntimeError, match="^the reward function failed, and the run stops: .*reset by peer"):
        train(tmp_path / "run", reward=judge)
    with pytest.raises(RuntimeError, match="^no judge: broken pipe"), stop_clearly(lambda: ""):  # alone: no other one
        raise RuntimeError("no judge: broken pipe")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(OwnError), stop_clearly(lambda: ""):
        raise OwnError("no judge: broken pipe")


def test_a_stop_while_a_reward_is_computed_is_not_taken_for_its_failure(tmp_path):
    def slow(prompts, completions, **columns):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    with pytest.raises(ProcessStopped, match=r"^process 0 was told to stop \(SIGTERM\)"):
        train(tmp_path / "run", reward=slow)


def test_an_error_of_one_s_own_stays_what_it_is():
    with pytest.raises(RuntimeError, match="^shapes differ$"), stop_clearly(lambda: ""):
        raise RuntimeError("shapes differ")


def test_a_launcher_that_ends_the_process_is_put_in_words():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ProcessStopped, match=r"process 0 was told to stop \(SIGTERM\): .* take it up so"):
        with stop_clearly(lambda: "take it up so"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
    assert signal.getsignal(signal.SIGTERM) is before
