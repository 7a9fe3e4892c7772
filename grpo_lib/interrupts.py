"""The stop button of a notebook while no cell runs.

A kernel's interrupt is the signal SIGINT. ipykernel ignores it between two cells, so it would never reach a step that
is taken in the background. Where something else listens (a running cell, a script) the signal is left to it.
"""

import math
import signal
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

__all__ = ["ignore_again", "interruptible"]

AGAIN = 1.0  # seconds after which another interrupt of the same block raises again

_STATE = SimpleNamespace(raising=False, halt=None, raised_at=-math.inf)


@contextmanager
def interruptible(halt):
    """A block that an interrupt ends with KeyboardInterrupt, where the kernel would ignore it.

    What clears up afterwards is left in peace for a second; an interrupt after that raises again, as the first one may
    have been swallowed by code that tries on.

    Args:
        halt: called without arguments at every interrupt, from now until `ignore_again`, so in the gaps between two
            blocks as well. It runs inside a signal handler: set a flag there, and no more.

    Outside of the main thread, which alone hears signals, the block runs as it is.
    """
    if not _is_ours():
        yield
        return
    _STATE.halt = halt
    signal.signal(signal.SIGINT, _hear)
    try:
        # only in here: from every other line an exception would leave things half done
        _STATE.raised_at, _STATE.raising = -math.inf, True
        yield
    finally:
        _STATE.raising = False


def ignore_again():
    """Give SIGINT back as it was before the first `interruptible`; called without one, does nothing."""
    _STATE.halt = None
    if _is_ours():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _hear(signum, frame):
    if _STATE.halt is not None:
        _STATE.halt()
    now = time.monotonic()
    if _STATE.raising and now - _STATE.raised_at >= AGAIN:
        _STATE.raised_at = now
        raise KeyboardInterrupt


def _is_ours():
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, _hear)
