"""`train_with_grpo`: a whole run with one progress bar, reports, evaluation, checkpoints and resume."""

import itertools

from tqdm.auto import tqdm

from grpo_lib._arguments import check_count
from grpo_lib.best_policy import drop_old_checkpoints, save_best
from grpo_lib.checkpoints import latest_checkpoint
from grpo_lib.keeping import evaluate_newest, load_with_own_settings
from grpo_lib.records import GRPOSettings, StepRecord
from grpo_lib.rewards import combined_reward
from grpo_lib.run import GRPORun

__all__ = ["GRPORun", "GRPOSettings", "StepRecord", "projected_time", "train_with_grpo"]


def train_with_grpo(
    model,
    tokenizer,
    train_data,
    num_steps=500,
    batch_size=4,
    num_generations=4,
    max_completion_length=128,
    beta=0.1,
    learning_rate=5e-6,
    *,
    reward_function=combined_reward,
    ref_sync_every=None,
    evaluate=None,
    eval_every=None,
    best_metric=None,
    checkpoint_dir=None,
    checkpoint_every=None,
    keep_last=None,
    resume=False,
    callbacks=(),
    log_every=5,
    quiet=False,
    history=None,
    **settings,
):
    """Train a model with GRPO.

    The reference is a frozen copy of the start. Interrupt the run at any time (the stop button, Ctrl-C): the model
    keeps what it has learned and is returned, and `history` holds the steps that were taken. No run stops early by
    itself: look at `record.samples` as it goes (texts may turn repetitive while the reward still rises), keep the best
    policy with `best_metric`, or take the steps yourself and leave the loop: `for record in GRPORun(…): … break`.

    Args:
        model, tokenizer: a causal language model of transformers, trained in place, and its tokenizer.
        train_data: a list of samples, dicts with "prompt" and "answer" or (prompt, answer) pairs.
        num_steps: of the whole run; a run that is resumed takes only the steps that are missing.
        batch_size: prompts a step, each with `num_generations` completions of at most `max_completion_length` tokens.
        beta: weight of the KL to the reference; 0 keeps no reference. learning_rate: of AdamW.
        reward_function: called with prompts, completions and answer; returns a finite number per completion.
        ref_sync_every: None leaves the reference frozen; 1 makes beta inert (see `GRPOSettings`).
        evaluate: `evaluate(model, tokenizer) -> dict of numbers`, called every `eval_every` steps into the record.
        best_metric: a name in what `evaluate` returns; the policy with the largest is kept in `checkpoint_dir/best`
            (see `grpo_lib.best_policy`).
        checkpoint_dir, checkpoint_every: where and how often to save; also saved at the end and when interrupted.
        keep_last: how many checkpoints to keep (a full one takes 12 bytes a parameter, one of an adapter little);
            None keeps all.
        resume: True takes up the newest checkpoint of `checkpoint_dir`, where there is one; settings are those given
            here. A path takes up that checkpoint. A folder that holds checkpoints of later steps than the run's own is
            refused: they would be taken for this run's.
        callbacks: each is called as `callback(run, record)` after every step; `run.change(…)` acts on the next one.
        log_every: print loss, reward and KL every so many steps; None never does. After the first step the time that
            all will take is shown, where it is above a minute. quiet: no bar, no prints.
        history: an empty list that the `StepRecord`s are put into (a resumed run also puts its earlier ones there).
        **settings: any other field of `GRPOSettings`: temperature, autocast, schedule, micro_batch_size, … A schedule
            that decays ends with num_steps, unless schedule_steps says otherwise.
    Returns:
        the trained model, the same object as `model`.
    Raises:
        ValueError, TypeError: on settings or data that do not fit, before anything is trained.
        FloatingPointError: if the loss is not finite, before the optimizer step.

    >>> from grpo_lib import addition_reward, load_addition, load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> steps = []
    >>> model = train_with_grpo(model, tokenizer, load_addition("train"), 2, 2, 4, 24, 0.0, 1e-4,
    ...                         reward_function=addition_reward, quiet=True, history=steps)
    >>> [record.step for record in steps]
    [1, 2]
    """
    _check_arguments(num_steps, evaluate, eval_every, checkpoint_dir, checkpoint_every, resume, log_every, history)
    _check_kept(best_metric, evaluate, keep_last, checkpoint_dir)
    settings.setdefault("schedule_steps", num_steps)
    run = GRPORun(
        model,
        tokenizer,
        train_data,
        GRPOSettings(
            batch_size=batch_size,
            num_generations=num_generations,
            max_completion_length=max_completion_length,
            beta=beta,
            learning_rate=learning_rate,
            ref_sync_every=ref_sync_every,
            **settings,
        ),
        reward_function=reward_function,
    )
    _resume(run, checkpoint_dir, resume, quiet)
    history = [] if history is None else history
    history[:] = run.history
    saved_at = started_at = len(run.history)
    with tqdm(total=num_steps, initial=started_at, disable=quiet, desc="GRPO", unit="step") as bar:
        try:
            for record in itertools.islice(run, max(0, num_steps - started_at)):
                history.append(record)
                if evaluate is not None and record.step % eval_every == 0:
                    record = history[-1] = evaluate_newest(run, evaluate)
                    if best_metric is not None:
                        save_best(checkpoint_dir, run, best_metric)
                for callback in callbacks:
                    callback(run, record)
                bar.set_postfix(reward=f"{record.reward_mean:.2f}", refresh=False)
                bar.update()
                if not quiet:
                    _tell(bar, record, log_every, first=record.step == started_at + 1, left=num_steps - record.step)
                if checkpoint_every and record.step % checkpoint_every == 0:
                    run.save(checkpoint_dir)
                    drop_old_checkpoints(checkpoint_dir, keep_last)
                    saved_at = record.step
        except KeyboardInterrupt:
            bar.write(f"Interrupted after step {len(run.history)}: the model keeps what it has learned.")
    if checkpoint_dir is not None and len(run.history) > saved_at:
        run.save(checkpoint_dir)
        drop_old_checkpoints(checkpoint_dir, keep_last)
    return model


def projected_time(record, steps_left):
    """Say how long a step took, in which phases, and how long as many more would take.

    >>> from types import SimpleNamespace
    >>> print(projected_time(SimpleNamespace(step=1, seconds={"generate": 9.0, "backward": 3.0}), 100))
    step 1 took 12.0 s (generate 9.0, backward 3.0): about 20 min for the 100 steps left
    """
    total = sum(record.seconds.values())
    phases = ", ".join(f"{name} {spent:.1f}" for name, spent in sorted(record.seconds.items(), key=lambda p: -p[1]))
    left = total * steps_left
    shown = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min" if left < 7200 else f"{left / 3600:.1f} h"
    return f"step {record.step} took {total:.1f} s ({phases}): about {shown} for the {steps_left} steps left"


def _tell(bar, record, log_every, *, first, left):
    if first and left * sum(record.seconds.values()) > 60:  # a short run needs no forecast
        bar.write(projected_time(record, left))
    if log_every and record.step % log_every == 0:
        bar.write(_line(record))


def _resume(run, checkpoint_dir, resume, quiet):
    path = latest_checkpoint(checkpoint_dir) if resume is True else (resume or None)
    if resume is True and path is None and not quiet:
        print(f"No checkpoint in {checkpoint_dir}: the run starts at step 0.")
    if path is not None:
        load_with_own_settings(run, path)
    newest = None if checkpoint_dir is None else latest_checkpoint(checkpoint_dir)
    if newest is not None and int(newest.name[5:]) > len(run.history):
        raise ValueError(
            f"{checkpoint_dir} holds {newest.name} of another run, ahead of this one at step {len(run.history)}: "
            "resume it with resume=True, or choose an empty folder"
        )


def _line(record):
    kl = "" if record.kl is None else f"  kl {record.kl:.4f}"
    return f"step {record.step:4d}  loss {record.loss:+.4f}  reward {record.reward_mean:.3f}{kl}"


def _check_arguments(num_steps, evaluate, eval_every, checkpoint_dir, checkpoint_every, resume, log_every, history):
    check_count("num_steps", num_steps, 1)
    every = {"eval_every": eval_every, "checkpoint_every": checkpoint_every, "log_every": log_every}
    for name, value in every.items():
        if value is not None:
            check_count(name, value, 1, why=", or None")
    if history and not resume:
        raise ValueError(f"history must be an empty list, got one of {len(history)} entries, which would be lost")
    if (evaluate is None) != (eval_every is None):
        raise ValueError("evaluate (a function) and eval_every (a number of steps) go together: give both or neither")
    if checkpoint_dir is None and (checkpoint_every is not None or resume is True):
        raise ValueError("checkpoint_every and resume=True need checkpoint_dir, the folder that holds the checkpoints")


def _check_kept(best_metric, evaluate, keep_last, checkpoint_dir):
    if best_metric is not None and (evaluate is None or checkpoint_dir is None):
        raise ValueError("best_metric needs evaluate, which measures it, and checkpoint_dir, where the best is kept")
    if keep_last is not None:
        check_count("keep_last", keep_last, 1, why=", or None for all")
