"""The rules of the tables in grpo_lib.answers and grpo_lib.rewards, on text as models write it; R ids: field cases."""

import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lib import rewards as rewards_module
from grpo_lib.rewards import (
    TAGS,
    check_rewards,
    combined_reward,
    completion_text,
    correctness_reward,
    extract_answer,
    extract_gsm8k_answer,
    format_reward,
    last_number,
    parse_failure_rate,
    parse_number,
    score_completions,
)

WELL_FORMED = "<reasoning>\nline 1\nline 2\n</reasoning>\n<answer>\n9\n</answer>"
REWARDS = (correctness_reward, format_reward, combined_reward)


def case(name, *values):
    return pytest.param(*values, id=name)


def correctness(text, gold):
    return correctness_reward(["?"], [text], [gold])[0]


def tags_paid(text):
    return round(format_reward(["?"], [text], ["9"])[0] / 0.2)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "text, value",
    [
        case("R04-currency", "$70,000", "70000"),
        case("R04-thousands", "1,234", "1234"),
        case("R04-millions", "12,345,678.90", "12345678.9"),
        case("R04-euro-after", "5 €", "5"),
        case("R04-currency-word", "70,000 dollars", "70000"),
        case("R05-boxed-dollar", "\\boxed{$9{,}500}", "9500"),
        case("R05-boxed", "\\boxed{8,000}", "8000"),
        case("R05-thin-space", "9\\,500", "9500"),
        case("R05-no-break-space", "9\u00a0500", "9500"),
        case("R05-latex-dollar", "$\\$1{,}000{,}000$", "1000000"),
        case("R05-text-unit", "\\(5\\text{ apples}\\)", "5"),
        case("R07-money-zeros", " $1,234.50 ", "1234.5"),
        case("R07-bare-point", "5.", "5"),
        case("R07-no-zero", ".50", "0.5"),
        case("R07-leading-zeros", "007", "7"),
        case("R08-minus", "-3", "-3"),
        case("R08-minus-sign", "\u22123", "-3"),
        case("R08-en-dash", "\u20133", "-3"),
        case("R08-plus", "+3", "3"),
        case("R08-before-currency", "-$5", "-5"),
        case("R08-after-currency", "$-5", "-5"),
        case("percent", "50%", "50"),
        case("percent-latex", "50\\%", "50"),
        case("unit", "180 apples", "180"),
        case("unit-per", "60 km/h", "60"),
        case("unit-glued", "5kg.", "5"),
        case("unit-squared", "5 m²", "5"),
        case("unit-chinese", "72个", "72"),
        case("bold", "**72**", "72"),
        case("exponent", "1.5e3", "1500"),
        case("full-width-digits", "１，２３４．５", "1234.5"),
        case("arabic-digits", "١٬٢٣٤٫٥", "1234.5"),
        case("bold-digits", "𝟕𝟐", "72"),
        case("fraction", "1/2", "0.5"),
        case("fraction-latex", "-\\frac{1}{2}", "-0.5"),
        case("fraction-latex-short", "\\frac12", "0.5"),
        case("fraction-latex-half-short", "\\dfrac1{20}", "0.05"),
        case("fraction-above-1", "5/4", "1.25"),
        case("equals", "= 7", "7"),
        case("equals-in-maths", "$= 7$", "7"),
        case("colon", "7:", "7"),
        case("zero-width-space", "\u200b7\u200b", "7"),
        case("zero-width-inside-bold", "**\u200b7**", "7"),
        case("byte-order-mark", "\ufeff7", "7"),
        case("exclamation-after-a-word", "7 apples!", "7"),
        case("unit-thin-space", "7\\,\\text{cm}", "7"),
        case("unit-circle", "45^\\circ", "45"),
    ],
)
def test_parse_number_reads(text, value):
    assert parse_number(text) == Fraction(Decimal(value))


WRAPPED = r"""\boxed{#}|$#$|$$#$$|\(#\)|\[#\]|*#*|**#**|***#***|_#_|__#__|`#`|```
#
```|"#"|'#'|“#”|‘#’|$\boxed{#}$|**`#`**""".split("|")


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_every_wrapper_is_taken_off_and_obeys_the_one_unit_rule(wrapped):
    for text in ("#", "# apples", "#.", "**#**", "-#", "#%", "\\text{ # }"):
        inside = wrapped.replace("#", text.replace("#", "7"))
        assert parse_number(inside) == (-7 if "-" in text else 7), inside
    plain = wrapped.replace("#", "7")
    for after in (" apples", "%", " cm^2", " km/h", " sq. ft.", "."):
        assert parse_number(plain + after) == 7, plain + after
    for after in ("8", " 8", ".5", "^2", "²", "/8", "!", " or 8", " eight", "k", " wrong", "-8", "e3", " red apples"):
        assert parse_number(plain + after) is None, plain + after
    for text in (f"{plain} or {plain}", f"{plain}{plain}", f"{plain}*8*", wrapped.replace("#", "7 or 8")):
        assert parse_number(text) is None, text
    never_closed = wrapped.partition("#")[0] + "7"
    assert parse_number(never_closed) == (7 if never_closed == "$7" else None)
    assert parse_number(wrapped.replace("#", "")) is None


@pytest.mark.parametrize(
    "unit",
    "apples|km/h|km / h|km/hour|cm^2|cm²|cm^{3}|m/s^2|sq. ft.|square meters|cubic feet|a.m.|U.S.|percent|°C"
    "|%|€|€ per kg|apples per day|per day|个|元|円|개|tents|tennis|forks|milligrams|miles|cents|seconds|lilies"
    "|ninjas|onions|m|h|g".split("|"),
)
def test_one_unit_may_follow(unit):
    assert parse_number(f"7 {unit}") == 7


def test_what_a_price_is_per_may_follow_it_directly():
    assert parse_number("$7/hour") == parse_number("$7 per hour") == 7
    assert parse_number("7/hour") is None


@pytest.mark.parametrize(
    "after",
    "eight nine ten|point five|comma five|/eight|/x|per eight|sieben acht|feet four|six|thirteen|forty|twentieth|ninety"
    "|tenth|fourth|hundredth|thirds|halves|dozen|mil|Mio|Mio.|Mrd|millones|millions|Trillionen|Milliarden|Hundert"
    "|万|万円|百|七|半|만|만원|½|π|𝑥|х|x|x^2|pi^2|wrong|is wrong|negative|probably|supposedly|possibly|ish|either eight"
    "|vs eight|times two|doubled|tripled|squared|unless wrong|minus|not|/| /|//eight|// eight|/hour|..|...|…|!| !|!!"
    "|EIGHT|Eight|𝐞𝐢𝐠𝐡𝐭|e-i-g-h-t|°C °F|% %".split("|"),
)
def test_what_counts_hedges_or_denies_is_no_unit(after):
    assert parse_number(f"7{after}") is None
    assert parse_number(f"7 {after}") is None


def test_what_the_unit_rule_gets_wrong_is_known():  # the table says so: the gap, and its price
    for paid in ("7 kidding", "7 acht", "7 xy", "7 apples/oranges"):
        assert parse_number(paid) == 7, paid
    for refused in (
        "7 just kidding",
        "180 red apples",
        "5 apples left",
        "1 family",
        "7 T-shirts",
        "7 (seven)",
        "5 Ω",
        "7!",
    ):
        assert parse_number(refused) is None, refused


@given(top=st.integers(0, 10**6), bottom=st.integers(0, 10**4))
@settings(max_examples=200, deadline=None)
def test_a_fraction_is_read_in_lowest_terms_only(top, bottom):  # 490/70 leaves the division to the reader
    lowest = bottom > 1 and Fraction(top, bottom).denominator == bottom
    for text in (f"{top}/{bottom}", f"\\frac{{{top}}}{{{bottom}}}", f"$\\dfrac{{{top}}}{{{bottom}}}$ apples"):
        assert parse_number(text) == (Fraction(top, bottom) if lowest else None)


@pytest.mark.parametrize(
    "text",
    [
        case("copied-division", "490/70"),
        case("decimal-over", "1.5/2"),
        case("latex-half-then-3", "\\frac{1}{2}3"),
        case("latex-short-then-3", "\\frac123"),
        case("latex-short-mixed", "2\\frac12"),
        case("two-equals", "== 7"),
        case("not-equal", "!= 7"),
        case("zero-width-between", "1\u200b2"),
        case("unseen-only", "\u200b\ufeff"),
        case("R29-or", "7 or 8"),
        case("R29-or-word", "7 or eight"),
        case("R29-about", "about 7"),
        case("R29-tilde", "~7"),
        case("R29-range", "7-8"),
        case("R29-range-dash", "7–8"),
        case("R29-maybe", "7 maybe"),
        case("R29-list", "7, 8"),
        case("R29-list-space", "7 8"),
        case("R29-sentence", "The answer is 7"),
        case("R29-equation", "x = 7"),
        case("R29-time", "12:30"),
        case("R29-date", "5/10/2024"),
        case("R05-bad-group", "1,23"),
        case("R05-decimal-comma", "1.234,56"),
        case("R05-indian", "1,00,000"),
        case("R05-space-group", "9 500"),
        case("R08-two-signs", "--3"),
        case("R08-sign-twice", "-$-3"),
        case("R08-bullet", "- 3"),
        case("R08-brackets", "(3)"),
        case("scale-word", "7 million"),
        case("scale-k", "7k"),
        case("scale-m", "7M"),
        case("half", "3 and a half"),
        case("quarters", "3 quarters"),
        case("fifths", "2 fifths"),
        case("lakh", "7 lakh"),
        case("below", "5 below zero"),
        case("unknown", "5x"),
        case("superscript", "10²"),
        case("vulgar-fraction", "½"),
        case("mixed-number", "1 1/2"),
        case("mixed-latex", "3\\frac{1}{2}"),
        case("zero-denominator", "1/0"),
        case("exponent-huge", "1e999999999"),
        case("expression", "3+4"),
        case("code", "__import__('os')"),
        case("nan", "nan"),
        case("infinity", "inf"),
        case("underscore", "1_000"),
        case("hex", "0x10"),
        case("five-words", "7 very big red shiny apples"),
        case("R20-empty", ""),
        case("R20-newlines", "\n\n"),
        case("currency-only", "$"),
    ],
)
def test_parse_number_never_guesses(text):
    assert parse_number(text) is None


@pytest.mark.parametrize(
    "text, value",
    [
        case("R01-comma", "The total is 72 clips, altogether.", 72),
        case("R01-full-stop", "So it is 72.", 72),
        case("R01-colon", "72: that is all", 72),
        case("R05-boxed-dollar", "\\boxed{$9{,}500}", 9500),
        case("R05-boxed", "so \\boxed{8,000} it is", 8000),
        case("R10-long-tail", "2+40=42\n#### 42\n" + "and so on, " * 60, 42),
        case("R08-minus", "it is \u22123", -3),
        case("R08-difference", "10-3", 3),
        case("R08-currency", "a loss of -$1,200.50!", Fraction("-1200.5")),
        case("equals", "2+40=42", 42),
        case("tags", "<answer>\n72\n</answer>", 72),
        case("chinese", "答案是72。", 72),
        case("fraction", "that is \\frac{1}{2} of it", Fraction(1, 2)),
        case("word-with-digit", "5 molecules of H2O", 5),
        case("R05-list", "1,2,3", None),
        case("version", "in x1.5", None),
        case("time", "at 12:30", None),
        case("power", "2^10", None),
        case("square", "10²", None),
        case("mixed", "in all 1 1/2", None),
        case("copied-division", "so 490/70", None),
        case("latex-then-digit", "\\frac{1}{2}3", None),
        case("none", "no number here", None),
    ],
)
def test_last_number(text, value):
    assert last_number(text) == value


@given(
    value=st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12),
    currency=st.sampled_from(["", "$", "€"]),
    unit=st.sampled_from(["", "%", " apples", " km/h"]),
    minus=st.sampled_from("-\u2212"),
)
@settings(max_examples=100, deadline=None)
def test_a_formatted_number_reads_back(value, currency, unit, minus):
    sign, size = (minus if value < 0 else ""), abs(value)
    text = f"{sign}{currency}{size:,f}{unit}"
    assert parse_number(text) == Fraction(value)
    assert last_number(f"So we get {text}, as said.") == Fraction(value)


NUMBER_PIECES = ("7", "9", "$", ",", ".", "-", "/", "%", " ", "\n", "²", "e5", "\\boxed{", "\\frac{1}{2}", "}")
PIECES = st.sampled_from(TAGS + NUMBER_PIECES)
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=14).map("".join))


@given(text=TEXTS)
@settings(max_examples=100, deadline=None)
def test_no_text_makes_a_reader_or_a_reward_fail(text):
    for reader in (parse_number, last_number):
        assert isinstance(reader(text), Fraction | type(None))
    assert extract_answer(text) is None or extract_answer(text) in text
    assert extract_gsm8k_answer(text) is None or parse_number(extract_gsm8k_answer(text)) is not None
    right, tags, both = (reward(["?"], [text], ["9"])[0] for reward in REWARDS)
    assert right in {0.0, 1.5, 2.0}
    assert tags in {0.0, 0.2, 0.4, 0.6, 0.8}
    assert both == right + tags and 0 <= both <= 2.8


HOSTILE = [
    "9" * 10**6,
    "٣" * 10**6,
    "1," * 100_000,
    "-$" * 100_000,
    "{,}9" * 50_000,
    "x1.5" * 50_000,
    "1 1/1" * 40_000,
    "\\frac{1" * 30_000,
    "\\frac1" * 30_000,
    "\\, \\;" * 30_000,
    '"`*_' * 30_000,
    "7" + "\u200b" * 10**6 + "?",
    "<answer>" * 125_000,
    "<answer></answer>" * 12_000,
    "<answer>" + "9" * 10**6 + "</answer>",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:9])
def test_long_hostile_text_does_no_harm(text):  # anything quadratic would hang here
    assert parse_number(text) is None
    last_number(text)
    extract_gsm8k_answer("####" + text)
    assert combined_reward(["?"], [text], ["5"])[0] <= 0.8


def test_the_interpreters_digit_limit_is_never_met():
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert parse_number("9" * 300) == 10**300 - 1
        assert parse_number("9" * 301) is None and last_number("9" * 5000) is None
    finally:
        sys.set_int_max_str_digits(limit)


# ---------------------------------------------------------------- tags


@pytest.mark.parametrize(
    "text, found",
    [
        case("R18-last-block", "<answer>1</answer><answer>2</answer>", "2"),
        case("nested", "<answer>1<answer>2</answer></answer>", "2"),
        case("opened-twice", "<answer>1 <answer>2</answer>", "2"),
        case("closed-twice", "<answer>1</answer> 2</answer>", "1"),
        case("cut-off", "<answer>1</answer><answer>2", "1"),
        case("never-closed", "<answer>1", None),
        case("never-opened", "1</answer>", None),
        case("wrong-way-round", "</answer>1<answer>", None),
        case("capitals", "<Answer>1</Answer>", None),
        case("space-in-tag", "<answer>1</answer >", None),
        case("R07-not-xml", "a < b & c <answer>\n 1 \n</answer>", "1"),
        case("R20-empty", "<answer>\n\n</answer>", ""),
    ],
)
def test_extract_answer(text, found):
    assert extract_answer(text) == found


@pytest.mark.parametrize(
    "text, gold, reward",
    [
        case("exact", WELL_FORMED, "9", 2.0),
        case("gold-is-an-int", WELL_FORMED, 9, 2.0),
        case("gold-is-numpy", WELL_FORMED, np.int64(9), 2.0),
        case("gold-with-spaces", WELL_FORMED, " 9\n", 2.0),
        case("equal", "<answer>9.00</answer>", "9", 1.5),
        case("wrong", "<answer>8</answer>", "9", 0.0),
        case("R01-no-tag", "The total is 72 clips, altogether.", "72", 0.0),
        case("R10-no-tag", "2+40=42\n#### 42\n", "42", 0.0),
        case("R04-currency", "<answer>\n$70,000\n</answer>", "70000", 1.5),
        case("R04-gold-has-commas", "<answer>70000</answer>", "70,000", 1.5),
        case("R05-boxed", "<answer>\\boxed{$9{,}500}</answer>", "9500", 1.5),
        case("R05-boxed-not-500", "<answer>\\boxed{$9{,}500}</answer>", "500", 0.0),
        case("R05-boxed-no-tag", "\\boxed{8,000}", "8000", 0.0),
        case("R07-not-xml", "<reasoning>a < b & c</reasoning><answer>\n $1,234.50 \n</answer>", "1234.5", 1.5),
        case("R07-not-a-substring", "<answer>19 or 9</answer>", "9", 0.0),
        case("R08-minus", "<answer>-3</answer>", "-3", 2.0),
        case("R08-lost-minus", "<answer>3</answer>", "-3", 0.0),
        case("R08-minus-sign", "<answer>\u22123</answer>", "-3", 1.5),
        case("R18-first", "<answer>1</answer><answer>2</answer>", "1", 0.0),
        case("R18-last", "<answer>1</answer><answer>2</answer>", "2", 2.0),
        case("R20-empty", "<answer></answer>", "5", 0.0),
        case("R20-newlines", "<answer>\n\n</answer>", "5", 0.0),
        case("R20-no-text", "", "5", 0.0),
        case("R20-gold-zero", "<answer></answer>", "0", 0.0),
        case("R29-or", "<answer>\n7 or 8\n</answer>", "7", 0.0),
        case("R29-about", "<answer>\nabout 7\n</answer>", "7", 0.0),
        case("percent-is-a-unit", "<answer>50%</answer>", "50", 1.5),
        case("percent-is-not-a-hundredth", "<answer>50%</answer>", "0.5", 0.0),
        case("decimals-are-exact", "<answer>0.30</answer>", "0.3", 1.5),
        case("long-numbers-are-exact", "<answer>10000000000000000001.0</answer>", "10000000000000000000", 0.0),
    ],
)
def test_correctness_reward(text, gold, reward):
    assert correctness(text, gold) == reward


@pytest.mark.parametrize(
    "text, tags",
    [
        case("R13-new-lines", WELL_FORMED, 4),
        case("R13-one-line", WELL_FORMED.replace("\n", " "), 4),
        case("R14-no-new-line-at-the-end", "<reasoning>" + "a" * 555 + "</reasoning><answer>9</answer>", 4),
        case("R14-new-line-at-the-end", "<reasoning>" + "a" * 555 + "</reasoning><answer>9</answer>\n", 4),
        case("R15-no-tags", "9", 0),
        case("R15-answer-twice", WELL_FORMED.replace("<answer>", "<answer><answer>"), 3),
        case("R15-all-twice", WELL_FORMED * 2, 0),
        case("R15-all-a-hundred-times", WELL_FORMED * 100, 0),
        case("R17-two-reasoning-blocks", "<reasoning>a</reasoning><reasoning>b</reasoning><answer>9</answer>", 2),
        case("R07-not-xml", "<reasoning>a < b & c</reasoning><answer>9</answer>", 4),
        case("R32-prefilled", "a\n</reasoning>\n<answer>\n4\n</answer>", 3),
        case("order-answer-first", "<answer>9</answer><reasoning>a</reasoning>", 2),
        case("order-closed-before-opened", "</reasoning>a<reasoning><answer>9</answer>", 3),
        case("order-reversed", "</answer><answer></reasoning><reasoning>", 1),
        case("cut-off", "<reasoning>a</reasoning><answer>9", 3),
        case("capitals", WELL_FORMED.upper(), 0),
        case("text-around", "Well. " + WELL_FORMED + " Done.", 4),
        case("empty-blocks", "".join(TAGS), 4),
    ],
)
def test_format_reward(text, tags):
    assert tags_paid(text) == tags
    assert format_reward(["?"], [text], ["9"]) == [tags / 5]


@given(text=st.lists(PIECES, max_size=12).map("".join), tag=st.sampled_from(TAGS))
@settings(max_examples=100, deadline=None)
def test_only_exactly_one_of_each_is_full_and_a_second_tag_never_pays(text, tag):
    in_order = sorted(TAGS, key=text.find) == list(TAGS)
    assert (tags_paid(text) == 4) == (in_order and all(text.count(t) == 1 for t in TAGS))
    if tag in text and tags_paid(text) == 4:
        assert tags_paid(text + tag) == 3


def test_a_prefilled_tag_leaves_advantages_alone():  # R32
    body = ["a\n</reasoning>\n<answer>4</answer>", "a</reasoning>", "a"]
    without, full = (
        np.array(format_reward(["?"] * 3, [lead + text for text in body], ["4"] * 3)) for lead in ("", TAGS[0])
    )
    np.testing.assert_allclose(without - without.mean(), full - full.mean(), atol=1e-12)
    assert without.std() > 0 and full[0] == 0.8


# ---------------------------------------------------------------- gold answers


@pytest.mark.parametrize("gold", ["", None, "see text", "7 or 8", float("nan"), True, ["5"]], ids=repr)
def test_R22_a_gold_answer_that_cannot_be_scored_raises(gold):
    for reward in (correctness_reward, combined_reward):
        with pytest.raises(ValueError, match="correctness_reward: row 1 of 2: a gold answer must be one number"):
            reward(["?"] * 2, [WELL_FORMED] * 2, ["9", gold])
    assert format_reward(["?"] * 2, [WELL_FORMED] * 2, ["9", gold]) == [0.8, 0.8]


@pytest.mark.parametrize(
    "text, gold",
    [
        case("R24-worked-solution", "He has 6 boxes ... <<6*30=180>>180\n#### 180", "180"),
        case("R24-commas", "#### 1,080", "1080"),
        case("R08-minus", "It fell.\n#### -3", "-3"),
        case("R10-text-after", "2+40=42\n#### 42\n" + "and so on " * 50, "42"),
        case("R10-latex-thousands", "#### 9{,}500", "9500"),
        case("R10-latex-thin-space", r"#### 9\,500", "9500"),
        case("R10-print-thin-space", "#### 9\u202f500", "9500"),
        case("R10-latex-space-before", r"#### \,5", r"\,5"),
        case("last-mark", "#### Step 1\n6*7\n#### 42", "42"),
        case("decimal", "#### 3.50", "3.50"),
        case("R24-no-mark", "He has 6 boxes of 30, so 180", None),
        case("R22-nothing-after", "6*30\n####", None),
        case("R22-no-number-after", "#### see text", None),
        case("R22-none", None, None),
    ],
)
def test_extract_gsm8k_answer(text, gold):
    assert extract_gsm8k_answer(text) == gold


def test_extract_gsm8k_answer_takes_text_only():
    with pytest.raises(TypeError, match="string or None, got int"):
        extract_gsm8k_answer(180)


# ---------------------------------------------------------------- what goes in


@pytest.mark.parametrize("reward", REWARDS)
def test_R26_strings_and_messages_score_alike_as_a_trainer_calls(reward):
    texts = [WELL_FORMED, "9", "<answer>9.0</answer>"]
    extra = dict(completion_ids=[[1], [2], [3]], trainer_state=object(), log_extra=print, log_metric=print)
    batch = dict(prompts=["?"] * 3, answer=["9"] * 3, **extra)
    messages = [[{"role": "assistant", "content": text}] for text in texts]
    scores = reward(completions=texts, **batch)
    assert reward(completions=messages, **batch) == scores
    assert reward(completions=[[{"content": text}] for text in texts], **batch) == scores
    assert len(set(scores)) > 1 and all(type(score) is float for score in scores)


def test_combined_reward_by_hand():
    texts = [WELL_FORMED, "<answer>9.0</answer>", "9", "<reasoning></reasoning><answer></answer>"]
    assert combined_reward(["?"] * 4, texts, ["9"] * 4) == [2.8, 1.9, 0.0, 0.8]


def test_only_the_assistant_is_scored():
    tool = [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "<answer>9</answer>"},
        {"role": "assistant", "content": "I give up"},
    ]
    assert completion_text(tool) == "I give up"
    assert correctness(tool, "9") == 0.0


@pytest.mark.parametrize(
    "completion", [None, 5, {"content": "9"}, ["9"], [], [{"role": "user", "content": "9"}], [{"content": 9}]], ids=repr
)
def test_R26_other_completions_raise_with_the_format(completion):
    with pytest.raises(TypeError, match=r"a string or a list of messages \[\{'content': 'text'\}\]"):
        completion_text(completion)
    for reward, name in zip(REWARDS, ("correctness_reward", "format_reward", "correctness_reward"), strict=True):
        with pytest.raises(TypeError, match=f"{name}: row 1 of 2"):
            reward(["?"] * 2, ["9", completion], ["9"] * 2)


@pytest.mark.parametrize("counts", [(1, 2, 2), (2, 2, 1), (2, 1, 2)], ids=str)
def test_lengths_must_agree(counts):
    text = "{} prompts, {} completions and {} answers".format(*counts)
    for reward in REWARDS:
        with pytest.raises(ValueError, match=text):
            reward(*([["9"] * count for count in counts]))


def test_a_string_is_not_a_batch():
    with pytest.raises(TypeError, match="format_reward: answer must be a list"):
        format_reward(["?"] * 2, ["9"] * 2, "42")
    with pytest.raises(TypeError, match="correctness_reward: completions must be a list"):
        correctness_reward(["?"] * 2, "42", ["4", "2"])


def test_an_empty_batch_has_no_rewards():
    assert combined_reward([], [], []) == []


def test_R29_parse_failure_rate():
    texts = ["<answer>7</answer>", "<answer>7 or 8</answer>", "7", "<answer></answer>"]
    assert parse_failure_rate(texts) == 0.75
    assert parse_failure_rate([[{"content": texts[0]}]]) == 0.0
    with pytest.raises(ValueError, match="at least one completion"):
        parse_failure_rate([])


# ---------------------------------------------------------------- what comes out


@pytest.mark.parametrize(
    "given_rewards",
    [[1, True, 0.5], (1, 1.0, 0.5), np.array([1, 1, 0.5], np.float32), torch.tensor([1, 1, 0.5], dtype=torch.bfloat16)],
    ids=lambda rewards: type(rewards).__name__,
)
def test_check_rewards_takes_numbers_of_every_make(given_rewards):
    checked = check_rewards(given_rewards, 3, "mine")
    assert checked == [1.0, 1.0, 0.5] and all(type(reward) is float for reward in checked)
    assert check_rewards([reward for reward in given_rewards], 3, "mine") == checked


@pytest.mark.parametrize("given_rewards, got", [([1.0], 1), ([1.0] * 3, 3), ([], 0), (torch.ones(8), 8)])
def test_R25_the_wrong_number_of_rewards_is_never_spread(given_rewards, got):
    with pytest.raises(ValueError, match=f"mine must return one finite .*got {got} rewards for 4 completions"):
        check_rewards(given_rewards, 4, "mine")


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "1.0",
        float("nan"),
        float("inf"),
        -np.inf,
        torch.tensor(float("nan")),
        [1.0],
        np.ones(1),
        torch.ones(1),
        1j,
        10**400,
    ],
    ids=lambda bad: repr(bad)[:12],
)
def test_a_reward_that_is_not_one_finite_number_raises_with_its_row(bad):
    with pytest.raises(ValueError, match="mine must return one finite number .* 3 in all; got .* in row 1"):
        check_rewards([1.0, bad, 1.0], 3, "mine")


@pytest.mark.parametrize("bad", [None, 1.0, "1.0", {0: 1.0}, torch.tensor(1.0), np.ones((1, 1))], ids=repr)
def test_a_result_that_is_not_a_list_of_numbers_raises(bad):
    with pytest.raises(ValueError, match="mine must return one finite number per completion, 1 in all; got"):
        check_rewards(bad, 1, "mine")


def fails_on_bad(prompts, completions, answer, **kwargs):
    if any("bad" in text for text in completions):
        raise ValueError("cannot read this")
    return [1.0] * len(completions)


def test_R28_a_failing_function_stops_with_its_name_row_and_text():
    batch = dict(prompts=["?"] * 8, answer=["9"] * 8, completion_ids=[[0]] * 8, step=1)
    texts = ["good"] * 3 + ["bad text"] + ["good"] * 4
    text = "fails_on_bad raised ValueError on row 3 of 8, 'bad text': cannot read this"
    with pytest.raises(RuntimeError, match=text) as caught:
        score_completions(fails_on_bad, completions=texts, **batch)
    assert isinstance(caught.value.__cause__, ValueError)
    assert score_completions(fails_on_bad, completions=["good"] * 8, **batch) == [1.0] * 8


def test_score_completions_checks_and_names_what_it_called():
    with pytest.raises(ValueError, match="<lambda> must return .*got 1 rewards for 4 completions"):
        score_completions(lambda completions, **columns: [1.0], ["?"] * 4, ["9"] * 4)
    with pytest.raises(ValueError, match="partial.*fails_on_bad.* must return"):
        score_completions(partial(lambda f, **columns: None, fails_on_bad), ["?"], ["9"])
    with pytest.raises(RuntimeError, match="raised KeyError on the batch: 5"):
        score_completions(lambda completions, **columns: [0] if len(completions) == 1 else {}[5], ["?"] * 2, ["9"] * 2)


def test_every_public_name_exists_and_is_documented():
    for name in rewards_module.__all__:
        assert name == "TAGS" or ">>>" in getattr(rewards_module, name).__doc__
