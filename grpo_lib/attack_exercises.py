"""Exercise checks on attacks: a reward that survives them, and an attack of one's own on a lenient reward."""

import re
from dataclasses import replace

import numpy as np

from grpo_lib.answers import extract_answer, last_number, parse_number
from grpo_lib.reward_attacks import ATTACKS, LOOK_ALIKES, find_mistakes, regex_reward, substring_reward
from grpo_lib.reward_checks import short
from grpo_lib.rewards import correctness_reward
from grpo_lib.verdicts import WRONG, judge

__all__ = ["check_attack", "check_sturdy_reward"]


def check_sturdy_reward(attempt):
    """Check `f(prompts, completions, answer)`: 1.0 for every honest answer of `reward_attacks`, 0.0 for every attack.

    "nonsense reasoning" is left out: its answer is right, and no rule on the answer can refuse it.

    >>> check_sturdy_reward(substring_reward).slip
    'substring'
    """
    attacks = [attack for attack in ATTACKS if attack.name != "nonsense reasoning"] + list(LOOK_ALIKES)
    texts, golds = [a.text for a in attacks], [a.gold for a in attacks]
    case = (["?"] * len(texts), texts, golds)
    verdict = judge("sturdy reward", attempt, _sturdy, [case], _sturdy_slips(), praise="Nothing here fools it.")
    try:
        paid = np.asarray(attempt(*case), dtype=float)
    except Exception:
        return verdict
    if verdict.status != WRONG or verdict.slip or paid.shape != (len(attacks),):
        return verdict
    fooled, unfair = find_mistakes(paid, attacks)
    told = [f"It pays for: {', '.join(fooled)}."] if fooled else []
    told += [f"It does not pay for the right answers: {', '.join(unfair)}."] if unfair else []
    return replace(verdict, message=" ".join(told) or "What is right must be paid 1.0, neither more nor less.")


def _sturdy(prompts, completions, answer):
    return [float(reward > 0) for reward in correctness_reward(prompts, completions, answer)]


def _sturdy_slips():
    def by_first(prompts, completions, answer):
        first = [re.search(r"<answer>([^<]*)</answer>", text) for text in completions]
        return [float(f is not None and _same(f[1].strip(), gold)) for f, gold in zip(first, answer, strict=True)]

    def by_greedy(prompts, completions, answer):
        found = [re.search(r"<answer>(.*)</answer>", text, re.DOTALL) for text in completions]
        return [float(f is not None and _same(f[1].strip(), gold)) for f, gold in zip(found, answer, strict=True)]

    def by_default(prompts, completions, answer):
        return [float(_same(extract_answer(text) or "0", gold)) for text, gold in zip(completions, answer, strict=True)]

    def by_letter(prompts, completions, answer):
        return [float(extract_answer(text) == gold) for text, gold in zip(completions, answer, strict=True)]

    def by_float(prompts, completions, answer):
        return [float(_float(extract_answer(t)) == _float(gold)) for t, gold in zip(completions, answer, strict=True)]

    return {
        "substring": (
            substring_reward,
            "It looks for the answer anywhere in the text; read the answer tag alone.",
        ),
        "some number": (regex_reward, "It pays if one number of many fits: pay only where the tag holds one number."),
        "first block": (by_first, "With several answer blocks it takes the first; the rule is the last one."),
        "greedy": (
            by_greedy,
            "With several answer blocks .* is greedy and runs on to the last closing tag: read the last block alone.",
        ),
        "zero by default": (
            by_default,
            "Where there is no answer it reads 0, and pays for silence where 0 is right: no answer is never right.",
        ),
        "letter by letter": (by_letter, "It compares letters; $70,000 and 70000 are the same number."),
        "float": (by_float, "float() cannot read $70,000, units or fractions: use parse_number on both sides."),
    }


def _same(found, gold):
    value = parse_number(found)
    return value is not None and value == parse_number(gold)


def _float(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None if text is None else text


def check_attack(attempt):
    """Check `f(gold)`: two texts against a lenient reward, which pays if `last_number` of the whole text is the gold.

    The first must be paid by mistake: its answer tag holds another number. The second must be refused by mistake: its
    answer tag holds the gold answer.

    >>> check_attack(lambda gold: [f"<answer>{gold}</answer>", f"<answer>{gold}</answer> in 2 minutes"]).slip
    'right after all'
    """
    attack = lambda gold: [f"<answer>{gold}1</answer> or {gold}", f"<answer>{gold}</answer> in {gold}1 minutes"]  # noqa: E731
    wrong, refused = (lambda gold: attack(gold)[0]), (lambda gold: attack(gold)[1])
    slips = {
        "gold ignored": (
            lambda gold: attack("7"),
            "It works for the gold answer 7 alone: put the `gold` that you are given into the texts.",
        ),
        "turned round": (
            lambda gold: attack(gold)[::-1],
            "The other way round: first the text that is paid by mistake, then the one that is refused by mistake.",
        ),
        "right after all": (
            lambda gold: [f"<answer>{gold}</answer>", refused(gold)],
            "The first text is right: its answer tag holds the gold answer. Let the tag say another number.",
        ),
        "no answer": (
            lambda gold: [f"It is {gold}.", refused(gold)],
            "The first text has no number in an answer tag, so one may call it right, out of form. Let the tag say "
            "another number.",
        ),
        "not paid": (
            lambda gold: [f"<answer>{gold}1</answer>", refused(gold)],
            "The first text is wrong, but it is not paid: the gold answer must be its last number.",
        ),
        "paid": (
            lambda gold: [wrong(gold), f"<answer>{gold}</answer>"],
            "The second text is paid: let another number come after the answer.",
        ),
        "rightly refused": (
            lambda gold: [wrong(gold), f"<answer>{gold}1</answer>"],
            "The second text is refused with reason: its answer tag must hold the gold answer.",
        ),
    }
    cases = [("7",), ("12",)]
    praise = "One wrong gradient of each kind."
    verdict = judge("attack", attempt, attack, cases, slips, praise=praise, measure=_outcomes)
    if verdict.status != WRONG or verdict.slip:
        return verdict
    try:
        told = [_told(attempt(*case), *case) for case in cases]
    except Exception:
        return verdict
    return replace(verdict, message=" ".join(told))


def _outcomes(texts, gold):
    """For each text, whether it is paid, and what its answer tag holds: 1 the gold answer, 0 another, -1 none."""
    if not (isinstance(texts, list | tuple) and len(texts) == 2 and all(isinstance(text, str) for text in texts)):
        raise ValueError(f"For the gold answer {gold!r} it gives {short(texts)}, expected two texts.")
    numbers = [parse_number(extract_answer(text) or "") for text in texts]
    held = [-1 if number is None else int(number == parse_number(gold)) for number in numbers]
    return [[last_number(text) == parse_number(gold), tag] for text, tag in zip(texts, held, strict=True)]


def _told(texts, gold):
    holds = {1: "the gold answer", 0: "another number", -1: "no number"}
    parts = [f"is {'paid' if paid else 'not paid'}, its tag holds {holds[tag]}" for paid, tag in _outcomes(texts, gold)]
    return f"For the gold answer {gold!r} the first text {parts[0]}; the second {parts[1]}."
