"""The pages beside the notebooks name what exists: functions, settings, notebooks, and every source that is cited."""

import importlib
import re
import urllib.parse
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BOOK = ROOT / "notebooks"
CODE = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "grpo_lib").glob("*.py")}
NOTEBOOKS = {path.name: path.read_text(encoding="utf-8") for path in BOOK.glob("[0-9][0-9]_*.ipynb")}
CITED = re.compile(r"(?:arXiv:|arxiv\.org/abs/)(\d{4}\.\d{5})|doi(?:\.org/|:)(10\.\d{4,}/[\w.()/;:<>%-]+)")


def read(name):
    return (BOOK / name).read_text(encoding="utf-8")


def table_rows(text):
    """The cells of each row of the page's tables, headings left out."""
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows]


def unknown_names(text):
    """The names in back quotes that are no word of the library's code."""
    names = re.findall(r"`([^`]+)`", text)
    words = {word for name in names for word in re.findall(r"[A-Za-z_]\w+", name)} - {"len", "shape", "vocab", "detach"}
    code = "\n".join(CODE.values())
    return sorted(word for word in words if not re.search(rf"\b{word}\b", code))


def test_the_glossary_names_what_the_code_has():
    page = read("glossary.md")
    assert len(table_rows(page)) > 55 and unknown_names(page) == []
    assert unknown_names("`group_advantages` and `group_advantage`") == ["group_advantage"]


@pytest.mark.parametrize("page", ["glossary.md", "map.md"])
def test_each_term_occurs_in_the_notebook_it_points_to(page):
    """The code's name or the term itself stands in that notebook."""
    for cells in table_rows(read(page)):
        quoted = re.sub(r"grpo_lib\.\w+\.", "", " ".join(re.findall(r"`([^`]+)`", " ".join(cells))))
        names = set(re.findall(r"[A-Za-z_]\w{2,}", quoted)) - {"len", "shape"}
        for name in re.findall(r"\((\d\d_\w+\.ipynb)\)", cells[-1]):
            text = NOTEBOOKS[name]
            assert any(word in text for word in [*names, *cells[0].split(", ")]), (page, cells[0], name)


def missing_functions(text):
    """The `grpo_lib.module.name` of a page that do not exist."""
    found = re.findall(r"`grpo_lib\.(\w+)\.(\w+)`", text)
    assert found
    return [
        f"{module}.{name}" for module, name in found if not hasattr(importlib.import_module(f"grpo_lib.{module}"), name)
    ]


def test_the_map_links_every_box_to_a_notebook_and_a_function():
    page = read("map.md")
    assert missing_functions(page) == []
    assert missing_functions("`grpo_lib.masks.create_mask`") == ["masks.create_mask"]
    boxes = {cells[0][:1] for cells in table_rows(page) if re.match(r"\d ·", cells[0])}
    assert boxes == set("123456")
    assert set(re.findall(r"\((\d\d_\w+\.ipynb)\)", page)) == set(NOTEBOOKS) - {"00_start_here.ipynb"}


def sources(text):
    """arXiv numbers and DOIs in a text. A DOI may be percent-encoded; one with brackets counts up to the first."""
    found = {arxiv or urllib.parse.unquote(doi) for arxiv, doi in CITED.findall(text)}
    return {re.sub(r"[).,;:]+$", "", key.partition("(")[0]) for key in found}


def test_the_bibliography_holds_every_source_and_no_other():
    texts = [*NOTEBOOKS.values(), *CODE.values(), (ROOT / "README.md").read_text(encoding="utf-8")]
    texts += [path.read_text(encoding="utf-8") for path in BOOK.glob("*.md") if path.name != "bibliography.md"]
    texts += [
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("*.py") if path.name != Path(__file__).name
    ]
    listed = sources(read("bibliography.md"))
    cited = set().union(*map(sources, texts))
    assert sorted(cited - listed) == [] and sorted(listed - cited) == []
    assert len(listed) > 60


def test_the_bibliography_says_where():
    for cells in table_rows(read("bibliography.md"))[1:]:
        [key] = sources(cells[2].partition("](")[0]) or sources(cells[2])
        for place in cells[4].split(", "):
            if re.fullmatch(r"\d\d", place):
                [text] = [t for name, t in NOTEBOOKS.items() if name.startswith(place)]
                assert key in text, (cells[0], place)
            elif place == "library":
                assert any(key in text for text in CODE.values()), cells[0]
            else:
                assert place == "tests", cells[0]
