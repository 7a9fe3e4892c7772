"""LoRA through `peft`: a few small matrices learn, the model beneath them stays as it is."""

import json
import re
import sys
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from grpo_lib._arguments import check_count, check_number
from grpo_lib.base_weights import check_base

__all__ = ["add_lora", "adapter_is_fresh", "has_adapter", "load_adapter", "trainable_parameters", "trained_tensors"]

ADAPTER = "adapter_model.safetensors"
HALF = re.compile(r"(.+\.lora_(?:embedding_)?[AB])\.(\w+?)(\.weight)?")  # model, name of the adapter, the rest
ADVICE = "install it (pip install peft), or train all weights with lora=None"


def add_lora(model, rank=16, *, alpha=None, target_modules="all-linear", seed=0):
    """Put a fresh LoRA adapter on a model: only the adapter learns.

        y = W x + (alpha / rank) · B A x,      A: (rank, n) random, B: (m, rank) zeros

    B starts as zeros, so the model starts as it was. The adapter's weights are fp32, whatever the model's are: 16 bits
    would round small updates away. There is no dropout in it: a policy is scored as it is sampled.

    Source: Hu et al. 2021, LoRA (arXiv:2106.09685); all linear layers but the output's, as in Dettmers et al. 2023
    (arXiv:2305.14314).

    Args:
        model: a causal language model of transformers; its own weights are frozen in place.
        rank: r >= 1. alpha: the scale; None takes 2 · rank. target_modules: see `peft.LoraConfig`.
        seed: of the random matrices; torch's own random stream is left as it was.
    Returns:
        a `peft.PeftModel` around the model, in the model's mode.
    Raises:
        ImportError: without `peft`. ValueError: on a rank or alpha out of range, or a model that has an adapter.
    """
    check_count("rank", rank, 1)
    alpha = check_number("alpha", 2 * rank if alpha is None else alpha, 0, inclusive=False)
    if has_adapter(model):
        raise ValueError("this model has an adapter already: train that one, or put a new one on the model beneath it")
    peft = _import_peft("add_lora")
    config = peft.LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=target_modules, task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks for names that transformers is about to drop
        torch.random.default_generator.manual_seed(seed)
        return peft.get_peft_model(model, config).train(model.training)


def load_adapter(model, folder):
    """Put an adapter that was saved before (`PeftModel.save_pretrained`) on its model, ready to be trained on.

    Raises:
        ImportError: without `peft`. OSError: if the folder holds no adapter as safetensors, or a damaged file.
        RuntimeError: if its names or shapes are not the model's, or if it was trained on other weights; the latter can
            be told only of a folder that `save_best` wrote.
    """
    peft, folder = _import_peft("load_adapter"), Path(folder)
    missing = [name for name in ("adapter_config.json", ADAPTER) if not (folder / name).is_file()]
    if missing:
        raise OSError(f"load_adapter: {folder} holds no {missing[0]}: look at the path (only safetensors are read)")
    try:
        with safe_open(folder / ADAPTER, framework="pt") as file:
            saved = set(file.keys())
        best = folder / "best.json"
        told = json.loads(best.read_text(encoding="utf-8")) if best.is_file() else {}
    except (SafetensorError, ValueError) as error:
        raise OSError(f"load_adapter: a file in {folder} is damaged ({error}): take another one") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", "Found missing adapter keys")  # said below, as an error
        model = peft.PeftModel.from_pretrained(model, folder, is_trainable=True).train(model.training)
    _check_halves(saved, model, folder)
    check_base(told.get("base"), model, folder)
    return model


def _check_halves(saved, model, folder):
    """peft leaves out what it finds no place for, and starts afresh what it finds nothing for, all in silence."""
    own = {f"{found[1]}{found[3] or ''}" for name in trained_tensors(model) if (found := HALF.fullmatch(name))}
    saved = {name for name in saved if re.search(r"\.lora_(?:embedding_)?[AB](?:\.weight)?$", name)}
    if wrong := sorted(own ^ saved):
        raise RuntimeError(
            f"{folder} holds an adapter of another model: {len(wrong)} of its matrices have no counterpart, such as "
            f"{wrong[0]}; load the model that it was trained on"
        )


def has_adapter(model):
    """Tell whether a model is one of peft's, with an adapter.

    >>> has_adapter(torch.nn.Linear(2, 2))
    False
    """
    return hasattr(model, "peft_config") and hasattr(model, "disable_adapter")


def adapter_is_fresh(model):
    """Tell whether a model's adapters are all LoRA and change nothing yet: B A = 0 in each, and nothing else learns.

    Only then is the model without its adapter the policy at the start of a run.
    """
    halves = {}
    for name, parameter in model.named_parameters():
        found = re.fullmatch(r"(.+)\.lora_(?:embedding_)?[AB]\.(\w+)(?:\.weight)?", name)
        if found is not None:
            halves.setdefault(found.groups(), []).append(bool((parameter == 0).all()))
        elif parameter.requires_grad:
            return False
    return all(any(zero) for zero in halves.values())


def trained_tensors(model):
    """The tensors that learn, by name: all of an adapter.

    >>> sorted(trained_tensors(torch.nn.Linear(2, 1)))
    ['bias', 'weight']
    """
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def trainable_parameters(model):
    """List the parameters that learn, and refuse those that could not.

    Returns:
        a list of parameters. (Of bfloat16 ones a run warns, see `grpo_lib.precision.moving_share`.)
    Raises:
        ValueError: if there is none, if one is float16, or if the model lies on more than one device.

    >>> [tuple(parameter.shape) for parameter in trainable_parameters(torch.nn.Linear(2, 1))]
    [(1, 2), (1,)]
    """
    parameters = list(trained_tensors(model).values())
    if not parameters:
        why = "load the adapter with is_trainable=True" if has_adapter(model) else "set requires_grad on some"
        raise ValueError(f"the model has 0 trainable parameters, so nothing would be learned: {why}")
    devices = sorted({str(parameter.device) for parameter in model.parameters()})
    if len(devices) > 1:
        raise ValueError(
            f"the model lies on {', '.join(devices)}; a run uses one device, also where there are several GPUs: "
            "load it without device_map, or call model.to(device)"
        )
    dtypes = {parameter.dtype for parameter in parameters}
    if torch.float16 in dtypes:
        raise ValueError(
            "trainable weights are float16: AdamW's first step makes them infinite; load the model with "
            "dtype=torch.float32 (autocast='float16' then makes its matrix products half precision), or add LoRA"
        )
    return parameters


def _import_peft(function):
    try:
        import peft
        from peft.import_utils import is_torchao_available
    except ImportError as error:
        raise ImportError(f"{function} needs the package `peft`: {ADVICE}") from error
    try:
        is_torchao_available()
    except ImportError:  # too old a torchao (as on Colab): peft then refuses all LoRA, though nothing here needs it
        torchao = sys.modules.get("torchao")
        sys.modules["torchao"] = None
        is_torchao_available()  # now finds none, and remembers that
        del sys.modules["torchao"]
        if torchao is not None:
            sys.modules["torchao"] = torchao
    return peft
