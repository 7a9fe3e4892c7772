"""Reward functions that know which process they run in."""

import json
import os
import signal
from pathlib import Path

from grpo_lib.tasks import addition_reward

calls = 0


def rank_reward(prompts, completions, answer, **columns):
    """The reward of addition; notes what this process sees, and kills it where the test asks for that."""
    global calls
    calls += 1
    rank = os.environ.get("RANK", "0")
    if os.environ.get("KILL") == f"rank {rank} in step {calls}":
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("INTERRUPT") == f"rank {rank} in step {calls}":
        os.kill(os.getpid(), signal.SIGINT)
    if "SEEN" in os.environ:
        with open(Path(os.environ["SEEN"]) / f"seen-{rank}.jsonl", "a") as file:
            file.write(json.dumps([prompt[-1]["content"] for prompt in prompts]) + "\n")
    return addition_reward(prompts, completions, answer)


def fails_on_rank_1(prompts, completions, answer, **columns):
    if os.environ["RANK"] == "1":
        raise KeyError("no such unit")
    return addition_reward(prompts, completions, answer)


class LongestWins:
    """1 for the longest completion that it sees, 0 for the others: a reward that compares within a group."""

    __name__ = "longest_wins"

    def __init__(self):
        self.seen = []

    def __call__(self, prompts, completions, **columns):
        lengths = [len(ids) for ids in columns["completion_ids"]]
        self.seen.append(lengths)
        first = lengths.index(max(lengths))
        return [float(row == first) for row in range(len(lengths))]
