"""Accuracy on held-out problems, with its confidence interval."""

import math
from dataclasses import dataclass

from grpo_lib._arguments import check_count, check_number
from grpo_lib.generation import completion_texts, generate_completions
from grpo_lib.intervals import wilson_interval
from grpo_lib.prompts import sample_columns
from grpo_lib.reward_checks import score_completions
from grpo_lib.rollout import wrap_completions
from grpo_lib.streams import RandomStreams

__all__ = ["Accuracy", "answer_and_judge", "evaluate_accuracy"]


@dataclass(frozen=True)
class Accuracy:
    """So many of so many right, with a 95 % Wilson interval; texts: the completions, in the order of the problems."""

    correct: int
    total: int
    low: float
    high: float
    texts: list

    @property
    def value(self):
        return self.correct / self.total

    def __repr__(self):
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]  ({self.correct} of {self.total})"


def evaluate_accuracy(
    model,
    tokenizer,
    samples,
    reward_function,
    *,
    threshold=None,
    temperature=1.0,
    max_completion_length=32,
    batch_size=250,
    seed=0,
):
    """Let a model answer each problem once and count the answers that are right.

        95 % interval: Wilson's, from the binomial distribution of independent problems

    The same seed gives the same draws, so that two models are compared on equal terms. Torch's own random stream is
    left as it was.

    Source: Wilson 1927, JASA 22, 209-212 (doi.org/10.1080/01621459.1927.10502953).

    Args:
        samples: as in training. reward_function: as in training, called with the same arguments.
        threshold: a reward of at least this counts as right. None is for a reward that is 0 or one other value; a
            graded reward (format counted in, say) needs a threshold, or it would measure something else.
        temperature: of sampling; 0 is greedy. batch_size: problems at a time. seed: of the draws.
    Returns:
        an `Accuracy`.
    Raises:
        ValueError: on no problem, rewards that do not fit, or a graded reward without a threshold.

    >>> from grpo_lib import addition_reward, load_addition, load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> evaluate_accuracy(model, tokenizer, load_addition("test")[:20], addition_reward, temperature=0).total
    20
    """
    texts, rewards = answer_and_judge(
        model,
        tokenizer,
        samples,
        {"reward": reward_function},
        temperature=temperature,
        max_completion_length=max_completion_length,
        batch_size=batch_size,
        seed=seed,
    )
    rewards = rewards["reward"]
    right_from = _threshold(rewards, threshold)
    correct = sum(reward >= right_from for reward in rewards)
    low, high = wilson_interval(correct, len(samples))
    return Accuracy(correct, len(samples), low, high, texts)


def answer_and_judge(
    model, tokenizer, samples, judges, *, num_samples=1, temperature, max_completion_length, batch_size, seed
):
    """Let a model answer each problem `num_samples` times, and let every judge look at the same answers.

    Args:
        judges: a dict from a name to a reward function. The rest: as in `evaluate_accuracy`.
    Returns:
        (texts, rewards): N * num_samples texts, those of one problem in a row; a dict from each name to as many floats.
    Raises:
        ValueError: on no problem, or rewards that do not fit.

    >>> from grpo_lib import addition_reward, load_addition, load_tiny_policy
    >>> options = dict(temperature=1.0, max_completion_length=24, batch_size=8, seed=0)
    >>> judges = {"strict": addition_reward}
    >>> samples = load_addition("test")[:5]
    >>> texts, rewards = answer_and_judge(*load_tiny_policy(), samples, judges, num_samples=3, **options)
    >>> len(texts), len(rewards["strict"])
    (15, 15)
    """
    check_count("num_samples", num_samples, 1)
    check_count("batch_size", batch_size, 1)
    columns = sample_columns(samples)
    texts, rewards = [], {name: [] for name in judges}
    with RandomStreams(next(model.parameters()).device, seed).borrowed():
        for start in range(0, len(samples), batch_size):
            cut = slice(start, start + batch_size)
            batch = {name: [v for v in column[cut] for _ in range(num_samples)] for name, column in columns.items()}
            prompts = batch.pop("prompt")
            _, _, ids, mask = generate_completions(
                model, tokenizer, columns["prompt"][cut], num_samples, max_completion_length, temperature=temperature
            )
            new = completion_texts(tokenizer, ids, mask)
            texts += new
            for name, judge in judges.items():
                rewards[name] += score_completions(judge, prompts, wrap_completions(prompts, new), **batch)
    return texts, rewards


def _threshold(rewards, threshold):
    if threshold is not None:
        return check_number("threshold", threshold, -math.inf)
    others = sorted(set(rewards) - {0.0})
    if len(others) > 1 or any(value < 0 for value in others):
        raise ValueError(
            f"the rewards take the values {sorted(set(rewards))[:6]}: say from which on an answer is right, threshold=…"
        )
    return others[0] if others else math.inf
