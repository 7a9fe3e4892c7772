"""A run that trains while the notebook stays alive: one asyncio task in the kernel's own event loop, no thread.

A step blocks the kernel as any cell does. Between two steps the task sleeps for a moment: then messages are handled.
"""

import asyncio
import contextvars
import time
import weakref

from grpo_lib._arguments import check_count
from grpo_lib.live_chart import Change

__all__ = ["LiveRun"]

GAP = 0.01  # seconds between two steps. asyncio.sleep(0) is one turn of the loop, and a message needs several
DRAW_EVERY = 0.1  # seconds between two redraws, at least


class LiveRun:
    """Starts, pauses, steps and resets a run of GRPO, and tells when to draw it.

    Only one run of a kernel trains at a time: one that starts pauses the one before it. Its methods are for code in the
    kernel's main thread; a callback that may come from elsewhere goes through `post`.

    Args:
        make_training: called without arguments, returns a fresh `GRPORun`; at once, and again at every reset.
        asked: called before each step, returns the settings asked for, name → value. Those whose value differs from
            the last time are changed (`GRPORun.change`); so a setting changed from code stands until its control moves.
        draw: called without arguments after steps, at most every 0.1 s, and after every start, stop and error.
        max_steps: a started run stops there.
    Attributes:
        training: the `GRPORun`. changes: the `Change`s of its settings, oldest first. callbacks: see `LivePanel`.
        error: the exception that stopped the run, or None. going: whether it is to go on. task: the asyncio task.
    """

    _latest = None  # a weak reference to the run of this kernel that was started last

    def __init__(self, make_training, *, asked, draw, max_steps):
        self._make, self._asked, self._draw, self.max_steps = make_training, asked, draw, max_steps
        self.callbacks, self.closed, self.task, self._drawn, self.stepping = [], False, None, 0.0, False
        self._last_model = None
        self.come_home()
        self._make_anew()

    def come_home(self):
        """Remember the event loop and the cell that callbacks from elsewhere are to be brought to."""
        self._check_open()
        self._loop, self._context = _running_loop(), contextvars.copy_context()

    # --- from code, in the main thread

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
        if self.task is None or self.task.done():
            # asyncio holds its tasks only weakly. The context is the cell's, so that what a step prints appears there
            self.task = self._context.copy().run(self._loop.create_task, self._train())
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
        self.going, self.error = False, None
        before()
        try:
            self._make_anew()
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
            self.task.cancel()
            self.task = None

    @property
    def taken(self):
        """How many steps were taken since the start or the last reset."""
        return len(self.training.history) if self.training is not None else 0

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

    def pending(self, asked):
        """Those of the settings asked for that the next step will change to."""
        return {name: value for name, value in asked.items() if value != self._heard[name]}

    def redraw(self):
        self._drawn = time.monotonic()
        if not self.closed:
            self._draw()

    # --- inside

    async def _train(self):
        while self.going and self.taken < self.max_steps and self._guard(self._advance):
            await asyncio.sleep(GAP)
        self.going = False
        self._guard(self.redraw)

    def _advance(self):
        """One step with the settings asked for now; its changes are noted once it is taken."""
        asked = self._asked()  # read once: one step, one setting
        moved = self.pending(asked)
        if moved:
            self.training.change(**moved)
        self._heard = asked
        settings = vars(self.training.settings)
        record = next(self.training)
        for name, value in settings.items():
            if value != self._settings[name]:
                self.changes.append(Change(record.step, name, self._settings[name], value))
        self._settings = settings
        for callback in tuple(self.callbacks):
            callback(self.training, record)
        if time.monotonic() - self._drawn >= DRAW_EVERY:
            self.redraw()

    def _guard(self, action):
        """Whether `action` went well; if not, the run stops and shows why: nobody sees an exception in a task."""
        try:
            action()
            return True
        except (Exception, KeyboardInterrupt) as error:  # an interrupt pauses; let out of a task, it ends the kernel
            self.error, self.going = error if isinstance(error, Exception) else None, False
            try:
                self.redraw()
            except Exception as another:  # the drawing itself fails; the message over it has been set
                self.error = another
            return False

    def _make_anew(self):
        self.training = None  # two models at once may not fit
        self.going, self.error, self.changes = False, None, []
        training = self._make()
        if self._last_model is not None and self._last_model() is training.model:
            raise ValueError(
                "the model factory returned the model that was trained already, so there is no start to go back to; "
                "let it load or build a new one at each call"
            )
        self._last_model = weakref.ref(training.model)
        self._settings = vars(training.settings)
        self._heard = {name: self._settings[name] for name in self._asked()}
        self.training = training

    @classmethod
    def pause_latest(cls, follower=None):
        """Pause the run of this kernel that was started last, if it still goes; then `follower` is the latest."""
        latest = cls._latest and cls._latest()
        if latest is not None and latest.going:
            latest.pause()
        cls._latest = weakref.ref(follower) if follower is not None else None

    def _check_ready(self):
        self._check_open()
        if self.training is None:  # a reset has failed
            self._make_anew()

    def _check_open(self):
        if self.closed:
            raise RuntimeError("this run is closed: make a new one")


def _running_loop():
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
