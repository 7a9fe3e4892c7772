"""Looks before and after: kept in a file, compared in pairs; the figures are counted again by hand here."""

from dataclasses import replace

import numpy as np
import pytest

from grpo_lib.devices import MachineMemory
from grpo_lib.finetune import plan_run
from grpo_lib.finetune_results import compare_looks, judge_while_training, look, look_once, look_rows
from grpo_lib.intervals import wilson_interval
from grpo_lib.models import load_tiny_policy
from grpo_lib.problem_results import ProblemResults
from grpo_lib.tasks import addition_reward, load_addition

PLAN = plan_run("tiny", machine=MachineMemory("cpu", "CPU", 16 * 10**9, 16 * 10**9))
PROBLEMS = load_addition("test")[:20]


@pytest.fixture(scope="module")
def found():
    return look(PLAN, *load_tiny_policy(), PROBLEMS)


def results(strict, lenient):
    right = {"strict": np.array(strict, dtype=bool), "lenient": np.array(lenient, dtype=bool)}
    return ProblemResults(right, [["text"] * right["strict"].shape[1] for _ in strict])


def test_a_look_judges_greedy_and_sampled_answers(found):
    assert list(found) == ["greedy", "sampled"]
    for seen in found.values():
        texts = [row[0] for row in seen.texts]
        expected = addition_reward([""] * 20, texts, [sample["answer"] for sample in PROBLEMS])
        assert seen.right["strict"][:, 0].tolist() == [reward == 1.0 for reward in expected]
    assert found["greedy"].texts != found["sampled"].texts


def test_a_look_is_taken_once_and_again_where_the_question_is_another(found, tmp_path):
    path = tmp_path / "new" / "before.json"
    model, tokenizer = load_tiny_policy()
    first = look_once(path, PLAN, model, tokenizer, PROBLEMS)
    second = look_once(path, PLAN, None, None, PROBLEMS)  # no model is asked
    for how in found:
        assert second[how].texts == first[how].texts == found[how].texts
        for judge in ("strict", "lenient"):
            assert np.array_equal(second[how].right[judge], found[how].right[judge])
            assert second[how].right[judge].dtype == bool
    assert [p.name for p in path.parent.iterdir()] == ["before.json"]
    others = look_once(path, PLAN, model, tokenizer, PROBLEMS[:5])
    assert len(others["greedy"].texts) == 5
    with pytest.raises(AttributeError):
        look_once(path, replace(PLAN, model="another"), None, None, PROBLEMS[:5])


def test_two_looks_are_compared_in_pairs():
    before = {"greedy": results([[0]] * 8 + [[1]] * 2, [[0]] * 10), "sampled": results([[0, 1]] * 10, [[0, 0]] * 10)}
    after = {"greedy": results([[1]] * 9 + [[0]], [[0]] * 10), "sampled": results([[1, 1]] * 10, [[0, 1]] * 10)}
    lines = compare_looks(before, after)
    assert [line.split()[:2] for line in lines] == [
        ["strict", "greedy"],
        ["strict", "sampled"],
        ["lenient", "greedy"],
        ["lenient", "sampled"],
    ]
    assert "0.200 -> 0.900  +0.700" in lines[0]
    assert lines[0].endswith("gained 8, lost 1, p = 0.04")  # 2 * (1 + 9) / 2**9 = 0.039
    assert "0.500 -> 1.000  +0.500 [+0.500, +0.500]" in lines[1] and "p =" not in lines[1]
    assert "0.000 -> 0.000  +0.000 [+0.000, +0.000]  gained 0, lost 0, p = 1" in lines[2]
    with pytest.raises(ValueError, match="of the same problems"):
        compare_looks(before, {how: results([[1]] * 5, [[1]] * 5) for how in after})


def test_rows_for_the_figure_hold_each_value_with_its_interval():
    one = {"greedy": results([[0]] * 7 + [[1]] * 3, [[1]] * 10), "sampled": results([[0, 1]] * 5, [[1, 1]] * 5)}
    rows = look_rows({"before": one, "after": one})
    assert list(rows) == ["strict", "lenient"]
    assert list(rows["strict"]) == ["greedy, before", "greedy, after", "sampled, before", "sampled, after"]
    assert rows["strict"]["greedy, before"] == (0.3, *wilson_interval(3, 10))
    assert rows["strict"]["sampled, after"][0] == 0.5
    assert all(low <= value <= high for judge in rows.values() for value, low, high in judge.values())


def test_while_training_the_same_answers_are_judged(found):
    evaluate = judge_while_training(PLAN, PROBLEMS)
    seen = evaluate(*load_tiny_policy())
    assert seen == {judge: found["sampled"].right[judge].mean() for judge in ("strict", "lenient")}


def test_a_damaged_look_is_named(tmp_path):
    file = tmp_path / "before.json"
    file.write_text('{"key": "12')
    with pytest.raises(ValueError, match="before.json is damaged .*delete it and look again"):
        look_once(file, PLAN, None, None, PROBLEMS)
