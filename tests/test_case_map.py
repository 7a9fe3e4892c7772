"""The table of field cases is complete: each has its kind, a test that exists or a text that stands where it says.

data/field_cases.jsonl: faults that people reported, made small. case_map.json: id → the kind it stands for, the tests
of the whole kind, and for a decision or for what cannot run here the text that a user meets. Read, never run.
"""

import ast
import copy
import functools
import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
CASES = [json.loads(line) for line in (TESTS / "data" / "field_cases.jsonl").read_text(encoding="utf-8").splitlines()]
MAP = json.loads((TESTS / "case_map.json").read_text(encoding="utf-8"))
FIELDS = {"id", "source", "area", "symptom", "input", "expected", "runnable_on_cpu"}


@functools.cache
def functions(file):
    """The test functions of a file, name → the constants in its decorators (ids of its parameters)."""
    path = TESTS / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return {
        node.name: {part.value for decorator in node.decorator_list for part in ast.walk(decorator) if is_text(part)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@functools.cache
def read(path):
    """A text file, or a notebook's Markdown, blanks run together."""
    file = ROOT / path
    if not file.is_file():
        return ""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return " ".join(text.split())


def said(path, quote):
    return len(quote) > 10 and " ".join(quote.split()) in read(path)


def missing_test(name):
    file, _, test = name.partition("::")
    function, bracket, parameter = test.partition("[")
    known = functions(file).get(function)
    return known is None or (bracket != "" and parameter.removesuffix("]") not in known)


def faults(cases, table):
    """What is wrong with the table, in words."""
    found, ids = [], [case["id"] for case in cases]
    found += [f"{id} has no entry" for id in ids if id not in table]
    found += [f"{id} is no case" for id in table if id not in ids]
    if list(table) != sorted(table) or ids != sorted(set(ids)):
        found.append("not sorted, or twice")
    for case in cases:
        entry = table.get(case["id"], {"kind": "?", "tests": ["?"]})
        tests, texts = entry.get("tests", []), entry.get("texts", [])
        if not entry.get("kind") or not set(entry) <= {"kind", "tests", "texts"} or not (tests or texts):
            found.append(f"{case['id']} needs a kind, and tests or texts")
        found += [f"{case['id']}: there is no {name}" for name in tests if case["id"] in table and missing_test(name)]
        found += [f"{case['id']}: {path} does not say {quote!r}" for path, quote in texts if not said(path, quote)]
        decided = "CHOICE" in case["expected"] and case["id"] in table
        if decided and not (tests and texts):
            found.append(f"{case['id']} is a decision: it needs a test that pins it and a text that says it")
        if not case["runnable_on_cpu"] and not any(path.endswith(".md") for path, _ in texts):
            found.append(f"{case['id']} cannot run here: it needs a line on a page")
    return found


def test_every_case_has_its_tests_and_texts():
    assert faults(CASES, MAP) == []


def test_the_cases_are_whole_and_name_no_place():
    assert len(CASES) == 101 and all(set(case) == FIELDS and all(map(str, case.values())) for case in CASES)
    text = (TESTS / "data" / "field_cases.jsonl").read_text(encoding="utf-8")
    assert re.findall(r"https?:|/(?:home|root|work|tmp|usr)/|localhost|\b\d+\.\d+\.\d+\.\d+\b", text) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.pop("M09"), "M09 has no entry"),
        (lambda table: table.update(Z99=table["M09"]), "Z99 is no case"),
        (lambda table: table.update(M01=table.pop("M01")), "not sorted"),
        (lambda table: table["M09"].update(tests=[]), "M09 needs a kind, and tests or texts"),
        (lambda table: table["M09"].update(kind=""), "M09 needs a kind"),
        (lambda table: table["M09"].update(tests=["test_losses.py::test_nothing"]), "M09: there is no test_losses"),
        (lambda table: table["M09"].update(tests=["test_gone.py::test_x"]), "M09: there is no test_gone"),
        (lambda table: table["M03"].update(tests=["test_masks.py::test_mask_and_truncation[M99]"]), "no test_masks.py"),
        (lambda table: table["G12"].pop("texts"), "G12 is a decision"),
        (lambda table: table["G12"].update(texts=[["README.md", "prompts are cut"]]), "README.md does not say"),
        (lambda table: table["L13"].pop("texts"), "L13 cannot run here"),
        (lambda table: table["L13"].update(texts=[["nowhere.md", ""]]), "nowhere.md does not say"),
    ],
)
def test_a_gap_in_the_table_is_seen(change, words):
    table = copy.deepcopy(MAP)
    change(table)
    found = faults(CASES, table)
    assert any(words in fault for fault in found), found
