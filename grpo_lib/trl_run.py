"""`train_with_trl`: the same model, data, reward and settings on TRL's `GRPOTrainer`, in all processes there are.

accelerate joins the processes and DeepSpeed, FSDP and vLLM come through TRL's own options; nothing is distributed here.
"""

from pathlib import Path

import torch

from grpo_lib._arguments import check_count
from grpo_lib.adapters import has_adapter
from grpo_lib.models import no_progress_bar
from grpo_lib.processes import (
    describe_processes,
    launched_processes,
    list_processes,
    process_rank,
    stop_clearly,
    visible_gpus,
    write_processes,
)
from grpo_lib.prompts import sample_columns
from grpo_lib.record_files import write_records
from grpo_lib.run import prompt_order
from grpo_lib.trl_checkpoints import (
    check_checkpoint,
    find_start,
    resume_advice,
    run_facts,
    seal_checkpoint,
    weights_digest,
)
from grpo_lib.trl_data import checked_reward, trl_dataset
from grpo_lib.trl_model import given_back, reference_from_start
from grpo_lib.trl_records import RecordKeeper
from grpo_lib.trl_sampling import sampled_as_scored
from grpo_lib.trl_settings import import_trl, trl_config

__all__ = ["train_with_trl"]


def train_with_trl(
    model,
    tokenizer,
    train_data,
    settings,
    *,
    num_steps,
    reward_function,
    output_dir,
    resume=False,
    checkpoint_every=None,
    log_every=5,
    quiet=False,
    **trl_options,
):
    """Train a model with TRL's GRPOTrainer; alone, or in each process that torchrun or accelerate started.

    In `output_dir` lie afterwards `steps.jsonl` (the records, line by line as the run goes), `processes.json` (who took
    part), `checkpoint-…` and `model` (trained, for `load_policy`). Every process must see the same folder.

    The prompts come in the order of our own run: with W processes of `batch_size` prompts each, a step takes those
    that `GRPORun` takes with batch_size · W. The draws are others: each process has a random stream of its own.

    Args:
        model, tokenizer, train_data, reward_function: as in `train_with_grpo`; the model is trained in place. Load it
            on the CPU, TRL moves it to the process's own GPU. It must start with the same weights in every process.
        settings: a `GRPOSettings`; batch_size is that of each process (see `trl_config`).
        num_steps: of the whole run; one that is resumed takes those that are missing.
        output_dir: the run's folder: new, or without a run in it, but for `resume`.
        resume: True takes up the newest complete checkpoint, where there is one; a path takes up that one. On a CPU,
            with TRL's own generation, the records and weights are then those of an unbroken run, to the bit.
        checkpoint_every: steps between checkpoints; there is one more at the end. None writes none.
        log_every: print a line every so many steps; None never does. quiet: no prints.
        **trl_options: further fields of `trl.GRPOConfig`: use_vllm, deepspeed, fsdp, use_cpu, …
    Returns:
        the list of all `StepRecord`s, in every process; what TRL does not measure is None (see `grpo_lib.trl_records`).
    Raises:
        ImportError: without TRL. RuntimeError: if the launcher did not start what it was asked for; if the reward
            function fails, on every process, with the row; if the processes end with different weights.
        ProcessStopped: if another process of the run is gone; it says how far the run came and how to take it up.
        ValueError, FileNotFoundError, TypeError: on settings, data, folder or checkpoint that do not fit, before
            anything is changed. FloatingPointError: if a loss is not finite.
    """
    check_count("num_steps", num_steps, 1)
    for name, value in {"checkpoint_every": checkpoint_every, "log_every": log_every}.items():
        if value is not None:
            check_count(name, value, 1, why=", or None")
    import_trl()
    folder, world = Path(output_dir), launched_processes(gpus=visible_gpus(trl_options))
    tell = print if process_rank() == 0 and not quiet else lambda *_, **__: None
    options = _with_defaults(trl_options, settings, checkpoint_every, world)
    columns, checked = sample_columns(train_data), checked_reward(reward_function)
    facts = run_facts(settings, trl_options, world, model, columns, reward_function, num_steps)
    start = find_start(folder, resume)
    earlier = [] if start is None else check_checkpoint(start, facts)
    _check_reference(settings, model, start)
    keeper = RecordKeeper(settings, folder if process_rank() == 0 else None, earlier, _teller(tell, log_every))
    with stop_clearly(lambda: resume_advice(folder, len(keeper.records))), given_back(model) as own, no_progress_bar():
        config = trl_config(settings, folder, num_steps=num_steps, **options)
        dataset = _in_order(trl_dataset(train_data, **_limit(settings, tokenizer)), settings, num_steps * world)
        processes = _begin(folder, world, keeper, resume, start, tell)
        with reference_from_start(model, tokenizer, folder, settings):
            trainer = _make_trainer(model, tokenizer, config, dataset, keeper.reward(checked), settings)
        if process_rank() == 0:  # not before: what TRL refuses leaves no run behind
            folder.mkdir(parents=True, exist_ok=True)
            write_records(folder, keeper.records)
            write_processes(folder, processes)
        trainer.add_callback(keeper.callback(lambda steps: _seal(folder / f"checkpoint-{steps}", facts)))
        if len(earlier) < num_steps:
            with sampled_as_scored(model):
                trainer.train(resume_from_checkpoint=None if start is None else str(start))
        else:
            tell(f"the run has taken its {len(earlier)} steps already")
            trainer._load_from_checkpoint(str(start))
        own()
        _end(folder, trainer, keeper)
    return keeper.records


def _with_defaults(options, settings, checkpoint_every, world):
    taken = sorted(
        {"logging_steps", "logging_strategy", "save_steps", "save_strategy", "save_only_model"} & set(options)
    )
    if taken:
        raise ValueError(f"{', '.join(taken)}: records come with every step, checkpoints with checkpoint_every")
    on_cpu = visible_gpus(options) == 0
    if on_cpu and world > 1:
        torch.set_num_threads(1)  # more would only take the cores from the other processes
    saving = {} if checkpoint_every is None else {"save_steps": checkpoint_every * settings.updates_per_rollout}
    saving["save_strategy"] = "no" if checkpoint_every is None else "steps"
    cpu = {"use_cpu": True, "ddp_backend": "gloo" if world > 1 else None} if on_cpu else {}
    return {"shuffle_dataset": False, "disable_tqdm": True, **cpu, **options, "logging_steps": 1, **saving}


def _limit(settings, tokenizer):
    limit = settings.max_prompt_length
    return {} if limit is None else {"tokenizer": tokenizer, "max_prompt_length": limit}


def _in_order(dataset, settings, batches):
    """All prompts of the run, in the order of `GRPORun`; a resumed sampler of TRL's would repeat its first pass."""
    size = len(dataset)
    rows = range(batches * settings.batch_size)
    return dataset.select([prompt_order(size, settings.seed, row // size)[row % size] for row in rows])


def _check_reference(settings, model, start):
    if settings.ref_sync_every is None or settings.beta == 0:
        return
    if has_adapter(model):
        raise ValueError("TRL syncs no reference of a model with an adapter: ref_sync_every=None, or train all weights")
    if start is not None:
        raise ValueError(
            "TRL's checkpoints hold no reference, and with ref_sync_every it is not the start any more: such a run "
            "cannot be taken up. Start anew from the weights of the checkpoint, or with ref_sync_every=None"
        )


def _begin(folder, world, keeper, resume, start, tell):
    processes = list_processes()
    if len(processes) != world:
        raise RuntimeError(f"the launcher started {world} processes, but {len(processes)} work together: set use_cpu?")
    s = keeper.settings
    each = f"{s.batch_size} prompts x {s.num_generations} completions a step"
    tell(f"{describe_processes(processes)}; {each} in each, {world * s.batch_size * s.num_generations} together")
    if resume is True and start is None:
        tell(f"no complete checkpoint in {folder}: the run starts at step 0")
    elif start is not None:
        tell(f"taken up after step {len(keeper.records)}, from {start}")
    return processes


def _make_trainer(model, tokenizer, config, dataset, reward, settings):
    from transformers import PrinterCallback, ProgressCallback

    from grpo_lib.trl_schedule import trl_callbacks

    trainer = import_trl().GRPOTrainer(
        model=model,
        args=config,
        reward_funcs=[reward],
        train_dataset=dataset,
        processing_class=tokenizer,
        callbacks=trl_callbacks(settings),
    )
    trainer.remove_callback(PrinterCallback)  # each prints all that is logged
    trainer.remove_callback(ProgressCallback)
    return trainer


def _seal(path, facts):
    from accelerate import PartialState

    PartialState().wait_for_everyone()  # each process writes its random streams
    if process_rank() == 0:
        seal_checkpoint(path, facts)


def _end(folder, trainer, keeper):
    """Save the model, look whether all processes hold the same, and say who took part."""
    trainer.save_model(str(folder / "model"))
    shared = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled  # then no process holds all weights
    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=True)
    weights = None if shared else weights_digest(model)
    processes = list_processes(rows=keeper.rows, weights=weights)
    if process_rank() == 0:
        write_processes(folder, processes)
    if len({one["weights"] for one in processes}) > 1:
        raise RuntimeError(f"the processes end with different weights: {[one['weights'][:8] for one in processes]}")


def _teller(tell, log_every):
    def line(record):
        if log_every and record.step % log_every == 0:
            kl = "" if record.kl is None else f"  kl {record.kl:.4f}"
            tell(f"step {record.step:4d}  loss {record.loss:+.4f}  reward {record.reward_mean:.3f}{kl}", flush=True)

    return line
