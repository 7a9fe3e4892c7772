"""What the repository says about itself is so: addresses, versions, the README's table and tree, stored notebooks."""

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import set_address

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
BADGE = "https://colab.research.google.com/github/{}/blob/main/notebooks/{}"

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read_cells(path, kind):
    """The cells of one kind, each with its source as one text."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells if cell["cell_type"] == kind]


# --- the address


def wrong_addresses(root):
    """{file name: addresses in it that are not pyproject.toml's}."""
    address = set_address.read_address(root)
    found = set_address.derived_addresses(root)
    return {name: addresses - {address} for name, addresses in found.items() if addresses != {address}}


def test_every_address_is_pyproject_s():
    assert wrong_addresses(ROOT) == {}, "run: python notebooks/set_address.py"


def test_set_address_changes_every_place_and_the_test_above_can_fail(tmp_path):
    (tmp_path / "notebooks").mkdir()
    for path in [ROOT / "pyproject.toml", *set_address.derived_files(ROOT)]:
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    old = set_address.read_address(tmp_path)
    before = {path.name: path.read_text() for path in set_address.derived_files(tmp_path)}

    assert set(set_address.set_address("ada.l/grpo.book-2", tmp_path)) == {"pyproject.toml", *before}
    assert set_address.read_address(tmp_path) == "ada.l/grpo.book-2" and wrong_addresses(tmp_path) == {}
    assert set_address.set_address("ada.l/grpo.book-2", tmp_path) == []

    citation = tmp_path / "CITATION.cff"
    citation.write_text(citation.read_text().replace("ada.l/", "someone/"))
    assert wrong_addresses(tmp_path) == {"CITATION.cff": {"someone/grpo.book-2"}}
    set_address.set_address(old, tmp_path)
    assert {path.name: path.read_text() for path in set_address.derived_files(tmp_path)} == before


@pytest.mark.parametrize("address", ["grpo-book", "https://github.com/ada/grpo-book", "ada/grpo-book.git", "a b/c", ""])
def test_a_malformed_address_is_refused(address, tmp_path):
    with pytest.raises(ValueError, match="an address is OWNER/NAME, got"):
        set_address.set_address(address, tmp_path)


# --- versions


def read_pins(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]
    return {requirement.name.lower().replace("_", "-"): requirement for requirement in requirements}


def below_bounds(pins, bounds):
    """Names of `bounds` whose exact version in `pins` is too old; a name without a pin is not looked at."""
    pinned = {name: next(iter(pin.specifier)).version for name, pin in pins.items() if pin.specifier}
    return [bound.name for bound in bounds if bound.name in pinned and pinned[bound.name] not in bound.specifier]


def read_bounds(extra=None):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [Requirement(text) for text in texts]


def test_the_tested_set_is_exact_complete_and_ends_in_this_repository():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "-e ."
    pins = read_pins("requirements.txt")
    assert all([part.operator for part in pin.specifier] == ["=="] for pin in pins.values())
    assert {bound.name for bound in read_bounds() + read_bounds("dev")} <= pins.keys()


@pytest.mark.parametrize("name", ["requirements.txt", ".ci/colab.txt"])
def test_the_versions_in_use_satisfy_the_lower_bounds(name):
    assert below_bounds(read_pins(name), read_bounds() + read_bounds("dev")) == []
    assert below_bounds(read_pins(name), [Requirement("numpy>=99")]) == ["numpy"]  # it can fail


def test_the_library_has_lower_bounds_only():
    assert {part.operator for bound in read_bounds() for part in bound.specifier} == {">="}


# --- the README


def table_rows():
    """{notebook name: its row of the README's table}."""
    return {match[1]: match[0] for match in re.finditer(r"^\| \d\d \| \[?(\w+).*$", README, re.M)}


def test_the_table_lists_every_notebook_and_marks_the_planned():
    rows = table_rows()
    there = {path.stem[3:]: path.name for path in NOTEBOOKS}
    assert there.keys() <= rows.keys() and len(rows) == 15
    address = set_address.read_address(ROOT)
    for name, row in rows.items():
        assert row.endswith("| planned |") is (name not in there), row
        if name in there:
            assert f"({BADGE.format(address, there[name])})" in row and f"[{name}](notebooks/{there[name]})" in row


def tree_modules():
    """(module, its line) for each line `  name.py  …` of the README's file tree, under grpo_lib/."""
    tree = README.partition("\ngrpo_lib/ ")[2].partition("\nnotebooks/ ")[0]
    return re.findall(r"^  (\w+)\.py +(.+)$", tree, re.M)


def test_the_tree_names_every_module_and_marks_the_planned():
    listed = dict(tree_modules())
    there = {path.stem for path in (ROOT / "grpo_lib").glob("*.py")} - {"__init__"}
    assert there <= listed.keys(), "a module without a line in the README's file tree"
    assert {name for name, line in listed.items() if "(planned)" not in line} == there


def test_modules_import_only_from_those_above_them_in_the_tree():
    order = [name for name, _ in tree_modules()]
    for path in sorted((ROOT / "grpo_lib").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "grpo_lib"):
                module = (node.module or "").removeprefix("grpo_lib").lstrip(".")
                for name in [module] if module else [alias.name for alias in node.names]:
                    assert name in order[: order.index(path.stem)], f"{path.stem} imports {name}, which is not above it"


@pytest.mark.parametrize("name", ["open", "test"])
def test_the_two_commands_are_marked(name):
    [command] = re.findall(rf"<!-- {name} command -->\n```bash\n(.+)\n```\n", README)
    assert command.startswith("python -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt && ")


def test_the_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    assert "LICENSE" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


# --- the notebooks as stored


def test_there_are_notebooks():
    assert NOTEBOOKS


def test_the_setup_cell_is_the_same_in_every_notebook():
    cells = {(cell["source"], str(cell["metadata"])) for path in NOTEBOOKS for cell in read_cells(path, "code")[:1]}
    assert len(cells) == 1
    [(source, metadata)] = cells
    assert f"git+https://github.com/{set_address.read_address(ROOT)}" in source and "--no-deps" in source
    assert "nbval-ignore-output" in metadata, "it shows versions, which differ from machine to machine"


@each_notebook
def test_a_notebook_opens_with_its_own_badge(path):
    first = read_cells(path, "markdown")[0]["source"]
    assert first.startswith("# ")
    assert f"({BADGE.format(set_address.read_address(ROOT), path.name)})" in first


@each_notebook
def test_a_notebook_is_stored_as_the_runner_leaves_it(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in read_cells(path, "code") if cell["source"].strip()]
    advice = (
        f"saved from JupyterLab? `git restore notebooks/{path.name}`, or store it: `python notebooks/run_notebooks.py`"
    )
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), advice
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    widgets = [output for output in outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})]
    assert not widgets, advice
    assert "widgets" not in notebook["metadata"]
    assert [cell["id"] for cell in notebook["cells"]] == [f"cell-{i:02d}" for i in range(len(notebook["cells"]))]


@each_notebook
def test_code_cells_fit_on_a_projector(path):
    for cell in read_cells(path, "code"):
        lines = cell["source"].splitlines()
        quote = "quote" in cell["metadata"].get("tags", [])
        assert quote or (len(lines) <= 20 and max(map(len, lines), default=0) <= 76), cell["source"]
