"""A run whose settings are asked for before every step: what moved is changed, and each change is noted."""

import traceback
import weakref

from grpo_lib.live_chart import Change

__all__ = ["SteeredRun", "free_frames"]


class SteeredRun:
    """A run of GRPO that can be made anew, and whose steps are taken under the settings that are asked for.

    Args:
        make_training: called without arguments, returns a fresh `GRPORun`; at once, and again by `make_anew`.
        asked: called before each step, returns the settings asked for, name → value. Those whose value differs from
            the last time are changed (`GRPORun.change`); so a setting changed from code stands until its control moves.
    Attributes:
        training: the `GRPORun`; None after a `make_anew` that failed, and after `release`.
        changes: the `Change`s of its settings, oldest first. history: its records. Both outlive `release`.
    """

    def __init__(self, make_training, asked):
        self._make, self._asked, self._last_model = make_training, asked, None
        self.make_anew()

    def make_anew(self):
        """Start over: first weights, empty history, no change; what the factory raises leaves no run."""
        self.training = None  # two models at once may not fit
        self.changes, self._kept = [], []
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

    def release(self):
        """Keep no more than history and changes: model, reference, optimizer and what makes them may be freed."""
        self._kept = list(self.history)
        self.training = self._make = None

    @property
    def released(self):
        return self._make is None

    @property
    def history(self):
        return self.training.history if self.training is not None else self._kept

    @property
    def taken(self):
        """How many steps were taken since the start or the last `make_anew`."""
        return len(self.history)

    def pending(self, asked):
        """Those of the settings asked for that the next step will change to."""
        return {name: value for name, value in asked.items() if value != self._heard[name]}

    def step(self):
        """Take a step with the settings asked for now, and return its record; changes are noted once it is taken."""
        asked = self._asked()  # read once: one step, one setting
        moved = self.pending(asked)
        if moved:
            self.training.change(**moved)
        self._heard = asked
        settings = vars(self.training.settings)
        record = next(self.training)
        self.changes += [
            Change(record.step, name, self._settings[name], value)
            for name, value in settings.items()
            if value != self._settings[name]
        ]
        self._settings = settings
        return record


def free_frames(error):
    """Empty the frames that an error passed through: they hold what they worked with, be it a model that did not fit.

    The error keeps its message and the lines of its traceback.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
