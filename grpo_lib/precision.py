"""Half precision where it is safe: in the model's matrix products. Weights that learn, and the loss, stay fp32."""

from contextlib import nullcontext

import torch

from grpo_lib._arguments import check_choice

__all__ = ["AUTOCASTS", "cast_linear_layers", "loss_scaler", "mixed_precision", "moving_share"]

AUTOCASTS = (None, "bfloat16", "float16")
FIRST_SCALE, STEPS_TO_GROW = 2.0**13, 100  # torch's defaults, 2**16 and 2000, do not settle within a run of GRPO


def mixed_precision(device, autocast):
    """Return the context in which a model's matrix products run in half precision, or one that changes nothing.

    Use one block for each model and each purpose: torch keeps the half-precision copies of the weights for the length
    of a block, and copies made without gradient must not meet a forward pass that needs one.

    Args:
        device: a `torch.device` or its type, "cuda", "mps" or "cpu". autocast: None, "bfloat16" or "float16".
    Returns:
        a context manager.

    >>> x = torch.ones(2, 2)
    >>> with mixed_precision("cpu", "bfloat16"):
    ...     (x @ x).dtype, (x + x).dtype
    (torch.bfloat16, torch.float32)
    """
    check_choice("autocast", autocast, AUTOCASTS)
    if autocast is None:
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=getattr(torch, autocast))


def loss_scaler(device, autocast):
    """Return torch's `GradScaler`: it acts with "float16", and passes everything on as it is otherwise.

    A float16 number below 6e-8 is 0, and the gradients of a language model are often smaller: the loss is multiplied
    by a large number before the backward pass, and the gradients are divided by it afterwards.

    Source: Micikevicius et al. 2018, Mixed Precision Training (arXiv:1710.03740), section 3.2.

    >>> loss_scaler("cpu", None).is_enabled(), loss_scaler("cpu", "float16").get_scale()
    (False, 8192.0)
    """
    check_choice("autocast", autocast, AUTOCASTS)
    return torch.amp.GradScaler(
        torch.device(device).type,
        init_scale=FIRST_SCALE,
        growth_interval=STEPS_TO_GROW,
        enabled=autocast == "float16",
    )


def cast_linear_layers(model, dtype):
    """Store the weights of the linear layers in half precision, where autocast would cast them at each use anyway.

    What such a model computes under autocast is bit for bit what it computed before, in about half the memory. A
    weight that is also the embedding (tied) is left as it is: there it is not multiplied but looked up.

    Args:
        model: changed in place; its linear weights must not be trained.
        dtype: torch.float16 or torch.bfloat16.
    Returns:
        the model.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    >>> [p.dtype for p in cast_linear_layers(model, torch.float16).parameters()][1:3]
    [torch.float16, torch.float32]
    """
    users = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            users.setdefault(parameter, []).append(module)
    shared = {parameter for parameter, modules in users.items() if len(modules) > 1}
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.weight not in shared:
            module.to(dtype)
    return model


@torch.no_grad()
def moving_share(parameters, learning_rate):
    """Return the share of 16-bit weights that a step of AdamW changes at all, or None where no weight is 16-bit.

        w changes if round(w ± learning_rate) differs from w

    The first step of Adam moves each weight by the learning rate, later ones by about as much or less. Numbers of
    bfloat16 lie 1/256 to 1/128 of their size apart, so a weight of 0.02 needs a step of about 5e-5 to change.

    Args:
        parameters: tensors; those of 32 bits are passed over. learning_rate: of AdamW.
    Returns:
        a float from 0 to 1, from at most 100,000 weights of each tensor; or None.

    >>> weights = torch.tensor([0.02, 0.0001]).bfloat16()
    >>> moving_share([weights], 1e-6), moving_share([weights], 1e-4), moving_share([weights.float()], 1e-6)
    (0.5, 1.0, None)
    """
    moved = seen = 0
    for parameter in parameters:
        if parameter.dtype not in (torch.bfloat16, torch.float16) or not parameter.numel():
            continue
        flat = parameter.detach().flatten()
        exact = flat[:: -(-len(flat) // 100_000)].float()
        changed = [(exact + step).to(parameter.dtype).float() != exact for step in (learning_rate, -learning_rate)]
        moved += int((changed[0] | changed[1]).sum())
        seen += len(exact)
    return moved / seen if seen else None
