"""The model that TRL trains: its reference from a copy of the start, and what TRL puts on it taken off afterwards."""

from contextlib import contextmanager

from torch.nn.modules.dropout import _DropoutNd

from grpo_lib.adapters import has_adapter
from grpo_lib.processes import process_rank

_ABSENT = object()
_SILENCED = ("p", "gradient_checkpointing")  # a dropout's rate, and whether a block keeps its activations

__all__ = ["given_back", "reference_from_start"]


@contextmanager
def reference_from_start(model, tokenizer, folder, settings):
    """TRL loads the reference from where the model says it comes from: let that be a copy of the start."""
    if settings.beta == 0 or has_adapter(model):
        yield
        return
    from accelerate import PartialState

    came_from = model.config._name_or_path
    if process_rank() == 0:
        model.save_pretrained(folder / "start")
        tokenizer.save_pretrained(folder / "start")
    PartialState().wait_for_everyone()
    model.config._name_or_path = str(folder / "start")
    try:
        yield
    finally:
        model.config._name_or_path = came_from


@contextmanager
def given_back(model):
    """TRL and accelerate put another `forward` on the model, and on one with an adapter a second adapter, "ref".

    They also turn off its cache and its dropout, and turn on activation checkpointing, with hooks. Afterwards it has
    all its own again, also its mode; what it has learned stays. The block gets a function that gives the configuration
    back before: what is saved should have it.
    """
    adapters = set(getattr(model, "peft_config", ()))
    modules = [model, model.get_base_model()] if has_adapter(model) else [model]
    own, cache = [vars(module).get("forward") for module in modules], getattr(model.config, "use_cache", None)
    state = [(module, _own_state(module)) for module in model.modules()]

    def give_back_config():
        if cache is not None:
            model.config.use_cache = cache

    try:
        yield give_back_config
    finally:
        give_back_config()
        for module, forward in zip(modules, own, strict=True):
            vars(module).pop("_original_forward", None)
            if forward is None:
                vars(module).pop("forward", None)
            else:
                module.forward = forward
        if "ref" in set(getattr(model, "peft_config", ())) - adapters:
            model.delete_adapter("ref")
        for module, (training, hooks, values) in state:
            module.training = training
            for key in module._forward_hooks.keys() - hooks:
                del module._forward_hooks[key]
            for name, value in values.items():
                if value is not _ABSENT:
                    setattr(module, name, value)
                elif name in vars(module):
                    delattr(module, name)


def _own_state(module):
    names = _SILENCED if isinstance(module, _DropoutNd) else _SILENCED[1:]
    return module.training, set(module._forward_hooks), {name: vars(module).get(name, _ABSENT) for name in names}
