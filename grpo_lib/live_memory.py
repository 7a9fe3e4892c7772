"""Live tensor bytes, operation by operation; on fake tensors too, which take no memory and compute nothing."""

import weakref
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

__all__ = ["LiveMemory"]

READ_A_NUMBER = torch.ops.aten._local_scalar_dense.default


class LiveMemory(TorchDispatchMode):
    """Adds up the storages that are alive while the block runs, and keeps the largest sum.

        peak = max over operations of the bytes of all storages that are alive after it

    A storage counts once, however many tensors look into it, from the operation that made it until it is freed. Tensors
    made before the block count from their first use, or from `count`. What an operation takes only for itself, inside,
    is not seen.

    Under `FakeTensorMode` there is no number to read: `.item()` gives 1.0 or 1, and a condition is False.

    >>> with LiveMemory() as memory:
    ...     x = torch.zeros(250)
    ...     y = x.exp().neg()  # exp(x) lives until -exp(x) is made
    >>> memory.peak, memory.now
    (3000, 2000)
    """

    def __init__(self):
        super().__init__()
        self._alive = {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is READ_A_NUMBER and isinstance(args[0], torch._subclasses.FakeTensor):
            dtype = args[0].dtype
            return False if dtype == torch.bool else 1.0 if dtype.is_floating_point else 1
        out = function(*args, **(kwargs or {}))
        self.count(out)
        return out

    def count(self, *trees):
        """Count the tensors in these values, nested as they may be, as alive from now on. Returns their bytes."""
        size = 0
        for value in tree_iter(trees):
            if isinstance(value, torch.Tensor):
                size += self._count(value.untyped_storage())
        self.peak = max(self.peak, self.now)
        return size

    @contextmanager
    def phase(self):
        """A block with a peak of its own: yields a list that holds it, in bytes, when the block has ended."""
        before, self.peak, found = self.peak, self.now, []
        try:
            yield found
        finally:
            found.append(self.peak)
            self.peak = max(before, self.peak)

    @contextmanager
    def aside(self):
        """A block whose peak is not kept: only what is still alive after it counts."""
        before = self.peak
        yield
        self.peak = max(before, self.now)

    def _count(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key in self._alive:
            return 0
        self.now += size
        self._alive[key] = weakref.ref(storage, lambda _: self._free(key, size))
        return size

    def _free(self, key, size):
        if self._alive.pop(key, None) is not None:
            self.now -= size
