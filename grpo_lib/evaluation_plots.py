"""Accuracies with their intervals, the paired table of two models, the power of a comparison."""

import math

import plotly.graph_objects as go

from grpo_lib.comparison import PairedTable
from grpo_lib.plot_style import TEMPLATE, TEXT, checked, colour, finish, line_style, one_shade_each, rounded

__all__ = ["interval_figure", "paired_table_figure", "power_figure"]


def interval_figure(rows, *, x_title, reference=None, reference_name="reference", title=None):
    """Draw one dot with its interval a row: estimates that want to be compared.

    Args:
        rows: a dict from a row's name to (value, low, high), drawn from top to bottom; or a dict from a group's name
            to such a dict, each group in a colour of its own.
        x_title: the axis, with its unit. reference: a value to mark with a dotted line, named `reference_name`.
    Returns:
        `go.Figure`; one trace a group, with error bars.
    Raises:
        ValueError: on no row, a row that is not three finite numbers, or a value outside its interval.

    >>> fig = interval_figure({"before": (0.2, 0.1, 0.4), "after": (0.9, 0.7, 1.0)}, x_title="accuracy")
    >>> fig.data[0].x, fig.data[0].error_x.array
    ((0.2, 0.9), (0.2, 0.1))
    """
    groups = rows if rows and all(isinstance(found, dict) for found in rows.values()) else {"": dict(rows)}
    names = list(dict.fromkeys(name for found in groups.values() for name in found))
    if not names:
        raise ValueError("interval_figure needs at least one row")
    fig, told = go.Figure(layout=dict(template=TEMPLATE)), []
    for g, (group, found) in enumerate(groups.items()):
        values = checked(f"rows of {group!r}" if group else "rows", list(found.values()), (len(found), 3))
        for name, (value, low, high) in zip(found, values, strict=True):
            if not low <= value <= high:
                raise ValueError(f"{name!r}: the value {value:g} must lie in its interval, got {low:g} to {high:g}")
            told.append(f"{group} {name}".strip() + f" {value:.3g} [{low:.3g}, {high:.3g}]")
        beside = 0.26 * (g - (len(groups) - 1) / 2)  # groups stand beside each other within a row
        _add_intervals(fig, g, group, [names.index(name) + beside for name in found], list(found), values)
    if reference is not None:
        dotted = dict(color=TEXT, dash="dot", width=1.5)
        fig.add_vline(x=float(reference), line=dotted)
        fig.add_scatter(x=[None], y=[None], mode="lines", line=dotted, name=reference_name)
    ticks = dict(tickvals=list(range(len(names))), ticktext=names)
    fig.update_yaxes(range=[len(names) - 0.5, -0.5], title_text="", **ticks)
    fig.update_xaxes(title_text=x_title)
    alt = f"{x_title}, with intervals: {'; '.join(told)}."
    return finish(fig, height=(24 + 8 * len(groups)) * len(names) + 20, alt=alt, title=title)


def _add_intervals(fig, g, group, places, names, values):
    value, low, high = values.T
    ends = dict(array=rounded(high - value), arrayminus=rounded(value - low))
    fig.add_scatter(
        x=rounded(value),
        y=rounded(places),
        name=group,
        mode="markers",
        marker=dict(color=colour(g), size=10, symbol=("circle", "square", "diamond", "cross")[g % 4]),
        error_x=dict(type="data", symmetric=False, thickness=2, **ends),
        customdata=names,
        hovertemplate="%{customdata}: %{x:.3f}<extra>%{fullData.name}</extra>",
        showlegend=bool(group),
    )


def paired_table_figure(table, *, names=("before", "after"), title=None):
    """Draw the paired table: the two cells that agree in grey, what was gained in blue, what was lost in vermilion.

    Args:
        table: a `grpo_lib.comparison.PairedTable`. names: of the two models.
    Returns:
        `go.Figure`; its first trace is a heat map, rows the first model (right above), columns the second.
    Raises:
        TypeError: if it is no `PairedTable`.

    >>> fig = paired_table_figure(PairedTable(both=1, gained=8, lost=2, neither=9))
    >>> fig.data[0].text
    (['1<br>right twice', '2<br>lost'], ['8<br>gained', '9<br>wrong twice'])
    """
    if not isinstance(table, PairedTable):
        raise TypeError(f"table must be a PairedTable, as paired_table gives it, got {type(table).__name__}")
    first, second = names
    cells = [
        [(table.both, "right twice"), (table.lost, "lost")],
        [(table.gained, "gained"), (table.neither, "wrong twice")],
    ]
    fig = go.Figure(layout=dict(template=TEMPLATE))
    shades = ("#D9D9D9", "#1F7FC1", "#D55E00")
    fig.add_heatmap(
        z=[[0, 2], [1, 0]],
        text=[[f"{count}<br>{word}" for count, word in row] for row in cells],
        texttemplate="%{text}",
        textfont=dict(size=16),
        hoverinfo="skip",
        x=[f"right {second}", f"wrong {second}"],
        y=[f"right {first}", f"wrong {first}"],
        **one_shade_each(shades),
        xgap=3,
        ygap=3,
    )
    fig.update_xaxes(side="top", showgrid=False, title_text="")
    fig.update_yaxes(autorange="reversed", showgrid=False, title_text="")
    alt = (
        f"Of {table.total} problems {table.both} were right {first} and {second}, {table.gained} gained, "
        f"{table.lost} lost, {table.neither} wrong twice."
    )
    fig = finish(fig, height=170, alt=alt, title=title)
    return fig.update_layout(margin_b=15, height=fig.layout.height - 40)  # no axis title and no legend below


def power_figure(num_problems, curves, *, target=0.8, title=None):
    """Draw the chance to notice a difference over the number of problems.

    Args:
        num_problems: M numbers of problems, above 0. curves: a dict from a name to M powers.
        target: drawn as a dotted line.
    Returns:
        `go.Figure`; one trace a curve.
    Raises:
        ValueError: on no curve, a number of problems <= 0, or powers that are not M numbers from 0 to 1.

    >>> fig = power_figure([30, 300], {"10 points": [0.1, 0.7]})
    >>> fig.data[0].name, fig.data[0].y
    ('10 points', (0.1, 0.7))
    """
    x = checked("num_problems", num_problems, (None,))
    if not curves or (x <= 0).any():
        raise ValueError(
            f"power_figure needs a curve and numbers of problems above 0, got {list(curves)} and {x.min():g}"
        )
    fig, reached = go.Figure(layout=dict(template=TEMPLATE)), []
    for i, (name, powers) in enumerate(curves.items()):
        y = checked(f"powers of {name!r}", powers, (len(x),))
        if not ((y >= 0) & (y <= 1)).all():
            raise ValueError(f"powers of {name!r} must lie between 0 and 1, got {y.min():g} to {y.max():g}")
        fig.add_scatter(x=rounded(x), y=rounded(y), mode="lines", name=name, line=line_style(i))
        enough = x[y >= target]
        reached.append(f"{name} at {enough[0]:g}" if len(enough) else f"{name} not at all")
    fig.add_hline(y=target, line=dict(color=TEXT, dash="dot", width=1.5))
    marks = [n for n in (10, 30, 100, 300, 1000, 3000, 10000, 30000) if x.min() <= n <= x.max()]
    ticks = dict(tickvals=marks, ticktext=[f"{n:,}" for n in marks])
    ends = [math.log10(x.min()), math.log10(x.max()) + 0.08]  # room for the last tick's label
    fig.update_xaxes(title_text="number of problems (log)", type="log", range=ends, **ticks)
    fig.update_yaxes(title_text="chance to notice<br>the difference", range=[0, 1.03])
    told = f"from {x.min():g} to {x.max():g} problems; {target:g} is reached: {'; '.join(reached)}"
    alt = f"Chance to notice a difference, {told}."
    return finish(fig, height=260, alt=alt, title=title)
