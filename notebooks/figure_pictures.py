"""A picture beside each stored figure, for pages that run no JavaScript.

GitHub, a mail or a print cannot draw Plotly's JSON: next to it a notebook
stores a PNG and the figure's alt text.  VS Code and the site show the
interactive figure.  So does JupyterLab once a cell is run; in a notebook
just opened its Plotly renderer shows the PNG, dot for dot, until the
pointer touches it.  So a picture has as many dots as the figure pixels.

A figure that did not change keeps its picture byte for byte, so a browser
(Chromium or Chrome, driven by kaleido) is needed only for new ones.
"""

import asyncio
import base64
import copy
import io
import json
import math
import os
import re

import nbformat

PLOTLY, PNG, TEXT = (
    "application/vnd.plotly.v1+json",
    "image/png",
    "text/plain",
)
WIDTH, HEIGHT = 760, 450  # pixels on the page, where the figure has none
SCALE, COLOURS = 1, 96  # dots a pixel; shades kept: both decide the size
# The figures' grey reads on light and on dark pages; a picture is on white.
INK = {"#7F7F7F": "#4D4D4D"}
WITHOUT_JAVASCRIPT = ("sliders", "updatemenus")  # would not answer
NO_BROWSER = (
    "these figures have no picture yet: {missing}. Install Chromium or "
    "Chrome (or set CHROMIUM to its path), then: "
    "python notebooks/run_notebooks.py --pictures"
)


def figure_outputs(notebook):
    """The outputs of a notebook that hold a figure, in order."""
    cells = [cell for cell in notebook["cells"] if "outputs" in cell]
    outputs = [output for cell in cells for output in cell["outputs"]]
    return [out for out in outputs if PLOTLY in out.get("data", {})]


def alt_text(figure):
    """A figure's sentence for those who cannot see it, or ""."""
    return ((figure["layout"].get("meta") or {}).get("alt") or "").strip()


def picture_size(figure):
    """Width and height of the picture on the page, in pixels."""
    layout = figure["layout"]
    return layout.get("width", WIDTH), layout.get("height", HEIGHT)


def add_pictures(notebook, stored=None):
    """Give each figure of `notebook` its picture and alt text, in place.

    Args:
        notebook: with fresh outputs.
        stored: the notebook as it was; its pictures are used again where
            the figure is the same to a relative 1e-5 (None: none is).
    Returns:
        the numbers (from 1) of the figures that have none, for there is no
        browser and they are new.
    """
    outputs = figure_outputs(notebook)
    old = [] if stored is None else figure_outputs(stored)
    old = [out for out in old if PNG in out["data"]]
    pictures = [find_picture(out["data"][PLOTLY], old) for out in outputs]
    new = [i for i, picture in enumerate(pictures) if picture is None]
    drawn = draw([outputs[i]["data"][PLOTLY] for i in new])
    for i, picture in zip(new, drawn, strict=True):
        pictures[i] = picture
    for output, picture in zip(outputs, pictures, strict=True):
        store(output, picture)
    return [i + 1 for i, picture in enumerate(pictures) if picture is None]


def store(output, picture):
    """Write a picture (base64, or None) and the alt text into an output."""
    figure = output["data"][PLOTLY]
    alt, (width, height) = alt_text(figure), picture_size(figure)
    output["data"].pop(PNG, None)
    output["data"].pop(TEXT, None)
    if alt:
        output["data"][TEXT] = alt
    if picture is not None:
        output["data"][PNG] = picture
        details = {"alt": alt} if alt else {}
        details |= {"width": round(width), "height": round(height)}
        output["metadata"] = {PNG: details}


def find_picture(figure, old):
    """The stored picture of the same figure, or None."""
    figure = what_is_drawn(figure)
    for output in old:
        if same(figure, what_is_drawn(output["data"][PLOTLY])):
            return "".join(output["data"][PNG]).strip()
    return None


def what_is_drawn(figure):
    """The parts of a figure that its picture shows: no alt text."""
    layout = {k: v for k, v in figure["layout"].items() if k != "meta"}
    for name in WITHOUT_JAVASCRIPT:
        layout.pop(name, None)
    return {"data": figure["data"], "layout": layout}


def same(left, right):
    """Whether two pieces of JSON are equal, floats to a relative 1e-5."""
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return False
        if {"bdata", "dtype"} <= left.keys():
            return same_array(left, right)
        return all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    numbers = [isinstance(x, (int, float)) for x in (left, right)]
    if all(numbers) and not isinstance(left, bool) | isinstance(
        right, bool
    ):
        return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-8)
    return left is right if all(numbers) else left == right


def same_array(left, right):
    """`same` for arrays that Plotly packed as base64."""
    import numpy as np

    if left.get("shape") != right.get("shape"):
        return False
    values = [
        np.frombuffer(base64.b64decode(part["bdata"]), dtype=part["dtype"])
        for part in (left, right)
    ]
    shapes = {array.shape for array in values}
    close = dict(rtol=1e-5, atol=1e-8, equal_nan=True)
    return len(shapes) == 1 and np.allclose(*values, **close)


def on_white(figure):
    """A figure's JSON as it is drawn: on white paper, in darker ink."""
    text = json.dumps(what_is_drawn(figure))
    for grey, ink in INK.items():
        text = re.sub(re.escape(grey), ink, text, flags=re.I)
    figure = json.loads(text)
    figure["layout"]["paper_bgcolor"] = "#FFFFFF"
    return figure


def draw(figures):
    """Pictures of figures, as base64; all None if there is no browser.

    >>> draw([])
    []
    """
    if not figures:
        return []
    import kaleido
    from choreographer.errors import ChromeNotFoundError

    if os.environ.get("CHROMIUM"):
        os.environ["BROWSER_PATH"] = os.environ["CHROMIUM"]
    page = kaleido.PageGenerator(mathjax=False)  # it comes from a server

    async def shots():
        async with kaleido.Kaleido(n=1, page_generator=page) as browser:
            return [
                await browser.calc_fig(
                    on_white(figure), opts=options(figure)
                )
                for figure in figures
            ]

    try:
        return [shrink(png) for png in asyncio.run(shots())]
    except ChromeNotFoundError:
        return [None] * len(figures)


def options(figure):
    """What kaleido is told of the picture."""
    width, height = picture_size(figure)
    return dict(format="png", width=width, height=height, scale=SCALE)


def shrink(png):
    """A PNG in few colours, as base64.

    The palette first covers the range of colours, so that a thin line keeps
    its hue, and is then moved towards the frequent ones: grey stays grey.
    """
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    method, no_dither = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
    image = image.quantize(COLOURS, method, kmeans=8, dither=no_dither)
    small = io.BytesIO()
    image.save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


def one_line_figures(notebook):
    """A notebook's text, each figure on one line: half as long.

    (nbformat gives each number a line of its own.)
    """
    notebook, lines = copy.deepcopy(notebook), {}
    for i, output in enumerate(figure_outputs(notebook)):
        line = json.dumps(
            output["data"][PLOTLY],
            ensure_ascii=False,
            sort_keys=True,
            separators=(",", ":"),
        )
        lines[f'"@figure {i}@"'] = line
        output["data"][PLOTLY] = f"@figure {i}@"
    text = nbformat.writes(notebook) + "\n"
    return re.sub('"@figure [0-9]+@"', lambda mark: lines[mark[0]], text)
