"""A run that is killed, and taken up: in two processes, in one, and where the checkpoint does not fit."""

import functools
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("trl")

from trl_launches import COMMAND, TORCHRUN, launch, read, two_ranks

from grpo_lib import GRPOSettings, addition_reward, load_addition, load_records, load_tiny_policy, train_with_trl
from grpo_lib.trl_checkpoints import complete_checkpoints, weights_digest

SETTINGS = GRPOSettings(
    batch_size=2, num_generations=4, max_completion_length=24, beta=0.04, learning_rate=3e-4, warmup_steps=2
)
DATA = load_addition("train")[:5]  # fewer than the run takes: it comes to its second pass


def train(folder, *, settings=SETTINGS, data=DATA, reward=addition_reward, num_steps=4, model=None, **options):
    model, tokenizer = model or load_tiny_policy()
    options = {"checkpoint_every": 2, "quiet": True} | options
    return train_with_trl(
        model,
        tokenizer,
        data,
        settings,
        num_steps=num_steps,
        reward_function=reward,
        output_dir=folder,
        **options,
    )


# --- two processes


@functools.cache
def killed():
    """A run of two ranks, of which the second is killed in step 4: (folder, exit status, output)."""
    folder = Path(tempfile.mkdtemp(prefix="grpo-killed-")) / "run"
    return folder, *launch(TORCHRUN, "-m", "grpo_lib.scale_out", *COMMAND, "--out", folder, KILL="rank 1 in step 4")


@functools.cache
def taken_up():
    folder = Path(tempfile.mkdtemp(prefix="grpo-taken-up-")) / "run"
    shutil.copytree(killed()[0], folder)
    status, text = launch(TORCHRUN, "-m", "grpo_lib.scale_out", *COMMAND, "--out", folder, "--resume")
    assert status == 0, text
    return folder, text


def test_a_killed_rank_stops_the_other_which_says_what_happened_and_how_to_go_on():
    folder, status, text = killed()
    assert status != 0 and "exitcode  : -9" in text
    assert "STOPPED: process 0 has lost another process of the run" in text or "was told to stop (SIGTERM)" in text
    assert f"The run took 3 steps. The newest complete checkpoint is {folder / 'checkpoint-2'}" in text
    assert "the same command and --resume" in text
    assert [record.step for record in load_records(folder)] == [1, 2, 3]
    assert not (folder / "model").exists()


def test_two_ranks_go_on_to_the_bit_where_an_unbroken_run_would_be():
    folder, text = taken_up()
    assert f"taken up after step 2, from {folder / 'checkpoint-2'}" in text
    assert load_records(folder) == load_records(two_ranks() / "run")  # no step twice, none missing, all fields equal
    broken, whole = (read(path / "processes.json") for path in (folder, two_ranks() / "run"))
    assert [one["weights"] for one in broken] == [one["weights"] for one in whole]


def test_one_process_cannot_take_up_a_run_of_two():
    facts = read(killed()[0] / "checkpoint-2" / "grpo_run.json")
    settings = GRPOSettings(**facts["settings"])
    with pytest.raises(ValueError, match="saved with processes = 2, this one has 1; random streams"):
        train(killed()[0], settings=settings, data=load_addition("train"), reward=addition_reward, resume=True)


# --- one process


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(folder, records, digest of the model) of an unbroken run."""
    folder, (model, tokenizer) = tmp_path_factory.mktemp("whole") / "run", load_tiny_policy()
    records = train(folder, model=(model, tokenizer))
    return folder, records, weights_digest(model)


@pytest.fixture
def broken(whole, tmp_path):
    """The same run as a kill leaves it: after step 3, with a half-written line."""
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    for name in ("checkpoint-4", "model"):
        shutil.rmtree(folder / name)
    lines = (folder / "steps.jsonl").read_text().splitlines(keepends=True)
    (folder / "steps.jsonl").write_text("".join(lines[:3]) + lines[3][:40])
    return folder


def test_alone_too_with_a_reference_a_warm_up_and_a_second_pass_over_the_data(whole, broken, capsys):
    model, tokenizer = load_tiny_policy()
    records = train(broken, model=(model, tokenizer), resume=True, quiet=False)
    assert records == whole[1] == load_records(broken) and weights_digest(model) == whole[2]
    assert records[3].kl > 0  # so the reference is the start, not the checkpoint's policy
    assert "taken up after step 2" in capsys.readouterr().out


def test_several_updates_and_parts_a_rollout(tmp_path):
    settings = replace(SETTINGS, updates_per_rollout=2, micro_batch_size=4)
    records = train(tmp_path / "run", settings=settings, num_steps=2, checkpoint_every=1)
    assert [path.name for path in complete_checkpoints(tmp_path / "run")] == ["checkpoint-2", "checkpoint-4"]
    shutil.rmtree(tmp_path / "run" / "checkpoint-4")
    assert train(tmp_path / "run", settings=settings, num_steps=2, checkpoint_every=1, resume=True) == records


def test_a_finished_run_is_left_as_it_is_and_the_model_gets_its_weights(whole):
    model, tokenizer = load_tiny_policy()
    assert train(whole[0], model=(model, tokenizer), resume=True) == whole[1]
    assert weights_digest(model) == whole[2]


def test_nothing_to_take_up_starts_at_step_0_and_says_so(tmp_path, capsys):
    train(tmp_path / "run", num_steps=1, checkpoint_every=None, resume=True, quiet=False)
    assert f"no complete checkpoint in {tmp_path / 'run'}: the run starts at step 0" in capsys.readouterr().out


def test_a_finished_run_without_a_checkpoint_is_not_overwritten(tmp_path):
    train(tmp_path / "run", num_steps=1, checkpoint_every=None)
    _refused(tmp_path / "run", "holds a finished run that left no checkpoint (see checkpoint_every)")


@pytest.mark.parametrize("name", ["checkpoint-2/weights.bin", "model/config.json", "steps.jsonl"])
def test_what_another_run_left_is_not_overwritten(name, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    (tmp_path / "notes.txt").write_text("no harm")
    _refused(tmp_path, f"choose another folder; in it there is {name.split('/')[0]}", resume=False)
    with pytest.raises(ValueError, match="is a file: a run needs a folder of its own"):
        train(tmp_path / "notes.txt")


def test_a_checkpoint_that_was_being_written_counts_for_nothing(broken):
    shutil.copytree(broken / "checkpoint-2", broken / "checkpoint-3")
    (broken / "checkpoint-3" / "grpo_run.json").unlink()
    assert [path.name for path in complete_checkpoints(broken)] == ["checkpoint-2"]


# --- what is refused, before anything is changed


def _other_rewards(prompts, completions, answer, **columns):
    return [0.0] * len(prompts)


def _other_start():
    model, tokenizer = load_tiny_policy()
    model.lm_head.weight.data[0, 0] += 1e-3
    return model, tokenizer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": replace(SETTINGS, learning_rate=1e-3)}, "learning_rate = 0.0003, this one has 0.001; TRL takes"),
        ({"settings": replace(SETTINGS, num_generations=2)}, "num_generations = 4, this one has 2"),
        ({"data": DATA[::-1]}, "it was trained on other data than this one is given"),
        ({"reward": _other_rewards}, "reward = 'addition_reward', this one has '_other_rewards'"),
        ({"adam_beta2": 0.9}, "adam_beta2 = None, this one has 0.9"),
        ({"resume": "nowhere/checkpoint-2"}, "checkpoint nowhere/checkpoint-2 is not there; complete in"),
        ({"resume": False}, "holds a run already: take it up with resume=True"),
        ({"checkpoint_every": 0}, "checkpoint_every must be an integer >= 1"),
        ({"save_steps": 3}, "save_steps: records come with every step, checkpoints with checkpoint_every"),
    ],
)
def test_another_run_s_checkpoint_is_refused(broken, change, message):
    _refused(broken, message, **change)


def test_another_start_is_refused(broken):
    _refused(broken, "it started from other weights than this one is given; the reference is the start", _other_start())


def test_a_schedule_that_ends_elsewhere_is_refused(tmp_path):
    settings = replace(SETTINGS, beta=0.0, schedule="linear", schedule_steps=1)
    train(tmp_path / "run", settings=settings, num_steps=1, checkpoint_every=1)
    with pytest.raises(ValueError, match="a run of 1 steps, whose schedule ends there; this one has 2"):
        train(tmp_path / "run", settings=settings, num_steps=2, checkpoint_every=1, resume=True)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_file_that_is_missing_or_cut_is_named(broken, name):
    file = broken / "checkpoint-2" / name
    file.write_bytes(file.read_bytes()[:-10])
    _refused(broken, f"is damaged: {name} has {file.stat().st_size} bytes, and had {file.stat().st_size + 10}")
    file.unlink()
    _refused(broken, f"is damaged: {name} is missing. Delete it, and take up an earlier checkpoint")


def test_records_that_are_missing_are_named(broken):
    lines = (broken / "steps.jsonl").read_text().splitlines(keepends=True)
    (broken / "steps.jsonl").write_text(lines[1])
    _refused(broken, "does not hold the steps 1 to 2 that checkpoint-2 was saved after")


def test_later_checkpoints_than_the_asked_one_are_named(whole):
    _refused(whole[0], "holds checkpoint-4, ahead of checkpoint-2", resume=whole[0] / "checkpoint-2")


def test_a_reference_that_moved_cannot_be_taken_up(tmp_path):
    settings = replace(SETTINGS, ref_sync_every=1)
    train(tmp_path / "run", settings=settings, num_steps=1, checkpoint_every=1)
    _refused(tmp_path / "run", "TRL's checkpoints hold no reference", settings=settings, num_steps=2)


def _refused(folder, message, model=None, **change):
    model, tokenizer = model or load_tiny_policy()
    before, files = weights_digest(model), _files(folder)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        train(folder, model=(model, tokenizer), **{"resume": True} | change)
    assert message in str(caught.value)
    assert weights_digest(model) == before and _files(folder) == files


def _files(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_manifest_says_what_the_run_was_told(whole):
    facts = json.loads((whole[0] / "checkpoint-2" / "grpo_run.json").read_text())
    assert GRPOSettings(**facts["settings"]) == SETTINGS and facts["processes"] == 1 and facts["num_steps"] == 4
