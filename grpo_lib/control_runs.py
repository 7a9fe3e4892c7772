"""Control runs: the tiny policy trained on the true reward, on a coin's, and on eight problems only.

    python -m grpo_lib.control_runs             # all of them again, about a quarter of an hour on one core
    python -m grpo_lib.control_runs random      # one arm

Every run starts from the shipped policy and takes 200 steps with the settings of `grpo_lib.stored_runs.BASE`, same
loop, same seeds; the arms differ in what is paid and in the problems, and in nothing else. Kept of each: right or
wrong, problem by problem.
"""

import itertools
import json
from functools import lru_cache
from importlib import resources

import numpy as np

from grpo_lib.stored_runs import BASE, steps_of, store_runs

__all__ = ["ARMS", "coin_reward", "load_control_runs", "run_arm"]

NUM_STEPS, EVAL_EVERY, SEEDS = 200, 20, (0, 1, 2, 3, 4)
NUM_FEW, NUM_TRAINED = 8, 500
ARMS = ("true", "random", "few")


def coin_reward(seed):
    """Make a reward function that tosses a coin for each completion and reads none of it: 1.0 or 0.0.

    >>> reward = coin_reward(seed=0)
    >>> reward(["47+38=?"] * 4, ["<answer>85</answer>", "85", "?", ""], ["85"] * 4)
    [1.0, 1.0, 1.0, 0.0]
    """
    rng = np.random.default_rng(seed)

    def random_reward(prompts, completions, answer, **kwargs):
        return rng.integers(0, 2, len(completions)).astype(float).tolist()

    return random_reward


@lru_cache
def _stored():
    return json.loads((resources.files("grpo_lib") / "data" / "control_runs.json").read_text(encoding="utf-8"))


def load_control_runs(arm):
    """Read the stored runs of one arm, one a seed.

    Args:
        arm: "true" (`addition_reward`), "random" (`coin_reward`) or "few" (`addition_reward` on 8 problems only).
    Returns:
        a list of dicts with "seed"; "steps", records of training (step, paid: the mean of what was paid, true: the
        mean of the true reward, entropy, completion_length); "held_out", records on the 500 held-out problems before
        training and after every 20 steps (step; strict and lenient: (500,) bool, one sample a problem); "greedy", the
        same two at the start and the end (step, strict, lenient) at temperature 0; and "trained_on", records of the
        start and the end (step, strict) on 500 problems of the run's own training (the 8 problems of "few" are
        sampled again and again, to about as many).
    Raises:
        ValueError: on an arm that is not stored.

    >>> run = load_control_runs("random")[0]
    >>> run["held_out"][1]["step"], run["held_out"][1]["strict"].shape
    (20, (500,))
    """
    if arm not in _stored():
        raise ValueError(f"no runs stored for {arm!r}; there are: {', '.join(_stored())}")
    runs = []
    for stored in _stored()[arm]:
        steps = steps_of(stored["columns"])
        looks = {key: [_unpacked(record) for record in stored[key]] for key in ("held_out", "greedy", "trained_on")}
        runs.append({"seed": stored["seed"], "steps": steps, **looks})
    return runs


def run_arm(arm, seed, num_steps=NUM_STEPS, eval_every=EVAL_EVERY):
    """Train the shipped policy as one arm says; return what is stored of it.

    Args:
        arm: one of `ARMS`. seed: of order, samples and coin. num_steps, eval_every: steps to take, and between two
            looks at the held-out problems.
    Returns:
        a dict with "seed", "columns" (name → one number a step, rounded), "held_out", "greedy" and "trained_on" (the
        records of `load_control_runs`, each row of right and wrong as a text of 1 and 0).
    """
    from grpo_lib.models import load_tiny_policy
    from grpo_lib.records import GRPOSettings
    from grpo_lib.run import GRPORun
    from grpo_lib.tasks import addition_reward, load_addition

    model, tokenizer = load_tiny_policy()
    test, train = load_addition("test"), load_addition("train")
    train = train[:NUM_FEW] if arm == "few" else train
    reward = coin_reward(seed) if arm == "random" else addition_reward
    run = GRPORun(model, tokenizer, train, GRPOSettings(**BASE, seed=seed), reward_function=reward)
    columns = {name: [] for name in ("paid", "true", "entropy", "completion_length")}
    held_out, greedy = [{"step": 0, **_look(model, tokenizer, test)}], [{"step": 0, **_look(model, tokenizer, test, 0)}]
    trained_on = {}
    for record in itertools.islice(run, num_steps):
        seen = run.rollout
        trained_on.update({str(p): {"prompt": p, "answer": a} for p, a in zip(seen.prompts, seen.answers, strict=True)})
        true = addition_reward(seen.prompts, seen.completions, seen.answers)
        row = (record.reward_mean, sum(true) / len(true), record.entropy, record.completion_length)
        for name, value in zip(columns, row, strict=True):
            columns[name].append(float(f"{value:.4g}"))
        if record.step % eval_every == 0:
            held_out.append({"step": record.step, **_look(model, tokenizer, test)})
    greedy.append({"step": num_steps, **_look(model, tokenizer, test, 0)})
    looks = _looks_at_training(model, tokenizer, list(trained_on.values()), num_steps)
    return {"seed": seed, "columns": columns, "held_out": held_out, "greedy": greedy, "trained_on": looks}


def _looks_at_training(model, tokenizer, samples, num_steps):
    """The start and the end on problems of training: 500 of them, or fewer again and again."""
    from grpo_lib.models import load_tiny_policy

    samples = (samples * (NUM_TRAINED // len(samples) + 1))[:NUM_TRAINED]
    looks = [(0, load_tiny_policy()[0]), (num_steps, model)]
    return [{"step": step, "strict": _look(policy, tokenizer, samples)["strict"]} for step, policy in looks]


def _look(model, tokenizer, samples, temperature=1.0):
    from grpo_lib.problem_results import evaluate_problems, lenient_match
    from grpo_lib.tasks import addition_reward

    judges = {"strict": addition_reward, "lenient": lenient_match}
    found = evaluate_problems(
        model, tokenizer, samples, judges, temperature=temperature, max_completion_length=BASE["max_completion_length"]
    )
    return {name: "".join("01"[right] for right in found.right[name][:, 0].astype(int)) for name in judges}


def _unpacked(record):
    return {name: value if name == "step" else np.array(list(value)) == "1" for name, value in record.items()}


def _right(stored):
    return stored["held_out"][-1]["strict"].count("1") / 500


if __name__ == "__main__":
    store_runs("control_runs.json", {arm: arm for arm in ARMS}, run_arm, _right, SEEDS)
