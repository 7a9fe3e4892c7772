"""Step times that others have measured and published, beside what the model of `step_time` says.

Nothing is fitted: what a chip reaches of its data sheet is one pair of round numbers for all rows, and what a source
does not say is filled in the same way each time (see `PUBLISHED`). A source is here because it gives model, GPUs,
number of completions and lengths; of a source every on-policy run of a dense model is here, none chosen by its result.

DeepSpeed-Chat times whole runs: 131,900 queries of 256 tokens and answers of 256, at most 1024 pairs a step. A row is
the time of 1024 pairs, which is a step's where memory allowed so many. It trains with PPO: a critic and a reward model
of 350 M weights stand beside the actor and are left out here. Over how many GPUs a copy is cut while it samples is not
said: the fewest (1, 2, 4, 8) that hold its 16-bit weights are taken.
NeMo RL's `sequence` is the mean of prompt and completion together; a prompt of 150 tokens is assumed, the longest
completion taken to be what the limit leaves. It takes old log-probs and the reference's: two scorings.
"""

from dataclasses import dataclass, field

from grpo_lib.hardware import GPUS, SHAPES
from grpo_lib.step_time import step_time

__all__ = ["PUBLISHED", "PublishedStep", "compare_with_published"]

DEEPSPEED = "DeepSpeed-Chat, blog of 2023-04-11, tables 1 and 2 and their footnote (arXiv:2308.01320)"
NEMO = "NVIDIA NeMo RL 0.4, performance summary, GRPO on-policy, DGX-H100"
RUN_STEPS = 131_900 / 1024  # parts of 1024 pairs, not always steps
NODE_LINK = 50e9  # between nodes: 400 Gbit/s a GPU, one way


@dataclass(frozen=True)
class PublishedStep:
    """A measured step. seconds: of one step. options: what `step_time` is told."""

    shape: str
    gpu: str
    seconds: float
    source: str
    options: dict = field(compare=False)


def _deepspeed(shape, gpu, num_gpus, hours, tensor_parallel=1):
    options = dict(completions=1024, prompt_length=256, completion_length=256, group=1, num_gpus=num_gpus, scorings=2)
    options["tensor_parallel"] = tensor_parallel
    if num_gpus > 8:
        options["link"] = NODE_LINK
    return PublishedStep(shape, gpu, hours * 3600 / RUN_STEPS, DEEPSPEED, options)


def _nemo(shape, num_gpus, sequence, tensor_parallel, seconds, *, limit=4096, prompt=150, group=32):
    options = dict(
        completions=2048,
        prompt_length=prompt,
        completion_length=sequence - prompt,
        longest=limit - prompt,
        group=group,
        num_gpus=num_gpus,
        tensor_parallel=tensor_parallel,
        scorings=2,
        link=NODE_LINK,
    )
    return PublishedStep(shape, "H100", seconds, NEMO, options)


PUBLISHED = (
    _deepspeed("OPT-6.7B", "A100 40 GB", 8, 5.7),
    _deepspeed("OPT-6.7B", "A100 80 GB", 8, 4.1),
    _deepspeed("OPT-13B", "A100 40 GB", 8, 10.8),
    _deepspeed("OPT-13B", "A100 80 GB", 8, 9.0),
    _deepspeed("OPT-13B", "A100 80 GB", 64, 1.25),
    _deepspeed("OPT-30B", "A100 40 GB", 8, 1.85 * 24, tensor_parallel=2),
    _deepspeed("OPT-30B", "A100 80 GB", 8, 18.0),
    _deepspeed("OPT-30B", "A100 80 GB", 64, 4.0),
    _deepspeed("OPT-66B", "A100 80 GB", 8, 2.1 * 24, tensor_parallel=2),
    _deepspeed("OPT-66B", "A100 80 GB", 64, 7.5, tensor_parallel=2),
    _deepspeed("OPT-175B", "A100 80 GB", 64, 20.0, tensor_parallel=8),
    _nemo("Llama-3.1-8B", 16, 1060, 1, 97.7),
    _nemo("Qwen3-32B", 32, 3206, 4, 393.0),
)


def compare_with_published(rows=PUBLISHED):
    """What the model says of each published step.

    Args:
        rows: `PublishedStep`s.
    Returns:
        a list of dicts: shape, gpu, num_gpus, published (seconds a step), model (a `StepTime`), factor (published over
        the model's total: above 1, the model is too fast), source.

    >>> row = compare_with_published()[0]
    >>> row["shape"], row["num_gpus"], round(row["published"])
    ('OPT-6.7B', 8, 159)
    """
    return [_compared(row) for row in rows]


def _compared(row):
    model = step_time(SHAPES[row.shape], GPUS[row.gpu], **row.options)
    found = {"shape": row.shape, "gpu": row.gpu, "num_gpus": row.options["num_gpus"], "published": row.seconds}
    return {**found, "model": model, "factor": row.seconds / model.total, "source": row.source}
