"""Settings for one GPU each, as data: they change only batch, lengths, micro-batches, precision and LoRA.

Sizes are for Qwen2.5-0.5B's shape and leave room on the GPU; `memory_estimate.estimate_memory` predicts each peak.
"""

from dataclasses import dataclass, field, replace

from grpo_lib._arguments import check_choice
from grpo_lib.devices import GB

__all__ = ["PRESETS", "Preset", "preset_for"]


@dataclass(frozen=True)
class Preset:
    """One machine's settings. loading: arguments of `load_policy`; training: of `train_with_grpo`; memory: bytes."""

    name: str
    memory: float
    loading: dict = field(default_factory=dict)
    training: dict = field(default_factory=dict)

    def __str__(self):
        t = self.training
        rows = f"{t['batch_size']} prompts x {t['num_generations']} completions"
        lengths = f"prompts of {t['max_prompt_length']} and completions of {t['max_completion_length']} tokens at most"
        learns = f"LoRA of rank {self.loading['lora']}" if self.loading.get("lora") else "all weights learn"
        precision = f"autocast {t['autocast'] or 'off'}, {t['micro_batch_size']} at a time"
        return f"{self.name}: {rows}, {lengths}; {learns}; {precision}"


def _training(batch_size, num_generations, lengths, micro_batch_size, autocast):
    return {
        "batch_size": batch_size,
        "num_generations": num_generations,
        "max_prompt_length": lengths[0],
        "max_completion_length": lengths[1],
        "micro_batch_size": micro_batch_size,
        "autocast": autocast,
    }


LORA_HALF = {"lora": 16, "dtype": "float16", "checkpointing": False}
ALL_WEIGHTS = {"lora": None, "dtype": "float32", "checkpointing": False}

PRESETS = {
    preset.name: preset
    for preset in (
        Preset("CPU", 8 * GB, ALL_WEIGHTS, _training(4, 6, (96, 12), 8, None)),
        Preset("T4", 15 * GB, LORA_HALF, _training(4, 8, (256, 256), 8, "float16")),
        Preset(
            "T4, all weights", 15 * GB, ALL_WEIGHTS | {"checkpointing": True}, _training(4, 8, (256, 256), 4, "float16")
        ),
        Preset("L4", 24 * GB, ALL_WEIGHTS, _training(8, 8, (256, 256), 8, "bfloat16")),
        Preset("A100 40 GB", 40 * GB, ALL_WEIGHTS, _training(16, 8, (256, 512), 8, "bfloat16")),
        Preset("A100 80 GB", 80 * GB, ALL_WEIGHTS, _training(16, 8, (256, 512), 16, "bfloat16")),
    )
}


def preset_for(machine, *, all_weights=False):
    """Take the preset of a machine: the largest whose GPU is no larger, or that of a CPU.

    A GPU without native bfloat16 gets the T4's, however large it is; a small one with it gets the T4's in bfloat16.

    Args:
        machine: a `grpo_lib.devices.MachineMemory`. all_weights: take one that trains all weights, also on a T4.
    Returns:
        a `Preset`.
    Raises:
        ValueError: on a kind that is none. MemoryError: on a GPU of less than 14 GB.

    >>> from grpo_lib.devices import MachineMemory
    >>> preset_for(MachineMemory("cuda", "T4", 15_000_000_000, 15_800_000_000)).name
    'T4'
    """
    check_choice("machine.kind", machine.kind, ("cuda", "mps", "cpu"))
    if machine.kind != "cuda":
        return PRESETS["CPU"]
    names = ("T4", "L4", "A100 40 GB", "A100 80 GB") if machine.native_bf16 else ("T4",)
    fitting = [name for name in names if PRESETS[name].memory <= 1.06 * machine.total]
    if not fitting:
        raise MemoryError(
            f"{machine} is smaller than the smallest preset's 15 GB: start from PRESETS['T4'], lower micro_batch_size "
            "and the lengths, switch checkpointing on, and look at estimate_memory before you load"
        )
    name = "T4, all weights" if all_weights and fitting[-1] == "T4" else fitting[-1]
    return _in_bfloat16(PRESETS[name]) if machine.native_bf16 else PRESETS[name]


def _in_bfloat16(preset):
    loading, training = (
        {key: "bfloat16" if value == "float16" else value for key, value in part.items()}
        for part in (preset.loading, preset.training)
    )
    return replace(preset, loading=loading, training=training)
