"""What a live panel shows under its sliders: where the run is, an error, curves, changes, samples."""

import ipywidgets as widgets

from grpo_lib.live_chart import live_chart
from grpo_lib.live_table import changes_html, newest_samples, samples_html, status_html
from grpo_lib.redrawing import close_tree, error_html

__all__ = ["PanelView"]


class PanelView:
    """Five HTML widgets over the pure functions of `live_chart` and `live_table`, and a place for an inspector."""

    def __init__(self):
        self.status, self.message, self.chart = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.changes, self.samples = widgets.HTML(), widgets.HTML()
        self.place, self.inspector = widgets.VBox(), None
        self.widgets = (self.status, self.message, self.chart, self.changes, self.samples, self.place)

    def draw(self, live, asked):
        """Draw the state of `live`, a `LiveRun`; asked: the settings the sliders stand at."""
        self.message.value = error_html(live.error) if live.error is not None else ""
        self.draw_status(live, asked)
        training = live.training
        history = live.history
        self.chart.value = live_chart(history, live.changes)
        self.changes.value = changes_html(live.changes)
        samples = newest_samples(training.rollout) if training is not None else []
        self.samples.value = samples_html(samples, len(history))

    def draw_status(self, live, asked):
        """The line over the curves alone."""
        if live.training is None:
            self.status.value = "There is no run: the last reset failed."
            return
        state = "training" if live.running else "stopped by an error" if live.error is not None else None
        self.status.value = status_html(live.training.history, live.pending(asked), state, live.max_steps)

    def put_inspector(self, inspector, title=""):
        """Show a `RolloutInspector` at the bottom, in place of the one before; None only takes that away."""
        (before, self.inspector), shown = (self.inspector, inspector), self.place.children
        self.place.children = ()
        if before is not None:
            before.close()
        for part in shown:
            close_tree(part)
        if inspector is not None:
            inspector.prepare()
            self.place.children = (widgets.HTML(f"<b>{title}</b>"), inspector.box)

    def put_error(self, error, title):
        """Say in the inspector's place why there is none."""
        self.put_inspector(None)
        self.place.children = (widgets.HTML(f"<b>{title}</b>"), widgets.HTML(error_html(error)))

    @property
    def html(self):
        """What is drawn now, as one text."""
        return "".join(part.value for part in self.widgets if isinstance(part, widgets.HTML))
