"""Figures with Plotly's own sliders over a grid of settings computed beforehand, for pages without a kernel.

A slider of Plotly alone replaces what another one chose. Here each combination of the sliders' positions has its own
state, and a few lines of script on the page (`notebooks/book/static/sliders.js`) show the state of the combination.
What several states have in common is kept once.
"""

import json
from itertools import product
from math import prod

from grpo_lib.plot_style import CLEAR, TEXT

__all__ = ["slider_figure", "state_at"]

ROW, GAP = 76, 28  # pixels: of one slider, between the legend and the first one
SLACK = 30  # pixels that Plotly takes off the panels for a legend of two rows, above the sliders


def slider_figure(draw, axes, **start):
    """Draw a figure for every combination of the axes' values, and put one slider an axis under it.

    Args:
        draw: called with one keyword argument an axis; returns the figure as plain data, a dict of "data" and "layout",
            and possibly "html", a text that belongs below it.
        axes: dict name → values; or name → dict text → value, where a value should not be read as it is. An axis with
            a single value is given to `draw` and has no slider.
        start: the position of the sliders at first, a value an axis; what is left out starts at its first value.
    Returns:
        plain data that can be written as JSON: "data" and "layout" of the start, a slider an axis in the layout, and
        "grid": "axes" (a list of name and texts), "pool" (each part that occurs in some state, once) and "states", in
        the order of `itertools.product`, whose parts are numbers of the pool. `state_at` reads it.
    Raises:
        ValueError: on an axis without values, or a start that is not on its axis.

    >>> def draw(beta, rate):
    ...     return dict(data=[dict(y=[beta, rate])], layout=dict(height=100, margin=dict(t=20, b=30)))
    >>> figure = slider_figure(draw, dict(beta=[0, 1], rate={"slow": 0.1, "fast": 1.0}), rate=1.0)
    >>> figure["data"], len(figure["grid"]["states"])
    ([{'y': [0, 1.0]}], 4)
    >>> [(s["currentvalue"]["prefix"], s["active"]) for s in figure["layout"]["sliders"]]
    [('beta: ', 0), ('rate: ', 1)]
    >>> state_at(figure, beta="1", rate="slow")["data"]
    [{'y': [1, 0.1]}]
    """
    choices = {name: _texts(values) for name, values in axes.items()}
    active = {name: _position(name, choice, start) for name, choice in choices.items()}
    unknown = start.keys() - choices.keys()
    if unknown:
        raise ValueError(f"no slider for {', '.join(sorted(unknown))}; the sliders are {', '.join(choices)}")
    drawn = [
        draw(**dict(zip(choices, values, strict=True)))
        for values in product(*[choice.values() for choice in choices.values()])
    ]
    choices = {name: choice for name, choice in choices.items() if len(choice) > 1}
    _same_frame([figure["layout"] for figure in drawn], ROW * len(choices) + GAP)
    pool, numbers = [], {}
    states = [_pooled(figure, pool, numbers) for figure in drawn]
    axes = [dict(name=name, texts=list(choice)) for name, choice in choices.items()]
    figure = dict(grid=dict(axes=axes, pool=pool, states=states))
    first = state_at(figure, **{name: list(choice)[active[name]] for name, choice in choices.items()})
    height, margin = first["layout"]["height"], first["layout"]["margin"]
    top, panels = margin["b"] - ROW * len(choices), height - margin["t"] - margin["b"]
    sliders = [
        _slider((top + ROW * row) / panels, name, choices[name], active[name]) for row, name in enumerate(choices)
    ]
    first["layout"] = {**first["layout"], "sliders": sliders}
    return {**first, **figure}


def state_at(figure, **texts):
    """The figure at one combination of positions, as plain data; each position is the text that the slider shows.

    Args:
        figure: what `slider_figure` returned. texts: one an axis.
    Returns:
        a dict of "data", "layout" (without sliders) and, where there is one, "html".
    Raises:
        ValueError: on an axis left out, or a text that is none of its positions.
    """
    grid, index = figure["grid"], 0
    for axis in grid["axes"]:
        text = texts.get(axis["name"])
        if text not in axis["texts"]:
            raise ValueError(f"{axis['name']} must be one of {', '.join(axis['texts'])}, got {text!r}")
        index = index * len(axis["texts"]) + axis["texts"].index(text)
    pool, state = grid["pool"], grid["states"][index]
    read = [{key: pool[number] for key, number in part.items()} for part in (*state["data"], state["layout"])]
    *data, layout = read
    found = dict(data=data, layout=layout)
    return found if state.get("html") is None else {**found, "html": pool[state["html"]]}


def _texts(values):
    """An axis as a dict from text to value."""
    texts = values if isinstance(values, dict) else {f"{value:g}": value for value in values}
    if not texts:
        raise ValueError("a slider needs at least one value, got none")
    return texts


def _position(name, choice, start):
    if name not in start:
        return 0
    places = [i for i, value in enumerate(choice.values()) if value == start[name]]
    if not places:
        raise ValueError(f"{name} must start at one of {', '.join(choice)}, got {start[name]!r}")
    return places[0]


def _same_frame(layouts, room):
    """One size and one margin for all states, so that nothing jumps, with room for the sliders at the foot."""
    panels = max(x["height"] - x["margin"]["t"] - x["margin"]["b"] for x in layouts)
    margin = {side: max(x["margin"][side] for x in layouts) for side in ("t", "b")}
    below = room + SLACK
    height = panels + margin["t"] + margin["b"] + below
    for layout in layouts:
        layout["margin"] = {**layout["margin"], "t": margin["t"], "b": margin["b"] + below}
        layout["height"] = height
        layout["legend"] = {**layout.get("legend", {}), "y": (room + 4) / height, "yref": "container"}


def _pooled(figure, pool, numbers):
    """A state whose parts are numbers of the pool; new parts enter it."""

    def number(part):
        text = json.dumps(part, sort_keys=True)
        if text not in numbers:
            numbers[text] = len(pool)
            pool.append(part)
        return numbers[text]

    def fields(part):
        return {key: number(value) for key, value in part.items()}

    state = dict(data=[fields(trace) for trace in figure["data"]], layout=fields(figure["layout"]))
    return {**state, "html": number(figure["html"])} if "html" in figure else state


def _slider(down, name, choice, active):
    """One slider, so many heights of the panels below them; its steps do nothing by themselves."""
    return dict(
        active=active,
        steps=[dict(label=text, method="skip", args=[]) for text in choice],
        currentvalue=dict(prefix=f"{name}: ", xanchor="left", offset=6, font=dict(size=13, color=TEXT)),
        x=0,
        xanchor="left",
        len=1,
        y=-round(down, 4),
        yanchor="top",
        pad=dict(t=0, b=0, l=8, r=8),
        font=dict(size=11, color=TEXT),
        bgcolor="rgba(128,128,128,0.25)",
        activebgcolor="#1F7FC1",
        bordercolor="#8C8C8C",
        borderwidth=1,
        ticklen=4,
        tickcolor=CLEAR,
    )


def combinations(figure):
    """How many states a slider figure has.

    >>> combinations(dict(grid=dict(axes=[dict(name="beta", texts=["0", "1"]), dict(name="G", texts=["2"])])))
    2
    """
    return prod(len(axis["texts"]) for axis in figure["grid"]["axes"])
