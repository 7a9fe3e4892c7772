"""`load_policy`: one loader, three ways to a model that can be trained, and an error that says which way works."""

import os
import re
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from grpo_lib._arguments import check_choice, check_count
from grpo_lib.adapters import add_lora, load_adapter
from grpo_lib.devices import choose_precision, describe_machine
from grpo_lib.models import build_tiny_tokenizer, load_hub_model, load_tiny_policy, no_progress_bar, tiny_config
from grpo_lib.modes import enable_checkpointing
from grpo_lib.smollm import smollm_folder

__all__ = ["HUB_MODEL", "count_parameters", "load_config", "load_policy", "load_tokenizer"]

HUB_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
DTYPES = (None, "float32", "bfloat16", "float16")


def load_policy(
    name=HUB_MODEL,
    *,
    device=None,
    dtype=None,
    lora=None,
    adapter=None,
    checkpointing=False,
    local_files_only=False,
    quiet=True,
):
    """Load a model to train, and its tokenizer.

        "tiny"       ships with the library, 0.1 M parameters        no network, no GPU
        "smollm2"    SmolLM2-135M-Instruct, from a Python package    no network once installed, no GPU
        any other    a causal model of the hub, or a folder          a network once; from 0.5 B on, a GPU

    What learns is fp32: all weights, or with `lora` an adapter on a model that a GPU keeps in half precision. No code
    of a checkpoint is run, and only safetensors are read.

    Args:
        name: "tiny", "smollm2", a hub name, or a folder.
        device: "cuda", "mps" or "cpu"; None takes the best there is.
        dtype: of the weights; None chooses (see `grpo_lib.devices.choose_precision`).
        lora: None, or the rank of a fresh LoRA adapter. adapter: a folder with an adapter to go on with.
        checkpointing: recompute activations in the backward pass: less memory, a third more time.
        local_files_only: do not go to the network. quiet: False prints what was chosen and why.
    Returns:
        (model, tokenizer), the model in evaluation mode.
    Raises:
        OSError: if the files cannot be had: no network, no such name, not accepted terms, no safetensors.
        ImportError: if SmolLM2's package, or peft, is missing. ValueError: if the device is not there.
        MemoryError: if the model is too large for the machine, before its weights are read.
        TypeError: if name is neither a text nor a path.

    >>> model, tokenizer = load_policy("tiny")
    >>> sum(p.numel() for p in model.parameters())
    102592
    """
    check_choice("dtype", dtype, DTYPES)
    if lora is not None:
        check_count("lora", lora, 1, why=", a rank; None trains all weights")
    if lora is not None and adapter is not None:
        raise ValueError("lora puts a fresh adapter on, adapter a saved one: give one of them")
    machine = describe_machine(device)
    if name == "tiny":
        model, tokenizer = load_tiny_policy()
        model = model if dtype is None else model.to(getattr(torch, dtype))
    else:
        source, config = _source(name), load_config(name, local_files_only=local_files_only)
        adapted = lora is not None or adapter is not None
        choice = choose_precision(machine, _count(source, config), lora=adapted)
        if not quiet:
            print(choice)
        local_files_only = local_files_only or name == "smollm2"
        with no_progress_bar():
            model, tokenizer = load_hub_model(
                source, device="cpu", dtype=getattr(torch, dtype or choice.dtype), local_files_only=local_files_only
            )
    if lora is not None:
        model = add_lora(model, lora)
    if adapter is not None:
        model = load_adapter(model, adapter)
    if checkpointing:
        enable_checkpointing(model)
    return model.to(machine.kind if device is None else device), tokenizer


def count_parameters(config):
    """Count a model's parameters from its configuration; no weights are made.

    >>> from grpo_lib.models import tiny_config
    >>> count_parameters(tiny_config())
    102592
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def _count(source, config):
    try:
        return count_parameters(config)
    except ValueError as error:
        kind = getattr(config, "model_type", "")
        raise OSError(
            f"load_policy: {str(source)!r} is a {kind!r} model, which does not write a text from left to right: take a "
            f"causal language model, such as {HUB_MODEL!r}"
        ) from error


def load_config(name, *, local_files_only=False):
    """Load a model's configuration alone: a few kilobytes tell whether the rest can be had, and whether it fits.

    Args:
        name, local_files_only: as in `load_policy`.
    Returns:
        a `transformers.PretrainedConfig`.
    Raises:
        OSError, ImportError: as `load_policy`.

    >>> load_config("tiny").num_hidden_layers
    2
    """
    return tiny_config() if name == "tiny" else _read(AutoConfig, name, local_files_only)


def load_tokenizer(name, *, local_files_only=False):
    """Load a model's tokenizer alone, for data that is to be looked at before the model is loaded.

    Args, Raises: as `load_config`.

    >>> len(load_tokenizer("tiny"))
    61
    """
    return build_tiny_tokenizer() if name == "tiny" else _read(AutoTokenizer, name, local_files_only)


def _source(name):
    if not isinstance(name, (str, os.PathLike)):
        raise TypeError(f"name must be 'tiny', 'smollm2', a name of the hub or a folder, got {name!r}")
    return smollm_folder() if name == "smollm2" else name


def _read(kind, name, local_files_only):
    source = _source(name)
    try:
        return kind.from_pretrained(
            source, local_files_only=local_files_only or name == "smollm2", trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise _explained(source, error) from error


def _explained(source, error):
    text, ways = str(error), "load_policy('tiny') and load_policy('smollm2') need no hub"
    there, a_path = Path(str(source)).is_dir(), isinstance(source, os.PathLike) or re.match(r"[/~.]|\w:", str(source))
    if not there and re.search(r"gated repo|is restricted|\b40[13] (?:Client Error|Unauthorized|Forbidden)", text):
        why = (
            f"{str(source)!r} is gated, or there is no such model: accept its terms on its page and log in "
            f"(hf auth login), or take one that is open, such as {HUB_MODEL!r}"
        )
    elif "trust_remote_code" in text:
        why = f"{str(source)!r} brings code of its own, which is not run here: take another model"
    elif a_path and not there:
        why = f"there is no folder {str(source)!r}: look at the path"
    elif there:
        why = f"the folder {str(source)!r} holds no model of transformers (config.json): look at the path"
    else:
        why = (
            f"{str(source)!r} could not be had from the hub or the local cache: look at the name and the network "
            "(on a machine without one, load it once where there is, and copy the folder)"
        )
    return OSError(f"load_policy: {why}; {ways}.\nThe cause: {text}")
