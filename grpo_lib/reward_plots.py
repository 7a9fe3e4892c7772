"""Who pays for what, and what a run that chases a proxy does to every judge."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib.plot_style import TEMPLATE, TEXT, checked, colour, finish, line_style, rounded, subplots
from grpo_lib.reward_runs import mean_interval
from grpo_lib.token_plots import visible

CLASSES = (
    ("not paid, rightly", "#D9D9D9", ""),
    ("paid, rightly", "#1F7FC1", ""),
    ("paid wrongly", "#D55E00", " ✗"),
    ("paid wrongly, but less than any right answer", "#F4C3A0", " (✗)"),
    ("right, but not paid", "#D095B8", " ✗"),
)


def classify_pay(paid, deserves):
    """Say for each amount which of `CLASSES` it falls into.

    Args:
        paid: (A,) what each text was paid; above 0 is paid.
        deserves: (A,) whether it deserves pay.
    Returns:
        A indices into `CLASSES`. The fourth is for pay below that of every deserving text: within a group such a text
        still loses to a right answer.

    >>> classify_pay([0.0, 2.0, 2.0, 0.4, 0.0], [False, True, False, False, True])
    [0, 1, 2, 2, 4]
    """
    least = min((amount for amount, right in zip(paid, deserves, strict=True) if right), default=0.0)
    found = []
    for amount, right in zip(paid, deserves, strict=True):
        if right:
            found.append(1 if amount > 0 else 4)
        else:
            found.append(0 if amount <= 0 else 3 if amount < least else 2)
    return found


def attack_figure(table, attacks, *, title=None):
    """Draw who pays for what: a row a text, a column a reward function, the amount in each cell.

    Args:
        table: a dict from a reward's name to A amounts, as `grpo_lib.reward_attacks.attack_table` gives it.
        attacks: A of `grpo_lib.reward_attacks.Attack`, in the same order.
    Returns:
        `go.Figure`; its first trace is the heat map of classes, the others are the legend.
    Raises:
        ValueError: on an empty table, or a column that is not A finite numbers.

    >>> from grpo_lib.reward_attacks import ATTACKS, attack_table, substring_reward
    >>> fig = attack_figure(attack_table({"substring": substring_reward}, ATTACKS), ATTACKS)
    >>> fig.data[0].z[3], fig.data[0].text[3]
    ([2], ['1 ✗'])
    """
    attacks, deserves = list(attacks), [attack.deserves for attack in attacks]
    if not table or not attacks:
        raise ValueError(f"attack_figure needs a reward and a text, got {len(table)} rewards and {len(attacks)} texts")
    columns = [checked(f"what {name!r} paid", paid, (len(attacks),)) for name, paid in table.items()]
    kinds = np.array([classify_pay(paid, deserves) for paid in columns]).T.tolist()  # (A, R)
    amounts = np.array(columns).T  # (A, R)
    text = [
        [f"{amount:.2g}{CLASSES[kind][2]}" for amount, kind in zip(*row, strict=True)]
        for row in zip(amounts, kinds, strict=True)
    ]
    fig = go.Figure(layout=dict(template=TEMPLATE))
    share = 1 / len(CLASSES)
    scale = [[(i + side) * share, shade] for i, (_, shade, _) in enumerate(CLASSES) for side in (0, 1)]
    fig.add_heatmap(
        z=kinds,
        text=text,
        customdata=[[visible(f"{a.text[:60]} | gold {a.gold} | {a.why}")] * len(columns) for a in attacks],
        texttemplate="%{text}",
        hovertemplate="%{y}: %{customdata}<extra>%{x}</extra>",
        x=list(table),
        y=[visible(attack.name).replace("␣", " ") for attack in attacks],
        zmin=-0.5,
        zmax=len(CLASSES) - 0.5,
        colorscale=scale,
        showscale=False,
        xgap=2,
        ygap=2,
    )
    _add_legend(fig, sorted({kind for row in kinds for kind in row}))
    cut = sum(not right for right in deserves)
    if 0 < cut < len(attacks) and not any(deserves[:cut]):
        fig.add_hline(y=cut - 0.5, line=dict(color=TEXT, width=2))
    fig.update_xaxes(side="top", showgrid=False, title_text="", type="category")
    fig.update_yaxes(range=[len(attacks) - 0.5, -0.5], showgrid=False, title_text="", type="category")
    counts = [f"{name} {sum(row[c] == 2 for row in kinds)}" for c, name in enumerate(table)]
    alt = f"What each reward pays for {len(attacks)} texts; paid wrongly, like a right answer: {', '.join(counts)}."
    return finish(fig, height=24 * len(attacks) + 30, alt=alt, title=title)


def proxy_figure(arms, judges, *, title=None):
    """Draw what each judge says of the policies that were trained on different rewards, over training.

    Args:
        arms: a dict from a run's name to S lists of records on held-out problems, one a seed, with "step" and a mean
            for each judge (`load_reward_runs(arm)[seed]["held_out"]`).
        judges: a dict from a record's key to its axis title, one panel each.
    Returns:
        `go.Figure`; an arm is its mean over the seeds and a band, the 95 % t-interval of that mean (S >= 2).
    Raises:
        ValueError: on no arm or judge, an arm without runs, or seeds of different lengths.

    >>> record = dict(step=0, true=0.5)
    >>> fig = proxy_figure({"control": [[record], [record]]}, {"true": "right answers (share)"})
    >>> fig.data[-1].name, fig.data[-1].y
    ('control', (0.5,))
    """
    if not arms or not judges or not all(arms.values()):
        raise ValueError(
            f"proxy_figure needs an arm with runs and a judge, got arms {list(arms)}, judges {list(judges)}"
        )
    fig = subplots(1, len(judges), x=0.13)
    ends = {name: [] for name in arms}
    for col, (key, axis) in enumerate(judges.items(), start=1):
        for s, (name, runs) in enumerate(arms.items()):
            steps = [record["step"] for record in runs[0]]
            values = checked(f"{key} of {name!r}", [[r[key] for r in run] for run in runs], (None, len(steps)))
            _add_band(fig, s, name, steps, values, show=col == 1, place=dict(row=1, col=col))
            ends[name].append(f"{values[:, -1].mean():.3g}")
        fig.update_yaxes(title_text=axis, title_font_size=12, rangemode="tozero", row=1, col=col)
    fig.update_xaxes(title_text="training step")
    seen = ", ".join(axis.replace("<br>", " ") for axis in judges.values())
    told = "; ".join(f"{name} {', '.join(values)}" for name, values in ends.items())
    return finish(fig, height=270, alt=f"Means over seeds at the end, {seen}: {told}.", title=title)


def _add_band(fig, s, name, steps, values, *, show, place):
    mean = values.mean(axis=0)
    group = dict(x=steps, legendgroup=name, name=name, **place)
    if len(values) > 1:
        low, high = zip(*[mean_interval(column)[1:] for column in values.T], strict=True)
        edge = dict(mode="lines", line=dict(width=0), showlegend=False, hoverinfo="skip")
        fig.add_scatter(y=rounded(low), **edge, **group)
        red, green, blue = (int(colour(s)[i : i + 2], 16) for i in (1, 3, 5))
        fig.add_scatter(y=rounded(high), fill="tonexty", fillcolor=f"rgba({red},{green},{blue},0.2)", **edge, **group)
    fig.add_scatter(y=rounded(mean), mode="lines", line=line_style(s), showlegend=show, **group)


def _add_legend(fig, kinds):
    for kind in kinds:
        name, shade, _ = CLASSES[kind]
        marker = dict(symbol="square", size=12, color=shade)
        fig.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name=name)
