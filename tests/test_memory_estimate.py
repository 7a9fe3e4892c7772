"""The memory meter against torch's profiler, and the estimate against real steps."""

import itertools

import pytest
import torch
from tiny_models import CountingTokenizer
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

from grpo_lib.adapters import add_lora
from grpo_lib.devices import MachineMemory
from grpo_lib.live_memory import LiveMemory
from grpo_lib.memory_estimate import check_memory, estimate_memory
from grpo_lib.memory_meter import measure_memory
from grpo_lib.modes import enable_checkpointing
from grpo_lib.training import GRPORun, GRPOSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore:step .* every completion was cut"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]
PROMPT, NEW = 12, 20
DATA = [{"prompt": " ".join(["w3"] * PROMPT), "answer": "w5"} for _ in range(4)]
SHAPE = {
    "vocab_size": 900,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "eos_token_id": None,
}


class Endless(CountingTokenizer):
    """No end token, so that every completion is as long as it may be."""

    eos_token_id = None

    def decode(self, ids, skip_special_tokens=True):
        return " ".join(f"w{i}" for i in ids)


def alternate(prompts, completions, answer):
    return [float(i % 2) for i in range(len(completions))]


def measured(config, settings, lora, checkpointing):
    """Peak bytes of two real steps, model and all, by torch's profiler."""

    def two_steps():
        torch.manual_seed(0)
        kind = GPT2LMHeadModel if isinstance(config, GPT2Config) else Qwen2ForCausalLM
        model = kind(config).eval()
        model = model if lora is None else add_lora(model, lora)
        if checkpointing:
            enable_checkpointing(model)
        run = GRPORun(model, Endless(), DATA, settings, reward_function=alternate)
        return run, list(itertools.islice(run, 2))

    return measure_memory(two_steps).peak


CASES = {
    "full, tied": ({}, None, False, {"tie_word_embeddings": True}),
    "full, untied, beta": ({"beta": 0.1}, None, False, {"tie_word_embeddings": False}),
    "micro-batches, checkpointing": ({"micro_batch_size": 2}, None, True, {"tie_word_embeddings": True}),
    "one micro-batch": ({"micro_batch_size": 16, "beta": 0.1}, None, False, {"tie_word_embeddings": True}),
    "autocast, beta": ({"autocast": "bfloat16", "beta": 0.1, "micro_batch_size": 4}, None, False, {}),
    "wide: weights and Adam": ({"micro_batch_size": 1}, None, True, {"hidden_size": 256, "intermediate_size": 1024}),
    "LoRA": ({"beta": 0.1, "micro_batch_size": 4}, 4, False, {}),
    "LoRA, autocast, checkpointing": ({"autocast": "bfloat16", "micro_batch_size": 4}, 4, True, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_within_15_percent_of_two_real_steps(case):
    changes, lora, checkpointing, shape = CASES[case]
    if lora is not None:
        pytest.importorskip("peft")
    config = Qwen2Config(**{**SHAPE, **shape})
    settings = GRPOSettings(**{"batch_size": 4, "beta": 0.0, "max_completion_length": NEW, **changes})
    estimate = estimate_memory(config, settings, prompt_length=PROMPT, lora=lora, checkpointing=checkpointing)
    peak = measured(config, settings, lora, checkpointing)
    assert 0.85 < estimate.peak / peak < 1.15, (estimate.peak, peak, str(estimate))


def test_another_family_is_estimated_too():
    config = GPT2Config(vocab_size=900, n_embd=64, n_layer=2, n_head=2, n_positions=64, eos_token_id=None)
    settings = GRPOSettings(batch_size=4, beta=0.1, max_completion_length=NEW)
    estimate = estimate_memory(config, settings, prompt_length=PROMPT)
    assert 0.85 < estimate.peak / measured(config, settings, None, False) < 1.15


def test_the_parts_are_what_can_be_counted_by_hand():
    config = Qwen2Config(**SHAPE, tie_word_embeddings=False)
    size = sum(p.numel() for p in Qwen2ForCausalLM(config).parameters())
    settings = GRPOSettings(batch_size=3, num_generations=4, beta=0.1, max_completion_length=NEW, micro_batch_size=2)
    parts = estimate_memory(config, settings, prompt_length=PROMPT).parts
    assert parts["weights"] == pytest.approx(4 * size, rel=1e-3)
    assert parts["reference"] == parts["weights"]
    assert parts["gradients"] == 4 * size
    assert parts["adam"] == pytest.approx(8 * size, rel=1e-3)
    assert (
        parts["kv_cache"] == 12 * (PROMPT + NEW) * 3 * 2 * 2 * 16 * 4
    )  # B, L + T, layers, k and v, heads, size, bytes
    assert parts["logits"] == 2 * (NEW + 1) * 900 * 4
    none = estimate_memory(config, GRPOSettings(beta=0.0, max_completion_length=NEW), prompt_length=PROMPT)
    assert none.parts["reference"] == 0 and "reference" not in none.phases
    assert "weights" in str(none) and "update" in str(none)


def test_a_half_precision_reference_takes_two_bytes_where_it_is_not_the_embedding():
    config = Qwen2Config(**SHAPE, tie_word_embeddings=True)
    model = Qwen2ForCausalLM(config)
    linear = sum(
        p.numel() for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not model.lm_head
        for p in m.parameters()
    )  # fmt: skip
    settings = GRPOSettings(beta=0.1, autocast="bfloat16", max_completion_length=NEW)
    parts = estimate_memory(config, settings, prompt_length=PROMPT).parts
    assert parts["weights"] - parts["reference"] == 2 * linear


@pytest.mark.parametrize("change", [{"micro_batch_size": 2}, {"max_completion_length": 5}, {"batch_size": 1}])
def test_what_should_lower_the_peak_lowers_it(change):
    config = Qwen2Config(**SHAPE)
    settings = {"batch_size": 4, "beta": 0.0, "max_completion_length": NEW}
    more = estimate_memory(config, GRPOSettings(**settings), prompt_length=PROMPT)
    less = estimate_memory(config, GRPOSettings(**{**settings, **change}), prompt_length=PROMPT)
    assert less.peak < more.peak


def test_estimating_leaves_nothing_behind():
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    used = measure_memory(
        lambda: estimate_memory(
            Qwen2Config(**{**SHAPE, "hidden_size": 1024, "intermediate_size": 4096}),
            GRPOSettings(beta=0.1, max_completion_length=NEW),
            prompt_length=PROMPT,
        )
    )
    assert used.peak < 2e6, "real memory was taken"
    assert torch.rand(1) == expected


def test_too_much_is_refused_and_what_fits_is_told():
    config = Qwen2Config(**SHAPE)
    estimate = estimate_memory(config, GRPOSettings(beta=0.0, max_completion_length=NEW), prompt_length=PROMPT)
    assert "of the 1.0 GB that are free" in check_memory(estimate, MachineMemory("cuda", "GPU", 10**9, 10**9))
    with pytest.raises(MemoryError, match="(?s)does not fit.*micro_batch_size.*checkpointing.*LoRA"):
        check_memory(estimate, MachineMemory("cuda", "GPU", 10**6, 10**9))
    with pytest.raises(ValueError, match="prompt_length must be an integer >= 1"):
        estimate_memory(config, GRPOSettings(), prompt_length=0)
    with pytest.raises(ValueError, match="dtype must be one of"):
        estimate_memory(config, GRPOSettings(), prompt_length=4, dtype="int8")


# ---- the meter itself


def test_live_memory_counts_a_storage_once_and_takes_off_what_is_freed():
    with LiveMemory() as memory:
        x = torch.zeros(1000)
        view = x[10:].view(-1, 2)
        assert memory.now == 4000
        y = x + 1
        assert memory.now == 8000
        del x
        assert memory.now == 8000, "the view keeps it"
        del view
        assert memory.now == 4000
        with memory.phase() as peak:
            y.exp().neg()
        assert (peak, memory.peak, memory.now) == ([12000], 12000, 4000)
        with memory.aside():
            torch.zeros(9000)
        assert memory.peak == 12000


def test_live_memory_is_the_profilers_on_a_training_step():
    def step():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(40, 300), torch.nn.Tanh(), torch.nn.Linear(300, 5))
        model(torch.ones(64, 40)).square().mean().backward()
        return model

    with LiveMemory() as memory:
        step()
    assert memory.peak == pytest.approx(measure_memory(step).peak, rel=0.02)


def test_fake_numbers_are_finite_and_conditions_false():
    with FakeTensorMode(), LiveMemory():
        assert torch.zeros(3).sum().item() == 1.0
        assert int(torch.zeros(3, dtype=torch.long).sum()) == 1
        assert not (torch.zeros(3) == 0).all()
    with LiveMemory():
        assert torch.full((1,), 7.0).item() == 7.0
