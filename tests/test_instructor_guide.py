"""The instructor guide: plans whose minutes add up, a section a notebook, and numbers that the library still gives."""

import re
from pathlib import Path

import numpy as np
import pytest

from grpo_lib import BanditGRPO
from grpo_lib.comparison import mcnemar_test
from grpo_lib.hardware import GPUS, SHAPES
from grpo_lib.intervals import wilson_interval
from grpo_lib.museum_runs import run_difference
from grpo_lib.scale_runs import load_scale_runs
from grpo_lib.smollm_runs import load_smollm_runs
from grpo_lib.step_time import decode_floor
from grpo_lib.stored_runs import load_stored_runs

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "notebooks" / "instructor_guide.md").read_text(encoding="utf-8")
BOOKS = {path.name[:2]: path for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
SECTIONS = dict(re.findall(r"^## (\d\d) · .*?\n(.*?)(?=^## |\Z)", GUIDE, re.S | re.M))


def plan_minutes(text):
    """{what the plan's heading says: the sum of its rows}."""
    found = {}
    for heading, body in re.findall(r"^## ((?:A plan|Half|Two).*?)\n(.*?)(?=^## )", text, re.S | re.M):
        found[int(re.search(r"\d+", heading)[0])] = sum(map(int, re.findall(r"^\| (\d+) \|", body, re.M)))
    return found


def test_the_plans_minutes_add_up():
    assert plan_minutes(GUIDE) == {50: 50, 210: 210, 780: 780}
    assert plan_minutes("## A plan of 5 minutes\n| 4 | x |\n## 00\n") == {5: 4}


def test_every_notebook_has_its_section_with_the_minutes_of_its_page():
    assert SECTIONS.keys() == BOOKS.keys()
    for number, text in SECTIONS.items():
        [stated] = re.findall(r"Minutes: (\d+)", BOOKS[number].read_text(encoding="utf-8"))
        assert f"Minutes: {stated}" in text and f"({BOOKS[number].name})" in text
        for heading, least in (("What to show", 3), ("What to ask", 3), ("What is misunderstood", 2)):
            part = text.partition(f"### {heading}")[2].partition("\n### ")[0]
            assert len(re.findall(r"^(?:\d+\.|-) ", part, re.M)) >= least, (number, heading)


def ants(num_iterations=50, num_samples=20, **settings):
    """P(ant) at the end of a run."""
    bandit = BanditGRPO(**settings)
    bandit.train(num_iterations, num_samples)
    return bandit.prob_history[-1][0]


def after(rollouts, **settings):
    """P(ant) after some rollouts, as in notebook 04."""
    bandit = BanditGRPO(beta=0.0, learning_rate=0.05, updates_per_rollout=4, **settings)
    bandit.train(50, 20)
    return [bandit.prob_history[i][0] for i in rollouts]


def third(beta):
    """P(ant) after 200 iterations, with and without the division."""
    return [ants(200, beta=beta), ants(200, beta=beta, normalise=False)]


def last_rewards(name):
    return np.mean([[step["reward_mean"] for step in run["steps"][-20:]] for run in load_stored_runs(name)])


def share(run):
    return run["accuracy"]["correct"] / run["accuracy"]["total"]


def sampled(arm):
    return [np.mean(run["looks"][-1]["sampled"]) for run in load_smollm_runs(arm)]


def seven(engine):
    return np.mean([np.mean([s["reward_mean"] for s in run["steps"][80:100]]) for run in load_scale_runs(engine)])


def six(engine):
    return np.mean([share(run) for run in load_scale_runs(engine) + load_scale_runs(f"later {engine}")])


def on(name):
    return decode_floor(SHAPES["Qwen2.5-7B"], GPUS[name], 1000)


# notebook, how a number is printed, what gives the numbers that its section must hold
NUMBERS = [
    ("00", "{:.3f}", lambda: [ants(beta=0.0), ants(beta=2.0), ants(beta=5.0), ants(beta=1.0, learning_rate=0.02)]),
    ("01", "{:.3f}", lambda: [ants(beta=beta) for beta in (0.1, 0.5, 1.0, 2.0, 5.0)]),
    ("01", "{:.3f}", lambda: [ants(beta=1.0, learning_rate=0.1), ants(beta=0.0, num_samples=2)]),
    ("02", "{:.3f}", lambda: [*third(0.4), *third(0.8), *third(1.0)]),
    ("04", "{:.3f}", lambda: [*after((1, 2, 3)), *after((1, 2, 3), clip=None)]),
    ("10", "{:.2f}", lambda: [last_rewards(name) for name in ("base", "beta = 0.5", "beta = 2")]),
    ("10", "{:.3f}", lambda: [share(run) for name in ("lr = 3e-5", "lr = 1e-3") for run in load_stored_runs(name)]),
    ("11", "{:.3f}", lambda: [*wilson_interval(7, 30), *wilson_interval(27, 30), *wilson_interval(660, 1319)]),
    ("11", "{:.3f}", lambda: [mcnemar_test(*pair) for pair in ((8, 2), (10, 5), (20, 10))]),
    ("12", "{:.3f}", lambda: sampled("addition")),
    ("13", "{:.2f}", lambda: [abs(run_difference(number, "held_out")[0]) for number in (1, 2, 5)]),
    ("14", "{:.3f}", lambda: [seven("ours"), seven("trl")]),
    ("14", "{:.3f}", lambda: [six("ours"), six("trl")]),
    ("14", "{:.1f}", lambda: [on("T4"), on("A100 80 GB"), on("H100")]),
]


def missing(text, shape, values):
    """Those of the values that do not stand in the text, printed so; a leading 0 may be left out."""
    printed = [shape.format(float(value)) for value in values]
    forms = {p: rf"(?<![\d.]){re.escape(p)}(?!\d)|(?<![\d.]){re.escape(p.lstrip('0'))}(?!\d)" for p in printed}
    return [p for p, form in forms.items() if not re.search(form, text)]


@pytest.mark.parametrize(("number", "shape", "values"), NUMBERS)
def test_the_numbers_of_a_section_are_what_the_library_gives(number, shape, values):
    assert missing(SECTIONS[number], shape, values()) == []
    assert missing(SECTIONS[number], "{:.3f}", [7.7777]) == ["7.778"]
