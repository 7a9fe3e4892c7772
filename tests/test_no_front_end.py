"""The notebooks' control cells, executed as `jupyter execute` does it: nothing breaks, static figures appear."""

import html
import re
from pathlib import Path

import pytest

from grpo_lib.explore import explore_bandit
from grpo_lib.plot_style import alt_text

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
VIEW = "application/vnd.jupyter.widget-view+json"
PLOTLY = "application/vnd.plotly.v1+json"


def execute(sources):
    """The outputs of each cell, as lists of dicts from MIME types to contents."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(book, timeout=180, kernel_name="python3").execute()
    return [[output.get("data", {}) for output in cell.outputs] for cell in book.cells]


def code_cells(name):
    return [cell.source for cell in nbformat.read(NOTEBOOKS / name, 4).cells if cell.cell_type == "code"]


def kinds(outputs):
    return {kind for data in outputs for kind in data}


def test_the_explorer_of_notebook_01_and_the_static_figure_after_it():
    cells = code_cells("01_bandit_grpo.ipynb")
    at = next(i for i, source in enumerate(cells) if "BanditExplorer" in source)
    setup, control, after = execute([cells[0], *cells[at : at + 2]])
    assert VIEW in kinds(control) and PLOTLY in kinds(after)
    [stand_in] = [data["text/html"] for data in control if VIEW in data]
    assert alt_text(explore_bandit(beta=1.0)) in html.unescape(stand_in)


def test_the_panel_of_notebook_10_at_a_small_size():
    cells = code_cells("10_train_a_tiny_llm.ipynb")
    start = next(i for i, source in enumerate(cells) if "LivePanel(" in source)
    end = next(i for i, source in enumerate(cells) if "inspector.view" in source)
    settings = next(source for source in cells if "settings = GRPOSettings(" in source)
    before = "from dataclasses import replace\nfrom grpo_lib import *\ntrain = load_addition('train')"
    kept = [source for source in cells[start : end + 1] if "ten_steps_to" not in source]  # they speak of step 135
    small = [re.sub(r"run\(\d+\)", "run(1)", re.sub(r"^steps = \d+", "steps = 1", s, flags=re.M)) for s in kept]
    outputs = dict(zip(kept, execute([cells[0], before, settings, *small])[3:], strict=True))
    panel, inspector = (next(s for s in kept if text in s) for text in ("panel.show()", "panel.inspect("))
    assert VIEW in kinds(outputs[panel]) and VIEW in kinds(outputs[inspector])
    [stand_in] = [data["text/html"] for data in outputs[panel] if VIEW in data]
    assert "live-chart" in stand_in and "Step 0</b>" in stand_in
    figures = [source for source in kept if PLOTLY in kinds(outputs[source])]
    assert [source.splitlines()[-1] for source in figures] == ["panel.figure()", "inspector.view"]
    [form] = [source for source in kept if "# @param" in source]
    assert form in figures and len(re.findall(r"^\w+ = [\d.e-]+  # @param \{", form, re.M)) == 3
