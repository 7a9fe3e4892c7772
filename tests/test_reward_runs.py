"""Rewards in a run: the field cases of layout, end and cap, the hack on the bandit, stored runs and their control."""

import json
from importlib import resources

import numpy as np
import pytest
import torch
from scipy import stats

from grpo_lib.bandit import BanditGRPO
from grpo_lib.models import load_tiny_policy
from grpo_lib.plots import alt_text, proxy_figure
from grpo_lib.records import GRPOSettings
from grpo_lib.reward_checks import completion_text
from grpo_lib.reward_runs import (
    ARMS,
    EVAL_EVERY,
    NUM_STEPS,
    SEEDS,
    length_reward,
    load_reward_runs,
    mean_interval,
    right_and_length_reward,
    run_arm,
    tags_reward,
)
from grpo_lib.rewards import combined_reward, correctness_reward
from grpo_lib.rollout import collect_rollout
from grpo_lib.run import GRPORun
from grpo_lib.tasks import load_addition

CAP = {"num_generations": 4, "max_completion_length": 24}


@pytest.fixture(scope="module")
def tiny():
    return load_tiny_policy()


# ---------------------------------------------------------------- field cases


def test_R33_prompts_and_answers_come_in_groups_beside_their_completions(tiny):
    seen = {}

    def record(**batch):
        seen.update(batch)
        return [0.0] * len(batch["completions"])

    data = [{**sample, "level": i} for i, sample in enumerate(load_addition("train")[:2])]
    rollout = collect_rollout(*tiny, data, record, **CAP)
    assert seen["prompts"] == [data[0]["prompt"]] * 4 + [data[1]["prompt"]] * 4
    assert seen["answer"] == [data[0]["answer"]] * 4 + [data[1]["answer"]] * 4
    assert seen["level"] == [0] * 4 + [1] * 4
    assert [completion_text(c) for c in seen["completions"]] == rollout.texts


class Writes:
    """Stands in for generation: every row of the batch gets these ids."""

    def __init__(self, ids):
        self.ids = ids

    def __call__(self, model, tokenizer, prompts, num_generations, *rest, **options):
        from grpo_lib.masks import create_completion_mask

        ids = torch.tensor([self.ids] * len(prompts) * num_generations)
        prompt = torch.ones(len(ids), 1, dtype=torch.long)
        return prompt, prompt, ids, create_completion_mask(ids, tokenizer.eos_token_id)


def test_M17_what_stands_after_the_end_token_never_reaches_the_reward(tiny, monkeypatch):
    model, tokenizer = tiny
    junk = "<answer>5</answer><|im_end|><answer>9</answer>"
    ids = tokenizer(junk, add_special_tokens=False)["input_ids"]
    assert ids.count(tokenizer.eos_token_id) == 1
    monkeypatch.setattr("grpo_lib.rollout.generate_completions", Writes(ids))
    rollout = collect_rollout(model, tokenizer, [("?", "5")], correctness_reward, num_generations=2)
    assert rollout.rewards.tolist() == [2.0, 2.0] and rollout.texts == ["<answer>5</answer>"] * 2
    rollout = collect_rollout(model, tokenizer, [("?", "9")], correctness_reward, num_generations=2)
    assert rollout.rewards.tolist() == [0.0, 0.0]


def test_R30_a_cap_too_small_shows_in_every_number_and_in_a_warning_that_names_it(tiny):
    model, tokenizer = load_tiny_policy()
    data = []
    for sample in load_addition("train")[:8]:
        text = tokenizer.apply_chat_template(sample["prompt"], add_generation_prompt=True, tokenize=False)
        data.append({"prompt": text + "<think>", "answer": sample["answer"]})
    settings = GRPOSettings(batch_size=4, max_completion_length=4, beta=0.0, learning_rate=1e-4)
    run = GRPORun(model, tokenizer, data, settings, reward_function=combined_reward)
    with pytest.warns(UserWarning, match="every completion was cut at max_completion_length = 4"):
        record = next(run)
    assert (record.truncated, record.zero_variance, record.reward_mean) == (1.0, 1.0, 0.0)
    assert record.grad_norm == 0.0


def test_R36_a_length_bias_lifts_the_proxy_and_sinks_the_true_reward():
    words, true = ["ant", "eel", "cat", "hippopotamus"], np.array([1.0, 1.0, 0.0, 0.0])
    letters = np.array([len(word) for word in words])
    for normalise, beta in ((True, 0.0), (False, 0.2)):
        for seed in range(3):
            change = {}
            for bias in (0.0, 0.15):
                proxy = true + bias * letters
                settings = dict(beta=beta, normalise=normalise, learning_rate=0.02, sample_seed=seed)
                run = BanditGRPO(words, reward=proxy, baseline="mean" if normalise else "loo", **settings)
                run.train(num_iterations=300, num_samples=20)
                first, last = run.prob_history[0], run.prob_history[-1]
                change[bias] = ((last - first) @ proxy, (last - first) @ true)
            assert change[0.0][1] > 0.5 and change[0.0][0] == change[0.0][1]
            assert change[0.15][0] > 0.3 and change[0.15][1] < -0.1


def test_R36_the_bandit_comes_to_rest_where_the_closed_form_says():
    words, true = ["ant", "eel", "cat", "hippopotamus"], np.array([1.0, 1.0, 0.0, 0.0])
    proxy = true + 0.09 * np.array([len(word) for word in words])
    settings = dict(beta=0.2, normalise=False, baseline="loo", learning_rate=0.02)
    ends = []
    for seed in range(8):
        run = BanditGRPO(words, reward=proxy, sample_seed=seed, **settings)
        run.train(num_iterations=500, num_samples=20)
        ends.append(run.prob_history[-1] @ true)
    weights = run.ref_probs * np.exp(proxy / 0.2)
    assert np.mean(ends) == pytest.approx(weights @ true / weights.sum(), abs=0.03)


# ---------------------------------------------------------------- the arms


def test_proxies_by_hand():
    texts = ["<answer>85</answer>", "85", "<answer>", "<think>5</think><answer>8</answer>"]
    batch = (["?"] * 4, texts, ["85"] * 4)
    assert length_reward(*batch) == [0.38, 0.04, 0.16, pytest.approx(0.68)]
    assert tags_reward(*batch) == [1.0, 0.0, 0.0, 1.0]
    assert right_and_length_reward(*batch) == [1.38, 0.04, 0.16, pytest.approx(0.68)]
    messages = [[{"content": text}] for text in texts]
    assert length_reward(batch[0], messages, batch[2]) == length_reward(*batch)


def test_mean_interval_against_scipy():
    values = [0.89, 0.92, 0.93, 0.88, 0.90]
    mean, low, high = mean_interval(values)
    expected = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert mean == pytest.approx(np.mean(values)) and (low, high) == pytest.approx(expected)
    with pytest.raises(ValueError, match="at least 2 values, got 1"):
        mean_interval([0.5])


@pytest.mark.parametrize("arm", ARMS)
def test_stored_runs_are_complete_and_start_as_a_new_run_does(arm):
    runs = load_reward_runs(arm)
    assert [run["seed"] for run in runs] == list(SEEDS)
    for run in runs:
        assert [record["step"] for record in run["steps"]] == list(range(1, NUM_STEPS + 1))
        assert [record["step"] for record in run["held_out"]] == list(range(0, NUM_STEPS + 1, EVAL_EVERY))
        assert len(run["texts"]) == 8
        for record in run["held_out"]:
            wilson = stats.binomtest(record["correct"], 500).proportion_ci(0.95, method="wilson")
            assert (record["low"], record["high"]) == pytest.approx((wilson.low, wilson.high), abs=1e-4)
            assert record["true"] == pytest.approx(record["correct"] / 500)
    again = run_arm(ARMS[arm], 0, num_steps=2, eval_every=2)
    assert again["held_out"][0] == runs[0]["held_out"][0]
    for name, column in again["columns"].items():
        assert column == [record[name] for record in runs[0]["steps"][:2]]


def test_all_arms_start_from_one_policy_and_only_the_control_is_paid_the_truth():
    starts = [run["held_out"][0] for arm in ARMS for run in load_reward_runs(arm)]
    assert all(start == starts[0] for start in starts)
    for arm in ARMS:
        same = [record["paid"] == record["true"] for run in load_reward_runs(arm) for record in run["steps"]]
        assert all(same) == (arm == "true")


def test_an_unknown_arm_is_refused():
    with pytest.raises(ValueError, match="no runs stored for 'tag'; there are: true, length, tags, right"):
        load_reward_runs("tag")


def test_stored_file_holds_the_arms_and_nothing_else():
    stored = json.loads((resources.files("grpo_lib") / "data" / "reward_runs.json").read_text(encoding="utf-8"))
    assert list(stored) == list(ARMS)


# ---------------------------------------------------------------- the figure


def record(step, true):
    return {"step": step, "true": true, "length": 2 * true}


def test_figure_draws_mean_and_interval_of_each_arm():
    arms = {"a": [[record(0, 0.2), record(20, 0.4)], [record(0, 0.4), record(20, 0.8)]], "b": [[record(0, 1.0)]]}
    fig = proxy_figure(arms, {"true": "right<br>(share)", "length": "length"})
    assert [trace.name for trace in fig.data] == ["a", "a", "a", "b"] * 2
    low, high, mean = fig.data[:3]
    assert mean.y == pytest.approx((0.3, 0.6)) and mean.x == (0, 20)
    for i, values in enumerate(([0.2, 0.4], [0.4, 0.8])):
        assert (low.y[i], high.y[i]) == pytest.approx(mean_interval(values)[1:], abs=1e-4)
    assert fig.data[6].y == pytest.approx((0.6, 1.2)) and fig.data[3].y == (1.0,)
    assert [trace.name for trace in fig.data if trace.showlegend is not False and trace.fill is None][:1] == ["a"]
    assert "at the end, right (share), length: a 0.6, 1.2; b 1, 2." in alt_text(fig)


@pytest.mark.parametrize(
    "arms, judges, message",
    [
        ({}, {"true": "t"}, "needs an arm with runs and a judge, got arms"),
        ({"a": []}, {"true": "t"}, "needs an arm with runs and a judge, got arms"),
        ({"a": [[record(0, 1.0)]]}, {}, "judges"),
        ({"a": [[record(0, float("nan"))]]}, {"true": "t"}, "true of 'a' must be finite"),
    ],
)
def test_bad_input_is_refused(arms, judges, message):
    with pytest.raises(ValueError, match=message):
        proxy_figure(arms, judges)
