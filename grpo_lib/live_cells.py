"""Which cell made what: a cell that is run again puts away what it made the time before."""

import weakref

from IPython import get_ipython

__all__ = ["close_earlier", "made_here"]

_MADE = {}  # cell → (its last execution, what it made then)


def close_earlier():
    """Close what an earlier execution of the running cell made; what has a method `release` gives up more by that."""
    cell, execution = _running_cell()
    before, things = _MADE.get(cell, (None, ()))
    if before != execution:
        _MADE.pop(cell, None)
        for thing in tuple(things):
            getattr(thing, "release", thing.close)()


def made_here(thing):
    """Remember, weakly, that the running cell made this thing, which has a method `close`."""
    cell, execution = _running_cell()
    for other in [other for other, (_, things) in _MADE.items() if not things]:
        del _MADE[other]
    if cell is not None:
        _MADE.setdefault(cell, (execution, weakref.WeakSet()))[1].add(thing)


def _running_cell():
    """(what names the cell, the id of this execution of it); (None, None) where no cell runs.

    JupyterLab and Notebook send the cell's id, Colab sends its own. Where there is none the cell's text stands for it:
    then a cell that was changed counts as another one.
    """
    try:
        message = get_ipython().get_parent()
    except AttributeError:  # no kernel
        return None, None
    metadata = message.get("metadata", {})
    named = metadata.get("cellId") or metadata.get("colab", {}).get("cell_id")
    cell = named or message.get("content", {}).get("code")
    return (cell, message.get("header", {}).get("msg_id")) if cell else (None, None)
