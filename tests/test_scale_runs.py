"""The tiny policy on both engines: what is stored, what it claims, and how it is made again."""

import runpy
from importlib.util import find_spec

import numpy as np
import pytest

from grpo_lib import scale_runs, stored_runs
from grpo_lib.intervals import mean_interval, wilson_interval
from grpo_lib.scale_runs import ENGINES, load_scale_runs, run_engine, step_seconds
from grpo_lib.two_processes import TWO_COMMAND, run_command, two_processes

STEPS = (20, 50, 100, 150, 200)


def smoothed(engine):
    """(3, 200): the reward of each run, its mean over the last 20 steps."""
    rewards = np.array([[step["reward_mean"] for step in run["steps"]] for run in load_scale_runs(engine)])
    return np.array([[row[max(0, i - 19) : i + 1].mean() for i in range(len(row))] for row in rewards])


def test_rewards_at_equal_steps_agree_over_the_seeds():
    ours, theirs = smoothed("ours"), smoothed("trl")
    for step in STEPS:
        _, low, high = mean_interval(list(ours[:, step - 1]))
        _, their_low, their_high = mean_interval(list(theirs[:, step - 1]))
        assert low <= their_high and their_low <= high, step


def test_the_bands_overlap_at_nine_of_ten_steps():
    ours, theirs = smoothed("ours")[:, 19:], smoothed("trl")[:, 19:]
    overlap = (ours.min(0) <= theirs.max(0)) & (theirs.min(0) <= ours.max(0))
    assert overlap.mean() >= 0.9


def test_held_out_intervals_overlap_in_eight_of_nine_pairs_and_over_the_seeds():
    apart, ends = [], {}
    for run in load_scale_runs("trl"):
        found = run["accuracy"]
        assert found["total"] == 500
        assert wilson_interval(found["correct"], 500)[-2:] == pytest.approx((found["low"], found["high"]))
        for other in load_scale_runs("ours"):
            if found["low"] > other["accuracy"]["high"] or other["accuracy"]["low"] > found["high"]:
                apart.append((run["seed"], other["seed"]))
    assert apart == [(2, 2)]
    for engine in ENGINES:
        _, *ends[engine] = mean_interval([run["accuracy"]["correct"] / 500 for run in load_scale_runs(engine)])
    assert ends["ours"][0] <= ends["trl"][1] and ends["trl"][0] <= ends["ours"][1]


def test_the_difference_of_three_seeds_is_gone_over_six():
    means = {}
    for engine in ENGINES:
        six = load_scale_runs(engine) + load_scale_runs(f"later {engine}")
        assert [run["seed"] for run in six] == [0, 1, 2, 3, 4, 5]
        means[engine] = mean_interval([run["accuracy"]["correct"] / 500 for run in six])
    assert abs(means["ours"][0] - means["trl"][0]) < 0.01
    assert means["ours"][1] < means["trl"][0] < means["ours"][2]


def test_our_engine_makes_the_runs_of_notebook_10_again():
    assert load_scale_runs("ours") == stored_runs.load_stored_runs("base")
    made, stored = run_engine("ours", 1, 2, problems=4), stored_runs.load_stored_runs("base")[1]["steps"][:2]
    assert made["columns"]["reward_mean"] == [step["reward_mean"] for step in stored]
    assert made["accuracy"]["total"] == 4


def test_steps_are_timed_but_the_first():
    assert len(step_seconds("ours", 3)) == 2 and min(step_seconds("ours", 2)) > 0
    with pytest.raises(ValueError, match="num_steps must be an integer >= 2, got 1"):
        step_seconds("ours", 1)


@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is an extra")
def test_trl_makes_the_same_again():
    made, stored = run_engine("trl", 1, 2, problems=4), load_scale_runs("trl")[1]["steps"][:2]
    assert made["columns"]["reward_mean"] == [step["reward_mean"] for step in stored]


def test_the_command_makes_every_arm(monkeypatch):
    calls = []
    monkeypatch.setattr(stored_runs, "store_runs", lambda *arguments: calls.append(arguments))
    runpy.run_path(scale_runs.__file__, run_name="__main__")
    [(file, table, run, right)] = calls
    assert (file, list(table)) == ("scale_runs.json", ["trl", "later ours", "later trl"])
    monkeypatch.setitem(run.__globals__, "run_engine", lambda *arguments: arguments)
    assert run(table["later trl"], 1) == ("trl", 4) and run(table["trl"], 2) == ("trl", 2)
    assert right({"accuracy": {"correct": 1, "total": 4}}) == 0.25
    with pytest.raises(ValueError, match="arm must be one of 'ours', 'trl', .*, got 'verl'"):
        load_scale_runs("verl")


def test_the_stored_two_processes_are_two_with_the_same_weights(monkeypatch):
    monkeypatch.setattr("grpo_lib.two_processes.find_spec", lambda name: None)
    found = two_processes()
    one, other = found["processes"]
    assert found["source"] == "stored" and one["pid"] != other["pid"] and {one["rank"], other["rank"]} == {0, 1}
    assert one["weights"] == other["weights"] and one["rows"] == other["rows"] == 4 * 8
    assert one["world_size"] == 2 and "64 together" in found["output"]
    assert [step["step"] for step in found["steps"]] == [1, 2, 3, 4, 5]


def test_a_command_that_fails_tells_what_it_said(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 2:\n(.|\n)*--out"):
        run_command("python -m grpo_lib.scale_out --model tiny", tmp_path)
    with pytest.raises(ValueError, match="begins with torchrun or python, got 'rm'"):
        run_command("rm -r runs", tmp_path)
    assert TWO_COMMAND.startswith("torchrun --nproc_per_node 2 -m grpo_lib.scale_out ")
