"""Reward hacking, measured: the tiny policy trained on proxy rewards and, as the control, on the true one.

    python -m grpo_lib.reward_runs             # all of them again, about a quarter of an hour on one core
    python -m grpo_lib.reward_runs length      # one arm

Every run starts from the shipped policy and takes 200 steps with the settings of `grpo_lib.stored_runs.BASE`; the arms
differ in what is paid and in nothing else. The true reward is `addition_reward`, in training and on held-out problems.
"""

import itertools
import json
from functools import lru_cache
from importlib import resources

from grpo_lib.intervals import mean_interval
from grpo_lib.reward_checks import check_batch
from grpo_lib.stored_runs import BASE, steps_of, store_runs
from grpo_lib.tasks import addition_reward, has_reasoning, load_addition

__all__ = [
    "ARMS",
    "length_reward",
    "load_reward_runs",
    "mean_interval",
    "right_and_length_reward",
    "run_arm",
    "tags_reward",
]

NUM_STEPS, EVAL_EVERY, SEEDS, TEXTS_KEPT = 200, 20, (0, 1, 2, 3, 4), 8


def length_reward(prompts, completions, answer, **kwargs):
    """Pay for length alone: 0.02 a character, right or wrong ("longer answers are more thorough").

    Args:
        prompts, completions, answer, **kwargs: as in `grpo_lib.rewards.correctness_reward`; answers are only counted.
    Returns:
        B floats, no limit above.

    >>> length_reward(["47+38=?"] * 2, ["<answer>75</answer>", "85"], ["85"] * 2)
    [0.38, 0.04]
    """
    return [len(text) / 50 for text in check_batch("length_reward", prompts, completions, answer)]


def tags_reward(prompts, completions, answer, **kwargs):
    """Pay for the form alone: 1.0 if both answer tags are there, whatever stands between them.

    Args:
        prompts, completions, answer, **kwargs: as in `length_reward`.
    Returns:
        B floats, each 1.0 or 0.0.

    >>> tags_reward(["47+38=?"] * 2, ["<answer>75</answer>", "85"], ["85"] * 2)
    [1.0, 0.0]
    """
    texts = check_batch("tags_reward", prompts, completions, answer)
    return [float("<answer>" in text and "</answer>" in text) for text in texts]


def right_and_length_reward(prompts, completions, answer, **kwargs):
    """Pay for a right answer, and for length as a bonus: `addition_reward` + `length_reward`.

    Args:
        prompts, completions, answer, **kwargs: as in `addition_reward`.
    Returns:
        B floats.

    >>> right_and_length_reward(["47+38=?"] * 2, ["<answer>85</answer>", "85"], ["85"] * 2)
    [1.38, 0.04]
    """
    right = addition_reward(prompts, completions, answer)
    return [a + b for a, b in zip(right, length_reward(prompts, completions, answer), strict=True)]


ARMS = {
    "true": addition_reward,
    "length": length_reward,
    "tags": tags_reward,
    "right + length": right_and_length_reward,
}


@lru_cache
def _stored():
    return json.loads((resources.files("grpo_lib") / "data" / "reward_runs.json").read_text(encoding="utf-8"))


def load_reward_runs(arm):
    """Read the stored runs of one arm, one a seed.

    Args:
        arm: a key of `ARMS`: "true" (the control), "length", "tags" or "right + length".
    Returns:
        a list of dicts with "seed"; "steps", a list of records of training (step, paid: the mean of what was paid,
        true: the mean of the true reward, reasoning: the share that thinks, completion_length in tokens,
        zero_variance); "held_out", a list of records on the 500 held-out problems before training and after every
        20 steps (step, correct, total, low, high: right answers with their 95 % Wilson interval; true, length, tags:
        the means of the three rewards; reasoning); and "texts", eight of the last held-out completions.
    Raises:
        ValueError: on an arm that is not stored.

    >>> runs = load_reward_runs("length")
    >>> [run["seed"] for run in runs], [record["step"] for record in runs[0]["held_out"]][:3]
    ([0, 1, 2, 3, 4], [0, 20, 40])
    """
    if arm not in _stored():
        raise ValueError(f"no runs stored for {arm!r}; there are: {', '.join(_stored())}")
    runs = []
    for stored in _stored()[arm]:
        steps = steps_of(stored["columns"])
        runs.append({**{key: stored[key] for key in ("seed", "held_out", "texts")}, "steps": steps})
    return runs


def run_arm(reward_function, seed, num_steps=NUM_STEPS, eval_every=EVAL_EVERY):
    """Train the shipped policy on one reward; return what is stored of it.

    Args:
        reward_function: what is paid. seed: of order and samples. num_steps, eval_every: steps to take, and between
            two looks at the held-out problems.
    Returns:
        a dict with "seed", "columns" (name → one number a step, rounded), "held_out" and "texts".
    """
    from grpo_lib.models import load_tiny_policy
    from grpo_lib.records import GRPOSettings
    from grpo_lib.run import GRPORun

    model, tokenizer = load_tiny_policy()
    run = GRPORun(
        model, tokenizer, load_addition("train"), GRPOSettings(**BASE, seed=seed), reward_function=reward_function
    )
    columns = {name: [] for name in ("paid", "true", "reasoning", "completion_length", "zero_variance")}
    record, texts = judge_policy(model, tokenizer)
    held_out = [{"step": 0, **record}]
    for step in itertools.islice(run, num_steps):
        seen = run.rollout
        true = addition_reward(seen.prompts, seen.completions, seen.answers)
        row = {"paid": step.reward_mean, "true": sum(true) / len(true), "reasoning": _thinking(seen.texts)}
        row |= {name: getattr(step, name) for name in ("completion_length", "zero_variance")}
        for name, value in row.items():
            columns[name].append(_rounded(value))
        if step.step % eval_every == 0:
            record, texts = judge_policy(model, tokenizer)
            held_out.append({"step": step.step, **record})
    return {"seed": seed, "columns": columns, "held_out": held_out, "texts": texts[:TEXTS_KEPT]}


def judge_policy(model, tokenizer):
    """Sample one answer to each held-out problem; return its record (see `load_reward_runs`) and the texts."""
    from grpo_lib.evaluation import evaluate_accuracy

    test = load_addition("test")
    result = evaluate_accuracy(model, tokenizer, test, addition_reward, max_completion_length=24)
    answers = [sample["answer"] for sample in test]
    record = {name: getattr(result, name) for name in ("correct", "total")}
    record |= {name: _rounded(getattr(result, name)) for name in ("low", "high")}
    for name in ("true", "length", "tags"):
        rewards = ARMS[name](answers, result.texts, answers)
        record[name] = _rounded(sum(rewards) / len(rewards))
    return {**record, "reasoning": _thinking(result.texts)}, result.texts


def _thinking(texts):
    return _rounded(sum(map(has_reasoning, texts)) / len(texts))


def _rounded(value):
    return float(f"{value:.4g}")


def _right(stored):
    return stored["held_out"][-1]["true"]


if __name__ == "__main__":
    store_runs("reward_runs.json", ARMS, run_arm, _right, SEEDS)
