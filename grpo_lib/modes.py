"""Put a model into the state that sampling or scoring needs, and give every state back, also after an exception."""

from contextlib import contextmanager

__all__ = ["evaluation_mode"]


@contextmanager
def evaluation_mode(model, *, keep_checkpointing=False):
    """Switch dropout off in every module of a model for the length of a `with` block.

    A log-prob that is scored with dropout is not the log-prob that was sampled from: the ratio starts away from 1.
    Each module gets its own former mode back, so a model that mixed modes still does afterwards.

    Args:
        model: any `torch.nn.Module`.
        keep_checkpointing: transformers recomputes activations only in modules that are in training mode; True leaves
            that one flag on for the modules which checkpoint, for a forward pass that needs gradients.

    >>> import torch
    >>> layer = torch.nn.Sequential(torch.nn.Dropout(0.5)).train()
    >>> with evaluation_mode(layer):
    ...     layer(torch.ones(3))
    tensor([1., 1., 1.])
    >>> layer.training
    True
    """
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        if keep_checkpointing:
            for module, training in before:
                if training and getattr(module, "gradient_checkpointing", False):
                    module.training = True  # this flag alone: the modules inside stay in eval mode
        yield model
    finally:
        for module, training in before:
            module.training = training
