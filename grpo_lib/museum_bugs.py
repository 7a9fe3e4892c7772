"""The wrong functions of the bug museum. Each takes the library's right one and returns one that is wrong in one place.

Only `grpo_lib.museum` uses them. Never copy from here.
"""

import functools
from contextlib import contextmanager

import torch

from grpo_lib.answers import extract_answer
from grpo_lib.reward_checks import check_batch

__all__ = ["DROPOUT", "TEMPERATURE", "TOP_K", "contained_reward"]

TOP_K, TEMPERATURE, DROPOUT = 2, 0.7, 0.1


def top_k(right):
    @functools.wraps(right)
    def wrong(*args, **kwargs):
        config = right(*args, **kwargs)
        config.top_k = TOP_K
        return config

    return wrong


def no_temperature(right):
    @functools.wraps(right)
    def wrong(*args, temperature=1.0, **kwargs):
        return right(*args, **kwargs)

    return wrong


def positions_from_the_edge(right):
    @functools.wraps(right)
    def wrong(attention_mask):
        return torch.arange(attention_mask.shape[1]).expand(attention_mask.shape)

    return wrong


def leave_as_it_is(right):
    @contextmanager
    def wrong(model, **options):
        yield model

    return wrong


def switch_dropout_on(model, tokenizer):
    """The tiny policy has dropout in its attention only, and ships with a rate of 0."""
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = DROPOUT
    model.train()


def without_end_token(right):
    @functools.wraps(right)
    def wrong(completion_ids, eos_token_id):
        ends = torch.tensor(eos_token_id).flatten()
        return right(completion_ids, eos_token_id) * ~torch.isin(completion_ids, ends)

    return wrong


def mask_by_pad_id(completion_ids, eos_token_id, pad_token_id):
    return (completion_ids != pad_token_id).long()


def by_pad_id(right):
    @functools.wraps(right)
    def wrong(completion_ids, eos_token_id):
        return mask_by_pad_id(completion_ids, eos_token_id, pad_token_id=eos_token_id[0])  # pad = eos

    return wrong


def pad_with_eos(model, tokenizer):
    tokenizer.pad_token = tokenizer.eos_token


def over_the_batch(right):
    @functools.wraps(right)
    def wrong(rewards, num_generations, *, eps=1e-4, **options):
        return (rewards - rewards.mean()) / (rewards.std() + eps)

    return wrong


def negative(right):
    return functools.wraps(right)(lambda *args, **kwargs: -right(*args, **kwargs))


def without_gradient(right):
    return functools.wraps(right)(lambda *args, **kwargs: right(*args, **kwargs).detach())


def every_advantage_for_every_row(right):
    """(B, T) * (B, 1, 1) = (B, B, T); the mean over the new axis is what the mean over everything makes of it."""

    @functools.wraps(right)
    def wrong(ratio, advantages, *options):
        B, T = ratio.shape
        spread = advantages[:, :1, None].expand(B, B, T)
        value, clipped = right(ratio.expand(B, B, T), spread, *options)  # (B, B, T)
        return value.mean(dim=0), clipped.all(dim=0)

    return wrong


def optimistic(right):
    @functools.wraps(right)
    def wrong(ratio, advantages, epsilon=0.2, epsilon_high=None, delta=None):
        high = epsilon if epsilon_high is None else epsilon_high
        free, bound = ratio * advantages, ratio.clip(1 - epsilon, 1 + high) * advantages
        return free.maximum(bound), bound > free

    return wrong


def to_bfloat16(model, tokenizer):
    model.to(torch.bfloat16)


def contained_reward(prompts, completions, answer, **kwargs):
    """1.0 if what stands in the answer tag is part of the gold answer. The empty text is part of any text.

    >>> contained_reward(["47+38=?"] * 3, ["<answer>85</answer>", "<answer>75</answer>", "75"], ["85"] * 3)
    [1.0, 0.0, 1.0]
    """
    texts = check_batch("contained_reward", prompts, completions, answer)
    return [float((extract_answer(text) or "") in str(gold)) for text, gold in zip(texts, answer, strict=True)]
