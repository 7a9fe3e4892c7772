"""What a run says at once, and once: that nothing can be learned this way, and what to do.

Each warning is a pair (what, text); a run gives a text for one `what` only once.
"""

from grpo_lib.precision import moving_share

__all__ = ["start_warnings", "step_warnings"]

SILENT_STEPS = 5  # so many steps in a row without a group that differs are no accident


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
        found.append(
            (
                "small",
                f"train_data holds {num_samples} sample(s) and batch_size is {settings.batch_size}: "
                "prompts repeat within a step; lower batch_size, or bring more data",
            )
        )
    share = moving_share(parameters, settings.learning_rate)
    if share is not None:
        found.append(
            (
                "rounded",
                f"trainable weights are bfloat16: at learning_rate {settings.learning_rate:g} a step of AdamW changes "
                f"{share:.1%} of them, in the others it is rounded away; load the model with dtype=torch.float32 "
                "(autocast='bfloat16' then makes its matrix products half precision), or add LoRA",
            )
        )
    return found


def step_warnings(history, rollout, settings):
    """Collect what the newest step shows: every completion cut, or no group with a difference.

    Args:
        history: all records so far. rollout: the newest. settings: those of its step.
    Returns:
        a list of (what, text).
    """
    record, found = history[-1], []
    if record.truncated == 1.0:
        masked = settings.mask_truncated_completions
        found.append(
            (
                "cut",
                f"step {record.step}: every completion was cut at max_completion_length = "
                f"{settings.max_completion_length}; "
                + (
                    "with mask_truncated_completions none is left in the loss and nothing is learned: raise it"
                    if masked
                    else "if rewards stay flat, raise it"
                ),
            )
        )
    newest = history[-SILENT_STEPS:]
    silent = len(newest) == SILENT_STEPS and all(r.zero_variance == 1.0 for r in newest)
    if record.zero_variance == 1.0 and (record.step == 1 or silent):
        found.append(_nothing_to_compare(newest, rollout, settings))
    return found


def _nothing_to_compare(newest, rollout, settings):
    record, num_groups = newest[-1], len(rollout) // rollout.num_generations
    if rollout.rewards.unique().numel() == 1:
        same = f"all {len(rollout)} rewards are {record.reward_mean:g}"
    else:
        same = f"within each of the {num_groups} groups the rewards are all equal"
    if record.step == 1:
        return "equal", (
            f"step 1: {same}, so there is nothing to compare and nothing is learned. If that stays so, look at "
            "record.samples: the task may be too hard or too easy for this model, or the reward may not read what it "
            "writes"
        )
    teaches = "only the KL term moves the weights" if settings.beta > 0 else "nothing is learned any more"
    return "silent", (
        f"step {record.step}: {same}, as in the {len(newest) - 1} steps before, so there is nothing to compare and "
        f"{teaches}. Either the task is solved, or the run has collapsed: look at record.samples, and for a collapse "
        "take up an earlier checkpoint with a lower learning rate"
    )
