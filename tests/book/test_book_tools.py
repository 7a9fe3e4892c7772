"""What turns notebooks and docstrings into pages, without Sphinx."""

import json
from pathlib import Path

import pytest

from book import api, controls, docstrings, figures, outside

ROOT = Path(__file__).resolve().parents[2]
FIGURE = dict(data=[dict(y=[1])], layout=dict(height=300, meta=dict(alt='a "bar" & <b>')))


def notebook(*outputs, source="show()"):
    cell = dict(cell_type="code", source=[source], outputs=list(outputs))
    return dict(cells=[cell, dict(cell_type="markdown", source=["text"])], metadata={})


def test_a_stored_figure_becomes_html_that_names_it_and_the_notebook_stays_as_it_is():
    given = notebook(dict(output_type="display_data", data={figures.PLOTLY: FIGURE, "image/png": "…"}))
    before = json.dumps(given)
    [output] = figures.prepare(given)["cells"][0]["outputs"]
    assert json.dumps(given) == before
    html = output["data"]["text/html"]
    assert list(output["data"]) == ["text/html"]
    assert 'role="img"' in html and 'aria-label="a &quot;bar&quot; &amp; &lt;b&gt;"' in html and "300px" in html


def test_a_figure_cannot_end_its_own_script():
    html = figures.figure_html(dict(data=[dict(name="</script><b>")], layout={}))
    assert html.count("</script>") == 1


def test_a_control_is_replaced_by_what_its_cell_s_source_says():
    seen = []
    out = dict(output_type="display_data", data={"text/plain": [controls.STAND_IN]})
    figures.prepare(notebook(out, source="BanditExplorer()"), lambda *args: seen.append(args) or "<p>")
    assert seen == [("BanditExplorer()", [])]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("BanditExplorer(beta=0.5, normalise=False)", ("bandit_sliders", dict(beta=0.5, normalise=False))),
        ("RolloutInspector(completion=1, token=0)", ("rollout_sliders", dict(completion=1, token=0))),
        ("r = 1\nRolloutInspector(r, beta=0.0)", ("rollout_sliders", dict(beta=0.0, variants=("grpo",)))),
        ("panel = LivePanel(a, b)\npanel.show()", ("run_sliders", {})),
    ],
)
def test_the_control_of_a_cell_is_read_from_its_source(source, wanted):
    assert controls.choose(source, [])[:2] == wanted


def test_the_panel_of_the_fine_tuning_lesson_shows_the_larger_model():
    assert controls.choose("panel.show()", ["plan = plan_run(size)"])[0] == "smollm_sliders"


def test_an_unknown_control_is_refused():
    with pytest.raises(ValueError, match="no sliders are known for the control of this cell: 'x = 1'"):
        controls.choose("x = 1", [])


def test_every_stored_control_is_known():
    count = 0
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        before = []
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if controls.STAND_IN in json.dumps(cell.get("outputs", [])):
                controls.choose(source, before)
                count += 1
            if cell["cell_type"] == "code":
                before.append(source)
    assert count >= 8


def test_every_module_stands_on_one_page_of_the_reference():
    written = "".join(api.pages(api.modules()).values())
    assert all(written.count(f"automodule:: grpo_lib.{name}\n") == 1 for name in api.modules())
    assert "unheard\\_of" in api.pages(["unheard_of"])["more_modules"]


def test_the_page_of_external_links_names_each_address_once_with_its_places():
    text = outside.page({"https://a.org/x": ["01_bandit_grpo.ipynb", "map.md"], "https://b.org": ["README.md"]})
    assert "- <https://a.org/x>: [01](../01_bandit_grpo.ipynb), [map](../map.md)\n- <https://b.org>: README\n" in text


def test_a_docstring_s_parts_are_kept_apart():
    docstring = "Half |x|, `a`s and r_.\n\n    x_i * 2\n\nArgs:\n    x, y: numbers; of\n        two kinds.\n\n>>> 1\n1"
    text = docstrings.to_rst(docstring.split("\n"))
    assert text[0] == "Half \\|x\\|, ``a``\\ s and r\\_."
    assert text[2:5] == [".. code-block:: text", "", "    x_i * 2"]
    assert "``x``, ``y``" in text and "    numbers; of two kinds." in text
    assert text[-5:] == [".. code-block:: pycon", "", "    >>> 1", "    1", ""]
