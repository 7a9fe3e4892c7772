"""Our samples and reward functions inside TRL's trainer: what it passes, what it takes, what the checked ones say."""

import logging
import math

import pytest

pytest.importorskip("trl")

import torch  # noqa: E402

from grpo_lib import addition_reward, combined_reward  # noqa: E402
from grpo_lib.records import GRPOSettings  # noqa: E402
from grpo_lib.trl_data import checked_reward, trl_dataset  # noqa: E402

SETTINGS = GRPOSettings(batch_size=2, num_generations=2, max_completion_length=4, beta=0.0)
CHAT = [[{"role": "user", "content": text}] for text in ("1+1=?", "12+30=?", "7+8=?")]


def rewards_of(trainer):
    """{function name: the rewards of the newest batch}."""
    return {name: list(values) for name, values in trainer._logs["rewards"].items()}


# --- what a reward function gets


@pytest.mark.parametrize("prompts", [["1+1=", "12+30=", "7+8="], CHAT], ids=["plain", "conversational"])
@pytest.mark.parametrize("wrap", [lambda f: f, checked_reward], ids=["as it is", "checked"])
def test_columns_arrive_as_keywords_and_completions_as_in_our_own_loop(prompts, wrap, real_trainer, sampled):
    seen = []

    def reward(prompts, completions, answer, level, **others):
        seen.append((prompts, completions, answer, level, set(others)))
        return [1.0] * len(completions)

    data = [{"prompt": p, "answer": str(i), "level": {"n": i, "deep": ["x"]}} for i, p in enumerate(prompts)]
    sampled(real_trainer(SETTINGS, wrap(reward), data=data))
    [(got, completions, answer, level, others)] = seen
    assert [data[int(i)]["prompt"] for i in answer] == got and got[0] == got[1]  # groups lie together
    assert level == [{"n": int(i), "deep": ["x"]} for i in answer]
    assert others == {"completion_ids", "trainer_state", "log_extra", "log_metric"}
    if isinstance(prompts[0], str):
        assert all(isinstance(completion, str) for completion in completions)
    else:
        assert all([(m["role"], type(m["content"])) for m in c] == [("assistant", str)] for c in completions)


@pytest.mark.parametrize("function", [combined_reward, addition_reward])
@pytest.mark.parametrize("prompts", [["1+1=", "2+2="], CHAT], ids=["plain", "conversational"])
def test_the_library_s_rewards_go_in_unchanged(function, prompts, real_trainer, sampled):
    trainer = real_trainer(SETTINGS, function, data=[(prompt, "2") for prompt in prompts])
    _, batch = sampled(trainer)
    texts = list(trainer._logs["completion"])
    expected = function(prompts=list(trainer._logs["prompt"]), completions=texts, answer=["2"] * 4)
    assert rewards_of(trainer) == {function.__name__: pytest.approx(expected)}


def test_a_function_without_further_keywords_works_once_it_is_checked(real_trainer, sampled):
    def plain(prompts, completions, answer):
        return [float(len(text)) for text in completions]

    data = [("1+1=", "2"), ("2+2=", "4")]
    with pytest.raises(TypeError, match="unexpected keyword argument 'completion_ids'"):
        sampled(real_trainer(SETTINGS, plain, data=data))
    trainer = real_trainer(SETTINGS, checked_reward(plain), data=data)
    sampled(trainer)
    assert rewards_of(trainer) == {"plain": [float(len(text)) for text in trainer._logs["completion"]]}


def test_trl_s_own_keywords_reach_a_checked_function_that_asks_for_them(real_trainer, sampled):
    def reward(prompts, completions, answer, level, completion_ids, trainer_state, log_extra, log_metric):
        prompts.clear()  # a copy: the run does not notice
        log_extra("length", [len(ids) for ids in completion_ids])
        log_metric("step", float(trainer_state.global_step))
        return [float(len(ids)) for ids in completion_ids]

    trainer = real_trainer(SETTINGS, checked_reward(reward))
    _, batch = sampled(trainer)
    tokens = batch["completion_mask"].sum(dim=1).tolist()
    assert rewards_of(trainer) == {"reward": tokens} and list(trainer._logs["extra"]["length"]) == tokens
    assert trainer._metrics["train"]["step"] == [0.0] and all(trainer._logs["prompt"])


# --- several functions, and async ones


def test_several_functions_are_weighed_and_async_ones_awaited(real_trainer, sampled):
    def length(completions, **_):
        return [float(len(text)) for text in completions]

    async def judge(completions, **_):
        return [1.0 if row % 2 else 0.0 for row in range(len(completions))]

    class Model:
        async def __call__(self, completions, **_):
            return [2.0] * len(completions)

    functions = [length, checked_reward(length), judge, checked_reward(judge), checked_reward(Model())]
    trainer = real_trainer(SETTINGS, functions, reward_weights=[1.0, 0.0, 0.5, 0.25, 3.0])
    _, batch = sampled(trainer)
    assert trainer.reward_func_names == ["length", "length", "judge", "judge", "Model"]
    lengths = torch.tensor([float(len(text)) for text in trainer._logs["completion"]])
    total = (lengths + 0.75 * torch.tensor([0.0, 1.0, 0.0, 1.0])).view(2, 2)  # the model's 6 are everybody's
    expected = (total - total.mean(dim=1, keepdim=True)) / (total.std(dim=1, keepdim=True) + 1e-4)
    torch.testing.assert_close(batch["advantages"], expected.flatten(), rtol=0, atol=1e-5)


# --- what TRL takes, and the checked function refuses


def returns(values, name="reward", is_async=False):
    def reward(completions, **_):
        return list(values)

    async def reward_async(completions, **_):
        return list(values)

    function = reward_async if is_async else reward
    function.__name__ = name
    return function


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("values", "advantages", "message"),
    [
        ([1.0, NAN, 0.0, 1.0], [0.0, 0.0, -0.707, 0.707], "got nan in row 1"),
        ([1.0, None, 0.0, 1.0], [0.0, 0.0, -0.707, 0.707], "got None in row 1"),
        ([0.0, INF, 0.0, 1.0], [0.0, 0.0, -0.707, 0.707], "got inf in row 1"),
    ],
)
def test_trl_passes_over_what_is_no_number(values, advantages, message, is_async, real_trainer, sampled):
    _, batch = sampled(real_trainer(SETTINGS, returns(values, is_async=is_async)))
    found = batch["advantages"].tolist()
    assert found == pytest.approx(advantages, abs=1e-3)  # no error: the group of the bad row learns nothing
    with pytest.raises(ValueError, match=f"reward must return one finite number per completion, 4 in all; {message}"):
        sampled(real_trainer(SETTINGS, checked_reward(returns(values, is_async=is_async))))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_wrong_count_stops_both(is_async, real_trainer, sampled):
    few = returns([1.0, 2.0], is_async=is_async)
    with pytest.raises(ValueError, match="returned 2 rewards, but 4 were expected"):
        sampled(real_trainer(SETTINGS, few))
    with pytest.raises(ValueError, match="reward must .* 4 in all; got 2 rewards for 4 completions"):
        sampled(real_trainer(SETTINGS, checked_reward(few)))


def test_none_from_one_of_several_counts_as_nothing_there(real_trainer, sampled):
    functions = [returns([0.0, 1.0, 0.0, 1.0], "always"), returns([None, 2.0, None, None], "sometimes")]
    functions[1] = checked_reward(functions[1], allow_none=True)
    trainer = real_trainer(SETTINGS, functions, scale_rewards="group")
    _, batch = sampled(trainer)
    total = torch.tensor([[0.0, 3.0], [0.0, 1.0]])
    expected = (total - total.mean(1, keepdim=True)) / (total.std(1, keepdim=True) + 1e-4)
    torch.testing.assert_close(batch["advantages"], expected.flatten(), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="sometimes must return .* got nan in row 1"):
        checked_reward(returns([None, NAN], "sometimes"), allow_none=True)(prompts=["", ""], completions=["", ""])


def test_where_no_function_applies_trl_warns_and_the_row_learns_nothing(real_trainer, sampled, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("trl"), "propagate", True)
    trainer = real_trainer(SETTINGS, [returns([None, 1.0, 0.0, 1.0], "one"), returns([None, 1.0, 0.0, 1.0], "two")])
    _, batch = sampled(trainer)
    assert batch["advantages"].tolist() == pytest.approx([0.0, 0.0, -0.7071, 0.7071], abs=1e-3)
    assert "All reward functions returned None for the following kwargs" in caplog.text


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_function_that_fails_is_named(is_async, real_trainer, sampled):
    if is_async:

        async def broken(completions, **_):
            raise KeyError("lost")
    else:

        def broken(completions, **_):
            raise KeyError("lost")

    where = "on the batch" if is_async else "on row 0 of 4"
    with pytest.raises(RuntimeError, match=f"broken raised KeyError {where}.*lost"):
        sampled(real_trainer(SETTINGS, checked_reward(broken)))


# --- the data set


def test_samples_come_out_as_they_went_in():
    samples = [
        {"prompt": CHAT[row], "answer": f"{row}", "level": row, "share": 0.5 * row, "tags": ["a"] * row, "hint": hint}
        for row, hint in enumerate(["x", None, "y"])
    ]
    assert list(trl_dataset(samples)) == samples
    assert trl_dataset([("1+1=", "2"), ("2+2=", "4")])[1] == {"prompt": "2+2=", "answer": "4"}
    assert list(trl_dataset([{"prompt": "1", "answer": (1, 2)}]))[0]["answer"] == [1, 2]  # a tuple is a list there


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "samples must be a list of at least one sample"),
        ([("1+1=", "2"), ("", "2")], "sample 1: a prompt must .* hold a text"),
        ([("1+1=", "2"), (CHAT[0], "2")], "TRL looks at the first prompt only"),
        ([{"prompt": "1", "answer": "2", "trainer_state": 1}], "TRL takes the name trainer_state for itself"),
        ([{"prompt": "1", "answer": "2", "completion": "3"}], "TRL takes the name completion for itself"),
        ([("1", "2"), ("2", 4)], "column 'answer' does not fit into a data set"),
        ([("1", 2), ("2", 4.5)], "column 'answer' would change in row 0, from 2 to 2.0"),
        ([("1", {"a": 1}), ("2", {"b": 2})], "column 'answer' would change in row 0, from {'a': 1} to"),
    ],
)
def test_samples_that_would_not_arrive_are_refused(samples, message):
    with pytest.raises(ValueError, match=message):
        trl_dataset(samples)


def test_long_prompts_are_refused_where_a_limit_is_given(random_qwen):
    from transformers import AutoTokenizer

    tokenizer, data = AutoTokenizer.from_pretrained(random_qwen), [("1+1=", "2"), ("100+200=", "300")]
    assert len(trl_dataset(data, tokenizer=tokenizer, max_prompt_length=8)) == 2
    with pytest.raises(ValueError, match="prompt 1 has 8 tokens, more than max_prompt_length = 7"):
        trl_dataset(data, tokenizer=tokenizer, max_prompt_length=7)
    with pytest.raises(ValueError, match="go together"):
        trl_dataset(data, max_prompt_length=7)


@pytest.mark.parametrize("not_callable", [None, "combined_reward", 1.0])
def test_only_functions_are_wrapped(not_callable):
    with pytest.raises(TypeError, match="a reward function must be callable, got"):
        checked_reward(not_callable)
