"""The setup cell's one call: seeds, threads, device, and the versions that a question about a result starts from."""

import os
import platform
import random
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

__all__ = ["Machine", "on_colab", "setup"]

SHOWN = ("torch", "transformers", "numpy", "plotly", "ipywidgets")


@dataclass(frozen=True)
class Machine:
    """What the notebooks run on. device: "cuda", "mps" or "cpu"; dtype: of trainable weights; threads: of torch."""

    device: str
    dtype: str
    threads: int
    colab: bool
    versions: dict

    def __str__(self):
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        place = "Colab" if self.colab else platform.system()
        return (
            f"grpo_lib is ready on {place}: {self.device}, {self.dtype} weights, {self.threads} thread(s); {packages}"
        )


def on_colab():
    """Tell whether this is a Colab kernel.

    >>> on_colab()
    False
    """
    return "google.colab" in sys.modules


def setup(seed=0, threads=1, *, torch=True, quiet=False):
    """Seed Python, numpy and torch, choose a device, and print what this machine is.

    The models of this course are so small that one thread is fastest: with more, threads wait for each other longer
    than they work. Trackers that would ask for a login are switched off unless you chose otherwise.

    Args:
        seed: of Python's, numpy's and torch's global random generators.
        threads: of torch; None leaves torch's own choice.
        torch: False leaves torch alone (and unloaded), for the notebooks that need only numpy.
        quiet: print nothing.
    Returns:
        a `Machine`.
    Raises:
        ImportError: if a package of the course is missing; the message says how to install it.

    >>> setup(quiet=True).dtype
    'float32'
    """
    import numpy as np

    os.environ.setdefault("WANDB_MODE", "disabled")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    random.seed(seed)
    np.random.seed(seed)
    device, count = _setup_torch(seed, threads) if torch else ("cpu", 1)
    machine = Machine(device, "float32", count, on_colab(), {name: _version(name) for name in ("python", *SHOWN)})
    if not quiet:
        print(machine)
    return machine


def _setup_torch(seed, threads):
    import torch

    torch.manual_seed(seed)
    if threads is not None:
        torch.set_num_threads(threads)
    if torch.cuda.is_available():
        device = "cuda"
    elif torch.backends.mps.is_available():
        device = "mps"
    else:
        device = "cpu"
    return device, torch.get_num_threads()


def _version(name):
    if name == "python":
        return platform.python_version()
    try:
        return version(name)
    except PackageNotFoundError as error:
        raise ImportError(f"{name} is missing: install the course with `pip install -r requirements.txt`") from error
