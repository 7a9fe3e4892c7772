"""A recorded rollout: all that its loss depends on, as plain numbers and strings; no model is needed to read it.

    python -m grpo_lib.recordings    # some seconds

records the shipped one again.
"""

import copy
import itertools
import json
import os
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path

import torch

from grpo_lib.recorded import Recording
from grpo_lib.rollout import score_rollout

__all__ = ["Recording", "load_recorded_rollout", "load_recording", "record_rollout", "save_recording"]

FORMAT = "grpo_lib recording 1"
SHIPPED = "recorded_rollout.json"
SOURCE = {
    "batch_size": 4,
    "num_generations": 6,
    "max_completion_length": 20,
    "beta": 0.1,
    "learning_rate": 3e-4,
    "updates_per_rollout": 4,
    "max_grad_norm": 1.0,
    "seed": 2,
}
NUM_STEPS = 5  # the shipped recording is of this step's rollout, after its four updates


def record_rollout(model, tokenizer, rollout, *, max_completion_length=None):
    """Record a rollout with its log-probs under the model as it is now.

    Args:
        model: the policy; tokenizer: its tokenizer. rollout: a `grpo_lib.rollout.Rollout`; where it holds no old
            log-probs the model counts as the one that sampled, where it holds none of the reference there is none.
        max_completion_length: the limit of sampling; None takes the longest completion of this rollout.
    Returns:
        a `Recording`.

    >>> from grpo_lib import addition_reward, collect_rollout, load_addition, load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> rollout = collect_rollout(model, tokenizer, load_addition("train")[:2], addition_reward)
    >>> recording = record_rollout(model, tokenizer, rollout)
    >>> len(recording), recording.num_groups, recording.prompts[0]
    (8, 2, '55+94=?')
    """
    log_probs = score_rollout(model, rollout)
    return Recording(
        tokens=[[tokenizer.decode([token]) for token in row] for row in rollout.completion_ids.tolist()],
        rewards=rollout.rewards,
        advantages=rollout.advantages,
        mask=rollout.completion_mask,
        log_probs=log_probs,
        old_log_probs=log_probs if rollout.old_log_probs is None else rollout.old_log_probs,
        ref_log_probs=rollout.ref_log_probs,
        num_generations=rollout.num_generations,
        max_completion_length=max_completion_length,
        truncated=rollout.truncated,
        prompts=[p if isinstance(p, str) else p[-1]["content"] for p in rollout.prompts],
        texts=rollout.texts,
        answers=[str(answer) for answer in rollout.answers],
    )


def save_recording(recording, path):
    """Write a recording as JSON; `load_recording` gives back the same numbers.

    The file appears when it is whole: a failure leaves what was there before.

    Raises:
        ValueError: if a string holds half of a surrogate pair, which no UTF-8 file can hold.
    """
    columns = {field.name: _plain(getattr(recording, field.name)) for field in fields(recording)}
    lines = ",\n".join(f"{json.dumps(name)}: {_compact(value)}" for name, value in columns.items())
    try:
        content = f'{{"format": "{FORMAT}",\n{lines}}}\n'.encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(
            f"{path}: a string of the recording holds {half!r}, half of a surrogate pair; no UTF-8 file can hold that: "
            "replace it"
        ) from error
    path = Path(path)
    draft = path.with_name(f".unfinished-{os.getpid()}-{path.name}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def load_recording(path):
    """Read a recording that `save_recording` wrote.

    Raises:
        ValueError: if the file is no such recording, or what it holds does not fit; the error names the field.
    """
    try:
        stored = json.loads(Path(path).read_bytes().decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    names = [field.name for field in fields(Recording)]
    if not isinstance(stored, dict) or stored.pop("format", None) != FORMAT:
        raise ValueError(f'{path} is no recording: it needs "format": "{FORMAT}"; write it with save_recording')
    missing, unknown = sorted(set(names) - set(stored)), sorted(set(stored) - set(names))
    if missing or unknown:
        raise ValueError(f"{path}: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
    try:
        return Recording(**stored)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def load_recorded_rollout():
    """Load the recording that ships: the tiny policy early in GRPO training on addition, four updates into a rollout.

    4 prompts, 6 completions each, up to 20 tokens; `SOURCE` holds the settings of its run, `NUM_STEPS` the step. Its
    reference is the tiny policy as `load_tiny_policy` gives it.

    >>> recording = load_recorded_rollout()
    >>> len(recording), recording.num_groups, recording.max_completion_length
    (24, 4, 20)
    """
    with resources.as_file(resources.files("grpo_lib") / "data" / SHIPPED) as path:
        return load_recording(path)


def _plain(value):
    """A tensor as nested lists, a float32 with as few digits as give it back; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.ndim > 1:
        return [_plain(row) for row in value]
    return [float(str(x)) for x in value.numpy()] if value.is_floating_point() else value.int().tolist()


def _compact(value):
    rows = isinstance(value, list) and value and isinstance(value[0], list)
    if not rows:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in value) + "]"


def record_training(num_steps=NUM_STEPS, **settings):
    """Train the tiny policy for some steps and record the last step's rollout after its updates."""
    from grpo_lib.models import load_tiny_policy
    from grpo_lib.records import GRPOSettings
    from grpo_lib.run import GRPORun
    from grpo_lib.tasks import addition_reward, load_addition

    model, tokenizer = load_tiny_policy()
    settings = GRPOSettings(**{**SOURCE, **settings})
    run = GRPORun(model, tokenizer, load_addition("train"), settings, reward_function=addition_reward)
    for _ in itertools.islice(run, num_steps - 1):
        pass
    sampled_by = copy.deepcopy(model)
    next(run)
    rollout = replace(run.rollout, old_log_probs=score_rollout(sampled_by, run.rollout))
    return record_rollout(model, tokenizer, rollout, max_completion_length=settings.max_completion_length)


if __name__ == "__main__":
    torch.set_num_threads(1)
    save_recording(record_training(), Path(str(resources.files("grpo_lib") / "data" / SHIPPED)))
