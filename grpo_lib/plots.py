"""Arrays in, Plotly figures out: the bandit, one GRPO step, training curves, token heat maps, sweeps.

No function here shows anything; return the figure as a cell's last line or call `.show()` on it. Every figure carries
a one-sentence description in `layout.meta["alt"]`, holds plain lists rounded to five digits, and reads on light and
dark pages.
"""

from collections.abc import Mapping
from math import ceil

import numpy as np

from grpo_lib.bandit_plots import bandit_figure, compare_figure
from grpo_lib.clip_plots import clip_figure, updates_figure
from grpo_lib.evaluation_plots import interval_figure, paired_table_figure, power_figure
from grpo_lib.kl_plots import kl_curves_figure, kl_gradient_figure, kl_trace_figure, kl_value_figure
from grpo_lib.logprob_plots import alignment_figure, log_prob_error_figure, memory_bars
from grpo_lib.mask_plots import mask_figure, role_figure
from grpo_lib.plot_style import alt_text, colour, finish, line_style, rounded, subplots
from grpo_lib.rest_plots import band_figure, resting_point_figure, silent_groups_figure
from grpo_lib.reward_plots import attack_figure, proxy_figure
from grpo_lib.sampling_plots import distance_figure, frequencies_figure, temperature_figure
from grpo_lib.step_plot import bandit_step_figure
from grpo_lib.sweep_plots import sweep_figure
from grpo_lib.token_plots import token_heatmap
from grpo_lib.variant_plots import difficulty_figure, length_figure, push_curves_figure, variant_figure

__all__ = [
    "AXIS_TITLES",
    "TRAINING_COLUMNS",
    "alignment_figure",
    "alt_text",
    "attack_figure",
    "band_figure",
    "bandit_figure",
    "bandit_step_figure",
    "clip_figure",
    "compare_figure",
    "difficulty_figure",
    "distance_figure",
    "frequencies_figure",
    "interval_figure",
    "kl_curves_figure",
    "kl_gradient_figure",
    "kl_trace_figure",
    "kl_value_figure",
    "length_figure",
    "log_prob_error_figure",
    "mask_figure",
    "memory_bars",
    "paired_table_figure",
    "power_figure",
    "proxy_figure",
    "push_curves_figure",
    "resting_point_figure",
    "role_figure",
    "silent_groups_figure",
    "sweep_figure",
    "temperature_figure",
    "token_heatmap",
    "training_curves",
    "updates_figure",
    "variant_figure",
]

AXIS_TITLES = {
    "reward_mean": "mean reward<br>(points)",
    "reward_std": "reward spread<br>(points, std)",
    "zero_variance": "groups of equal<br>reward (share)",
    "kl": "KL to reference<br>(nats/token)",
    "kl_median": "KL to reference<br>(nats/token, median)",
    "grad_norm": "gradient norm",
    "entropy": "entropy<br>(nats/token)",
    "completion_length": "completion length<br>(tokens)",
    "truncated": "truncated<br>(share)",
    "clip_fraction": "clipped tokens<br>(share)",
    "ratio_mean": "mean ratio",
    "ratio_max": "largest ratio",
    "loss": "loss (no measure<br>of progress)",
    "learning_rate": "learning rate",
    "beta": "beta",
}
TRAINING_COLUMNS = ("reward_mean", "completion_length", "entropy", "kl", "zero_variance", "truncated")


def training_curves(
    histories, *, columns=TRAINING_COLUMNS, labels=None, smooth=None, band=False, height=None, title=None
):
    """Draw one small panel a column of the step records, all over the same training steps.

    Args:
        histories: the step records of one run (mappings or objects with the columns as attributes), or a dict from a
            setting's name to one run or to a list of runs, one a seed; several seeds are drawn as their mean.
        columns: which columns to draw. A missing value (None, as the KL has when beta is 0) leaves a gap.
        labels: axis titles by column, to add to or replace `AXIS_TITLES`.
        smooth: running mean over this many steps, the last ones up to each step; with one or two settings the raw curve
            stays behind it, pale.
        band: False, "minmax" (also True) or "std": what to shade around the mean of several seeds.
    Returns:
        `go.Figure`; the trace of setting s in panel c has `name` s and the axis title of c.
    Raises:
        ValueError: on an empty history, a column that no record has, or seeds of one setting at different steps.

    >>> fig = training_curves([dict(step=1, kl=None), dict(step=2, kl=0.5)], columns=["kl"])
    >>> fig.data[0].x, fig.data[0].y
    ((1, 2), (None, 0.5))
    """
    if band not in (False, True, "minmax", "std"):
        raise ValueError(f'band must be False, True, "minmax" or "std", got {band!r}')
    if smooth is not None and not (isinstance(smooth, int) and smooth >= 1):
        raise ValueError(f"smooth must be None or a whole number of steps >= 1, got {smooth!r}")
    if isinstance(columns, str) or not columns:
        raise ValueError(f"columns must be a sequence of at least one column name, got {columns!r}")
    settings = _settings(histories)
    across = len(columns) if len(columns) <= 3 else 2 if len(columns) == 4 else 3
    rows = ceil(len(columns) / across)
    fig = subplots(rows, across, x=0.13 if across == 3 else 0.11, y=0.28 / rows if rows > 1 else 0, shared_xaxes="all")
    titles = {**AXIS_TITLES, **(labels or {})}
    told = []
    for c, column in enumerate(columns):
        place, ends = dict(row=c // across + 1, col=c % across + 1), []
        flat = True
        for s, (name, runs) in enumerate(settings.items()):
            steps, values = _table(name, runs, column)
            flat &= not np.nan_to_num(values).any()
            behind = len(settings) <= 2  # raw curves of more settings would hide the smoothed ones
            curve = _add_curve(
                fig, s, name, steps, values, smooth, band, behind, show=c == 0 and len(settings) > 1, place=place
            )
            ends.append(f"{name} {_ends(curve)}" if len(settings) > 1 else _ends(curve))
        told.append(f"{titles.get(column, column).replace('<br>', ' ')} {', '.join(ends)}")
        from_zero = dict(rangemode="tozero") if flat else {}  # else an axis for zeros alone runs from -1 to 1
        fig.update_yaxes(title_text=titles.get(column, column), title_font_size=12, **from_zero, **place)
        fig.update_xaxes(showticklabels=True, **place)
        if c + across >= len(columns):
            fig.update_xaxes(title_text="training step", **place)
    shown = "Curves of a run" if list(settings) == ["run"] else f"Curves of {', '.join(settings)}"
    alt = f"{shown}, training step {steps[0]:g} to {steps[-1]:g}: {'; '.join(told)}."
    return finish(fig, height=height or 185 * rows, alt=alt, title=title)


def _settings(histories):
    """{label: [run, ...]} from one run, or from a dict of runs or of lists of runs; each run a non-empty list."""
    table = histories if isinstance(histories, Mapping) else {"run": histories}
    settings = {}
    for label, runs in table.items():
        runs = list(runs)
        if runs and not isinstance(runs[0], (list, tuple)):
            runs = [runs]
        if not runs or not all(len(run) for run in runs):
            raise ValueError(f"the history of {label!r} is empty; take at least one training step first")
        settings[str(label)] = runs
    if not settings:
        raise ValueError("histories is empty; give at least one run")
    return settings


def _get(record, column):
    return record.get(column, KeyError) if isinstance(record, Mapping) else getattr(record, column, KeyError)


def _table(label, runs, column):
    """Steps (N,) and the values of one column (seeds, N), NaN where a record holds None."""
    raw = [[_get(record, column) for record in run] for run in runs]
    if all(v is KeyError for v in raw[0]):
        known = sorted(runs[0][0] if isinstance(runs[0][0], Mapping) else vars(runs[0][0]))
        raise ValueError(f"no record of {label!r} has the column {column!r}; it has {', '.join(map(str, known))}")
    steps = [[_get(record, "step") for record in run] for run in runs]
    if any(s != steps[0] for s in steps):
        raise ValueError(f"the seeds of {label!r} were recorded at different steps; cut them to the same steps")
    if any(v is KeyError for v in steps[0]):
        raise ValueError(f"a record of {label!r} has no column 'step'")
    return steps[0], np.array([[np.nan if v in (None, KeyError) else v for v in row] for row in raw], dtype=float)


def _running_mean(values, window):
    """Mean over the last `window` steps up to each step, gaps left out; (seeds, N) → (seeds, N)."""
    known = np.cumsum(np.pad(~np.isnan(values), ((0, 0), (window, 0))), axis=1)
    total = np.cumsum(np.pad(np.nan_to_num(values), ((0, 0), (window, 0))), axis=1)
    count = known[:, window:] - known[:, :-window]
    return np.divide(
        total[:, window:] - total[:, :-window], count, out=np.full(values.shape, np.nan), where=~np.isnan(values)
    )


def _add_curve(fig, s, name, steps, values, smooth, band, behind, *, show, place):
    """One setting in one panel: band if asked, raw curve if smoothed, and the (mean) curve, whose values it returns."""
    raw, values = values, _running_mean(values, smooth) if smooth else values
    known = ~np.isnan(values).all(axis=0)
    mean = np.full(len(steps), np.nan)
    mean[known] = np.nanmean(values[:, known], axis=0)
    common = dict(x=steps, name=name, legendgroup=name, mode="lines")
    if band and len(values) > 1:
        low, high = mean.copy(), mean.copy()
        low[known], high[known] = (
            (mean[known] - np.nanstd(values[:, known], axis=0), mean[known] + np.nanstd(values[:, known], axis=0))
            if band == "std"
            else (np.nanmin(values[:, known], axis=0), np.nanmax(values[:, known], axis=0))
        )
        edge = dict(common, line=dict(width=0), showlegend=False, hoverinfo="skip")
        fig.add_scatter(y=rounded(low), **edge, **place)
        fig.add_scatter(y=rounded(high), fill="tonexty", fillcolor=_pale(colour(s)), **edge, **place)
    elif smooth and behind:
        pale = dict(common, line=dict(color=colour(s), width=1), opacity=0.35, showlegend=False, hoverinfo="skip")
        fig.add_scatter(y=rounded(np.nanmean(raw, axis=0) if len(raw) > 1 else raw[0]), **pale, **place)
    marker = dict(mode="lines+markers") if known.sum() == 1 else {}
    fig.add_scatter(y=rounded(mean), line=line_style(s), showlegend=show, **{**common, **marker}, **place)
    return mean[known]


def _ends(curve):
    return f"from {curve[0]:.3g} to {curve[-1]:.3g}" if len(curve) else "not recorded"


def _pale(hexadecimal, alpha=0.2):
    red, green, blue = (int(hexadecimal[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
