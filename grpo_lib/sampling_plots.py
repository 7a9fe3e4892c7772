"""Sampling in pictures: frequencies beside the scored policy, how a mismatch shows, groups over the temperature."""

from math import ceil

import numpy as np
from scipy.stats import binomtest

from grpo_lib.plot_style import GRID, TEXT, checked, colour, finish, line_style, positive, rounded, subplots
from grpo_lib.token_plots import escaped

__all__ = ["distance_figure", "frequencies_figure", "temperature_figure"]


def frequencies_figure(words, counts, scored, *, sampler=None, across=2, title=None):
    """Draw how often each word was sampled, with its sampling error, over the probability that is scored.

    The interval of a frequency is Wilson's, 95 %: where sampled and scored are one distribution it covers the scored
    probability 19 times in 20.

    Source of the interval: Wilson 1927, "Probable inference, the law of succession, and statistical inference"
    (Journal of the American Statistical Association 22, 209), as `scipy.stats.binomtest` computes it.

    Args:
        words: K names.
        counts: (K,) how often each was sampled, or a dict from a panel's title to such counts.
        scored: (K,) probabilities, or a dict with the same titles.
        sampler: the distribution that the sampler was left with, in the same form; None draws none.
        across: panels in a row.
    Returns:
        `go.Figure`; traces of each panel: scored, sampled, and the sampler's distribution if given.
    Raises:
        ValueError: on counts that are not whole numbers or hold no sample, on probabilities that do not sum to 1, or
            on titles that differ.

    >>> fig = frequencies_figure(["ant", "bear"], [30, 70], [0.5, 0.5])
    >>> fig.data[1].y, [round(high, 3) for high in fig.data[1].error_y.array]
    ((0.3, 0.7), [0.096, 0.081])
    """
    panels = counts if isinstance(counts, dict) else {"": counts}
    if not panels:
        raise ValueError("counts is empty; give the counts of at least one panel")
    scored = _panels("scored", scored, panels)
    sampler = None if sampler is None else _panels("sampler", sampler, panels)
    rows = ceil(len(panels) / across)
    cols = min(across, len(panels))
    several = len(panels) > 1
    fig = subplots(
        rows, cols, x=0.09, y=0.24 / rows, subplot_titles=list(panels) if several else None, shared_yaxes=True
    )
    distances = []
    for i, (name, row) in enumerate(panels.items()):
        row, place = _counts(name, row, len(words)), dict(row=i // cols + 1, col=i % cols + 1)
        policy = _distribution("scored", name, scored[name], len(words))
        look = dict(x=[escaped(word) for word in words], showlegend=i == 0, **place)
        pale = dict(color="rgba(128,128,128,0.35)", line=dict(color=TEXT, width=1))
        fig.add_bar(y=rounded(policy), name="scored: the policy", marker=pale, width=0.92, **look)
        fig.add_bar(y=rounded(row / row.sum()), name="sampled, 95 % interval", **_sampled(row), **look)
        if sampler:
            left = rounded(_distribution("sampler", name, sampler[name], len(words)))
            line = dict(symbol="line-ew", size=24, line=dict(color=colour(3), width=3))
            fig.add_scatter(y=left, name="after the warpers", mode="markers", marker=line, **look)
        distances.append(f"{name or 'sampled and scored'} {0.5 * np.abs(row / row.sum() - policy).sum():.3f}")
    fig.update_yaxes(rangemode="tozero")
    fig.update_yaxes(title_text="probability", col=1)
    fig.update_annotations(font=dict(size=13, color=TEXT))
    alt = f"Bars of {len(words)} words. Total variation distance from the scored policy: {', '.join(distances)}."
    fig = finish(fig, height=210 * rows, alt=alt, title=title, barmode="overlay", legend_traceorder="normal")
    extra = 15 if several else 0
    return fig.update_layout(margin_t=fig.layout.margin.t + extra, height=fig.layout.height + extra)


def distance_figure(num_samples, distances, chance, *, title=None):
    """Draw the distance between sampled and scored against the number of samples, both on logarithmic axes.

    Args:
        num_samples: (S,) numbers of samples, rising.
        distances: dict from a sampler's name to its (S,) total variation distances, from 0 to 1; a 0 is a gap.
        chance: (S,) the distance that chance alone seldom exceeds, above 0; drawn dotted, the room below it shaded.
    Returns:
        `go.Figure`; traces: chance, then one curve a sampler.
    Raises:
        ValueError: on lengths that differ, a number of samples or a chance level of 0, or what is no such distance.

    >>> distance_figure([100, 1000], {"top-k": [0.4, 0.37]}, [0.1, 0.03]).data[1].y
    (0.4, 0.37)
    """
    x = rounded(checked("num_samples", num_samples, (None,)))
    edge = rounded(_distances("chance", chance, len(x)))
    for name, values in (("num_samples", x), ("chance", edge)):
        if min(values) <= 0:
            raise ValueError(f"{name} must be above 0, where the logarithmic axis begins, got {values}")
    fig = subplots(1, 1)
    look = dict(mode="lines", fill="tozeroy", fillcolor=GRID, line=dict(color=TEXT, dash="dot", width=2))
    fig.add_scatter(x=x, y=edge, name="chance stays below, 19 times in 20", **look)
    for i, (name, values) in enumerate(distances.items()):
        values = positive(_distances(f"distances[{name!r}]", values, len(x)))
        fig.add_scatter(x=x, y=values, name=name, mode="lines+markers", line=line_style(i))
    fig.update_xaxes(title_text="samples", type="log", tickvals=x, ticktext=[f"{n:,.0f}" for n in x])
    low = min(v for trace in fig.data for v in trace.y if v is not None)
    fig.update_yaxes(title_text="total variation distance", type="log", dtick=1)
    fig.update_yaxes(range=[np.log10(low / 1.6), 0])
    last = ", ".join(f"{name} {values[-1]:.2g}" for name, values in distances.items())
    alt = f"With {x[-1]:,.0f} samples the distance is: {last}; chance stays below {edge[-1]:.2g}."
    return finish(fig, height=300, alt=alt, title=title)


def temperature_figure(temperatures, measures, *, title=None):
    """Draw measures of sampled groups against the temperature: one panel a measure, one dot a seed, a line of means.

    Args:
        temperatures: (S,) sampling temperatures, above 0; their axis is logarithmic.
        measures: dict from a measure's name (its axis title) to (S, N) values, one a temperature and seed.
    Returns:
        `go.Figure`; traces of each panel: the seeds' values, their means.
    Raises:
        ValueError: on shapes that do not fit, or a value that is not finite.

    >>> fig = temperature_figure([0.5, 1.0], {"distinct": [[2, 4], [5, 7]]})
    >>> fig.data[1].y
    (3.0, 6.0)
    """
    if not measures:
        raise ValueError("measures is empty; give at least one")
    x = rounded(checked("temperatures", temperatures, (None,)))
    if min(x) <= 0:
        raise ValueError(f"temperatures must be above 0, since their axis is logarithmic, got {x}")
    fig = subplots(1, len(measures), x=0.3 / len(measures))
    said = []
    for i, (name, values) in enumerate(measures.items(), start=1):
        values = checked(f"measures[{name!r}]", values, (len(x), None))
        common = dict(showlegend=False, row=1, col=i)
        dots = dict(color=colour(0), size=6, opacity=0.6)
        where = np.repeat(x, values.shape[1]).tolist()
        fig.add_scatter(x=where, y=rounded(values.ravel()), mode="markers", marker=dots, name="a seed", **common)
        means = rounded(values.mean(axis=1))
        fig.add_scatter(x=x, y=means, mode="lines", line=line_style(0), name="mean", **common)
        fig.update_yaxes(title_text=name, rangemode="tozero", title_font_size=12, row=1, col=i)
        said.append(f"{name.replace('<br>', ' ')} from {means[0]:.2g} to {means[-1]:.2g}")
    fig.update_xaxes(title_text="temperature", type="log", tickvals=x, ticktext=[f"{t:g}" for t in x], tickangle=0)
    alt = f"From temperature {x[0]:g} to {x[-1]:g}: {'; '.join(said)}. Dots are seeds, the line their mean."
    return finish(fig, height=230, alt=alt, title=title)


def _distances(name, values, count):
    """(S,) total variation distances."""
    values = checked(name, values, (count,))
    if (values < 0).any() or (values > 1).any():
        raise ValueError(f"{name} must lie in [0, 1], as total variation distances do, got {rounded(values)}")
    return values


def _sampled(row):
    """Look of the sampled bars, with the distance from each frequency to the two ends of its interval."""
    total = int(row.sum())
    intervals = [binomtest(int(count), total).proportion_ci(0.95, method="wilson") for count in row]
    up = rounded([interval.high - count / total for interval, count in zip(intervals, row, strict=True)])
    down = rounded([count / total - interval.low for interval, count in zip(intervals, row, strict=True)])
    error = dict(type="data", array=up, arrayminus=down, color=colour(1), thickness=2, width=4)
    return dict(width=0.5, marker=dict(color=colour(0), opacity=0.85), error_y=error)


def _panels(name, given, panels):
    """The same form as the panels: one array serves all of them."""
    given = given if isinstance(given, dict) else dict.fromkeys(panels, given)
    if list(given) != list(panels):
        raise ValueError(f"{name} must have the titles of counts, {list(panels)}, got {list(given)}")
    return given


def _counts(name, row, num_words):
    row = checked(f"counts of {name!r}" if name else "counts", row, (num_words,))
    if (row < 0).any() or (row != row.round()).any() or row.sum() == 0:
        raise ValueError(f"counts must be whole numbers >= 0 with at least one sample, got {row.tolist()}")
    return row


def _distribution(what, name, probs, num_words):
    probs = checked(f"{what} of {name!r}" if name else what, probs, (num_words,))
    if (probs < 0).any() or abs(probs.sum() - 1) > 1e-4:
        raise ValueError(f"{what} must be probabilities that sum to 1, got {rounded(probs)}, sum {probs.sum():.5g}")
    return probs
