"""The loss family in pictures: pushes token by token, against the ratio, against the length, against the difficulty."""

import numpy as np

from grpo_lib.plot_style import TEXT, checked, colour, finish, line_style, rounded, subplots
from grpo_lib.token_plots import escaped, visible

__all__ = ["difficulty_figure", "length_figure", "push_curves_figure", "variant_figure"]

_DIVERGING = [[0, "#D55E00"], [0.5, "#F7F7F7"], [1, "#1F7FC1"]]  # as in token heat maps: vermilion below 0, blue above
_GREY = [[0, "#B9B9B9"], [1, "#B9B9B9"]]
_COLUMNS, _GAP = 3, 34  # panels a row; pixels between two rows, for a heading


def variant_figure(tokens, pushes, clipped, mask, *, capped=None, row_labels=None, title=None):
    """Draw, variant by variant, which way the next update pushes each token, all on one colour scale.

        share = push / sum over the batch of |push|

    Each variant is divided by its own sum: their sizes differ by constants, which the learning rate takes up (and Adam
    takes out). Blue is pushed up, vermilion down. × marks a token that the clip cut off (a KL term
    may push it still), ○ one whose weight is capped.

    Args:
        tokens: B rows of token strings, of any lengths; shown on hovering.
        pushes: dict from a variant's name to (B, T) pushes, minus the gradient of the loss on the log-probs.
        clipped: dict from the same names to (B, T) bool. mask: (B, T), 1 for the tokens that count.
        capped: names of the variants in which `clipped` means a capped weight, as it does for cispo; None takes those
            whose names begin with "cispo".
        row_labels: B names for the rows.
    Returns:
        `go.Figure`; two traces a variant (shares, masked cells), then the legend's.
    Raises:
        ValueError: on other shapes or names, or a variant without any push.

    >>> fig = variant_figure([["a", "b"]], {"grpo": [[3.0, -1.0]]}, {"grpo": [[0, 0]]}, [[1, 1]])
    >>> list(fig.data[0].z[0])
    [0.75, -0.25]
    """
    keep = checked("mask", mask, (None, None)).astype(bool)  # (B, T)
    labels = [f"row {i}" for i in range(len(keep))] if row_labels is None else [escaped(name) for name in row_labels]
    shares, marks = _shares(pushes, clipped, keep, _capped(capped, pushes))
    words = _words(tokens, labels, keep.shape)
    limit = float(f"{max(np.nanmax(np.abs(share)) for share in shares.values()):.5g}")
    rows, columns = -(-len(shares) // _COLUMNS), min(_COLUMNS, len(shares))
    panel = 30 * len(keep)  # pixels
    height = rows * panel + _GAP * (rows - 1)
    gap = _GAP / height if rows > 1 else 0.0
    panels = dict(x=0.03, y=gap, shared_xaxes=True, shared_yaxes=True, subplot_titles=[escaped(n) for n in shares])
    fig = subplots(rows, columns, **panels)
    scale = dict(colorscale=_DIVERGING, zmin=-limit, zmax=limit)
    bar = dict(title=dict(text="share of the push", side="right", font_size=12), nticks=5, thickness=14, outlinewidth=0)
    for i, (name, share) in enumerate(shares.items()):
        place = dict(row=i // _COLUMNS + 1, col=i % _COLUMNS + 1)
        cells = dict(text=marks[name], texttemplate="%{text}", textfont_size=13, hovertext=words, xgap=1, ygap=1)
        hover = f"{escaped(name)}, %{{hovertext}}: %{{z}}<extra></extra>"
        look = dict(hovertemplate=hover, showscale=i == 0, colorbar=bar, **scale)
        fig.add_heatmap(z=rounded(share), **cells, **look, **place)
        grey = dict(colorscale=_GREY, showscale=False, opacity=0.45, xgap=1, ygap=1, hoverinfo="skip")
        fig.add_heatmap(z=rounded(np.where(keep, np.nan, 1.0)), **grey, **place)
    _explain_marks(fig)
    fig.update_annotations(font=dict(size=13, color=TEXT))
    fig.update_xaxes(showgrid=False, dtick=1, range=[-0.5, keep.shape[1] - 0.5])
    fig.update_xaxes(title_text="position (tokens)", row=rows)
    ticks = dict(tickvals=list(range(len(keep))), ticktext=labels)
    fig.update_yaxes(showgrid=False, range=[len(keep) - 0.5, -0.5], **ticks)
    alt = f"Heat maps of {len(keep)} rows of tokens, one for each of {', '.join(shares)}; shares up to {limit:.3g}."
    fig = finish(fig, height=height, alt=alt, title=title)
    return fig.update_layout(margin_t=fig.layout.margin.t + 15, height=fig.layout.height + 15)


def _capped(names, pushes):
    if names is None:
        return [name for name in pushes if str(name).lower().startswith("cispo")]
    if isinstance(names, str) or not set(names) <= set(pushes):
        raise ValueError(f"capped must be a list of names of pushes, {list(pushes)}, got {names!r}")
    return list(names)


def _shares(pushes, clipped, keep, capped):
    if not pushes or pushes.keys() != clipped.keys():
        raise ValueError(f"pushes and clipped must have the same names, got {list(pushes)} and {list(clipped)}")
    shares, marks = {}, {}
    for name, values in pushes.items():
        push = np.where(keep, checked(f"pushes of {name!r}", values, keep.shape), np.nan)
        hit = checked(f"clipped of {name!r}", clipped[name], keep.shape).astype(bool)
        total = np.nansum(np.abs(push))
        if total == 0:
            raise ValueError(f"pushes of {name!r} are all 0: there is no share to draw")
        shares[name] = push / total + 0.0
        marks[name] = np.where(hit & keep, "○" if name in capped else "×", "").tolist()
    return shares, marks


def _words(tokens, labels, shape):
    """(B, T) hover texts."""
    if len(tokens) != shape[0] or len(labels) != shape[0] or any(not 0 < len(row) <= shape[1] for row in tokens):
        raise ValueError(f"tokens and row_labels must fit a mask of shape {shape}: B rows, each of 1 to T tokens")
    return [[visible(t) for t in row] + [""] * (shape[1] - len(row)) for row in tokens]


def _explain_marks(fig):
    for name, symbol in (("cut by the clip", "x-thin"), ("weight capped", "circle-open"), ("masked", "square")):
        edge = dict(color=TEXT, width=0 if name == "masked" else 2)
        marker = dict(symbol=symbol, size=10, color="#B9B9B9" if name == "masked" else TEXT, line=edge)
        fig.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=marker, showlegend=True)


def push_curves_figure(ratio, curves, *, title=None):
    """Draw the push on a token's log-prob against its ratio, one panel for A = +1 and one for A = -1.

    Args:
        ratio: (N,) rising ratios. curves: dict from a variant's name to (2, N) pushes, for A = +1 and for A = -1.
    Returns:
        `go.Figure`; one trace a variant and panel, the panels in turn.
    Raises:
        ValueError: on other shapes.

    >>> fig = push_curves_figure([0.5, 1.0], {"no clip": [[0.5, 1.0], [-0.5, -1.0]]})
    >>> fig.data[1].y
    (-0.5, -1.0)
    """
    ratio = checked("ratio", ratio, (None,))
    curves = {name: checked(f"curves of {name!r}", pair, (2, len(ratio))) + 0.0 for name, pair in curves.items()}
    fig = subplots(1, 2, x=0.1, subplot_titles=["A = +1", "A = −1"])
    for i, (name, pair) in enumerate(curves.items()):
        for col, push in enumerate(pair, start=1):
            fig.add_scatter(x=rounded(ratio), y=rounded(push), **_line(i, name, col), row=1, col=col)
    fig.update_xaxes(title_text="ratio π / π_old")
    fig.update_yaxes(title_text="push on the log-prob", col=1)
    ends = "; ".join(
        f"{name} at ratio {ratio[-1]:g}: {pair[0, -1]:.3g} and {pair[1, -1]:.3g}" for name, pair in curves.items()
    )
    return _with_headings(fig, 290, f"The push on a token against its ratio, for A = +1 and -1. {ends}.", title)


def length_figure(lengths, pushes, *, title=None):
    """Draw the push per token and per completion against the completion's length, both on log axes.

    Args:
        lengths: (N,) tokens of a completion, each >= 1. pushes: dict from a name to (N,) pushes per token, each > 0.
    Returns:
        `go.Figure`; for each name one trace per token, one per completion.
    Raises:
        ValueError: on other shapes, or a number that a log axis has no place for.

    >>> length_figure([1, 4], {"1 / |o|": [1.0, 0.25]}).data[1].y
    (1.0, 1.0)
    """
    lengths = checked("lengths", lengths, (None,))
    pushes = {name: checked(f"pushes of {name!r}", push, lengths.shape) for name, push in pushes.items()}
    if (lengths < 1).any() or any((push <= 0).any() for push in pushes.values()):
        raise ValueError("lengths must be >= 1 and pushes > 0, for log axes")
    fig = subplots(1, 2, x=0.12, subplot_titles=["each token", "the whole completion"])
    for i, (name, push) in enumerate(pushes.items()):
        for col, values in enumerate((push, push * lengths), start=1):
            look = dict(marker=dict(size=6, symbol=("circle", "square", "diamond", "cross")[i % 4]))
            fig.add_scatter(x=rounded(lengths), y=rounded(values), **_line(i, name, col), **look, row=1, col=col)
            fig.data[-1].mode = "lines+markers"
    fig.update_xaxes(title_text="length (tokens)", type="log", tickvals=rounded(lengths))
    fig.update_yaxes(title_text="push (weight · |A|)", col=1)
    fig.update_yaxes(type="log", dtick=1)
    grow = "; ".join(
        f"{name} by {push[-1] / push[0]:.3g} a token, {push[-1] * lengths[-1] / push[0] / lengths[0]:.3g} a completion"
        for name, push in pushes.items()
    )
    alt = f"Push against length, from {lengths[0]:g} to {lengths[-1]:g} tokens. It changes with {grow}."
    return _with_headings(fig, 290, alt, title)


def difficulty_figure(success, curves, *, y_title, title=None):
    """Draw how hard a group pushes against its prompt's probability of success.

    Args:
        success: (N,) probabilities, rising. curves: dict from a name to (N,) values. y_title: axis title.
    Returns:
        `go.Figure`, one trace a name.
    Raises:
        ValueError: on other shapes, or a probability outside [0, 1].

    >>> difficulty_figure([0.0, 0.5], {"none": [0.0, 1.0]}, y_title="mean |A|").data[0].y
    (0.0, 1.0)
    """
    success = checked("success", success, (None,))
    if (success < 0).any() or (success > 1).any():
        raise ValueError(f"success must lie in [0, 1], got {success.min():g} to {success.max():g}")
    fig = subplots(1, 1)
    tops = []
    for i, (name, values) in enumerate(curves.items()):
        values = checked(f"curves of {name!r}", values, success.shape)
        fig.add_scatter(x=rounded(success), y=rounded(values), **_line(i, name, 1))
        tops.append(f"{name} is highest at {success[values.argmax()]:.3g}, {values.max():.3g}")
    fig.update_xaxes(title_text="probability that a completion is right")
    fig.update_yaxes(title_text=y_title, rangemode="tozero")
    return finish(fig, height=280, alt=f"{y_title} against the probability of success; {'; '.join(tops)}.", title=title)


def _line(i, name, col):
    return dict(mode="lines", name=name, line=line_style(i), marker_color=colour(i), showlegend=col == 1)


def _with_headings(fig, height, alt, title):
    """`finish`, with room for the panels' headings."""
    fig.update_annotations(font=dict(size=13, color=TEXT))
    fig = finish(fig, height=height, alt=alt, title=title)
    return fig.update_layout(margin_t=fig.layout.margin.t + 15, height=fig.layout.height + 15)
