"""The fine-tuning exercises against torch and peft, not against the formulas they ask for."""

import numpy as np
import pytest
import torch

from grpo_lib import checks


def test_what_moves_is_what_torch_moves():
    def by_rounding(weights, step):
        exact = torch.tensor(np.abs(weights)).bfloat16()
        return ((exact.float() + step).bfloat16() != exact).float().numpy()

    assert checks.check_moves(by_rounding).right
    assert not checks.check_moves(lambda w, step: by_rounding(w, step / 2)).right


def test_an_adapter_is_as_large_as_peft_makes_it():
    pytest.importorskip("peft")
    from grpo_lib.adapters import add_lora, trained_tensors

    class Layers(torch.nn.Module):
        def __init__(self, shapes):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(n, m, bias=False) for m, n in shapes)
            self.config = {"model_type": "layers"}
            self.prepare_inputs_for_generation = None

    def counted(shapes, rank):
        model = add_lora(Layers(shapes), rank, target_modules=r"layers\.\d+")
        return sum(p.numel() for p in trained_tensors(model).values())

    assert checks.check_lora_parameters(counted).right


def test_bytes_of_a_run_are_those_of_its_tensors():
    def measured(frozen, frozen_bytes, trainable):
        with torch.device("meta"):
            base = torch.empty(frozen, dtype={2: torch.float16, 4: torch.float32}[frozen_bytes])
            weight = torch.nn.Parameter(torch.empty(trainable))
            weight.grad = torch.empty(trainable)
            moments = [torch.empty_like(weight), torch.empty_like(weight)]
        return sum(t.numel() * t.element_size() for t in (base, weight, weight.grad, *moments))

    assert checks.check_training_bytes(measured).right
