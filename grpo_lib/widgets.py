"""Sliders over the plain functions of `explore`: the bandit explorer.

Only ipywidgets' own classes, as versions 7.7 and 8 both have them. Every lesson also works without a front end, by
calling `explore_bandit` and `explore_bandit_step`.
"""

import asyncio
import json
import sys
import traceback
from html import escape

import ipywidgets as widgets
from IPython.display import HTML, clear_output, display

from grpo_lib.explore import explore_bandit, explore_bandit_step, explore_run, explore_step
from grpo_lib.plot_style import alt_text

__all__ = ["BanditExplorer", "explore_bandit", "explore_bandit_step", "show_figure"]

QUIET = 0.06  # seconds in which further slider events are gathered into one redraw
KEYS = (
    '<div style="opacity:.75;font-size:11px;line-height:1.4">Keyboard: Tab to a slider, then Shift+← →, PageUp, '
    "PageDown, Home or End, or type into the number beside it. Plain ← → work in JupyterLab, not in Notebook 7.</div>"
)


def show_figure(out, figure):
    """Put a figure into an `ipywidgets.Output`, in place of what it showed.

    On Colab each output is a page of its own: there the figure travels as HTML that loads plotly.js by itself.
    Elsewhere it is the Plotly MIME bundle, set in one message: it needs no network, and any thread may set it.
    """
    if "google.colab" in sys.modules:
        with out:
            clear_output(wait=True)
            display(HTML(figure.to_html(include_plotlyjs="cdn", full_html=False)))
        return
    content = json.loads(figure.to_json())
    content["config"] = {"displaylogo": False, "responsive": True}
    data = {"application/vnd.plotly.v1+json": content, "text/plain": alt_text(figure)}
    out.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)


class BanditExplorer:
    """Sliders for beta, learning rate and group size over the bandit; one step at a time, or a whole run.

    Put it on a cell's last line, or call `show()`. Moving a slider trains anew from the same seed and redraws what is
    in sight: the run, or the iteration that *One step* has reached.

    Attributes:
        beta, learning_rate, num_samples, normalise, num_iterations, seed: the controls; set their `.value` from code.
        figure: the figure of the present settings.
        run: its trained `BanditGRPO`.
        error: the exception of the last redraw, or None; it also stands in red under the controls.

    Args:
        beta, learning_rate, num_samples, normalise, num_iterations, seed: where the controls start.
        options: further settings of `BanditGRPO`, without a control: vocab, baseline, kl_direction, reward, ...

    >>> explorer = BanditExplorer(num_iterations=5)
    >>> explorer.beta.value = 2.0
    >>> explorer.run.beta, len(explorer.figure.data[0].y)
    (2.0, 6)
    """

    def __init__(
        self,
        beta=0.5,
        learning_rate=0.01,
        num_samples=20,
        normalise=True,
        *,
        num_iterations=50,
        seed=42,
        **options,
    ):
        self._options, self._loop, self._pending, self._held = options, None, False, False
        self._step, self._shown, self.error = 0, None, None  # step 0: the whole run is in sight
        self._make_controls(beta, learning_rate, num_samples, normalise, num_iterations, seed)
        self._start = {name: control.value for name, control in self._controls.items()}
        self.message, self.table, self.out = widgets.HTML(), widgets.HTML(), widgets.Output()
        self.out.layout.min_height = "395px"  # so that the page does not jump between two figures
        self.box = self._arrange()
        self._stale = True

    def _make_controls(self, beta, learning_rate, num_samples, normalise, num_iterations, seed):
        def look(**more):
            return dict(style={"description_width": "100px"}, layout={"width": "360px"}, **more)

        slow = dict(continuous_update=False)  # redraw when the handle is let go
        self._controls = dict(
            beta=widgets.FloatSlider(beta, min=0, max=5, step=0.05, description="beta", **slow, **look()),
            learning_rate=widgets.FloatLogSlider(
                learning_rate,
                min=-4,
                max=0,
                step=0.1,
                readout_format=".3g",
                description="learning rate",
                **slow,
                **look(),
            ),
            num_samples=widgets.IntSlider(num_samples, min=2, max=100, description="group size", **slow, **look()),
            normalise=widgets.Checkbox(normalise, description="divide advantages by std", indent=False),
            num_iterations=widgets.BoundedIntText(num_iterations, min=1, max=2000, description="iterations"),
            seed=widgets.BoundedIntText(seed, min=0, max=2**31 - 1, description="seed"),
        )
        for name, control in self._controls.items():
            setattr(self, name, control)
            control.observe(self._changed, "value")
        for control in (self.num_iterations, self.seed):
            control.layout.width, control.style.description_width = "170px", "70px"

    def _arrange(self):
        buttons = [
            widgets.Button(
                description="One step", icon="step-forward", tooltip="Take one iteration and look inside it"
            ),
            widgets.Button(description="Run", icon="play", button_style="primary", tooltip="Draw the whole run"),
            widgets.Button(description="Reset", icon="undo", tooltip="Back to the first settings"),
        ]
        for button, action in zip(buttons, (self.one_step, self.whole_run, self.reset), strict=True):
            button.layout.width = "110px"
            button.on_click(lambda _, action=action: action())
        wrap = {"flex_flow": "row wrap", "align_items": "center"}
        left = widgets.VBox([self.beta, self.learning_rate, self.num_samples])
        right = widgets.VBox(
            [self.normalise, widgets.HBox([self.num_iterations, self.seed]), widgets.HBox(buttons)],
            layout={"margin": "0 0 0 16px"},
        )
        controls = widgets.HBox([left, right], layout=wrap)
        return widgets.VBox([controls, widgets.HTML(KEYS), self.message, self.out, self.table])

    def show(self):
        """Display the explorer. Shown again, it is a second view of the same controls."""
        try:  # inside a kernel redraws are gathered in its event loop; on Colab an Output needs them in the callback
            self._loop = None if "google.colab" in sys.modules else asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        display(self.box)
        self._redraw()

    _ipython_display_ = show

    @property
    def figure(self):
        return self._current().figure

    @property
    def run(self):
        return self._current().run

    def one_step(self):
        """Go one iteration on and show it taken apart."""
        self._step += 1
        self._changed()

    def whole_run(self):
        """Show the whole run."""
        self._step = 0
        self._changed()

    def reset(self):
        """Put every control back to where it started and show the whole run."""
        self._step, self._held = 0, True
        for name, value in self._start.items():
            self._controls[name].value = value
        self._held = False
        self._changed()

    def _current(self):
        if self._stale:
            self._redraw()
        if self.error is not None:
            raise self.error
        return self._shown

    def _changed(self, _=None):
        if self._held:
            return
        self._stale = True
        if self._loop is None or not self._loop.is_running():
            self._redraw()
        elif not self._pending:  # the first event of a burst; the callback may run in another thread than the loop
            self._pending = True
            self._loop.call_soon_threadsafe(self._loop.call_later, QUIET, self._redraw)

    def _redraw(self):
        """Compute and draw the present settings; an error goes into the message, where it is seen."""
        self._pending = False
        self._stale = False
        try:
            self._shown, self.error = self._explore(), None
            self.message.value, self.table.value = "", self._shown.html
            show_figure(self.out, self._shown.figure)
        except Exception as error:  # a callback's exception is lost in a log nobody reads
            self.error = error
            trace = f"<details><summary>where</summary><pre>{escape(traceback.format_exc())}</pre></details>"
            name = f"{type(error).__name__}: {error}"
            self.message.value = f'<div role="alert" style="color:#d32f2f"><b>{escape(name)}</b>{trace}</div>'

    def _explore(self):
        value = {name: control.value for name, control in self._controls.items()}
        num_samples, num_iterations = value.pop("num_samples"), value.pop("num_iterations")
        settings = {**value, **self._options}
        if self._step:
            return explore_step(settings, num_samples, self._step)
        return explore_run(settings, num_samples, num_iterations)
