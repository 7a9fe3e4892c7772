"""A stored notebook's outputs as the site shows them: figures drawn by the site's own plotly.js, sliders for controls.

`prepare` takes a notebook and returns one whose outputs Sphinx can show as they are.
"""

import json
from html import escape

from book.controls import STAND_IN, control_html

PLOTLY = "application/vnd.plotly.v1+json"
DRAWN = ("data", "layout", "frames")


def prepare(notebook, draw_control=control_html):
    """A copy of the notebook (plain data) for the site: figures and controls as HTML.

    Args:
        notebook: the notebook's JSON as plain data.
        draw_control: of the sources of a cell and of those before it, the HTML that stands for its control.
    """
    notebook = json.loads(json.dumps(notebook))
    notebook["metadata"].setdefault("language_info", {})["pygments_lexer"] = "ipython3"
    before = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        for output in cell["outputs"]:
            data = output.get("data", {})
            if PLOTLY in data:
                output["data"] = {"text/html": figure_html(data[PLOTLY])}
            elif STAND_IN in "".join(data.get("text/plain", "")):
                output["data"] = {"text/html": draw_control(source, list(before))}
        before.append(source)
    return notebook


def alt_of(figure):
    """A figure's one sentence for those who cannot see it."""
    return ((figure.get("layout") or {}).get("meta") or {}).get("alt") or "A figure without a description."


def figure_html(figure):
    """A figure (plain data) as the HTML that `static/figures.js` draws when it comes into sight."""
    height = int((figure.get("layout") or {}).get("height") or 450)
    alt = escape(alt_of(figure))
    return (
        f'<div class="plotly-scroll"><div class="plotly-figure" role="img" aria-label="{alt}" '
        f'style="min-height:{height}px">{_json({key: figure[key] for key in DRAWN if key in figure})}'
        f"<noscript>{alt}</noscript></div></div>"
    )


def sliders_html(figure, live):
    """A figure of `grpo_lib.slider_figures` as HTML; `live` says how to have the control itself."""
    height = int(figure["layout"]["height"])
    alt = escape(alt_of(figure))
    story = f'<div class="slider-story" aria-live="polite">{figure["html"]}</div>' if "html" in figure else ""
    kept = {key: figure[key] for key in ("layout", "grid")}
    return (
        '<div class="slider-figure"><div class="plotly-scroll">'
        f'<div class="plotly-figure" role="group" aria-label="{alt}" style="min-height:{height}px">'
        f"{_json(kept)}<noscript>{alt}</noscript></div></div>{story}"
        f'<p class="slider-note">Move a slider with the mouse; or Tab to it, then ← →, Home, End. {live}</p></div>'
    )


def _json(data):
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return f'<script type="application/json">{text}</script>'
