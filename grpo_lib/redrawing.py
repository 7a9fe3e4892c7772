"""What every panel of controls needs: gather events, redraw, show figures and errors, close without a trace.

Only ipywidgets' own classes, as versions 7.7 and 8 both have them.
"""

import asyncio
import json
import sys
import traceback
from html import escape

import ipywidgets as widgets
from IPython.display import HTML, clear_output, display

from grpo_lib.live_cells import close_earlier, made_here
from grpo_lib.named_controls import Controls
from grpo_lib.plot_style import alt_text, wrapped

__all__ = ["RedrawnPanel", "close_tree", "error_html", "live_layout", "show_box", "show_figure"]

QUIET = 0.06  # seconds after a redraw in which further events are gathered into the next one
LEFT_MARGIN = 74  # pixels, of a live figure: a number of up to seven characters, and the axis title
ONE_MORE_LINE = 20  # pixels, below: a legend may need one line more than was reckoned with
TITLE_WIDTH = 560 / 0.55  # pixels of a title on a page 700 px wide, over a letter's mean width in units of its height
TITLE_LINE = 20  # pixels, of one more line of it
VIEW = "application/vnd.jupyter.widget-view+json"


class RedrawnPanel(Controls):
    """Controls and what they lead to; a subclass sets `box`, and draws in `_draw`.

    The first event of a burst is drawn at once, the others together, in the kernel's event loop. What a redraw raises
    is kept in `error` and stands in red in `message`. Where a notebook is read without a front end for widgets,
    `_static_html` stands in. A cell that is run again closes the panels it made before.

    Attributes:
        box: the widget that holds everything. message: an `ipywidgets.HTML` for errors. error: of the last redraw.
        closed: whether `close` was called.
    """

    def __init__(self):
        close_earlier()
        self._loop, self._pending, self._held, self._stale = None, False, False, True
        self._drawn_at = -QUIET
        self.message, self.error, self.box, self.closed = widgets.HTML(), None, None, False
        made_here(self)

    def _draw(self):
        """Compute and show what the controls ask for."""
        raise NotImplementedError

    def _static_html(self):
        """The same as HTML, for readers without a front end."""
        raise NotImplementedError

    def show(self):
        """Display the panel. Shown again, it is a second view of the same controls."""
        if "google.colab" in sys.modules:  # there an Output captures only what is shown after it
            self._check_open()
            show_box(self.box, "")
            self._redraw()
            return
        self.prepare()
        bad = self.error
        text = f"{type(self).__name__}()" if bad is None else f"{type(bad).__name__}: {bad}"
        show_box(self.box, text, self._static_html() if bad is None else None)

    _ipython_display_ = show

    def prepare(self):
        """Draw, and from now on gather redraws: `box` is then ready to be shown, alone or inside another one."""
        self._check_open()
        try:  # inside a kernel redraws are gathered in its event loop; on Colab an Output needs them in the callback
            self._loop = None if "google.colab" in sys.modules else asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._redraw()

    def close(self):
        """Take the panel off the page for good; what it drew last stays readable. Called again, does nothing."""
        if not self.closed:
            self.closed = True
            close_tree(self.box)

    def _current(self):
        """Bring what is shown up to date; raise what the redraw raised."""
        if self._stale:
            self._check_open()
            self._redraw()
        if self.error is not None:
            raise self.error

    def _changed(self, _=None):
        if self._held or self.closed:
            return
        self._stale = True
        if self._loop is None or not self._loop.is_running():
            self._redraw()
        elif not self._pending:  # others have their redraw coming; the callback may run in another thread than the loop
            self._pending = True
            wait = max(0.0, self._drawn_at + QUIET - self._loop.time())
            self._loop.call_soon_threadsafe(self._loop.call_later, wait, self._redraw)

    def _redraw(self):
        self._pending = False
        if self.closed:  # while the redraw waited
            return
        self._stale = False
        try:
            self._draw()
            self.error, self.message.value = None, ""
        except Exception as error:  # a callback's exception is lost in a log nobody reads
            self.error, self.message.value = error, error_html(error)
        if self._loop is not None:
            self._drawn_at = self._loop.time()

    def _check_open(self):
        if self.closed:
            raise RuntimeError(f"this {type(self).__name__} is closed: make a new one")


def show_box(box, text, html=None):
    """Display a widget; where no front end draws widgets, `html` stands in, or `text`."""
    if "google.colab" in sys.modules:
        display(box)
        return
    view = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    data = {"text/plain": text, VIEW: view}
    display(data if html is None else {**data, "text/html": html}, raw=True)


def show_figure(out, figure):
    """Put a figure, or its plain data, into an `ipywidgets.Output`, in place of what it showed.

    On Colab each output is a page of its own: there the figure travels as HTML that loads plotly.js by itself.
    Elsewhere it is the Plotly MIME bundle, set in one message: it needs no network, and any thread may set it.
    """
    if "google.colab" in sys.modules:
        from plotly.io import to_html

        with out:
            clear_output(wait=True)
            display(HTML(to_html(figure, include_plotlyjs="cdn", full_html=False)))
        return
    data = figure if isinstance(figure, dict) else json.loads(figure.to_json())
    # not responsive: plotly.js would keep each figure that was ever drawn; the renderer follows the page by itself
    content = {**data, "layout": live_layout(data), "config": {"displaylogo": False}}
    data = {"application/vnd.plotly.v1+json": content, "text/plain": alt_text(figure)}
    out.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)


def live_layout(figure):
    """The layout of a figure's plain data with fixed margins instead of automatic ones, and a title that is not cut.

    With `automargin` plotly.js lays a figure out twice, which is half of the time of a redraw. Axes labelled in words
    keep it: their labels are of any length, and turn where they are too long. A title too long for a narrow page goes
    on in further lines.
    """
    layout, left = dict(figure["layout"]), LEFT_MARGIN
    worded = {_axis_name(trace, letter) for trace in figure["data"] for letter in "xy" if _in_words(trace.get(letter))}
    for name, axis in figure["layout"].items():
        if name[1:5] != "axis":
            continue
        if name in worded or "ticktext" in axis and name[0] == "y":
            left = 0 if name[0] == "y" else left
        else:
            layout[name] = {**axis, "automargin": False, "ticklabeloverflow": "allow"}
    margin, (layout["title"], room) = layout["margin"], _unfolded(layout)
    top, bottom = margin["t"] + room, margin["b"] + ONE_MORE_LINE
    layout["margin"] = {**margin, "l": max(left, margin["l"]), "t": top, "b": bottom}
    layout["height"] += ONE_MORE_LINE + room
    return layout


def _unfolded(layout):
    """The title of a layout in lines that fit a narrow page, and the height that its further lines take."""
    title = layout.get("title") or {}
    if not title.get("text"):
        return title, 0
    size = {**layout["template"]["layout"]["title"]["font"], **title.get("font", {})}["size"]
    text = wrapped(title["text"], int(TITLE_WIDTH / size))
    return {**title, "text": text}, TITLE_LINE * (text.count("<br>") - title["text"].count("<br>"))


def _axis_name(trace, letter):
    """The layout's name of a trace's axis, as xaxis2 of x2."""
    return f"{letter}axis{trace.get(f'{letter}axis', letter)[1:]}"


def _in_words(values):
    return isinstance(values, (list, tuple)) and any(isinstance(value, str) for value in values)


def error_html(error):
    """An exception in red, with where it happened folded away."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    where = f"<details><summary>where</summary><pre>{escape(trace)}</pre></details>"
    name = escape(f"{type(error).__name__}: {error}")
    return f'<div role="alert" style="color:#d32f2f;line-height:1.5"><b>{name}</b>{where}</div>'


def close_tree(widget):
    """Close a widget, what it contains, and the layout and style of each: every one of them has a comm of its own.

    Nobody observes them any longer.
    """
    for child in getattr(widget, "children", ()):
        close_tree(child)
    for part in (getattr(widget, "style", None), getattr(widget, "layout", None), widget):
        if isinstance(part, widgets.Widget):
            part.unobserve_all()
            part.close()
