"""The command for more than one GPU: a model, a task and settings of this library on TRL's `GRPOTrainer`.

    python -m grpo_lib.scale_out --model tiny --out runs/alone --steps 20
    torchrun --nproc_per_node 2 -m grpo_lib.scale_out --model tiny --out runs/two --steps 20 --checkpoint-every 5
    torchrun --nproc_per_node 2 -m grpo_lib.scale_out --model tiny --out runs/two --steps 20 --resume
    accelerate launch --num_processes 1 -m grpo_lib.scale_out --model tiny --out runs/accelerated --steps 20

batch_size is that of each process. What the settings cannot say goes to TRL: --trl use_vllm=true, and so on.
"""

import argparse
import importlib
import inspect
import json
import sys
import time
from dataclasses import fields
from pathlib import Path

from grpo_lib.processes import ProcessStopped, launched_processes, process_rank, visible_gpus
from grpo_lib.record_files import FILE, load_records
from grpo_lib.records import GRPOSettings
from grpo_lib.trl_checkpoints import resume_advice
from grpo_lib.trl_run import train_with_trl
from grpo_lib.trl_settings import import_trl

__all__ = ["main", "parse_command", "train_with_trl"]

TASK_SIZES = {"addition": "tiny", "words": "smollm2", "gsm8k": "gpu"}
MAIN = {  # the settings with a flag of their own, and what is read
    "batch_size": int,
    "num_generations": int,
    "max_completion_length": int,
    "beta": float,
    "learning_rate": float,
    "warmup_steps": int,
    "schedule": str,
    "schedule_steps": int,
    "updates_per_rollout": int,
    "loss_type": str,
    "scale": str,
    "temperature": float,
    "max_grad_norm": float,
    "micro_batch_size": int,
    "autocast": str,
    "max_prompt_length": int,
    "seed": int,
}

OWN = set(inspect.signature(train_with_trl).parameters) - {"trl_options"}  # what the command itself decides


def parse_command(arguments=None):
    """Read the command line.

    Args:
        arguments: a list of strings; None takes those of the command.
    Returns:
        (options, settings): what argparse found, with `trl` as a dict, and a `GRPOSettings`.
    Raises:
        SystemExit: on an unknown flag, after saying which there are. ValueError, TypeError: on a setting out of range.

    >>> options, settings = parse_command(["--out", "runs/a", "--steps", "5", "--beta", "0.04", "--trl", "bf16=true"])
    >>> options.task, settings.beta, settings.batch_size, options.trl
    ('addition', 0.04, 4, {'bf16': True})
    """
    parser = argparse.ArgumentParser("python -m grpo_lib.scale_out", description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="tiny", help="tiny, smollm2, a name of the hub, or a folder")
    parser.add_argument("--task", choices=TASK_SIZES, help="default: the model's own, gsm8k for one of the hub")
    parser.add_argument("--data", help="a folder with train.jsonl, for gsm8k without the hub")
    parser.add_argument("--reward", metavar="MODULE:FUNCTION", help="a reward function in place of the task's")
    parser.add_argument("--lora", type=int, metavar="RANK", help="train an adapter of this rank, not all weights")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="of the loaded weights")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the run's folder")
    parser.add_argument("--steps", type=int, default=20, help="of the whole run")
    parser.add_argument("--checkpoint-every", type=int, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="take up the newest complete checkpoint in the folder")
    parser.add_argument("--log-every", type=int, default=5, metavar="STEPS")
    parser.add_argument("--settings", metavar="FILE", help="a JSON file with fields of GRPOSettings; flags go first")
    parser.add_argument("--trl", action="append", default=[], metavar="NAME=VALUE", help="a field of trl.GRPOConfig")
    for name, kind in MAIN.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"GRPOSettings.{name}")
    options = parser.parse_args(arguments)
    options.trl = dict(_option(text) for text in options.trl)
    options.task = options.task or {"tiny": "addition", "smollm2": "words"}.get(options.model, "gsm8k")
    return options, _settings(options)


def load_run(options):
    """Load what a command names.

    Returns:
        (model, tokenizer, train_data, reward_function), the model on the CPU: TRL moves it to the process's GPU.
    """
    from grpo_lib.finetune_data import TASKS
    from grpo_lib.policies import load_policy

    task = TASKS[TASK_SIZES[options.task]]
    if options.data is not None and not task.reads_files:
        raise ValueError(f"--data is a folder of GSM8K's form; the problems of {options.task!r} are made here")
    path = {} if options.data is None else {"path": f"{options.data}/train.jsonl"}
    model, tokenizer = load_policy(options.model, device="cpu", dtype=options.dtype, lora=options.lora)
    reward = task.reward if options.reward is None else _named_function(options.reward)
    return model, tokenizer, task.load("train", **path), reward


def main(arguments=None):
    """Run the command.

    Returns:
        its exit status: 0; 1 where another process is gone; 2 for a command that cannot work; 130 after Ctrl-C.
    """
    try:
        options, settings = parse_command(arguments)
        import_trl()
        launched_processes(gpus=visible_gpus(options.trl))  # before a model is loaded
        model, tokenizer, train_data, reward = load_run(options)
    except (ValueError, ImportError, OSError, RuntimeError) as error:
        print(f"python -m grpo_lib.scale_out: error: {error}", file=sys.stderr, flush=True)
        return 2
    try:
        train_with_trl(
            model,
            tokenizer,
            train_data,
            settings,
            num_steps=options.steps,
            reward_function=reward,
            output_dir=options.out,
            resume=options.resume,
            checkpoint_every=options.checkpoint_every,
            log_every=options.log_every,
            **options.trl,
        )
    except ProcessStopped as stopped:
        print(f"STOPPED: {stopped}", file=sys.stderr, flush=True)
        time.sleep(1)  # the launcher names the first to end as the cause: let it see the one that is gone
        return 1
    except KeyboardInterrupt:
        folder = Path(options.out)
        steps = len(load_records(folder)) if (folder / FILE).is_file() else 0
        advice = resume_advice(folder, steps)
        print(f"STOPPED: process {process_rank()} was interrupted. {advice}", file=sys.stderr, flush=True)
        return 130
    from accelerate import PartialState

    PartialState().destroy_process_group()
    return 0


def _settings(options):
    from grpo_lib.finetune import TRAINING

    told = {}
    if options.settings is not None:
        with open(options.settings, encoding="utf-8") as file:
            try:
                told = json.load(file)
            except ValueError as error:
                raise ValueError(f"{options.settings} is no JSON: {error}") from error
        if not isinstance(told, dict):
            raise ValueError(f'{options.settings} must hold an object, such as {{"beta": 0.04}}, got {told!r:.80}')
        unknown = sorted(set(told) - {field.name for field in fields(GRPOSettings)})
        if unknown:
            raise ValueError(f"{options.settings}: GRPOSettings has no {', '.join(unknown)}")
    flags = {name: getattr(options, name) for name in MAIN if getattr(options, name) is not None}
    found = {**TRAINING[TASK_SIZES[options.task]], **told, **flags}
    if found.get("schedule", "constant") != "constant":
        found.setdefault("schedule_steps", options.steps)  # as in train_with_grpo: a decay ends with the run
    return GRPOSettings(**found)


def _option(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--trl takes NAME=VALUE, got {text!r}")
    if name in OWN:
        raise ValueError(f"--trl {text}: {name} has a flag of its own, see --help")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value  # a word, such as colocate


def _named_function(text):
    module, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"--reward takes MODULE:FUNCTION, such as my_rewards:shaped, got {text!r}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--reward {text}: {error}; run the command in the folder that holds {module}.py") from error


if __name__ == "__main__":
    sys.exit(main())
