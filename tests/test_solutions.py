"""The solution under each exercise passes that exercise's own check, and the stub in the cell is not attempted yet."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from grpo_lib import checks

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"))
CHECK = re.compile(r"^checks\.(check_\w+)\((\w+)\)$", re.M)
SOLUTION = re.compile(r"<summary>Solution.*?</summary>\s*```python\n(.*?)```", re.S)


def find_exercises(path):
    """[(names imported before it, stub's cell, its solution)] of each cell whose stub a check of `checks` looks at."""
    imports, found, cells = [], [], nbformat.read(path, as_version=4).cells
    for i, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        source = re.sub(r"^( *)%.*", r"\1pass", cell.source, flags=re.M)
        imports += [ast.unparse(n) for n in ast.parse(source).body if isinstance(n, (ast.Import, ast.ImportFrom))]
        if CHECK.search(source):
            solution, *_ = SOLUTION.findall(cells[i + 1].source) or [None]
            found.append(("\n".join(imports), source, solution))
    return found


def verdicts(imports, stub, solution):
    """What the check says of the stub and of the solution."""
    check, name = CHECK.search(stub).groups()
    said = []
    for source in (stub, solution):
        namespace = {}
        exec(f"{imports}\n{source}", namespace)
        said.append(getattr(checks, check)(namespace[name]).status)
    return said


EXERCISES = [
    pytest.param(*parts, id=f"{path.stem}-{i}") for path in NOTEBOOKS for i, parts in enumerate(find_exercises(path), 1)
]


@pytest.mark.parametrize(("imports", "stub", "solution"), EXERCISES)
def test_each_solution_is_right_and_each_stub_open(imports, stub, solution):
    assert solution is not None, "no <details><summary>Solution</summary> with a python block in the next cell"
    assert verdicts(imports, stub, solution) == ["not attempted yet", "right"]


def test_there_are_exercises_and_a_wrong_solution_is_caught():
    assert EXERCISES
    imports, stub, solution = EXERCISES[0].values
    with pytest.raises(AssertionError):
        test_each_solution_is_right_and_each_stub_open(imports, stub, solution.replace("return ", "return 3 + "))
