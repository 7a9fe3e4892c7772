"""Seconds by phase of a step."""

import functools
import time
from collections import defaultdict
from contextlib import contextmanager

import torch

__all__ = ["PhaseClock"]


class PhaseClock:
    """Adds up wall seconds by phase; time of an inner phase is taken off the outer one.

    On an accelerator it waits for the device at the end of each phase, so that work is counted where it was asked for.

    >>> clock = PhaseClock(torch.device("cpu"))
    >>> with clock("generate"):
    ...     reward = clock.timed("reward", len)([1, 2])
    >>> sorted(clock.seconds), reward
    (['generate', 'reward'], 2)
    """

    def __init__(self, device):
        self.seconds = defaultdict(float)
        self._wait = (lambda: None) if device.type == "cpu" else torch.get_device_module(device).synchronize
        self._inner = [0.0]  # seconds of inner phases, one entry a nesting level

    @contextmanager
    def __call__(self, phase):
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            self._wait()
            spent = time.perf_counter() - start
            self.seconds[phase] += spent - self._inner.pop()
            self._inner[-1] += spent

    def timed(self, phase, function):
        """Wrap a function so that its calls count as `phase`; it keeps its name."""

        @functools.wraps(function, updated=())
        def wrapper(*args, **kwargs):
            with self(phase):
                return function(*args, **kwargs)

        if not hasattr(function, "__name__"):  # a partial, or an object that can be called
            wrapper.__name__ = type(function).__name__
        return wrapper
