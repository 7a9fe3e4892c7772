"""Before and after a fine-tuning run: the same held-out problems, greedy and sampled, kept, and compared in pairs."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from grpo_lib.comparison import mcnemar_test, paired_bootstrap, paired_table
from grpo_lib.precision import mixed_precision
from grpo_lib.problem_results import ProblemResults, evaluate_problems

__all__ = ["compare_looks", "judge_while_training", "look", "look_once", "look_rows"]


def look(plan, model, tokenizer, problems, *, seed=0):
    """Let a model answer held-out problems, greedy and sampled, with every judge of the plan's task.

    Args:
        plan: a `FinetunePlan`. model, tokenizer, problems: N of them. seed: of the samples.
    Returns:
        a dict from "greedy" and "sampled" to `ProblemResults`.
    Raises:
        ValueError: on no problem.
    """
    device = next(model.parameters()).device
    found = {}
    for how, temperature, samples in (("greedy", 0, 1), ("sampled", 1.0, plan.task.num_samples)):
        with mixed_precision(device, plan.settings.autocast):
            found[how] = evaluate_problems(
                model,
                tokenizer,
                problems,
                plan.task.judges,
                num_samples=samples,
                temperature=temperature,
                max_completion_length=plan.settings.max_completion_length,
                batch_size=max(1, plan.task.batch_size // samples),
                seed=seed,
            )
    return found


def look_once(path, plan, model, tokenizer, problems):
    """`look`, kept in a file: a run that is taken up again need not measure its start again, and could not.

    Args:
        path: of a JSON file. The rest: as in `look`.
    Returns:
        as `look`; from the file where it holds the same model's answers to the same problems.
    Raises:
        ValueError: if the file is damaged.
    """
    asked = [plan.model, plan.settings.max_completion_length, plan.task.num_samples, problems]
    key = hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()[:16]
    path = Path(path)
    if path.is_file():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged ({error}): delete it and look again, with the model as it was at that time"
            ) from error
        if stored["key"] == key:
            return {how: _unpacked(found) for how, found in stored["looks"].items()}
    looks = look(plan, model, tokenizer, problems)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".unfinished")
    draft.write_text(
        json.dumps({"key": key, "looks": {how: _packed(found) for how, found in looks.items()}}), encoding="utf-8"
    )
    os.replace(draft, path)
    return looks


def judge_while_training(plan, problems):
    """Make the `evaluate` of a run: sampled accuracy on the problems to pick by, under each judge.

    >>> judge_while_training(None, [])
    Traceback (most recent call last):
    ValueError: judge_while_training needs at least one problem to pick by
    """
    if not problems:
        raise ValueError("judge_while_training needs at least one problem to pick by")

    def evaluate(model, tokenizer):
        found = evaluate_problems(  # the run's own precision is on
            model,
            tokenizer,
            problems,
            plan.task.judges,
            num_samples=plan.task.num_samples,
            max_completion_length=plan.settings.max_completion_length,
            batch_size=max(1, plan.task.batch_size // plan.task.num_samples),
        )
        return {name: float(right.mean()) for name, right in found.right.items()}

    return evaluate


def look_rows(looks):
    """Turn looks, a dict from a name such as "before" to what `look` returned, into rows of `interval_figure`.

    Returns:
        a dict from each judge to a dict from "greedy, before" … to (value, low, high): Wilson's interval for one
        answer a problem, else a bootstrap over problems.
    """
    rows = {}
    for name, found in looks.items():
        for how, results in found.items():
            for judge, right in results.right.items():
                rows.setdefault(judge, {})[f"{how}, {name}"] = _interval(results, judge, right.shape[1])
    return {judge: dict(sorted(found.items(), key=lambda row: row[0].split(",")[0])) for judge, found in rows.items()}


def compare_looks(before, after):
    """Compare two looks at the same problems, in pairs: one line a judge and a way to answer.

    Args:
        before, after: as `look` returns them.
    Returns:
        a list of texts: accuracies, difference with its 95 % interval (paired bootstrap over problems), and where one
        answer a problem was taken the counts gained and lost with McNemar's exact p.
    Raises:
        ValueError: if they are not of the same problems.
    """
    lines = []
    for judge in before["greedy"].right:
        for how in before:
            pair = [found[how].right[judge] for found in (before, after)]  # (N, n) each
            shares = [right.mean(axis=1) for right in pair]
            difference, low, high = paired_bootstrap(*shares)
            line = f"{judge:7} {how:7} {shares[0].mean():.3f} -> {shares[1].mean():.3f}"
            line += f"  {difference:+.3f} [{low:+.3f}, {high:+.3f}]"
            if pair[0].shape[1] == 1:
                table = paired_table(*(right[:, 0] for right in pair))
                line += f"  gained {table.gained}, lost {table.lost}"
                line += f", p = {mcnemar_test(table.gained, table.lost):.1g}"
            lines.append(line)
    return lines


def _interval(results, judge, num_samples):
    if num_samples > 1:
        return tuple(results.pass_at(1, judge))
    found = results.accuracy(judge)
    return found.value, found.low, found.high


def _packed(results):
    return {
        "right": {name: right.astype(int).tolist() for name, right in results.right.items()},
        "texts": results.texts,
    }


def _unpacked(stored):
    right = {name: np.array(rows, dtype=bool) for name, rows in stored["right"].items()}
    return ProblemResults(right, stored["texts"])
