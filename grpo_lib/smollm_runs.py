"""A real pretrained model, trained by GRPO on a CPU: SmolLM2-135M learns to add in words, and hacks a proxy reward.

    python -m grpo_lib.smollm_runs              # all of them again: six runs, about an hour on one core, 4 GB
    python -m grpo_lib.smollm_runs addition     # one arm

On one of two shared cores the addition runs took 543, 531 and 485 s and the vowel runs 467, 473 and 485 s, evaluations
included; the process 3.8 GB.

Every run starts from SmolLM2-135M-Instruct (`load_policy("smollm2")`, fp32, all weights learn) and uses AdamW at 1e-5
with 3 warm-up steps, beta 0, T = 1. Prompts and rewards were chosen on the untrained model; the only training
before the runs was one step with seed 7. What was expected of seeds 0, 1 and 2, written down before their runs:

    addition: on the 20 held-out problems the sampled accuracy, 8 samples a problem, about .2 before, is at least .7
        after, in each of the three runs; so is the greedy one
    vowel: on topics never trained on, the mean reward rises to at least .9, and by hacking: at least half of the
        texts then open with "A" or "An", in each of the three runs

What came: addition as expected, sampled .93, .97, .83 and greedy 1, 1, .85 from .225 and .55; 20 problems are few, and
the last of these greedy gains taken alone is not significant (7 won, 1 lost, McNemar's p = .07). The vowel reward is
hacked as expected with seeds 0 and 2; with seed 1 it rises as far, and what the texts open with is "In" (`commonest` in
`opening_habits` was added when that had been seen).
"""

import itertools
import json
from functools import lru_cache
from importlib import resources

import numpy as np

from grpo_lib.stored_runs import steps_of, store_runs
from grpo_lib.word_tasks import load_openings, load_word_addition, opening_habits, vowel_reward, word_addition_reward

__all__ = ["ARMS", "BASE", "load_smollm_runs", "run_arm"]

SEEDS, NUM_SAMPLES, TEXTS_KEPT = (0, 1, 2), 8, 12
BASE = {"beta": 0.0, "learning_rate": 1e-5, "warmup_steps": 3, "max_grad_norm": 1.0, "temperature": 1.0}
ARMS = {
    "addition": {
        "data": load_word_addition,
        "reward": word_addition_reward,
        "describe": None,
        "num_steps": 36,
        "settings": {"batch_size": 4, "num_generations": 6, "max_completion_length": 12},
    },
    "vowel": {
        "data": load_openings,
        "reward": vowel_reward,
        "describe": opening_habits,
        "num_steps": 40,
        "settings": {"batch_size": 2, "num_generations": 8, "max_completion_length": 8},
    },
}
COLUMNS = ("reward_mean", "completion_length", "entropy", "zero_variance", "grad_norm")


@lru_cache
def _stored():
    return json.loads((resources.files("grpo_lib") / "data" / "smollm_runs.json").read_text(encoding="utf-8"))


def load_smollm_runs(arm):
    """Read the stored runs of one arm, one a seed.

    Args:
        arm: "addition" (`word_addition_reward`) or "vowel" (`vowel_reward`).
    Returns:
        a list of dicts with "seed"; "steps", records of training (step, reward_mean, completion_length in tokens,
        entropy in nats a token, zero_variance, grad_norm); and "looks", two records on the N held-out prompts, before
        training and after it: step; sampled: (N, 8) bool, which of 8 samples a prompt earn 1; greedy: (N, 1) bool;
        mean, low, high: share of the sampled with its 95 % bootstrap interval over prompts (`problem_interval`: 8
        samples of one problem are not 8 problems); greedy_mean, greedy_low, greedy_high: share of the greedy with its
        Wilson interval; texts: 12 of the samples; and for "vowel" the `opening_habits` of all samples (commonest,
        commonest_share, article, first_words, distinct).
    Raises:
        ValueError: on an arm that is not stored.

    >>> run = load_smollm_runs("addition")[0]
    >>> [look["step"] for look in run["looks"]], run["looks"][0]["sampled"].shape
    ([0, 36], (20, 8))
    """
    if arm not in _stored():
        raise ValueError(f"no runs stored for {arm!r}; there are: {', '.join(_stored())}")
    return [
        {"seed": s["seed"], "steps": steps_of(s["columns"]), "looks": [_unpacked(look) for look in s["looks"]]}
        for s in _stored()[arm]
    ]


def run_arm(arm, seed, num_steps=None, *, policy="smollm2"):
    """Train SmolLM2 as one arm says; return what is stored of it.

    Args:
        arm: a key of `ARMS`. seed: of order and samples. num_steps: None takes the arm's.
        policy: what `load_policy` loads, on the CPU; another one takes the same path ("tiny", say, in a test).
    Returns:
        a dict with "seed", "columns" (name → one number a step, rounded) and "looks" (the two records of
        `load_smollm_runs`, each row of right and wrong as a text of 1 and 0).
    Raises:
        ValueError: on another arm. ImportError: if SmolLM2's package is missing.
    """
    from grpo_lib.policies import load_policy
    from grpo_lib.records import GRPOSettings
    from grpo_lib.run import GRPORun

    if arm not in ARMS:
        raise ValueError(f"no arm {arm!r}; there are: {', '.join(ARMS)}")
    model, tokenizer = load_policy(policy, device="cpu")
    settings = GRPOSettings(**BASE, **ARMS[arm]["settings"], seed=seed)
    run = GRPORun(model, tokenizer, ARMS[arm]["data"]("train"), settings, reward_function=ARMS[arm]["reward"])
    columns = {name: [] for name in COLUMNS}
    looks = [{"step": 0, **_look(model, tokenizer, arm)}]
    for record in itertools.islice(run, ARMS[arm]["num_steps"] if num_steps is None else num_steps):
        for name, column in columns.items():
            column.append(_rounded(getattr(record, name)))
    looks.append({"step": len(run.history), **_look(model, tokenizer, arm)})
    return {"seed": seed, "columns": columns, "looks": looks}


def _look(model, tokenizer, arm):
    """Let the model answer the held-out prompts, sampled and greedily, and sum up; the draws are always the same."""
    from grpo_lib.problem_results import evaluate_problems

    length = ARMS[arm]["settings"]["max_completion_length"]
    options = {"max_completion_length": length, "batch_size": 10}
    test, judges = ARMS[arm]["data"]("test"), {"reward": ARMS[arm]["reward"]}
    sampled = evaluate_problems(model, tokenizer, test, judges, num_samples=NUM_SAMPLES, **options)
    greedy = evaluate_problems(model, tokenizer, test, judges, temperature=0, **options)
    once = greedy.accuracy("reward")
    look = {"sampled": _packed(sampled.table("reward")), "greedy": _packed(greedy.table("reward"))}
    look |= dict(zip(("mean", "low", "high"), map(_rounded, sampled.pass_at(1, "reward")), strict=True))
    look |= {"greedy_mean": once.value, "greedy_low": _rounded(once.low), "greedy_high": _rounded(once.high)}
    texts = [text for row in sampled.texts for text in row]
    if (describe := ARMS[arm]["describe"]) is not None:
        look |= {name: _rounded(v) if isinstance(v, float) else v for name, v in describe(texts).items()}
    return {**look, "texts": texts[:: max(1, len(texts) // TEXTS_KEPT)][:TEXTS_KEPT]}


def _packed(table):
    return ["".join("01"[right] for right in row) for row in table.astype(int)]


def _unpacked(look):
    tables = {name: np.array([list(row) for row in look[name]]) == "1" for name in ("sampled", "greedy")}
    return {**look, **tables}


def _rounded(value):
    return float(f"{value:.4g}")


def _right(stored):
    return stored["looks"][-1]["mean"]


if __name__ == "__main__":
    store_runs("smollm_runs.json", {arm: arm for arm in ARMS}, run_arm, _right, SEEDS)
