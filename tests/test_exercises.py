"""Exercises, quizzes, objectives and recaps have the one form that readers, checks and the students' copy rely on."""

import json
import re
from pathlib import Path

import pytest

from grpo_lib import checks

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"))
PARTS = {"04": "I", "07": "II", "09": "III", "12": "IV", "14": "V"}  # the last notebook of each part
LEAST = {"00": 1}  # exercises; 3 elsewhere
HEAD = re.compile(r"^\*\*Exercise (\d+)\*\* · (\d+) minutes? · (easy|medium|hard)\. \S", re.M)
SOLUTION = "<details><summary>Solution</summary>\n"
CHOICE = re.compile(
    r"<details><summary>([a-d])\) ((?:(?!</summary>).)+)</summary>\n\n\*\*(Right|No)\.\*\* (.+?)\n\n</details>", re.S
)
QUESTION = re.compile(r"\*\*(\d)\.\*\* (.+?)\n\n(?=<details>)", re.S)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read_cells(path):
    """(kind, source) of each cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]


def exercise_faults(cells):
    """What is wrong with the exercises of a notebook's cells, in words."""
    faults, numbers = [], []
    for i, (kind, source) in enumerate(cells):
        if kind != "markdown" or not re.search(r"\*\*Exercise \d", source):
            continue
        heads = HEAD.findall(source)
        if len(heads) != 1 or source.count("**Exercise ") != 1:
            faults.append(f"cell {i}: one `**Exercise N** · M minutes · easy|medium|hard. Text` a cell")
            continue
        name = f"exercise {heads[0][0]}"
        numbers.append(int(heads[0][0]))
        after = [*cells[i + 1 :], ("markdown", "")]  # a cell of data may come first: the stub is the last of the code
        end = next(j for j, (kind, _) in enumerate(after) if kind == "markdown")
        stub, solution = after[end - 1][1] if end else "", after[end][1]
        check = re.search(r"^checks\.(check_\w+)\(", stub, re.M)
        if not re.search(r"^\s*(\w+ = )?\.\.\.", stub, re.M):
            faults.append(f"{name}: no stub with ... in the code after it")
        if not check or check[1] not in checks.__all__:
            faults.append(f"{name}: the stub's cell calls no check of `checks`")
        if not solution.startswith(SOLUTION) or "```python" not in solution:
            faults.append(f"{name}: no solution in the cell after the stub")
        elif solution.count("<details>") != 1 or not solution.rstrip().endswith("</details>"):
            faults.append(f"{name}: the solution's cell is more than the folded solution")
    if numbers != list(range(1, len(numbers) + 1)):
        faults.append(f"exercises are numbered {numbers}")
    return faults


def count_exercises(cells):
    return sum(len(HEAD.findall(source)) for kind, source in cells if kind == "markdown")


@each_notebook
def test_exercises_have_their_form(path):
    cells = read_cells(path)
    assert exercise_faults(cells) == []
    assert count_exercises(cells) >= LEAST.get(path.stem[:2], 3)


@each_notebook
def test_the_minutes_of_the_exercises_are_those_told_at_the_top(path):
    cells = read_cells(path)
    minutes = sum(int(head[1]) for kind, source in cells if kind == "markdown" for head in HEAD.findall(source))
    told = re.search(r"^Minutes: (\d+)(?: \((\d+) of them for the exercises[,)])?", cells[0][1], re.M)
    assert told and int(told[1]) > minutes
    assert told[2] is None or int(told[2]) == minutes


@each_notebook
def test_objectives_stand_at_the_top_and_a_recap_at_the_end(path):
    cells = read_cells(path)
    objectives = cells[0][1].partition("**After this notebook you can**")[2]
    assert len(re.findall(r"^- \w", objectives, re.M)) >= 3
    recaps = [
        i for i, (kind, source) in enumerate(cells) if kind == "markdown" and re.search("^## Recap$", source, re.M)
    ]
    assert len(recaps) == 1 and recaps[0] >= len(cells) - 2
    assert len(re.findall(r"^- ", cells[recaps[0]][1].partition("## Recap")[2], re.M)) >= 3


def quiz_faults(cells, part):
    """What is wrong with the quiz of a part, in words."""
    sources = [source for kind, source in cells if kind == "markdown"]
    starts = [i for i, source in enumerate(sources) if re.search(rf"^## Quiz: Part {part}$", source, re.M)]
    if len(starts) != 1:
        return [f"there are {len(starts)} cells with `## Quiz: Part {part}`"]
    start = starts[0]
    faults, right = [], []
    for number, source in enumerate(sources[start + 1 : start + 6], 1):
        question, choices = QUESTION.match(source), CHOICE.findall(source)
        if not question or int(question[1]) != number:
            faults.append(f"question {number} does not begin with `**{number}.** …`")
            continue
        left_over = CHOICE.sub("", source[question.end() :]).strip()
        if left_over:
            faults.append(f"question {number}: not in the form of a choice: {left_over[:60]!r}")
        if [letter for letter, *_ in choices] != list("abcd")[: len(choices)] or not 3 <= len(choices) <= 4:
            faults.append(f"question {number}: 3 or 4 choices from a) on")
        verdicts = [verdict for _, _, verdict, _ in choices]
        if verdicts.count("Right") != 1:
            faults.append(f"question {number}: {verdicts.count('Right')} choices are right")
        else:
            right.append(verdicts.index("Right"))
        faults += [f"question {number} {c[0]}): $ in a summary" for c in choices if "$" in c[1]]
        faults += [f"question {number} {c[0]}): an explanation under 40 characters" for c in choices if len(c[3]) < 40]
    if len(set(right)) < 3:
        faults.append(f"the right choices stand at {right}: less than three different places")
    after = sources[start + 6] if start + 6 < len(sources) else ""
    if QUESTION.match(after) or "## Recap" not in "".join(sources[start + 6 :]):
        faults.append("exactly five questions, then (not before) the recap")
    return faults


@each_notebook
def test_each_part_ends_in_a_quiz_of_five(path):
    part = PARTS.get(path.stem[:2])
    if part:
        assert quiz_faults(read_cells(path), part) == []
    else:
        assert not any("## Quiz" in source for kind, source in read_cells(path) if kind == "markdown")


# --- that these tests can fail

GOOD = [
    ("markdown", "## Exercises\n\n**Exercise 1** · 5 minutes · easy. Do it."),
    ("code", "def mine(x):\n    ...\n\n\nchecks.check_kl_divergence(mine)"),
    ("markdown", f"{SOLUTION}\n```python\ndef mine(x):\n    return x\n```\n\n</details>"),
]


@pytest.mark.parametrize(
    "cell, old, new, said",
    [
        (0, "easy", "simple", "one `**Exercise"),
        (0, "Exercise 1", "Exercise 2", "numbered [2]"),
        (1, "    ...", "    return x", "no stub"),
        (1, "checks.check_kl_divergence", "print", "calls no check"),
        (1, "check_kl_divergence", "check_nothing", "calls no check"),
        (2, "Solution", "Answer", "no solution"),
        (2, "</details>", "</details>\n\nMore.", "more than the folded"),
    ],
)
def test_a_fault_of_an_exercise_is_found(cell, old, new, said):
    assert exercise_faults(GOOD) == [] and count_exercises(GOOD) == 1
    kind, source = GOOD[cell]
    [fault] = exercise_faults([*GOOD[:cell], (kind, source.replace(old, new)), *GOOD[cell + 1 :]])
    assert said in fault


def quiz(places):
    """Cells of a quiz whose right choices stand at these places."""
    cells = [("markdown", "## Quiz: Part I\n\nFive questions.")]
    for number, place in enumerate(places, 1):
        blocks = [f"**{number}.** What?"]
        for i, letter in enumerate("abc"):
            verdict = "Right" if i == place else "No"
            reason = f"**{verdict}.** {'A reason long enough to tell. ' * 2}".strip()
            blocks.append(f"<details><summary>{letter}) this</summary>\n\n{reason}\n\n</details>")
        cells.append(("markdown", "\n\n".join(blocks)))
    return [*cells, ("markdown", "## Recap\n\n- so")]


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("**Right.**", "**No.**", "0 choices are right"),
        ("**No.**", "**Right.**", "3 choices are right"),
        ("A reason long enough to tell. A reason", "So it is.", "under 40 characters"),
        ("c) this", "d) this", "from a) on"),
        ("a) this", "a) $x$", "$ in a summary"),
        ("**Right.**", "**Yes.**", "not in the form"),
    ],
)
def test_a_fault_of_a_quiz_is_found(old, new, said):
    good = quiz([0, 1, 2, 0, 1])
    assert quiz_faults(good, "I") == []
    assert "less than three different places" in quiz_faults(quiz([0, 1, 0, 1, 0]), "I")[0]
    assert "exactly five" in quiz_faults(quiz([0, 1, 2, 0, 1, 2]), "I")[0]
    assert "there are 0 cells" in quiz_faults(good, "II")[0]
    kind, source = good[1]
    faults = quiz_faults([good[0], (kind, source.replace(old, new)), *good[2:]], "I")
    assert any(said in fault for fault in faults), faults
