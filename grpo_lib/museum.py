"""A museum of silent failures: each bug put into the library from outside, for the length of a `with` block.

    exhibit = EXHIBITS["sign of the KL"]    # of `grpo_lib.museum_exhibits`
    print(exhibit.difference())             # the right line and the wrong one
    with exhibit.broken() as parts:
        parts.loss(...)                     # here the library is wrong in this one place; after the block it is right

Nothing in the library can be made wrong by a setting: `broken` puts a wrapped function in the place of the right one.
"""

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import patch

from grpo_lib.models import load_tiny_policy
from grpo_lib.records import GRPOSettings
from grpo_lib.run import GRPORun
from grpo_lib.tasks import addition_reward, load_addition

__all__ = ["BASE", "Exhibit", "course_parts", "new_run"]

BASE = {
    "batch_size": 8,
    "num_generations": 8,
    "max_completion_length": 24,
    "beta": 0.0,
    "learning_rate": 5e-4,
    "warmup_steps": 5,
    "max_grad_norm": 1.0,
    "track_kl": True,
}


@dataclass(frozen=True)
class Exhibit:
    """One bug: what is written, what should be, and how it is put in.

    right, wrong: the line of code as it should be, and as it is. cause: one sentence.
    check: the name of the check that catches it, in `grpo_lib.museum_tour.CHECKS`.
    settings: of both runs, on top of `BASE`. wrong_settings: of the broken run on top of these.
    patches: where → wrap, "module.name" → a function that takes the right function and returns the wrong one.
    parts: name → what stands in for a part of `course_parts` while it is broken.
    prepare: `prepare(model, tokenizer)` changes what is trained, in the broken run only. reward: of the broken run.
    """

    name: str
    right: str
    wrong: str
    cause: str
    check: str
    settings: dict = field(default_factory=dict)
    wrong_settings: dict = field(default_factory=dict)
    patches: dict[str, Callable] = field(default_factory=dict)
    parts: dict[str, Callable] = field(default_factory=dict)
    prepare: Callable = lambda model, tokenizer: None
    reward: Callable = addition_reward

    def difference(self):
        """The bug as a difference of two lines.

        >>> from grpo_lib.museum_exhibits import EXHIBITS
        >>> print(EXHIBITS["sign of the KL"].difference())
        - objective = surrogate - beta * kl
        + objective = surrogate + beta * kl
        """
        lines = [f"- {line}" for line in self.right.splitlines()] + [f"+ {line}" for line in self.wrong.splitlines()]
        return "\n".join(lines)

    @contextmanager
    def broken(self):
        """Put the bug into the library; yield its parts (see `course_parts`); take the bug out again.

        >>> import torch
        >>> from grpo_lib.museum_exhibits import EXHIBITS
        >>> ids, right = torch.tensor([[5, 2, 2]]), course_parts()
        >>> with EXHIBITS["end token cut off the mask"].broken() as parts:
        ...     parts.mask(ids, 2, 0)
        tensor([[1, 0, 0]])
        >>> right.mask(ids, 2, 0)
        tensor([[1, 1, 0]])
        """
        with ExitStack() as stack:
            for place, wrap in self.patches.items():
                module, _, name = place.rpartition(".")
                module = import_module(f"grpo_lib.{module}")
                stack.enter_context(patch.object(module, name, wrap(getattr(module, name))))
            yield SimpleNamespace(**{**vars(course_parts(self, broken=True)), **self.parts})

    @contextmanager
    def fixed(self):
        """The library as it is: yield its parts, with this exhibit's settings."""
        yield course_parts(self)


def course_parts(exhibit=None, *, broken=False):
    """The library, cut into the parts that a check looks at; each with the arguments your own code would have.

    Returns:
        a namespace of functions:
        mask(completion_ids, eos_token_id, pad_token_id) → (B, T);
        advantages(rewards, num_generations) → (B,);
        loss(log_probs, old_log_probs, ref_log_probs, advantages, mask, beta) → a scalar;
        score(model, input_ids, attention_mask, num_completion_tokens, temperature) → (B, T) log-probs;
        sample(model, tokenizer, prompts, num_generations, max_completion_length, temperature) → (B, T) token ids;
        reward(prompts, completions, answer) → B floats;
        run() → a small `GRPORun` that has taken no step.
    """
    modules = {name: import_module(f"grpo_lib.{name}") for name in ("generation", "rollout", "grpo")}

    def score(model, input_ids, attention_mask, num_completion_tokens, temperature=1.0):
        ids, mask = input_ids, attention_mask
        L = ids.shape[1] - num_completion_tokens
        rows = dict(prompt_ids=ids[:, :L], prompt_mask=mask[:, :L])
        rows |= dict(completion_ids=ids[:, L:], completion_mask=mask[:, L:])
        return modules["rollout"].score_rollout(model, SimpleNamespace(**rows, temperature=temperature))

    def sample(model, tokenizer, prompts, num_generations, max_completion_length, temperature=1.0):
        sizes = (num_generations, max_completion_length)
        return modules["rollout"].generate_completions(model, tokenizer, prompts, *sizes, temperature=temperature)[2]

    return SimpleNamespace(
        mask=lambda ids, eos, pad: modules["generation"].create_completion_mask(ids, eos),
        advantages=lambda rewards, num_generations: modules["rollout"].group_advantages(rewards, num_generations),
        loss=lambda *tensors, beta: modules["grpo"].policy_loss(*tensors, beta=beta)[0],
        score=score,
        sample=sample,
        reward=exhibit.reward if broken else addition_reward,
        run=lambda: new_run(exhibit, broken=broken, batch_size=2, num_generations=2),
    )


def new_run(exhibit=None, *, broken=False, seed=0, kind=GRPORun, **change):
    """Start a run of the tiny policy with an exhibit's settings; call it inside `exhibit.broken()` for the broken one.

    Args:
        exhibit: an `Exhibit`, or None for the plain settings. broken: with its wrong settings, weights and reward.
        seed: of order and samples. kind: the class of the run. **change: settings to change besides.
    Returns:
        a `GRPORun`.
    """
    model, tokenizer = load_tiny_policy()
    settings, reward = dict(BASE), addition_reward
    if exhibit is not None:
        settings |= exhibit.settings
    if broken:
        settings |= exhibit.wrong_settings
        exhibit.prepare(model, tokenizer)
        reward = exhibit.reward
    settings = GRPOSettings(**{**settings, **change}, seed=seed)
    return kind(model, tokenizer, load_addition("train"), settings, reward_function=reward)
