"""What a panel of controls over a plain function needs: gather events, redraw, show errors, show itself."""

import asyncio
import sys
import traceback
from html import escape

import ipywidgets as widgets
from IPython.display import display

from grpo_lib.widgets import QUIET

__all__ = ["RedrawnPanel"]

VIEW = "application/vnd.jupyter.widget-view+json"


class RedrawnPanel:
    """Controls and what they lead to; a subclass sets `box`, and draws in `_draw`.

    A burst of events leads to one redraw, in the kernel's event loop. What a redraw raises is kept in `error` and
    stands in red in `message`. Where a notebook is read without a front end for widgets, `_static_html` stands in.

    Attributes:
        box: the widget that holds everything. message: an `ipywidgets.HTML` for errors. error: of the last redraw.
    """

    def __init__(self):
        self._loop, self._pending, self._held, self._stale = None, False, False, True
        self.message, self.error, self.box = widgets.HTML(), None, None

    def _draw(self):
        """Compute and show what the controls ask for."""
        raise NotImplementedError

    def _static_html(self):
        """The same as HTML, for readers without a front end."""
        raise NotImplementedError

    def show(self):
        """Display the panel. Shown again, it is a second view of the same controls."""
        colab = "google.colab" in sys.modules
        try:  # inside a kernel redraws are gathered in its event loop; on Colab an Output needs them in the callback
            self._loop = None if colab else asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        if colab:  # there an Output captures only what is shown after it
            display(self.box)
            self._redraw()
            return
        self._redraw()
        view = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        text = f"{type(self).__name__}()" if self.error is None else f"{type(self.error).__name__}: {self.error}"
        data = {"text/plain": text, VIEW: view}
        if self.error is None:
            data["text/html"] = self._static_html()
        display(data, raw=True)

    _ipython_display_ = show

    def _current(self):
        """Bring what is shown up to date; raise what the redraw raised."""
        if self._stale:
            self._redraw()
        if self.error is not None:
            raise self.error

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
        self._pending = self._stale = False
        try:
            self._draw()
            self.error, self.message.value = None, ""
        except Exception as error:  # a callback's exception is lost in a log nobody reads
            self.error = error
            trace = f"<details><summary>where</summary><pre>{escape(traceback.format_exc())}</pre></details>"
            name = f"{type(error).__name__}: {error}"
            self.message.value = f'<div role="alert" style="color:#d32f2f"><b>{escape(name)}</b>{trace}</div>'
