"""What a run says at once, and once: that nothing can be learned this way, and what to do.

Each warning is a pair (what, text); a run gives a text for one `what` only once.
"""

from grpo_lib.precision import moving_share

__all__ = ["start_warnings", "step_warnings"]

WINDOW, FLAT_SHARE = 10, 0.8


def start_warnings(parameters, settings, num_samples):
    """Collect what can be seen before the first step: too few samples, 16-bit weights that will not move.

    Args:
        parameters: those that learn. settings: a `GRPOSettings`. num_samples: rows of the training data.
    Returns:
        a list of (what, text).

    >>> from types import SimpleNamespace
    >>> [what for what, _ in start_warnings([], SimpleNamespace(batch_size=4, learning_rate=1e-6), 3)]
    ['small']
    """
    found = []
    if num_samples < settings.batch_size:
        small = (
            f"train_data holds {num_samples} sample(s) and batch_size is {settings.batch_size}: "
            "prompts repeat within a step; lower batch_size, or bring more data"
        )
        found.append(("small", small))
    share = moving_share(parameters, settings.learning_rate)
    if share is not None:
        rounded = (
            f"trainable weights are bfloat16: at learning_rate {settings.learning_rate:g} a step of AdamW changes "
            f"{share:.1%} of them, in the others it is rounded away; load the model with dtype=torch.float32 "
            "(autocast='bfloat16' then makes its matrix products half precision), or add LoRA"
        )
        found.append(("rounded", rounded))
    return found


def step_warnings(history, settings):
    """Collect what makes the newest steps useless.

        every completion cut at the length limit;  all groups of step 1 of equal rewards;
        on average at least 80 % of the groups of the last 10 steps of equal rewards

    Args:
        history: list of all `StepRecord`s so far, not empty. settings: the `GRPOSettings` of the newest.
    Returns:
        a list of (what, text).

    >>> from types import SimpleNamespace as Box
    >>> step = Box(step=7, truncated=1.0, zero_variance=0.5)
    >>> step_warnings([step], Box(max_completion_length=4, mask_truncated_completions=False))
    [('cut', 'step 7: every completion was cut at max_completion_length = 4; if rewards stay flat, raise it')]
    """
    record, found = history[-1], []
    if record.truncated == 1.0:
        masked = "with mask_truncated_completions none is left in the loss and nothing is learned: raise it"
        advice = masked if settings.mask_truncated_completions else "if rewards stay flat, raise it"
        cut = f"step {record.step}: every completion was cut at max_completion_length = "
        found.append(("cut", f"{cut}{settings.max_completion_length}; {advice}"))
    if record.step == 1 and record.zero_variance == 1.0:
        equal = (
            f"step 1: within every group the rewards are equal (their mean is {record.reward_mean:g}; share of "
            "zero-variance groups 1.0), so there is nothing to compare and nothing is learned. If that stays so, look "
            "at record.samples: the task may be too hard or too easy for this model, or the reward may not read what "
            "it writes"
        )
        found.append(("equal", equal))
    newest = history[-WINDOW:]
    share = sum(record.zero_variance for record in newest) / len(newest)
    if len(newest) == WINDOW and share >= FLAT_SHARE:
        found.append(("flat", _flat(newest, share, settings)))
    return found


def _flat(newest, share, settings):
    """Most groups of the last steps teach nothing: solved, too hard, or a collapse."""
    mean = sum(record.reward_mean for record in newest) / len(newest)
    only_kl = ", and the KL term alone moves the weights" if share == 1.0 and settings.beta > 0 else ""
    return (
        f"steps {newest[0].step} to {newest[-1].step}: share of zero-variance groups {share:.2f} (their rewards are "
        f"equal, mean {mean:.3g}), so at most {1 - share:.0%} of the prompts teach anything{only_kl}. If the task is "
        "solved, stop; else take prompts that are neither too hard nor too easy, or raise num_generations; after a "
        "collapse (look at record.samples) take up an earlier checkpoint with a lower learning rate"
    )
