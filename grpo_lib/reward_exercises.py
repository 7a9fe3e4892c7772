"""Exercise checks on rewards: one for the form, and the groups without signal."""

import re

import numpy as np

from grpo_lib.verdicts import judge

__all__ = ["check_form_reward", "check_silent_shares"]

THINK_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


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
        "1</think><think>2<think><answer>3</answer>",
    ]

    def form(texts, once=True, ordered=True, unpaid=lambda last, place: last):
        scores = []
        for text in texts:
            paid, last = 0, -1
            for tag in THINK_TAGS:
                place = text.find(tag)
                if place >= 0 and (text.count(tag) == 1 or not once) and (place > last or not ordered):
                    paid, last = paid + 1, place
                elif place >= 0:
                    last = unpaid(last, place)
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
        "unpaid moves on": (
            lambda texts: form(texts, unpaid=max),
            "A tag that is not paid (it occurs twice) moves the place on all the same: only a paid tag may do so.",
        ),
        "unpaid moves back": (
            lambda texts: form(texts, unpaid=lambda last, place: place),
            "You note the place of every tag that you find: only a paid tag may move it.",
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
