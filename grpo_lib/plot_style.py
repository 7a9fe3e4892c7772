"""One look for every figure: a palette, line dashes, and a small template that reads on light and on dark pages.

Colours are adapted from Wong 2011, "Points of view: Color blindness" (Nature Methods 8, 441): the yellow and the
black of that palette vanish on a white or a black page, so a grey stands in for both.
"""

import json
import re
from functools import partial
from textwrap import wrap

import numpy as np
import plotly.graph_objects as go

PALETTE = ("#1F7FC1", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6C6C6C")
# "dot" is kept for exact values
DASHES = ("solid", "6px 3px", "7px 3px 2px 3px", "11px 3px", "3px 2px", "11px 3px 2px 3px 2px 3px")
TEXT, GRID, CLEAR = "#7F7F7F", "rgba(128,128,128,0.25)", "rgba(0,0,0,0)"
_AXIS = dict(
    gridcolor=GRID,
    zeroline=False,
    ticks="outside",
    tickcolor=GRID,
    tickfont=dict(size=12),
    title=dict(standoff=8, font=dict(size=13)),
    automargin=True,
)
_LAYOUT = dict(
    font=dict(color=TEXT, size=13),
    paper_bgcolor=CLEAR,
    plot_bgcolor=CLEAR,
    colorway=list(PALETTE),
    hoverlabel=dict(bgcolor="#F2F2F2", bordercolor=TEXT, font=dict(color="#222222")),
    title=dict(
        x=0.01, xanchor="left", y=1, yanchor="top", yref="container", pad=dict(t=18), font=dict(size=15)
    ),  # the padding keeps the top of the letters in sight
    legend=dict(
        orientation="h",
        x=0,
        xanchor="left",
        yref="container",
        y=0.01,
        yanchor="bottom",
        bgcolor=CLEAR,
        font=dict(size=12),
    ),
    xaxis=_AXIS,
    yaxis=_AXIS,
)
TEMPLATE = dict(layout=_LAYOUT)


def colour(i):
    """Colour of the i-th line; the palette starts again after seven, the dashes after six."""
    return PALETTE[i % len(PALETTE)]


def line_style(i, **more):
    """`line=` of the i-th curve: its colour and its dash, so that neither is needed alone."""
    return dict(color=colour(i), dash=DASHES[i % len(DASHES)], width=2, **more)


def one_shade_each(shades):
    """Arguments of a heat map whose values are 0, 1, 2 …: each is drawn in its own shade.

    >>> one_shade_each(["white", "black"])["colorscale"]
    [[0.0, 'white'], [0.5, 'white'], [0.5, 'black'], [1.0, 'black']]
    """
    n = len(shades)
    scale = [[(i + side) / n, shade] for i, shade in enumerate(shades) for side in (0, 1)]
    return dict(zmin=-0.5, zmax=n - 0.5, colorscale=scale, showscale=False)


def rounded(values):
    """Nested lists of floats with five significant digits; NaN and infinities become None, which plots as a gap.

    >>> rounded([[0.123456789, float("nan")], [1, 2e-9]])
    [[0.12346, None], [1.0, 2e-09]]
    """
    if np.ndim(values) == 0:
        value = float(values)
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return [rounded(v) for v in values]


def signed(value, digits):
    """A number with its sign and so many decimals; what rounds to zero has no sign.

    >>> signed(0.5, 2), signed(-0.0004, 3), signed(0.0, 2)
    ('+0.50', '0.000', '0.00')
    """
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def positive(values):
    """`rounded`, with a gap wherever a logarithmic axis has no place for the value (zero or below)."""
    return rounded([v if v > 0 else np.nan for v in values])


def checked(name, values, shape):
    """A float array of the given shape, None standing for any length of at least 1.

    Raises:
        ValueError: naming the argument, the shape wanted and the shape that came in; or if a number is not finite.

    >>> checked("rewards", [1, 0], (3,))
    Traceback (most recent call last):
    ValueError: rewards must have shape (3,), got (2,)
    """
    array = np.asarray(values, dtype=float)
    fits = array.ndim == len(shape) and all(
        n == want or (want is None and n) for n, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        want = str(tuple("any" if n is None else n for n in shape)).replace("'any'", "at least 1")
        raise ValueError(f"{name} must have shape {want}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]} among its values")
    return array


def finish(fig, *, height, alt, title=None, **layout):
    """Make room for a figure's title and legend, and store its one-sentence alt text."""
    names = [t.name for t in fig.data if t.name and t.showlegend is not False]
    fig.update_layout(**_frame(names, height, alt, title), **layout)
    if title:
        fig.update_layout(title_text=title)
    return fig


def refilled(skeleton, curves, *, height, alt, title=None):
    """The figure that `finish` returned as plain data, with other curves, title and alt text.

    Args:
        skeleton: its JSON text, with a title if there is one here.
        curves: a dict a trace, of what is to be replaced in it.
        height, alt, title: as of `finish`.
    """
    figure = json.loads(skeleton)
    for trace, curve in zip(figure["data"], curves, strict=True):
        trace.update(curve)
    names = [trace["name"] for trace in figure["data"] if trace.get("name") and trace.get("showlegend") is not False]
    figure["layout"].update(_frame(names, height, alt, title))
    if title:
        figure["layout"]["title"]["text"] = title
    return figure


def _frame(names, height, alt, title):
    """What of a layout follows from the names in the legend, the height of the panels, and the title."""
    lines = int(sum(7 * len(n) + 58 for n in names) / 640) + 1 if names else 0  # legend lines on a page 700 px wide
    top = 57 + 18 * title.count("<br>") if title else 15
    margin = dict(l=10, r=15, t=top, b=55 + 22 * lines)
    height += margin["t"] + margin["b"]
    return dict(height=height, margin=margin, meta=dict(alt=alt), showlegend=bool(names))


def wrapped(title, width):
    """A title in lines of at most `width` characters, broken after a comma outside of brackets, or else at a space.

    >>> wrapped("beta 0.9, 20 samples, clip (0.2, 0.28)<br>at rest", 24)
    'beta 0.9, 20 samples,<br>clip (0.2, 0.28)<br>at rest'
    """
    fold, lines = partial(wrap, width=width, break_on_hyphens=False), []
    for line in title.split("<br>"):
        if len(line) <= width:
            lines.append(line)
            continue
        parts = re.split(r"(?<=,) (?![^(]*\))", line)
        tied = " ".join(part.replace(" ", "\0") for part in parts)
        for row in fold(tied, break_long_words=False):
            lines += [line.strip() for line in fold(row.replace("\0", " "))]
    return "<br>".join(lines)


def alt_text(fig):
    """The one-sentence description a figure, or its plain data, carries for screen readers (`layout.meta["alt"]`)."""
    return fig["layout"]["meta"]["alt"]


def subplots(rows, cols, *, x=0.11, y=0.09, **options):
    """`make_subplots` on the shared template; Plotly's own large template never enters the figure."""
    from plotly.subplots import make_subplots

    base = go.Figure(layout=dict(template=TEMPLATE))
    return make_subplots(rows, cols, horizontal_spacing=x, vertical_spacing=y, figure=base, **options)
