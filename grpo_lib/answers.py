r"""Read an answer, and one exact number, out of what a model wrote.

The rules, in the order in which they act:

| the text holds                                | it is read as                                                    |
|-----------------------------------------------|------------------------------------------------------------------|
| several, nested or broken `<answer>` tags     | the last `<answer>…</answer>` that has no answer tag inside      |
| no such pair; `<Answer>`; `< answer >`        | no answer (`None`): tags are literal and lower case              |
| `1,234.50`, `.5`, `5.`, `007`, `1e3`          | 1234.5, 0.5, 5, 7, 1000                                          |
| `$70,000`, `-$5`, `$-5`, `5 €`                | 70000, -5, -5, 5                                                 |
| `+3`, U+2212 or an en dash before a digit     | a sign; `- 3` with a space is a bullet, not a number             |
| `1/2`, `\frac{1}{2}`, `\frac12`               | the fraction, if in lowest terms: `490/70`, `2/4`, `7/1`, `1/0`, |
|                                               | `1.5/2`, `1 1/2`, `1/2/3` are not numbers, in a gold answer too  |
| `9{,}500`, `9\,500`, no-break or thin space   | 9500                                                             |
| `\boxed{5}`, `$5$`, `\[5\]`, `*5*`, `"5"` …   | what is inside (`_WRAPPERS`); a unit may follow: `**5** apples`  |
| `= 7`, `7.`, `7:`, a zero-width space, a BOM  | 7: one mark after it, one `=` before it, unseen characters       |
| `50%`, `180 apples`, `60 km/h`, `5 cm^2`,     | 50, 180, 60, 5, 9, 20: **one unit** may follow: a sign, a word,  |
| `9 sq. ft.`, `20 € per hour`, `$20/hour`      | and what it is per                                               |
| `7 eight`, `7 million`, `7k`, `7万`, `5x`,    | not one number: the word counts, hedges or denies (the lists in  |
| `7 doubled`, `7 wrong`, `7 probably`, `5 Ω`   | `grpo_lib.units`; -ly: `1 family` too), or a letter is unknown   |
| any other word: `7 kidding`, `7 acht`, `7 xy` | 7, the known gap: no list can hold every word that is *no* unit  |
| more words: `7 just kidding`, `7 red apples`  | not one number, be they honest: one unit, not a sentence         |
| Unicode decimal digits (full width, Arabic …) | their values; `10²` and `½` are not numbers                      |
| `7 or 8`, `about 7`, `7-8`, `x = 7`, `(7)`,   | not one number (`None`)                                          |
| `7 (seven)`, `7!`, `7/`, `0.3...`, `7 X-rays` |                                                                  |
| `3,5`, `1,23`, `1 234`, `1.234,56`, `12:30`   | not one number: commas group three digits, nothing else          |
| more than 300 characters                      | not one number                                                   |

Numbers are `fractions.Fraction`, so 0.1 + 0.2 is 0.3. Nothing is evaluated; every reader takes time linear in the text.
"""

import math
import re
import unicodedata
from fractions import Fraction

from grpo_lib.units import is_unit

__all__ = ["extract_answer", "extract_gsm8k_answer", "last_number", "parse_number"]

MAX_NUMBER_CHARS = 300  # below the smallest limit Python can be given for int("…"), which is 640 digits

_LOOKALIKES = str.maketrans(
    "\u2010\u2011\u2013\u2212\ufe63\uff0d\uff0b\uff0c\u066c\uff0e\u066b\uff0f\uff04\uff05",  # hyphens, dash, minus …
    "------+,,../$%",
)
_SPACED_THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|,\\!|\\,|[\u00a0\u2009\u202f])(?=\d{3}(?!\d))")
_LATEX_FRACTION = re.compile(r"(\d?)\\[dt]?frac ?(?:\{(\d{1,300})\}|(\d)) ?(?:\{(\d{1,300})\}|(\d))((?:[.,]?\d)?)")
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm)\{([^{}]*)\}")
_LATEX_SPACE = re.compile(r"\\[,:; ]")
_UNSEEN = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_WRAPPERS = (("\\boxed{", "}"), ("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"), ("**", "**"), ("*", "*"))
_WRAPPERS += (("__", "__"), ("_", "_"), ("```", "```"), ("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))
_END_MARK = re.compile(r"(?<![.,;:])[.,;:]$|(?<=[A-Za-z])!$")  # one mark; 3! is a factorial, 0.33... goes on

_INTEGER = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_PLAIN = rf"(?:{_INTEGER}(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{{1,3}}|/{_INTEGER})?"
_NUMBER = re.compile(rf"([-+]?)((?:[$€£¥₹] ?)?)([-+]?)({_PLAIN})")
# One run of number characters. A run glued to a letter (x2, H2O) is matched first, so that its tail is not read alone.
_RUN = re.compile(
    r"[A-Za-z_]\d[\d.,/:^]*"
    r"|((?:(?<![\w)\]}])[-+])?(?:[$€£¥₹][-+]?)?\.?\d[\d.,/:^²³_]*(?:[eE][-+]?\d+| \d{1,9}/\d+)?)"
)


def extract_answer(text):
    """Return the stripped content of the answer tag: the last `<answer>…</answer>` with no answer tag inside.

    The one rule covers several blocks (the last counts), nested ones (the innermost), a stray or missing tag
    (ignored) and a block cut off by the length limit (the last complete one counts).

    Args:
        text: what the model wrote.
    Returns:
        str, "" for an empty block; None if there is no complete block.

    >>> extract_answer("<answer>1</answer> no: <answer> 2 </answer>")
    '2'
    """
    answer, start = None, None
    for tag in re.finditer(r"</?answer>", text):
        if tag[0] == "<answer>":
            start = tag.end()
        elif start is not None:
            answer, start = (start, tag.start()), None
    return None if answer is None else text[slice(*answer)].strip()


def parse_number(text):
    r"""Return the exact value of a text that is one number by the module's table, else None.

    Sign, currency, thousands separators, one unit and LaTeX or Markdown wrappers may stand around the number; a second
    number, a hedge that the table names or a leading word may not. Never raises on a string.

    Args:
        text: the content of an answer tag, or a gold answer.
    Returns:
        fractions.Fraction or None.

    >>> parse_number("$1,234.50"), parse_number("180 apples"), parse_number("7 or 8")
    (Fraction(2469, 2), Fraction(180, 1), None)
    """
    text = _trimmed(text)
    if len(text) > MAX_NUMBER_CHARS:
        return None
    text = _unwrap(_plain_characters(text))
    match = _NUMBER.match(text)
    if match is None or (match[1] and match[3]) or not is_unit(text[match.end() :], bool(match[2])):
        return None
    return _value(match[4], negative="-" in (match[1], match[3]))


def last_number(text):
    r"""Return the last number of a text, tags or no tags: the lenient reader, for evaluation and never for a reward.

    Words, units and percent signs around it are ignored. If the last run of digits is not one number (`1,2,3`,
    `12:30`, `2^10`, `10²`, `490/70`), the result is None rather than a piece of it.

    Args:
        text: what the model wrote.
    Returns:
        fractions.Fraction or None.

    >>> last_number("The total is 72 clips, altogether.")
    Fraction(72, 1)
    """
    run = None
    for match in _RUN.finditer(_plain_characters(text)):
        run = match[1] or run
    if run is None or len(run) > MAX_NUMBER_CHARS:
        return None
    return parse_number(run.rstrip(".,/:^"))


def extract_gsm8k_answer(text):
    """Return the gold answer of a GSM8K solution: the number after the last `####`, without commas.

    Source: Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems (arXiv:2110.14168), whose solutions end
    in `#### answer`.

    Args:
        text: the whole worked solution, or None.
    Returns:
        str; None when there is no `####` or no single number on its line. Drop such a row: it cannot be scored.
    Raises:
        TypeError: if text is neither a string nor None.

    >>> extract_gsm8k_answer("6 boxes of 180: <<6*180=1080>>1080\\n#### 1,080")
    '1080'
    """
    if not isinstance(text, str | type(None)):
        raise TypeError(f"a worked solution must be a string or None, got {type(text).__name__}")
    _, mark, tail = (text or "").rpartition("####")
    gold = tail.strip().partition("\n")[0].strip()
    if not mark or parse_number(gold) is None:
        return None
    return re.sub(r"(?<!\\),", "", _SPACED_THOUSANDS.sub("", gold))  # 9{,}500 is 9500, not 9{}500; \, is a space


def _plain_characters(text):
    """Replace look-alike signs, other scripts' decimal digits and LaTeX's ways to write a separator."""
    text = text.translate(_LOOKALIKES)
    if not text.isascii():
        text = text.translate({ord(char): str(unicodedata.decimal(char)) for char in set(text) if char.isdecimal()})
    text = text.replace("\\$", "$").replace("\\%", "%").replace("^\\circ", "°").replace("^{\\circ}", "°")
    text = _LATEX_FRACTION.sub(_plain_fraction, text)
    return _LATEX_SPACE.sub(" ", _SPACED_THOUSANDS.sub(",", text))


def _plain_fraction(match):
    """The fraction with a slash; a ^ keeps a digit that touches it apart: 3\frac{1}{2} is not 31/2."""
    before, top, short_top, bottom, short_bottom, after = match.groups()
    plain = f"{top or short_top}/{bottom or short_bottom}"
    return f"{before}{'^' if before else ''}{plain}{'^' if after else ''}{after}"


def _trimmed(text):
    """Take off blank space and unseen characters at both ends."""
    return text.strip().strip(_UNSEEN).strip()


def _unwrap(text):
    """Take off LaTeX and Markdown wrappers, a leading `=` and one mark that ends a sentence."""
    previous, marked = None, False
    while text != previous:
        previous, text = text, _trimmed(_LATEX_TEXT.sub(r" \1", text))
        bare = text if marked else _END_MARK.sub("", text)  # one mark a layer: `7 . .` is not one number
        marked, text = marked or bare != text, bare
        text = text[1:].lstrip() if text.startswith("=") and not text.startswith("==") else text
        for left, right in _WRAPPERS:
            if not text.startswith(left):
                continue
            end = len(text) - len(right) if text.endswith(right) else text.find(right, len(left))
            if end > len(left):  # what follows is kept apart, so that no digit grows: \boxed{7}8 is not 78
                text, marked = text[len(left) : end] + " " + text[end + len(right) :], False
                break
    return text


def _value(plain, negative):
    numerator, slash, denominator = plain.replace(",", "").partition("/")
    if not slash:
        value = Fraction(numerator)
    elif numerator.isdecimal() and int(denominator) > 1 and math.gcd(int(numerator), int(denominator)) == 1:
        value = Fraction(int(numerator), int(denominator))
    else:
        return None
    return -value if negative else value
