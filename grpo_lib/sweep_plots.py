"""A result against a swept setting: one dot a seed, and their mean."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib.plot_style import TEMPLATE, TEXT, checked, colour, finish, line_style, rounded


def sweep_figure(x, y_by_seed, *, x_title, y_title, log_x=False, exact=None, exact_name="exact", title=None):
    """Draw a result against a swept setting: one dot a seed, a line through the means.

    Args:
        x: S settings, numbers or names.
        y_by_seed: S rows of results, one a seed (rows may differ in length). Or a dict from a name to such rows, for
            several sweeps in one picture.
        x_title, y_title: axis titles, with units.
        log_x: whether x is drawn on a log axis; needs numbers above 0.
        exact: a number, or S numbers, that the results should come to; drawn dotted.
        exact_name: the name of that line in the legend: what it is, where it is not exact ("formula").
    Raises:
        ValueError: if the rows are not one a setting, a row is empty or not finite, or log_x meets a value <= 0.

    >>> fig = sweep_figure([1, 2], [[0.0, 1.0], [1.0, 1.0]], x_title="beta", y_title="accuracy")
    >>> fig.data[-1].name, fig.data[-1].y
    ('mean', (0.5, 1.0))
    """
    x = list(x)
    sweeps = dict(y_by_seed) if isinstance(y_by_seed, dict) else {"": y_by_seed}
    numeric = all(isinstance(v, (int, float, np.integer, np.floating)) for v in x)
    if log_x and not (numeric and all(v > 0 for v in x)):
        raise ValueError(f"log_x needs numbers above 0 in x, got {x!r}")
    x = rounded(x) if numeric else [str(v) for v in x]
    fig = go.Figure(layout=dict(template=TEMPLATE))
    for s, (name, rows) in enumerate(sweeps.items()):
        rows = [np.asarray(row, dtype=float).ravel() for row in rows]
        _check_sweep(name, x, rows)
        dots_x, dots_y = (
            [v for v, row in zip(x, rows, strict=True) for _ in row],
            [float(v) for row in rows for v in row],
        )
        marker = dict(color=colour(s), size=8, opacity=0.7, symbol=("circle", "square", "diamond", "cross")[s % 4])
        seed_name, mean_name = (f"{name}, one seed", f"{name}, mean") if name else ("one seed", "mean")
        fig.add_scatter(x=dots_x, y=rounded(dots_y), mode="markers", name=seed_name, marker=marker)
        fig.add_scatter(x=x, y=rounded([row.mean() for row in rows]), mode="lines", name=mean_name, line=line_style(s))
    if exact is not None:
        exact = checked("exact", np.broadcast_to(exact, len(x)) if np.ndim(exact) == 0 else exact, (len(x),))
        dotted = dict(color=TEXT, dash="dot", width=1.5)
        fig.add_scatter(x=x, y=rounded(exact), mode="lines", name=exact_name, line=dotted)
    fig.update_xaxes(title_text=x_title, type="log" if log_x else "linear" if numeric else "category")
    if numeric and len(x) <= 10:
        fig.update_xaxes(tickvals=x, ticktext=[f"{v:g}" for v in x])
    fig.update_yaxes(title_text=y_title)
    return finish(fig, height=280, alt=_sweep_alt(x, sweeps, x_title, y_title), title=title)


def _sweep_alt(x, sweeps, x_title, y_title):
    means = [float(np.mean(row)) for row in next(iter(sweeps.values()))]
    best = int(np.argmax(means))
    return f"{y_title} against {x_title} at {len(x)} settings; the mean is highest, {means[best]:.3g}, at {x[best]}."


def _check_sweep(name, x, rows):
    where = f" of {name!r}" if name else ""
    if not x or len(rows) != len(x):
        raise ValueError(f"y_by_seed{where} must have one row for each of the {len(x)} settings in x, got {len(rows)}")
    for value, row in zip(x, rows, strict=True):
        if not row.size or not np.isfinite(row).all():
            raise ValueError(f"y_by_seed{where} at {value!r} must hold at least one finite number, got {row.tolist()}")
