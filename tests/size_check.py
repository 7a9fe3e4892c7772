"""Take steps of GRPO on a model of Qwen2.5-0.5B's shape, random weights; compare peak memory with the estimate.

    python tests/size_check.py                                        # CPU, some minutes, 10 to 20 GB
    python tests/size_check.py --device cuda --autocast bfloat16 --rows 32 --new-tokens 256 --steps 3

Not part of the test suite: it is too large for it. It fails if the estimate is more than 15 % off.
"""

import argparse
import itertools
import resource
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from grpo_lib.devices import GB, describe_machine
from grpo_lib.live_memory import LiveMemory
from grpo_lib.memory_estimate import check_memory, estimate_memory
from grpo_lib.models import build_tiny_tokenizer, no_progress_bar
from grpo_lib.policies import load_policy
from grpo_lib.run import GRPORun, GRPOSettings
from grpo_lib.tasks import load_addition

CONFIG = Qwen2Config(
    vocab_size=151_936,
    hidden_size=896,
    intermediate_size=4864,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    max_position_embeddings=32_768,
    tie_word_embeddings=True,
    eos_token_id=None,
)
PROMPT_TOKENS = 15  # of load_addition's prompts


def save_random_weights(folder):
    """What the hub would send: bfloat16 safetensors, and a tokenizer (the tiny policy's: its ids fit)."""
    torch.manual_seed(0)
    with no_progress_bar():
        AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).save_pretrained(folder)
    tokenizer = build_tiny_tokenizer()
    tokenizer.eos_token = None  # nothing ends: every completion is as long as it may be
    tokenizer.save_pretrained(folder)


def alternate(prompts, completions, answer):
    return [float(i % 2) for i in range(len(completions))]


def take_steps(run, num_steps, memory):
    for record in itertools.islice(run, num_steps):
        spent = sum(record.seconds.values())
        tokens = record.completion_length * len(run.rollout)
        phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in record.seconds.items())
        print(
            f"step {record.step}: {spent:.1f} s ({phases}), {tokens / record.seconds['generate']:.0f} tokens/s sampled"
        )
        print(
            f"  grad norm {record.grad_norm:.3g}, KL {record.kl}, live peak so far {memory() / GB:.2f} GB", flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--autocast", choices=["bfloat16", "float16"])
    parser.add_argument("--lora", type=int)
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], default="float32")
    parser.add_argument("--no-checkpointing", action="store_true")
    parser.add_argument("--beta", type=float, default=0.0)
    parser.add_argument("--rows", type=int, default=8, help="completions a step, four to a prompt")
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--steps", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    settings = GRPOSettings(
        batch_size=options.rows // 4,
        max_completion_length=options.new_tokens,
        micro_batch_size=options.micro_batch,
        beta=options.beta,
        autocast=options.autocast,
        learning_rate=1e-6,
    )
    checkpointing = not options.no_checkpointing
    shape = {"dtype": options.dtype, "lora": options.lora, "checkpointing": checkpointing}
    started = time.time()
    estimate = estimate_memory(CONFIG, settings, prompt_length=PROMPT_TOKENS, **shape)
    print(f"{estimate}\nestimated in {time.time() - started:.0f} s", flush=True)
    print(check_memory(estimate, describe_machine(options.device)))
    with tempfile.TemporaryDirectory() as folder:
        save_random_weights(Path(folder))
        model, tokenizer = load_policy(folder, device=options.device, local_files_only=True, quiet=False, **shape)
    cuda = options.device.startswith("cuda")
    live = LiveMemory()
    with nullcontext() if cuda else live:  # it looks at each operation, which would slow a GPU down
        live.count(list(model.parameters()), list(model.buffers()))
        run = GRPORun(model, tokenizer, load_addition("train")[:64], settings, reward_function=alternate)
        take_steps(run, options.steps, torch.cuda.max_memory_allocated if cuda else lambda: live.peak)
    peak = torch.cuda.max_memory_allocated() if cuda else live.peak
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"estimate {estimate.peak / GB:.2f} GB, measured {peak / GB:.2f} GB, ratio {estimate.peak / peak:.3f}")
    print(f"the process took {process / GB:.2f} GB at its peak")
    if not cuda and process > 20 * GB:
        sys.exit("the process took more than the 20 GB it has to do with")
    sys.exit(0 if 0.85 < estimate.peak / peak < 1.15 else "the estimate is more than 15 % off")


if __name__ == "__main__":
    main()
