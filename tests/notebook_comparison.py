"""How a notebook's fresh outputs are compared with the stored ones: floats to a tolerance, the rest exactly.

Printed numbers are read back: whole numbers must agree exactly, others to a relative 1e-5 or, where at least three
decimals were printed, to one unit of the last one (a rounding that fell the other way).
"""

import base64
import math
import re

import numpy as np

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class Close(float):
    """A float that equals any number within a relative 1e-5 (or an absolute 1e-8), and NaN equals NaN."""

    def __eq__(self, other):
        if not isinstance(other, (int, float)):
            return False
        return math.isclose(self, other, rel_tol=1e-5, abs_tol=1e-8) or (math.isnan(self) and math.isnan(other))

    def __ne__(self, other):
        return not self == other

    __hash__ = float.__hash__


class PrintedText(str):
    """A text that equals another whose words are the same and whose numbers are close."""

    def __eq__(self, other):
        if not isinstance(other, str):
            return False
        mine, theirs = NUMBER.findall(self), NUMBER.findall(other)
        words = [[part.strip() for part in NUMBER.split(text)] for text in (self, other)]
        return words[0] == words[1] and all(map(printed_close, mine, theirs))

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


def last_digit(number):
    """The unit of a printed number's last digit, 0 where fewer than three decimals were printed.

    >>> last_digit("0.125"), last_digit("-1.250e-04"), last_digit("12.5"), last_digit("7")
    (0.001, 1e-07, 0.0, 0.0)
    """
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}") if decimals >= 3 else 0.0


def printed_close(left, right):
    """Whether two printed numbers may come from the same computation on two machines.

    >>> printed_close("0.1250", "0.1251"), printed_close("0.1250", "0.1252"), printed_close("19", "20")
    (True, False, False)
    """
    if left == right:
        return True
    if re.fullmatch(r"[-+]?\d+", left) and re.fullmatch(r"[-+]?\d+", right):
        return int(left) == int(right)
    unit = max(last_digit(left), last_digit(right))
    return float(left) == Close(float(right)) or abs(float(left) - float(right)) <= unit * (1 + 1e-6)


def comparable(output):
    """The same output with floats, printed text and Plotly's packed arrays made comparable, however deep they are."""
    if isinstance(output, dict):
        if {"bdata", "dtype"} <= output.keys():
            values = np.frombuffer(base64.b64decode(output["bdata"]), dtype=output["dtype"])
            return [str(output.get("shape", "")), *map(Close, values.tolist())]
        return {key: comparable(value) for key, value in output.items() if key not in ("uid", "template")}
    if isinstance(output, (list, tuple)):
        return [comparable(value) for value in output]
    if isinstance(output, float):
        return Close(output)
    return PrintedText(output) if isinstance(output, str) else output
