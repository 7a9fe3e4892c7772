"""One token's part of the loss: the formula of the variant filled in with its numbers, and the same in words."""

from dataclasses import dataclass

from grpo_lib._arguments import check_count
from grpo_lib.loss_formulas import clip_range, formula_lines, token_numbers

__all__ = ["TokenStory", "token_story"]


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
        if check_count(name, value, 0) >= size:
            raise ValueError(f"{name} must be below {size}, got {value}")
    text = inspection.recording.tokens[completion][token]
    if not inspection.mask[completion, token]:
        words = "Nothing: it is masked, most often as it stands after the completion's end; it is no part of the loss."
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
    if not numbers["clipped"]:
        return "the pushes through the completion's ratio cancel" if numbers["weight"] else "its weight is 0"
    whose = "the completion's ratio" if options["importance_sampling_level"] == "sequence" else "the ratio"
    low, high = clip_range(options)
    if numbers["advantage"] > 0:
        return f"the clip cuts its gradient off, since A > 0 and {whose} {ratio:.3g} is above {high:.3g}"
    if ratio < low:
        return f"the clip cuts its gradient off, since A < 0 and {whose} {ratio:.3g} is below {low:.3g}"
    return (
        f"delta cuts its gradient off, since A < 0 and {whose} {ratio:.3g} is above {max(options['delta'], high):.3g}"
    )
