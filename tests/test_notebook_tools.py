"""The notebook runner, the comparison of outputs, and nbval's policy, each on small notebooks made here."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import nbformat
import numpy as np
import pytest

import figure_pictures
import run_notebooks
from notebook_comparison import comparable

ROOT = Path(__file__).parent.parent
CELLS = [
    "import sys, warnings\nprint(sys.executable)\nwarnings.warn('to stderr')",
    "import ipywidgets\nipywidgets.IntSlider()",
    "from tqdm.notebook import tqdm\nfor i in tqdm(range(3)):\n    pass\nprint('loss', 1 / 7)",
    "import plotly.graph_objects as go\ngo.Figure(go.Scatter(y=[1.0, 2.125]), dict(meta=dict(alt='A line upwards.')))",
]


def write_notebook(path, sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with 01_small.ipynb as the runner stored it, and its first and second text; its picture is not drawn."""
    folder = tmp_path_factory.mktemp("book")
    path = write_notebook(folder / "01_small.ipynb", CELLS)
    texts = []
    draw = mock.patch.object(figure_pictures, "draw", lambda figures: ["iVBORw0KGgo="] * len(figures))
    for _ in range(2):
        with draw:
            assert run_notebooks.main(["01"], folder) == 0
        texts.append(path.read_bytes())
    return folder, *texts


def test_two_runs_store_the_same_bytes(stored):
    _, first, second = stored
    assert first == second


def test_what_is_stored(stored):
    folder, text, _ = stored
    notebook = json.loads(text)
    outputs = [cell["outputs"] for cell in notebook["cells"]]
    assert outputs[0] == [{"name": "stdout", "output_type": "stream", "text": [f"{sys.executable}\n"]}]
    assert outputs[1][0]["data"] == {"text/plain": [run_notebooks.STAND_IN]}
    assert outputs[2] == [{"name": "stdout", "output_type": "stream", "text": ["loss 0.14285714285714285\n"]}]
    assert list(outputs[3][0]["data"]) == ["application/vnd.plotly.v1+json", "image/png", "text/plain"]
    assert outputs[3][0]["metadata"] == {"image/png": {"alt": "A line upwards.", "width": 760, "height": 450}}
    assert [cell["execution_count"] for cell in notebook["cells"]] == [1, 2, 3, 4]
    assert [cell["id"] for cell in notebook["cells"]] == ["cell-00", "cell-01", "cell-02", "cell-03"]
    assert notebook["metadata"] == run_notebooks.METADATA
    assert b"widget-view" not in text and b"model_id" not in text


def test_what_depends_on_the_machine_is_not_stored(tmp_path):
    path = write_notebook(tmp_path / "01_timed.ipynb", ["import time\nprint(time.time())", "print(1)"])
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].metadata["tags"] = ["nbval-ignore-output", "of-this-machine"]
    nbformat.write(notebook, path)
    texts = []
    for _ in range(2):
        assert run_notebooks.main([], tmp_path) == 0
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    outputs = [cell["outputs"][0]["text"] for cell in json.loads(texts[0])["cells"]]
    assert outputs == [[run_notebooks.SEEN_WHEN_RUN], ["1\n"]]


def test_check_writes_nothing_and_fails_on_an_error(tmp_path, capsys):
    good = write_notebook(tmp_path / "00_good.ipynb", ["1 + 1"])
    bad = write_notebook(tmp_path / "01_bad.ipynb", ["1 / 0"])
    before = good.read_bytes(), bad.read_bytes()
    assert run_notebooks.main(["--check", "00"], tmp_path) == 0
    assert run_notebooks.main(["--check"], tmp_path) == 1
    assert "01_bad.ipynb: a cell failed" in (said := capsys.readouterr().out) and "ZeroDivisionError" in said
    assert (good.read_bytes(), bad.read_bytes()) == before


def test_a_failing_notebook_is_left_as_it_was_and_an_unknown_name_is_refused(tmp_path, capsys):
    bad = write_notebook(tmp_path / "01_bad.ipynb", ["1 / 0"])
    before = bad.read_bytes()
    assert run_notebooks.main([], tmp_path) == 1 and bad.read_bytes() == before
    with pytest.raises(SystemExit):
        run_notebooks.main(["07"], tmp_path)
    assert "no notebook starts with '07'; there are: 01_bad" in capsys.readouterr().err


@pytest.mark.parametrize(
    "left, right, same",
    [
        ("loss 0.333333333333", "loss 0.333333333334", True),
        ("loss 0.3333", "loss 0.3334", True),  # one unit of the last digit: a rounding
        ("loss 0.3333", "loss 0.3335", False),
        ("loss 0.33", "loss 0.34", False),
        ("loss 0.33333333", "loss 0.34333333", False),
        ("[ 0.5 -0.000]", "[0.5 0.000]", True),  # numpy pads a column for a sign
        ("step 10", "step 11", False),
        ("1.5e-09 nats", "1.2e-09 nats", True),  # noise
        ("1.5e-03 nats", "1.2e-03 nats", False),
        ("k1 0.5", "k3 0.5", False),
        ("reward 0.5", "loss 0.5", False),
        ("0.5 0.5", "0.5", False),
        ("nan", "nan", True),
        ("1.", "2.", False),
    ],
)
def test_printed_text(left, right, same):
    assert (comparable(left) == comparable(right)) is same
    assert (comparable(right) != comparable(left)) is not same


def packed(values):
    return {"y": {"dtype": "f8", "bdata": base64.b64encode(np.asarray(values).tobytes()).decode()}}


@pytest.mark.parametrize("change, same", [(1e-12, True), (1e-2, False)])
def test_figures(change, same):
    values = np.array([0.25, np.nan, 3.0])
    for build in (packed, lambda values: {"y": values.tolist(), "name": "π", "uid": str(values)}):
        assert (comparable({"data": [build(values)]}) == comparable({"data": [build(values + change)]})) is same
    assert comparable(packed(values)) != comparable(packed(values[:2]))


def run_nbval(folder):
    """pytest on the folder's notebook, under this project's policy and options."""
    for name in ("conftest.py", "run_notebooks.py", "figure_pictures.py"):
        shutil.copy(ROOT / "notebooks" / name, folder)
    shutil.copy(ROOT / "tests" / "notebook_comparison.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    options = ["--nbval", "--nbval-current-env", f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval_sanitize.cfg'}"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "01_small.ipynb"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


NOISE = [("0.14285714285714285", "0.14285714285711111"), ("iVBORw0KGgo=", "another picture")]
CHANGES = [
    ("0.14285714285714285", "0.14385714285714285"),
    ("2.125", "2.135"),
    (run_notebooks.STAND_IN, "IntSlider(value=0)"),
]


@pytest.mark.parametrize("changes, said", [(NOISE, "4 passed"), (CHANGES, "3 failed, 1 passed")])
def test_nbval_compares_what_is_stored(stored, tmp_path, changes, said):
    pytest.importorskip("nbval")
    notebook = json.loads(stored[1])
    outputs = json.dumps([cell["outputs"] for cell in notebook["cells"]])
    for old, new in changes:
        assert outputs.count(old) == 1
        outputs = outputs.replace(old, new)
    for cell, changed in zip(notebook["cells"], json.loads(outputs), strict=True):
        cell["outputs"] = changed
    (tmp_path / "01_small.ipynb").write_text(json.dumps(notebook))
    assert said in (out := run_nbval(tmp_path)), out
