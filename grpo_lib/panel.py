"""The live training panel: a run of GRPO that a class steers while it trains.

panel = LivePanel(load_tiny_policy, load_addition("train"), settings, reward_function=addition_reward)
panel.show()      # train with the buttons, move the sliders
panel.run(20)     # or take steps at once, without any front end
panel.figure()    # what a saved notebook keeps
panel.inspect()   # the newest step in the rollout inspector
"""

from dataclasses import replace

from grpo_lib._arguments import check_count
from grpo_lib.controls import check_on_controls
from grpo_lib.held_run import HeldRun
from grpo_lib.live_cells import close_earlier, made_here
from grpo_lib.live_chart import STEERED
from grpo_lib.live_run import LiveRun
from grpo_lib.named_controls import Controls
from grpo_lib.panel_controls import arrange_panel, panel_buttons, panel_sliders
from grpo_lib.panel_view import PanelView
from grpo_lib.records import GRPOSettings
from grpo_lib.redrawing import close_tree, show_box
from grpo_lib.rewards import combined_reward
from grpo_lib.run import GRPORun

__all__ = ["LivePanel"]


class LivePanel(Controls, HeldRun):
    """Start, pause, step, resume and reset a GRPO run; beta, learning rate, temperature and group size while it trains.

    Call `show()` on a line of its own (on a cell's last line it is shown too, but IPython's `Out` then keeps it). It
    trains in the kernel's event loop, so the kernel answers to sliders and to other cells between two steps. A slider
    acts from the next step on; that step's record holds the new value, and the curves are marked. An error in a step
    stops the run and is shown; the stop button pauses it, even in the middle of a step, which then was not taken.

    Of several panels only the one started last trains. A cell that is run again closes the panel it made before: its
    history and figure stay, its model is freed unless you hold it (`model = panel.model`).

    *Inspect* opens the rollout inspector below, on the newest step; so does `inspect()`, in a cell of its own.

    The frozen start is always kept (`track_kl=True`), so that the KL is measured, and beta can be raised, from 0 on.

    Args:
        model_factory: called without arguments, returns (model, tokenizer), new ones at each call: at once, and at
            every reset.
        train_data, settings, reward_function: see `GRPORun`; the sliders start where the settings are.
        max_steps: *Start* stops there; an attribute, may be raised.
        on_step: a function, or a list of them, see `on_step`.
    Attributes:
        beta, learning_rate, temperature, num_generations: the sliders; from code, set `panel.beta.value = 0.5`.
        training, model, tokenizer, history, rollout, changes: the run as it stands, see `HeldRun`.
        box: the whole panel as a widget. error: what stopped the run, or None. running: whether it trains.
    Raises:
        TypeError: if model_factory cannot be called. ValueError: on a setting no slider can show, and whatever
        `GRPORun` refuses.

    >>> from grpo_lib import GRPOSettings, addition_reward, load_addition, load_tiny_policy
    >>> settings = GRPOSettings(batch_size=2, max_completion_length=24, beta=0.0, learning_rate=1e-4)
    >>> panel = LivePanel(load_tiny_policy, load_addition("train"), settings, reward_function=addition_reward)
    >>> _ = panel.run(1)
    >>> panel.beta.value = 0.5
    >>> [(record.step, record.beta) for record in panel.run(2)], str(panel.changes[0])
    ([(2, 0.5), (3, 0.5)], 'from step 2: beta 0 → 0.5')
    >>> panel.close()
    """

    def __init__(
        self,
        model_factory,
        train_data,
        settings=None,
        *,
        reward_function=combined_reward,
        max_steps=500,
        on_step=(),
    ):
        if not callable(model_factory):
            raise TypeError(
                f"model_factory must be a function that returns (model, tokenizer), got {model_factory!r:.60}: a reset "
                "needs a new model, so give the function itself, as in LivePanel(load_tiny_policy, …)"
            )
        check_count("max_steps", max_steps, 1)
        callbacks = [on_step] if callable(on_step) else on_step
        if not isinstance(callbacks, (list, tuple)) or not all(map(callable, callbacks)):
            raise TypeError(f"on_step needs a function of (run, record), or a list of such, got {on_step!r:.60}")
        LiveRun.pause_latest()
        close_earlier()
        settings = replace(settings or GRPOSettings(), track_kl=True)
        start = {name: getattr(settings, name) for name in STEERED}
        self._start, self._view = start, PanelView()
        self._sliders, self._buttons = panel_sliders(**start), panel_buttons(**self._actions())
        self.box = arrange_panel(self._sliders, self._buttons, *self._view.widgets)
        try:
            check_on_controls(self._sliders, start, instead="GRPORun takes any value")
            self._live = LiveRun(
                lambda: GRPORun(*model_factory(), train_data, settings, reward_function=reward_function),
                asked=self._values,
                draw=self._draw,
                max_steps=max_steps,
            )
            self._draw()
        except BaseException:
            close_tree(self.box)  # nobody else could; and widgets of the factory's own, a progress bar, stay
            raise
        self.expose_controls(self._sliders)
        for callback in callbacks:
            self.on_step(callback)
        for slider in self._sliders.values():
            slider.observe(self._moved, "value")
        made_here(self)

    @property
    def max_steps(self):
        return self._live.max_steps

    @max_steps.setter
    def max_steps(self, steps):
        self._live.max_steps = check_count("max_steps", steps, 1)
        self._draw_status()

    # --- what it does

    def show(self):
        """Display the panel. Shown again, it is a second view of the same run."""
        self._live.come_home()
        show_box(self.box, "LivePanel()", self._view.html)

    _ipython_display_ = show

    def start(self):
        """Train on in the background, from the end of the running cell; needs a notebook. See *Start* and *Resume*."""
        self._live.start()

    def pause(self):
        """Stop after the step that is being taken."""
        self._live.pause()

    def run(self, steps):
        """Take `steps` steps now, with the sliders where they are, and return their records; needs no front end.

        A background run is paused first. An error is raised, and shown in the panel; the steps before it stand.
        """
        return self._live.run(steps)

    def reset(self):
        """Go back to the start: a new model, empty history, sliders and random streams as they were at first."""
        self._live.reset(before=self._back_to_start)

    def on_step(self, callback, remove=False):
        """Call `callback(run, record)` after every step, run being `training`; with remove=True no longer.

        `run.rollout` is the newest rollout, and `run.change(…)` acts on the next step. What a callback raises stops
        the run and is shown.
        """
        if not callable(callback):
            raise TypeError(f"on_step needs a function of a run and a record, got {callback!r}")
        if not remove:
            self._live.callbacks.append(callback)
        elif callback in self._live.callbacks:
            self._live.callbacks.remove(callback)
        else:
            name, number = getattr(callback, "__name__", callback), len(self._live.callbacks)
            raise ValueError(
                f"{name!s:.60} cannot be removed: it is none of the {number} functions called "
                "after a step; a function defined again is another one, so remove it before, under a name you keep"
            )

    def close(self):
        """Stop, and take the panel off the page; model, history and figure stay. Called again, does nothing."""
        if not self._live.closed:
            self._live.close()
            self._view.put_inspector(None)
            close_tree(self.box)

    def release(self):
        """Close, and let go of the model, its reference and the optimizer; history, changes and figure stay."""
        self.close()
        self._live.release()

    # --- inside

    def _values(self):
        return {name: slider.value for name, slider in self._sliders.items()}

    def _actions(self):
        """What the buttons do: name → function without arguments."""
        actions = dict(start=self.start, pause=self.pause, one_step=lambda: self.run(1), reset=self.reset)
        actions["inspect"] = self._open_inspector
        return {name: lambda action=action: self._live.post(action) for name, action in actions.items()}

    def _open_inspector(self):
        title = f"Step {self._live.taken}, after its update"
        try:
            inspector = self.inspect()
        except Exception as error:  # looking is no step: a run that trains goes on
            self._view.put_error(error, f"{title}: the inspector could not be opened")
        else:
            self._view.put_inspector(inspector, title)

    def _back_to_start(self):
        self._view.put_inspector(None)
        for name, value in self._start.items():
            self._sliders[name].value = value

    def _moved(self, _):
        self._live.post(self._draw_status)

    def _draw(self):
        self._view.draw(self._live, self._values())
        self._buttons["start"].description = "Resume" if self._live.taken else "Start"
        if "inspect" in self._buttons:
            self._buttons["inspect"].disabled = not self._live.taken

    def _draw_status(self):
        self._view.draw_status(self._live, self._values())
