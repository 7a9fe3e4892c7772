"""What a model made of each problem: right or wrong under several judges at once, one sample or many."""

from dataclasses import dataclass

import numpy as np

from grpo_lib.answers import extract_answer, last_number, parse_number
from grpo_lib.evaluation import Accuracy, answer_and_judge
from grpo_lib.intervals import problem_interval, wilson_interval
from grpo_lib.pass_at_k import pass_at_k
from grpo_lib.reward_checks import check_batch

__all__ = ["ProblemResults", "evaluate_problems", "lenient_match"]


@dataclass(frozen=True)
class ProblemResults:
    """Which answers were right. N problems in the order given, n samples each.

    right: a dict from a judge's name to an (N, n) bool array; texts: N lists of n completions
    """

    right: dict
    texts: list

    def table(self, judge):
        """The (N, n) bool array of one judge; ValueError on a name that did not judge."""
        if judge not in self.right:
            raise ValueError(f"no judge {judge!r} here; there are: {', '.join(self.right)}")
        return self.right[judge]

    def accuracy(self, judge):
        """`Accuracy` of one judge, with its Wilson interval; for one sample a problem."""
        table = self.table(judge)
        if table.shape[1] != 1:
            raise ValueError(
                f"these are {table.shape[1]} samples a problem, which are no independent problems: "
                "use pass_at(1, judge), whose interval redraws problems"
            )
        correct, total = int(table.sum()), len(table)
        return Accuracy(correct, total, *wilson_interval(correct, total), [row[0] for row in self.texts])

    def pass_at(self, k, judge):
        """(pass@k, low, high) of one judge: the mean over problems and its bootstrap interval over problems."""
        table = self.table(judge)
        return problem_interval(pass_at_k(table.sum(axis=1), table.shape[1], k))


def evaluate_problems(
    model,
    tokenizer,
    samples,
    judges,
    *,
    num_samples=1,
    temperature=1.0,
    max_completion_length=32,
    batch_size=250,
    seed=0,
):
    """Let a model answer each problem and keep, problem by problem, what each judge says of the same answers.

    With one sample a problem, the answers are those of `evaluate_accuracy` with the same seed.

    Args:
        samples: N problems, as in training.
        judges: a dict from a name to a function like a reward's that gives 0.0 or 1.0, such as
            `{"strict": addition_reward, "lenient": lenient_match}`.
        num_samples: n answers a problem. temperature: of sampling; 0 is greedy, and then n must be 1.
        batch_size: problems at a time. seed: of the draws.
    Returns:
        `ProblemResults`.
    Raises:
        ValueError: on no problem, no judge, a judge that gives another number than 0 or 1, or many greedy samples.

    >>> from grpo_lib import addition_reward, load_addition, load_tiny_policy
    >>> judges = {"strict": addition_reward, "lenient": lenient_match}
    >>> samples = load_addition("test")[:20]
    >>> found = evaluate_problems(*load_tiny_policy(), samples, judges, temperature=0, max_completion_length=24)
    >>> found.right["strict"].shape, bool((found.right["lenient"] >= found.right["strict"]).all())
    ((20, 1), True)
    """
    if not judges:
        raise ValueError('judges must be a dict with at least one judge, such as {"strict": addition_reward}')
    if temperature == 0 and num_samples != 1:
        raise ValueError(f"greedy answers are all the same: num_samples must be 1 at temperature 0, got {num_samples}")
    texts, rewards = answer_and_judge(
        model,
        tokenizer,
        samples,
        judges,
        num_samples=num_samples,
        temperature=temperature,
        max_completion_length=max_completion_length,
        batch_size=batch_size,
        seed=seed,
    )
    for name, values in rewards.items():
        other = [value for value in values if value not in (0.0, 1.0)]
        if other:
            raise ValueError(f"judge {name!r} must give 0 or 1 for each completion, got {other[0]}")
    right = {name: np.array(values).reshape(-1, num_samples) == 1.0 for name, values in rewards.items()}
    rows = [texts[start : start + num_samples] for start in range(0, len(texts), num_samples)]
    return ProblemResults(right, rows)


def lenient_match(prompts, completions, answer, **kwargs):
    """Judge leniently: 1.0 if the number in the answer tag is right, or, without one there, the text's last number.

    For evaluation, beside a strict judge; as a reward it would pay for guesses (see `grpo_lib.answers.last_number`).

    Args:
        prompts, completions, answer, **kwargs: as a reward function gets them; each answer one number.
    Returns:
        B floats, each 1.0 or 0.0.
    Raises:
        ValueError: if the lengths differ, or a gold answer is not one number.

    >>> texts = ["<answer>85</answer>", "It is 85.", "85 or 75", "<answer>75</answer> is not 85"]
    >>> lenient_match(["47+38=?"] * 4, texts, ["85"] * 4)
    [1.0, 1.0, 0.0, 0.0]
    """
    texts = check_batch("lenient_match", prompts, completions, answer)
    golds = [parse_number(str(gold)) for gold in answer]
    if None in golds:
        row = golds.index(None)
        raise ValueError(
            f"lenient_match: row {row} of {len(golds)}: a gold answer must be one number, got {answer[row]!r}"
        )
    return [float(_number(text) == gold) for text, gold in zip(texts, golds, strict=True)]


def _number(text):
    found = parse_number(extract_answer(text) or "")
    return last_number(text) if found is None else found
