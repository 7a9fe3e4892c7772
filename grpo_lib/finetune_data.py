"""The tasks of a fine-tuning run: problems to train on, to pick by and to report on; the reward and the judges."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grpo_lib._arguments import check_count
from grpo_lib.generation import encode_prompts
from grpo_lib.gsm8k import load_gsm8k
from grpo_lib.problem_results import lenient_match
from grpo_lib.reward_checks import check_batch
from grpo_lib.rewards import combined_reward, correctness_reward
from grpo_lib.tasks import addition_reward, load_addition
from grpo_lib.word_tasks import NUMBER_WORDS, load_word_addition, word_addition_reward

__all__ = ["TASKS", "FinetuneData", "Task", "first_number_match", "load_task", "tag_match"]


@dataclass(frozen=True)
class Task:
    """what: in words. load: a function of split ("train", "test"). reward: what is paid. judges: right or wrong.

    num_samples: answers a problem where it is sampled. batch_size: answers at a time. num_picking: problems that are
    kept from training, to pick a checkpoint by.
    """

    what: str
    load: Callable
    reward: Callable
    judges: dict
    num_samples: int = 1
    batch_size: int = 250
    num_picking: int = 64
    reads_files: bool = False


def tag_match(prompts, completions, answer, **kwargs):
    """Judge strictly: 1.0 if the answer tag holds the right number, in whatever writing; the form beside is not asked.

    Args:
        prompts, completions, answer, **kwargs: as in `grpo_lib.rewards.correctness_reward`.
    Returns:
        B floats, each 1.0 or 0.0.

    >>> tag_match(["7*10?"] * 3, ["<answer>70</answer>", "<answer>$70.00</answer>", "70"], ["70"] * 3)
    [1.0, 1.0, 0.0]
    """
    return [float(reward > 0) for reward in correctness_reward(prompts, completions, answer)]


def first_number_match(prompts, completions, answer, **kwargs):
    """Judge leniently, where a text goes on after its answer: 1.0 if the first number in it is right.

    Args:
        prompts, completions, answer, **kwargs: as in `grpo_lib.word_tasks.word_addition_reward`; a number is written in
            figures or as a word from zero to eighteen.
    Returns:
        B floats, each 1.0 or 0.0.

    >>> texts = [" about eight, or 9.", " 8.5.", " Six. No, 8.", " many"]
    >>> first_number_match(["Three plus five equals"] * 4, texts, ["8"] * 4)
    [1.0, 0.0, 0.0, 0.0]
    """
    texts = check_batch("first_number_match", prompts, completions, answer)
    words = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
    number = re.compile(rf"(?:(?<!\w)[-\u2212])?\d+(?:[.,]\d+)*|\b(?:{words})\b")  # with its sign: -8 is not 8
    found = [number.search(text.lower()) for text in texts]
    return [
        float(match is not None and match[0] in (str(gold), NUMBER_WORDS[int(gold)]))
        for match, gold in zip(found, answer, strict=True)
    ]


TASKS = {
    "tiny": Task(
        "two-digit addition", load_addition, addition_reward, {"strict": addition_reward, "lenient": lenient_match}
    ),
    "smollm2": Task(
        "one-digit addition in words",
        load_word_addition,
        word_addition_reward,
        {"strict": word_addition_reward, "lenient": first_number_match},
        num_samples=8,
        batch_size=80,
        num_picking=10,
    ),
    "gpu": Task(
        "GSM8K",
        load_gsm8k,
        combined_reward,
        {"strict": tag_match, "lenient": lenient_match},
        batch_size=64,
        reads_files=True,
    ),
}


@dataclass(frozen=True)
class FinetuneData:
    """The problems of a run, no one in two parts.

    left_out: how many were left out of training, by reason. not_picked_by: how many left out of picking, since they
    also stand in the test.
    """

    train: list
    picking: list
    test: list
    left_out: dict
    not_picked_by: int = 0

    def __str__(self):
        parts = (
            f"{len(self.train)} to train on, {len(self.picking)} to pick a checkpoint by, {len(self.test)} to report on"
        )
        left = [f"{count} {reason}" for reason, count in self.left_out.items() if count]
        parts += f"; left out of training: {', '.join(left)}" if left else ""
        return parts + (f"; left out of picking: {self.not_picked_by} of the test" if self.not_picked_by else "")

    @classmethod
    def fitting(cls, tokenizer, train, picking, test, *, limit=None):
        """Leave out of training what would stop a run half-way (a prompt of more than `limit` tokens) or flatter it.

        Args:
            tokenizer: of the model. train, picking, test: lists of samples. limit: tokens of a prompt; None is any.
        Returns:
            `FinetuneData`.
        Raises:
            ValueError: if nothing is left to train on, or to pick a checkpoint by.
        """
        asked = {str(sample["prompt"]) for sample in test}
        fair = [sample for sample in picking if str(sample["prompt"]) not in asked]
        seen_later = {str(sample["prompt"]) for sample in picking + test}
        new = [sample for sample in train if str(sample["prompt"]) not in seen_later]
        lengths = map(len, encode_prompts(tokenizer, [sample["prompt"] for sample in new])) if new else []
        short = [sample for sample, length in zip(new, lengths, strict=True) if limit is None or length <= limit]
        left_out = {
            "that also stand in the other parts": len(train) - len(new),
            f"with a prompt of more than {limit} tokens": len(new) - len(short),
        }
        if not short:
            raise ValueError(f"no problem is left to train on: of {len(train)}, {left_out}")
        if picking and not fair:
            raise ValueError(
                f"all {len(picking)} problems to pick a checkpoint by stand in the test too: what is picked by them is "
                "no longer tested by them. Take them out of the training file, or pick by more (num_picking)"
            )
        return cls(short, fair, test, left_out, len(picking) - len(fair))


def load_task(task, folder=None, num_picking=64, num_test=None):
    """Load a task's problems and cut off the last ones of the training split, to pick a checkpoint by.

    Args:
        task: a `Task`. folder: with train.jsonl and test.jsonl (see `load_gsm8k`), or None.
        num_picking: to cut off. num_test: the first ones of the test split; None takes all.
    Returns:
        (train, picking, test), lists of samples.
    Raises:
        ValueError: if fewer than two problems would be left in a part; and what the task's `load` raises.

    >>> [len(part) for part in load_task(TASKS["tiny"], num_picking=64, num_test=200)]
    [8946, 64, 200]
    """
    files = {split: {} if folder is None else {"path": Path(folder) / f"{split}.jsonl"} for split in ("train", "test")}
    pool, test = (task.load(split, **files[split]) for split in ("train", "test"))
    check_count("num_picking", num_picking, 2)
    if num_test is not None:
        check_count("num_test", num_test, 2, why=", or None for all")
    if len(pool) < num_picking + 2:
        raise ValueError(
            f"the training split holds {len(pool)} problems: {num_picking} to pick by leave too few; lower num_picking"
        )
    return pool[:-num_picking], pool[-num_picking:], test[:num_test]
