"""One token's part of the loss, its formula filled in, and in words; and in words what another setting changes."""

import math
from dataclasses import dataclass

import torch

from grpo_lib.loss_formulas import clip_range, formula_lines, token_numbers
from grpo_lib.losses import LOSS_TYPES
from grpo_lib.recorded import check_place

__all__ = ["TokenStory", "describe_changes", "token_story"]

_CHANGED = 0.01  # a push that differs by less than this share counts as the same
_KINDS = {
    "start": "newly pushed",
    "stop": "no longer pushed",
    "turn": "pushed the other way",
    "harder": "pushed harder",
    "softer": "pushed more softly",
    "same": "pushed as before",
}


@dataclass(frozen=True)
class TokenStory:
    """A token's part of the loss in formulae and in words; `str` gives both.

    lines: the formulae, filled in. numbers: what they hold, unrounded, by name.
    verdict: "up", "down" or "nothing". words: the same as a sentence, and why.
    """

    token: str
    lines: tuple
    numbers: dict
    verdict: str
    words: str

    def __str__(self):
        return "\n".join([*self.lines, "", self.words])


def token_story(inspection, completion, token):
    """Fill one token's numbers into the formulae of the loss, and say what the next update does to it.

    Args:
        inspection: an `Inspection`. completion: its row, 0 to B - 1. token: its position, 0 to T - 1.
    Returns:
        a `TokenStory`; its numbers add up to the token's contribution.
    Raises:
        ValueError: on a row or a position that is not there.

    >>> from grpo_lib.inspection import Recording, inspect_rollout
    >>> recording = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1]] * 2, [[-1.0, -2.0]] * 2, [[-1.3, -2.0]] * 2)
    >>> story = token_story(inspect_rollout(recording, beta=0.0), 0, 0)
    >>> print(story.lines[0])
    ratio     = exp(log π - log π_old) = exp(-1.000000 - (-1.300000)) = 1.3499
    >>> story.verdict, story.words
    ('nothing', 'Nothing: the clip cuts its gradient off, since A > 0 and the ratio 1.35 is above 1.2.')
    """
    rows, width = inspection.mask.shape
    for name, value, size in (("completion", completion, rows), ("token", token, width)):
        check_place(name, value, size)
    text = inspection.recording.tokens[completion][token]
    if not inspection.mask[completion, token]:
        words = "Nothing: it is masked, most often as it stands after the completion's end; it is no part of the loss."
        if inspection.recording.mask[completion, token]:
            words = "Nothing: its completion was cut at the length limit, and those that were are left out of the loss."
        return TokenStory(text, (), {"contribution": 0.0, "gradient": 0.0}, "nothing", words)
    numbers = token_numbers(inspection, completion, token)
    push = -numbers["gradient"]
    verdict = "nothing" if push == 0 else "up" if push > 0 else "down"
    words = _words(inspection, numbers, verdict)
    return TokenStory(text, formula_lines(inspection, numbers), numbers, verdict, words)


def _words(inspection, numbers, verdict):
    policy, kl = -numbers["policy_gradient"], -numbers["kl_gradient"]
    start = {"up": "Pushed up", "down": "Pushed down", "nothing": "Nothing"}[verdict]
    if policy == 0:
        why = _why_nothing(inspection, numbers)
        return f"{start}: {why}." if kl == 0 else f"{start}, by the KL term alone: {why}."
    sign = "above" if numbers["advantage"] > 0 else "below"
    words = f"{start}: its completion was rewarded {sign} its group's mean (A = {numbers['advantage']:+.3g})"
    if inspection.options["loss_type"] == "cispo" and numbers["clipped"]:
        words += ", with the weight capped"
    if kl == 0:
        return f"{words}."
    if (kl > 0) == (policy > 0):
        return f"{words}; the KL term pushes the same way, {_share(kl, policy)}."
    back = "pulls it back" if abs(kl) < abs(policy) else "outweighs that and pulls it back"
    return f"{words}; the KL term {back} {'up' if kl > 0 else 'down'}, {_share(kl, policy)}."


def _share(kl, policy):
    share = abs(kl / policy)
    if share < 0.01:
        return "with less than 1 % of the policy term's force"
    if share < 1:
        return f"with {100 * share:.0f} % of the policy term's force"
    return f"with {share:.2g} times the policy term's force"


def _why_nothing(inspection, numbers):
    if numbers["advantage"] == 0:
        return "the advantage is 0, its completion was rewarded like its group's mean"
    ratio, options = numbers["ratio"], inspection.options
    whose = "the completion's ratio" if options["importance_sampling_level"] == "sequence" else "the ratio"
    surrogate = LOSS_TYPES[options["loss_type"]][0]
    if surrogate == "vespo":
        return f"φ(W) is 0 in these digits, since W = {math.exp(numbers['log_w']):.3g} is far from 1"
    if surrogate == "sapo" and ratio > 1:
        return f"the sigmoid is flat at {whose} {ratio:.3g}: its slope is 0 in these digits"
    if surrogate != "clip" or not numbers["clipped"]:
        return f"{whose} {ratio:.3g} is so small that the push is 0 in these digits"
    (low, high), delta = clip_range(options), options["delta"]
    rewarded = numbers["advantage"] > 0
    cause, side, bound = "the clip", "above", high
    if not rewarded and ratio < low:
        side, bound = "below", low
    elif delta is not None and (not rewarded or delta < high):  # with A < 0 only delta stops a ratio that rose
        cause, bound = "delta", min(delta, high) if rewarded else max(delta, high)
    sign = ">" if rewarded else "<"
    shown = _apart(ratio, bound)
    return f"{cause} cuts its gradient off, since A {sign} 0 and {whose} {shown[0]} is {side} {shown[1]}"


def _apart(*values):
    """Numbers with three digits, or with as many as tell them apart."""
    texts = ([f"{value:.{digits}g}" for value in values] for digits in range(3, 18))
    return next((shown for shown in texts if len(set(shown)) == len(shown)), values)


def describe_changes(now, before, rows=slice(None)):
    """Say which tokens another setting moves otherwise, and how.

    Args:
        now, before: two `Inspection`s of one recording. rows: the rows to look at.
    Returns:
        (text, counts): one line; and a dict with the numbers of tokens: those on which the policy term (or anything)
        "start"s or "stop"s to push, that "turn" round, are pushed "harder", "softer", or the "same" (within 1 %).
    Raises:
        ValueError: if they are not of one recording.

    >>> from grpo_lib.inspection import Recording, inspect_rollout
    >>> recording = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1], [1, 0]], [[-1.0, -2.0]] * 2)
    >>> describe_changes(*(inspect_rollout(recording, beta=0.0, loss_type=name) for name in ("dapo", "grpo")))[1]
    {'start': 0, 'stop': 0, 'turn': 0, 'harder': 2, 'softer': 1, 'same': 0}
    """
    if now.recording is not before.recording:
        raise ValueError("two inspections of one recording are needed, got those of two recordings")
    keep = (now.mask | before.mask)[rows].bool()
    new, old = now.push[rows][keep], before.push[rows][keep]
    acts, acted = (x.policy_gradient[rows][keep] != 0 for x in (now, before))
    start, stop = (acts & ~acted) | ((old == 0) & (new != 0)), (acted & ~acts) | ((old != 0) & (new == 0))
    factor, left = torch.where(old == new, 1.0, new / old), ~(start | stop)
    if not len(new):
        return "No token here is part of the loss.", dict.fromkeys(_KINDS, 0)
    kinds = {
        "start": start,
        "stop": stop & ~start,
        "turn": left & (factor < 0),
        "harder": left & (factor > 1 + _CHANGED),
        "softer": left & (factor >= 0) & (factor < 1 - _CHANGED),
        "same": left & ((factor - 1).abs() <= _CHANGED),
    }
    counts = {name: int(kind.sum()) for name, kind in kinds.items()}
    shares = {"harder": " (up to {:.2g} times as hard)", "softer": " (down to {:.2g} times)"}
    for name, extreme in (("harder", max), ("softer", min)):
        shares[name] = shares[name].format(extreme(factor[kinds[name]].tolist())) if counts[name] else ""
    words = dict(_KINDS)
    if now.options["beta"]:
        words["stop"] += " but by the KL"
    parts = [f"{text} {counts[name]}{shares.get(name, '')}" for name, text in words.items() if counts[name]]
    return f"Of {len(new)} tokens: {', '.join(parts)}.", counts
