"""A rollout: prompts → G completions each → texts → rewards → advantages, and its log-probs under any model."""

from dataclasses import dataclass, replace

import torch

from grpo_lib._arguments import check_count
from grpo_lib.advantages import group_advantages
from grpo_lib.generation import completion_texts, generate_completions, stop_token_ids
from grpo_lib.logprobs import compute_log_probs
from grpo_lib.masks import truncated_completions
from grpo_lib.modes import evaluation_mode
from grpo_lib.prompts import sample_columns
from grpo_lib.reward_checks import score_completions

__all__ = ["Rollout", "collect_rollout", "score_rollout", "wrap_completions"]


@dataclass(frozen=True)
class Rollout:
    """G completions for each of P prompts, in consecutive rows (B = P * G), with all that the loss needs.

    prompts, answers, completions: lists of B (a completion is a string, or a list of messages where the prompt is one)
    texts: list of B strings; prompt_ids, prompt_mask: (B, L); completion_ids, completion_mask: (B, T)
    truncated: (B,) bool, cut at the length limit; rewards, advantages: (B,)
    old_log_probs, ref_log_probs: (B, T) in nats, or None where they are not needed
    num_generations: G; temperature: of sampling, and so of scoring
    """

    prompts: list
    answers: list
    completions: list
    texts: list
    prompt_ids: torch.Tensor
    prompt_mask: torch.Tensor
    completion_ids: torch.Tensor
    completion_mask: torch.Tensor
    truncated: torch.Tensor
    rewards: torch.Tensor
    advantages: torch.Tensor
    num_generations: int
    temperature: float = 1.0
    old_log_probs: torch.Tensor | None = None
    ref_log_probs: torch.Tensor | None = None

    def __len__(self):
        return len(self.completion_ids)

    def loss_mask(self, mask_truncated_completions=False):
        """(B, T): the completion mask, or the same with the rows that were cut at the length limit all 0."""
        if not mask_truncated_completions:
            return self.completion_mask
        return self.completion_mask * ~self.truncated[:, None]

    def rows(self, rows):
        """Cut out some rows (a slice), as one micro-batch of the loss."""
        cut = {name: value[rows] for name, value in vars(self).items() if isinstance(value, (list, torch.Tensor))}
        return replace(self, **cut)


def collect_rollout(
    model,
    tokenizer,
    batch_samples,
    reward_function,
    *,
    num_generations=4,
    max_completion_length=32,
    temperature=1.0,
    scale="group",
    baseline="mean",
    max_prompt_length=None,
):
    """Sample completions, let them be rewarded, and compare each with its group.

    The reward function is called once, as `reward_function(prompts=…, completions=…, answer=…)` with lists of B
    entries (each prompt and answer G times in a row); every other key of the samples is passed on in the same way.

    Args:
        batch_samples: P samples, dicts with "prompt" and "answer", or (prompt, answer) pairs.
        reward_function: returns one finite number per completion.
        num_generations: G >= 2. The rest: see `generate_completions` and `group_advantages`.
    Returns:
        a `Rollout` without log-probs (see `score_rollout`).
    Raises:
        ValueError, TypeError: on samples or rewards that do not fit; the error names the row.
    """
    check_count("num_generations", num_generations, 2, why=": a group of one has nothing to compare with")
    columns = {
        name: [value for value in column for _ in range(num_generations)]
        for name, column in sample_columns(batch_samples).items()
    }
    prompt_ids, prompt_mask, completion_ids, completion_mask = generate_completions(
        model,
        tokenizer,
        columns["prompt"][::num_generations],
        num_generations,
        max_completion_length,
        temperature=temperature,
        max_prompt_length=max_prompt_length,
    )
    texts = completion_texts(tokenizer, completion_ids, completion_mask)
    prompts = columns.pop("prompt")
    completions = wrap_completions(prompts, texts)
    scores = score_completions(reward_function, prompts, completions, **columns)
    rewards = _single_precision(scores, num_generations).to(completion_ids.device)
    return Rollout(
        prompts=prompts,
        answers=columns["answer"],
        completions=completions,
        texts=texts,
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        completion_ids=completion_ids,
        completion_mask=completion_mask,
        truncated=truncated_completions(completion_ids, stop_token_ids(model, tokenizer) or None),
        rewards=rewards,
        advantages=group_advantages(rewards, num_generations, scale=scale, baseline=baseline),
        num_generations=num_generations,
        temperature=temperature,
    )


def score_rollout(model, rollout, *, chunk_size=None, with_gradient=False):
    """Score a rollout's completions under a model, dropout off, at the temperature they were sampled with.

    Returns:
        (B, T) log-probs in nats; what stands after a completion's end is not to be used (see the mask).
    """
    ids = torch.cat([rollout.prompt_ids, rollout.completion_ids], dim=1)  # (B, L + T)
    mask = torch.cat([rollout.prompt_mask, rollout.completion_mask], dim=1)
    with evaluation_mode(model, keep_checkpointing=with_gradient), torch.set_grad_enabled(with_gradient):
        return compute_log_probs(
            model,
            ids,
            mask,
            rollout.completion_ids.shape[1],
            temperature=rollout.temperature,
            chunk_size=chunk_size,
        )


def _single_precision(scores, num_generations):
    """Rewards as float32, unless that would make an infinity, or equal rewards of a group whose rewards differ."""
    rewards, exact = torch.tensor(scores), torch.tensor(scores, dtype=torch.float64)
    row = int((rewards.isinf() & exact.isfinite()).int().argmax())
    rule = "float32 has 7 digits and ends at 3.4e38; subtract a constant or rescale in the reward function"
    if rewards[row].isinf():
        raise ValueError(f"the reward {scores[row]:g} in row {row} is too large: {rule}")
    spread = [
        part.view(-1, num_generations).amax(1) - part.view(-1, num_generations).amin(1) for part in (exact, rewards)
    ]
    lost = (spread[0] > 1e-3) & (spread[1] == 0)
    if lost.any():
        group = int(lost.int().argmax())
        raise ValueError(
            f"the rewards of group {group} differ by {spread[0][group]:.3g} about {scores[group * num_generations]:g}, "
            f"which is lost: {rule}"
        )
    return rewards


def wrap_completions(prompts, texts):
    """Completions as the reward function gets them: strings, or lists of one message where the prompt is a chat.

    >>> wrap_completions(["1+1=", [{"role": "user", "content": "1+1="}]], ["2", "2"])
    ['2', [{'role': 'assistant', 'content': '2'}]]
    """
    return [
        text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
        for prompt, text in zip(prompts, texts, strict=True)
    ]
