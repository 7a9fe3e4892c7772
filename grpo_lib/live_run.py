"""A run that trains while the notebook stays alive: one asyncio task in the kernel's own event loop, no thread.

A step blocks the kernel as any cell does. Between two steps the task sleeps for a moment: then messages are handled.
"""

import asyncio
import contextvars
import time
import weakref

from grpo_lib._arguments import check_count
from grpo_lib.interrupts import ignore_again, interruptible
from grpo_lib.steered_run import SteeredRun, free_frames

__all__ = ["LiveRun"]

GAP = 0.01  # seconds between two steps. asyncio.sleep(0) is one turn of the loop, and a message needs several
DRAW_EVERY = 0.1  # seconds between two redraws, at least


class LiveRun(SteeredRun):
    """Starts, pauses, steps and resets a run of GRPO, and tells when to draw it.

    Only one run of a kernel trains at a time: one that starts pauses the one before it. Its methods are for code in the
    kernel's main thread; a callback that may come from elsewhere goes through `post`.

    Args:
        make_training, asked: see `SteeredRun`; a reset makes the run anew.
        draw: called without arguments after steps, at most every 0.1 s, and after every start, stop and error.
        max_steps: a started run stops there.
    Attributes:
        training, history, changes: see `SteeredRun`. callbacks: see `LivePanel`. task: the asyncio task.
        error: the exception that stopped the run, or None. going: whether it is to go on.
    """

    _latest = None  # a weak reference to the run of this kernel that was started last

    def __init__(self, make_training, *, asked, draw, max_steps):
        self._draw, self.max_steps, self._drawn = draw, max_steps, 0.0
        self.callbacks, self.closed, self.task, self._turn = [], False, None, 0
        self.going, self.stepping, self.error = False, False, None
        self.come_home()
        super().__init__(make_training, asked)

    def come_home(self):
        """Remember the event loop and the cell that callbacks from elsewhere are to be brought to."""
        self._check_open()
        self._loop, self._context = _running_loop(), contextvars.copy_context()

    def start(self):
        """Train on, in the background: the first step is taken when the running cell ends.

        Raises:
            RuntimeError: where no event loop runs (a plain script), or the run is closed.
        """
        self._check_ready()
        if self._loop is None or not self._loop.is_running():
            self.come_home()
        if self._loop is None:
            raise RuntimeError("training in the background needs a notebook's event loop; run(steps) needs none")
        self.pause_latest(self)
        self.error, self.going = None, True
        if self.task is None or self.task.done() or self.task.get_loop() is not self._loop:
            self._turn += 1  # a task left in a loop that has stopped would else come back with that loop
            # asyncio holds its tasks only weakly. The context is the cell's, so that what a step prints appears there
            self.task = self._context.copy().run(self._loop.create_task, self._train(self._turn))
        self.redraw()

    def pause(self):
        """Take no further step."""
        self.going = False
        self.redraw()

    def run(self, steps):
        """Pause, take `steps` steps at once, and return their records; needs no front end and no event loop.

        Raises:
            ValueError: unless steps is an integer >= 1. And whatever a step raises; the steps before it stand.
        """
        check_count("steps", steps, 1)
        self._check_ready()
        self.pause_latest(self)
        if self.stepping:
            raise RuntimeError("run was called from within a step, by a callback: it would never end")
        self.error, self.going, self.stepping = None, True, True
        training, first = self.training, len(self.training.history)
        try:
            for _ in range(steps):
                self._advance()
                if not self.going or self.training is not training:  # a callback paused, closed or reset the run
                    break
        except Exception as error:  # an interrupt is none: it only ends the steps
            self.error = error
            raise
        finally:
            self.going = self.stepping = False
            self.redraw()
        return training.history[first:]

    def reset(self, before=lambda: None):
        """Pause, call `before`, and start anew: first weights, empty history, the same random streams."""
        self._check_open()
        error, self.going, self.error = self.error, False, None
        free_frames(error)
        before()
        try:
            self.make_anew()
        except Exception as error:
            self.error = error
            raise
        finally:
            self.redraw()

    def close(self):
        """Stop for good; what was trained stays. Called again, does nothing."""
        self.going, self.closed = False, True
        self.callbacks.clear()
        if self.task is not None:
            if not self.task.get_loop().is_closed():
                self.task.cancel()
            self.task = None

    def release(self):
        """Close, and keep no more than history, changes and error (see `SteeredRun.release`)."""
        self.close()
        free_frames(self.error)
        super().release()

    @property
    def running(self):
        """Whether it trains: in `run`, or in the background while the loop it was started in goes round."""
        return self.going and (self.stepping or (self.task is not None and self.task.get_loop().is_running()))

    # --- from a button

    def post(self, action):
        """Do `action` in the main thread, between two steps; an error is drawn.

        With ipykernel 7, JupyterLab may handle a button in another thread while the main one takes a step.
        """

        def open_only():  # the run may be closed before its turn comes
            if not self.closed:
                action()

        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._guard, open_only, context=self._context.copy())
        else:
            self._guard(open_only)

    def redraw(self):
        self._drawn = time.monotonic()
        if not self.closed:
            self._draw()

    # --- inside

    async def _train(self, turn):
        try:
            while self.going and self._turn == turn and self.taken < self.max_steps and self._guard(self._advance):
                await asyncio.sleep(GAP)
        finally:  # also where the loop ends and cancels its tasks
            if self._turn == turn:
                self.going = False
                self._guard(self.redraw)

    def _advance(self):
        """One step with the settings asked for now."""
        record = self.step()
        for callback in tuple(self.callbacks):
            callback(self.training, record)
        if time.monotonic() - self._drawn >= DRAW_EVERY:
            self.redraw()

    def _guard(self, action):
        """Whether `action` went well; if not, the run stops and shows why: nobody sees an exception in a task."""
        try:
            with interruptible(LiveRun._halt_latest):
                action()
            return True
        except (Exception, KeyboardInterrupt) as error:  # an interrupt pauses; let out of a task, it ends the kernel
            self.error, self.going = error if isinstance(error, Exception) else None, False
            try:
                self.redraw()
            except Exception as another:  # the drawing itself fails; the message over it has been set
                self.error = another
            return False
        finally:
            if not self.going:
                ignore_again()

    @classmethod
    def pause_latest(cls, follower=None):
        """Pause the run of this kernel that was started last, if it still goes; then `follower` is the latest."""
        latest = cls._latest and cls._latest()
        if latest is not None and latest.going:
            latest.pause()
        cls._latest = weakref.ref(follower) if follower is not None else None

    @classmethod
    def _halt_latest(cls):
        latest = cls._latest and cls._latest()
        if latest is not None:
            latest.going = False

    def _check_ready(self):
        self._check_open()
        if self.training is None:  # a reset has failed
            self.make_anew()

    def _check_open(self):
        if self.closed:
            raise RuntimeError("this run is closed: make a new one")


def _running_loop():
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
