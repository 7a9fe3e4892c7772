"""The shipped policy learns to reason, over three seeds; and the stored runs belong to it."""

import pytest

from grpo_lib.evaluation import evaluate_accuracy
from grpo_lib.models import load_tiny_policy
from grpo_lib.stored_runs import SEEDS, STORED, load_stored_runs, run_once
from grpo_lib.tasks import addition_reward, load_addition


def test_start_is_sloppy():
    model, tokenizer = load_tiny_policy()
    start = evaluate_accuracy(model, tokenizer, load_addition("test"), addition_reward, max_completion_length=24)
    assert start.value <= 0.45
    assert start.low < start.value < start.high


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_ends_right_and_reasoning(seed):
    run = run_once({}, seed)
    assert run["accuracy"]["correct"] / run["accuracy"]["total"] >= 0.85
    assert run["accuracy"]["reasoning"] >= 0.9
    columns = run["columns"]
    assert columns["completion_length"][-1] > columns["completion_length"][0] + 6
    assert columns["reasoning"][0] < 0.5
    assert columns["entropy"][-1] < columns["entropy"][0]
    assert abs(columns["kl"][0]) < 1e-6


@pytest.mark.parametrize("name", STORED)
def test_stored_runs_are_complete_and_start_as_a_new_run_does(name):
    runs = load_stored_runs(name)
    assert [run["seed"] for run in runs] == list(SEEDS)
    assert {len(run["steps"]) for run in runs} == {200}
    if name in ("base", "beta = 2"):
        again = run_once(STORED[name], 0, num_steps=2)["columns"]
        stored = runs[0]["steps"][:2]
        assert again["reward_mean"] == [record["reward_mean"] for record in stored]
        assert again["completion_length"] == [record["completion_length"] for record in stored]


def test_stored_settings_differ_as_the_notebook_says():
    reward = {name: [run["steps"][-1]["reward_mean"] for run in load_stored_runs(name)] for name in STORED}
    mean = {name: sum(values) / len(values) for name, values in reward.items()}
    assert mean["base"] > mean["beta = 2"] + 0.2
    assert mean["base"] > mean["lr = 1e-3"] + 0.2


def test_unknown_name_is_refused():
    with pytest.raises(ValueError, match="there are: base, beta = 0.5"):
        load_stored_runs("beta = 3")


def test_evaluation_counts_like_a_loop_and_leaves_the_random_stream_alone():
    import torch

    model, tokenizer = load_tiny_policy()
    samples = load_addition("test")[:30]
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    result = evaluate_accuracy(model, tokenizer, samples, addition_reward, temperature=0, max_completion_length=24)
    assert torch.rand(1) == expected
    right = [addition_reward([""], [text], [s["answer"]])[0] for text, s in zip(result.texts, samples, strict=True)]
    assert (result.correct, result.total) == (sum(right), 30)
    small = evaluate_accuracy(
        model, tokenizer, samples, addition_reward, temperature=0, max_completion_length=24, batch_size=7
    )
    assert small.texts == result.texts


def test_wilson_interval_against_its_formula():
    def always(prompts, completions, answer):
        return [float(i < 8) for i in range(len(completions))]

    model, tokenizer = load_tiny_policy()
    result = evaluate_accuracy(model, tokenizer, load_addition("test")[:10], always, max_completion_length=2)
    z, n, p = 1.959963984540054, 10, 0.8
    centre, half = (p + z * z / (2 * n)) / (1 + z * z / n), z / (1 + z * z / n) * (p * (1 - p) / n + z * z / 400) ** 0.5
    assert (result.low, result.high) == pytest.approx((centre - half, centre + half))
    with pytest.raises(ValueError, match="at least one sample"):
        evaluate_accuracy(model, tokenizer, [], always)


def test_a_graded_reward_needs_a_threshold():
    def graded(prompts, completions, answer):
        return [0.2 * (i % 3) for i in range(len(completions))]

    model, tokenizer = load_tiny_policy()
    samples = load_addition("test")[:6]
    with pytest.raises(ValueError, match="say from which on an answer is right"):
        evaluate_accuracy(model, tokenizer, samples, graded, max_completion_length=2)
    assert evaluate_accuracy(model, tokenizer, samples, graded, max_completion_length=2, threshold=0.4).correct == 2


def test_evaluation_calls_the_reward_as_training_does():
    seen = []

    def reward(prompts, completions, answer, level):
        seen.append((completions[0][0]["role"], level))
        return [1.0] * len(completions)

    model, tokenizer = load_tiny_policy()
    samples = [{**sample, "level": 3} for sample in load_addition("test")[:2]]
    assert evaluate_accuracy(model, tokenizer, samples, reward, max_completion_length=2).value == 1.0
    assert seen == [("assistant", [3, 3])]
