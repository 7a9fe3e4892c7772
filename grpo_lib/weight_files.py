"""What learns, as a safetensors file: of a model, of an adapter, of a reference; looked at before it is taken in."""

from contextlib import contextmanager

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, load_model, save_file, save_model

from grpo_lib.adapters import has_adapter, trained_tensors
from grpo_lib.reference import AdapterReference

__all__ = ["check_fits", "disk_errors", "load_weights", "save_weights"]


def save_weights(module, path):
    """Write a module's weights: of a model with an adapter the adapter alone, of its reference the frozen copy."""
    if isinstance(module, AdapterReference):
        save_file(module.frozen or {}, path)
    elif has_adapter(module):
        save_file({name: tensor.detach().contiguous() for name, tensor in trained_tensors(module).items()}, path)
    else:
        save_model(module, str(path))


def check_fits(module, path):
    """Refuse a file of `save_weights` that is not of such a module, before anything of the module is changed.

    Raises:
        RuntimeError: if a name or a shape differs, or a tensor is missing (of tied ones the file holds one).
    """
    with safe_open(path, framework="pt") as file:
        saved = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    if isinstance(module, AdapterReference):
        if not saved:  # the model without its adapter
            return
        module = module.policy
    adapter = has_adapter(module)
    own = trained_tensors(module) if adapter else module.state_dict()
    wrong = [name for name, shape in saved.items() if name not in own or list(own[name].shape) != shape]
    there = {own[name].data_ptr() for name in saved if name in own}
    wrong += [name for name, tensor in own.items() if name not in saved and tensor.data_ptr() not in there]
    if wrong:
        name = wrong[0]
        shapes = f"there {saved.get(name, 'none')}, here {list(own[name].shape) if name in own else 'none'}"
        raise RuntimeError(
            f"{path} holds another {'adapter' if adapter else 'model'} than the run's: {len(wrong)} tensors differ, "
            f"such as {name} ({shapes}); load the model as the run that saved did"
        )


def load_weights(module, path):
    """Read a file that `check_fits` has passed into its module."""
    if isinstance(module, AdapterReference):
        device = next(module.policy.parameters()).device
        module.frozen = load_file(path, device=str(device)) or None
    elif has_adapter(module):
        own = trained_tensors(module)
        with torch.no_grad():
            for name, tensor in load_file(path).items():
                own[name].copy_(tensor)
    else:
        load_model(module, str(path))


@contextmanager
def disk_errors(folder):
    """Say what to do where a disk is full; safetensors has an error of its own for it, which is no OSError.

    >>> with disk_errors("runs/first"):
    ...     raise OSError("No space left on device")
    Traceback (most recent call last):
    OSError: runs/first cannot be written (No space left on device). What was saved there before is whole: ...
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise OSError(
            f"{folder} cannot be written ({error}). What was saved there before is whole: make room, or keep fewer "
            "checkpoints (keep_last), and take the run up again"
        ) from error
