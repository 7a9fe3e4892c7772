"""What a live panel shows under its sliders: where the run is, an error, curves, changes, samples."""

import ipywidgets as widgets

from grpo_lib.live_chart import live_chart
from grpo_lib.live_table import changes_html, error_html, newest_samples, samples_html, status_html

__all__ = ["PanelView"]


class PanelView:
    """Five HTML widgets over the pure functions of `live_chart` and `live_table`; a redraw sets their texts."""

    def __init__(self):
        self.status, self.message, self.chart = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.changes, self.samples = widgets.HTML(), widgets.HTML()
        self.widgets = (self.status, self.message, self.chart, self.changes, self.samples)

    def draw(self, live, asked):
        """Draw the state of `live`, a `LiveRun`; asked: the settings the sliders stand at."""
        self.message.value = error_html(live.error) if live.error is not None else ""
        self.draw_status(live, asked)
        training = live.training
        history = training.history if training is not None else []
        self.chart.value = live_chart(history, live.changes)
        self.changes.value = changes_html(live.changes)
        samples = newest_samples(training.rollout) if history else []
        self.samples.value = samples_html(samples, len(history))

    def draw_status(self, live, asked):
        """The line over the curves alone."""
        if live.training is None:
            self.status.value = "There is no run: the last reset failed."
            return
        state = "training" if live.going else "stopped by an error" if live.error is not None else None
        self.status.value = status_html(live.training.history, live.pending(asked), state, live.max_steps)
