"""How much memory a piece of tensor code takes at its peak, byte by byte, from torch's own profiler."""

import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

__all__ = ["MemoryUse", "measure_memory"]

CPU = 0  # the profiler's number for it


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of tensors beyond those that were there before. peak: at the worst moment; kept: at the end."""

    peak: int
    kept: int


def measure_memory(function):
    """Call a function and say how many bytes of tensors it allocated on the CPU, at the peak and at the end.

        peak = max over time of (bytes allocated since the start and not freed yet)

    torch's profiler reports each allocation, also those inside an operation (`logsumexp` makes a copy of its input
    that no line of Python shows). The bytes depend on shapes and on the version of torch, not on the machine's load,
    so the same code gives the same number. Tensors made before are not counted, nor is freeing them. What the
    function returns, and gradients it leaves behind, is in `kept`.

    On a GPU read `torch.cuda.max_memory_allocated()` instead.

    Args:
        function: takes no argument; called once.
    Returns:
        a `MemoryUse`.
    Raises:
        TypeError: if what is given cannot be called. RuntimeError: while a profiler runs already, as inside a function
        that is being measured: torch has one at a time. An error of the function is passed on.

    >>> import torch
    >>> x = torch.zeros(250)  # 1000 bytes
    >>> measure_memory(lambda: x.exp().neg())  # exp(x) lives until -exp(x) is made
    MemoryUse(peak=2000, kept=1000)
    """
    if not callable(function):
        raise TypeError(f"measure_memory takes a function of no argument, such as lambda: f(x); got {function!r}")
    if torch.autograd._profiler_enabled():  # a second one would take the process down when the first is stopped
        raise RuntimeError(
            "a profiler is running already, and torch has one at a time: call measure_memory outside of it, and not "
            "inside a function that is being measured"
        )
    profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    with _quiet_stderr():
        profiler.start()
    try:
        result = function()  # named, so that it lives until the profiler stops
    finally:
        with _quiet_stderr():
            profiler.stop()
    del result
    return _use(_memory_events(profiler))


def _memory_events(profiler):
    """[(address, bytes)] in the order of time; bytes below 0 for memory given back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    events = [event for event in trace if event.get("name") == "[memory]" and event["args"]["Device Type"] == CPU]
    events.sort(key=lambda event: float(event["ts"]))
    return [(event["args"]["Addr"], event["args"]["Bytes"]) for event in events]


def _use(events):
    """Add the events up; what is freed but was allocated before the first of them is left out."""
    live, total, peak = {}, 0, 0
    for address, size in events:
        if size > 0:
            live[address] = size
            total += size
            peak = max(peak, total)
        else:
            total -= live.pop(address, 0)
    return MemoryUse(peak, total)


@contextmanager
def _quiet_stderr():
    """Some versions of the profiler write a line straight to the process's stderr whenever they start or stop."""
    try:
        saved = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
