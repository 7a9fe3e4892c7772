"""Runs that are killed, evaluated, told how long they take; and runs from which nothing can be learned."""

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

from grpo_lib.checkpoints import latest_checkpoint, list_checkpoints
from grpo_lib.training import GRPORun, GRPOSettings, projected_time, train_with_grpo

pytestmark = pytest.mark.filterwarnings("ignore:step .* every completion was cut")
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
ARGUMENTS = {
    "batch_size": 3,
    "max_completion_length": 6,
    "learning_rate": 3e-3,
    "max_grad_norm": 1.0,
    "beta": 0.1,
    "schedule": "cosine",
    "warmup_steps": 2,
}


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def lively(adapter=False):
    torch.manual_seed(0)
    model = tiny_model("qwen3", initializer_range=0.6).eval()
    if adapter:
        from grpo_lib.adapters import add_lora

        model = add_lora(model, 4)
    return model


def train(model, num_steps, **arguments):
    arguments = {**ARGUMENTS, "quiet": True, "reward_function": count_w5, **arguments}
    return train_with_grpo(model, CountingTokenizer(), DATA, num_steps, **arguments)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# ---- killed


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from test_long_runs import *
torch.set_num_threads(1)

def kill(run, record):
    if record.step == {at}:
        os.kill(os.getpid(), signal.SIGKILL)

train(lively({adapter}), 6, checkpoint_dir={folder!r}, checkpoint_every=1, keep_last=2, callbacks=[kill])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on Windows")
@pytest.mark.parametrize("adapter", [False, True], ids=["full", "adapter"])
def test_kill_9_after_step_3_of_6_and_the_same_curve_and_weights(tmp_path, adapter):
    if adapter:
        pytest.importorskip("peft")
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path), at=4, adapter=adapter)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000002", "step-000003"]

    history, straight = [], []
    other = lively(adapter)
    with torch.no_grad():
        for parameter in other.parameters():
            if parameter.requires_grad:
                parameter.zero_()  # all that learns must come from the checkpoint
    resumed = train(other, 6, checkpoint_dir=tmp_path, resume=True, history=history)
    unbroken = train(lively(adapter), 6, history=straight)
    assert history == straight and len(history) == 6
    assert history[3].kl > 1e-6  # the reference is the old start
    assert (weights(resumed) - weights(unbroken)).abs().max() < 1e-6


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on Windows")
def test_killed_while_it_saves_leaves_the_last_good_one(tmp_path):
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path), at=99, adapter=False)
    half = "import grpo_lib.checkpoints as c\nplain, calls = c.save_file, []\n"
    half += "def dies(*args):\n    calls.append(1)\n    plain(*args)\n"
    half += "    if len(calls) == 6:\n        os.kill(os.getpid(), signal.SIGKILL)\nc.save_file = dies\n"
    code = code.replace("torch.set_num_threads(1)\n", "torch.set_num_threads(1)\n" + half)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert latest_checkpoint(tmp_path).name == "step-000002"
    assert list(tmp_path.glob(".unfinished-*"))
    history = []
    train(lively(), 6, checkpoint_dir=tmp_path, resume=True, history=history)
    straight = []
    train(lively(), 6, history=straight)
    assert history == straight
    assert not list(tmp_path.glob(".unfinished-*"))


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    train(lively(), 5, checkpoint_dir=tmp_path, checkpoint_every=1, keep_last=2)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000004", "step-000005"]
    for keep_last in (0, True):
        with pytest.raises(ValueError, match="keep_last must be an integer >= 1.*None for all"):
            train(lively(), 5, checkpoint_dir=tmp_path / "other", keep_last=keep_last)


# ---- the best


def scripted(values):
    """An evaluation that returns these numbers one after another, and notes the weights it saw."""
    values, seen = iter(values), []

    def evaluate(model, tokenizer):
        seen.append(weights(model).clone())
        return {"accuracy": next(values)}

    return evaluate, seen


def test_the_best_policy_of_a_run_is_kept_as_a_model_that_loads(tmp_path):
    from transformers import AutoModelForCausalLM

    evaluate, seen = scripted([0.2, 0.7, 0.7, 0.5])
    train(lively(), 8, evaluate=evaluate, eval_every=2, best_metric="accuracy", checkpoint_dir=tmp_path, keep_last=1)
    assert json.loads((tmp_path / "best" / "best.json").read_text()) == {"step": 4, "metric": "accuracy", "value": 0.7}
    best = AutoModelForCausalLM.from_pretrained(tmp_path / "best", dtype=torch.float32)
    assert torch.equal(weights(best), seen[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "step-000008"]


def test_the_best_of_an_adapter_is_small_and_a_resumed_run_remembers_it(tmp_path):
    pytest.importorskip("peft")
    from grpo_lib.adapters import load_adapter

    options = {"eval_every": 1, "best_metric": "accuracy", "checkpoint_dir": tmp_path, "schedule_steps": 4}
    evaluate, seen = scripted([0.6, 0.3])
    train(lively(True), 2, evaluate=evaluate, **options)
    evaluate, _ = scripted([0.5, 0.4])
    train(lively(True), 4, evaluate=evaluate, resume=True, **options)
    assert json.loads((tmp_path / "best" / "best.json").read_text())["step"] == 1
    assert not (tmp_path / "best" / "model.safetensors").exists()
    best = load_adapter(lively(), tmp_path / "best")
    assert torch.equal(weights(best), seen[0])


def test_best_metric_that_cannot_be_measured_is_refused(tmp_path):
    with pytest.raises(ValueError, match="best_metric needs evaluate"):
        train(lively(), 1, best_metric="accuracy")
    evaluate, _ = scripted([0.1])
    with pytest.raises(ValueError, match=r"one of the evaluation's numbers, \['accuracy'\], got 'reward'"):
        train(lively(), 1, evaluate=evaluate, eval_every=1, best_metric="reward", checkpoint_dir=tmp_path)


# ---- how long


def test_the_first_step_tells_how_long_a_long_run_takes(capsys, monkeypatch):
    train(lively(), 2, quiet=False)
    assert "steps left" not in capsys.readouterr().out
    monkeypatch.setattr("grpo_lib.clock.time.perf_counter", itertools.count(0, 10).__next__)  # 10 s between two looks
    train(lively(), 3, quiet=False)
    assert capsys.readouterr().out.count("for the 2 steps left") == 1


def test_projected_time_in_fitting_units():
    record = SimpleNamespace(step=1, seconds={"generate": 20.0, "backward": 10.0})
    assert projected_time(record, 3).startswith(
        "step 1 took 30.0 s (generate 20.0, backward 10.0): about 90 s for the 3"
    )
    assert "about 50 min for the 100" in projected_time(record, 100)
    assert "about 4.2 h for the 500" in projected_time(record, 500)


# ---- nothing to learn from


def start(**settings):
    settings = {**ARGUMENTS, "schedule": "constant", **settings}
    data, reward = settings.pop("data", DATA), settings.pop("reward", count_w5)
    return GRPORun(lively(), CountingTokenizer(), data, GRPOSettings(**settings), reward_function=reward)


def test_too_little_data_is_said_at_once():
    with pytest.warns(UserWarning, match=r"2 sample\(s\) and batch_size is 3: prompts repeat"):
        start(data=DATA[:2])


def test_rewards_that_are_all_equal_are_said_at_the_first_step():
    run = start(reward=lambda prompts, completions, answer: [1.5] * len(completions))
    message = "mean is 1.5; share of zero-variance groups 1.0.*nothing to compare.*record.samples"
    with pytest.warns(UserWarning, match=message):
        next(run)


@pytest.mark.filterwarnings("error:.*the rewards are equal")
def test_rewards_that_differ_are_not_warned_of():
    next(start())


def test_logits_that_are_nan_stop_a_run_and_what_was_saved_stays(tmp_path):
    def poison(run, record):
        if record.step == 2:
            run.model.lm_head.register_forward_hook(lambda m, i, out: out * float("nan"))

    history = []
    with pytest.raises(FloatingPointError, match="the model's logits are not finite.*last checkpoint"):
        train(lively(), 6, checkpoint_dir=tmp_path, checkpoint_every=1, callbacks=[poison], history=history)
    assert len(history) == 2
    assert latest_checkpoint(tmp_path).name == "step-000002"
    history.clear()
    train(lively(), 6, checkpoint_dir=tmp_path, resume=True, history=history)
    straight = []
    train(lively(), 6, history=straight)
    assert history == straight
