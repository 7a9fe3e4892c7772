"""The stored control runs are complete, start as new runs do, and show what the lesson says."""

import numpy as np
import pytest

from grpo_lib.control_runs import ARMS, EVAL_EVERY, NUM_STEPS, SEEDS, coin_reward, load_control_runs, run_arm
from grpo_lib.intervals import mean_interval, wilson_interval


def ends(arm):
    return [run["held_out"][-1]["strict"].mean() for run in load_control_runs(arm)]


@pytest.mark.parametrize("arm", ARMS)
def test_stored_runs_are_complete(arm):
    runs = load_control_runs(arm)
    assert [run["seed"] for run in runs] == list(SEEDS)
    for run in runs:
        assert [record["step"] for record in run["steps"]] == list(range(1, NUM_STEPS + 1))
        assert [look["step"] for look in run["held_out"]] == list(range(0, NUM_STEPS + 1, EVAL_EVERY))
        assert (
            [look["step"] for look in run["greedy"]] == [look["step"] for look in run["trained_on"]] == [0, NUM_STEPS]
        )
        looks = run["held_out"] + run["greedy"] + run["trained_on"]
        assert {look["strict"].shape for look in looks} == {(500,)}
        assert all((look["lenient"] >= look["strict"]).all() for look in run["held_out"] + run["greedy"])


@pytest.mark.parametrize("arm", ARMS)
def test_a_new_run_starts_as_the_stored_one(arm):
    again = run_arm(arm, 0, num_steps=2, eval_every=100)
    stored = load_control_runs(arm)[0]
    for name in ("paid", "true", "completion_length"):
        assert again["columns"][name] == [record[name] for record in stored["steps"][:2]]
    assert again["held_out"][0]["strict"] == "".join("01"[r] for r in stored["held_out"][0]["strict"].astype(int))


def test_what_the_lesson_says():
    start = load_control_runs("true")[0]["held_out"][0]["strict"]
    low, high = wilson_interval(int(start.sum()), 500)
    assert all(end > 0.85 for end in ends("true"))
    assert mean_interval(ends("true"))[1] > high
    assert max(ends("random")) < 0.5
    few = [
        (run["trained_on"][-1]["strict"].mean(), run["held_out"][-1]["strict"].mean())
        for run in load_control_runs("few")
    ]
    assert all(own > 0.9 for own, _ in few)
    assert np.mean([own - other for own, other in few]) > 0.05


def test_the_coin_reads_nothing_and_is_fair():
    tosses = coin_reward(0)([""] * 4000, ["right"] * 4000, ["1"] * 4000)
    assert set(tosses) == {0.0, 1.0} and np.mean(tosses) == pytest.approx(0.5, abs=0.03)
    assert (
        tosses[:50]
        == coin_reward(0)([""] * 50, ["wrong"] * 50, ["2"] * 50)
        != coin_reward(1)([""] * 50, [""] * 50, [""] * 50)
    )


def test_unknown_arm_is_refused():
    with pytest.raises(ValueError, match="there are: true, random, few"):
        load_control_runs("coin")
