"""Where runs end: a band over many runs, the resting point for each beta, groups that teach nothing."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib.plot_style import TEMPLATE, TEXT, checked, colour, finish, line_style, rounded, subplots

BAND = (10, 90)  # percentiles: eight runs in ten lie inside


def band_figure(runs, *, y_title, resting_points=None, x_title="iteration", title=None):
    """Draw many runs a setting as their mean and a band that holds eight in ten of them at each iteration.

    Args:
        runs: dict from a setting's name to (S, N) values, one row a run; N may differ between settings.
        y_title, x_title: axis titles, with units.
        resting_points: dict from some of these names to a number or to numbers, drawn dotted in the setting's colour.
    Returns:
        `go.Figure`; the traces of a setting are its band's two edges, its mean, and its dotted lines.
    Raises:
        ValueError: on an empty or non-finite table, or a resting point of a setting that is not there.

    >>> fig = band_figure({"beta 1": [[0.0, 1.0], [0.0, 3.0]]}, y_title="reward", resting_points={"beta 1": 2.5})
    >>> fig.data[2].name, fig.data[2].y, fig.data[3].y
    ('beta 1', (0.0, 2.0), (2.5, 2.5))
    """
    rests = dict(resting_points or {})
    if not runs or not rests.keys() <= runs.keys():
        raise ValueError(f"resting_points must name settings of runs, {list(runs)}, got {list(rests)}")
    fig = go.Figure(layout=dict(template=TEMPLATE))
    ends = []
    for s, (name, values) in enumerate(runs.items()):
        values = checked(f"runs of {name!r}", values, (None, None))
        steps = list(range(values.shape[1]))
        edge = dict(x=steps, line=dict(width=0), mode="lines", legendgroup=name, showlegend=False, hoverinfo="skip")
        low, high = np.percentile(values, BAND, axis=0)
        fig.add_scatter(y=rounded(low), name=name, **edge)
        fig.add_scatter(y=rounded(high), name=name, fill="tonexty", fillcolor=_pale(colour(s)), **edge)
        mean = rounded(values.mean(axis=0))
        fig.add_scatter(x=steps, y=mean, name=name, mode="lines", line=line_style(s), legendgroup=name)
        for rest in np.atleast_1d(rests.get(name, [])):
            dotted = dict(mode="lines", line=dict(color=colour(s), dash="dot", width=1.5), showlegend=False)
            ends_at = dict(x=[0, steps[-1]], y=rounded([rest, rest]))
            fig.add_scatter(**ends_at, name=f"{name} at rest", legendgroup=name, **dotted)
        ends.append(f"{name} ends at {mean[-1]:.3g}")
    fig.update_xaxes(title_text=x_title)
    fig.update_yaxes(title_text=y_title)
    return finish(fig, height=300, alt=f"{y_title}, mean of several runs: {'; '.join(ends)}.", title=title)


def _pale(hexadecimal):
    red, green, blue = (int(hexadecimal[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.22)"


def resting_point_figure(betas, panels, *, start, critical=None, word="ant", title=None):
    """Draw where runs rest for each beta: stable points as lines, unstable ones as thin dotted lines.

    Args:
        betas: (B,) numbers > 0, rising; drawn on a log axis.
        panels: dict from a panel's name to a dict from a curve's name to (stable (B,), unstable (B,)), NaN where there
            is no such point, as `grpo_lib.bandit_runs.resting_curve` gives them.
        start: the reward mass of the reference, a grey line.
        critical: a beta to mark by a vertical line in the first panel, or None.
        word: the word, or words, that pay.
    Raises:
        ValueError: if betas do not rise from above 0, or a curve does not fit.

    >>> fig = resting_point_figure([1, 2], {"reverse": {"plain": ([0.5, 0.4], [np.nan, np.nan])}}, start=0.2)
    >>> fig.data[0].name, fig.data[0].y
    ('plain', (0.5, 0.4))
    """
    betas = checked("betas", betas, (None,))
    if betas[0] <= 0 or (np.diff(betas) <= 0).any():
        raise ValueError(f"betas must rise from above 0, got {betas}")
    fig = subplots(1, len(panels), x=0.06, shared_yaxes="rows", subplot_titles=list(panels))
    known = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    for col, curves in enumerate(panels.values(), start=1):
        for name, (stable, unstable) in curves.items():
            s, first = known.index(name), col == 1
            group = dict(x=rounded(betas), mode="lines", legendgroup=name, row=1, col=col)
            for values, thin in ((stable, False), (unstable, True)):
                values = np.asarray(values, dtype=float)
                if values.shape != betas.shape:
                    raise ValueError(f"{name!r} must have one value for each of {len(betas)} betas, got {values.shape}")
                if np.isnan(values).all():
                    continue
                line = dict(color=colour(s), dash="dot", width=1.5) if thin else line_style(s)
                label = f"{name}, unstable" if thin else name
                fig.add_scatter(y=rounded(values), name=label, line=line, showlegend=first and not thin, **group)
    fig.add_hline(
        y=float(start), line=dict(color=TEXT, width=1), annotation_text="start", annotation_position="bottom left"
    )
    if critical is not None:
        fig.add_vline(x=float(critical), line=dict(color=TEXT, width=1, dash="dash"), row=1, col=1)
        text, corner = f"critical {critical:.3f}", dict(xanchor="left", yanchor="bottom", showarrow=False)
        fig.add_annotation(x=float(np.log10(critical)), y=0, text=text, row=1, col=1, **corner)
    fig.update_xaxes(title_text="beta (log)", type="log", tickvals=[0.05, 0.1, 0.2, 0.5, 1, 2, 5])
    fig.update_yaxes(range=[0, 1.03])
    fig.update_yaxes(title_text=f"P({word}) at rest", col=1)
    fig.update_annotations(font=dict(size=13, color=TEXT))
    alt = f"P({word}) at rest falls towards {start:.3f} as beta grows; {len(known)} curves for {' and '.join(panels)}."
    fig = finish(fig, height=320, alt=alt, title=title)
    return fig.update_layout(margin_t=fig.layout.margin.t + 20)


def silent_groups_figure(p, formula, measured, *, title=None):
    """Draw the share of groups whose rewards are all equal against the probability of success.

    Args:
        p: (N,) probabilities of success.
        formula: dict from a group size G to (N,) shares, a line each.
        measured: dict from a group size to (its probabilities (M,), measured shares (M,)), dots in the same colour.
    Raises:
        ValueError: on lengths that do not fit, or a measured group size without a line.

    >>> fig = silent_groups_figure([0, 0.5, 1], {2: [1, 0.5, 1]}, {2: ([0.5], [0.47])})
    >>> [trace.name for trace in fig.data]
    ['G = 2', 'G = 2, measured']
    """
    p = checked("p", p, (None,))
    if not measured.keys() <= formula.keys():
        raise ValueError(f"measured must have group sizes of formula, {list(formula)}, got {list(measured)}")
    fig = go.Figure(layout=dict(template=TEMPLATE))
    for s, (size, shares) in enumerate(formula.items()):
        shares, name = checked(f"formula of G = {size}", shares, p.shape), f"G = {size}"
        fig.add_scatter(x=rounded(p), y=rounded(shares), name=name, mode="lines", line=line_style(s))
        if size in measured:
            at, seen = (checked(f"measured of G = {size}", values, (None,)) for values in measured[size])
            dots = dict(color=colour(s), size=8, symbol=("circle", "square", "diamond", "cross")[s % 4])
            fig.add_scatter(x=rounded(at), y=rounded(seen), name=f"{name}, measured", mode="markers", marker=dots)
    fig.update_xaxes(title_text="probability of success p", range=[-0.02, 1.02])
    fig.update_yaxes(title_text="groups without signal (share)", range=[-0.02, 1.02])
    sizes = ", ".join(map(str, formula))
    alt = f"The share of groups of equal rewards, for G = {sizes}, is 1 at p = 0 and 1 and lowest at p = 0.5."
    return finish(fig, height=290, alt=alt, title=title)
