"""The bug museum in pictures: what a run logs, with a bug and without; which check catches which bug."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib._arguments import check_choice
from grpo_lib.museum_runs import COLUMNS, exhibit_runs
from grpo_lib.plot_style import TEMPLATE, checked, finish, line_style, one_shade_each, rounded, subplots

__all__ = ["catch_figure", "exhibit_figure", "padding_figure", "watched_figure"]

# column → (axis title, the least value that a log axis shows, or None for a linear axis)
PANELS = {
    "reward_mean": ("reward", None),
    "completion_length": ("length (tokens)", None),
    "entropy": ("entropy (nats a token)", None),
    "kl": ("KL (nats a token)", 1e-6),
    "grad_norm": ("gradient norm", 1e-6),
    "ratio_max": ("largest ratio", 1.0),
}
MEASURES = {
    "true": ("right answers (share)", None),
    "drift": ("KL to the start (nats)", 1e-6),
    "surprise": ("surprise - entropy (nats)", None),
}


def exhibit_figure(which, *, names=("fixed", "with the bug"), title=None):
    """Draw what the runs of an exhibit logged, one line a seed: with the bug and without.

    Args:
        which: number or name of an exhibit that was run. names: of the runs without the bug and with it.
    Returns:
        `go.Figure` of six panels.
    Raises:
        ValueError: on an exhibit that the museum does not have, or one that was not run.

    >>> fig = exhibit_figure(1)
    >>> len(fig.data), fig.data[0].name, fig.data[5].name
    (60, 'fixed', 'with the bug')
    """
    arms = dict(zip(names, exhibit_runs(which).values(), strict=True))
    return _curves(arms, PANELS, title or (f"Exhibit {which}" if isinstance(which, int) else None))


def watched_figure(which, *columns, title=None):
    """Draw a few columns of an exhibit's runs, also those that a run does not log.

    Args:
        which: number or name of an exhibit that was run.
        columns: one to three of `grpo_lib.museum_runs.COLUMNS`.
    Returns:
        `go.Figure`, one panel a column.
    Raises:
        ValueError: on an unknown exhibit or column.

    >>> [axis.title.text for axis in watched_figure(1, "true", "drift").select_yaxes()]
    ['right answers (share)', 'KL to the start (nats)']
    """
    for column in columns:
        check_choice("column", column, COLUMNS)
    if not 1 <= len(columns) <= 3:
        raise ValueError(f"watched_figure draws one to three columns, got {len(columns)}")
    known = PANELS | MEASURES
    return _curves(exhibit_runs(which), {column: known[column] for column in columns}, title)


def _curves(arms, panels, title):
    cols = min(3, len(panels))
    rows = -(-len(panels) // cols)
    fig, ends = subplots(rows, cols, x=0.09, y=0.15), []
    for i, (column, (axis, least)) in enumerate(panels.items()):
        place = dict(row=1 + i // cols, col=1 + i % cols)
        for s, (name, runs) in enumerate(arms.items()):
            values = [[step[column] for step in run["steps"]] for run in runs]
            values = checked(f"{column} of {name!r}", values, (None, None))
            shown = values if least is None else values.clip(min=least)
            for r, row in enumerate(shown):
                legend = dict(name=name, legendgroup=name, showlegend=i == r == 0)
                style = {**line_style(s), "width": 1.3}
                fig.add_scatter(x0=1, y=rounded(row), mode="lines", line=style, **legend, **place)
            ends.append(f"{axis} {name} {values[:, -1].mean():.3g}")
        fig.update_yaxes(title_text=axis, title_font_size=12, rangemode="tozero", **place)
        if least is not None:
            every = [step[column] for runs in arms.values() for run in runs for step in run["steps"]]
            fig.update_yaxes(**_log_axis(least, max(10 * least, *every)), **place)
    for col in range(1, cols + 1):
        fig.update_xaxes(title_text="training step", row=rows, col=col)
    alt = f"Curves over {values.shape[1]} training steps, one line a seed; means at the end: {'; '.join(ends)}."
    return finish(fig, height=200 * rows + 10, alt=alt, title=title)


def _log_axis(least, largest):
    """A logarithmic axis with a little room at both ends and few, plain ticks."""
    low, high = float(np.log10(least)), float(np.log10(largest))
    if high - low > 2:
        places = range(round(low), int(high) + 1, max(1, round((high - low) / 4)))
        ticks = {10.0**place: f"10<sup>{place}</sup>" if place else "1" for place in places}
    else:
        ticks = {value: f"{value:g}" for value in (1, 2, 5, 10, 20, 50, 100) if least <= value <= largest}
    room = 0.04 * (high - low)
    return dict(
        type="log", range=[low - room, high + room], tickvals=list(ticks), ticktext=list(ticks.values()), rangemode=None
    )


def catch_figure(found, *, title=None):
    """Draw which check fails on which exhibit.

    Args:
        found: a dict from an exhibit's name to a dict from a check's name to (finding with the bug, finding without),
            as `grpo_lib.museum_tour.cross_check` returns it.
    Returns:
        `go.Figure`; one heat map: 0 both hold, 1 caught (✗: the broken one fails, the fixed one holds), 2 the fixed
        one fails (✗✗).
    Raises:
        ValueError: on no exhibit, or exhibits with different checks.

    >>> class Holds:
    ...     holds = True
    >>> class Fails:
    ...     holds = False
    >>> catch_figure({"a bug": {"check_it": (Fails, Holds), "check_other": (Holds, Holds)}}).data[0].z
    ([1, 0],)
    """
    checks = list(next(iter(found.values()), {}))
    if not checks or any(list(row) != checks for row in found.values()):
        raise ValueError("found must hold at least one exhibit, and each exhibit the same checks")
    kinds = [[_kind(*pair) for pair in row.values()] for row in found.values()]
    names = [f"{i} {name}" for i, name in enumerate(found, start=1)]
    fig = go.Figure(layout=dict(template=TEMPLATE))
    shades = ("rgba(128,128,128,0.15)", "#1F7FC1", "#D55E00")
    fig.add_heatmap(
        z=kinds,
        x=[check.removeprefix("check_").replace("_", " ") for check in checks],
        y=names,
        text=[[("", "✗", "✗✗")[kind] for kind in row] for row in kinds],
        texttemplate="%{text}",
        textfont=dict(color="#FFFFFF"),
        **one_shade_each(shades),
        xgap=2,
        ygap=2,
        hovertemplate="%{y}: %{x}<extra></extra>",
    )
    fig.update_xaxes(side="top", tickangle=-60, showgrid=False, title_text="", type="category")
    fig.update_yaxes(autorange="reversed", showgrid=False, title_text="", type="category")
    caught = sum(kind == 1 for row in kinds for kind in row)
    wrong = sum(kind == 2 for row in kinds for kind in row)
    alt = f"{len(names)} exhibits against {len(checks)} checks: {caught} caught, {wrong} where the fixed code fails."
    return finish(fig, height=24 * len(names) + 180, alt=alt, title=title)


def _kind(broken, fixed):
    return 2 if not fixed.holds else int(not broken.holds)


def padding_figure(errors, *, title=None):
    """Draw how far log-probs move with the number of padding tokens on a row's left.

    Args:
        errors: a dict from a model's name to N errors in nats, of 0, 1, …, N - 1 padding tokens.
    Returns:
        `go.Figure`; one line a model.
    Raises:
        ValueError: on no model, or models with different N.

    >>> padding_figure({"GPT-2": [0.0, 0.7], "rotary": [0.0, 0.0]}).data[0].y
    (0.0, 0.7)
    """
    if not errors:
        raise ValueError("padding_figure needs at least one model")
    length = len(next(iter(errors.values())))
    fig = go.Figure(layout=dict(template=TEMPLATE))
    for s, (name, row) in enumerate(errors.items()):
        row = checked(f"errors of {name!r}", row, (length,))
        marker = dict(size=7, symbol=("circle", "square", "diamond")[s % 3])
        lines = dict(mode="lines+markers", line=line_style(s), marker=marker)
        fig.add_scatter(x=list(range(length)), y=rounded(row), name=name, **lines)
    fig.update_xaxes(title_text="padding on the left (tokens)", dtick=1)
    fig.update_yaxes(title_text="largest error (nats)", rangemode="tozero")
    ends = ", ".join(f"{name} {row[-1]:.3g}" for name, row in errors.items())
    return finish(fig, height=240, alt=f"Errors with {length - 1} padding tokens, in nats: {ends}.", title=title)
