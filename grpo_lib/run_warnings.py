"""What a run says aloud, once each: signs that it teaches nothing."""

__all__ = ["signs_of_no_learning"]

WINDOW, FLAT_SHARE = 10, 0.8


def signs_of_no_learning(history, settings):
    """Look at the newest steps of a run for what makes them useless.

        every completion cut at the length limit;  all groups of step 1 of equal rewards;
        on average at least 80 % of the groups of the last 10 steps of equal rewards

    Args:
        history: list of `StepRecord`s, not empty. settings: the run's `GRPOSettings`.
    Returns:
        dict: a name of the sign → what to say of it. A run says each name once.

    >>> from types import SimpleNamespace as Box
    >>> step = Box(step=7, truncated=1.0, zero_variance=0.5)
    >>> signs_of_no_learning([step], Box(max_completion_length=4))["cut"]
    'step 7: every completion was cut at max_completion_length = 4; if rewards stay flat, raise it'
    """
    record, signs = history[-1], {}
    if record.truncated == 1.0:
        signs["cut"] = (
            f"step {record.step}: every completion was cut at max_completion_length = "
            f"{settings.max_completion_length}; if rewards stay flat, raise it"
        )
    if record.step == 1 and record.zero_variance == 1.0:
        signs["equal"] = (
            f"step 1: within every group the rewards are equal (their mean is {record.reward_mean:g}; share of "
            "zero-variance groups 1.0), so there is nothing to compare and nothing is learned. If that stays so, look "
            "at record.samples: the task may be too hard or too easy for this model, or the reward may not read what "
            "it writes"
        )
    newest = history[-WINDOW:]
    share = sum(record.zero_variance for record in newest) / len(newest)
    if len(newest) == WINDOW and share >= FLAT_SHARE:
        signs["flat"] = (
            f"steps {newest[0].step} to {record.step}: share of zero-variance groups {share:.2f} (their rewards are "
            f"equal, mean {sum(record.reward_mean for record in newest) / WINDOW:.3g}), so at most {1 - share:.0%} of "
            "the prompts teach anything. Take prompts that are neither too hard nor already solved, or raise "
            "num_generations"
        )
    return signs
