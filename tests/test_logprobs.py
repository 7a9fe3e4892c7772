import copy
import math
from types import SimpleNamespace

import pytest
import torch
from tiny_models import sine_model, tiny_model

from grpo_lib.logprobs import compute_log_probs, selective_log_softmax
from grpo_lib.masks import position_ids_from_mask

SHAPES = ["qwen3", "llama", "gpt2"]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12), (torch.bfloat16, 1e-5)]
)
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_selective_log_softmax_equals_log_softmax_and_gather(dtype, tolerance, shift):
    torch.manual_seed(0)
    logits = (torch.randn(2, 7, 11) + shift).to(dtype)
    ids = torch.randint(0, 11, (2, 7))
    got = selective_log_softmax(logits, ids)
    expected = logits.double().log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    assert got.dtype == torch.promote_types(dtype, torch.float32)
    assert got.shape == (2, 7)
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=max(tolerance, 1e-4 if shift else 0))
    assert (got <= 0).all()


def test_probabilities_over_the_vocabulary_sum_to_one():
    logits = torch.randn(1, 1, 11).expand(1, 11, 11)
    assert math.isclose(selective_log_softmax(logits, torch.arange(11)[None]).exp().sum().item(), 1.0, rel_tol=1e-5)


def test_gradient_against_finite_differences():
    torch.manual_seed(1)
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    ids = torch.randint(0, 5, (2, 3))
    assert torch.autograd.gradcheck(lambda x: selective_log_softmax(x, ids), (logits,))


def test_gradient_of_half_precision_logits_keeps_their_dtype():
    logits = torch.randn(2, 3, 5, dtype=torch.bfloat16, requires_grad=True)
    ids = torch.randint(0, 5, (2, 3))
    selective_log_softmax(logits, ids).sum().backward()
    exact = logits.detach().double().requires_grad_()
    exact.log_softmax(-1).gather(-1, ids[..., None]).sum().backward()
    assert logits.grad.dtype == torch.bfloat16
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", SHAPES)
def test_golden_sine_models(golden, name):
    data = golden("sine_models")
    prompt = torch.tensor(data["prompt_ids"])
    completion, mask = torch.tensor(data["completion_ids"]), torch.tensor(data["completion_mask"])
    ids = torch.cat([prompt, completion], dim=1)
    attention = torch.cat([(prompt != 0).long(), mask], dim=1)
    keep = mask.bool()
    for scale, key in ((1.0, "logp_explicit"), (0.9, "ref_logp_09")):
        got = compute_log_probs(sine_model(name, scale), ids, attention, 3)
        torch.testing.assert_close(
            got[keep], torch.tensor(data[name][key], dtype=torch.float64)[keep], rtol=0, atol=1e-5
        )


def left_padded_batch():
    ids = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 2], [0, 0, 0, 5, 6, 7, 3, 4]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1]])
    return ids, mask


@pytest.mark.parametrize("name", SHAPES)
def test_padded_batch_equals_each_row_alone(name):
    torch.manual_seed(0)
    model, (ids, mask) = tiny_model(name).eval(), left_padded_batch()
    together = compute_log_probs(model, ids, mask, 3)
    alone = compute_log_probs(model, ids[1:, 3:], mask[1:, 3:], 3)
    torch.testing.assert_close(together[1:], alone, rtol=0, atol=1e-5)


def test_without_position_ids_a_learned_position_model_is_wrong():
    torch.manual_seed(0)
    model, (ids, mask) = tiny_model("gpt2", initializer_range=0.5).eval(), left_padded_batch()
    right = compute_log_probs(model, ids, mask, 3)
    wrong = compute_log_probs(model, ids, mask, 3, position_ids=torch.arange(8).expand(2, 8))
    assert (right[1] - wrong[1]).abs().max() > 0.1
    torch.testing.assert_close(right[0], wrong[0])


class Wrapped(torch.nn.Module):
    """A model whose forward knows fewer arguments, and always returns all positions."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        positions = position_ids_from_mask(attention_mask)
        return self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=positions)


class Swallowing(Wrapped):
    def forward(self, input_ids, attention_mask, **ignored):
        return super().forward(input_ids, attention_mask)


class OldName(Wrapped):
    def forward(self, input_ids, attention_mask, position_ids=None, num_logits_to_keep=0):
        logits = super().forward(input_ids, attention_mask).logits
        return SimpleNamespace(logits=logits[:, -num_logits_to_keep:])


@pytest.mark.parametrize("wrapper", [Wrapped, Swallowing, OldName])
@pytest.mark.parametrize("keep", [1, 3, 7])
def test_same_values_whatever_the_forward_takes(wrapper, keep):
    torch.manual_seed(0)
    model, (ids, mask) = tiny_model("llama").eval(), left_padded_batch()
    expected = compute_log_probs(model, ids, mask, keep)
    got = compute_log_probs(wrapper(model), ids, mask, keep)
    assert got.shape == (2, keep)
    torch.testing.assert_close(got[0], expected[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(got[1, -min(keep, 4) :], expected[1, -min(keep, 4) :], rtol=0, atol=1e-5)


def test_fast_path_equals_all_logits_and_a_missing_plus_one_would_show():
    torch.manual_seed(0)
    model = tiny_model("qwen3", initializer_range=0.5).eval()
    ids = torch.randint(2, 11, (2, 9))
    everything = model(input_ids=ids).logits.log_softmax(-1)
    expected = everything[:, 4:8].gather(-1, ids[:, 5:, None])[..., 0]
    shifted = everything[:, 5:9].gather(-1, ids[:, 5:, None])[..., 0]
    got = compute_log_probs(model, ids, torch.ones_like(ids), 4)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    assert (got - shifted).abs().max() > 0.1


@pytest.mark.parametrize("chunk_size", [1, 3, 8])
def test_chunks_give_the_same_values_and_gradients(chunk_size):
    torch.manual_seed(0)
    model = tiny_model("qwen3").eval()
    chunked = copy.deepcopy(model)
    ids = torch.randint(2, 11, (8, 9))
    ones = torch.ones_like(ids)
    whole = compute_log_probs(model, ids, ones, 4)
    parts = compute_log_probs(chunked, ids, ones, 4, chunk_size=chunk_size)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)
    whole.sum().backward()
    parts.sum().backward()
    for a, b in zip(model.parameters(), chunked.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("temperature", "expected"), [(0.5, -0.1429), (1.0, -0.4076), (2.0, -0.6803)])
def test_temperature_divides_the_logits(temperature, expected):
    class Fixed(torch.nn.Module):
        def forward(self, input_ids, attention_mask):
            return SimpleNamespace(logits=torch.tensor([2.0, 1.0, 0.0]).expand(*input_ids.shape, 3))

    ids = torch.zeros(1, 3, dtype=torch.long)
    got = compute_log_probs(Fixed(), ids, torch.ones_like(ids), 2, temperature=temperature)
    torch.testing.assert_close(got, torch.full((1, 2), expected), rtol=0, atol=1e-4)


class Parallel(torch.nn.Module):
    """Wraps a model as DistributedDataParallel and torch.compile do: forward(*args, **kwargs) of `module`."""

    def __init__(self, model, name):
        super().__init__()
        setattr(self, name, model)
        self.name = name

    def forward(self, *arguments, **named):
        return getattr(self, self.name)(*arguments, **named)


@pytest.mark.parametrize("name", ["module", "_orig_mod"])
def test_wrapped_models_get_their_position_ids(name):
    torch.manual_seed(0)
    model, (ids, mask) = tiny_model("gpt2", initializer_range=0.5).eval(), left_padded_batch()
    expected = compute_log_probs(model, ids, mask, 3)
    torch.testing.assert_close(compute_log_probs(Parallel(model, name), ids, mask, 3), expected)


def test_temperature_of_bf16_logits_is_applied_in_fp32():
    logits = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    ids = torch.randint(0, 11, (2, 3))
    got = selective_log_softmax(logits, ids, temperature=0.7)
    exact = logits.detach().double().requires_grad_()
    expected = (exact / 0.7).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-5)
    got.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits_to_keep": 0}, "from 1 to"),
        ({"logits_to_keep": 8}, "7, got 8"),
        ({"temperature": 0.0}, "> 0, got 0.0"),
        ({"temperature": float("nan")}, "got nan"),
        ({"chunk_size": 0}, "chunk_size"),
        ({"attention_mask": torch.ones(2, 7)}, r"one shape .* got \(2, 8\) and \(2, 7\)"),
    ],
)
def test_bad_input_is_refused(change, message):
    ids, mask = left_padded_batch()
    arguments = {"input_ids": ids, "attention_mask": mask, "logits_to_keep": 3, **change}
    with pytest.raises(ValueError, match=message):
        compute_log_probs(tiny_model("llama"), **arguments)


@pytest.mark.parametrize(("shape", "message"), [((2, 3), r"got \(2, 4, 5\) and \(2, 3\)"), ((4,), "input_ids")])
def test_mismatched_ids_are_not_broadcast(shape, message):
    with pytest.raises(ValueError, match=message):
        selective_log_softmax(torch.zeros(2, 4, 5), torch.zeros(shape, dtype=torch.long))
