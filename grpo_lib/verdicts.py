"""Compare an exercise's attempt with the reference and, where they differ, with the usual slips."""

import copy
from dataclasses import dataclass

import numpy as np

__all__ = ["Verdict", "judge"]

NOT_ATTEMPTED, RIGHT, WRONG = "not attempted yet", "right", "not yet"
MARKS = {NOT_ATTEMPTED: "○", RIGHT: "✓", WRONG: "✗"}


@dataclass(frozen=True)
class Verdict:
    """What a check found. status: "right", "not yet", "not attempted yet"; slip: the name of a known slip, or None."""

    exercise: str
    status: str
    message: str = ""
    slip: str | None = None

    def __repr__(self):
        return f"{MARKS[self.status]} {self.exercise}: {self.status}." + (f" {self.message}" if self.message else "")

    @property
    def right(self):
        return self.status == RIGHT


def judge(exercise, attempt, reference, cases, slips, *, praise="", rtol=1e-4, atol=1e-6, measure=None):
    """Run an attempt on every case and say what is right, or which slip it is.

    What is compared are the values, or what `measure` finds in them where a right answer is not one set of numbers.

    Args:
        exercise: its name. attempt: the student's function; one that returns None or ..., or raises
            NotImplementedError, counts as not attempted.
        reference: the right function. cases: a list of argument tuples.
        slips: dict name → (function, explanation); a slip is named when it gives the attempt's values on every case.
        praise: shown when all is right.
        measure: a function of (value, *arguments) that gives the numbers to compare; a ValueError of its own says what
            is wrong with the value.
    Returns:
        a `Verdict`.

    >>> double, slips = (lambda x: 2 * x), {"squared": (lambda x: x * x, "You squared it.")}
    >>> judge("double", lambda x: x * x, double, [(2,), (3,)], slips)
    ✗ double: not yet. You squared it.
    >>> judge("double", lambda x: ..., double, [(2,)], slips)
    ○ double: not attempted yet.
    """
    try:
        given = _run(attempt, cases)
    except NotImplementedError:
        return Verdict(exercise, NOT_ATTEMPTED)
    except Exception as error:
        return Verdict(exercise, WRONG, f"It raised {type(error).__name__}: {error}")
    if all(value is None or value is Ellipsis for value in given):
        return Verdict(exercise, NOT_ATTEMPTED)
    try:
        given = _measured(measure, given, cases)
    except ValueError as error:
        return Verdict(exercise, WRONG, str(error))
    expected = _measured(measure, _run(reference, cases), cases)
    for case, got, want in zip(cases, given, expected, strict=True):
        problem = _shape_problem(got, want)
        if problem:
            return Verdict(exercise, WRONG, f"{_show(case)}{problem}")
    if _all_close(given, expected, rtol, atol):
        return Verdict(exercise, RIGHT, praise)
    for name, (slip, explanation) in slips.items():
        if _all_close(given, _measured(measure, _run(slip, cases), cases), rtol, atol):
            return Verdict(exercise, WRONG, explanation, name)
    first = next(i for i, pair in enumerate(zip(given, expected, strict=True)) if not _close(*pair, rtol, atol))
    return Verdict(
        exercise,
        WRONG,
        f"{_show(cases[first])}it gives {_values(given[first])}, expected {_values(expected[first])}.",
    )


def _run(function, cases):
    """The function's values; each gets copies, so one that works in place changes nobody else's arguments."""
    return [function(*copy.deepcopy(case)) for case in cases]


def _measured(measure, values, cases):
    if measure is None:
        return values
    return [measure(value, *copy.deepcopy(case)) for value, case in zip(values, cases, strict=True)]


def _array(value):
    """A float array of a number, an array, a tensor or nested lists of them; ValueError where shapes differ."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    elif isinstance(value, list | tuple):
        value = [_array(item) for item in value]
    return np.asarray(value, dtype=float)


def _shape_problem(got, want):
    try:
        shape = _array(got).shape
    except (TypeError, ValueError):
        if hasattr(got, "__next__"):
            return f"it gives {got!r}, it can be read only once; return a list."
        return f"it gives {_parts(got) or _cut(repr(got))}, expected {_numbers(_array(want).shape)}."
    if shape != _array(want).shape:
        return f"it gives the shape {shape}, expected {_array(want).shape}."
    return None


def _parts(got):
    """The shapes of a list's parts, if each is numbers and they differ: what cannot be made one array."""
    try:
        shapes = [_array(part).shape for part in got]
    except (TypeError, ValueError):
        return None
    return f"parts of the shapes {', '.join(map(str, shapes))}" if len(set(shapes)) > 1 else None


def _numbers(shape):
    return f"numbers of shape {shape}" if shape else "one number"


def _close(got, want, rtol, atol):
    got, want = _array(got), _array(want)
    return got.shape == want.shape and np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True)


def _all_close(given, expected, rtol, atol):
    return all(_close(got, want, rtol, atol) for got, want in zip(given, expected, strict=True))


def _values(value):
    if np.issubdtype(np.asarray(value).dtype, np.integer):  # indices and ids stay whole numbers
        return str(np.asarray(value).tolist())
    return str(np.round(_array(value), 4).tolist())


def _show(case):
    return f"For the arguments {', '.join(map(_shown, case))} " if case else "Here "


def _cut(text):
    return text if len(text) <= 100 else f"{text[:100]}…"


def _shown(argument):
    if isinstance(argument, list) and any(isinstance(item, str) for item in argument):
        return repr(argument) if len(repr(argument)) <= 60 else f"{len(argument)} texts"
    if not hasattr(argument, "__len__"):
        return repr(argument)
    try:
        shape = _array(argument).shape
    except ValueError:  # rows of unequal length
        return _cut(repr(argument))
    return _values(argument) if np.prod(shape) <= 24 else f"numbers of shape {shape}"
