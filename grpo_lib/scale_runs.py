"""One policy, two engines: the tiny policy trained by our own loop and by TRL's trainer, stored with their seeds.

    python -m grpo_lib.scale_runs          # all of them again: nine runs, ten minutes on one core; needs TRL
    python -m grpo_lib.scale_runs trl      # TRL's three

Ours are those of `stored_runs`, "base". Model, problems, reward, settings (`BASE` there, 200 steps) are the same, and
so is the order of the problems; the draws are not: each engine has random streams of its own, so two runs with one seed
are two runs. What was expected, written down before TRL's runs were made:

    the mean reward over the last 20 steps, at steps 20, 50, 100, 150 and 200: over the three seeds of each engine, the
        95 % intervals of the mean (Student's t) overlap
    on the 500 held-out problems, sampled: the Wilson interval of each of TRL's runs overlaps with each of ours
    no larger difference at any step than seeds of one engine show: at 9 of 10 steps from 20 on, the bands of the two
        engines (least to largest of three seeds, running mean over 20 steps) overlap

What came: the rewards as expected at all five steps, the bands at 97 % of the steps. On the held-out problems eight of
the nine pairs overlap; ours with seed 2, .930 [.904, .949], and TRL's with seed 2, .874 [.842, .900], do not. Over
the seeds the intervals of the mean do: .915 [.865, .966] and .887 [.857, .917]. When that had been seen, three more
runs of each engine were made, "later ours" and "later trl", to look whether it is the engine: .892, .892, .878 and
.896, .892, .904; over all six seeds .901 [.880, .923] and .892 [.881, .903].
"""

import itertools
import json
import tempfile
from functools import lru_cache
from importlib import resources

from grpo_lib._arguments import check_choice, check_count
from grpo_lib.stored_runs import BASE, NUM_STEPS, load_stored_runs, steps_of, store_runs

__all__ = ["ARMS", "ENGINES", "load_scale_runs", "run_engine", "step_seconds"]

ENGINES = ("ours", "trl")
ARMS = {"trl": ("trl", 0), "later ours": ("ours", 3), "later trl": ("trl", 3)}  # engine, first of three seeds
COLUMNS = ("reward_mean", "completion_length", "entropy", "zero_variance")


@lru_cache
def _stored():
    return json.loads((resources.files("grpo_lib") / "data" / "scale_runs.json").read_text(encoding="utf-8"))


def load_scale_runs(arm):
    """Read the stored runs of one arm, one a seed.

    Args:
        arm: "ours" or "trl", seeds 0 to 2; "later ours" or "later trl", seeds 3 to 5.
    Returns:
        a list of dicts with "seed"; "steps", records (step, reward_mean, completion_length, entropy, zero_variance and,
        of ours, more); "accuracy", sampled, on the 500 held-out problems (correct, total, low, high).
    Raises:
        ValueError: on another arm.

    >>> [(run["seed"], len(run["steps"])) for run in load_scale_runs("trl")]
    [(0, 200), (1, 200), (2, 200)]
    """
    check_choice("arm", arm, ("ours", *ARMS))
    if arm == "ours":
        return load_stored_runs("base")
    return [
        {"seed": stored["seed"], "steps": steps_of(stored["columns"]), "accuracy": stored["accuracy"]}
        for stored in _stored()[arm]
    ]


def run_engine(engine, seed, num_steps=NUM_STEPS, *, problems=None):
    """Train the shipped policy with one engine; return what is stored of it.

    Args:
        engine: "ours" (`GRPORun`) or "trl" (`train_with_trl`). seed: of order and samples. num_steps: steps to take.
        problems: how many of the held-out ones are answered afterwards; None takes all 500.
    Returns:
        a dict with "seed", "columns" (name → one number a step, rounded) and "accuracy".
    Raises:
        ValueError: on another engine. ImportError: for "trl" without TRL.
    """
    from grpo_lib.evaluation import evaluate_accuracy
    from grpo_lib.models import load_tiny_policy
    from grpo_lib.tasks import addition_reward, load_addition

    check_choice("engine", engine, ENGINES)
    model, tokenizer = load_tiny_policy()
    records = _train(engine, model, tokenizer, seed, num_steps)
    columns = {name: [float(f"{getattr(record, name):.4g}") for record in records] for name in COLUMNS}
    test = load_addition("test")[:problems]
    found = evaluate_accuracy(model, tokenizer, test, addition_reward, max_completion_length=24)
    accuracy = {"correct": found.correct, "total": found.total, "low": found.low, "high": found.high}
    return {"seed": seed, "columns": columns, "accuracy": accuracy}


def step_seconds(engine, num_steps=5):
    """Time an engine's steps on this machine, as it is loaded now: the seconds of each step but the first.

    Args:
        engine: "ours" or "trl". num_steps: steps to take, at least 2.
    Returns:
        a list of num_steps - 1 numbers.
    """
    from grpo_lib.models import load_tiny_policy

    check_choice("engine", engine, ENGINES)
    num_steps = check_count("num_steps", num_steps, 2)
    records = _train(engine, *load_tiny_policy(), 0, num_steps)
    return [sum(record.seconds.values()) for record in records[1:]]


def _train(engine, model, tokenizer, seed, num_steps):
    from grpo_lib.records import GRPOSettings

    return (_ours if engine == "ours" else _trl)(model, tokenizer, GRPOSettings(**BASE, seed=seed), num_steps)


def _ours(model, tokenizer, settings, num_steps):
    from grpo_lib.run import GRPORun
    from grpo_lib.tasks import addition_reward, load_addition

    run = GRPORun(model, tokenizer, load_addition("train"), settings, reward_function=addition_reward)
    return list(itertools.islice(run, num_steps))


def _trl(model, tokenizer, settings, num_steps):
    from grpo_lib.scale_out import train_with_trl
    from grpo_lib.tasks import addition_reward, load_addition

    options = {"num_steps": num_steps, "reward_function": addition_reward, "use_cpu": True, "quiet": True}
    with tempfile.TemporaryDirectory() as folder:
        return train_with_trl(model, tokenizer, load_addition("train"), settings, output_dir=f"{folder}/run", **options)


def _right(stored):
    return stored["accuracy"]["correct"] / stored["accuracy"]["total"]


if __name__ == "__main__":
    store_runs("scale_runs.json", ARMS, lambda arm, seed: run_engine(arm[0], arm[1] + seed), _right)
