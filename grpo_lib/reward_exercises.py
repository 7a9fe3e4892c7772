"""Exercise checks on rewards: one that survives the attacks, one for the form, groups without signal."""

import re
from dataclasses import replace

import numpy as np

from grpo_lib.answers import extract_answer, parse_number
from grpo_lib.reward_attacks import ATTACKS, LOOK_ALIKES, find_mistakes, regex_reward, substring_reward
from grpo_lib.rewards import correctness_reward
from grpo_lib.verdicts import WRONG, judge

__all__ = ["check_form_reward", "check_silent_shares", "check_sturdy_reward"]

THINK_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


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


def check_form_reward(attempt):
    """Check `f(completions)`: 0.25 for each of `<think> </think> <answer> </answer>` that occurs once and in its place.

    In its place: after the tags that were already paid, as in `grpo_lib.rewards.format_reward`.

    >>> check_form_reward(lambda texts: [0.25 * sum(t.count(tag) for tag in THINK_TAGS) for t in texts]).slip
    'count'
    """
    texts = [
        "<think>1+1=2</think><answer>2</answer>",
        "<think>\n1+1\n=2\n</think>\n<answer>2</answer>\n",
        "<answer>2</answer>",
        "<answer>2</answer><think>1+1=2</think>",
        "<think>1<think>2</think><answer>2</answer>",
        "<think>1</think><answer>2</answer><answer>3</answer>",
        "<think>1+1",
        "2",
        "",
        "".join(THINK_TAGS) * 3,
    ]

    def form(texts, once=True, ordered=True):
        scores = []
        for text in texts:
            paid, last = 0, -1
            for tag in THINK_TAGS:
                place = text.find(tag)
                if place >= 0 and (text.count(tag) == 1 or not once) and (place > last or not ordered):
                    paid, last = paid + 1, place
            scores.append(paid / 4)
        return scores

    def whole(texts, flags=re.DOTALL):
        pattern = re.compile(r"\s*<think>(?:(?!<).)*</think>\s*<answer>(?:(?!<).)*</answer>\s*", flags)
        return [float(pattern.fullmatch(text) is not None) for text in texts]

    slips = {
        "count": (
            lambda texts: [0.25 * sum(t.count(tag) for tag in THINK_TAGS) for t in texts],
            "Every copy of a tag is paid, so repeating tags pays without limit: a tag must occur exactly once.",
        ),
        "there or not": (
            lambda texts: form(texts, once=False, ordered=False),
            "A tag is paid if it is there, even twice or in the wrong place.",
        ),
        "repeated": (
            lambda texts: form(texts, once=False),
            "A tag that occurs twice is still paid: it must occur exactly once.",
        ),
        "no order": (
            lambda texts: form(texts, ordered=False),
            "Each tag is counted by itself; an answer before the thinking must lose the tags out of place.",
        ),
        "all or nothing": (
            whole,
            "Only the complete form is paid: give 0.25 for each tag, so that the first step is paid too.",
        ),
        "one line": (
            lambda texts: whole(texts, 0),
            "All or nothing, and the dot of a regular expression stops at a new line: real reasoning has many lines.",
        ),
    }
    return judge("form reward", attempt, form, [(texts,)], slips, praise="1.0 only for exactly one of each, in order.")


def check_silent_shares(attempt):
    """Check `f(right, tags, num_generations)`: the shares of groups without signal, for two rewards.

    The first reward is binary, `right`; the second is shaped, `right + 0.1 * tags`. Returns both shares.

    >>> check_silent_shares(lambda right, tags, num_generations: ...)
    ○ silent shares: not attempted yet.
    """
    cases = [
        (np.array([1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0.0]), np.array([4, 4, 2, 0, 1, 1, 4, 0, 3, 2, 2, 2.0]), 2),
        (np.array([1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0.0]), np.array([4, 4, 2, 0, 1, 1, 4, 0, 2, 2, 2, 2.0]), 4),
    ]

    def share(rewards, size):
        groups = rewards.reshape(-1, size)
        return np.mean(groups.max(axis=1) == groups.min(axis=1))

    def shares(right, tags, size):
        return [share(right, size), share(right + 0.1 * tags, size)]

    slips = {
        "formula": (
            lambda right, tags, size: [right.mean() ** size + (1 - right.mean()) ** size, share(right + tags, size)],
            "The formula takes one p for all problems: count the groups that were measured.",
        ),
        "tags alone": (
            lambda right, tags, size: [share(right, size), share(tags, size)],
            "The second reward is right + 0.1 * tags, not the tags alone.",
        ),
        "only right ones": (
            lambda right, tags, size: [share(right, size), share(right * (1 + 0.1 * tags), size)],
            "The tags of a wrong completion are paid too; that is where the shaped reward gets its signal.",
        ),
        "interleaved": (
            lambda right, tags, size: [
                np.mean(np.ptp(rewards.reshape(size, -1), axis=0) == 0) for rewards in (right, right + 0.1 * tags)
            ],
            "A group is G rows in a row: reshape to (P, G), not to (G, P).",
        ),
        "with signal": (
            lambda right, tags, size: [1 - value for value in shares(right, tags, size)],
            "These are the shares of groups that do carry a signal.",
        ),
    }
    return judge("silent shares", attempt, shares, cases, slips, praise="The shaped reward leaves fewer groups silent.")
