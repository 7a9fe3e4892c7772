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


def judge(exercise, attempt, reference, cases, slips, *, praise="", rtol=1e-4, atol=1e-6):
    """Run an attempt on every case and say what is right, or which slip it is.

    Args:
        exercise: its name. attempt: the student's function; one that returns None or ..., or raises
            NotImplementedError, counts as not attempted.
        reference: the right function. cases: a list of argument tuples.
        slips: dict name → (function, explanation); a slip is named when it gives the attempt's values on every case.
        praise: shown when all is right.
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
    expected = _run(reference, cases)
    for case, got, want in zip(cases, given, expected, strict=True):
        problem = _shape_problem(got, want)
        if problem:
            return Verdict(exercise, WRONG, f"For {_show(case)} {problem}")
    if _all_close(given, expected, rtol, atol):
        return Verdict(exercise, RIGHT, praise)
    for name, (slip, explanation) in slips.items():
        if _all_close(given, _run(slip, cases), rtol, atol):
            return Verdict(exercise, WRONG, explanation, name)
    first = next(i for i, pair in enumerate(zip(given, expected, strict=True)) if not _close(*pair, rtol, atol))
    return Verdict(
        exercise,
        WRONG,
        f"For {_show(cases[first])} it gives {_values(given[first])}, expected {_values(expected[first])}.",
    )


def _run(function, cases):
    """The function's values; each gets copies, so one that works in place changes nobody else's arguments."""
    return [function(*copy.deepcopy(case)) for case in cases]


def _array(value):
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, dtype=float)


def _shape_problem(got, want):
    try:
        shape = _array(got).shape
    except (TypeError, ValueError):
        rule = "it can be read only once; return a list." if hasattr(got, "__next__") else "expected numbers."
        return f"it gives {got!r}, {rule}"
    if shape != _array(want).shape:
        return f"it gives the shape {shape}, expected {_array(want).shape}."
    return None


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
    return "the arguments " + ", ".join(map(_shown, case))


def _shown(argument):
    if isinstance(argument, list) and any(isinstance(item, str) for item in argument):
        text = repr(argument)
        return text if len(text) <= 100 else f"{text[:100]}…"
    if not hasattr(argument, "__len__"):
        return repr(argument)
    shape = _array(argument).shape
    return _values(argument) if np.prod(shape) <= 24 else f"numbers of shape {shape}"
