"""Each number of the instructor guide's demonstrations is stored in its notebook, or computed here by a plain call."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from grpo_lib import collect_rollout, load_addition, load_tiny_policy, record_rollout
from grpo_lib.advantages import group_advantages
from grpo_lib.bandit import zero_variance_probability
from grpo_lib.comparison import mcnemar_test
from grpo_lib.explore import explore_bandit, explore_bandit_step
from grpo_lib.inspect_view import explore_rollout
from grpo_lib.intervals import wilson_interval
from grpo_lib.museum_runs import load_museum_runs
from grpo_lib.plot_style import alt_text
from grpo_lib.sample_size import paired_problems, unpaired_problems
from grpo_lib.softmax_policy import bandit_advantages
from grpo_lib.stored_runs import load_stored_runs
from grpo_lib.tasks import addition_reward

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "notebooks" / "instructor_guide.md").read_text(encoding="utf-8")
BOOKS = {path.name[:2]: path for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
SECTIONS = dict(re.findall(r"^## (\d\d) · .*?\n(.*?)(?=^## |\Z)", GUIDE, re.S | re.M))
NUMBER = re.compile(r"(?<![\w.])(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?(?!\w|\.\d)")


def numbers(text):
    """The numbers of a text, without sign and thousands' commas, .5 as 0.5; what stands in back quotes is code.

    >>> numbers("−.5 of 1,565 (`k1`), 10.8 %")
    ['0.5', '1565', '10.8']
    """
    found = [token.replace(",", "") for token in NUMBER.findall(re.sub(r"`[^`]*`", " ", text))]
    return ["0" + token if token.startswith(".") else token for token in found]


def claimed(text):
    """The numbers of a section's demonstrations, and those with decimals of its questions and misunderstandings."""
    demos, asked = text.partition("### What to ask")[::2]
    demos = re.sub(r"^\d+\. |[Ss]ections? [\d/]+( and \d+| to \d+)?", "", demos, flags=re.M)
    return numbers(demos) + [token for token in numbers(asked) if "." in token]


@cache
def stored(book):
    """The numbers in a notebook: its text and code, its outputs, the words and alt texts of its figures."""
    cells = json.loads(BOOKS[book].read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    texts += [text for cell in cells for output in cell.get("outputs", []) for text in words_of(output)]
    return {float(token) for text in texts for token in numbers(re.sub(r"[\[\]`]", " ", text))}


def words_of(output):
    data = output.get("data", {})
    texts = [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    layout = data.get("application/vnd.plotly.v1+json", {}).get("layout", {})
    extra = [layout.get("meta", {}).get("alt", ""), (layout.get("title") or {}).get("text") or ""]
    return [re.sub(r"<[^>]+>", " ", "".join(text)) for text in texts] + extra


# --- what no notebook stores


def run(first=3, **settings):
    """P(ant) at the start of a bandit's run and at its end; its KLs; what its title says about the resting point."""
    figure = explore_bandit(**settings)
    curves = {trace.name: [y for y in trace.y if y is not None] for trace in figure.data if trace.name}
    ant, step, reference = figure.data[0].y, curves["KL of one step"], curves["KL to reference"]
    rests = [float(p) for p in re.findall(r"P\(ant\) = ([\d.]+)$", figure.layout.title.text)]
    return [*ant[: first + 1], ant[-1], step[0], max(step), reference[-1], *rests]


def runs(**settings):
    """The same for each value of the one setting that is a list."""
    [(name, values)] = [(name, value) for name, value in settings.items() if isinstance(value, list)]
    return [number for value in values for number in run(**{**settings, name: value})]


def steps(*iterations):
    return [
        y
        for iteration in iterations
        for trace in explore_bandit_step(beta=1.0, iteration=iteration).data
        for y in trace.y
    ]


def inspected(recording=None, **settings):
    """The picked token's numbers and push, what changes in its group, the words of the figure."""
    view = explore_rollout(recording, completion=1, token=0, **settings)
    story = view.story.numbers
    told = [*story.values(), *(float(token) for token in numbers(view.changes + " " + alt_text(view.figure)))]
    return [value for value in told if not isinstance(value, bool)]


def rollout_of_notebook_10():
    model, tokenizer = load_tiny_policy()
    [problem] = [s for s in load_addition("train") if s["prompt"][0]["content"] == "47+38=?"]
    torch.manual_seed(4)
    sizes = dict(num_generations=8, max_completion_length=24)
    return record_rollout(model, tokenizer, collect_rollout(model, tokenizer, [problem], addition_reward, **sizes))


def short_and_long(loss_type):
    recording = rollout_of_notebook_10()
    views = [explore_rollout(recording, beta=0.0, loss_type=loss_type, completion=i, token=0) for i in (5, 1)]
    return [view.story.numbers[key] for view in views for key in ("weight", "gradient")]


def rewards_at_ten():
    """Mean reward of the first ten steps, seed by seed, at the usual learning rate and at ten times that."""
    seeds = [run["steps"][:10] for name in ("base", "lr = 1e-3") for run in load_stored_runs(name)]
    return [np.mean([step["reward_mean"] for step in first]) for first in seeds]


def kl_of(exhibit):
    return np.mean([seed["steps"][-1]["kl"] for seed in load_museum_runs(exhibit)])


free = dict(beta=0.0, learning_rate=0.05)
undivided = dict(normalise=False, num_iterations=100)
COMPUTED = {
    "00": lambda: [*runs(beta=[0.0, 2.0, 5.0]), *run(beta=1.0, learning_rate=0.02)],
    "01": lambda: [
        *steps(1, 2, 30),
        *runs(beta=1.0, learning_rate=[0.1, 1.0]),
        *run(beta=0.0, num_samples=2),
        *group_advantages(torch.tensor([1.0, 0.0, 0.0, 0.0]), 4).tolist(),
        *bandit_advantages([1.0, 0.0, 0.0, 0.0]),
    ],
    "02": lambda: [
        *runs(beta=[0.4, 0.6, 0.8, 0.9], num_iterations=200),
        *runs(beta=[0.0, 0.4, 0.6, 0.8, 0.9, 1.0], normalise=False, num_iterations=200),
        *run(beta=1.0, baseline="loo", learning_rate=0.25, **undivided),
        *runs(beta=0.3, num_iterations=100, learning_rate=0.02, kl_direction=["reverse", "forward"]),
        *[zero_variance_probability(p, 4) for p in (0.182, 0.622, 0.953)],
        0.953,
        0.006,
    ],
    "04": lambda: [
        *runs(**free, updates_per_rollout=[1, 4, 8]),
        *runs(**free, clip=None, updates_per_rollout=[1, 4, 8]),
    ],
    "06": lambda: [1001],
    "09": lambda: [
        *inspected(),
        *inspected(loss_type="cispo"),
        *inspected(importance_sampling_level="sequence"),
        *inspected(epsilon_high=0.28),
    ],
    "10": lambda: [*short_and_long("dapo"), *short_and_long("dr_grpo"), *rewards_at_ten()],
    "11": lambda: [
        *[end for pair in ((3, 10), (30, 100), (300, 1000)) for end in wilson_interval(*pair)],
        *[mcnemar_test(*pair) for pair in ((5, 0), (6, 0), (8, 2), (10, 5), (20, 10))],
        *[n for p, q in ((0.5, 0.6), (0.8, 0.85), (0.9, 0.95)) for n in (p, q, unpaired_problems(p, q))],
        *[0.52, paired_problems(0.05, 0), paired_problems(0.25, 0.20)],
        1 - (1 - 1 / 16) ** 8,
    ],
    "12": lambda: [3e-4],
    "13": lambda: [kl_of("sign of the KL"), kl_of("KL under no_grad"), 0.7],
}
ROUNDED = {"10": [17.697, 21.775, 6.459]}  # stored with more decimals than the guide has
BY_HAND = {"12": ["3.2"]}  # an estimate of half a minute, longer than a test may take


def unheld(tokens, known, computed):
    """Those of the tokens that are neither known nor a computed number at their decimals."""
    missing = [token for token in tokens if float(token) not in known]
    decimals = {token: 0 if "e" in token else len(token.partition(".")[2]) for token in missing}
    printed = {f"{abs(float(value)):.{digits}f}" for digits in set(decimals.values()) for value in computed}
    return [token for token in missing if token not in printed and float(token) not in computed]


@pytest.mark.parametrize("book", sorted(SECTIONS))
def test_each_number_of_the_guide_is_in_its_notebook_or_computed(book):
    tokens = [token for token in claimed(SECTIONS[book]) if token not in BY_HAND.get(book, [])]
    left = unheld(tokens, stored(book), [])
    rounded = ROUNDED.get(book, [])
    assert set(rounded) <= stored(book)
    assert not left or unheld(left, set(), [*COMPUTED.get(book, list)(), *rounded]) == []


def test_a_wrong_number_is_found():
    assert unheld(["0.953", "0.952", "0.2580", "12"], {0.953}, [0.25801]) == ["0.952", "12"]
    assert claimed("1. Section 3: −.5, `0.7`.\n### What to ask\n- 12 of .25") == ["0.5", "0.25"]
