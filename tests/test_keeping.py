"""A panel's callback keeps what train_with_grpo keeps, and a run is taken up with its own settings."""

import itertools
import json
import os

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

from grpo_lib.best_policy import drop_old_checkpoints, save_best
from grpo_lib.checkpoints import list_checkpoints
from grpo_lib.keeping import evaluate_newest, keep_run, take_up
from grpo_lib.training import GRPORun, GRPOSettings, train_with_grpo

pytestmark = pytest.mark.filterwarnings("ignore:step .*")
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
FAST = {"batch_size": 3, "max_completion_length": 6, "learning_rate": 3e-3, "max_grad_norm": 1.0, "beta": 0.0}


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def start(**changes):
    torch.manual_seed(0)
    model = tiny_model("qwen3", initializer_range=0.6).eval()
    settings = GRPOSettings(**{**FAST, **changes})
    return GRPORun(model, CountingTokenizer(), DATA, settings, reward_function=count_w5)


def evaluate_by(values):
    values = iter(values)
    return lambda model, tokenizer: {"accuracy": next(values)}


def test_the_callback_keeps_what_train_with_grpo_keeps(tmp_path):
    options = {"eval_every": 2, "best_metric": "accuracy", "checkpoint_every": 2, "keep_last": 2}
    run, history = start(), []
    keep = keep_run(tmp_path / "loop", evaluate=evaluate_by([0.2, 0.7, 0.5]), **options)
    for record in itertools.islice(run, 6):
        keep(run, record)
    train_with_grpo(
        start().model,
        CountingTokenizer(),
        DATA,
        6,
        checkpoint_dir=tmp_path / "call",
        evaluate=evaluate_by([0.2, 0.7, 0.5]),
        reward_function=count_w5,
        history=history,
        quiet=True,
        **options,
        **FAST,
    )
    assert run.history == history
    for folder in (tmp_path / "loop", tmp_path / "call"):
        assert [path.name for path in list_checkpoints(folder)] == ["step-000004", "step-000006"]
        assert json.loads((folder / "best" / "best.json").read_text())["step"] == 4


def test_the_evaluation_stands_in_the_record(tmp_path):
    run = start()
    next(run)
    record = evaluate_newest(run, lambda model, tokenizer: {"accuracy": torch.tensor(0.5)})
    assert record is run.history[-1] and record.evaluation == {"accuracy": 0.5}


def test_a_run_is_taken_up_with_the_settings_it_was_given(tmp_path, capsys):
    run = start()
    list(itertools.islice(run, 2))
    run.save(tmp_path)
    unbroken = next(run)
    again = start()
    assert take_up(again, tmp_path) == 2 and next(again) == unbroken
    assert "taken up after step 2" in capsys.readouterr().out
    slower = start(learning_rate=1e-5)
    take_up(slower, tmp_path, quiet=True)
    assert next(slower).learning_rate == 1e-5
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_every": 0}, "checkpoint_every must be an integer >= 1"),
        ({"checkpoint_every": 1, "keep_last": 0}, "keep_last must be an integer >= 1, got 0, or None for all"),
        ({"checkpoint_every": 1, "evaluate": print}, "go together"),
        ({"checkpoint_every": 1, "evaluate": print, "eval_every": 0}, "eval_every must be"),
        ({"checkpoint_every": 1, "best_metric": "accuracy"}, "best_metric needs evaluate"),
    ],
)
def test_what_cannot_be_kept_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        keep_run("somewhere", **options)


def test_nan_is_never_the_best_and_a_metric_that_was_not_measured_counts_for_nothing(tmp_path):
    run, found = start(), [{"other": 1.0}, {"accuracy": float("nan")}, {"accuracy": 0.2}, {"accuracy": 0.1}]
    saved = []
    for evaluation in found:
        next(run)
        evaluate_newest(run, lambda model, tokenizer, evaluation=evaluation: evaluation)
        if "accuracy" in evaluation:
            saved.append(save_best(tmp_path, run, "accuracy"))
    assert saved == [False, True, False]
    assert json.loads((tmp_path / "best" / "best.json").read_text()) == {"step": 3, "metric": "accuracy", "value": 0.2}


def test_a_checkpoint_half_deleted_is_none_and_goes_at_the_next_save(tmp_path, monkeypatch):
    run = start()
    for _ in range(3):
        next(run)
        run.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("grpo_lib.best_policy.shutil.rmtree", lambda *args, **kwargs: None)  # killed before it
        drop_old_checkpoints(tmp_path, 1)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-000003"]
    next(run)
    run.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000003", "step-000004"]


def test_a_kill_between_two_bests_leaves_the_old_one_for_the_next_checkpoint_too(tmp_path, monkeypatch):
    run, rename = start(), os.rename

    def killed(source, target):
        if source.name.startswith(".unfinished"):
            raise KeyboardInterrupt
        rename(source, target)

    def save(value):
        next(run)
        evaluate_newest(run, lambda model, tokenizer: {"accuracy": value})
        save_best(tmp_path, run, "accuracy")

    save(0.1)
    with monkeypatch.context() as patch:
        patch.setattr("grpo_lib.best_policy.os.rename", killed)
        with pytest.raises(KeyboardInterrupt):
            save(0.2)
    run.save(tmp_path)
    assert json.loads((tmp_path / "best.old" / "best.json").read_text())["value"] == 0.1
    save(0.3)
    assert json.loads((tmp_path / "best" / "best.json").read_text())["value"] == 0.3
