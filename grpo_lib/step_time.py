"""How long a GRPO step takes on one GPU and on N: a model of three bounds, to be checked, not believed.

Generation is bound by memory: each new token of a batch needs all weights to be read once, and each row's cache too.
Scoring and training are bound by arithmetic: 2 floating-point operations a weight and token forward, 6 with backward.
Between them weights or gradients travel over the link. What the model leaves out makes a step longer, never shorter:
launching kernels (felt where a model is small for its GPU), loading and rewarding, idle GPUs behind the longest row.

Sources: Pope et al. 2022 (arXiv:2211.05102), section 3, for generation; Kaplan et al. 2020 (arXiv:2001.08361), section
2.1, for 2 and 6 operations a weight; Chowdhery et al. 2022 (arXiv:2204.02311), appendix B, for the part of attention
and for what share of a chip's peak a training run reaches (46 %; here 40 %).
"""

from dataclasses import asdict, dataclass

from grpo_lib._arguments import check_count, check_number

__all__ = ["StepTime", "decode_floor", "generation_time", "step_time"]

PEAK_SHARE, BANDWIDTH_SHARE = 0.4, 0.6  # what runs reach of the data sheet: round numbers, not fitted to anything


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step by phase; `total` is their sum, as the phases follow one another."""

    generation: float
    scoring: float
    training: float
    synchronisation: float

    @property
    def total(self):
        return sum(asdict(self).values())

    @property
    def shares(self):
        """What part of the step each phase takes, in the order of the step."""
        return {phase: seconds / self.total for phase, seconds in asdict(self).items()}


def decode_floor(shape, gpu, tokens, *, tensor_parallel=1, bandwidth_share=1.0):
    """The least time to write `tokens` tokens one after another: the weights are read once for each of them.

        seconds = tokens * weight bytes / (tensor_parallel * share of bandwidth)

    More GPUs that each hold a whole copy do not shorten it; only cutting the matrices apart does, and fewer bytes.

    Args:
        shape: a `Shape`. gpu: a `GPU`. tokens: of the longest completion.
        tensor_parallel: over how many GPUs each matrix is cut. bandwidth_share: of the data sheet's bandwidth, (0, 1].
    Returns:
        seconds.
    Raises:
        ValueError: on a number out of its range.

    >>> from grpo_lib.hardware import GPUS, SHAPES
    >>> round(decode_floor(SHAPES["Qwen2.5-7B"], GPUS["A100 80 GB"], 1000), 2)  # 15.24 GB, 1000 times, at 2039 GB/s
    7.47
    """
    tokens = check_number("tokens", tokens, 0)
    tensor_parallel = check_count("tensor_parallel", tensor_parallel, 1)
    share = check_share("bandwidth_share", bandwidth_share)
    return tokens * shape.weight_bytes / (tensor_parallel * share * gpu.bandwidth)


def generation_time(
    shape,
    gpu,
    *,
    rows,
    prompt_length,
    completion_length,
    longest=None,
    group=1,
    tensor_parallel=1,
    bandwidth_share=BANDWIDTH_SHARE,
    peak_share=PEAK_SHARE,
):
    """Seconds to sample `rows` completions on one copy of the model, all of them at once.

        reading   = longest * weight bytes + rows * T * (L + T / 2) * cache bytes,      over the bandwidth
        computing = rows * (forward of L + T, less forward of L),                       over the arithmetic
        seconds   = max(reading, computing) + the prompts' forward, once a group

    It is a bound from below: at a step of decoding the larger of the two counts, and here only their sums are compared.

    Args:
        shape, gpu: what runs on what. rows: completions of this copy, B. prompt_length: L. completion_length: T, the
            mean, in tokens. longest: tokens of the longest completion; None takes T, as if all were equally long.
        group: completions of one prompt, which is read once for them (prefix caching).
        tensor_parallel: over how many GPUs this copy is cut.
        bandwidth_share, peak_share: what is reached of the data sheet, in (0, 1].
    Returns:
        seconds.
    Raises:
        ValueError: on a number out of its range, or a longest below the mean.
    """
    rows, group = check_number("rows", rows, 0, inclusive=False), check_count("group", group, 1)
    prompt_length = check_number("prompt_length", prompt_length, 0)
    mean = check_number("completion_length", completion_length, 0, inclusive=False)
    longest = mean if longest is None else check_number("longest", longest, mean)
    bandwidth = tensor_parallel * check_share("bandwidth_share", bandwidth_share) * gpu.bandwidth
    flops = tensor_parallel * check_share("peak_share", peak_share) * gpu.flops
    reading = decode_floor(shape, gpu, longest, tensor_parallel=tensor_parallel, bandwidth_share=bandwidth_share)
    reading += rows * mean * (prompt_length + mean / 2) * shape.cache_bytes / bandwidth
    prompts = shape.forward_flops(prompt_length)
    computing = rows * (shape.forward_flops(prompt_length + mean) - prompts) / flops
    return max(reading, computing) + rows / group * prompts / flops


def step_time(
    shape,
    gpu,
    *,
    completions,
    prompt_length,
    completion_length,
    longest=None,
    group=8,
    num_gpus=1,
    tensor_parallel=1,
    scorings=1,
    checkpointing=True,
    link=None,
    bandwidth_share=BANDWIDTH_SHARE,
    peak_share=PEAK_SHARE,
):
    """Seconds of one on-policy GRPO step by phase, on `num_gpus` GPUs that share the completions equally.

        generation       `generation_time` of one copy's completions, on `tensor_parallel` GPUs
        scoring          scorings * B * forward(L + T)                / arithmetic of all GPUs
        training         (3, with checkpointing 4) * B * forward      / arithmetic of all GPUs
        synchronisation  gradients 2 (N - 1)/N * weight bytes and weights to the sampler once, over the link

    Args:
        shape, gpu, prompt_length, completion_length, longest, group, bandwidth_share, peak_share: `generation_time`.
        completions: of the whole step, B. num_gpus: N. tensor_parallel: GPUs a copy is cut over while it samples.
        scorings: forward passes beside the training: 1 for the old policy's log-probs or for the reference's, 2 for
            both, 0 for neither. checkpointing: whether activations are computed again in backward.
        link: bytes/s one way between GPUs; None takes the data sheet's, which holds inside one node.
    Returns:
        a `StepTime`.
    Raises:
        ValueError: on a number out of its range, or num_gpus no multiple of tensor_parallel.

    >>> from grpo_lib.hardware import GPUS, SHAPES
    >>> one, eight = (
    ...     step_time(SHAPES["Qwen2.5-7B"], GPUS["H100"], completions=256, prompt_length=200, completion_length=800,
    ...               longest=4000, num_gpus=n) for n in (1, 8))
    >>> round(one.generation, 1), round(eight.generation, 1), round(one.training / eight.training, 3)
    (34.1, 30.8, 8.0)
    """
    completions = check_count("completions", completions, 1)
    num_gpus = check_count("num_gpus", num_gpus, 1)
    tensor_parallel = check_count("tensor_parallel", tensor_parallel, 1)
    scorings = check_count("scorings", scorings, 0)
    if num_gpus % tensor_parallel:
        raise ValueError(f"num_gpus must be a multiple of tensor_parallel, got {num_gpus} and {tensor_parallel}")
    generation = generation_time(
        shape,
        gpu,
        rows=completions * tensor_parallel / num_gpus,
        prompt_length=prompt_length,
        completion_length=completion_length,
        longest=longest,
        group=group,
        tensor_parallel=tensor_parallel,
        bandwidth_share=bandwidth_share,
        peak_share=peak_share,
    )
    forward = completions * shape.forward_flops(prompt_length + completion_length)
    forward /= num_gpus * peak_share * gpu.flops
    link = gpu.link if link is None else check_number("link", link, 0, inclusive=False)
    moved = (2 * (num_gpus - 1) / num_gpus + (num_gpus > 1)) * shape.weight_bytes / link
    return StepTime(generation, scorings * forward, (4 if checkpointing else 3) * forward, moved)


def check_share(name, value):
    value = check_number(name, value, 0, inclusive=False)
    if value > 1:
        raise ValueError(f"{name} is a share of the data sheet, above 0 and at most 1, got {value}")
    return value
