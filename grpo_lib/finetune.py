"""One fine-tuning run, three sizes of machine: what to load, what to train on, how to judge; the path is the same.

"tiny"       the tiny policy, two-digit addition           any CPU, no network; what CI runs
"smollm2"    SmolLM2-135M, one-digit addition in words     a laptop's CPU, a package once
"gpu"        Qwen2.5-0.5B-Instruct, GSM8K                  a CUDA GPU of 15 GB or more, the hub
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from grpo_lib._arguments import check_choice, check_count
from grpo_lib.devices import GB, MachineMemory, choose_precision, describe_machine
from grpo_lib.finetune_data import TASKS, FinetuneData, load_task
from grpo_lib.memory_estimate import estimate_memory
from grpo_lib.policies import HUB_MODEL, count_parameters, load_config, load_policy, load_tokenizer
from grpo_lib.presets import PRESETS, preset_for
from grpo_lib.records import GRPOSettings

__all__ = ["SIZES", "FinetunePlan", "choose_size", "plan_run", "run_folder"]

SIZES = ("tiny", "smollm2", "gpu")
ROOM = 10 * GB  # the smallest preset's 9 GB, and what a GPU's libraries take
MODELS = {"tiny": "tiny", "smollm2": "smollm2", "gpu": HUB_MODEL}
TRAINING = {  # beside the preset; all with the KL to the start measured, for the live panel
    "tiny": {"batch_size": 4, "num_generations": 8, "max_completion_length": 24, "micro_batch_size": 16}
    | {"learning_rate": 3e-4, "warmup_steps": 5, "beta": 0.0, "max_grad_norm": 1.0},
    "smollm2": {"learning_rate": 1e-5, "warmup_steps": 3, "beta": 0.0, "max_grad_norm": 1.0},
    "gpu": {"learning_rate": 5e-6, "warmup_steps": 10, "beta": 0.04, "max_grad_norm": 0.1},
}
LORA_RATE = 5e-5  # an adapter takes about ten times the rate of all weights
STEPS = {"tiny": (40, 10), "smollm2": (36, 12), "gpu": (200, 25)}  # of the run, and between two looks


@dataclass(frozen=True)
class FinetunePlan:
    """What a run of one size is made of; `plan_run` makes it, `dataclasses.replace` changes it.

    size: one of `SIZES`. model: a name for `load_policy`. machine: a `MachineMemory`. loading: arguments of
    `load_policy`. settings: a `GRPOSettings`. num_steps, eval_every, checkpoint_every: in steps. keep_last: so many
    checkpoints. task: a `grpo_lib.finetune_data.Task`, with reward and judges. data: a folder with train.jsonl and
    test.jsonl, or None. num_picking, num_test: problems to pick a checkpoint by (None: the task's
    number) and to report on (None: all).
    """

    size: str
    model: str
    machine: MachineMemory
    loading: dict
    settings: GRPOSettings
    num_steps: int
    eval_every: int
    checkpoint_every: int
    keep_last: int
    task: object
    data: str | None = None
    num_picking: int | None = None
    num_test: int | None = 200

    def __str__(self):
        s = self.settings
        learns = "all weights learn" if self.loading["lora"] is None else f"LoRA of rank {self.loading['lora']} learns"
        rows = f"{s.batch_size} prompts x {s.num_generations} completions of at most {s.max_completion_length} tokens"
        return "\n".join(
            [
                f"size {self.size!r}: {self.model} on {self.task.what}",
                f"- {self.machine.name} ({self.machine.kind}, {self.machine.total / GB:.1f} GB)",
                f"- {learns}, learning rate {s.learning_rate:g}, beta {s.beta:g}, autocast {s.autocast or 'off'}",
                f"- a step: {rows}, {s.micro_batch_size or 'all'} at a time; {self.num_steps} steps",
            ]
        )

    def load_config(self):
        return load_config(self.model)

    def choose_precision(self, config):
        """The choice of device and precision with its reasons (`grpo_lib.devices.choose_precision`)."""
        return choose_precision(self.machine, count_parameters(config), lora=self.loading["lora"] is not None)

    def estimate(self, config):
        """The peak of memory (`grpo_lib.memory_estimate.estimate_memory`), before anything is loaded."""
        shape = {name: self.loading[name] for name in ("dtype", "lora", "checkpointing")}
        return estimate_memory(config, self.settings, prompt_length=self.settings.max_prompt_length, **shape)

    def checkpoint_bytes(self, estimate):
        """Bytes of one checkpoint: what learns, Adam's two moments of it, and a reference that is a copy."""
        parts = estimate.parts
        learns = parts["weights"] if self.loading["lora"] is None else parts["gradients"]  # an adapter's are both fp32
        return learns + parts["adam"] + parts["reference"]

    def load(self):
        """Load (model, tokenizer) anew; what a `LivePanel` takes as its model factory."""
        return load_policy(self.model, **self.loading)

    def load_best(self, folder):
        """Load the policy that was kept as the best (`grpo_lib.best_policy`): (model, tokenizer)."""
        best = Path(folder) / "best"
        if self.loading["lora"] is None:
            return load_policy(str(best), **self.loading, local_files_only=True)
        return load_policy(self.model, **{**self.loading, "lora": None}, adapter=best)

    def load_data(self):
        """Load the problems: to train on (those whose prompt is not too long), to pick by, to report on.

        Returns:
            `FinetuneData`; no problem is in two of its parts.
        """
        num_picking = self.task.num_picking if self.num_picking is None else self.num_picking
        train, picking, test = load_task(self.task, self.data, num_picking, self.num_test)
        return FinetuneData.fitting(
            load_tokenizer(self.model), train, picking, test, limit=self.settings.max_prompt_length
        )


def choose_size(size="auto", machine=None):
    """Choose the size of a run: the asked one, or by "auto" that of the machine.

    Args:
        size: "auto" or one of `SIZES`. machine: a `MachineMemory`; None looks at this one.
    Returns:
        "gpu" on a CUDA GPU with room, else "tiny", or what was asked for.
    Raises:
        ValueError: on an unknown size, or "gpu" without a CUDA GPU.

    >>> choose_size("auto", MachineMemory("cpu", "CPU", 16 * 10**9, 16 * 10**9))
    'tiny'
    >>> choose_size("auto", MachineMemory("cuda", "T4", 15 * 10**9, 15.8 * 10**9))
    'gpu'
    """
    check_choice("size", size, ("auto", *SIZES))
    machine = machine or describe_machine()
    if size == "gpu" and machine.kind != "cuda":
        raise ValueError(
            f"size 'gpu' trains half a billion weights and needs a CUDA GPU; this machine has {machine}. On Colab: "
            "Runtime, Change runtime type, GPU. Without one, size='smollm2' trains a real model on a laptop's CPU"
        )
    if size != "auto":
        return size
    return "gpu" if machine.kind == "cuda" and machine.free >= ROOM and machine.total >= 14 * GB else "tiny"


def plan_run(
    size="auto", *, machine=None, model=None, device=None, lora="preset", data=None, num_steps=None, **changes
):
    """Plan a run of one size: the machine's preset, the task, and settings that suit the model.

    Args:
        size: see `choose_size`. machine: a `MachineMemory`; None looks at this one.
        model: another model for `load_policy`. device: another device than the machine's kind.
        lora: "preset", a rank, or None for all weights. data: a folder with train.jsonl and test.jsonl in place of the
            hub's GSM8K. num_steps: of the run. **changes: any field of `GRPOSettings`.
    Returns:
        a `FinetunePlan`.
    Raises:
        ValueError, TypeError: on a size, setting or data that do not fit. MemoryError: on a GPU below 14 GB.

    >>> print(plan_run("tiny", machine=MachineMemory("cpu", "CPU", 16 * 10**9, 16 * 10**9), num_steps=20))
    size 'tiny': tiny on two-digit addition
    - CPU (cpu, 16.0 GB)
    - all weights learn, learning rate 0.0003, beta 0, autocast off
    - a step: 4 prompts x 8 completions of at most 24 tokens, 16 at a time; 20 steps
    """
    machine = machine or describe_machine()
    size = choose_size(size, machine)
    if size == "tiny" and machine.kind != "cpu":
        machine = describe_machine("cpu")  # where a model this small is fastest
    preset = preset_for(machine, all_weights=lora is None) if size == "gpu" else PRESETS["CPU"]
    training = preset.training | TRAINING[size]
    loading = dict(preset.loading)
    if lora not in ("preset", None):  # a half-precision base only under autocast, which scales losses where it must
        check_count("lora", lora, 1, why=", a rank; None trains all weights")
        loading = {"lora": lora, "dtype": training["autocast"] or "float32", "checkpointing": False}
    if size == "gpu" and loading["lora"] is not None:
        training["learning_rate"] = LORA_RATE
    if data is not None and not TASKS[size].reads_files:
        raise ValueError(f"data is a folder of GSM8K's form, for size 'gpu'; the task of size {size!r} is made here")
    steps, every = STEPS[size]
    steps = steps if num_steps is None else check_count("num_steps", num_steps, 1)
    return FinetunePlan(
        size=size,
        model=model or MODELS[size],
        machine=machine,
        loading={**loading, "device": device or machine.kind},
        settings=GRPOSettings(**{**training, "track_kl": True, **changes}),
        num_steps=steps,
        eval_every=min(every, steps),
        checkpoint_every=min(every, steps),
        keep_last=1 if loading["lora"] is None and size != "tiny" else 3,
        task=TASKS[size],
        data=data,
    )


def run_folder(plan, *, on_drive=False):
    """Choose where a run is kept: runs/SIZE beside the notebook, or a folder of Drive; the tiny run's is temporary.

    Args:
        plan: a `FinetunePlan`. on_drive: on Colab, mount Drive (it asks you) and use it: the run outlives the runtime.
    Returns:
        a `Path`; the folder is made when something is saved.
    Raises:
        ValueError: if on_drive is asked for elsewhere than on Colab.

    >>> from types import SimpleNamespace
    >>> run_folder(SimpleNamespace(size="smollm2")).as_posix()
    'runs/smollm2'
    """
    if on_drive:
        try:
            from google.colab import drive
        except ImportError as error:
            raise ValueError("on_drive needs Colab; elsewhere the run is kept beside the notebook") from error
        drive.mount("/content/drive")
        return Path("/content/drive/MyDrive/grpo-book") / plan.size
    return Path(tempfile.mkdtemp(prefix="grpo-tiny-")) if plan.size == "tiny" else Path("runs") / plan.size
