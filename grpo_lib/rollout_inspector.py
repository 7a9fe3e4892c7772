"""The rollout inspector: pickers and loss settings over `grpo_lib.inspect_view.explore_rollout`."""

import ipywidgets as widgets

from grpo_lib.inspect_view import explore_rollout
from grpo_lib.inspector_controls import (
    NONE,
    arrange,
    compare_menu,
    loss_controls,
    match_variant,
    place_controls,
    point_at,
)
from grpo_lib.losses import LOSS_TYPES
from grpo_lib.named_controls import closing_on_error
from grpo_lib.recorded import check_recording
from grpo_lib.recordings import load_recorded_rollout
from grpo_lib.redrawing import RedrawnPanel, show_figure

__all__ = ["RolloutInspector"]


class RolloutInspector(RedrawnPanel):
    """One group of a rollout: what the next update does to each token, under any loss of the family.

    Put it on a cell's last line, or call `show()`. Pick a group, a completion and a token; its numbers stand in the
    formula of the chosen loss. Changing the loss draws, in a second panel, what has changed: against plain GRPO, or
    against the setting before.

    Attributes:
        group, completion, token: the pickers; compare: what is compared with, "plain" or "before".
        loss_type, importance_sampling_level, beta, epsilon, epsilon_high, delta, bias_correction_kl: the controls; set
            their `.value` from code (of epsilon_high and delta: a number out of the menu, or "none"). A value outside a
            slider's range is moved to the end of the range, as ipywidgets does.
        recording: the `Recording` in sight; set another one to look at that (there is no setting before then).
        view, figure: the `RolloutView` of the present settings, and its figure.
        error: the exception of the last redraw, or None; it also stands in red under the controls.

    Args:
        recording: a `Recording` (of a live rollout: `record_rollout(model, tokenizer, rollout)`), or None for the one
            that ships.
        group, completion, token: where the pickers start; token None starts at the one that is pushed hardest.
        settings: of the loss, as in `explore_rollout`.
    Raises:
        ValueError, TypeError: on a bad setting or place, as `explore_rollout` does.

    >>> inspector = RolloutInspector(loss_type="dapo")
    >>> inspector.importance_sampling_level.value = "sequence"
    >>> inspector.figure.layout.title.text
    'What the next update does to each token: dapo, sequence level, beta 0.1, clip 0.2'
    """

    @closing_on_error()
    def __init__(self, recording=None, *, group=0, completion=0, token=None, **settings):
        super().__init__()
        if "compare_with" in settings:
            raise TypeError(
                "compare_with is no setting of the loss: set the menu, as in inspector.compare.value = 'before'"
            )
        self._recording = load_recorded_rollout() if recording is None else recording
        first = explore_rollout(self._recording, group=group, completion=completion, token=token, **settings)
        self._place, self._loss, compare = place_controls(), loss_controls(settings), compare_menu()
        self._options = {name: value for name, value in settings.items() if name not in self._loss}
        self._drawn = self._before = self._view = None  # loss settings: those in sight, those before
        self._place["group"].options, self._place["completion"].options = range(group + 1), range(completion + 1)
        self._place["group"].value, self._place["completion"].value = group, completion
        point_at(self._place, self._recording)
        self._place["token"].value = first.token
        controls = {**self._place, **self._loss, "compare": compare}
        self.expose_controls(controls)
        for control in controls.values():
            control.observe(self._changed, "value")
        self.out, self.table, self.story = widgets.Output(), widgets.HTML(), widgets.HTML()
        self.changes = widgets.HTML()
        self.out.layout.min_height = "350px"  # so that the page does not jump between two figures
        shown = [self.message, self.changes, self.out, self.story, self.table]
        self.box = arrange(self._place, self._loss, compare, *shown)

    @property
    def recording(self):
        return self._recording

    @recording.setter
    def recording(self, recording):
        self._recording = check_recording(recording)
        self._drawn = self._before = None
        self._follow()  # at once: the pickers may be set in the same cell
        self._changed()

    @property
    def view(self):
        self._current()
        return self._view

    @property
    def figure(self):
        return self.view.figure

    def settings(self):
        """The present loss settings, as arguments of `explore_rollout`."""
        value = {name: None if control.value == NONE else control.value for name, control in self._loss.items()}
        if LOSS_TYPES[value["loss_type"]][0] != "clip":
            value["delta"] = None  # its menu is greyed out
        return {**value, **self._options}

    def _follow(self):
        """Let the menus follow the recording and the loss type; that is not a person's choice, and draws nothing."""
        self._held = True
        try:
            point_at(self._place, self._recording)
            match_variant(self._loss)
        finally:
            self._held = False

    def _draw(self):
        self._follow()
        settings = self.settings()
        last = self._before if settings == self._drawn else self._drawn
        other = None if self.compare.value == "plain" else last or settings
        place = {name: control.value for name, control in self._place.items()}
        self._view = explore_rollout(self._recording, **place, **settings, compare_with=other)
        self._before, self._drawn = last, settings  # only now: a setting that could not be drawn is not one before
        self.changes.value = f"<div>{self._view.changes}</div>"
        self.story.value, self.table.value = self._view.story_html, self._view.table
        show_figure(self.out, self._view.figure)

    def _static_html(self):
        return f"{self._view.rows_html}{self._view.table}{self.changes.value}{self._view.story_html}"
