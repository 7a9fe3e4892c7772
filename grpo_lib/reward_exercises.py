"""Exercise checks on rewards: one for the form, groups without signal, where a hacked run turned."""

import re

import numpy as np

from grpo_lib.verdicts import judge

__all__ = ["check_form_reward", "check_silent_shares", "check_turning_point"]

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


def check_turning_point(attempt):
    """Check `f(steps, paid, right)`: [step with most right answers, change of `paid` after it, change of `right`].

    >>> check_turning_point(lambda steps, paid, right: [steps[paid.argmax()], 0, 0]).right
    False
    """
    steps = np.array([0, 20, 40, 60, 80, 100])
    hacked = (np.array([0.4, 0.6, 0.75, 0.85, 0.95, 1.0]), np.array([0.3, 0.5, 0.7, 0.6, 0.2, 0.1]))
    control = (np.array([0.3, 0.6, 0.55, 0.7, 0.68, 0.66]), np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8]))

    def after(steps, paid, right, *, by=None, base=None):
        best = int(np.argmax(right if by is None else by))
        since = best if base is None else base
        return [steps[best], paid[-1] - paid[since], right[-1] - right[since]]

    slips = {
        "by the paid curve": (
            lambda steps, paid, right: after(steps, paid, right, by=paid),
            "You look where the paid reward is highest. The judge is the curve that is not paid: right answers.",
        ),
        "index": (
            lambda steps, paid, right: [int(np.argmax(right)), *after(steps, paid, right)[1:]],
            "The first number is a place in the list: give the training step that stands there.",
        ),
        "since the start": (
            lambda steps, paid, right: after(steps, paid, right, base=0),
            "You measure from the start: measure from the step with most right answers to the end.",
        ),
        "turned": (
            lambda steps, paid, right: np.array(after(steps, paid, right)) * [1, -1, -1],
            "The changes are turned: the end minus the best step.",
        ),
        "last step": (
            lambda steps, paid, right: [steps[-1], 0.0, 0.0],
            "The last step is the best one only if right answers never fell.",
        ),
        "swapped": (
            lambda steps, paid, right: np.array(after(steps, paid, right))[[0, 2, 1]],
            "The two changes have changed places: first that of the paid reward.",
        ),
    }
    cases = [(steps, *hacked), (steps, *control)]
    praise = "Where the first change is up and the second down, the reward is being hacked."
    return judge("turning point", attempt, after, cases, slips, praise=praise)
