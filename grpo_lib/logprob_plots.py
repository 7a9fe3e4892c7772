"""Scoring in pictures: which logits score which token, how much memory it takes, how exact it is."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib._arguments import check_count
from grpo_lib.plot_style import TEMPLATE, TEXT, checked, colour, finish, line_style, rounded
from grpo_lib.token_plots import shortened

__all__ = ["alignment_figure", "log_prob_error_figure", "memory_bars"]

# kind of cell -> (its number, colour, name in the legend)
_KINDS = {
    "padding": (0, "#8F8F8F", "padding"),
    "prompt": (1, "#CBCBCB", "prompt token"),
    "completion": (2, "#9CCBEE", "completion token, log-prob"),
    "not asked": (3, "#F2F2F2", "logits not asked for"),
    "keep": (4, "#5FC2A2", "logits kept"),
    "drop": (5, "#F0A36B", "asked for and dropped"),
}
_SYMBOLS = ("circle", "square", "diamond", "x")


def alignment_figure(tokens, num_completion_tokens, *, log_probs=None, mask=None, title=None):
    """Draw one row of tokens, the logits that stand at each, and which logits score which completion token.

    Source: the shift by one is that of every autoregressive model: p(y_t | everything before t).

    Args:
        tokens: L + T token strings, prompt first.
        num_completion_tokens: T, from 1 to the number of tokens less one.
        log_probs: (T,) log-probs to write under the tokens that they score.
        mask: L + T numbers, 0 for padding.
    Returns:
        `go.Figure`; one heat map of three rows (tokens, logits, log-probs), an arrow for each scored token, and one
        legend entry for each kind of cell.
    Raises:
        ValueError: if T does not fit, or log_probs or mask are of another length.

    >>> fig = alignment_figure(["1", "+", "2", "=", "3"], 2, log_probs=[-0.1, -0.02])
    >>> [list(row) for row in fig.data[0].text[1:]]
    [['–', '–', 'keep', 'keep', 'drop'], ['', '', '', '-0.10', '-0.02']]
    """
    tokens = [str(token) for token in tokens]
    T = check_count("num_completion_tokens", num_completion_tokens, 1)
    if T >= len(tokens):
        raise ValueError(f"num_completion_tokens must be from 1 to {len(tokens) - 1}, one prompt token less, got {T}")
    L = len(tokens) - T
    real = checked("mask", np.ones(len(tokens)) if mask is None else mask, (len(tokens),))
    values = None if log_probs is None else checked("log_probs", log_probs, (T,))
    top = ["prompt"] * L + ["completion"] * T
    top = [kind if keep else "padding" for kind, keep in zip(top, real, strict=True)]
    middle = ["not asked"] * (L - 1) + ["keep"] * T + ["drop"]
    low = [None] * L + top[L:]
    room = max(3, int(600 / len(tokens) / 5.5))
    text = [
        [shortened(token, room) for token in tokens],
        ["–" if kind == "not asked" else kind for kind in middle],
        [""] * L + ([""] * T if values is None else [f"{v:.2f}" for v in values]),
    ]
    fig = go.Figure(layout=dict(template=TEMPLATE))
    _add_cells(fig, [top, middle, low], text, tokens)
    _add_arrows(fig, L, T)
    _add_kinds_to_legend(fig, [*top, *middle])
    fig.update_xaxes(title_text="position (tokens)", range=[-0.5, len(tokens) - 0.5], showgrid=False, zeroline=False)
    fig.update_xaxes(dtick=1 if len(tokens) <= 30 else None, tick0=0)
    fig.update_yaxes(tickvals=[0, 1, 2], ticktext=["token", "logits here", "log-prob"], range=[2.5, -0.5])
    fig.update_yaxes(showgrid=False)
    alt = (
        f"{L} prompt and {T} completion tokens: the logits at positions {L - 1} to {L + T - 2} score the tokens at "
        f"{L} to {L + T - 1}; those at {L + T - 1} are asked for and dropped."
    )
    return finish(fig, height=170, alt=alt, title=title, legend_traceorder="normal")


def _add_cells(fig, kinds, text, tokens):
    """One heat map whose colours are kinds of cells."""
    shades = [shade for _, shade, _ in _KINDS.values()]
    n = len(shades)
    scale = [[edge, shade] for i, shade in enumerate(shades) for edge in (i / n, (i + 1) / n)]
    widest = max(len(cell) for row in text for cell in row)
    fig.add_heatmap(
        z=[[None if kind is None else _KINDS[kind][0] for kind in row] for row in kinds],
        text=text,
        texttemplate="%{text}",
        textfont=dict(color="#222222", size=int(np.clip(620 / len(tokens) / min(widest, 5) / 0.6, 9, 13))),
        colorscale=scale,
        zmin=-0.5,
        zmax=n - 0.5,
        showscale=False,
        xgap=2,
        ygap=14,
        hovertext=[[_KINDS[kind][2] if kind else "" for kind in row] for row in kinds],
        hovertemplate="position %{x}: %{text}, %{hovertext}<extra></extra>",
    )


def _add_arrows(fig, L, T):
    """From the logits at one position to the token after it, for each completion token."""
    look = dict(text="", showarrow=True, arrowhead=2, arrowwidth=1.5, arrowcolor=TEXT)
    for t in range(T):
        fig.add_annotation(ax=L - 1 + t, ay=1.22, axref="x", ayref="y", x=L + t, y=1.78, **look)


def _add_kinds_to_legend(fig, kinds):
    for kind in dict.fromkeys(kinds):
        _, shade, name = _KINDS[kind]
        look = dict(size=12, symbol="square", color=shade, line=dict(color=TEXT, width=1))
        fig.add_scatter(x=[None], y=[None], mode="markers", marker=look, name=name)


def memory_bars(table, *, x_title="memory beyond the logits (in sizes of the logits)", unit_line=True, title=None):
    """Draw horizontal bars, one group of them for each way to compute something.

    Args:
        table: dict from a way's name to a dict from a measure's name ("forward", …) to a number >= 0; each way has
            the same measures.
        x_title: of the axis, with its unit.
        unit_line: whether to mark 1 on the axis.
    Returns:
        `go.Figure`; one trace of bars a measure.
    Raises:
        ValueError: on an empty table, ways with different measures, or a number that is negative or not finite.

    >>> fig = memory_bars({"whole": {"forward": 1.0}, "row by row": {"forward": 0.25}})
    >>> list(fig.data[0].x), list(fig.data[0].y)
    ([1.0, 0.25], ['whole', 'row by row'])
    """
    ways, measures = _checked_table(table)
    fig = go.Figure(layout=dict(template=TEMPLATE, barmode="group", bargap=0.25, bargroupgap=0.08))
    for i, measure in enumerate(measures):
        values = [float(table[way][measure]) for way in ways]
        hatch = dict(shape=("", "/", ".", "x")[i % 4], bgcolor=colour(i), fgcolor="rgba(255,255,255,0.7)", size=7)
        fig.add_bar(
            x=rounded(values),
            y=ways,
            orientation="h",
            name=measure,
            showlegend=len(measures) > 1,
            text=[f"{v:.2f}" for v in values],
            textposition="outside",
            textfont=dict(color=TEXT, size=12),
            cliponaxis=False,
            marker=dict(color=colour(i), pattern=hatch),
            hovertemplate="%{y}, " + measure + ": %{x}<extra></extra>",
        )
    largest = max(max(row.values()) for row in table.values())
    if unit_line:
        fig.add_vline(x=1, line=dict(color=TEXT, width=1.5, dash="dot"))
    fig.update_xaxes(title_text=x_title, range=[0, 1.1 * max(largest, 1.0 if unit_line else 0.0) or 1.0])
    fig.update_yaxes(autorange="reversed", showgrid=False, tickvals=ways)
    told = (f"{way}: " + ", ".join(f"{m} {table[way][m]:.2f}" for m in measures) for way in ways)
    alt = f"Bars of {x_title}. {'; '.join(told)}."
    height = len(ways) * (16 * len(measures) + 14) + 20
    return finish(fig, height=height, alt=alt, title=title, legend_traceorder="normal")


def _checked_table(table):
    """Its ways and its measures, if each way has the same measures and no number is negative."""
    if not table or not all(table.values()):
        raise ValueError("table must hold at least one way, and each way at least one measure")
    ways, measures = list(table), list(next(iter(table.values())))
    for way, row in table.items():
        if list(row) != measures:
            raise ValueError(f"table[{way!r}] must have the measures {measures}, got {list(row)}")
        if (checked(f"table[{way!r}]", list(row.values()), (len(measures),)) < 0).any():
            raise ValueError(f"table[{way!r}] must hold numbers >= 0, got {list(row.values())}")
    return ways, measures


def log_prob_error_figure(errors, *, title=None):
    """Draw how far log-probs are off, from the mean to the largest error, for each number format and each way.

    Args:
        errors: dict from a way's name to a dict from a format's name ("fp32", …) to a row of errors of any length;
            their absolute values are taken, and each row must hold one that is not 0.
    Returns:
        `go.Figure`; one trace a way: for each format a line from the mean (open) to the largest error (filled).
    Raises:
        ValueError: on an empty table, ways with different formats, or a row without an error that is not 0.

    >>> fig = log_prob_error_figure({"library": {"fp32": [1e-6, -3e-6], "bf16": [0.02, 0.0]}})
    >>> fig.data[0].y
    (2e-06, 3e-06, None, 0.01, 0.02, None)
    """
    if not errors or not all(errors.values()):
        raise ValueError("errors must hold at least one way, and each way at least one format")
    formats = list(next(iter(errors.values())))
    fig, largest = go.Figure(layout=dict(template=TEMPLATE)), {}
    for i, (way, rows) in enumerate(errors.items()):
        if list(rows) != formats:
            raise ValueError(f"errors[{way!r}] must have the formats {formats}, got {list(rows)}")
        x, y, symbols, symbol = [], [], [], _SYMBOLS[i % len(_SYMBOLS)]
        for j, name in enumerate(formats):
            row = np.abs(checked(f"errors[{way!r}][{name!r}]", rows[name], (None,)))
            if not row.any():
                raise ValueError(f"errors[{way!r}][{name!r}] must hold an error that is not 0: the axis is a logarithm")
            place = j + 0.22 * (i - (len(errors) - 1) / 2)
            x, y = x + [place, place, None], y + [*rounded([row.mean(), row.max()]), None]
            symbols += [f"{symbol}-open", symbol, symbol]
            largest[name] = max(largest.get(name, 0.0), row.max())
        look = dict(mode="lines+markers", line=line_style(i), marker=dict(symbol=symbols, size=10), name=way)
        fig.add_scatter(x=x, y=y, hovertemplate="%{y} nats<extra></extra>", **look)
    fig.update_xaxes(tickvals=list(range(len(formats))), ticktext=formats, range=[-0.6, len(formats) - 0.4])
    fig.update_xaxes(title_text="number format of the logits", showgrid=False)
    fig.update_yaxes(
        title_text="error of a log-prob (nats)<br>open: mean, filled: largest", type="log", exponentformat="e"
    )
    alt = "Largest error of a log-prob in nats: " + ", ".join(f"{name} {v:.2g}" for name, v in largest.items()) + "."
    return finish(fig, height=260, alt=alt, title=title, legend_traceorder="normal")
