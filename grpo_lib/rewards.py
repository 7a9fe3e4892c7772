"""Score completions by rules: is the answer right, are the tags there. Text in, a list of floats out.

| what the model wrote                                       | what it earns                                           |
|------------------------------------------------------------|---------------------------------------------------------|
| the answer tag holds the gold answer, letter for letter    | correctness 2.0                                         |
| … another way to write the same number (`$70,000`, `70.0`) | correctness 1.5                                         |
| … a wrong, unclear or empty answer; no answer tag          | correctness 0, however right the text around it         |
| several `<answer>` blocks                                  | the last complete one is read, in training and testing  |
| each of `<reasoning> </reasoning> <answer> </answer>`      | format 0.2, if it occurs exactly once and in its place  |
| a tag twice (or more)                                      | 0 for that tag: repeating costs, it never pays          |
| a tag out of order                                         | 0 for each tag that stands before one already paid      |
| new lines, text outside the tags, empty blocks             | nothing gained, nothing lost in format                  |
| a tag that stands in the prompt (prefilled)                | 0, to every completion of a group alike: only what the  |
|                                                            | model wrote is read, and advantages do not change       |

`grpo_lib.answers` states how a number is read. A rule is a target: whatever it does not read, the policy is free to do.

Three things are errors, not zeros. A gold answer that is missing or is not one number raises (a run with a broken row
would learn from noise); so does a reward that is not one finite float a completion; and so does a reward function that
fails on a row (`score_completions` names the function, the row and the text). No *text* makes these functions fail.
Completions must be decoded up to the first stop token: what follows it is not the model's answer.
"""

import numbers

from grpo_lib.answers import extract_answer, extract_gsm8k_answer, last_number, parse_number
from grpo_lib.reward_checks import check_batch, check_rewards, completion_text, score_completions, short

__all__ = [
    "TAGS",
    "check_rewards",
    "combined_reward",
    "completion_text",
    "correctness_reward",
    "extract_answer",
    "extract_gsm8k_answer",
    "format_reward",
    "last_number",
    "parse_failure_rate",
    "parse_number",
    "score_completions",
]

TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")


def correctness_reward(prompts, completions, answer, **kwargs):
    """Reward the content of the answer tag: 2.0 if it is the gold answer, 1.5 if it equals it as a number, else 0.

    Args:
        prompts: B prompts, not read.
        completions: B strings, or B lists of messages `[{"content": …}]`.
        answer: B gold answers, each a string or a number that reads as one number.
        **kwargs: what a trainer passes besides (completion_ids, trainer_state, …), not read.
    Returns:
        B floats, each 0.0, 1.5 or 2.0.
    Raises:
        ValueError: if the lengths differ, or a gold answer is missing or is not one number.
        TypeError: if a completion is neither a string nor a list of messages.

    >>> correctness_reward(["7*10?"] * 3, ["<answer>70</answer>", "<answer>$70.00</answer>", "70"], ["70"] * 3)
    [2.0, 1.5, 0.0]
    """
    texts = check_batch("correctness_reward", prompts, completions, answer)
    golds = [_check_gold(f"correctness_reward: row {row} of {len(texts)}", gold) for row, gold in enumerate(answer)]
    return [_correctness(extract_answer(text), gold) for text, gold in zip(texts, golds, strict=True)]


def format_reward(prompts, completions, answer, **kwargs):
    """Reward the tags: 0.2 for each of the four that occurs exactly once and after those already paid.

    The tags are paid in the order `<reasoning> </reasoning> <answer> </answer>`, so 0.8 is for exactly one of each, in
    order. Nothing is taken off: a text never scores below 0, and the end of the text needs no new line.

    Args:
        prompts, completions, answer, **kwargs: as in `correctness_reward`; only the completions are read.
    Returns:
        B floats, each 0.0, 0.2, 0.4, 0.6 or 0.8.
    Raises:
        ValueError, TypeError: as in `correctness_reward`, but the gold answers are only counted.

    >>> format_reward(["?"] * 2, ["<reasoning>\\n1+1\\n</reasoning>\\n<answer>2</answer>", "<answer>2"], ["2", "2"])
    [0.8, 0.2]
    """
    return [_format(text) for text in check_batch("format_reward", prompts, completions, answer)]


def combined_reward(prompts, completions, answer, **kwargs):
    """Return the sum of `correctness_reward` and `format_reward`, from 0 to 2.8.

    Args, Raises: as in `correctness_reward`.
    Returns:
        B floats.

    >>> combined_reward(["1+1?"], ["<reasoning>1+1</reasoning><answer>2</answer>"], ["2"])
    [2.8]
    """
    correctness = correctness_reward(prompts, completions, answer, **kwargs)
    form = format_reward(prompts, completions, answer, **kwargs)
    return [a + b for a, b in zip(correctness, form, strict=True)]


def parse_failure_rate(completions):
    """Return the share of completions whose answer tag does not hold one number: watch it beside the reward.

    A right answer that the parser cannot read is a wrong gradient; a rate that stays high asks for a look at the texts.

    Args:
        completions: B >= 1 strings or lists of messages.
    Returns:
        float in [0, 1].
    Raises:
        ValueError: if there are no completions.

    >>> parse_failure_rate(["<answer>7</answer>", "<answer>7 or 8</answer>"])
    0.5
    """
    if len(completions) == 0:
        raise ValueError("parse_failure_rate needs at least one completion, got 0")
    texts = check_batch("parse_failure_rate", completions, completions, completions)
    return sum(parse_number(extract_answer(text) or "") is None for text in texts) / len(texts)


def _check_gold(where, gold):
    text = str(gold).strip() if isinstance(gold, str | numbers.Number) else None
    value = None if text is None else parse_number(text)
    if value is None:
        advice = "drop the row, or cut the answer out of a worked solution first (extract_gsm8k_answer)"
        raise ValueError(f"{where}: a gold answer must be one number, got {short(gold)}; {advice}")
    return text, value


def _correctness(found, gold):
    text, value = gold
    if found is None:
        return 0.0
    if found == text:
        return 2.0
    return 1.5 if parse_number(found) == value else 0.0


def _format(text):
    paid, last = 0, -1
    for tag in TAGS:
        place = text.find(tag)
        if place > last and text.count(tag) == 1:
            paid, last = paid + 1, place
    return paid / 5
