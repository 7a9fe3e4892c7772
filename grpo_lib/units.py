"""The one unit that may follow a number: `apples`, `%`, `km/h`, `sq. ft.`, `€ per hour`, and nothing that changes it.

What is *not* a unit: a word that counts (`eight`, `million`, `doubled`), that hedges or denies (`maybe`, `wrong`, any
adverb in -ly), a lone letter that may be an unknown (`x`), and a second word. Every other word passes, since no list
can hold all units; so the lists, which are English but for the names of large numbers, leave a gap: `7 acht`.
"""

import re
import unicodedata

__all__ = ["is_unit"]

_WORD = r"([^\W\d_]+(?:\.[^\W\d_]+)*(?:\^\{?[23]\}?)?)"
_UNIT = re.compile(rf" ?(°[CF]|[%°$€£¥₹])? ?(?:(?:sq|cu|square|cubic)\.? )?{_WORD}?(?: ?(/|\bper\b) ?{_WORD})?")
_LETTERS = set("ghlLmst")  # units of one letter; any other may be an unknown: 5x

_COUNTS = re.compile(
    r"(?:one|two|three|four|five|six|seven|eight?|nine?|ten|eleven|twel(?:ve|f)|thir|fif|for|twen|hundred|thousand)"
    r"(?:teen|ty|tie)?(?:ds?|ths?|s)?"  # ninety, fourth, thirds
    r"|(?:m|b|tr)ill?i?(?:on|ón|ard)\w*|mil|mill|mio|mrd|tsd|tn|bn|mn|hundert|tausend|lakhs?|crores?"
    r"|zero|nought|nil|null|half|halves|quarters?|dozens?|score|gross|pi|point|comma|dot"
    r"|(?:squar|cub|doubl|tripl|halv)ed?|double|triple|twice|thrice|factorial|times|plus|minus|over|by|of|per"
)
_COUNTS_IN_CJK = set("半백천만억조")  # what Unicode gives no value, beside 百, 千, 万 …
_DENIES = set(
    "wrong false incorrect untrue negative not no none never neither either nor or and to vs versus but if unless ish "
    "except without maybe perhaps guess so below above under less more fewer least most max min is was".split()
)


def is_unit(text, currency=False):
    """Say whether what follows a number leaves its value alone: nothing, or one unit.

    A unit is a sign (`%`, `°C`, `€`) and one word at most, squared or cubed perhaps, and one word for what it is per.

    Args:
        text: all that stands behind the number, a few hundred characters at most.
        currency: whether a currency sign stood before the number, so that `/hour` may follow it directly.
    Returns:
        bool.

    >>> [is_unit(text) for text in ("", " km/h", " sq. ft", " million", " or 8", " red apples")]
    [True, True, True, False, False, False]
    """
    unit = _UNIT.fullmatch(" ".join(text.split()))  # a long run of blanks must not cost the pattern time
    if unit is None or (unit[3] == "/" and not (currency or unit[1] or unit[2])):
        return False
    return all(_is_unit_word(word) for word in unit.group(2, 4) if word)


def _is_unit_word(word):
    word = unicodedata.normalize("NFC", word).rstrip("{}^23²³").replace(".", "")
    if len(word) == 1:
        return word in _LETTERS or (unicodedata.category(word) == "Lo" and not _counts(word))  # Lo: 个, 元, 개
    plain = unicodedata.normalize("NFKC", word).lower()  # 𝐞𝐢𝐠𝐡𝐭 is eight
    adverb = len(plain) > 4 and plain.endswith("ly")
    return word.isalpha() and not (_counts(plain) or adverb or plain in _DENIES)


def _counts(word):
    """True for a number word, or a word with a character that has a value: 7万 is 70000."""
    valued = any(char in _COUNTS_IN_CJK or unicodedata.numeric(char, None) is not None for char in word)
    return valued or _COUNTS.fullmatch(word) is not None
