"""Save a run and take it up again: tensors as safetensors, the rest as JSON; nothing that executes when it is read.

A checkpoint is a folder `step-000123` holding

    policy.safetensors       the weights being trained
    reference.safetensors    the frozen reference (absent where the run keeps none)
    optimizer.safetensors    Adam's moments and step counts
    rng.safetensors          the run's own random streams
    state.json               step, position in the data, settings, history, Python's and numpy's streams

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
from safetensors.torch import load_file, load_model, save_file, save_model

__all__ = ["latest_checkpoint", "load_checkpoint", "save_checkpoint"]


def latest_checkpoint(folder):
    """Find the newest complete checkpoint of a folder, or None.

    >>> latest_checkpoint("/a/folder/that/is/not/there") is None
    True
    """
    found = [
        p for p in Path(folder).glob("step-*") if re.fullmatch(r"step-\d+", p.name) and (p / "state.json").is_file()
    ]
    return max(found, key=lambda p: int(p.name[5:]), default=None)


def save_checkpoint(folder, step, *, model, reference, optimizer, rng, state):
    """Write the checkpoint `folder/step-…` and return its path.

    Args:
        model, reference: modules; reference may be None.
        optimizer: a torch optimizer. rng: dict of ByteTensors, the run's random streams.
        state: all else that must come back, as JSON.
    Raises:
        OSError: if the disk is full or not writable; then no half-written checkpoint is left behind.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step-{step:06d}"
    draft = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
    try:
        save_model(model, str(draft / "policy.safetensors"))
        if reference is not None:
            save_model(reference, str(draft / "reference.safetensors"))
        tensors, rest = _split(optimizer.state_dict())
        save_file(tensors, draft / "optimizer.safetensors")
        save_file(rng, draft / "rng.safetensors")
        streams = {"python_rng": random.getstate(), "numpy_rng": _numpy_stream()}
        text = json.dumps({"step": step, "optimizer": rest, **streams, **state})
        (draft / "state.json").write_text(text, encoding="utf-8")
        for path in draft.iterdir():
            _flush_to_disk(path)
        if target.exists():
            shutil.rmtree(target)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def load_checkpoint(path, *, model, reference, optimizer):
    """Read a checkpoint into a model, its reference (or None) and its optimizer; restore Python's and numpy's streams.

    Returns:
        (state, rng): what `save_checkpoint` was given, with "step" in state.
    Raises:
        FileNotFoundError: if the folder holds no complete checkpoint, or no reference where the run keeps one.
        RuntimeError: if the weights do not fit the model.
    """
    path = Path(path)
    if not (path / "state.json").is_file():
        raise FileNotFoundError(f"{path} holds no complete checkpoint: state.json is missing")
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    load_model(model, str(path / "policy.safetensors"))
    if reference is not None:
        if not (path / "reference.safetensors").is_file():
            raise FileNotFoundError(
                f"{path} was saved without a reference (beta was 0), and the frozen start cannot be made up "
                "afterwards: resume with beta=0 and track_kl=False, or start anew"
            )
        load_model(reference, str(path / "reference.safetensors"))
    optimizer.load_state_dict(_join(load_file(path / "optimizer.safetensors"), state.pop("optimizer")))
    version, internal, gauss = state.pop("python_rng")
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state.pop("numpy_rng")
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    return state, load_file(path / "rng.safetensors")


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


def _flush_to_disk(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
