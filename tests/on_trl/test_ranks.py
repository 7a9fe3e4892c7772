"""Two processes: that there really are two, that they learn one policy, and what each of them sees."""

import json

import pytest

pytest.importorskip("trl")

import torch
from trl_launches import read, two_ranks

from grpo_lib import group_advantages, load_addition, load_records
from grpo_lib.run import prompt_order


def each_rank(name):
    return [read(two_ranks() / f"{name}-{rank}.json") for rank in (0, 1)]


def seen_prompts(folder="."):
    """[rank][step] → the prompts that the reward function was given."""
    files = [two_ranks() / folder / f"seen-{rank}.jsonl" for rank in (0, 1)]
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def test_two_processes_really_ran_and_both_know_it():
    processes = read(two_ranks() / "run" / "processes.json")
    assert [(one["rank"], one["world_size"], one["backend"]) for one in processes] == [(0, 2, "gloo"), (1, 2, "gloo")]
    pids = [one["pid"] for one in each_rank("run")]
    assert len(set(pids)) == 2 and [one["pid"] for one in processes] == pids
    assert "2 processes over gloo: pid" in (two_ranks() / "output.txt").read_text()


def test_they_end_with_the_same_weights_which_are_not_the_start(tmp_path):
    from grpo_lib import load_policy, load_tiny_policy
    from grpo_lib.trl_checkpoints import weights_digest

    first, second = (one["weights"] for one in read(two_ranks() / "run" / "processes.json"))
    assert first == second != weights_digest(load_tiny_policy()[0])
    model, _ = load_policy(str(two_ranks() / "run" / "model"), device="cpu")
    assert weights_digest(model) == first


def test_a_step_has_twice_the_completions_of_one_process():
    processes = read(two_ranks() / "run" / "processes.json")
    assert [one["rows"] for one in processes] == [8, 8]  # 2 prompts x 4 completions in each
    assert [[len(prompts) for prompts in rank] for rank in seen_prompts()] == [[8] * 6] * 2


def test_no_prompt_is_given_to_both_and_together_they_are_our_own_run_s_in_its_order():
    data = [sample["prompt"][-1]["content"] for sample in load_addition("train")]
    order = [data[row] for row in prompt_order(len(data), 0, 0)[: 6 * 4]]
    for step, (zero, one) in enumerate(zip(*seen_prompts(), strict=True)):
        assert not set(zero) & set(one)
        both = zero + one
        assert both == [prompt for prompt in order[4 * step : 4 * step + 4] for _ in range(4)]  # G in a row


def test_later_passes_over_the_data_are_our_own_run_s_too():
    data = [sample["prompt"][-1]["content"] for sample in load_addition("train")[:5]]
    order = [data[row] for number in range(3) for row in prompt_order(5, 0, number)]
    both = [zero[::4] + one[::4] for zero, one in zip(*seen_prompts("passes"), strict=True)]  # one of each group
    assert both == [order[0:4], order[4:8], order[8:12]]


def test_records_are_of_both_processes_and_written_once():
    records = load_records(two_ranks() / "run")
    assert [record.step for record in records] == [1, 2, 3, 4, 5, 6]
    zero, one = each_rank("run")
    assert [record.reward_mean for record in records] == zero["rewards"] == one["rewards"]
    assert any(round(reward * 8) != reward * 8 for reward in zero["rewards"])  # in sixteenths: no mean of one's 8 rows


def test_a_group_spread_over_both_is_compared_as_a_whole():
    zero, one = each_rank("spread")
    for left, right in zip(zero["steps"], one["steps"], strict=True):
        assert (
            left["rewards"] == right["rewards"] and len(set(left["prompts"])) == 1
        )  # one group, half here, half there
        right_ones = group_advantages(torch.tensor(left["rewards"]), 4)
        torch.testing.assert_close(torch.tensor(left["own"] + right["own"]), right_ones)
        torch.testing.assert_close(torch.tensor(left["all"]), right_ones)


def test_but_its_reward_function_sees_only_its_own_half():
    zero, one = each_rank("spread")
    for step, (mine, theirs) in enumerate(zip(zero["seen"], one["seen"], strict=True)):
        assert len(mine) == len(theirs) == 2  # rows, of a group of 4
        assert sum(zero["steps"][step]["rewards"]) == 2  # each half has its own longest: two winners
    lengths = [mine + theirs for mine, theirs in zip(zero["seen"], one["seen"], strict=True)]
    paid = [step["rewards"] for step in zero["steps"]]
    assert any(
        length < max(group)
        for group, rewards in zip(lengths, paid, strict=True)
        for length, reward in zip(group, rewards, strict=True)
        if reward
    )


def test_a_reward_that_fails_on_one_stops_both_with_the_row():
    texts = [one["error"] for one in each_rank("fails")]
    assert texts[0] == texts[1]
    assert "the reward function failed on process 1 of 2" in texts[0]
    assert "fails_on_rank_1 raised KeyError on row 0 of 8" in texts[0] and "no such unit" in texts[0]
