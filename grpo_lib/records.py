"""What a run is told (`GRPOSettings`) and what it tells (`StepRecord`)."""

from dataclasses import dataclass, field

import torch

from grpo_lib._arguments import check_choice, check_count, check_number, check_pair
from grpo_lib.advantages import BASELINES, SCALES, zero_variance_groups
from grpo_lib.losses import LEVELS, LOSS_TYPES, kl_estimate, masked_mean, policy_loss
from grpo_lib.precision import AUTOCASTS
from grpo_lib.schedule import SCHEDULES
from grpo_lib.surrogates import check_gammas

__all__ = ["GRPOSettings", "StepRecord", "record_step"]

SAMPLES_KEPT = 4
LOSS_OPTIONS = (
    "beta",
    "epsilon",
    "epsilon_high",
    "loss_type",
    "importance_sampling_level",
    "delta",
    "bias_correction_kl",
    "mask_truncated_completions",
    "max_completion_length",
    "sapo_temperatures",
    "vespo_gammas",
)


@dataclass(frozen=True)
class GRPOSettings:
    """The settings of a run; every one of them but autocast may be changed between two steps (`GRPORun.change`).

    batch_size: prompts a step (so batch_size * num_generations completions). num_generations: G >= 2.
    max_completion_length: T at most. beta: weight of the KL term. learning_rate: of AdamW.
    warmup_steps, schedule, schedule_steps: see `learning_rate_factor`; schedule_steps is the run's length.
    ref_sync_every: None keeps the reference frozen; n copies the policy into it after every n-th step. With 1 the KL
    and its gradient are 0 at every step, and beta does nothing.
    updates_per_rollout: optimizer steps on one rollout. epsilon, epsilon_high: clip range of the ratio.
    loss_type, importance_sampling_level, delta, bias_correction_kl, sapo_temperatures, vespo_gammas: which relative of
    GRPO, see `policy_loss`. mask_truncated_completions: see `rollout_loss`.
    scale, baseline: see `group_advantages`. temperature: of sampling and of scoring.
    max_grad_norm: gradients are scaled down to this norm; None leaves them.
    micro_batch_size: completions per forward and backward pass (gradients are accumulated); None takes all at once.
    track_kl: measure the KL to the frozen start also while beta is 0.
    autocast: run the model's matrix products in "bfloat16" or "float16" (with scaled losses); None leaves them alone.
    max_prompt_length: longer prompts are refused. weight_decay: of AdamW. seed: of order and samples.

    >>> GRPOSettings(num_generations=1)
    Traceback (most recent call last):
    ValueError: num_generations must be an integer >= 2, got 1: a group of one has nothing to compare with
    """

    batch_size: int = 4
    num_generations: int = 4
    max_completion_length: int = 128
    beta: float = 0.1
    learning_rate: float = 5e-6
    warmup_steps: int = 0
    schedule: str = "constant"
    schedule_steps: int | None = None
    ref_sync_every: int | None = None
    updates_per_rollout: int = 1
    epsilon: float = 0.2
    epsilon_high: float | None = None
    loss_type: str = "grpo"
    importance_sampling_level: str = "token"
    delta: float | None = None
    bias_correction_kl: bool = False
    mask_truncated_completions: bool = False
    sapo_temperatures: tuple = (1.0, 1.05)
    vespo_gammas: tuple = ((2.0, 3.0), (3.0, 2.0))
    scale: str = "group"
    baseline: str = "mean"
    temperature: float = 1.0
    max_grad_norm: float | None = 0.1
    micro_batch_size: int | None = None
    track_kl: bool = False
    autocast: str | None = None
    max_prompt_length: int | None = None
    weight_decay: float = 0.0
    seed: int = 0

    def __post_init__(self):
        why = {
            "batch_size": " prompts; each gets num_generations completions",
            "num_generations": ": a group of one has nothing to compare with",
        }
        least = {"batch_size": 1, "num_generations": 2, "max_completion_length": 1, "updates_per_rollout": 1}
        for name, low in {**least, "warmup_steps": 0, "seed": 0}.items():
            self._convert(check_count, name, low, why=why.get(name, ""))
        for name in ("ref_sync_every", "micro_batch_size", "max_prompt_length", "schedule_steps"):
            if getattr(self, name) is not None:
                self._convert(check_count, name, 1, why=", or None")
        for name in ("beta", "learning_rate", "weight_decay", "epsilon"):
            self._convert(check_number, name, 0)
        if self.epsilon >= 1:
            raise ValueError(f"epsilon must be below 1, got {self.epsilon!r}: ratios are positive")
        self._convert(check_number, "temperature", 0, inclusive=False)
        for name, inclusive in {"epsilon_high": True, "max_grad_norm": False}.items():
            if getattr(self, name) is not None:
                self._convert(check_number, name, 0, inclusive=inclusive, why=", or None")
        choices = {"scale": SCALES, "baseline": BASELINES, "loss_type": LOSS_TYPES, "importance_sampling_level": LEVELS}
        for name, known in {**choices, "schedule": SCHEDULES, "autocast": AUTOCASTS}.items():
            check_choice(name, getattr(self, name), known)
        if self.schedule != "constant" and self.schedule_steps is None:
            raise ValueError(f"schedule = {self.schedule!r} needs schedule_steps, the number of steps of the whole run")
        for name in ("bias_correction_kl", "mask_truncated_completions", "track_kl"):
            check_choice(name, getattr(self, name), (False, True))
        self._check_loss_options()

    def _convert(self, check, name, low, **options):
        """Keep what the check returns, a plain int or float, so that settings can be saved as JSON."""
        object.__setattr__(self, name, check(name, getattr(self, name), low, **options))

    def _check_loss_options(self):
        """A loss of one token: its own rules on delta, temperatures and gammas hold before anything is trained."""
        object.__setattr__(self, "sapo_temperatures", check_pair("sapo_temperatures", self.sapo_temperatures))
        object.__setattr__(self, "vespo_gammas", check_gammas(self.vespo_gammas))
        options = self.loss_options
        del options["mask_truncated_completions"]
        one = torch.zeros(1, 1)
        policy_loss(one, None, one, one[0], one + 1, **options)

    @property
    def loss_options(self):
        """The settings that `rollout_loss` takes, as keyword arguments."""
        return {name: getattr(self, name) for name in LOSS_OPTIONS}

    @property
    def needs_reference(self):
        return self.beta > 0 or self.track_kl


@dataclass(frozen=True)
class StepRecord:
    """One step of a run. Shares and means are over the step's completions or tokens; None means not measured.

    reward_mean, reward_std: over all completions, and the mean of the groups' (sample) standard deviations.
    zero_variance: share of groups whose rewards are all equal: they teach nothing.
    kl, kl_median: k3 to the reference a token, in nats: the mean over all tokens, and the median over completions of
    their own means, which a single rare token cannot move.
    entropy: mean of -log π of the sampled tokens, an estimate of the entropy a token, in nats.
    completion_length: mean number of tokens, the end token included. truncated: share cut at the length limit.
    ratio_mean, ratio_max, clip_fraction: of the last update on the rollout, over the tokens of the loss; 1, 1 and 0
    where there is one update.
    loss, grad_norm: of the first update, before gradient clipping. On-policy the loss is 0 or beta * KL: do not plot
    it as progress.
    seconds: by phase. samples: a few prompts, completions and rewards. evaluation: what `evaluate` returned.
    A run on TRL (`train_with_trl`) measures no kl_median, and with several updates a rollout no ratio_mean and
    ratio_max; its clip_fraction is None for losses that do not clip. All else is a number there too.
    """

    step: int
    reward_mean: float
    reward_std: float
    zero_variance: float
    kl: float | None
    kl_median: float | None
    entropy: float
    completion_length: float
    truncated: float
    ratio_mean: float | None
    ratio_max: float | None
    clip_fraction: float | None
    loss: float
    grad_norm: float
    beta: float
    learning_rate: float
    num_generations: int
    temperature: float
    seconds: dict = field(compare=False)
    samples: list
    evaluation: dict | None = None


def record_step(step, settings, rollout, watch, loss, grad_norm, learning_rate, seconds):
    """Sum a step up. `watch`: see `grpo_lib.grpo.rollout_loss`."""
    mask = rollout.completion_mask
    in_loss = rollout.loss_mask(settings.mask_truncated_completions)
    rewards = rollout.rewards.view(-1, rollout.num_generations)  # (P, G)
    ref = rollout.ref_log_probs
    kl = None if ref is None else kl_estimate(watch["log_probs"], ref)  # of every completion, in the loss or not
    return StepRecord(
        step=step,
        reward_mean=rewards.mean().item(),
        reward_std=rewards.std(dim=1).mean().item(),
        zero_variance=zero_variance_groups(rollout.rewards, rollout.num_generations).float().mean().item(),
        kl=None if kl is None else masked_mean(kl, mask).item(),
        kl_median=None if kl is None else masked_mean(kl, mask, dim=1).median().item(),
        entropy=-masked_mean(watch["log_probs"], mask).item(),
        completion_length=mask.sum(dim=1).float().mean().item(),
        truncated=rollout.truncated.float().mean().item(),
        ratio_mean=masked_mean(watch["ratio"], in_loss).item() if in_loss.any() else 1.0,
        ratio_max=watch["ratio"][in_loss.bool()].max().item() if in_loss.any() else 1.0,
        clip_fraction=masked_mean(watch["clipped"].float(), in_loss).item(),
        loss=loss,
        grad_norm=grad_norm,
        beta=settings.beta,
        learning_rate=learning_rate,
        num_generations=rollout.num_generations,
        temperature=rollout.temperature,
        seconds=seconds,
        samples=_samples(rollout),
    )


def _samples(rollout):
    rows = zip(rollout.prompts, rollout.texts, rollout.rewards.tolist(), strict=True)
    return [
        {"prompt": prompt if isinstance(prompt, str) else prompt[-1]["content"], "completion": text, "reward": reward}
        for prompt, text, reward in list(rows)[:SAMPLES_KEPT]
    ]
