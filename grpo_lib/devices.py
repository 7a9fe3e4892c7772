"""Which device and precision, all weights or an adapter: chosen from what the machine is, with the reasons."""

import os
from dataclasses import dataclass

import torch

from grpo_lib._arguments import check_choice, check_count

__all__ = ["Choice", "MachineMemory", "choose_precision", "describe_machine"]

GB = 1e9
FULL_BYTES = 16  # a parameter that learns: fp32 weight 4, gradient 4, Adam's two moments 8
ROOM = 0.6  # share of the free memory that weights and optimizer may take; the rest is for activations and logits


@dataclass(frozen=True)
class MachineMemory:
    """What is chosen from. kind: "cuda", "mps" or "cpu"; free, total: bytes; native_bf16: multiplies it in hardware."""

    kind: str
    name: str
    free: int
    total: int
    native_bf16: bool = False

    def __str__(self):
        return f"{self.name} ({self.kind}, {self.free / GB:.1f} of {self.total / GB:.1f} GB free)"


@dataclass(frozen=True)
class Choice:
    """How to load and train. dtype: of the weights; autocast: see `GRPOSettings`; lora: a rank, or None; why: words."""

    device: str
    dtype: str
    autocast: str | None
    lora: int | None
    why: tuple

    def __str__(self):
        learns = "all weights learn" if self.lora is None else f"LoRA of rank {self.lora} learns"
        head = f"{self.device}: {self.dtype} weights, autocast {self.autocast or 'off'}, {learns}"
        return "\n".join([head, *(f"- {reason}" for reason in self.why)])


def describe_machine(device=None):
    """Look at the real machine: the given device, or the best there is.

    Args:
        device: "cuda", "mps", "cpu" or None.
    Returns:
        a `MachineMemory`.
    Raises:
        ValueError: if that device is not there; the message says which are.

    >>> describe_machine("cpu").kind
    'cpu'
    """
    there = [name for name, here in _available().items() if here]
    try:
        kind = torch.device(device).type if device is not None else there[0]
    except (RuntimeError, TypeError):  # torch lists names of its own, of which most are nowhere
        kind = None
    if kind not in there:
        raise ValueError(
            f"device {str(device)!r} is not there; this machine has: {', '.join(there)}. On Colab: Runtime, Change "
            "runtime type, GPU. Without one, load_policy('tiny') and load_policy('smollm2') train on a CPU"
        )
    if kind == "cuda":
        free, total = torch.cuda.mem_get_info()
        properties = torch.cuda.get_device_properties(0)
        # torch.cuda.is_bf16_supported() is True on a T4 too, where it is emulated and slow
        return MachineMemory(kind, properties.name, free, total, native_bf16=properties.major >= 8)
    free, total = _host_memory()
    return MachineMemory(kind, "Apple GPU" if kind == "mps" else "CPU", free, total)


def choose_precision(machine, num_parameters, *, lora="auto", rank=16):
    """Choose device, precision and what learns for a model of a size. A pure function: any machine can be asked about.

        all weights learn:  16 bytes a parameter (fp32 weight, gradient, Adam)    if that is <= 60 % of what is free
        LoRA:               2 bytes a parameter on a GPU (half precision), 4 elsewhere

    What learns is always fp32. A GPU that multiplies bfloat16 natively gets autocast to it; an older one (a T4) gets
    float16 with scaled losses, and LoRA, since float16's range is short.

    Args:
        machine: a `MachineMemory`. num_parameters: of the model. rank: of LoRA, where it is chosen.
        lora: "auto" chooses; True or False is taken as it is.
    Returns:
        a `Choice`.
    Raises:
        MemoryError: if it does not fit; the message says what would.
        ValueError: on an unknown `lora`.

    >>> t4 = MachineMemory("cuda", "T4", free=15_000_000_000, total=15_800_000_000)
    >>> choose_precision(t4, 494_000_000).dtype, choose_precision(t4, 494_000_000).lora
    ('float16', 16)
    """
    check_count("num_parameters", num_parameters, 1)
    check_choice("lora", lora, ("auto", True, False))
    gpu = machine.kind == "cuda"
    half = ("bfloat16" if machine.native_bf16 else "float16") if gpu else None
    full = FULL_BYTES * num_parameters
    fits = full <= ROOM * machine.free
    why = [f"{machine} and {num_parameters / 1e6:,.1f} M parameters"]
    if lora == "auto":
        lora = not fits or (half == "float16" and num_parameters > 200e6)
    dtype = half if lora and half else "float32"
    _check_fits(machine, num_parameters, full, dtype, lora)
    why.append(
        f"training all weights takes {full / GB:.1f} GB before any activation (fp32 weight, gradient, Adam: "
        f"{FULL_BYTES} bytes a parameter), {full / machine.free:.0%} of what is free"
    )
    if lora:
        why.append("only the adapter learns, in fp32; the model beneath it is stored in " + (half or "float32"))
    if gpu:
        native = "natively" if machine.native_bf16 else "not natively, so matrix products are float16, losses scaled"
        why.append(f"this GPU multiplies bfloat16 {native}")
    else:
        why.append(f"on {machine.kind} half precision is not reliably faster: everything is float32")
    return Choice(machine.kind, dtype, half, check_count("rank", rank, 1) if lora else None, tuple(why))


def _check_fits(machine, num_parameters, full, dtype, lora):
    need = num_parameters * (2 if dtype != "float32" else 4) if lora else full
    if need <= machine.free:
        return
    other = "a smaller model: load_policy('smollm2') has 135 M parameters, load_policy('tiny') 0.1 M"
    raise MemoryError(
        f"{machine} is too small: {'the frozen model' if lora else 'weights, gradients and Adam'} alone need "
        f"{need / GB:.1f} GB. Take {other if lora else 'LoRA (lora=16), or ' + other}, or a larger GPU"
    )


def _available():
    return {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}


def _host_memory():
    """(free, total) bytes of the machine's own memory; Linux tells what is available, others their size."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file)
        return tuple(int(rows[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
    except OSError:
        pass
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        total = int(8 * GB)
    return total, total
