"""Runs of the tiny policy that are too many to wait for in class, stored with their seeds.

    python -m grpo_lib.stored_runs              # all of them again, about half an hour on one core
    python -m grpo_lib.stored_runs "beta = 2"   # one setting

Every run starts from the shipped policy and takes 200 steps of `BASE` with one change. `load_stored_runs` reads them.
"""

import itertools
import json
import sys
from functools import lru_cache
from importlib import resources

__all__ = ["BASE", "STORED", "load_stored_runs", "run_once", "steps_of", "store_runs"]

NUM_STEPS, SEEDS = 200, (0, 1, 2)
BASE = {
    "batch_size": 8,
    "num_generations": 8,
    "max_completion_length": 24,
    "beta": 0.0,
    "learning_rate": 1e-4,
    "warmup_steps": 10,
    "max_grad_norm": 1.0,
}
STORED = {
    "base": {},
    "beta = 0.5": {"beta": 0.5},
    "beta = 2": {"beta": 2.0},
    "lr = 3e-5": {"learning_rate": 3e-5},
    "lr = 3e-4": {"learning_rate": 3e-4},
    "lr = 5e-4": {"learning_rate": 5e-4},
    "lr = 1e-3": {"learning_rate": 1e-3},
    "G = 2": {"batch_size": 4, "num_generations": 2},
    "G = 4": {"batch_size": 4, "num_generations": 4},
    "G = 8": {"batch_size": 4, "num_generations": 8},
    "G = 32": {"batch_size": 4, "num_generations": 32},
}
COLUMNS = ("reward_mean", "completion_length", "entropy", "kl", "kl_median", "zero_variance")


@lru_cache
def _stored():
    return json.loads((resources.files("grpo_lib") / "data" / "tiny_runs.json").read_text(encoding="utf-8"))


def load_stored_runs(name):
    """Read the stored runs of one setting, one a seed.

    Args:
        name: a key of `STORED`, such as "beta = 2".
    Returns:
        a list of dicts with "seed", "steps" (a list of records: step, reward_mean, completion_length, entropy, kl,
        kl_median, zero_variance, reasoning) and "accuracy" (sampled, on the 500 held-out problems: correct, total,
        low, high, and reasoning, the share of completions that think).
    Raises:
        ValueError: on a name that is not stored.

    >>> [run["seed"] for run in load_stored_runs("base")]
    [0, 1, 2]
    """
    if name not in _stored():
        raise ValueError(f"no runs stored as {name!r}; there are: {', '.join(_stored())}")
    return [
        {"seed": stored["seed"], "steps": steps_of(stored["columns"]), "accuracy": stored["accuracy"]}
        for stored in _stored()[name]
    ]


def steps_of(columns):
    """Turn stored columns into records of steps.

    >>> steps_of({"reward_mean": [0.1, 0.2]})
    [{'step': 1, 'reward_mean': 0.1}, {'step': 2, 'reward_mean': 0.2}]
    """
    rows = zip(*columns.values(), strict=True)
    return [{"step": i, **dict(zip(columns, row, strict=True))} for i, row in enumerate(rows, start=1)]


def run_once(change, seed, num_steps=NUM_STEPS):
    """Train the shipped policy with `BASE` and one change; return what is stored of it.

    Args:
        change: a dict of settings, such as {"beta": 2.0}. seed: of order and samples. num_steps: steps to take.
    Returns:
        a dict with "seed", "columns" (name → one number a step, rounded) and "accuracy".
    """
    from grpo_lib.evaluation import evaluate_accuracy
    from grpo_lib.models import load_tiny_policy
    from grpo_lib.records import GRPOSettings
    from grpo_lib.run import GRPORun
    from grpo_lib.tasks import addition_reward, has_reasoning, load_addition

    model, tokenizer = load_tiny_policy()
    settings = GRPOSettings(**{**BASE, **change}, track_kl=True, seed=seed)
    run = GRPORun(model, tokenizer, load_addition("train"), settings, reward_function=addition_reward)
    columns = {name: [] for name in (*COLUMNS, "reasoning")}
    for record in itertools.islice(run, num_steps):
        thinking = sum(map(has_reasoning, run.rollout.texts)) / len(run.rollout)
        for name in COLUMNS:
            columns[name].append(float(f"{getattr(record, name):.4g}"))
        columns["reasoning"].append(float(f"{thinking:.4g}"))
    result = evaluate_accuracy(model, tokenizer, load_addition("test"), addition_reward, max_completion_length=24)
    thinking = sum(map(has_reasoning, result.texts)) / result.total
    accuracy = {"correct": result.correct, "total": result.total, "low": result.low, "high": result.high}
    return {"seed": seed, "columns": columns, "accuracy": {**accuracy, "reasoning": thinking}}


def store_runs(file, table, run, right, seeds=SEEDS):
    """The command of a module of stored runs: make what is named (or all) again, and put it beside the rest.

    Args:
        file: a name in the package's data folder. table: dict name → change, in the order of the file.
        run: `run(change, seed)` → what is stored of one run. right: `right(stored)` → its share of right answers.
        seeds: one run for each.
    """
    import torch

    torch.set_num_threads(1)
    path = resources.files("grpo_lib") / "data" / file
    for name in sys.argv[1:] or table:
        runs = [run(table[name], seed) for seed in seeds]
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        stored[name] = runs
        in_order = {key: stored[key] for key in table if key in stored}
        path.write_text(json.dumps(in_order, separators=(",", ":")) + "\n", encoding="utf-8")
        shares = ", ".join(f"{right(one):.3f}" for one in runs)
        print(f"{name}: right on held-out problems {shares}", flush=True)


def _right(stored):
    return stored["accuracy"]["correct"] / stored["accuracy"]["total"]


if __name__ == "__main__":
    store_runs("tiny_runs.json", STORED, run_once, _right)
