r"""Read an answer, and one exact number, out of what a model wrote.

The rules, in the order in which they act:

| the text holds                                | it is read as                                                    |
|-----------------------------------------------|------------------------------------------------------------------|
| several, nested or broken `<answer>` tags     | the last `<answer>…</answer>` that has no answer tag inside      |
| no such pair; `<Answer>`; `< answer >`        | no answer (`None`): tags are literal and lower case              |
| `1,234.50`, `.5`, `5.`, `007`, `1e3`          | 1234.5, 0.5, 5, 7, 1000                                          |
| `$70,000`, `-$5`, `$-5`, `5 €`                | 70000, -5, -5, 5                                                 |
| `+3`, U+2212 or an en dash before a digit     | a sign; `- 3` with a space is a bullet, not a number             |
| `50%`, `180 apples`, `60 km/h`, `5 m²`        | 50, 180, 60, 5: a percent sign is a unit too, up to 4 unit words |
| `1/2`, `\frac{1}{2}`                          | the fraction; `1/0`, `1 1/2`, `1/2/3` are not numbers            |
| `9{,}500`, `9\,500`, no-break or thin space   | 9500                                                             |
| `\boxed{5}`, `$5$`, `\(5\)`, `**5**`          | what is inside                                                   |
| Unicode decimal digits (full width, Arabic …) | their values; `10²` and `½` are not numbers                      |
| `7 or 8`, `about 7`, `7-8`, `x = 7`, `(7)`     | not one number (`None`): unclear answers are never guessed       |
| `3,5`, `1,23`, `1 234`, `1.234,56`, `12:30`   | not one number: commas group three digits, nothing else          |
| `7 million`, `7k`, `5x`, `3 and a half`       | not one number: the word would change the value                  |
| more than 300 characters                      | not one number                                                   |

Numbers are `fractions.Fraction`, so 0.1 + 0.2 is 0.3. Nothing is evaluated; every reader takes time linear in the text.
"""

import re
import unicodedata
from fractions import Fraction

__all__ = ["extract_answer", "extract_gsm8k_answer", "last_number", "parse_number"]

MAX_NUMBER_CHARS = 300  # below the smallest limit Python can be given for int("…"), which is 640 digits

_LOOKALIKES = str.maketrans(
    "\u2010\u2011\u2013\u2212\ufe63\uff0d\uff0b\uff0c\u066c\uff0e\u066b\uff0f\uff04\uff05",  # hyphens, dash, minus …
    "------+,,../$%",
)
_SPACED_THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|,\\!|\\,|[\u00a0\u2009\u202f])(?=\d{3}(?!\d))")
_LATEX_FRACTION = re.compile(r"(\d?)\\[dt]?frac\{(\d{1,300})\}\{(\d{1,300})\}")
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm)\{([^{}]*)\}")
_WRAPPERS = (("\\boxed{", "}"), ("\\(", "\\)"), ("$", "$"), ("**", "**"))

_INTEGER = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_PLAIN = rf"(?:{_INTEGER}(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{{1,3}}|/{_INTEGER})?"
_NUMBER = re.compile(rf"([-+]?)(?:[$€£¥₹] ?)?([-+]?)({_PLAIN})")
# One run of number characters. A run glued to a letter (x2, H2O) is matched first, so that its tail is not read alone.
_RUN = re.compile(
    r"[A-Za-z_]\d[\d.,/:^]*"
    r"|((?:(?<![\w)\]}])[-+])?(?:[$€£¥₹][-+]?)?\.?\d[\d.,/:^²³_]*(?:[eE][-+]?\d+| \d{1,9}/\d+)?)"
)

_UNIT_SIGNS = set("%°$€£¥₹") | {"°C", "°F"}
_UNIT_LETTERS = set("ghlLmst")  # any other single Latin letter may be an unknown: 5x
_NOT_UNITS = set(
    "k bn mn tens hundred thousand million billion trillion lakh crore dozen half halves quarter quarters third thirds "
    "fourths fifths sixths sevenths eighths ninths tenths hundredths thousandths pi squared cubed factorial below "
    "above hundreds thousands millions billions dozens plus minus over and or to nor not maybe perhaps "
    "approximately".split()
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
    r"""Return the exact value of a text that is one unambiguous number, else None.

    Sign, currency, thousands separators, a percent sign or unit and LaTeX wrappers may stand around the number
    (the module's table); a second number, a hedge or a leading word may not. Never raises on a string.

    Args:
        text: the content of an answer tag, or a gold answer.
    Returns:
        fractions.Fraction or None.

    >>> parse_number("$1,234.50"), parse_number("180 apples"), parse_number("7 or 8")
    (Fraction(2469, 2), Fraction(180, 1), None)
    """
    text = text.strip()
    if len(text) > MAX_NUMBER_CHARS:
        return None
    text = _unwrap(_plain_characters(text))
    match = _NUMBER.match(text)
    if match is None or (match[1] and match[2]) or not _is_unit(text[match.end() :]):
        return None
    return _value(match[3], negative="-" in (match[1], match[2]))


def last_number(text):
    r"""Return the last number of a text, tags or no tags: the lenient reader, for evaluation and never for a reward.

    Words, units and percent signs around it are ignored. If the last run of digits is not one number (`1,2,3`,
    `12:30`, `2^10`, `10²`), the result is None rather than a piece of it.

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
    return gold.replace(",", "")


def _plain_characters(text):
    """Replace look-alike signs, other scripts' decimal digits and LaTeX's ways to write a separator."""
    text = text.translate(_LOOKALIKES)
    if not text.isascii():
        text = text.translate({ord(char): str(unicodedata.decimal(char)) for char in set(text) if char.isdecimal()})
    text = text.replace("\\$", "$").replace("\\%", "%")
    text = _LATEX_FRACTION.sub(lambda m: f"{m[1]}{'^' if m[1] else ''}{m[2]}/{m[3]}", text)  # 3\frac{1}{2} is not 31/2
    return _SPACED_THOUSANDS.sub(",", text)


def _unwrap(text):
    """Take off LaTeX and Markdown wrappers and the punctuation that ends a sentence."""
    previous = None
    while text != previous:
        previous, text = text, _LATEX_TEXT.sub(r" \1", text).strip().rstrip(".,;!")
        for left, right in _WRAPPERS:
            if text.startswith(left) and text.endswith(right) and len(text) > len(left) + len(right):
                text = text[len(left) : -len(right)]
    return text


def _is_unit(rest):
    """True if what follows a number leaves its value alone: nothing, a percent or currency sign, up to 4 unit words."""
    words = rest.replace("/", " ").split()
    return len(words) <= 4 and all(_is_unit_word(word) for word in words)


def _is_unit_word(word):
    if word in _UNIT_SIGNS:
        return True
    word = word.rstrip("²³")
    if len(word) == 1 and word.isascii():
        return word in _UNIT_LETTERS
    return word.isalpha() and word.lower() not in _NOT_UNITS


def _value(plain, negative):
    numerator, _, denominator = plain.replace(",", "").partition("/")
    denominator = Fraction(denominator or 1)
    if denominator == 0:
        return None
    value = Fraction(numerator) / denominator
    return -value if negative else value
