"""The widgets that there are: below one, and in the whole process."""

import ipywidgets


def all_widgets():
    """Every widget that is not closed: id → widget; ipywidgets 7 and 8 keep them in different places."""
    registry = getattr(ipywidgets.widgets.widget, "_instances", None)
    return dict(ipywidgets.Widget.widgets if registry is None else registry)


def walk(widget):
    """A widget and all that it contains."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)
