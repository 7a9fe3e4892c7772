"""Exercise checks on scaling out: completions a step, a reward that compares on a part of a group, decoding's floor."""

import numpy as np

from grpo_lib.verdicts import judge

__all__ = ["check_decode_floor", "check_prompts_a_step", "check_split_reward"]


def check_prompts_a_step(attempt):
    """Check `f(per_device, accumulation, processes, num_generations)`: prompts of one step, in TRL's counting.

    >>> check_prompts_a_step(lambda per_device, accumulation, processes, group: per_device * processes).slip
    'prompts already'
    """
    slips = {
        "prompts already": (
            lambda per_device, accumulation, processes, group: per_device * processes,
            "per_device_train_batch_size counts completions, not prompts; and the parts that are accumulated are one "
            "step too.",
        ),
        "whole prompts a pass": (
            lambda per_device, accumulation, processes, group: per_device // group * accumulation * processes,
            "A pass may hold part of a group: count all completions of the step first, then divide.",
        ),
        "completions": (
            lambda per_device, accumulation, processes, group: per_device * accumulation * processes,
            "Those are the completions of a step. How many prompts have they, at num_generations each?",
        ),
        "one process": (
            lambda per_device, accumulation, processes, group: per_device * accumulation // group,
            "Every process has as many: times the number of processes.",
        ),
        "no accumulation": (
            lambda per_device, accumulation, processes, group: per_device * processes // group,
            "The gradients of `accumulation` passes are added up before the one step.",
        ),
        "times the group": (
            lambda per_device, accumulation, processes, group: per_device * accumulation * processes * group,
            "A completion belongs to one prompt: divide by num_generations.",
        ),
    }
    cases = [(8, 1, 1, 8), (8, 4, 1, 8), (8, 4, 2, 8), (4, 2, 8, 16), (64, 1, 2, 8)]
    return judge(
        "prompts of a step",
        attempt,
        lambda per_device, accumulation, processes, group: per_device * accumulation * processes // group,
        cases,
        slips,
        praise="Two processes, and a step is twice as large: say so when you compare runs.",
    )


def check_split_reward(attempt):
    """Check `f(lengths, part)`: what "1 for the shortest" pays where the reward function sees `part` rows at a time.

    >>> check_split_reward(lambda lengths, part: (lengths == lengths.min()).astype(float)).slip
    'whole group'
    """

    def paid(lengths, part):
        parts = np.asarray(lengths).reshape(-1, part)
        return (parts == parts.min(axis=1, keepdims=True)).astype(float).ravel()

    slips = {
        "whole group": (
            lambda lengths, part: (lengths == lengths.min()).astype(float),
            "That is the shortest of all. A process's reward function sees only its own rows, part after part.",
        ),
        "one winner": (
            lambda lengths, part: (np.arange(len(lengths)) == lengths.argmin()).astype(float),
            "One winner of all, and only the first where two are equal: each part has winners of its own.",
        ),
        "the longest": (
            lambda lengths, part: 1 - paid(-lengths, part) if part == 1 else paid(-lengths, part),
            "The shortest is the least of the lengths.",
        ),
        "first winner": (
            lambda lengths, part: np.eye(part)[lengths.reshape(-1, part).argmin(axis=1)].ravel(),
            "Rows of equal length are equally short: each of them is paid.",
        ),
        "number of parts": (
            lambda lengths, part: paid(lengths, len(lengths) // part),
            "`part` is how many rows the function sees at once, not how many parts there are.",
        ),
        "dealt out": (
            lambda lengths, part: paid(lengths.reshape(part, -1).T.ravel(), part).reshape(-1, part).T.ravel(),
            "Rows are cut into parts in their order: the first `part` of them, then the next.",
        ),
    }
    lengths = np.array([9, 4, 7, 5, 3, 8, 6, 3])
    return judge(
        "a reward that compares",
        attempt,
        paid,
        [(lengths, part) for part in (8, 4, 2, 1)],
        slips,
        praise="With parts of 1 everybody wins: the rewards are equal, and nothing is learned.",
    )


def check_decode_floor(attempt):
    """Check `f(parameters, number_bytes, bandwidth, tokens, copies)`: the least seconds to write `tokens` tokens.

    >>> check_decode_floor(lambda p, size, bandwidth, tokens, copies: p * tokens / bandwidth).slip
    'weights without bytes'
    """
    slips = {
        "weights without bytes": (
            lambda p, size, bandwidth, tokens, copies: p * tokens / bandwidth,
            "The bandwidth is in bytes: a weight has number_bytes of them.",
        ),
        "shared out": (
            lambda p, size, bandwidth, tokens, copies: p * size * tokens / bandwidth / copies,
            "Each copy writes completions of its own, from the first token to the last: more copies write more of "
            "them, none sooner.",
        ),
        "copies one after another": (
            lambda p, size, bandwidth, tokens, copies: p * size * tokens / bandwidth * copies,
            "The copies read at the same time, each its own memory: `copies` does not appear.",
        ),
        "two bytes": (
            lambda p, size, bandwidth, tokens, copies: 2 * p * tokens / bandwidth,
            "Not every weight has 16 bits: take number_bytes.",
        ),
        "once": (
            lambda p, size, bandwidth, tokens, copies: p * size / bandwidth,
            "That is one token. The next one needs it, so the weights are read again for each.",
        ),
        "upside down": (
            lambda p, size, bandwidth, tokens, copies: bandwidth / (p * size * tokens),
            "Seconds are bytes over bytes a second.",
        ),
        "bits": (
            lambda p, size, bandwidth, tokens, copies: 8 * p * size * tokens / bandwidth,
            "Both are in bytes already: no factor of 8.",
        ),
    }
    cases = [
        (7.62e9, 2, 2039e9, 1000, 1),
        (7.62e9, 2, 2039e9, 1000, 8),
        (0.494e9, 2, 320e9, 256, 2),
        (8e9, 1, 1e12, 5, 4),
    ]
    return judge(
        "the floor of decoding",
        attempt,
        lambda p, size, bandwidth, tokens, copies: p * size * tokens / bandwidth,
        cases,
        slips,
        praise="Cutting the matrices over several GPUs (tensor parallelism) is what lowers it.",
    )
