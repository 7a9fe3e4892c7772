"""The GRPO loss over a rollout.

    rollout:  prompts → G completions each → texts → rewards → advantages, with the log-probs of π_old and π_ref
    loss:     the rollout scored again under π, with gradient (`grpo_lib.losses.policy_loss`)

Sampling happens once; the loss can be taken several times on one rollout.
"""

from dataclasses import replace

import torch

from grpo_lib.losses import policy_loss
from grpo_lib.modes import recomputes_with_dropout
from grpo_lib.rollout import Rollout, collect_rollout, score_rollout

__all__ = ["Rollout", "collect_rollout", "grpo_loss", "rollout_loss", "score_rollout"]


def rollout_loss(model, rollout, *, mask_truncated_completions=False, **options):
    """Take the loss of a rollout under the model as it is now.

    Args:
        mask_truncated_completions: leave completions that were cut at the length limit out of the loss (DAPO,
            arXiv:2503.14476, section 3.4: a cut answer says little about the reasoning). They stay in the group.
        **options: of `policy_loss`: beta, epsilon, loss_type, …
    Returns:
        (loss, watch): see `policy_loss`; watch also holds "log_probs", (B, T) without gradient.
    Raises:
        ValueError: if beta > 0 and the rollout holds no reference log-probs.
    """
    log_probs = score_rollout(model, rollout, with_gradient=True)
    loss, watch = policy_loss(
        log_probs,
        rollout.old_log_probs,
        rollout.ref_log_probs,
        rollout.advantages,
        rollout.loss_mask(mask_truncated_completions),
        **options,
    )
    return loss, {**watch, "log_probs": log_probs.detach()}


def grpo_loss(
    model,
    ref_model,
    tokenizer,
    batch_samples,
    reward_function,
    beta=0.1,
    num_generations=4,
    max_completion_length=32,
    *,
    temperature=1.0,
    scale="group",
    baseline="mean",
    **options,
):
    """Sample a batch and take its GRPO loss: one whole step but for the optimizer.

        loss = mean over completions of mean over tokens of -(min(ratio · A, clip(ratio, 1 - ε, 1 + ε) · A) - beta · k3)

    On fresh samples the ratio is 1 and the loss is beta times the KL, while its gradient is what teaches: watch the
    rewards, not this number.

    Source: Shao et al. 2024, DeepSeekMath, section 4.1 (arXiv:2402.03300).

    Args:
        model: the policy π. ref_model: the frozen π_ref, or None with beta = 0.
        batch_samples: P dicts with "prompt" and "answer", or (prompt, answer) pairs.
        reward_function: called with prompts, completions and answer; returns a finite number per completion.
        beta: weight of the KL term. num_generations: G >= 2. max_completion_length: T at most.
        temperature: of sampling and scoring. scale, baseline: see `group_advantages`.
        **options: of `rollout_loss`: epsilon, loss_type, importance_sampling_level, …
    Returns:
        a scalar with gradient.
    Raises:
        ValueError, TypeError: on bad samples, rewards or settings. FloatingPointError: if the loss is not finite.

    >>> from grpo_lib import addition_reward, load_addition, load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> loss = grpo_loss(model, None, tokenizer, load_addition("train")[:2], addition_reward, beta=0.0)
    >>> loss.shape, loss.requires_grad
    (torch.Size([]), True)
    """
    if beta > 0 and ref_model is None:
        raise ValueError(
            f"beta = {beta} needs a ref_model, the frozen start; got None (a deep copy of the start will do)"
        )
    if recomputes_with_dropout(model):
        raise ValueError(
            "this model checkpoints its activations and has dropout: the backward pass would run it again with dropout "
            "on. Set its dropout rates to 0, switch checkpointing off, or use GRPORun, which keeps dropout off"
        )
    rollout = collect_rollout(
        model,
        tokenizer,
        batch_samples,
        reward_function,
        num_generations=num_generations,
        max_completion_length=max_completion_length,
        temperature=temperature,
        scale=scale,
        baseline=baseline,
    )
    if beta > 0:
        rollout = replace(rollout, ref_log_probs=score_rollout(ref_model, rollout))
    loss, _ = rollout_loss(model, rollout, beta=beta, max_completion_length=max_completion_length, **options)
    if not torch.isfinite(loss):
        raise FloatingPointError(
            f"the loss is {loss.item()}: the model's logits, or its distance to the reference, are out of range; "
            "lower the learning rate, and check the model's dtype"
        )
    return loss
