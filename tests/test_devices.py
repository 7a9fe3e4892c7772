"""The picker of device and precision on described machines, and the presets as data."""

import pytest
import torch
from transformers import Qwen2Config

from grpo_lib.devices import GB, MachineMemory, choose_precision, describe_machine
from grpo_lib.memory_estimate import MemoryEstimate, check_memory
from grpo_lib.presets import PRESETS, preset_for
from grpo_lib.records import GRPOSettings

QWEN = 494_032_768
T4 = MachineMemory("cuda", "Tesla T4", 15_500_000_000, 15_800_000_000)
L4 = MachineMemory("cuda", "L4", 23_500_000_000, 23_800_000_000, native_bf16=True)
A100_40 = MachineMemory("cuda", "A100", 42_000_000_000, 42_400_000_000, native_bf16=True)
A100_80 = MachineMemory("cuda", "A100", 84_000_000_000, 85_000_000_000, native_bf16=True)
MPS = MachineMemory("mps", "Apple GPU", 16_000_000_000, 16_000_000_000)
CPU = MachineMemory("cpu", "CPU", 20_000_000_000, 24_000_000_000)


@pytest.mark.parametrize(
    ("machine", "size", "chosen"),
    [
        (T4, QWEN, ("cuda", "float16", "float16", 16)),
        (T4, 135_000_000, ("cuda", "float32", "float16", None)),
        (L4, QWEN, ("cuda", "float32", "bfloat16", None)),
        (A100_40, QWEN, ("cuda", "float32", "bfloat16", None)),
        (L4, 3_000_000_000, ("cuda", "bfloat16", "bfloat16", 16)),
        (MPS, 135_000_000, ("mps", "float32", None, None)),
        (CPU, 102_592, ("cpu", "float32", None, None)),
        (CPU, 135_000_000, ("cpu", "float32", None, None)),
        (CPU, 1_500_000_000, ("cpu", "float32", None, 16)),
    ],
)
def test_what_is_chosen(machine, size, chosen):
    choice = choose_precision(machine, size)
    assert (choice.device, choice.dtype, choice.autocast, choice.lora) == chosen
    assert machine.name in str(choice) and f"{size / 1e6:,.1f} M" in str(choice)
    assert len(choice.why) >= 3


def test_what_learns_is_never_half_precision():
    for machine in (T4, L4, MPS, CPU):
        for size in (10_000, 135_000_000, QWEN):
            choice = choose_precision(machine, size)
            assert choice.lora is not None or choice.dtype == "float32"


def test_a_wish_is_granted_and_reasons_name_the_t4s_gap():
    assert choose_precision(T4, QWEN, lora=False).lora is None
    assert choose_precision(L4, QWEN, lora=True, rank=8).lora == 8
    assert "not natively, so matrix products are float16" in str(choose_precision(T4, QWEN))
    assert "50% of what is free" in str(choose_precision(MachineMemory("cuda", "x", 32 * 10**9, 1, True), 10**9))


def test_too_little_memory_says_what_would_fit():
    with pytest.raises(MemoryError, match=r"weights, gradients and Adam alone need 24.0 GB.*LoRA \(lora=16\)"):
        choose_precision(T4, 1_500_000_000, lora=False)
    with pytest.raises(MemoryError, match="the frozen model alone need 140.0 GB.*smollm2.*tiny"):
        choose_precision(A100_80, 70_000_000_000)
    with pytest.raises(ValueError, match="lora must be one of 'auto', True, False"):
        choose_precision(T4, QWEN, lora=16.5)


def test_this_machine_is_described():
    machine = describe_machine("cpu")
    assert machine.kind == "cpu" and not machine.native_bf16
    assert 10**8 < machine.free <= machine.total
    assert describe_machine(torch.device("cpu")).kind == "cpu"
    assert describe_machine().kind in ("cpu", "mps", "cuda")


def test_a_t4_is_described_without_native_bfloat16(monkeypatch):
    properties = type("Properties", (), {"name": "Tesla T4", "major": 7})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (15 * 10**9, 16 * 10**9))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: properties)
    assert describe_machine() == MachineMemory("cuda", "Tesla T4", 15 * 10**9, 16 * 10**9, native_bf16=False)
    properties.major = 8
    assert describe_machine("cuda").native_bf16


def test_a_device_that_is_not_there_is_named_with_those_that_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device 'cuda' is not there; this machine has: .*cpu.*smollm2"):
        describe_machine("cuda")


# ---- presets


def test_presets_change_only_batch_lengths_micro_batches_precision_and_lora():
    for preset in PRESETS.values():
        assert preset.loading.keys() == {"lora", "dtype", "checkpointing"}
        sizes = {"batch_size", "num_generations", "max_prompt_length", "max_completion_length", "micro_batch_size"}
        assert preset.training.keys() == sizes | {"autocast"}
        GRPOSettings(**preset.training)
        assert preset.name in str(preset)


@pytest.mark.parametrize(
    ("machine", "name"),
    [(T4, "T4"), (L4, "L4"), (A100_40, "A100 40 GB"), (A100_80, "A100 80 GB"), (MPS, "CPU"), (CPU, "CPU")],
)
def test_each_machine_has_its_preset_and_it_agrees_with_the_picker(machine, name):
    preset = preset_for(machine)
    assert preset.name == name
    if machine.kind == "cuda":
        choice = choose_precision(machine, QWEN)
        assert (preset.loading["dtype"], preset.loading["lora"]) == (choice.dtype, choice.lora)
        assert preset.training["autocast"] == choice.autocast


def test_a_large_old_gpu_gets_the_t4s_and_a_small_one_is_refused():
    assert preset_for(MachineMemory("cuda", "V100", 31 * 10**9, 32 * 10**9)).name == "T4"
    with pytest.raises(MemoryError, match="smaller than the smallest preset's 15 GB"):
        preset_for(MachineMemory("cuda", "P4", 8 * 10**9, 8 * 10**9))


@pytest.mark.parametrize("name", ["T4", "T4, all weights", "L4", "A100 40 GB"])
def test_a_presets_peak_leaves_room_on_its_gpu(name):
    """Four of the 24 layers; the other twenty are added by hand, so this is a bound and not the estimate."""
    from grpo_lib.memory_estimate import estimate_memory

    preset = PRESETS[name]
    if preset.loading["lora"]:
        pytest.importorskip("peft")
    settings = GRPOSettings(**preset.training, beta=0.04)
    shape = {"vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14}
    peaks = []
    for layers in (2, 4):
        config = Qwen2Config(**shape, num_key_value_heads=2, num_hidden_layers=layers, tie_word_embeddings=True)
        options = {**preset.loading, "prompt_length": preset.training["max_prompt_length"]}
        peaks.append(estimate_memory(config, settings, **options).peak)
    assert peaks[1] + 10 * (peaks[1] - peaks[0]) < 0.9 * preset.memory


@pytest.mark.parametrize("kind", ["cuda", "cpu", "mps"])
def test_a_machine_without_any_room_is_refused_in_words(kind):
    full = MachineMemory(kind, "full", free=0, total=int(24 * GB), native_bf16=True)
    for lora in ("auto", True, False):
        with pytest.raises(MemoryError, match="0.0 of 24.0 GB free. is too small"):
            choose_precision(full, 494_000_000, lora=lora)
    with pytest.raises(MemoryError, match="far more than the 0.0 GB that are free"):
        check_memory(MemoryEstimate(10**9, {"weights": 10**9}, {"update": 10**9}), full)


def test_a_device_that_torch_does_not_know_is_refused_as_one_that_is_not_there():
    for device in ("gpu", "cuda;0", 7):
        with pytest.raises(ValueError, match="is not there; this machine has"):
            describe_machine(device)
