"""The students' copy: no solution is left in it, what it links to is there, and its notebooks run."""

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest

import links
import student_copy

FOLDER = Path(__file__).parent.parent / "notebooks"
PYTHON = re.compile(r"```python\n(.*?)```", re.S)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The copy with its outputs."""
    folder = tmp_path_factory.mktemp("class") / "copy"
    student_copy.write_copy(folder)
    return folder


def solutions(source=FOLDER):
    """The python of everything that the copy must not hold."""
    found = []
    for path in sorted(source.glob("[0-9][0-9]_*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for match in student_copy.FOLDED.finditer(cell.source if cell.cell_type == "markdown" else ""):
                if not student_copy.KEPT.match(match["summary"]):
                    found += [block.strip() for block in PYTHON.findall(match[0])]
    return found


def text_of(path):
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)


def left_over(folder):
    """Solutions, or their folds, in the files of a copy."""
    bad = []
    for path in sorted([*folder.glob("*.ipynb"), *folder.glob("*.md")]):
        text = text_of(path)
        bad += [(path.name, s) for s in re.findall(r"<summary>(.*?)</summary>", text) if not student_copy.KEPT.match(s)]
        bad += [(path.name, code) for code in solutions() if code in text]
    return bad


def test_no_solution_is_left(copied):
    assert len(solutions()) >= 40 and left_over(copied) == []


def test_a_solution_that_is_left_is_found(copied, tmp_path):
    shutil.copytree(copied, tmp_path / "copy")
    (tmp_path / "copy" / "page.md").write_text(f"<details><summary>Solution</summary>\n\n{solutions()[3]}\n</details>")
    assert left_over(tmp_path / "copy") == [("page.md", "Solution"), ("page.md", solutions()[3])]


def test_exercises_quizzes_and_outputs_stay(copied):
    for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb")):
        before, after = (nbformat.read(p, as_version=4).cells for p in (path, copied / path.name))
        code = [[(c.source, c.outputs) for c in cells if c.cell_type == "code"] for cells in (before, after)]
        assert code[0] == code[1]
        text = [text_of(path), text_of(copied / path.name)]
        for pattern in (
            r"^\*\*Exercise .*$",
            r"<summary>[a-d]\) .*</summary>",
            r"\*\*(?:Right|No)\.\*\* .*",
            r"^## .*$",
        ):
            old, new = (re.findall(pattern, t, re.M) for t in text)
            assert old == new


def test_links_resolve_within_the_copy_or_lead_to_the_book(copied):
    found = {path: text_of(path) for path in [*copied.glob("*.ipynb"), *copied.glob("*.md")]}
    assert links.broken(found) == []
    assert not [path.name for path, text in found.items() if "colab-badge" in text]
    assert all("git+https://github.com/" in text for path, text in found.items() if path.suffix == ".ipynb")
    assert not list(copied.glob("instructor*"))


def test_two_copies_are_the_same_and_no_folder_is_overwritten(copied, tmp_path):
    student_copy.write_copy(tmp_path / "again")
    files = sorted(path.relative_to(copied) for path in copied.rglob("*") if path.is_file())
    assert all((copied / f).read_bytes() == (tmp_path / "again" / f).read_bytes() for f in files)
    with pytest.raises(FileExistsError, match="is there already: name a new folder"):
        student_copy.write_copy(copied)
    with pytest.raises(SystemExit):
        student_copy.main([str(copied)])
    with pytest.raises(ValueError, match="an address is OWNER/NAME, got 'class'"):
        student_copy.write_copy(tmp_path / "third", address="class")
    assert not (tmp_path / "third").exists()


def test_a_copy_with_an_address_of_its_own_and_no_outputs(tmp_path):
    assert student_copy.main([str(tmp_path / "copy"), "--address", "ada/class-1", "--clear-outputs"]) is None
    for path in sorted((tmp_path / "copy").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        badge = f"(https://colab.research.google.com/github/ada/class-1/blob/main/{path.name})"
        assert badge in cells[0].source
        assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")


def test_a_notebook_of_the_copy_runs(copied):
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(copied / "00_start_here.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=180, kernel_name="python3").execute()
    said = json.dumps([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    assert said.count("not attempted yet") >= 3
