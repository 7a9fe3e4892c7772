"""What can be looked at in a live run: model, history, figure, and its newest rollout in the inspector."""

from dataclasses import replace

from grpo_lib.live_chart import live_figure
from grpo_lib.recordings import record_rollout
from grpo_lib.rollout_inspector import RolloutInspector

__all__ = ["HeldRun", "inspect_newest"]


class HeldRun:
    """The part of `LivePanel` that only reads; it needs `_live`, a `LiveRun`."""

    @property
    def training(self):
        """The `GRPORun` of now; `reset` makes a new one."""
        if self._live.released:
            raise RuntimeError(
                "this panel was released, because its cell was run again (or, where the front end names no cells, one "
                "of the same text): history, changes and figure() are kept, the model is not; to keep that, take "
                "`model = panel.model` before"
            )
        if self._live.training is None:
            raise RuntimeError("the last reset failed, so there is no run: see panel.error, mend it, panel.reset()")
        return self._live.training

    @property
    def model(self):
        return self.training.model

    @property
    def tokenizer(self):
        return self.training.tokenizer

    @property
    def rollout(self):
        """The `Rollout` of the newest step, or None before the first one."""
        return self.training.rollout

    @property
    def history(self):
        """The `StepRecord`s of all steps since the start or the last reset."""
        return self._live.history if self._live.released else self.training.history

    @property
    def changes(self):
        """The changes of settings that were obeyed, oldest first; each knows its step, name, old and new value."""
        return self._live.changes

    @property
    def error(self):
        return self._live.error

    @property
    def running(self):
        return self._live.running

    def figure(self):
        """The curves so far as a Plotly figure: put it into the next cell, a saved notebook keeps no live panel."""
        return live_figure(self.history, self.changes)

    def inspect(self, **start):
        """Open the rollout inspector on the newest step, as in `inspect_newest`; put it on a cell's last line."""
        return inspect_newest(self.training, **start)


def inspect_newest(training, **start):
    """Open the rollout inspector on the newest rollout of a run, under the run's own loss.

    The ratios are those of the model as it is now, after the step's updates, to the model that sampled: what one more
    update on the same rollout would do.

    Args:
        training: a `GRPORun`. start: where the inspector starts, see `RolloutInspector`.
    Returns:
        a `RolloutInspector`; its `view` is the same without controls.
    Raises:
        RuntimeError: before the first step. And what `RolloutInspector` raises.

    >>> import itertools
    >>> from grpo_lib import GRPORun, GRPOSettings, addition_reward, load_addition, load_tiny_policy
    >>> settings = GRPOSettings(batch_size=1, max_completion_length=8, beta=0.0, loss_type="dapo")
    >>> run = GRPORun(*load_tiny_policy(), load_addition("train"), settings, reward_function=addition_reward)
    >>> _ = next(run)
    >>> inspect_newest(run).view.figure.layout.title.text
    'What the next update does to each token: dapo, token level, beta 0, clip 0.2'
    """
    rollout, settings = training.rollout, training.settings
    if rollout is None:
        raise RuntimeError("there is no rollout to inspect yet: take a training step first")
    with training.precision():  # as the run itself scores
        recording = record_rollout(training.model, training.tokenizer, rollout)
    loss = settings.loss_options
    if loss.pop("mask_truncated_completions"):
        recording = replace(recording, mask=rollout.loss_mask(True))
    loss["max_completion_length"] = max(settings.max_completion_length, recording.max_completion_length)
    return RolloutInspector(recording, **{**loss, **start})
