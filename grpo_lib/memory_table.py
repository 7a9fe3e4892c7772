"""What a fine-tuning run takes on each kind of machine, predicted; nothing of it needs the machine.

    python -m grpo_lib.memory_table      # all rows again, about two minutes on one core

The rows are `plan_run`'s settings on machines described by their size, and models described by their shape.
"""

import json
import sys
from functools import lru_cache
from importlib import resources

from transformers import LlamaConfig, Qwen2Config

from grpo_lib.devices import GB, MachineMemory
from grpo_lib.finetune import plan_run
from grpo_lib.models import tiny_config

__all__ = ["MACHINES", "SHAPES", "load_memory_table", "predict_row"]

MACHINES = {  # name -> (size of the run, the machine)
    "any CPU": ("tiny", MachineMemory("cpu", "CPU", int(8 * GB), int(8 * GB))),
    "laptop": ("smollm2", MachineMemory("cpu", "CPU", int(8 * GB), int(8 * GB))),
    "T4": ("gpu", MachineMemory("cuda", "T4", int(15 * GB), int(15.8 * GB))),
    "L4": ("gpu", MachineMemory("cuda", "L4", int(23.5 * GB), int(24 * GB), native_bf16=True)),
    "A100 40 GB": ("gpu", MachineMemory("cuda", "A100", int(42 * GB), int(42.4 * GB), native_bf16=True)),
    "A100 80 GB": ("gpu", MachineMemory("cuda", "A100", int(84 * GB), int(85 * GB), native_bf16=True)),
}


def _shapes():
    qwen = dict(
        hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, vocab_size=151936
    )
    smol = dict(hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, vocab_size=49152)
    return {
        "tiny": tiny_config(),
        "smollm2": LlamaConfig(**smol, num_key_value_heads=3, tie_word_embeddings=True, max_position_embeddings=8192),
        "gpu": Qwen2Config(**qwen, num_key_value_heads=2, tie_word_embeddings=True, max_position_embeddings=32768),
    }


SHAPES = _shapes()  # the configurations of the tiny policy, SmolLM2-135M and Qwen2.5-0.5B, as far as memory asks


def predict_row(name):
    """Predict one machine's row.

    Args:
        name: a key of `MACHINES`.
    Returns:
        a dict: "size", "learns" ("all weights" or "LoRA 16"), "autocast", "rows" (completions a step), "lengths" (the
        most tokens of a prompt and of a completion), "micro_batch", and in GB: "free", "parts" (a dict), "peak" and
        "checkpoint".

    >>> row = predict_row("any CPU")
    >>> row["learns"], row["rows"], row["peak"] < 0.1
    ('all weights', 32, True)
    """
    plan = _plan(name)
    estimate = plan.estimate(SHAPES[plan.size])
    return {
        **_asked(plan),
        "parts": {part: round(bytes_ / GB, 4) for part, bytes_ in estimate.parts.items()},
        "peak": round(estimate.peak / GB, 4),
        "checkpoint": round(plan.checkpoint_bytes(estimate) / GB, 4),
    }


def _plan(name):
    size, machine = MACHINES[name]
    return plan_run(size, machine=machine)


def _asked(plan):
    settings, rank = plan.settings, plan.loading["lora"]
    return {
        "size": plan.size,
        "learns": "all weights" if rank is None else f"LoRA {rank}",
        "autocast": settings.autocast or "off",
        "rows": settings.batch_size * settings.num_generations,
        "lengths": [settings.max_prompt_length, settings.max_completion_length],
        "micro_batch": settings.micro_batch_size,
        "free": plan.machine.free / GB,
    }


@lru_cache
def load_memory_table():
    """Read the stored rows: a dict from a machine's name to what `predict_row` said.

    >>> list(load_memory_table())
    ['any CPU', 'laptop', 'T4', 'L4', 'A100 40 GB', 'A100 80 GB']
    """
    return json.loads((resources.files("grpo_lib") / "data" / "memory_table.json").read_text(encoding="utf-8"))


def main(path=None):
    """Predict all rows and store them."""
    path = path or resources.files("grpo_lib") / "data" / "memory_table.json"
    table = {}
    for name in MACHINES:
        table[name] = predict_row(name)
        print(f"{name}: {table[name]['peak']:.1f} GB", flush=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(table, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
