"""Controls as attributes: named, not to be replaced by a number, and closed where the making of a panel fails."""

import re
from contextlib import contextmanager

from ipywidgets import Widget

__all__ = ["Controls", "closing_on_error"]


class Controls:
    """Holds controls by name, of which the `.value` is set: a number in place of a control would change nothing.

    >>> class Panel(Controls):
    ...     def __init__(self):
    ...         self.expose_controls({"beta": "a slider"})
    >>> Panel().beta
    'a slider'
    >>> Panel().beta = 0.5
    Traceback (most recent call last):
    AttributeError: beta is a control and stays one: set its value, as in panel.beta.value = 0.5
    """

    _exposed = ()

    def expose_controls(self, controls):
        """Make controls (name → widget) attributes that cannot be assigned to."""
        for name, control in controls.items():
            setattr(self, name, control)
        self._exposed = (*self._exposed, *controls)

    def __setattr__(self, name, value):
        if name in self._exposed:
            mine = re.sub(".*(?=[A-Z])", "", type(self).__name__).lower()  # as in the lessons: BanditExplorer, explorer
            raise AttributeError(
                f"{name} is a control and stays one: set its value, as in {mine}.{name}.value = {value!r:.60}"
            )
        super().__setattr__(name, value)


@contextmanager
def closing_on_error():
    """Close every widget made in this block, or in the function it decorates, if that raises.

    Not only those that a panel already holds: a bad setting may be found between the making of two controls.
    """
    made, before = [], Widget._widget_construction_callback

    def constructed(widget):
        made.append(widget)
        if before is not None:
            before(widget)

    Widget.on_widget_constructed(constructed)
    try:
        yield
    except BaseException:
        for widget in made:
            widget.unobserve_all()
            widget.close()
        raise
    finally:
        Widget.on_widget_constructed(before)
