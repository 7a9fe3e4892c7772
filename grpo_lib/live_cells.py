"""Which cell made what: a cell that is run again puts away what it made the time before."""

import weakref

from IPython import get_ipython

__all__ = ["close_earlier", "made_here"]

_MADE = {}  # cell → (its last execution, what it made then)


def close_earlier():
    """Close what an earlier execution of the running cell made; needs a front end that names its cells."""
    cell, execution = _running_cell()
    before, things = _MADE.get(cell, (None, ()))
    if before != execution:
        _MADE.pop(cell, None)
        for thing in tuple(things):
            thing.close()


def made_here(thing):
    """Remember, weakly, that the running cell made this thing, which has a method `close`."""
    cell, execution = _running_cell()
    if cell is not None:
        _MADE.setdefault(cell, (execution, weakref.WeakSet()))[1].add(thing)


def _running_cell():
    """(the id of the cell, the id of this execution of it), as far as the front end tells."""
    try:
        message = get_ipython().get_parent()
    except AttributeError:  # no kernel
        return None, None
    return message.get("metadata", {}).get("cellId"), message.get("header", {}).get("msg_id")
