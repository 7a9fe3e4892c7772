"""The addition task, its pretraining text, and GSM8K's loader."""

import builtins
import hashlib
import json
import math
import random
import sys
import types
from collections import Counter

import pytest

from grpo_lib.tasks import (
    SYSTEM_PROMPT,
    add_without_carries,
    addition_pairs,
    addition_prompt,
    addition_reward,
    careful_completion,
    has_reasoning,
    load_addition,
    load_gsm8k,
    sloppy_completion,
)

HELD_OUT_START = ((49, 95), (74, 56), (70, 12))
TEST_DIGEST, TRAIN_DIGEST = "c50dd7829d12e76b", "4bf8a8dc8d0c67dc"
ALL_PAIRS = [(a, b) for a in range(100) for b in range(100)]


def test_split_holds_500_problems_out_of_10000_and_their_twins():
    train, test = addition_pairs("train"), addition_pairs("test")
    held_out = set(test) | {(b, a) for a, b in test}
    assert len(test) == len(set(test)) == 500
    assert len(train) == len(set(train)) == 10_000 - len(held_out)
    assert not held_out & set(train)
    assert held_out | set(train) == set(ALL_PAIRS)


def test_a_held_out_pair_is_held_out_once():
    test = addition_pairs("test")
    assert len({frozenset(pair) for pair in test}) == 500


def test_the_split_is_fixed_for_ever():
    """The shipped policy was trained on this very split: moving a pair would leak."""
    assert addition_pairs("test")[:3] == HELD_OUT_START
    assert hashlib.sha256(repr(addition_pairs("test")).encode()).hexdigest()[:16] == TEST_DIGEST
    assert hashlib.sha256(repr(addition_pairs("train")).encode()).hexdigest()[:16] == TRAIN_DIGEST


def test_the_split_does_not_touch_the_global_generator():
    addition_pairs.cache_clear()
    state = random.getstate()
    addition_pairs("train")
    assert random.getstate() == state


def test_both_splits_are_mixed():
    """The first 200 held-out problems stand for all 500: no drift of sums, both orders of a pair."""
    test = addition_pairs("test")
    assert abs(sum(a + b for a, b in test[:200]) / 200 - 99) < 3 * 40.8 / math.sqrt(200)
    assert 200 < sum(a < b for a, b in test) < 300


def test_rows_ask_and_answer():
    rows = load_addition("test")
    assert len(rows) == 500 and len(load_addition("train")) == len(addition_pairs("train"))
    for (a, b), row in zip(addition_pairs("test"), rows, strict=True):
        assert row == {"prompt": [{"role": "user", "content": f"{a:02d}+{b:02d}=?"}], "answer": str(a + b)}


def test_rows_are_fresh_objects():
    load_addition("test")[0]["prompt"][0]["content"] = "changed"
    assert load_addition("test")[0]["prompt"][0]["content"] != "changed"


@pytest.mark.parametrize("load", [load_addition, addition_pairs, load_gsm8k])
def test_unknown_split_says_which_exist(load):
    with pytest.raises(ValueError, match="'train' or 'test', got 'validation'"):
        load("validation")


REWARD_TABLE = [
    ("<answer>85</answer>", 1.0),
    ("<think>7+8=15,4+3+1=8</think><answer>85</answer>", 1.0),
    ("<think></think><answer>85</answer>", 1.0),
    ("<think>anything at all</think><answer>85</answer>", 1.0),
    ("<think>two\nlines</think><answer>85</answer>", 1.0),
    ("<answer>085</answer>", 1.0),
    ("<answer>75</answer>", 0.0),
    ("<answer>850</answer>", 0.0),
    ("<think>7+8=15,4+3+1=8</think><answer>75</answer>", 0.0),
    ("85", 0.0),
    ("", 0.0),
    ("<answer></answer>", 0.0),
    ("<answer>85", 0.0),
    ("85</answer>", 0.0),
    ("<think>7+8=15,4+3+1=8</think>", 0.0),
    ("<think>7+8=15<answer>85</answer>", 0.0),
    ("7+8=15</think><answer>85</answer>", 0.0),
    ("<answer>85</answer>!", 0.0),
    ("<answer>85</answer>\n", 0.0),
    (" <answer>85</answer>", 0.0),
    ("<answer> 85 </answer>", 0.0),
    ("<answer>+85</answer>", 0.0),
    ("<answer>85.0</answer>", 0.0),
    ("<answer>\uff18\uff15</answer>", 0.0),
    ("<answer>75</answer><answer>85</answer>", 0.0),
    ("<answer>85</answer><answer>85</answer>", 0.0),
    ("<think><answer>85</answer></think><answer>85</answer>", 0.0),
    ("<think>a</think><think>b</think><answer>85</answer>", 0.0),
    ("<answer>85</answer><think>7+8=15</think>", 0.0),
    ("<answer>85</answer><|im_end|>", 0.0),
    ("<answer>" + "9" * 100_000 + "</answer>", 0.0),
]


@pytest.mark.parametrize(("text", "reward"), REWARD_TABLE, ids=[repr(text[:60]) for text, _ in REWARD_TABLE])
def test_reward_of_literal_completions(text, reward):
    assert addition_reward(["47+38=?"], [text], ["85"]) == [reward]


def test_reward_reads_messages_and_takes_a_trainers_columns():
    completions = [[{"role": "assistant", "content": "<answer>85</answer>"}], [{"content": "<answer>75</answer>"}]]
    rewards = addition_reward(prompts=["p", "p"], completions=completions, answer=["85", 85], completion_ids=[[1], [2]])
    assert rewards == [1.0, 0.0]
    assert all(type(reward) is float for reward in rewards)


def test_reward_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="2 completions and 1 answers"):
        addition_reward(["p", "p"], ["85", "85"], ["85"])
    with pytest.raises(TypeError, match="answer must be a list"):
        addition_reward(["p", "p"], ["85", "85"], "85")
    with pytest.raises(TypeError, match="row 0 of 1"):
        addition_reward(["p"], [85], ["85"])
    with pytest.raises(ValueError, match="row 1 of 2: the answer must be a whole number, got None"):
        addition_reward(["p", "p"], ["85", "85"], ["85", None])


def test_every_careful_completion_earns_and_writes_true_sums():
    texts = [careful_completion(a, b) for a, b in ALL_PAIRS]
    assert addition_reward(texts, texts, [a + b for a, b in ALL_PAIRS]) == [1.0] * 10_000
    for (a, b), text in zip(ALL_PAIRS, texts, strict=True):
        units, tens = text.removeprefix("<think>").partition("</think>")[0].split(",")
        for line in (units, tens):
            left, right = line.split("=")
            assert sum(map(int, left.split("+"))) == int(right)
        assert units.startswith(f"{a % 10}+{b % 10}=") and tens.startswith(f"{a // 10}+{b // 10}")
        assert tens.count("+") == 1 + (a % 10 + b % 10 > 9)  # the carry is written where there is one


def test_adding_without_carries_is_right_exactly_when_there_is_none():
    for a, b in ALL_PAIRS:
        carries = a % 10 + b % 10 > 9 or a // 10 + b // 10 > 9
        assert (add_without_carries(a, b) == a + b) == (not carries)
    right = sum(add_without_carries(a, b) == a + b for a, b in ALL_PAIRS)
    assert right == 55 * 55  # 55 of the 100 pairs of digits have no carry


def habit(text):
    return "careful" if has_reasoning(text) else "hasty" if text.startswith("<answer>") else "bare"


def test_sloppy_habits_have_their_shares():
    rng, n = random.Random(1), 20_000
    counts = Counter(habit(sloppy_completion(47, 38, rng)) for _ in range(n))
    for name, share in {"careful": 0.25, "hasty": 0.45, "bare": 0.30}.items():
        assert abs(counts[name] / n - share) < 4 * math.sqrt(share * (1 - share) / n), (name, counts)


def test_sloppy_texts_are_what_their_habit_says():
    rng = random.Random(2)
    for a, b in ALL_PAIRS:
        text = sloppy_completion(a, b, rng)
        hasty = f"{(a // 10 + b // 10) % 10}{(a + b) % 10}"
        assert (
            text
            == {
                "careful": careful_completion(a, b),
                "hasty": f"<answer>{hasty}</answer>",
                "bare": hasty,
            }[habit(text)]
        )


def test_sloppy_text_follows_its_generator():
    texts = [[sloppy_completion(a, b, random.Random(3)) for a, b in ALL_PAIRS[:50]] for _ in range(2)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("<think>7+8=15</think><answer>85</answer>", True),
        ("<think>7+8=15</think>", True),
        ("<think></think><answer>85</answer>", False),
        ("<think>7+8=15", False),
        ("<answer>85</answer><think>7</think>", False),
        ("85", False),
        ("", False),
    ],
)
def test_has_reasoning(text, reasons):
    assert has_reasoning(text) is reasons


def test_prompts_are_equally_long():
    assert {len(addition_prompt(a, b)[0]["content"]) for a, b in ALL_PAIRS} == {7}


# --- GSM8K ---

ROWS = [
    {"question": "Six boxes hold 180 pens each. How many pens?", "answer": "6*180=<<6*180=1080>>1080\n#### 1,080"},
    {"question": "It was 4 degrees and fell by 7. What is it now?", "answer": "4-7=<<4-7=-3>>-3\n#### -3"},
    {"question": "Half of 10?", "answer": "10/2=<<10/2=5>>5\n#### 5"},
]


@pytest.fixture
def gsm8k_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n", encoding="utf-8")
    return path


def test_gsm8k_rows_from_a_file(gsm8k_file):
    samples = load_gsm8k("train", path=gsm8k_file)
    assert [sample["answer"] for sample in samples] == ["1080", "-3", "5"]
    assert [message["role"] for message in samples[0]["prompt"]] == ["system", "user"]
    assert samples[0]["prompt"][1]["content"] == ROWS[0]["question"]
    assert len(load_gsm8k("train", path=gsm8k_file, limit=2)) == 2


def test_gsm8k_system_prompt_shows_a_form_that_earns_the_whole_format_reward():
    from grpo_lib.rewards import format_reward

    assert format_reward(["q"], [SYSTEM_PROMPT], ["1"]) == [pytest.approx(0.8)]


def test_gsm8k_rows_without_a_gold_number_are_refused_and_counted(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [*ROWS, {"question": "q", "answer": "no mark, 5"}, {"question": "q", "answer": "#### many"}]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(ValueError, match=r"2 of 5 rows have none \(row 4 first\)"):
        load_gsm8k("train", path=path)
    assert len(load_gsm8k("train", path=path, limit=3)) == 3


def test_gsm8k_refuses_files_and_limits_that_do_not_fit(tmp_path, gsm8k_file):
    for limit in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="limit must be a whole number of at least 1"):
            load_gsm8k("train", path=gsm8k_file, limit=limit)
    empty, other = tmp_path / "empty.jsonl", tmp_path / "other.jsonl"
    empty.write_text("\n")
    with pytest.raises(ValueError, match="no rows in .*empty.jsonl"):
        load_gsm8k("train", path=empty)
    other.write_text('{"question": "q", "answer": "#### 1"}\n{"question": "q"}\n')
    with pytest.raises(ValueError, match="'question' and 'answer'; line 2"):
        load_gsm8k("train", path=other)
    other.write_text("not json\n")
    with pytest.raises(ValueError, match="line 1"):
        load_gsm8k("train", path=other)


def test_gsm8k_without_datasets_says_which_ways_work(monkeypatch):
    real_import = builtins.__import__

    def no_datasets(name, *args, **kwargs):
        if name == "datasets":
            raise ImportError("No module named 'datasets'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_datasets)
    with pytest.raises(ImportError, match="pip install datasets.*path=.*load_addition"):
        load_gsm8k("train")


def fake_datasets(monkeypatch, load_dataset):
    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_gsm8k_offline_says_which_ways_work(monkeypatch):
    def offline(*args, **kwargs):
        raise ConnectionError("Couldn't reach the Hub")

    fake_datasets(monkeypatch, offline)
    with pytest.raises(ConnectionError, match="Couldn't reach the Hub.*path=.*load_addition"):
        load_gsm8k("test")


def test_gsm8k_asks_the_hub_for_the_main_set_and_splits(monkeypatch):
    asked = []

    def load_dataset(*args, **kwargs):
        asked.append((args, kwargs))
        return ROWS

    fake_datasets(monkeypatch, load_dataset)
    assert [sample["answer"] for sample in load_gsm8k("test", limit=1)] == ["1080"]
    assert asked == [(("openai/gsm8k", "main"), {"split": "test"})]


def test_gsm8k_prompts_go_through_the_chat_template_with_the_four_tags_and_no_answer(gsm8k_file):
    from grpo_lib.generation import encode_prompts
    from grpo_lib.models import build_tiny_tokenizer

    tokenizer = build_tiny_tokenizer()
    sample = load_gsm8k("train", path=gsm8k_file)[0]
    text = tokenizer.apply_chat_template(sample["prompt"], add_generation_prompt=True, tokenize=False)
    assert text == (
        f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n{ROWS[0]['question']}<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert all(tag in text for tag in ("<reasoning>", "</reasoning>", "<answer>", "</answer>"))
    assert encode_prompts(tokenizer, [sample["prompt"]]) == [tokenizer(text, add_special_tokens=False)["input_ids"]]
