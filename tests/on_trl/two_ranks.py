"""What two ranks do for the tests, in one launch: a whole run, a group spread over both, a reward that fails on one."""

import json
import os
import sys
from pathlib import Path

from rank_rewards import LongestWins, fails_on_rank_1
from trl_launches import COMMAND

from grpo_lib.scale_out import load_run, parse_command, train_with_trl

folder, rank = Path(sys.argv[1]), os.environ["RANK"]


def note(name, **found):
    (folder / f"{name}-{rank}.json").write_text(json.dumps(found))


def whole_run():
    os.environ["SEEN"] = str(folder)
    options, settings = parse_command([*COMMAND, "--out", str(folder / "run")])
    model, tokenizer, data, reward = load_run(options)
    records = train_with_trl(
        model,
        tokenizer,
        data,
        settings,
        num_steps=options.steps,
        reward_function=reward,
        output_dir=options.out,
        checkpoint_every=options.checkpoint_every,
    )
    del os.environ["SEEN"]
    note("run", rewards=[record.reward_mean for record in records], pid=os.getpid())


def second_pass():
    """Three steps of 4 prompts, out of 5."""
    (folder / "passes").mkdir(exist_ok=True)
    os.environ["SEEN"] = str(folder / "passes")
    options, settings = parse_command([*COMMAND, "--out", str(folder / "short")])
    model, tokenizer, data, reward = load_run(options)
    where = {"reward_function": reward, "output_dir": options.out, "quiet": True}
    train_with_trl(model, tokenizer, data[:5], settings, num_steps=3, **where)
    del os.environ["SEEN"]


def spread_group():
    """TRL alone: 2 completions a process, groups of 4, so that each group lies half here and half there."""
    from trl import GRPOConfig, GRPOTrainer

    from grpo_lib import load_addition, load_tiny_policy, trl_dataset

    model, tokenizer = load_tiny_policy()
    reward = LongestWins()
    config = GRPOConfig(
        str(folder / "spread"),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=2,
        num_generations=4,
        max_completion_length=24,
        max_steps=3,
        learning_rate=0.0,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        gradient_checkpointing=False,
    )
    trainer = GRPOTrainer(
        model, reward, args=config, train_dataset=trl_dataset(load_addition("train")[:64]), processing_class=tokenizer
    )
    steps, generate = [], trainer._generate_and_score_completions

    def watched(inputs):
        found = generate(inputs)
        logs = {name: list(trainer._logs[name]) for name in ("prompt", "advantages")}
        steps.append(
            {
                "own": found["advantages"].tolist(),
                "all": logs["advantages"],
                "rewards": list(trainer._logs["rewards"]["longest_wins"]),
                "prompts": [prompt[-1]["content"] for prompt in logs["prompt"]],
            }
        )
        return found

    trainer._generate_and_score_completions = watched
    trainer.train()
    note("spread", steps=steps, seen=reward.seen)


def failing_reward():
    options, settings = parse_command([*COMMAND, "--out", str(folder / "fails")])
    model, tokenizer, data, _ = load_run(options)
    try:
        train_with_trl(
            model,
            tokenizer,
            data,
            settings,
            num_steps=2,
            reward_function=fails_on_rank_1,
            output_dir=options.out,
            quiet=True,
        )
    except RuntimeError as error:
        note("fails", error=f"{type(error).__name__}: {error}")


whole_run()
second_pass()
spread_group()
failing_reward()
