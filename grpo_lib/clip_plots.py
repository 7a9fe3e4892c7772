"""Ratio and clip in pictures: the clipped objective in its four quadrants, and many updates on one rollout."""

import numpy as np

from grpo_lib.clipping import clip_bounds, surrogate_value
from grpo_lib.plot_style import TEXT, checked, colour, finish, line_style, rounded, subplots

__all__ = ["clip_figure", "updates_figure"]


def clip_figure(clip=0.2, *, largest=2.0, maximum=False, title=None):
    """Draw one sample's clipped objective against its ratio, for A = +1 and for A = -1.

    Where the curve is flat the gradient is 0 (shaded); elsewhere its slope is A.

    Source: the two panels of figure 1 in Schulman et al. 2017, PPO (arXiv:1707.06347), with the gradients added.

    Args:
        clip: epsilon, or a pair (low, high).
        largest: right end of the ratio axis, above the clip range.
        maximum: whether to add, for A = -1, what a maximum in place of the minimum would give: a wrong objective.
    Returns:
        `go.Figure`; traces a panel: without clip, clipped, the policy that sampled (ratio 1); then the maximum.
    Raises:
        ValueError: on a bad clip, or an axis that ends inside the clip range.

    >>> fig = clip_figure((0.2, 0.28))
    >>> max(fig.data[1].y), min(fig.data[4].y)
    (1.28, -2.0)
    """
    low, high = clip_bounds(clip)
    if not high < largest < np.inf:
        raise ValueError(f"largest must lie above the clip range, which ends at {high}; got {largest!r}")
    ratio = np.unique(np.append(np.linspace(0, largest, 41), [low, high]))
    fig = subplots(1, 2, x=0.12, subplot_titles=["A > 0 (drawn for A = 1)", "A < 0 (drawn for A = −1)"])
    for col, sign in enumerate((1.0, -1.0), start=1):
        value, _ = surrogate_value(ratio, sign, low, high)
        place = dict(x=rounded(ratio), mode="lines", row=1, col=col, showlegend=col == 1)
        fig.add_scatter(
            y=rounded(sign * ratio),
            name="ratio · A, no clip",
            line=dict(color=TEXT, dash="3px 2px", width=1.5),
            **place,
        )
        fig.add_scatter(y=rounded(value), name="clipped: the minimum", line=dict(color=colour(0), width=3.5), **place)
        here = dict(x=[1], y=[sign], name="ratio 1: π = π_old", mode="markers", showlegend=col == 1, row=1, col=col)
        fig.add_scatter(marker=dict(color=colour(1), size=11, symbol="diamond"), **here)
        _shade(fig, (high, largest) if sign > 0 else (0, low), col)
        for edge in (low, high):
            fig.add_vline(x=edge, line=dict(color=TEXT, width=1, dash="dot"), row=1, col=col)
    fig.update_annotations(font=dict(size=13))
    _say(fig, low, high, largest)
    if maximum:
        wrong = -np.minimum(ratio, ratio.clip(low, high))
        look = dict(
            line=dict(color=colour(4), dash="7px 3px 2px 3px", width=2.5), name="a maximum: wrong", mode="lines"
        )
        fig.add_scatter(x=rounded(ratio), y=rounded(wrong), **look, row=1, col=2)
    ticks = dict(
        tickvals=rounded([0, low, 1, high, largest]), ticktext=["0", f"{low:g}", "1", f"{high:g}", f"{largest:g}"]
    )
    fig.update_xaxes(title_text="ratio π / π_old", range=[0, largest], **ticks)
    fig.update_yaxes(title_text="objective, to be raised")
    fig.update_yaxes(range=[-0.1, 1.05 * largest], col=1)
    fig.update_yaxes(range=[-1.05 * largest, 0.1], col=2)
    fig.update_annotations(font_color=TEXT)
    alt = (
        f"For A above 0 the clipped objective rises with the ratio and is flat above {high:g}; for A below 0 it is "
        f"flat below {low:g} and falls without a limit above"
    )
    if maximum:
        alt += f"; dash-dotted, a maximum for A below 0: it falls all the way to {high:g} and is flat above, "
        alt += "the wrong way round"
    fig = finish(fig, height=310, alt=f"{alt}.", title=title)
    return fig.update_layout(margin_t=fig.layout.margin.t + 15, height=fig.layout.height + 15)


def _shade(fig, ends, col):
    box = dict(x0=ends[0], x1=ends[1], fillcolor="rgba(128,128,128,0.2)", line_width=0, layer="below")
    fig.add_vrect(**box, row=1, col=col)


def _say(fig, low, high, largest):
    """What the gradient does in each region."""
    look = dict(showarrow=False, font=dict(size=11))
    for x, y, col, text in (
        (low / 2, 0.85 * largest, 1, "slope A:<br>pushed up,<br>however far it fell"),
        ((high + largest) / 2, 0.25 * largest, 1, "slope 0:<br>rose enough"),
        (low / 2, -0.75 * largest, 2, "slope 0:<br>fell enough"),
        ((high + largest) / 2, -0.25 * largest, 2, "slope A:<br>pushed down,<br>however far it rose"),
    ):
        fig.add_annotation(x=x, y=y, text=text, **look, row=1, col=col)


def updates_figure(num_updates, ratios, clip_fractions, clip=0.2, *, title=None):
    """Draw how far ratios spread, and how many samples are clipped, against the updates taken on one rollout.

    Args:
        num_updates: S settings of updates per rollout, or one for each update of a rollout.
        ratios: S rows of ratios π / π_old (rows may differ in length), or a dict from a name to such rows.
        clip_fractions: (S,) share of clipped samples, or a dict with the same names.
        clip: epsilon or (low, high), drawn dotted; None draws none.
    Returns:
        `go.Figure`; traces for each name: its smallest and its largest ratios, the share of clipped samples.
    Raises:
        ValueError: if the rows are not one a setting, or a row is empty or not finite.

    >>> fig = updates_figure([1, 2], [[1.0, 1.0], [0.8, 1.0, 1.4]], [0.0, 0.1])
    >>> fig.data[1].y, fig.data[2].y
    ((1.0, 1.4), (0.0, 0.1))
    """
    x, low_high = list(map(int, num_updates)), clip_bounds(clip)
    several = isinstance(ratios, dict)
    table, shares = (ratios, clip_fractions) if several else ({"": ratios}, {"": clip_fractions})
    if list(table) != list(shares):
        raise ValueError(f"ratios and clip_fractions must have the same names, got {list(table)} and {list(shares)}")
    fig, told = subplots(1, 2, x=0.13), []
    for i, (name, rows) in enumerate(table.items()):
        if len(rows) != len(x):
            raise ValueError(f"ratios must have one row for each of the {len(x)} settings, got {len(rows)}")
        rows = [checked("ratios", row, (None,)) for row in rows]
        _ratio_band(fig, i, name, x, rows)
        share = rounded(checked("clip_fractions", shares[name], (len(x),)))
        low, high = min(rows[-1]), max(rows[-1])
        told.append(f"{name}{': ' * bool(name)}ratios from {low:.2f} to {high:.2f}, share clipped {share[-1]:.2f}")
        look = dict(mode="lines+markers", line=line_style(i), name=name or "clipped", showlegend=several)
        fig.add_scatter(x=x, y=share, **look, row=1, col=2)
    for edge in low_high if clip is not None else ():
        fig.add_hline(y=edge, line=dict(color=TEXT, width=1.5, dash="dot"), row=1, col=1)
    fig.update_xaxes(title_text="updates on one rollout", tickvals=x if len(x) <= 12 else None)
    fig.update_yaxes(title_text="ratio π / π_old (smallest, largest)", col=1)
    fig.update_yaxes(title_text="clipped samples (share)", rangemode="tozero", col=2)
    alt = f"Over {x[0]} to {x[-1]} updates on one rollout the ratios spread. At {x[-1]}: {'; '.join(told)}."
    return finish(fig, height=270, alt=alt, title=title, legend_traceorder="normal")


def _ratio_band(fig, i, name, x, rows):
    """The smallest and the largest ratio of each setting, and the band between them."""
    red, green, blue = (int(colour(i)[k : k + 2], 16) for k in (1, 3, 5))
    band = dict(fill="tonexty", fillcolor=f"rgba({red},{green},{blue},0.2)")
    for edge, pick, fill in (("smallest", np.min, {}), ("largest", np.max, band)):
        look = dict(mode="lines", line=line_style(i), showlegend=False, name=f"{name} {edge}".strip(), **fill)
        fig.add_scatter(x=x, y=rounded([pick(row) for row in rows]), **look, row=1, col=1)
