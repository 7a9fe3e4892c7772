"""The museum's curves: runs of the tiny policy with each bug and without it, stored with their seeds.

    python -m grpo_lib.museum_runs                     # all of them again, about a quarter of an hour on one core
    python -m grpo_lib.museum_runs "sign of the KL"    # one arm

A broken run and its fix differ in the bug and in nothing else: same start, same settings, same seeds. Exhibits with
the same settings share their fixed runs.
"""

import itertools
import json
import warnings
from contextlib import nullcontext
from functools import lru_cache
from importlib import resources

import torch

from grpo_lib.evaluation import evaluate_accuracy
from grpo_lib.generation import stop_token_ids
from grpo_lib.intervals import mean_interval
from grpo_lib.losses import masked_mean
from grpo_lib.masks import create_completion_mask, position_ids_from_mask
from grpo_lib.modes import evaluation_mode
from grpo_lib.museum import new_run
from grpo_lib.museum_exhibits import EXHIBITS, find_exhibit
from grpo_lib.reference import make_reference
from grpo_lib.run import GRPORun
from grpo_lib.stored_runs import steps_of, store_runs
from grpo_lib.tasks import addition_reward, load_addition

__all__ = ["ARMS", "COLUMNS", "exhibit_runs", "fixed_arm", "load_museum_runs", "run_arm", "run_difference"]

NUM_STEPS, SEEDS, FILE = 40, (0, 1, 2, 3, 4), "museum_runs.json"
LOGGED = ("reward_mean", "completion_length", "entropy", "kl", "grad_norm", "ratio_max")
COLUMNS = (*LOGGED, "true", "drift", "surprise")
NO_RUNS = ("no position ids",)


def fixed_arm(name):
    """The arm that is an exhibit's fix: the plain run, or one with the exhibit's settings.

    >>> fixed_arm("dropout on"), fixed_arm("sign of the KL"), fixed_arm("KL under no_grad")
    ('fixed', 'fixed, beta = 0.5', 'fixed, beta = 0.5')
    """
    changes = ", ".join(f"{key} = {value:g}" for key, value in EXHIBITS[name].settings.items())
    return f"fixed, {changes}" if changes else "fixed"


def _arms():
    arms = {}
    for name in EXHIBITS:
        if name not in NO_RUNS:
            arms.setdefault(fixed_arm(name), (name, False))
            arms[name] = (name, True)
    return arms


ARMS = _arms()  # arm → (exhibit, broken)


class WatchedRun(GRPORun):
    """A run that is also measured by the library as it is, whatever bug is in it."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.start, self.seen = make_reference(self.model), {}
        self.scored_at = self.settings.temperature

    def _roll_out(self, clock):
        rollout = super()._roll_out(clock)
        self.seen = measure_policy(
            self.model, self.start, rollout, self.scored_at, stop_token_ids(self.model, self.tokenizer)
        )
        self.seen["true"] = sum(addition_reward(rollout.prompts, rollout.completions, rollout.answers)) / len(rollout)
        return rollout


@torch.no_grad()
def measure_policy(model, start, rollout, temperature, eos_token_id):
    """Measure a policy on its own samples, from its whole distribution at every token.

        drift    = mean over tokens of sum_v π(v) log(π(v) / π_start(v))            nats
        surprise = mean over tokens of -log π(y) - sum_v -π(v) log π(v)             nats; 0 on average if y ~ π

    Args:
        model, start: the policy and the policy it started as. rollout: a `Rollout`. temperature: of scoring.
        eos_token_id: one or a list.
    Returns:
        a dict with "drift" and "surprise".
    """
    mask = create_completion_mask(rollout.completion_ids, eos_token_id)
    ids = torch.cat([rollout.prompt_ids, rollout.completion_ids], dim=1)
    attention = torch.cat([rollout.prompt_mask, mask], dim=1)
    options = dict(input_ids=ids, attention_mask=attention, position_ids=position_ids_from_mask(attention))
    T, logs = mask.shape[1], []
    for network in (model, start):
        with evaluation_mode(network):
            logits = network(**options, use_cache=False).logits[:, -T - 1 : -1].float()
        logs.append((logits / temperature).log_softmax(dim=-1))  # (B, T, V)
    policy, first = logs
    chosen = policy.gather(-1, rollout.completion_ids[..., None]).squeeze(-1)
    surprise = -chosen + (policy.exp() * policy).sum(dim=-1)
    drift = (policy.exp() * (policy - first)).sum(dim=-1)
    return {name: masked_mean(value, mask).item() for name, value in (("drift", drift), ("surprise", surprise))}


def run_arm(arm, seed, num_steps=NUM_STEPS, held_out=True):
    """Train the tiny policy with an exhibit's bug or without it; return what is stored of it.

    Args:
        arm: (name of the exhibit, whether broken), a value of `ARMS`. seed: of order and samples.
        num_steps: steps to take.
        held_out: whether to judge it at the end by the true reward on the 500 held-out problems.
    Returns:
        a dict with "seed", "columns" (name → one number a step, rounded) and, if judged, "held_out".
    """
    exhibit, broken = EXHIBITS[arm[0]], arm[1]
    columns = {name: [] for name in COLUMNS}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), exhibit.broken() if broken else nullcontext():
        torch.random.default_generator.manual_seed(seed)  # dropout, where it is on, draws from torch's own stream
        warnings.simplefilter("ignore", UserWarning)  # the library names some of these bugs; the museum keeps quiet
        run = new_run(exhibit, broken=broken, seed=seed, kind=WatchedRun)
        if broken and "rollout.compute_log_probs" in exhibit.patches:
            run.scored_at = 1.0
        for record in itertools.islice(run, num_steps):
            row = {name: getattr(record, name) for name in LOGGED} | run.seen
            for name in COLUMNS:
                columns[name].append(float(f"{row[name]:.3g}"))
    stored = {"seed": seed, "columns": columns}
    if held_out:
        result = evaluate_accuracy(
            run.model, run.tokenizer, load_addition("test"), addition_reward, max_completion_length=24
        )
        stored["held_out"] = {"correct": result.correct, "total": result.total}
    return stored


@lru_cache
def _stored():
    return json.loads((resources.files("grpo_lib") / "data" / FILE).read_text(encoding="utf-8"))


def load_museum_runs(arm):
    """Read the stored runs of one arm, one a seed.

    Args:
        arm: an exhibit's name for the runs with the bug, or what `fixed_arm` returns for those without.
    Returns:
        a list of dicts with "seed"; "steps", a list of records: what a run logs (reward_mean, completion_length,
        entropy, kl, grad_norm, ratio_max; see `StepRecord`) and what the library as it is measures of it (true: the
        mean of the true reward; drift and surprise: see `measure_policy`); and "held_out", right answers among the
        500 held-out problems after training (correct, total).
    Raises:
        ValueError: on an arm that is not stored.
    """
    if arm not in _stored():
        raise ValueError(f"no runs stored for {arm!r}; there are: {', '.join(_stored())}")
    return [{**run, "steps": steps_of(run["columns"])} for run in _stored()[arm]]


def exhibit_runs(which):
    """The stored runs of an exhibit, without its bug and with it.

    Args:
        which: its number or name.
    Returns:
        a dict from "fixed" and "with the bug" to the runs, see `load_museum_runs`.
    Raises:
        ValueError: on an exhibit that the museum does not have, or one that was not run.

    >>> {name: len(runs) for name, runs in exhibit_runs(1).items()}
    {'fixed': 5, 'with the bug': 5}
    """
    name = find_exhibit(which).name
    if name in NO_RUNS:
        raise ValueError(
            f"{name!r} has no runs: the tiny policy has no learned positions, so the bug does not touch it"
        )
    return {"fixed": load_museum_runs(fixed_arm(name)), "with the bug": load_museum_runs(name)}


def run_difference(which, key, last=10):
    """How far a bug moves a number: broken minus fixed, run by run with the same seed.

    Args:
        which: number or name of an exhibit with runs.
        key: a column of `COLUMNS`, its mean over the `last` steps; or "held_out".
    Returns:
        (mean, low, high) over the seeds, see `grpo_lib.intervals.mean_interval`.
    """

    def value(run):
        if key == "held_out":
            return run["held_out"]["correct"] / run["held_out"]["total"]
        return sum(run["columns"][key][-last:]) / len(run["columns"][key][-last:])

    pairs = zip(*exhibit_runs(which).values(), strict=True)
    return mean_interval([value(broken) - value(fixed) for fixed, broken in pairs])


def _right(stored):
    return stored["held_out"]["correct"] / stored["held_out"]["total"]


if __name__ == "__main__":
    store_runs(FILE, ARMS, run_arm, _right, SEEDS)
