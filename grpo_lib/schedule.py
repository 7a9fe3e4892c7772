"""The learning rate over a run, as a factor of its setting: warm-up and decay, from transformers' schedulers."""

from functools import lru_cache

import torch
from transformers import get_scheduler

from grpo_lib._arguments import check_choice, check_count

__all__ = ["SCHEDULES", "learning_rate_factor"]

SCHEDULES = ("constant", "linear", "cosine")


def learning_rate_factor(schedule, step, warmup_steps, num_steps=None):
    """Return what the learning rate is multiplied with at one step.

        step <= warmup_steps:  step / warmup_steps
        constant:  1        linear:  1 - done        cosine:  (1 + cos(π · done)) / 2
        done = (step - warmup_steps) / (num_steps + 1 - warmup_steps)

    Steps are counted from 1, and a run ends one step before its factor would be 0: no step is idle, neither the first
    nor the last. The factor depends on the step alone, so a run that is taken up again goes on where it was.

    Source: cosine decay is Loshchilov and Hutter 2017 (arXiv:1608.03983); computed by `transformers.get_scheduler`.

    Args:
        schedule: one of `SCHEDULES`. step: from 1. warmup_steps: >= 0, linear.
        num_steps: of the whole run; only the constant schedule does without. Later steps have factor 0.
    Returns:
        a float from 0 to 1.
    Raises:
        ValueError: on an unknown schedule, a count out of range, or a decay without num_steps.

    >>> [learning_rate_factor("constant", step, 4) for step in (1, 2, 4, 9)]
    [0.25, 0.5, 1.0, 1.0]
    >>> [learning_rate_factor("linear", step, 1, num_steps=4) for step in (1, 2, 3, 4)]
    [1.0, 0.75, 0.5, 0.25]
    """
    check_choice("schedule", schedule, SCHEDULES)
    check_count("step", step, 1)
    check_count("warmup_steps", warmup_steps, 0)
    if schedule != "constant":
        check_count("num_steps", num_steps, 1, why=f": a {schedule} schedule has to know where the run ends")
        if step > num_steps:  # transformers' cosine would rise again
            return 0.0
    return _factors(schedule, warmup_steps, num_steps)(step)


@lru_cache(maxsize=16)
def _factors(schedule, warmup_steps, num_steps):
    name = "constant_with_warmup" if schedule == "constant" else schedule
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)  # the library wants one
    end = None if schedule == "constant" else num_steps + 1
    return get_scheduler(name, optimizer, num_warmup_steps=warmup_steps, num_training_steps=end).lr_lambdas[0]
