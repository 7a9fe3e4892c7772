"""Figures of scaling out: two engines' losses, a step's time by phase, a model of it beside what was measured."""

import math
from collections.abc import Mapping
from dataclasses import asdict

import plotly.graph_objects as go

from grpo_lib.plot_style import TEMPLATE, TEXT, checked, colour, finish, rounded

__all__ = ["parity_figure", "published_figure", "step_time_figure"]

SYMBOLS = ("circle", "square", "diamond", "cross")
SMALLEST = 1e-19  # where a difference of exactly 0 is drawn


def parity_figure(rows, *, limits=(1e-6, 1e-5), title=None):
    """Draw how far two engines' losses and gradients lie apart, one dot a variant, on a logarithmic axis.

    Args:
        rows: a list of `LossRow` (variant, ours, trl, difference, gradient_difference, source). What stands before the
            first comma of a variant is its row in the figure.
        limits: the largest difference allowed of the loss, and of the gradient; two dotted lines.
    Returns:
        `go.Figure`; a trace of dots for the losses, one for the gradients, then the two limits.
    Raises:
        ValueError: on no rows, or a difference that is negative or not finite.

    >>> from grpo_lib.trl_parity import LossRow
    >>> fig = parity_figure([LossRow("grpo, token", 0.5, 0.5, 1e-17, 0.0, "live")])
    >>> fig.data[0].x, fig.data[0].y, fig.data[1].x  # an exact 0 lies on the left edge
    ((1e-17,), ('grpo',), (1e-19,))
    """
    if not rows:
        raise ValueError("rows must hold at least one variant")
    names = [row.variant.split(",")[0] for row in rows]
    fig = go.Figure(layout=dict(template=TEMPLATE))
    for i, (what, column) in enumerate({"loss": "difference", "gradient": "gradient_difference"}.items()):
        values = checked(column, [getattr(row, column) for row in rows], (len(rows),))
        if (values < 0).any():
            raise ValueError(f"{column} must hold numbers >= 0, got {values.min():g}")
        fig.add_scatter(
            x=rounded([max(value, SMALLEST) for value in values]),
            y=names,
            mode="markers",
            name=what,
            marker=dict(color=colour(i), symbol=SYMBOLS[i], size=9, opacity=0.8),
            customdata=[row.variant for row in rows],
            hovertemplate="%{customdata}: %{x:.1e}<extra>" + what + "</extra>",
        )
    for what, limit, dash in zip(("loss", "gradient"), limits, ("dot", "4px 5px"), strict=True):
        line = dict(color=TEXT, dash=dash, width=1.5)
        fig.add_vline(x=limit, line=line)
        fig.add_scatter(x=[None], y=[None], mode="lines", line=line, name=f"limit of the {what}")
    edges = [math.log10(SMALLEST) - 0.5, math.log10(max(limits)) + 0.5]
    fig.update_xaxes(type="log", title_text="largest difference (0 at the left edge)", range=edges, dtick=3)
    fig.update_xaxes(exponentformat="power")
    fig.update_yaxes(autorange="reversed", title_text="")
    worst, steepest = max(row.difference for row in rows), max(row.gradient_difference for row in rows)
    alt = (
        f"How far two engines lie apart in {len(rows)} variants: the losses by at most {worst:.1e}, limit "
        f"{limits[0]:g}; the gradients by at most {steepest:.1e}, limit {limits[1]:g}."
    )
    return finish(fig, height=26 * len(set(names)) + 20, alt=alt, title=title)


def step_time_figure(times, *, x_title="GPUs", title=None):
    """Draw what a step's time is made of, one stacked bar a setting.

    Args:
        times: a dict from a setting's name (a number of GPUs, say) to a `StepTime`.
        x_title: what the settings are.
    Returns:
        `go.Figure`; one trace of bars a phase, in the order of the step.
    Raises:
        ValueError: on no setting.

    >>> from grpo_lib.step_time import StepTime
    >>> fig = step_time_figure({1: StepTime(2.0, 1.0, 3.0, 0.0), 2: StepTime(2.0, 0.5, 1.5, 0.1)})
    >>> [(bars.name, bars.y) for bars in fig.data][:2]
    [('generation', (2.0, 2.0)), ('scoring', (1.0, 0.5))]
    """
    if not isinstance(times, Mapping) or not times:
        raise ValueError(f"times must be a dict from a setting to a StepTime, at least one, got {times!r}")
    settings = [str(setting) for setting in times]
    rows = [asdict(time) for time in times.values()]
    fig = go.Figure(layout=dict(template=TEMPLATE, barmode="stack", bargap=0.35))
    for i, phase in enumerate(rows[0]):
        hatch = dict(shape=("", "/", ".", "x")[i % 4], bgcolor=colour(i), fgcolor="rgba(255,255,255,0.7)", size=7)
        fig.add_bar(
            x=settings,
            y=rounded([row[phase] for row in rows]),
            name=phase,
            marker=dict(color=colour(i), pattern=hatch),
            hovertemplate=f"{phase}, %{{x}}: %{{y:.3g}} s<extra></extra>",
        )
    totals = [time.total for time in times.values()]
    fig.add_scatter(
        x=settings,
        y=rounded(totals),
        mode="text",
        text=[f"{total:.3g}" for total in totals],
        textposition="top center",
        textfont=dict(color=TEXT, size=12),
        showlegend=False,
        hoverinfo="skip",
        cliponaxis=False,
    )
    fig.update_xaxes(type="category", title_text=x_title)
    fig.update_yaxes(title_text="seconds a step", range=[0, 1.12 * max(totals)])
    share = [row["generation"] / total for row, total in zip(rows, totals, strict=True)]
    alt = (
        f"Seconds a step against {x_title}: from {totals[0]:.3g} at {settings[0]} to {totals[-1]:.3g} at "
        f"{settings[-1]}; the share of generation goes from {share[0]:.2f} to {share[-1]:.2f}."
    )
    return finish(fig, height=280, alt=alt, title=title, legend_traceorder="normal")


def published_figure(rows, *, title=None):
    """Draw published seconds a step beside the model's, one line a row, on a logarithmic axis.

    Args:
        rows: what `compare_with_published` returns.
    Returns:
        `go.Figure`; a trace of the published times, one of the model's.
    Raises:
        ValueError: on no rows.

    >>> from grpo_lib.published_steps import compare_with_published
    >>> fig = published_figure(compare_with_published())
    >>> fig.data[0].name, len(fig.data[0].x)
    ('published', 13)
    """
    if not rows:
        raise ValueError("rows must hold at least one published step")
    names = [f"{row['shape']}, {row['num_gpus']} x {row['gpu']}" for row in rows]
    values = {"published": [row["published"] for row in rows], "model": [row["model"].total for row in rows]}
    fig = go.Figure(layout=dict(template=TEMPLATE))
    for i, (name, seconds) in enumerate(values.items()):
        fig.add_scatter(
            x=rounded(seconds),
            y=names,
            mode="markers",
            name=name,
            marker=dict(color=colour(i), symbol=SYMBOLS[i], size=11),
            hovertemplate="%{y}: %{x:.1f} s<extra>" + name + "</extra>",
        )
    gap = dict(mode="lines", line=dict(color=TEXT, width=1), showlegend=False, hoverinfo="skip")
    for name, *ends in zip(names, *values.values(), strict=True):
        fig.add_scatter(x=rounded(ends), y=[name, name], **gap)
    fig.update_xaxes(type="log", title_text="seconds a step", tickvals=[20, 50, 100, 200, 500, 1000])
    fig.update_yaxes(autorange="reversed", title_text="")
    factors = [row["factor"] for row in rows]
    alt = (
        f"Seconds a step of {len(rows)} published runs beside a model of bounds: "
        f"published over model {min(factors):.2f} to {max(factors):.2f}."
    )
    return finish(fig, height=32 * len(rows) + 20, alt=alt, title=title)
