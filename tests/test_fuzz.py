"""A share of what `python tests/fuzz.py` runs, the readings by hand on known answers, planted faults."""

from fractions import Fraction

import fuzz
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grpo_lib import answers, masks, prompts, reward_checks, rewards

INPUTS = 400


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_no_input_finds_a_fault(kind):
    assert fuzz.run(kind, INPUTS, seed="suite") == []


NUMBERS = {
    "1,234.50": "1234.5",
    "-1/2": "-1/2",
    "5 %": "5",
    "5  %": "5",
    "1e3": "1000",
    "7.": "7",
    ".5": "1/2",
    "+3": "3",
    "2e-2": "1/50",
}
NOT_NUMBERS = "2/4 1/0 1.5/2 1,23 1.234,56 7.. 7%% - . , % 1/2/3 e3 1e1234 --3 1e+".split() + [
    "",
    "7 8",
    "7 . .",
    "- 3",
    "5 7 %",
]


def test_the_readings_by_hand_know_the_table():
    for text, value in NUMBERS.items():
        assert fuzz.number_by_hand(text) == answers.parse_number(text) == Fraction(value), text
    for text in NOT_NUMBERS:
        assert fuzz.number_by_hand(text) is answers.parse_number(text) is None, text
    assert fuzz.answer_by_hand("<answer>1<answer> 2 </answer> 3</answer>") == "2"
    assert fuzz.tags_by_hand("".join(rewards.TAGS)) == 4 and fuzz.tags_by_hand("</answer><answer>") == 1
    assert fuzz.mask_by_hand([[5, 2, 2], [5, 5, 5]], {2}) == ([[1, 1, 0], [1, 1, 1]], [False, True])


def first_block(text):
    return text.partition("<answer>")[2].partition("</answer>")[0].strip() or None


def keeps_no_minus(text):
    value = answers_parse(text)
    return None if value is None else abs(value)


def excludes_the_end(ids, ends):
    mask = masks_create(ids, ends)
    return mask * (mask.cumsum(1) < mask.sum(1, keepdim=True))


def spreads_one(values, count, name):
    return [float(values[0])] * count if values else []


answers_parse, masks_create = answers.parse_number, masks.create_completion_mask
PLANTED = [
    ("tags", answers, "extract_answer", first_block),
    ("tags", rewards, "_format", lambda text: sum(tag in text for tag in rewards.TAGS) / 5),
    ("any_text", answers, "parse_number", lambda text: Fraction(text) if text.isdigit() else None),
    ("number_text", answers, "parse_number", keeps_no_minus),
    ("formatted_number", answers, "parse_number", lambda text: answers_parse(text.replace(",", ".", 1))),
    ("gsm8k_text", answers, "extract_gsm8k_answer", lambda text: text.split("####")[-1].strip()),
    ("mask", masks, "create_completion_mask", excludes_the_end),
    ("mask", masks, "truncated_completions", lambda ids, ends: (ids != ids[:, :1]).all(dim=1)),
    ("positions", masks, "position_ids_from_mask", lambda mask: torch.arange(8).expand(len(mask), 8)),
    ("reward_results", reward_checks, "check_rewards", spreads_one),
    ("data_sets", prompts, "sample_columns", lambda data: {"prompt": [], "answer": []}),
]


@pytest.mark.parametrize(
    ("kind", "module", "name", "wrong"), PLANTED, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_a_planted_fault_is_found(kind, module, name, wrong, monkeypatch):
    monkeypatch.setattr(module, name, wrong)
    assert fuzz.run(kind, INPUTS, seed="suite")


def test_every_kind_has_a_planted_fault():
    assert {kind for kind, *_ in PLANTED} == set(fuzz.KINDS)


@given(
    rows=st.lists(st.lists(st.integers(0, 5), min_size=6, max_size=6), min_size=1, max_size=4),
    ends=st.sets(st.integers(0, 7)),
)
@settings(max_examples=200, deadline=None)
def test_masks_as_by_hand(rows, ends):
    want, cut = fuzz.mask_by_hand(rows, ends)
    assert masks.create_completion_mask(torch.tensor(rows), ends).tolist() == want
    assert masks.truncated_completions(torch.tensor(rows), ends).tolist() == cut


@given(text=st.text(alphabet="0123456789,.-+/% ", max_size=12))
@example(text="7 . .")
@example(text="1,000/7")
@settings(max_examples=400, deadline=None)
def test_numbers_as_by_hand(text):
    assert answers.parse_number(text) == fuzz.number_by_hand(text)


@given(text=st.text(alphabet=st.characters(), max_size=60), tag=st.sampled_from(rewards.TAGS), place=st.integers(0, 60))
@settings(max_examples=300, deadline=None)
def test_any_characters_around_a_tag_are_read_as_by_hand(text, tag, place):
    text = text[:place] + tag + text[place:] + "<answer>7</answer>"
    assert answers.extract_answer(text) == fuzz.answer_by_hand(text)
    assert rewards.format_reward(["?"], [text], ["7"]) == [fuzz.tags_by_hand(text) / 5]


def test_the_command_says_what_it_found(monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["fuzz.py", "--inputs", "40", "--kind", "mask", "--kind", "tags", "--growth", "500"]
    )
    with pytest.raises(SystemExit) as done:
        fuzz.main()
    out = capsys.readouterr().out
    assert done.value.code == 0 and out.count(" 0 faults") == 2 and "right to left" in out
    monkeypatch.setattr(answers, "extract_answer", first_block)
    with pytest.raises(SystemExit) as done:
        fuzz.main()
    assert done.value.code == 1 and "extract_answer is" in capsys.readouterr().out
