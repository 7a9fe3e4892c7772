"""Tasks to train on: two-digit addition, made here, and GSM8K (see `grpo_lib.gsm8k`)."""

import hashlib
import re
from functools import lru_cache

from grpo_lib.gsm8k import SYSTEM_PROMPT, load_gsm8k
from grpo_lib.reward_checks import check_batch

__all__ = [
    "SYSTEM_PROMPT",
    "add_without_carries",
    "addition_pairs",
    "addition_prompt",
    "addition_reward",
    "careful_completion",
    "has_reasoning",
    "load_addition",
    "load_gsm8k",
    "sloppy_completion",
]

NUM_HELD_OUT = 500
CAREFUL, HASTY = 0.25, 0.45  # shares of the three habits in the pretraining text; the rest is BARE

_ADDITION_ANSWER = re.compile(r"(?:<think>[^<]*</think>)?<answer>([0-9]{1,18})</answer>")


def _rank(a, b):
    """Where the unordered pair stands in a shuffle that no random number generator's version can move."""
    return hashlib.sha256(f"{min(a, b)}+{max(a, b)}".encode()).digest()


@lru_cache
def addition_pairs(split):
    """List the (a, b) of one split of two-digit addition, well mixed and always in the same order.

    Of the 10,000 pairs 0..99 × 0..99, 500 are held out as "test".  Their commuted twins b+a belong to neither
    split, so that nothing in "train" gives a held-out sum away.  The order is that of a SHA-256 digest.

    Args:
        split: "train" or "test".
    Returns:
        A tuple of (a, b).
    Raises:
        ValueError: for another split.

    >>> len(addition_pairs("test")), len(addition_pairs("train"))
    (500, 9010)
    >>> a, b = addition_pairs("test")[0]
    >>> (a, b) in addition_pairs("train") or (b, a) in addition_pairs("train")
    False
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")
    unordered = sorted(((a, b) for a in range(100) for b in range(a, 100)), key=lambda pair: _rank(*pair))
    if split == "test":
        return tuple((a, b) if _rank(a, b)[-1] % 2 else (b, a) for a, b in unordered[:NUM_HELD_OUT])
    both = {pair for a, b in unordered[NUM_HELD_OUT:] for pair in ((a, b), (b, a))}
    return tuple(sorted(both, key=lambda pair: hashlib.sha256(f"train {pair[0]}+{pair[1]}".encode()).digest()))


def addition_prompt(a, b):
    """Return the chat messages that ask for a + b; both numbers have two digits, so every prompt is equally long.

    >>> addition_prompt(47, 38), addition_prompt(7, 5)
    ([{'role': 'user', 'content': '47+38=?'}], [{'role': 'user', 'content': '07+05=?'}])
    """
    return [{"role": "user", "content": f"{a:02d}+{b:02d}=?"}]


def load_addition(split):
    """Load two-digit addition as training samples; the same rows in the same order everywhere.

    Args:
        split: "train" (what a policy may be trained on) or "test" (500 problems held out, twins too).
    Returns:
        A list of `{"prompt": messages, "answer": str}`.
    Raises:
        ValueError: for another split.

    >>> sorted(load_addition("test")[0])
    ['answer', 'prompt']
    """
    return [{"prompt": addition_prompt(a, b), "answer": str(a + b)} for a, b in addition_pairs(split)]


def addition_reward(prompts, completions, answer, **kwargs):
    """Reward 1.0 for a completion that is, as a whole, `(<think>…</think>)?<answer>N</answer>` with N right.

    Anything before, between or after counts as wrong, and so does an end marker such as `<|im_end|>` that was
    left in the text.  N is compared as a whole number written in the digits 0-9, so 05 is 5.

    Args:
        prompts: B prompts, not read.
        completions: B strings, or B lists of messages `[{"content": …}]`.
        answer: B right answers, whole numbers or their text.
        **kwargs: what a trainer passes besides, not read.
    Returns:
        B floats, each 1.0 or 0.0.
    Raises:
        ValueError: if the lengths differ, or an answer is not a whole number.
        TypeError: if a completion is neither a string nor a list of messages.

    >>> completions = ["<think>7+8=15,4+3+1=8</think><answer>85</answer>", "<answer>75</answer>", "85"]
    >>> addition_reward(["47+38=?"] * 3, completions, ["85"] * 3)
    [1.0, 0.0, 0.0]
    """
    texts = check_batch("addition_reward", prompts, completions, answer)
    golds = [_whole_number(gold, row, len(texts)) for row, gold in enumerate(answer)]
    matches = [_ADDITION_ANSWER.fullmatch(text) for text in texts]
    return [float(match is not None and int(match[1]) == gold) for match, gold in zip(matches, golds, strict=True)]


def _whole_number(gold, row, num_rows):
    if isinstance(gold, bool) or not re.fullmatch(r"[0-9]{1,18}", str(gold)):
        raise ValueError(f"addition_reward: row {row} of {num_rows}: the answer must be a whole number, got {gold!r}")
    return int(gold)


def add_without_carries(a, b):
    """Add two numbers digit by digit and forget every carry.

    >>> add_without_carries(47, 38), add_without_carries(97, 88), add_without_carries(21, 34)
    (75, 75, 55)
    """
    return (a // 10 + b // 10) % 10 * 10 + (a + b) % 10


def careful_completion(a, b):
    """Write the addition out, units first, with the carry, and answer.

    >>> careful_completion(47, 38)
    '<think>7+8=15,4+3+1=8</think><answer>85</answer>'
    >>> careful_completion(21, 34)
    '<think>1+4=5,2+3=5</think><answer>55</answer>'
    """
    units = a % 10 + b % 10
    carry = units // 10
    tens = a // 10 + b // 10 + carry
    thought = f"{a % 10}+{b % 10}={units},{a // 10}+{b // 10}{'+1' * carry}={tens}"
    return f"<think>{thought}</think><answer>{a + b:02d}</answer>"


def sloppy_completion(a, b, rng):
    """Write an answer to a + b as the people of the pretraining text do: sloppily, in one of three habits.

    25 % write the carry out and are right; 45 % answer at once and forget every carry;
    the rest (30 %) write a bare number, without the tags and without carries.

    Args:
        a, b: whole numbers from 0 to 99.
        rng: a `random.Random`; one call of `rng.random()` is made.
    Returns:
        The completion's text.

    >>> import random
    >>> rng = random.Random(0)
    >>> sorted({sloppy_completion(47, 38, rng) for _ in range(50)})
    ['75', '<answer>75</answer>', '<think>7+8=15,4+3+1=8</think><answer>85</answer>']
    """
    habit = rng.random()
    if habit < CAREFUL:
        return careful_completion(a, b)
    hasty = f"{add_without_carries(a, b):02d}"
    return f"<answer>{hasty}</answer>" if habit < CAREFUL + HASTY else hasty


def has_reasoning(text):
    """Say whether a completion reasons: it starts with `<think>` and closes it; for the share of reasoning.

    >>> [has_reasoning(t) for t in ("<think>1+1=2</think><answer>2</answer>", "<answer>2</answer>", "<think>1+")]
    [True, False, False]
    """
    return re.match(r"<think>[^<]+</think>", text) is not None
