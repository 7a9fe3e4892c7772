"""The model that TRL trains: its reference from a copy of the start, and what TRL puts on it taken off afterwards."""

from contextlib import contextmanager

from grpo_lib.adapters import has_adapter
from grpo_lib.processes import process_rank

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

    Afterwards it has its own again, also its mode; what it has learned stays.
    """
    adapters = set(getattr(model, "peft_config", ()))
    modules = [model, model.get_base_model()] if has_adapter(model) else [model]
    own, training = [vars(module).get("forward") for module in modules], model.training
    try:
        yield
    finally:
        for module, forward in zip(modules, own, strict=True):
            vars(module).pop("_original_forward", None)
            if forward is None:
                vars(module).pop("forward", None)
            else:
                module.forward = forward
        if "ref" in set(getattr(model, "peft_config", ())) - adapters:
            model.delete_adapter("ref")
        model.train(training)
