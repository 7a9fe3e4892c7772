"""The loop as an iterator that yields one record a step.

run = GRPORun(model, tokenizer, data, GRPOSettings(beta=0.0, learning_rate=1e-4), reward_function=reward)
for record in itertools.islice(run, 150):
    print(record.step, record.reward_mean)
    run.change(learning_rate=3e-5)            # acts from the next step on
"""

import functools
import warnings
from dataclasses import asdict, replace

import torch

from grpo_lib.adapters import trainable_parameters
from grpo_lib.checkpoints import holds_reference, load_checkpoint, save_checkpoint
from grpo_lib.clock import PhaseClock
from grpo_lib.precision import loss_scaler, mixed_precision
from grpo_lib.prompts import sample_columns
from grpo_lib.records import GRPOSettings, StepRecord, record_step
from grpo_lib.reference import make_reference, sync_reference
from grpo_lib.rewards import combined_reward
from grpo_lib.rollout import collect_rollout, score_rollout
from grpo_lib.run_warnings import start_warnings, step_warnings
from grpo_lib.schedule import learning_rate_factor
from grpo_lib.streams import RandomStreams
from grpo_lib.update import update_policy

__all__ = ["GRPORun", "prompt_order"]


class GRPORun:
    """A GRPO run that takes one step whenever it is asked for the next record.

    The iterator never ends by itself: take as many steps as you like (`itertools.islice(run, 150)`), change settings
    between two of them, save, load, look at `run.model`, `run.reference`, `run.rollout` (the newest, its
    old_log_probs those of the policy that sampled) and `run.history` (all records) at any time. Samples are drawn from
    random streams of the run's own.

    Args:
        model, tokenizer: the policy, trained in place, and its tokenizer.
        train_data: a list of samples, dicts with "prompt" and "answer" or (prompt, answer) pairs. Every pass through
            it has an order of its own, and no prompt is left out.
        settings: a `GRPOSettings`.
        reward_function: see `grpo_lib.grpo.collect_rollout`.
    Raises:
        ValueError: on empty data, on a model without trainable parameters.

    >>> from grpo_lib import addition_reward, load_addition, load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> settings = GRPOSettings(batch_size=2, max_completion_length=24, beta=0.0, learning_rate=1e-4)
    >>> run = GRPORun(model, tokenizer, load_addition("train"), settings, reward_function=addition_reward)
    >>> record = next(run)
    >>> record.step, len(run.rollout), record.kl
    (1, 8, None)
    """

    def __init__(self, model, tokenizer, train_data, settings=None, *, reward_function=combined_reward):
        self.model, self.tokenizer, self.train_data = model, tokenizer, train_data
        self.settings = settings or GRPOSettings()
        self.reward_function = reward_function
        sample_columns(train_data)  # every row is looked at now, not when its turn comes
        parameters = trainable_parameters(model)
        self.device = parameters[0].device
        self.reference = make_reference(model, self.settings.autocast) if self.settings.needs_reference else None
        self.optimizer = torch.optim.AdamW(
            parameters,
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
            fused=True if self.device.type == "cuda" else None,  # the default there makes a copy of all gradients
        )
        self.scaler = loss_scaler(self.device, self.settings.autocast)
        self.streams = RandomStreams(self.device, self.settings.seed)
        self.history, self.rollout, self._prompts_seen, self._warned = [], None, 0, set()
        self._warn_once(start_warnings(parameters, self.settings, len(train_data)))

    def __iter__(self):
        return self

    def __next__(self):
        """Take one step: rollout, rewards, advantages, update. Returns its `StepRecord`.

        Raises:
            FloatingPointError: if the loss or its gradient is not finite, before the optimizer step.
            RuntimeError: naming the reward function and the row, if it fails; the step then counts as not taken.
        """
        draws = self.streams.states
        try:
            record = self._take_step()
        except BaseException:  # an interrupt too: the step is taken again with the same prompts and the same draws
            self.streams.states = draws
            raise
        self._warn_once(step_warnings(self.history, self.settings))
        return record

    def _take_step(self):
        clock = PhaseClock(self.device)
        rollout = self._roll_out(clock)
        rate = self._learning_rate()
        loss, grad_norm, watch = update_policy(
            self.model, self.optimizer, rollout, self.settings, rate, clock, self.scaler
        )
        step, every = len(self.history) + 1, self.settings.ref_sync_every
        if every and self.reference is not None and step % every == 0:
            sync_reference(self.reference, self.model)
        record = record_step(step, self.settings, rollout, watch, loss, grad_norm, rate, dict(clock.seconds))
        self.rollout = replace(rollout, old_log_probs=watch["log_probs"])
        self.history.append(record)
        self._prompts_seen += self.settings.batch_size  # not before: a step that failed is taken again with these
        return record

    def change(self, **settings):
        """Change settings from the next step on: `run.change(beta=0.5, learning_rate=3e-5)`.

        Raises:
            TypeError: on an unknown name. ValueError: on a value out of range, on a beta above 0 in a run that kept no
            reference, or on another autocast than the run was started with.
        """
        new = replace(self.settings, **settings)
        if new.autocast != self.settings.autocast:
            raise ValueError(
                f"autocast is {self.settings.autocast!r} in this run and cannot become {new.autocast!r}: the frozen "
                "reference is stored for it; start a run with the other one"
            )
        if new.needs_reference and self.reference is None:
            raise ValueError(
                f"beta = {new.beta} with track_kl = {new.track_kl} needs the frozen start, which this run did not "
                "keep: start a run with track_kl=True (or beta > 0) to turn the KL term on later"
            )
        for group in self.optimizer.param_groups:
            group["weight_decay"] = new.weight_decay
        self.settings = new
        if "learning_rate" in settings:
            self._warn_once(start_warnings(self.optimizer.param_groups[0]["params"], new, len(self.train_data)))

    def save(self, folder):
        """Write the checkpoint `folder/step-…` and return its path (see `grpo_lib.checkpoints`)."""
        state = {
            "prompts_seen": self._prompts_seen,
            "scaler": self.scaler.state_dict(),
            "settings": asdict(self.settings),
            "history": [asdict(record) for record in self.history],
        }
        return save_checkpoint(
            folder,
            len(self.history),
            model=self.model,
            reference=self.reference,
            optimizer=self.optimizer,
            rng=self.streams.states,
            state=state,
        )

    def load(self, path):
        """Take up the run saved at `path`: weights, reference, optimizer, settings, history, random streams."""
        if self.reference is None and holds_reference(path):
            self.reference = make_reference(self.model, self.settings.autocast)
        state, states = load_checkpoint(path, model=self.model, reference=self.reference, optimizer=self.optimizer)
        self.streams.states.update({name: states[name] for name in self.streams.states if name in states})
        self.settings = replace(GRPOSettings(**state["settings"]), autocast=self.settings.autocast)
        if state.get("scaler") and self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.history = [StepRecord(**record) for record in state["history"]]
        self._prompts_seen, self.rollout = state["prompts_seen"], None

    def precision(self):
        """The context that the run's forward passes run in: `with run.precision(): evaluate(run.model, …)`."""
        return mixed_precision(self.device, self.settings.autocast)

    def _roll_out(self, clock):
        settings = self.settings
        first, size = self._prompts_seen, len(self.train_data)
        batch = [
            self.train_data[prompt_order(size, settings.seed, i // size)[i % size]]
            for i in range(first, first + settings.batch_size)
        ]
        with self.streams.borrowed(), clock("generate"), self.precision():
            rollout = collect_rollout(
                self.model,
                self.tokenizer,
                batch,
                clock.timed("reward", self.reward_function),
                num_generations=settings.num_generations,
                max_completion_length=settings.max_completion_length,
                temperature=settings.temperature,
                scale=settings.scale,
                baseline=settings.baseline,
                max_prompt_length=settings.max_prompt_length,
            )
        if settings.needs_reference:
            with clock("reference"), self.precision():
                ref = score_rollout(self.reference, rollout, chunk_size=settings.micro_batch_size)
            rollout = replace(rollout, ref_log_probs=ref)
        return rollout

    def _learning_rate(self):
        s = self.settings
        factor = learning_rate_factor(s.schedule, len(self.history) + 1, s.warmup_steps, s.schedule_steps)
        return s.learning_rate * factor

    def _warn_once(self, found):
        for what, text in found:
            if what not in self._warned:
                self._warned.add(what)
                warnings.warn(text, stacklevel=3)


@functools.lru_cache(maxsize=4)
def prompt_order(size, seed, pass_number):
    """The order of the samples in one pass over the data: a list of their rows."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + pass_number)
    return torch.randperm(size, generator=generator).tolist()
