"""The step records of a run on TRL: from what its trainer logs and what the reward function saw, into a file of lines.

What TRL logs is a mean over all processes. Each field of a `StepRecord`, and where it comes from:

| field                             | from                                                                             |
|-----------------------------------|----------------------------------------------------------------------------------|
| reward_mean, reward_std,          | computed here from the rewards of all processes. (TRL logs as reward_std one     |
| zero_variance, samples            | deviation over all completions, not the mean of the groups'.)                    |
| kl                                | TRL's kl: k3 a token, times the ratio with bias_correction_kl; None where beta 0 |
| kl_median                         | None: not measured                                                               |
| entropy                           | TRL's entropy: over the whole vocabulary at each token, where our own run takes  |
|                                   | -log π of the sampled token, which has the same mean; tokens of the loss only    |
| completion_length, truncated      | TRL's completions/mean_length and completions/clipped_ratio                      |
| ratio_mean, ratio_max             | 1 with one update a rollout; None with more: not measured                        |
| clip_fraction                     | TRL's clip_ratio/region_mean or cispo_clip_ratio, of the last update on the      |
|                                   | rollout; 0 with one update; None for the losses that do not clip                 |
| loss, grad_norm, learning_rate    | TRL's, of the first update on the rollout (no grad_norm, None, if DeepSpeed     |
|                                   | does not tell it)                                                                |
| beta, num_generations,            | the settings                                                                     |
| temperature                       |                                                                                  |
| seconds                           | of process 0: "reward" and "rest", which TRL does not take apart                 |
| evaluation                        | None                                                                             |

Over micro-batches TRL takes the mean of their means, our own run the mean over all tokens.
"""

import asyncio
import inspect
import math
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from grpo_lib.advantages import zero_variance_groups
from grpo_lib.processes import OwnError
from grpo_lib.record_files import append_record, load_records
from grpo_lib.records import SAMPLES_KEPT, StepRecord

__all__ = ["RecordKeeper", "load_records", "record_from_logs"]

CLIPPED = ("clip_ratio/region_mean", "cispo_clip_ratio")


def record_from_logs(step, settings, first, last, rewards, samples, seconds):
    """Sum up a step on TRL.

    Args:
        step: its number. settings: a `GRPOSettings`. first, last: what TRL logged with the first and the last update on
            the step's rollout. rewards: (B,) of all processes, groups contiguous. samples: see `StepRecord`.
        seconds: by phase.
    Returns:
        a `StepRecord`; the table above says which field is what.

    >>> logs = {"loss": 0.0, "grad_norm": 1.5, "learning_rate": 1e-4, "entropy": 0.7,
    ...         "completions/mean_length": 8.0, "completions/clipped_ratio": 0.25}
    >>> from grpo_lib.records import GRPOSettings
    >>> settings = GRPOSettings(num_generations=2, beta=0.0)
    >>> record = record_from_logs(1, settings, logs, logs, torch.tensor([0., 1., 1., 1.]), [], {})
    >>> record.reward_mean, record.zero_variance, record.ratio_mean, record.kl
    (0.75, 0.5, 1.0, None)
    """
    groups = rewards.view(-1, settings.num_generations)  # (P, G)
    once = settings.updates_per_rollout == 1
    clipped = next((last[name] for name in CLIPPED if name in last), None)
    return StepRecord(
        step=step,
        reward_mean=rewards.mean().item(),
        reward_std=groups.std(dim=1).mean().item(),
        zero_variance=zero_variance_groups(rewards, settings.num_generations).float().mean().item(),
        kl=first.get("kl"),
        kl_median=None,
        entropy=first["entropy"],
        completion_length=first["completions/mean_length"],
        truncated=first["completions/clipped_ratio"],
        ratio_mean=1.0 if once else None,
        ratio_max=1.0 if once else None,
        clip_fraction=0.0 if once else clipped,
        loss=first["loss"],
        grad_norm=first.get("grad_norm"),
        beta=settings.beta,
        learning_rate=first["learning_rate"],
        num_generations=settings.num_generations,
        temperature=settings.temperature,
        seconds=seconds,
        samples=samples,
    )


class RecordKeeper:
    """What makes the records of a run on TRL, on every process; process 0 also writes them.

    Args:
        settings: a `GRPOSettings`. folder: of the run; None writes nothing. earlier: the records taken up.
        tell: a function of each new record.
    Attributes:
        records: of all steps so far. rows: how many completions this process's reward function saw in a step.
    """

    def __init__(self, settings, folder=None, earlier=(), tell=None):
        self.settings, self.folder, self.tell = settings, folder, tell
        self.records, self.rows = list(earlier), None
        self._updates, self._started, self._rewarding = [], None, 0.0
        self._rewards, self._samples = None, []

    def reward(self, reward_function):
        """Wrap a reward function: all processes learn the rewards of all, and if it fails on one, all of them stop.

        Raises:
            OwnError: a RuntimeError, on every process, with the rank and the message of the first that failed.
        """
        from accelerate.utils import gather_object

        def watched(prompts, completions, **columns):
            since, error = time.perf_counter(), None
            try:
                own = list(map(float, _awaited(reward_function(prompts, completions, **columns))))
                told = {"rewards": own, "samples": _samples(prompts, completions, own)}
            except Exception as failure:
                error, told = failure, {"error": f"{type(failure).__name__}: {failure}"}
            self._rewarding += time.perf_counter() - since
            told = gather_object([told])
            failed = [(rank, one["error"]) for rank, one in enumerate(told) if "error" in one]
            if failed:
                rank, text = failed[0]
                where = f" on process {rank} of {len(told)}" if len(told) > 1 else ""
                raise OwnError(f"the reward function failed{where}, and the run stops: {text}") from error
            self.rows = len(own)
            self._rewards = torch.tensor([reward for one in told for reward in one["rewards"]])
            self._samples = [sample for one in told for sample in one["samples"]][:SAMPLES_KEPT]
            return own

        watched.__name__ = getattr(reward_function, "__name__", "reward")
        return watched

    def add(self, logs):
        """Take in what TRL logged with one update; with the last one on a rollout, the step's record is made.

        Raises:
            FloatingPointError: if the loss or the gradient norm is not finite. TRL has then taken the update.
        """
        step = len(self.records) + 1
        for name in ("loss",) if self.settings.autocast == "float16" else ("loss", "grad_norm"):  # scaled losses may
            if not math.isfinite(logs.get(name, 0.0)):
                raise FloatingPointError(
                    f"step {step}: {name} is {logs[name]}, and the weights are spoilt: lower learning_rate or "
                    "max_grad_norm, and start anew in an empty folder"
                )
        self._updates.append({name: float(value) for name, value in logs.items() if isinstance(value, (int, float))})
        if len(self._updates) < self.settings.updates_per_rollout:
            return
        spent = time.perf_counter() - self._started
        seconds = {"reward": self._rewarding, "rest": spent - self._rewarding}
        first, last = self._updates[0], self._updates[-1]
        record = record_from_logs(step, self.settings, first, last, self._rewards, self._samples, seconds)
        self.records.append(record)
        self._updates, self._started, self._rewarding = [], None, 0.0
        if self.folder is not None:
            append_record(self.folder, record)
        if self.tell is not None:
            self.tell(record)

    def callback(self, on_save=None):
        """Make the trainer's callback. on_save: a function of the number of updates, called after a checkpoint."""
        from transformers import TrainerCallback

        keeper = self

        class Records(TrainerCallback):
            def on_step_begin(self, args, state, control, **kwargs):
                if keeper._started is None:
                    keeper._started = time.perf_counter()

            def on_log(self, args, state, control, logs=None, **kwargs):
                if "loss" in logs:  # not in the summary at the end
                    keeper.add(logs)

            def on_save(self, args, state, control, **kwargs):
                if on_save is not None:
                    on_save(state.global_step)

        return Records()


def _samples(prompts, completions, rewards):
    rows = list(zip(prompts, completions, rewards, strict=True))[:SAMPLES_KEPT]
    return [{"prompt": _text(prompt), "completion": _text(text), "reward": reward} for prompt, text, reward in rows]


def _text(turns):
    return turns if isinstance(turns, str) else turns[-1]["content"]


def _awaited(rewards):
    """What an async function promises; in a thread, as a notebook's own is busy with its cells."""
    if not inspect.isawaitable(rewards):
        return rewards

    async def wait():
        return await rewards

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()
