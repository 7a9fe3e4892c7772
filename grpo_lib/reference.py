"""The frozen reference π_ref: a copy of the start, or for an adapter the same model without it.

    all weights learn              a frozen copy
    a fresh adapter learns         the policy with its adapter switched off: no copy at all
    an adapter that had learned    the policy with a frozen copy of the adapter put in: a few megabytes

The model beneath an adapter is the start of a run only if the adapter changes nothing yet.
"""

import copy
from contextlib import contextmanager

import torch

from grpo_lib.adapters import adapter_is_fresh, has_adapter, trained_tensors
from grpo_lib.modes import evaluation_mode
from grpo_lib.precision import cast_linear_layers

__all__ = ["AdapterReference", "make_reference", "sync_reference"]


def make_reference(model, autocast=None):
    """Freeze a model as it is now, at the least cost in memory.

    Args:
        model: the policy at the start of a run.
        autocast: what the reference will be scored under. A full copy then keeps its linear layers in that dtype:
            autocast would cast them at each use, so its log-probs are bit for bit the policy's.
    Returns:
        a module that is called as the policy is, and never learns.

    >>> make_reference(torch.nn.Linear(2, 1)).weight.requires_grad
    False
    """
    if has_adapter(model):
        return AdapterReference(model, None if adapter_is_fresh(model) else _frozen_copy(model))
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    return reference if autocast is None else cast_linear_layers(reference, getattr(torch, autocast))


def sync_reference(reference, model):
    """Make the reference what the policy is now."""
    if isinstance(reference, AdapterReference):
        reference.frozen = _frozen_copy(model)
    else:
        reference.load_state_dict(model.state_dict())


class AdapterReference(torch.nn.Module):
    """A policy with an adapter, as it was when it was frozen. It owns no weights but the frozen copy, if any.

    Args:
        policy: a `peft.PeftModel`, which goes on learning.
        frozen: a dict of what its trained tensors were; None switches the adapter off instead.
    """

    def __init__(self, policy, frozen):
        super().__init__()
        object.__setattr__(self, "policy", policy)  # not as a submodule: the policy's weights are not the reference's
        self.frozen = frozen

    def forward(self, *args, **kwargs):
        """What the policy would have returned then: no gradient, no dropout."""
        with torch.no_grad(), evaluation_mode(self.policy), self._in_place():
            return self.policy(*args, **kwargs)

    def get_base_model(self):
        return self.policy.get_base_model()

    @contextmanager
    def _in_place(self):
        if self.frozen is None:
            flags = [(parameter, parameter.requires_grad) for parameter in self.policy.parameters()]
            try:
                with self.policy.disable_adapter():
                    yield
            finally:  # peft makes every adapter trainable that it switches on again
                for parameter, flag in flags:
                    parameter.requires_grad_(flag)
            return
        learned = {name: parameter.data for name, parameter in trained_tensors(self.policy).items()}
        try:
            for name, parameter in trained_tensors(self.policy).items():
                parameter.data = self.frozen[name]
            yield
        finally:
            for name, parameter in trained_tensors(self.policy).items():
                parameter.data = learned[name]


def _frozen_copy(model):
    return {name: tensor.detach().clone() for name, tensor in trained_tensors(model).items()}
