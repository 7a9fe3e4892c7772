"""Each stored figure has its picture for pages without JavaScript: what is stored, what is drawn, what is kept."""

import base64
import copy
import io
import json
import os
from pathlib import Path

import nbformat
import numpy as np
import pytest

import figure_pictures
import run_notebooks
from figure_pictures import PLOTLY, PNG, TEXT, add_pictures, figure_outputs, one_line_figures, same

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
NOT_STORED = ("_build", "__pycache__", ".ruff_cache", ".ipynb_checkpoints", "checkpoints", "runs", "api")
MOST_BYTES = 8_000_000

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def picture_faults(notebook):
    """What is wrong with the pictures of a notebook's figures, in words."""
    image = pytest.importorskip("PIL.Image")
    faults = []
    for i, output in enumerate(figure_outputs(notebook), 1):
        data, details = output["data"], output.get("metadata", {}).get(PNG, {})
        alt = figure_pictures.alt_text(data[PLOTLY])
        if len(alt) < 20 or details.get("alt") != alt or "".join(data.get(TEXT, "")) != alt:
            faults.append(f"figure {i}: no alt text, or not the figure's own")
        if PNG not in data:
            faults.append(f"figure {i}: no picture; run: python notebooks/run_notebooks.py --pictures")
            continue
        raw = base64.b64decode("".join(data[PNG]), validate=True)
        picture = image.open(io.BytesIO(raw))
        picture.load()
        width, height = figure_pictures.picture_size(data[PLOTLY])
        if (details.get("width"), details.get("height")) != (width, height) or not 300 <= width <= 1000:
            faults.append(f"figure {i}: shown {details.get('width')} wide, the figure is {width}")
        if abs(picture.width - width * figure_pictures.SCALE) > 1 or picture.format != "PNG" or len(raw) > 150_000:
            faults.append(f"figure {i}: {picture.format}, {picture.width} dots wide, {len(raw):,} bytes")
        if picture.convert("RGBA").getpixel((0, 0)) != (255, 255, 255, 255):
            faults.append(f"figure {i}: its paper is not white")
    return faults


@each_notebook
def test_each_stored_figure_has_a_picture_and_its_alt_text(path):
    assert picture_faults(json.loads(path.read_text(encoding="utf-8"))) == []


@each_notebook
def test_each_stored_figure_is_one_line_as_the_runner_leaves_it(path):
    text = path.read_text(encoding="utf-8")
    assert text == one_line_figures(nbformat.read(path, as_version=4))


def test_all_stored_files_of_the_book_are_less_than_8_mb():
    files = [path for path in FOLDER.rglob("*") if path.is_file() and not set(NOT_STORED) & set(path.parts)]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def make_figure(**changes):
    trace = {"type": "scatter", "y": [1.0, 2.125, 0.5], "line": {"color": "#1F7FC1"}} | changes
    return {"data": [trace], "layout": {"height": 200, "meta": {"alt": "Three points, the second is highest."}}}


def make_notebook(*figures):
    outputs = [nbformat.v4.new_output("display_data", {PLOTLY: figure}) for figure in figures]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=outputs, id="cell-00")])


@pytest.fixture(scope="module")
def drawn(chromium):
    """A notebook of one figure with its picture."""
    pytest.importorskip("kaleido", reason="kaleido is not installed (pip install 'grpo_lib[dev]')")
    os.environ["CHROMIUM"] = chromium
    notebook = make_notebook(make_figure())
    assert add_pictures(notebook) == []
    return notebook


def test_a_picture_is_drawn_and_its_faults_are_found(drawn):
    image = pytest.importorskip("PIL.Image")
    assert picture_faults(drawn) == []
    data = figure_outputs(drawn)[0]["data"]
    colours = image.open(io.BytesIO(base64.b64decode(data[PNG]))).convert("RGB").getcolors(1 << 20)
    near = lambda colour: np.abs(np.subtract(colour, (0x1F, 0x7F, 0xC1))).max() <= 8  # noqa: E731
    assert sum(count for count, colour in colours if near(colour)) > 300  # the line keeps its hue
    assert list(json.loads(one_line_figures(drawn))["cells"][0]["outputs"][0]["data"]) == [PLOTLY, PNG, TEXT]
    faults = {
        "no picture": lambda output: output["data"].pop(PNG),
        "no alt text": lambda output: output["data"][PLOTLY]["layout"].pop("meta"),
        "not the figure's own": lambda output: output["metadata"][PNG].update(alt="Another sentence, long enough."),
        "shown 100 wide": lambda output: output["metadata"][PNG].update(width=100),
    }
    for said, spoil in faults.items():
        spoilt = copy.deepcopy(drawn)
        spoil(figure_outputs(spoilt)[0])
        assert said in picture_faults(spoilt)[0]


@pytest.fixture
def no_browser(monkeypatch):
    """As on a machine without one."""
    monkeypatch.setattr(figure_pictures, "draw", lambda figures: [None] * len(figures))


def test_a_figure_that_did_not_change_keeps_its_picture_without_a_browser(no_browser):
    old = make_notebook(make_figure(), make_figure(y=[3.0, 1.0]))
    for i, output in enumerate(figure_outputs(old)):
        output["data"][PNG] = f"picture {i}"
    noise, moved = make_figure(y=[1.0, 2.125 * (1 + 1e-9), 0.5]), make_figure(y=[1.0, 2.126, 0.5])
    told = make_figure(y=[3.0, 1.0])
    told["layout"]["meta"] = {"alt": "Two points, the first is highest."}
    new = make_notebook(told, noise, moved)
    assert add_pictures(new, old) == [3]
    outputs = figure_outputs(new)
    assert [output["data"].get(PNG) for output in outputs] == ["picture 1", "picture 0", None]
    assert outputs[0]["metadata"][PNG]["alt"] == outputs[0]["data"][TEXT] == told["layout"]["meta"]["alt"]


def test_a_run_without_a_browser_keeps_pictures_and_says_what_is_missing(no_browser, tmp_path, capsys):
    path = tmp_path / "01_small.ipynb"
    notebook = make_notebook(make_figure(), make_figure(y=[3.0]))
    figure_outputs(notebook)[0]["data"][PNG] = "picture"
    nbformat.write(notebook, path)
    assert run_notebooks.main(["--pictures"], tmp_path) == 1
    said = capsys.readouterr().out
    assert "these figures have no picture yet: 2." in said and "Install Chromium" in said and "--pictures" in said
    before = path.read_bytes()
    assert b'"picture"' in before
    assert run_notebooks.main(["--redraw"], tmp_path) == 1 and path.read_bytes() == before
    with pytest.raises(SystemExit):
        run_notebooks.main(["--check", "--pictures"], tmp_path)


def test_without_a_browser_nothing_is_drawn(monkeypatch):
    kaleido = pytest.importorskip("kaleido", reason="kaleido is not installed (pip install 'grpo_lib[dev]')")
    from choreographer.errors import ChromeNotFoundError

    def missing(*args, **options):
        raise ChromeNotFoundError("none")

    monkeypatch.setattr(kaleido, "Kaleido", missing)
    assert figure_pictures.draw([make_figure(), make_figure()]) == [None, None]


def pack(values):
    return {"dtype": "f8", "bdata": base64.b64encode(np.array(values).tobytes()).decode()}


@pytest.mark.parametrize(
    "left, right, equal",
    [
        ([1.0, None], [1.0 + 1e-7, None], True),
        ([1.0], [1.0001], False),
        ([1.0], [1.0, 1.0], False),
        ({"a": 1}, {"b": 1}, False),
        (2.0, 2, True),
        ("red", "blue", False),
        (pack([1.0, np.nan]), pack([1.0 + 1e-9, np.nan]), True),
        (pack([1.0]), pack([1.1]), False),
        (pack([1.0]), pack([1.0, 1.0]), False),
        (2, 2.0000001, True),
        (True, 1, False),
        (True, True, True),
        (1, 2, False),
    ],
)
def test_same(left, right, equal):
    assert same(left, right) is equal and same(right, left) is equal


def test_what_does_not_answer_is_left_out_and_grey_is_darker_on_white():
    figure = make_figure(line={"color": "#7f7f7f"})
    figure["layout"] |= {"sliders": [{}], "updatemenus": [{}], "paper_bgcolor": "rgba(0,0,0,0)"}
    shown = figure_pictures.on_white(figure)
    assert "sliders" not in shown["layout"] and "updatemenus" not in shown["layout"]
    assert shown["layout"]["paper_bgcolor"] == "#FFFFFF" and shown["data"][0]["line"]["color"] == "#4D4D4D"
    assert figure["layout"]["sliders"] == [{}]  # the figure itself stays as it is


def test_one_line_figures_change_only_the_layout_of_the_text():
    notebook = make_notebook(make_figure(name='"@figure 0@" π \\1'))
    text = one_line_figures(notebook)
    assert nbformat.reads(text, as_version=4) == notebook
    assert len(text.splitlines()) < len(nbformat.writes(notebook).splitlines())
