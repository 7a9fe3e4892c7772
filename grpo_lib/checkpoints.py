"""Save a run and take it up again: tensors as safetensors, the rest as JSON; nothing that executes when it is read.

A checkpoint is a folder `step-000123` holding

    policy.safetensors       the weights being trained: of a model with an adapter, the adapter alone
    reference.safetensors    the frozen reference (absent where the run keeps none), see `grpo_lib.reference`
    optimizer.safetensors    Adam's moments and step counts
    rng.safetensors          the run's own random streams
    state.json               step, position in the data, settings, history, Python's and numpy's streams; of an
                             adapter, a description of the weights beneath it

It is written under another name and renamed when complete, so a run that is killed leaves the last good one.
"""

import json
import os
import random
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from grpo_lib.adapters import has_adapter
from grpo_lib.base_weights import check_base, describe_base
from grpo_lib.weight_files import check_fits, disk_errors, load_weights, save_weights

__all__ = ["holds_reference", "latest_checkpoint", "list_checkpoints", "load_checkpoint", "save_checkpoint"]
WRITTEN = {"optimizer", "python_rng", "numpy_rng"}  # what a state.json holds


def latest_checkpoint(folder):
    """Find the newest complete checkpoint of a folder, or None.

    >>> latest_checkpoint("/a/folder/that/is/not/there") is None
    True
    """
    return next(reversed(list_checkpoints(folder)), None)


def list_checkpoints(folder):
    """List the complete checkpoints of a folder, in the order of their steps.

    >>> list_checkpoints("/a/folder/that/is/not/there")
    []
    """
    complete = [
        path
        for path in Path(folder).glob("step-*")
        if re.fullmatch(r"step-\d+", path.name) and (path / "state.json").is_file()
    ]
    return sorted(complete, key=lambda path: int(path.name[5:]))


def save_checkpoint(folder, step, *, model, reference, optimizer, rng, state):
    """Write the checkpoint `folder/step-…` and return its path.

    Args:
        model, reference: modules; reference may be None.
        optimizer: a torch optimizer. rng: dict of ByteTensors, the run's random streams.
        state: all else that must come back, as JSON.
    Raises:
        OSError: if the disk is full or not writable; then no half-written checkpoint is left behind.
    """
    with disk_errors(folder):
        return _save(Path(folder), step, model, reference, optimizer, rng, state)


def _save(folder, step, model, reference, optimizer, rng, state):
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob(".unfinished-*"):  # of a run that was killed while it saved
        shutil.rmtree(left_over, ignore_errors=True)
    target, old = folder / f"step-{step:06d}", None
    draft = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
    try:
        save_weights(model, draft / "policy.safetensors")
        if reference is not None:
            save_weights(reference, draft / "reference.safetensors")
        tensors, rest = _split(optimizer.state_dict())
        save_file(tensors, draft / "optimizer.safetensors")
        save_file(rng, draft / "rng.safetensors")
        streams = {"python_rng": random.getstate(), "numpy_rng": _numpy_stream()}
        base = {"base": describe_base(model)} if has_adapter(model) else {}
        text = json.dumps({"step": step, "optimizer": rest, **base, **streams, **state}, default=_as_number)
        (draft / "state.json").write_text(text, encoding="utf-8")
        for path in draft.iterdir():
            with open(path, "rb+") as file:  # Windows flushes only what is open for writing
                os.fsync(file.fileno())
        if target.exists():  # the same step again: the old one goes when the new one is in its place
            target.rename(old := folder / f".unfinished-{target.name}")
        draft.rename(target)
        if old is not None:
            shutil.rmtree(old)
    except BaseException:
        if old is not None and not target.exists():  # the new one did not take its place
            old.rename(target)
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def holds_reference(path):
    """Tell whether the checkpoint holds a reference."""
    return (Path(path) / "reference.safetensors").is_file()


def load_checkpoint(path, *, model, reference, optimizer):
    """Read a checkpoint into a model, its reference (or None) and its optimizer; restore Python's and numpy's streams.

    Returns:
        (state, rng): what `save_checkpoint` was given, with "step" in state.
    Raises:
        FileNotFoundError: if a file is missing, or the reference where the run keeps one.
        ValueError: if a file is damaged, or the optimizer's state belongs to other parameters.
        RuntimeError: if the weights do not fit the model, or an adapter was trained on another. Files are looked at
        before anything is changed.
    """
    path = Path(path)
    if reference is not None and not holds_reference(path) and (path / "state.json").is_file():
        raise FileNotFoundError(
            f"{path} holds no reference.safetensors: it was saved without a reference (beta 0), and the frozen start "
            "cannot be made up afterwards. Resume with beta=0 and track_kl=False, or start anew"
        )
    state = _read_whole(path, [] if reference is None else ["reference"])
    base = state.pop("base", None)
    if has_adapter(model):
        check_base(base, model, path)
    check_fits(model, path / "policy.safetensors")
    if reference is not None:
        check_fits(reference, path / "reference.safetensors")
    try:
        optimizer.load_state_dict(_join(load_file(path / "optimizer.safetensors"), state.pop("optimizer")))
    except ValueError as error:
        raise ValueError(f"{path}: the optimizer's state belongs to other trainable parameters ({error})") from error
    load_weights(model, path / "policy.safetensors")
    if reference is not None:
        load_weights(reference, path / "reference.safetensors")
    version, internal, gauss = state.pop("python_rng")
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state.pop("numpy_rng")
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    return state, load_file(path / "rng.safetensors")


def _read_whole(path, also):
    """Read state.json and open every other file: what is missing or damaged is named before anything is changed."""
    for name in ("state.json", *(f"{n}.safetensors" for n in ("policy", "optimizer", "rng", *also))):
        if not (path / name).is_file():
            raise FileNotFoundError(f"{path} holds no complete checkpoint: {name} is missing")
        try:
            if name == "state.json":
                state = json.loads((path / name).read_text(encoding="utf-8"))
                if missing := WRITTEN - set(state):
                    raise ValueError(f"it lacks {', '.join(sorted(missing))}")
            else:
                with safe_open(path / name, framework="pt"):
                    pass
        except Exception as error:
            raise ValueError(
                f"{path / name} is damaged ({error}): delete {path}, and take up an earlier checkpoint"
            ) from error
    return state


def _as_number(value):
    """What json cannot write: numpy's and torch's numbers."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a checkpoint's state must be JSON, got {value!r} of type {type(value).__name__}")


def _split(state_dict):
    """An optimizer's state → its tensors under flat names, and the rest as JSON."""
    tensors, rest = {}, {}
    for index, values in state_dict["state"].items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{index}.{name}"] = value.contiguous()
            else:
                rest[f"{index}.{name}"] = value
    return tensors, {"values": rest, "param_groups": state_dict["param_groups"]}


def _join(tensors, rest):
    state = {}
    for key, value in {**tensors, **rest["values"]}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    return {"state": state, "param_groups": rest["param_groups"]}


def _numpy_stream():
    name, keys, *rest = np.random.get_state()
    return [name, keys.tolist(), *rest]
