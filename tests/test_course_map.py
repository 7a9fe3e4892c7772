"""The map of the course: its numbers are GRPO's, its notebooks are the book's, and its arrows close into a loop."""

import re
from pathlib import Path

import pytest
import torch

from grpo_lib import course_map, plot_style
from grpo_lib.advantages import group_advantages

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def figure():
    return course_map.course_map()


@pytest.fixture(scope="module")
def texts(figure):
    return [note.text.replace("\u00a0", " ") for note in figure.layout.annotations]


def test_the_advantages_are_those_of_the_rewards_shown(texts):
    group = group_advantages(torch.tensor(course_map.REWARDS), len(course_map.REWARDS), eps=0.0)
    shown = [text.replace("−", "-") for text in texts if re.fullmatch(r"[+−]\d\.\d\d", text)]
    assert shown == [f"{advantage:+.2f}" for advantage in group.tolist()]


def test_only_the_right_answer_is_rewarded():
    a, b = map(int, re.findall(r"\d+", course_map.PROMPT))
    right = [int(answer) == a + b for answer in course_map.COMPLETIONS]
    assert list(course_map.REWARDS) == [float(good) for good in right]


def test_every_notebook_of_the_book_stands_in_it(texts):
    book = set(re.findall(r"^\| (\d\d) \|", README, re.M))
    shown = {number for text in texts for number in re.findall(r"<b>(\d\d)</b>", text)}
    assert shown == book - {"00"}


def test_each_arrow_leads_from_one_box_to_the_next():
    def box_at(x, y, margin=2):
        [found] = [
            i
            for i, (_, _, left, bottom, _) in enumerate(course_map.BOXES)
            if left - margin <= x <= left + course_map.WIDTH + margin
            and bottom - margin <= y <= bottom + course_map.HEIGHT + margin
        ]
        return found

    pairs = [(box_at(*arrow[:2]), box_at(*arrow[2:])) for arrow in course_map.ARROWS]
    assert pairs == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]


def test_it_is_small_described_and_clear_on_any_page(figure):
    assert len(figure.to_json()) < 20_000 and "bdata" not in figure.to_json()
    assert plot_style.alt_text(figure).endswith(".") and figure.layout.width is None
    assert figure.layout.template.layout.paper_bgcolor == plot_style.CLEAR
