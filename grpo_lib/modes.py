"""Put a model into the state that sampling or scoring needs, and give every state back, also after an exception."""

from contextlib import contextmanager

import torch
from transformers.utils import logging

__all__ = ["enable_checkpointing", "evaluation_mode", "no_progress_bar", "recomputes_with_dropout"]


@contextmanager
def evaluation_mode(model, *, keep_checkpointing=False):
    """Switch dropout off in every module of a model for the length of a `with` block.

    A log-prob that is scored with dropout is not the log-prob that was sampled from: the ratio starts away from 1.
    Each module gets its own former mode back, so a model that mixed modes still does afterwards.

    Args:
        model: any `torch.nn.Module`.
        keep_checkpointing: transformers recomputes activations only in modules that are in training mode, and
            `from_pretrained` returns a model that is not: there `gradient_checkpointing_enable()` is silently without
            effect. True sets that one flag for the modules which checkpoint (their own dropout rates are 0 meanwhile).
            The backward pass must then lie inside the block too: it runs these modules again.

    >>> layer = torch.nn.Sequential(torch.nn.Dropout(0.5)).train()
    >>> with evaluation_mode(layer):
    ...     layer(torch.ones(3))
    tensor([1., 1., 1.])
    >>> layer.training
    True
    """
    before = [(module, module.training) for module in model.modules()]
    rates = []
    model.eval()
    try:
        if keep_checkpointing:
            for module, _ in before:
                if getattr(module, "gradient_checkpointing", False):
                    module.training = True  # this flag alone: the modules inside stay in eval mode
                    rates += [(module, name, rate) for name, rate in _dropout_rates(module)]
            for module, name, _ in rates:
                setattr(module, name, 0.0)
        yield model
    finally:
        for module, name, rate in rates:
            setattr(module, name, rate)
        for module, training in before:
            module.training = training


def enable_checkpointing(model, **options):
    """Let a model of transformers keep only each layer's input for the backward pass, and compute the rest again.

    About a fifth of the activations stay, for a third more time in the update. Sampling and its cache are untouched:
    they run in `evaluation_mode`, where nothing is checkpointed.

    Source: Chen et al. 2016 (arXiv:1604.06174), as `torch.utils.checkpoint` does it.

    Args:
        model: changed in place; also one with an adapter. **options: of `torch.utils.checkpoint.checkpoint`.
    Returns:
        the model.
    Raises:
        ValueError: if this kind of model cannot do it.
    """
    name = "activation_checkpointing_enable"  # older releases of transformers have the other name
    enable = getattr(model, name) if hasattr(model, name) else model.gradient_checkpointing_enable
    enable({"use_reentrant": False, **options})
    return model


@contextmanager
def no_progress_bar():
    """Load or save a model without a progress bar: its timings would change a notebook's saved output at every run."""
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


def recomputes_with_dropout(model):
    """Tell whether a backward pass outside `evaluation_mode` would run checkpointed modules again with dropout on.

    >>> recomputes_with_dropout(torch.nn.Dropout(0.5))
    False
    """
    modules = list(model.modules())
    if not any(m.training and getattr(m, "gradient_checkpointing", False) for m in modules):
        return False
    return any(m.training and (_dropout_rates(m) or (isinstance(m, torch.nn.Dropout) and m.p > 0)) for m in modules)


def _dropout_rates(module):
    """The dropout rates that a module applies itself, in its forward: its float attributes of that name."""
    names = [name for name in vars(module) if "dropout" in name or "layerdrop" in name]
    return [
        (name, getattr(module, name))
        for name in names
        if isinstance(getattr(module, name), float) and getattr(module, name) > 0
    ]
