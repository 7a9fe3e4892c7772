"""Random streams that belong to one run: what else draws numbers in a notebook does not change the run's samples."""

from contextlib import contextmanager

import torch

__all__ = ["RandomStreams"]


class RandomStreams:
    """The random states of the CPU and, where there is one, of the accelerator a run samples on.

    Args:
        device: where the model lives.
        seed: of both streams.
    Attributes:
        states: dict of ByteTensors, to be saved and set.

    >>> streams = RandomStreams(torch.device("cpu"), seed=0)
    >>> with streams.borrowed():
    ...     first = torch.rand(1)
    >>> bool(first == torch.rand(1, generator=torch.Generator().manual_seed(0)))
    True
    """

    def __init__(self, device, seed):
        self._modules = {"cpu": torch}
        if device.type != "cpu":
            self._modules[device.type] = torch.get_device_module(device)
        before = self._read()
        for module in self._modules.values():
            module.manual_seed(seed)
        self.states = self._read()
        self._write(before)

    @contextmanager
    def borrowed(self):
        """Let torch draw from these streams; then give torch its own back. A block that raises uses nothing up."""
        before = self._read()
        self._write(self.states)
        try:
            yield
            self.states = self._read()
        finally:
            self._write(before)

    def _read(self):
        return {name: module.get_rng_state() for name, module in self._modules.items()}

    def _write(self, states):
        for name, module in self._modules.items():
            module.set_rng_state(states[name])
