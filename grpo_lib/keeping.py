"""What a run keeps while it trains: evaluations in its records, checkpoints, the best policy; and taking it up again.

panel.on_step(keep_run("runs/first", evaluate=evaluate, eval_every=10, best_metric="accuracy", checkpoint_every=10))
take_up(panel.training, "runs/first")      # the newest checkpoint, where there is one
"""

from dataclasses import replace

from grpo_lib._arguments import check_count
from grpo_lib.best_policy import drop_old_checkpoints, save_best
from grpo_lib.checkpoints import latest_checkpoint

__all__ = ["evaluate_newest", "keep_run", "load_with_own_settings", "take_up"]


def evaluate_newest(run, evaluate):
    """Evaluate a run's model as it is now, into its newest record.

    Args:
        run: a `GRPORun` that has taken a step. evaluate: `evaluate(model, tokenizer) -> dict of numbers`.
    Returns:
        the record, with `evaluation`.
    """
    with run.precision():
        found = {name: float(value) for name, value in evaluate(run.model, run.tokenizer).items()}
    run.history[-1] = replace(run.history[-1], evaluation=found)
    return run.history[-1]


def keep_run(folder, *, checkpoint_every, keep_last=2, evaluate=None, eval_every=None, best_metric=None):
    """Make a callback that evaluates and saves a run after some of its steps; for a panel, or a loop of one's own.

    `train_with_grpo` does the same by its own arguments of these names.

    Args:
        folder: of the checkpoints, and of `best`. checkpoint_every: steps. keep_last: checkpoints to keep; None all.
        evaluate, eval_every: see `evaluate_newest`, and how often. best_metric: see `grpo_lib.best_policy.save_best`.
    Returns:
        a function of (run, record).
    Raises:
        ValueError: on a count out of range, or a best_metric without evaluate and eval_every.

    >>> keep_run("runs/first", checkpoint_every=10, best_metric="accuracy")
    Traceback (most recent call last):
    ValueError: best_metric needs evaluate and eval_every, which measure it
    """
    check_count("checkpoint_every", checkpoint_every, 1)
    if keep_last is not None:
        check_count("keep_last", keep_last, 1, why=", or None for all")
    if (evaluate is None) != (eval_every is None):
        raise ValueError("evaluate (a function) and eval_every (a number of steps) go together: give both or neither")
    if eval_every is not None:
        check_count("eval_every", eval_every, 1)
    if best_metric is not None and evaluate is None:
        raise ValueError("best_metric needs evaluate and eval_every, which measure it")

    def keep(run, record):
        if evaluate is not None and record.step % eval_every == 0:
            evaluate_newest(run, evaluate)
            if best_metric is not None:
                save_best(folder, run, best_metric)
        if record.step % checkpoint_every == 0:
            run.save(folder)
            drop_old_checkpoints(folder, keep_last)

    return keep


def load_with_own_settings(run, path):
    """Load a checkpoint and go on with the settings that the run was given, not with those that were saved."""
    asked = run.settings
    run.load(path)
    run.change(**{name: getattr(asked, name) for name in vars(asked)})


def take_up(run, folder, *, quiet=False):
    """Take up the newest checkpoint of a folder, where there is one, with the settings that the run was given.

    Args:
        run: a `GRPORun` of the same model, data and kind of policy. folder: of the checkpoints.
    Returns:
        the number of steps it has taken: 0 where there was nothing.
    Raises:
        RuntimeError, ValueError, FileNotFoundError: on a checkpoint of another model, a damaged one, or one without
        the reference that this run needs.

    >>> from types import SimpleNamespace
    >>> take_up(SimpleNamespace(history=[]), "/a/folder/that/is/not/there")
    no checkpoint in /a/folder/that/is/not/there: the run starts at step 0
    0
    """
    path = latest_checkpoint(folder)
    if path is None:
        if not quiet:
            print(f"no checkpoint in {folder}: the run starts at step 0")
        return len(run.history)
    load_with_own_settings(run, path)
    if not quiet:
        print(f"taken up after step {len(run.history)}, from {path}")
    return len(run.history)
