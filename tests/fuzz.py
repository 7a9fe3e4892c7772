"""Fuzz the reward parser and the mask builder against readings written by hand.

    python tests/fuzz.py --inputs 200000            # counts, faults, seconds; exit status 1 if there is a fault
    python tests/fuzz.py --kind tags --seed 7       # one kind of input; a fault's own text says how to see it again

Every input follows from its kind, the seed and its number. The suite runs a share of it (tests/test_fuzz.py).
"""

import argparse
import math
import random
import re
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).parents[1])]

from grpo_lib import answers, masks, prompts, reward_checks, rewards  # noqa: E402

DIGITS = ("0123456789", "٠١٢٣٤٥٦٧٨٩", "０１２３４５６７８９", "०१२३४५६७८९")
WRAPPERS = [
    ("\\boxed{", "}"),
    ("$", "$"),
    ("$$", "$$"),
    ("\\(", "\\)"),
    ("**", "**"),
    ("*", "*"),
    ("`", "`"),
    ('"', '"'),
]
UNITS = ["", "", "%", " %", " apples", " km/h", " cm^2", " sq. ft.", "kg", "°C", " apples per day"]
ODD = "\x00\x01\x07\x1b\x7f\u0085\u200f\u202e\u2066\u2028\ufeff\u00ad\ud800\udfff\U0001f600é\u0301אبप字²½Ⅷ𝟕"


# ---------------------------------------------------------------- readings by hand


def number_by_hand(text):
    """One number by the table of `grpo_lib.answers`, for texts of digits, `, . + - / % e` and blanks: no pattern."""
    text = text.strip()
    if len(text) > 300:
        return None
    if text[-1:] in (",", ".") and text[-2:-1] not in (",", ".") and text[:-1].strip():
        text = text[:-1].strip()  # one mark that ends a sentence
    if text.endswith("%"):
        text = text[:-1].rstrip()  # one sign, blanks before it or none
    negative = text.startswith("-")
    text = text[1:] if text[:1] in ("-", "+") else text
    top, slash, bottom = text.partition("/")
    if slash:
        top, bottom = _integer(top), _integer(bottom)
        if top is None or bottom is None or bottom < 2 or math.gcd(top, bottom) != 1:
            return None
        value = Fraction(top, bottom)
    else:
        value = _decimal(text)
    return None if value is None else -value if negative else value


def _integer(text):
    groups = text.split(",")
    if not all(group and all(char in DIGITS[0] for char in group) for group in groups):
        return None
    if len(groups) > 1 and (not 1 <= len(groups[0]) <= 3 or any(len(group) != 3 for group in groups[1:])):
        return None
    return sum(int(digit) * 10**place for place, digit in enumerate(reversed("".join(groups))))


def _decimal(text):
    mantissa, e, exponent = text.partition("e")
    if e:
        power = exponent[1:] if exponent[:1] in ("-", "+") else exponent
        if _integer(power) is None or "," in power or len(power) > 3:
            return None
        scale = Fraction(10) ** (-_integer(power) if exponent.startswith("-") else _integer(power))
    whole, point, part = mantissa.partition(".")
    value = 0 if point and not whole and part else _integer(whole)
    if value is None or (part and (_integer(part) is None or "," in part)):
        return None
    return (value + (Fraction(_integer(part), 10 ** len(part)) if part else 0)) * (scale if e else 1)


def answer_by_hand(text):
    """The last `<answer>…</answer>` without an answer tag inside, looked for from the end."""
    end = len(text)
    while (end := text.rfind("</answer>", 0, end)) >= 0:
        start = text.rfind("<answer>", 0, end)
        if start >= 0 and "</answer>" not in text[start:end]:
            return text[start + len("<answer>") : end].strip()
    return None


def tags_by_hand(text):
    found = [(match.start(), match[0]) for match in re.finditer("</?(?:reasoning|answer)>", text)]
    once = [tag for _, tag in found if sum(other == tag for _, other in found) == 1]
    paid, last = 0, -1
    for tag in rewards.TAGS:
        if tag in once and (place := dict((t, p) for p, t in found)[tag]) > last:
            paid, last = paid + 1, place
    return paid


def mask_by_hand(rows, ends):
    masks_, cut = [], []
    for row in rows:
        first = next((place for place, token in enumerate(row) if token in ends), None)
        masks_.append([1 if first is None or place <= first else 0 for place in range(len(row))])
        cut.append(first is None)
    return masks_, cut


# ---------------------------------------------------------------- inputs and checks: each returns a fault or None


def number_text(rng):
    pieces = [*"0123456789,,..-+/%  ", "e3", "e-2", "e+1"]
    number = rng.choice(
        [f"{rng.randint(0, 10 ** rng.randint(1, 12)):,}", f"{rng.randint(1, 9)}/{rng.randint(1, 99)}", "7"]
    )
    number = rng.choice(["", number])
    text = rng.choice(["", "", "-", " "]) + number
    text += "".join(rng.choice(pieces) for _ in range(rng.randint(0, 4 if number else 9)))
    got, want = answers.parse_number(text), number_by_hand(text)
    return text, None if got == want else f"parse_number is {got}, by hand {want}"


def formatted_number(rng):
    value = Fraction(rng.randint(-(10 ** rng.randint(1, 15)), 10 ** rng.randint(1, 15)), 10 ** rng.randint(0, 4))
    size = abs(value)
    places = next(places for places in range(5) if (size * 10**places).denominator == 1) + rng.randint(0, 2)
    whole, part = divmod(int(size * 10**places), 10**places)
    plain = (f"{whole:,}" if rng.random() < 0.5 else str(whole)) + (f".{part:0{places}d}" if places else "")
    plain = plain.translate(str.maketrans(DIGITS[0], rng.choice(DIGITS)))
    sign = rng.choice("-\u2212\u2013") if value < 0 else rng.choice(["", "", "+"])
    unit = rng.choice(UNITS)
    text = sign + rng.choice(["", "", "$", "€"]) + plain + unit
    gold = str(whole) + (f".{part:0{places}d}" if places else "")
    gold = ("-" if value < 0 else "") + gold
    sentence = f"So it is {text}, as {rng.choice(['said', 'we saw', ''])}."
    if answers.last_number(sentence) != value and not unit.startswith(" cm^2"):
        return sentence, f"last_number is {answers.last_number(sentence)}, not {value}"
    for left, right in rng.sample(WRAPPERS, rng.randint(0, 3)):
        if "$" not in text or "$" not in left:
            text = left + text + right
    start, end = rng.choice(["", " ", "\n"]), rng.choice(["", "\n", "" if unit.endswith(".") else "."])
    completion = f"<answer>{start}{text}{end}</answer>"
    got = answers.parse_number(answers.extract_answer(completion))
    if got != value:
        return completion, f"parse_number is {got}, not {value}"
    paid = rewards.correctness_reward(["?"] * 2, [completion] * 2, [gold, str(value + 1)])
    exact = answer_by_hand(completion) == gold
    return completion, None if paid == [2.0 if exact else 1.5, 0.0] else f"correctness_reward is {paid}"


def tags(rng):
    pieces = [
        "<answer>",
        "</answer>",
        "<reasoning>",
        "</reasoning>",
        "7",
        "8",
        " ",
        "\n",
        "<",
        ">",
        "</",
        "answer>",
        "x",
    ]
    text = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 14)))
    got, want = answers.extract_answer(text), answer_by_hand(text)
    if got != want:
        return text, f"extract_answer is {got!r}, by hand {want!r}"
    form, both = (reward(["?"], [text], ["7"])[0] for reward in (rewards.format_reward, rewards.combined_reward))
    right = 2.0 if want == "7" else 0.0
    if want is not None and right == 0.0 and set(want) <= set("78 \n"):
        right = 1.5 if number_by_hand(want) == 7 else 0.0
        if rewards.correctness_reward(["?"], [text], ["7"]) != [right]:
            return text, f"correctness_reward is not {right}"
    if form != tags_by_hand(text) / 5 or not form <= both <= form + 2:
        return text, f"format_reward is {form}, by hand {tags_by_hand(text) / 5}; combined {both}"
    return text, None


def any_text(rng):
    alphabet = ODD + "0123456789,.-$%/{}\\_*`'\" \n\tab<>"
    parts = ["<answer>", "</answer>", "<reasoning>", "#### ", "\\frac{1}{2}", "\\boxed{", "7"]
    text = "".join(
        rng.choice(parts) if rng.random() < 0.2 else rng.choice(alphabet) if rng.random() < 0.8 else _any_char(rng)
        for _ in range(rng.randint(0, 40))
    )
    for reader in (answers.parse_number, answers.last_number):
        if not isinstance(reader(text), Fraction | type(None)):
            return text, f"{reader.__name__} is no number"
    gold = answers.extract_gsm8k_answer(text)
    if gold is not None and (answers.parse_number(gold) is None or "####" not in text):
        return text, f"extract_gsm8k_answer is {gold!r}"
    right, form, both = (
        reward(["?"], [text], ["9"])[0]
        for reward in (rewards.correctness_reward, rewards.format_reward, rewards.combined_reward)
    )
    if right not in (0.0, 1.5, 2.0) or both != right + form or form != tags_by_hand(text) / 5:
        return text, f"rewards are {right}, {form}, {both}"
    if answers.extract_answer(text) != answer_by_hand(text):
        return text, f"extract_answer is {answers.extract_answer(text)!r}"
    rate = rewards.parse_failure_rate([text])
    return text, None if rate in (0.0, 1.0) and (right == 0 or rate == 0) else f"parse_failure_rate is {rate}"


def _any_char(rng):
    return chr(rng.choice([rng.randrange(128), rng.randrange(0x3000), rng.randrange(0x110000)]))


def gsm8k_text(rng):
    pieces = ["####", "#### ", "18", "1,080", "-3", ".5", "\n", " ", "apples", "<<6*30=180>>", "$", "7 or 8"]
    pieces += ["9{,}500", "9\\,500", "9,\\!500", "1\u202f000", "\\,"]  # separators of LaTeX and of print
    text = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 7)))
    got = answers.extract_gsm8k_answer(text)
    line = text.split("####")[-1].strip().split("\n")[0].strip() if "####" in text else ""
    value = answers.parse_number(line)
    if value is not None and ("\\" in line or "{" in line or "\u202f" in line):  # the same number, without a separator
        same = got is not None and answers.parse_number(got) == value and not re.search(r"\d(?:\{,\}|,|\u202f)\d", got)
        return text, None if same else f"extract_gsm8k_answer is {got!r}, and its line is {value}"
    want = line.replace(",", "") if value is not None else None
    return text, None if got == want else f"extract_gsm8k_answer is {got!r}, by hand {want!r}"


def mask(rng):
    dtype = rng.choice([torch.int64, torch.int64, torch.int32, torch.int16, torch.uint8])
    top = rng.choice([3, 12, 120])
    rows = rng.randint(0, 5)
    length = rng.randint(0, 9)
    ids = [[rng.randint(0, top) for _ in range(length)] for _ in range(rows)]
    ends = [rng.choice([rng.randint(0, top), 151_645]) for _ in range(rng.randint(0, 4))]
    shown = rng.choice([ends, tuple(ends), set(ends), torch.tensor(ends, dtype=torch.int64), np.array(ends, dtype=int)])
    if len(ends) == 1 and rng.random() < 0.5:
        shown = rng.choice([ends[0], np.int64(ends[0]), torch.tensor(ends[0])])
    if not ends and rng.random() < 0.5:
        shown = None
    tensor = torch.tensor(ids, dtype=dtype).reshape(rows, length)
    if rng.random() < 0.3 and length:
        tensor = tensor.T.contiguous().T  # not contiguous
    before = tensor.clone()
    got, cut = masks.create_completion_mask(tensor, shown), masks.truncated_completions(tensor, shown)
    want, want_cut = mask_by_hand(ids, set(ends))
    same = got.tolist() == want and cut.tolist() == want_cut and got.dtype == torch.int64 and cut.dtype == torch.bool
    fault = None if same and torch.equal(before, tensor) else f"mask {got.tolist()}, cut {cut.tolist()}; by hand {want}"
    return f"{ids} as {dtype}, eos_token_id = {shown!r}", fault


def positions(rng):
    rows = [[rng.randint(0, 1) for _ in range(8)] for _ in range(rng.randint(1, 4))]
    dtype = rng.choice([torch.int64, torch.bool, torch.float32, torch.int8])
    want = []
    for row in rows:
        seen, line = 0, []
        for real in row:
            seen += real
            line.append(max(seen - 1, 0))
        want.append(line)
    got = masks.position_ids_from_mask(torch.tensor(rows).to(dtype)).tolist()
    return f"{rows} as {dtype}", None if got == want else f"positions {got}, by hand {want}"


def reward_results(rng):
    odd = [None, "1.0", math.nan, math.inf, -math.inf, [1.0], np.ones(1), torch.ones(1), 1j, 10**400, b"1", {}, ()]
    good = [1, True, 0.5, np.float32(0.5), torch.tensor(2.0), Fraction(1, 2), np.bool_(True), -3]
    count = rng.randint(0, 4)
    values = [rng.choice(good if rng.random() < 0.85 else odd) for _ in range(rng.randint(0, 4))]
    right = len(values) == count and all(any(value is other for other in good) for value in values)
    try:
        got = reward_checks.check_rewards(values, count, "mine")
    except ValueError as error:
        clear = str(error).startswith(f"mine must return one finite number per completion, {count} in all; got")
        return repr(values), None if clear and not right else f"refused: {error}"
    same = right and got == [float(value) for value in values] and all(type(value) is float for value in got)
    return repr(values), None if same else f"check_rewards is {got} for {count} completions"


def data_sets(rng):
    row = rng.choice(
        [
            lambda: {"prompt": "1+1", "answer": "2"},
            lambda: {"prompt": "1+1", "answer": "2"},
            lambda: ("1+1", "2"),
            lambda: {"question": "1+1", "answer": "2"},
            lambda: {"prompt": "1+1"},
            lambda: {"prompt": "1+1", "answer": "2", "level": 1},
            lambda: {"prompt": "1+1", "answer": "2", rng.choice([1, None, "prompts", "completions"]): 1},
            lambda: {
                "prompt": rng.choice(["\ud800", [{"role": "user"}, {"role": "user", "content": "1"}]]),
                "answer": "2",
            },
            lambda: rng.choice([None, 5, "ab", "", (), ("a",), ("a", "b", "c"), ["a", "b"], b"ab", {}, 1.5]),
        ]
    )
    rows = [row() for _ in range(rng.randint(0, 3))]
    rows += [{"prompt": "2+2", "answer": "4"}] * rng.randint(0, 2)
    data = rng.choice([rows, rows, rows, tuple(rows), None, "text", {"prompt": ["1+1"], "answer": ["2"]}, 7])
    try:
        columns = prompts.sample_columns(data)
    except (ValueError, TypeError) as error:
        clear = re.match(
            r"samples must be a list of at least one sample|sample \d+(?: must be|: )|keys must be|all samples need",
            str(error),
        )
        return repr(data), None if clear else f"{type(error).__name__}: {error}"
    ok = {"prompt", "answer"} <= set(columns) and all(len(column) == len(data) for column in columns.values())
    return repr(data), None if ok else f"columns {columns}"


KINDS = {
    function.__name__: function
    for function in (
        number_text,
        formatted_number,
        tags,
        any_text,
        gsm8k_text,
        mask,
        positions,
        reward_results,
        data_sets,
    )
}


def run(kind, inputs, seed=0, *, first=0):
    """Run inputs of one kind; returns a list of (number, input, fault), at most 10."""
    faults = []
    for number in range(first, first + inputs):
        shown = "(while it was made)"
        try:
            shown, fault = KINDS[kind](random.Random(f"{kind}/{seed}/{number}"))
        except Exception as error:  # no input may make a reader fail
            fault = f"{type(error).__name__}: {error}"
        if fault is not None:
            faults.append((number, shown, fault))
            if len(faults) == 10:
                break
    return faults


# ---------------------------------------------------------------- how the time grows


def hostile(size):
    """Texts of about `size` characters that a careless pattern takes quadratic time for."""
    pieces = {
        "digits": "9",
        "Arabic digits": "٣",
        "thousands": "1,",
        "signs": "-$",
        "fractions": "\\frac{1",
        "LaTeX blanks": "\\, \\;",
        "wrappers": '"`*_',
        "zero width": "\u200b",
        "right to left": "\u202eא7 ",
        "control": "\x00\x1b",
        "surrogates": "\ud800",
        "blanks": " ",
        "open tags": "<answer>",
        "tags in tags": "<answer><reasoning>",
        "closing tags": "</answer>",
        "new lines": "\n",
        "marks": ".,",
        "words": "seven ",
    }
    return {name: (piece * (size // len(piece) + 1))[:size] for name, piece in pieces.items()}


def read_all(text):
    answers.parse_number(text)
    answers.parse_number("7" + text)
    answers.last_number(text)
    answers.extract_gsm8k_answer("####" + text)
    rewards.combined_reward(["?"], [f"<answer>{text}"], ["7"])
    rewards.combined_reward(["?"], [f"<answer>{text}</answer>"], ["7"])


def growth(size):
    """{name: (seconds at size, at 4 · size)}: 4 times as much where reading is linear, 16 where it is quadratic."""
    spent = {}
    for name in hostile(1):
        both = []
        for length in (size, 4 * size):
            text = hostile(length)[name]
            start = time.process_time()
            read_all(text)
            both.append(time.process_time() - start)
        spent[name] = tuple(both)
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=200_000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind")
    parser.add_argument("--growth", type=int, default=250_000, help="characters of the smaller hostile texts; 0: none")
    args = parser.parse_args()
    kinds = args.kind or list(KINDS)
    found = 0
    for kind in kinds:
        start, inputs = time.perf_counter(), math.ceil(args.inputs / len(kinds))
        faults = run(kind, inputs, args.seed)
        print(
            f"{kind:17s} {inputs:7,d} inputs  {len(faults):2d} faults  {time.perf_counter() - start:6.1f} s", flush=True
        )
        for number, shown, fault in faults:
            print(f"    number {number}: {shown!r}\n        {fault}")
        found += len(faults)
    if args.growth:
        print(f"\nseconds at {args.growth:,} characters, at four times as many, and their ratio (linear: 4)")
        for name, (small, large) in growth(args.growth).items():
            print(f"{name:17s} {small:7.3f} {large:7.3f} {large / max(small, 1e-4):6.1f}")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
