"""Keep the best policy of a run as a folder that loads by itself; and of the checkpoints only the newest."""

import json
import math
import os
import shutil
import tempfile
from pathlib import Path

from grpo_lib.adapters import has_adapter
from grpo_lib.base_weights import describe_base
from grpo_lib.checkpoints import list_checkpoints
from grpo_lib.modes import no_progress_bar
from grpo_lib.weight_files import disk_errors

__all__ = ["drop_old_checkpoints", "save_best"]


def save_best(folder, run, metric):
    """Write the policy to `folder/best` if the newest evaluation is the best of the run so far.

    The folder holds the weights as `save_pretrained` writes them (of an adapter, the adapter alone), the tokenizer, and
    best.json with step and value; `load_policy(folder / "best")` reads it, or for an adapter
    `load_policy(name, adapter=folder / "best")`. It is no checkpoint: a run cannot be taken up from it.

    Args:
        folder: the run's checkpoint folder. run: a `GRPORun`. metric: a key of `record.evaluation`; larger is better.
    Returns:
        True if it was written. NaN is never the best, and an evaluation without the metric counts for nothing.
    Raises:
        ValueError: if the newest record holds no such number. OSError: if it cannot be written; the old one stays.
    """
    found = run.history[-1].evaluation or {}
    if metric not in found:
        raise ValueError(f"best_metric must be one of the evaluation's numbers, {sorted(found)}, got {metric!r}")
    earlier = [(record.evaluation or {}).get(metric, math.nan) for record in run.history[:-1]]
    if math.isnan(found[metric]) or any(value >= found[metric] for value in earlier):  # NaN is neither
        return False
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
    try:
        with no_progress_bar(), disk_errors(folder):
            run.model.save_pretrained(draft)
        if hasattr(run.tokenizer, "save_pretrained"):
            run.tokenizer.save_pretrained(draft)
        told = {"step": run.history[-1].step, "metric": metric, "value": found[metric]}
        if has_adapter(run.model):
            told["base"] = describe_base(run.model)  # load_adapter looks at it
        (draft / "best.json").write_text(json.dumps(told), encoding="utf-8")
        _put_in_place(draft, folder / "best")
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True


def _put_in_place(draft, target):
    """The old one goes only when the new one stands in its place."""
    old = target.with_name(f"{target.name}.old")  # no .unfinished-…: that the next checkpoint would delete
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
    try:
        os.rename(draft, target)
    except OSError:
        if old.exists():
            os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def drop_old_checkpoints(folder, keep):
    """Delete all checkpoints of a folder but the newest `keep`; None keeps all.

    >>> drop_old_checkpoints("/a/folder/that/is/not/there", 1)
    """
    if keep is not None:
        for path in list_checkpoints(folder)[:-keep]:
            gone = path.with_name(f".unfinished-old-{path.name}")  # half deleted, it is no checkpoint
            shutil.rmtree(gone, ignore_errors=True)
            path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)  # the next save tries again
