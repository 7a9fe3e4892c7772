"""The checkpoints of a run on TRL: complete or not, of this run or of another; looked at before anything is changed.

TRL's trainer writes `checkpoint-12` after the 12th update: weights, optimizer, learning-rate schedule, the random
streams of every process, its own state. It does not note which settings, data and start they belong to, nor when it was
done. Here a file `grpo_run.json` is added when all processes have written: what the run was told, and the size of every
file. A checkpoint without it was being written when the run was killed, and counts for nothing.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import torch

from grpo_lib.record_files import FILE, load_records

__all__ = [
    "MANIFEST",
    "check_checkpoint",
    "complete_checkpoints",
    "data_digest",
    "find_start",
    "resume_advice",
    "run_facts",
    "seal_checkpoint",
    "weights_digest",
]

MANIFEST = "grpo_run.json"
FREE = {"report_to", "disable_tqdm", "save_total_limit", "log_completions", "run_name", "logging_dir"}
WHY = {
    "settings": "TRL takes the optimizer with its learning rate from the checkpoint, so a change would act by half",
    "options": "it would not be the same run",
    "processes": "random streams and the share of the batch belong to processes",
    "data": "the run goes on at its place in the data it was given",
    "start": "the reference is the start, and a resumed run must be given the same one",
    "reward": "it would not be the same run",
}


def weights_digest(model):
    """A fingerprint of all of a model's weights: equal on two processes only if every bit is.

    >>> layer = torch.nn.Linear(2, 2)
    >>> before = weights_digest(layer)
    >>> _ = layer.bias.data[0].add_(1e-3)
    >>> len(before), before == weights_digest(layer)
    (64, False)
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def data_digest(samples):
    """A fingerprint of the samples of a run and of their order."""
    return hashlib.sha256(json.dumps(samples, sort_keys=True, default=str).encode()).hexdigest()


def run_facts(settings, options, processes, model, samples, reward_function, num_steps):
    """What a run was told, as JSON: what a checkpoint must agree with to be taken up."""
    facts = {
        "settings": asdict(settings),
        "options": {name: value for name, value in options.items() if name not in FREE},
        "processes": processes,
        "data": data_digest(samples),
        "start": weights_digest(model),
        "reward": getattr(reward_function, "__name__", type(reward_function).__name__),
        "num_steps": num_steps,
    }
    return json.loads(json.dumps(facts, default=str))


def seal_checkpoint(path, facts):
    """Say that the checkpoint is complete: process 0 calls this when all processes have written."""
    files = {str(file.relative_to(path)): file.stat().st_size for file in sorted(path.rglob("*")) if file.is_file()}
    draft = path / f".{MANIFEST}.draft"
    draft.write_text(json.dumps({**facts, "files": files}, indent=1), encoding="utf-8")
    draft.replace(path / MANIFEST)


def complete_checkpoints(folder):
    """List the complete checkpoints of a run's folder, in the order of their steps.

    >>> complete_checkpoints("/a/folder/that/is/not/there")
    []
    """
    found = [path for path in Path(folder).glob("checkpoint-*") if (path / MANIFEST).is_file()]
    return sorted(found, key=_updates)


def find_start(folder, resume):
    """Find where a run starts: None for its beginning, or the checkpoint to take up.

    Args:
        folder: of the run. resume: False; True for the newest complete checkpoint, if there is one; or a checkpoint.
    Raises:
        ValueError: if the folder is a file, or holds a run that was not to be resumed or cannot be, or checkpoints
            later than the asked one.
        FileNotFoundError: if the asked one is not there, or not complete.
    """
    folder, there = Path(folder), complete_checkpoints(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: a run needs a folder of its own")
    if resume is False:
        found = [path.name for path in (folder / FILE, folder / "model", *folder.glob("checkpoint-*")) if path.exists()]
        if found:
            raise ValueError(
                f"{folder} holds a run already: take it up with resume=True (--resume), or choose another folder; "
                f"in it there is {', '.join(sorted(found))}"
            )
        return None
    if resume is True:
        if not there and (folder / "model").exists():
            raise ValueError(
                f"{folder} holds a finished run that left no checkpoint (see checkpoint_every): it cannot be taken up, "
                "and is not overwritten. Choose another folder"
            )
        return there[-1] if there else None
    path = Path(resume)
    if not (path / MANIFEST).is_file():
        what = f"has no {MANIFEST}, which is written last: it is not complete" if path.is_dir() else "is not there"
        raise FileNotFoundError(
            f"checkpoint {path} {what}; complete in {folder}: {', '.join(map(str, there)) or 'none'}"
        )
    later = [one.name for one in there if _updates(one) > _updates(path)]
    if later:
        raise ValueError(
            f"{folder} holds {', '.join(later)}, ahead of {path.name}: they would be taken for this run's. Take up the "
            "newest with resume=True, or delete them"
        )
    return path


def resume_advice(folder, steps):
    """Say how far a run came and how to take it up, for a message when it stops."""
    there = complete_checkpoints(folder)
    if there:
        return (
            f"The run took {steps} steps. The newest complete checkpoint is {there[-1]}: take it up with the "
            "same command and --resume (resume=True)"
        )
    return (
        f"The run took {steps} steps and left no complete checkpoint (see --checkpoint-every): the same command "
        "with --resume starts it at step 0"
    )


def check_checkpoint(path, facts):
    """Refuse a checkpoint that is damaged or belongs to another run, before anything is changed.

    Args:
        path: a complete checkpoint. facts: of the run that would take it up (`run_facts`).
    Returns:
        the `StepRecord`s up to the checkpoint.
    Raises:
        ValueError: naming the file or the setting, what was saved and what was asked for.
    """
    try:
        saved = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        files = saved["files"]
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path / MANIFEST} is damaged ({error}): delete {path}, take up an earlier one") from error
    for name, size in files.items():
        there = (path / name).stat().st_size if (path / name).is_file() else None
        if there != size:
            what = "is missing" if there is None else f"has {there} bytes, and had {size}"
            raise ValueError(f"{path} is damaged: {name} {what}. Delete it, and take up an earlier checkpoint")
    for kind, why in WHY.items():
        if saved[kind] != facts[kind]:
            raise ValueError(f"{path} belongs to another run: {_difference(kind, saved[kind], facts[kind])}; {why}")
    if facts["num_steps"] != saved["num_steps"] and facts["settings"]["schedule"] != "constant":
        raise ValueError(
            f"{path} belongs to a run of {saved['num_steps']} steps, whose schedule ends there; this one has "
            f"{facts['num_steps']}: give the same num_steps"
        )
    steps = _updates(path) // facts["settings"]["updates_per_rollout"]
    records = load_records(path.parent)[:steps]
    if [record.step for record in records] != list(range(1, steps + 1)):
        raise ValueError(f"{path.parent / FILE} does not hold the steps 1 to {steps} that {path.name} was saved after")
    return records


def _difference(kind, saved, asked):
    if isinstance(saved, dict):
        name = next(name for name in {**saved, **asked} if saved.get(name) != asked.get(name))
        return f"it was saved with {name} = {saved.get(name)!r}, this one has {asked.get(name)!r}"
    if kind in ("data", "start"):
        what = {"data": "it was trained on other data", "start": "it started from other weights"}[kind]
        return f"{what} than this one is given"
    return f"it was saved with {kind} = {saved!r}, this one has {asked!r}"


def _updates(path):
    """Optimizer steps that were taken before the checkpoint was written."""
    return int(path.name.rpartition("-")[2])
