"""Our learning rates in a TRL run: warm-up and decay counted as `learning_rate_factor` counts them."""

from transformers import TrainerCallback

from grpo_lib.schedule import learning_rate_factor

__all__ = ["ScheduleCallback", "trl_callbacks"]


def trl_callbacks(settings):
    """Return the callbacks that make up for what `GRPOConfig` cannot say: today the learning rate's schedule.

    transformers starts its warm-up with a step of rate 0 and counts from there; ours starts at 1 / warmup_steps, ends
    one step before 0, and stays the same for all updates on one rollout. A constant rate needs no callback.

    Args:
        settings: a `GRPOSettings`, as given to `trl_config`.
    Returns:
        a list for GRPOTrainer's `callbacks`.

    >>> from grpo_lib import GRPOSettings
    >>> trl_callbacks(GRPOSettings()), len(trl_callbacks(GRPOSettings(warmup_steps=5)))
    ([], 1)
    """
    constant = settings.schedule == "constant" and not settings.warmup_steps
    return [] if constant else [ScheduleCallback(settings)]


class ScheduleCallback(TrainerCallback):
    """Put our factor in the place of transformers' one when training begins, or is taken up again.

    Args:
        settings: a `GRPOSettings`. Without schedule_steps a decay ends with the run.
    """

    def __init__(self, settings):
        self.settings = settings

    def on_train_begin(self, args, state, control, lr_scheduler=None, **_):
        if not hasattr(lr_scheduler, "lr_lambdas"):
            kind = type(lr_scheduler).__name__
            raise TypeError(
                f"the schedule of our settings needs a LambdaLR, got {kind}: leave the scheduler out of the "
                "DeepSpeed configuration, and lr_scheduler_type to trl_config"
            )
        s, updates = self.settings, self.settings.updates_per_rollout
        steps = s.schedule_steps or args.max_steps // updates

        def factor(done):  # optimizer steps behind us
            return learning_rate_factor(s.schedule, done // updates + 1, s.warmup_steps, steps)

        lr_scheduler.lr_lambdas = [factor] * len(lr_scheduler.lr_lambdas)
        rates = [base * factor(lr_scheduler.last_epoch) for base in lr_scheduler.base_lrs]
        for group, rate in zip(lr_scheduler.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        lr_scheduler._last_lr = rates  # what is logged
