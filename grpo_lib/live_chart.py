"""The curves of a run as SVG text, for a panel that redraws many times a minute.

SVG in an HTML widget needs no plotly.js and no extension, and a redraw is one short message. For a figure to keep, see
`live_figure`, the same curves as Plotly.
"""

import math
from dataclasses import dataclass
from html import escape

from grpo_lib.plot_style import GRID, TEXT, finish, line_style
from grpo_lib.plots import AXIS_TITLES, TRAINING_COLUMNS, training_curves

__all__ = ["Change", "live_chart", "live_figure"]

PANELS = (
    ("reward_mean",),
    ("completion_length",),
    ("entropy",),
    ("kl", "kl_median"),
    ("zero_variance",),
    ("truncated",),
)
SHARES = ("zero_variance", "truncated")
STEERED = ("beta", "learning_rate", "temperature", "num_generations")  # the settings that have a slider
NAMES = {"learning_rate": "learning rate", "num_generations": "group size"}
WIDTH, HEIGHT = 320, 190  # of one panel, in the drawing's own units
LEFT, RIGHT, TOP, BOTTOM = 50, 308, 47, 150  # of the curves in it
MOST_POINTS = 300  # a curve; there are fewer pixels than that


@dataclass(frozen=True)
class Change:
    """A setting that took a new value at a step: that step is the first one taken with it.

    >>> str(Change(21, "num_generations", 8, 16))
    'from step 21: group size 8 → 16'
    """

    step: int
    name: str
    old: object
    new: object

    def __str__(self):
        return f"from step {self.step}: {NAMES.get(self.name, self.name)} {_short(self.old)} → {_short(self.new)}"


def live_chart(history, changes=()):
    """Draw a run's newest state as six small panels over the training steps.

    The panels are reward, length, entropy, KL (its median over completions dashed beside its mean), and the shares of
    groups of equal reward and of truncated completions. The newest value stands in figures over each curve. Dotted
    lines, numbered, mark where settings changed. A long curve is drawn by the least and the greatest value of each of
    150 stretches, so that no spike is lost.

    Args:
        history: a list of `StepRecord`s, may be empty. changes: `Change`s, oldest first.
    Returns:
        HTML: six `<svg>` that wrap on a narrow page, with a description for screen readers in one `aria-label`.

    >>> "step 0" in live_chart([]), live_chart([]).count("<polyline")
    (True, 0)
    """
    steps = [record.step for record in history]
    last = max(steps[-1] if steps else 0, 10)
    marks = _marks(changes)
    panels = []
    for columns in PANELS:
        curves = {column: [getattr(record, column) for record in history] for column in columns}
        panels.append(
            f'<svg data-panel="{columns[0]}" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12" fill="currentColor" '
            f'style="flex:1 1 260px;max-width:{WIDTH}px">{_panel(columns, steps, curves, last, marks)}</svg>'
        )
    return (
        f'<div class="live-chart" data-step="{steps[-1] if steps else 0}" role="img" '
        f'aria-label="{escape(_description(history, changes))}" '
        f'style="display:flex;flex-wrap:wrap;max-width:{3 * WIDTH}px;line-height:normal">{"".join(panels)}</div>'
    )


def live_figure(history, changes=()):
    """The same curves and marks as a Plotly figure, which a saved notebook keeps (see `training_curves`).

    Raises:
        ValueError: on an empty history.
    """
    fig = training_curves(history, columns=TRAINING_COLUMNS)
    row, col = divmod(TRAINING_COLUMNS.index("kl"), 3)
    steps, medians = [record.step for record in history], [record.kl_median for record in history]
    if any(value is not None for value in medians):
        median = dict(name="KL, median over completions", showlegend=True, mode="lines", line=line_style(1))
        fig.add_scatter(x=steps, y=medians, row=row + 1, col=col + 1, **median)
    places = [(trace.xaxis, trace.yaxis) for trace in fig.data[: len(TRAINING_COLUMNS)]]
    line = dict(type="line", line=dict(color=TEXT, width=1, dash="dot"), y0=0, y1=1)
    fig.update_layout(  # all at once: one `add_vline` after the other would take minutes for a hundred changes
        shapes=[
            dict(x0=step - 0.5, x1=step - 0.5, xref=x or "x", yref=f"{y or 'y'} domain", **line)
            for step in sorted({change.step for change in changes})
            for x, y in places
        ]
    )
    title = "<br>".join(map(str, changes[-6:])) or None
    return finish(fig, height=370, alt=_description(history, changes), title=title, title_font_size=12)


def _panel(columns, steps, curves, last, marks):
    """One panel in its own coordinates: title, newest values, grid, marks and curves."""
    low, high = (0.0, 1.0) if columns[0] in SHARES else _range(curves)
    y_ticks = _ticks(low, high)
    low, high = min(low, y_ticks[0]), max(high, y_ticks[-1])

    def x(step):
        return LEFT + (RIGHT - LEFT) * (step - 1) / (last - 1)

    def y(value):
        return BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)

    title = AXIS_TITLES[columns[0]].replace("<br>", " ")
    middle = (LEFT + RIGHT) / 2
    parts = [
        f'<text x="{LEFT}" y="14">{escape(title)}</text>',
        f'<text x="{middle}" y="{BOTTOM + 30}" text-anchor="middle" opacity="0.8">training step</text>',
    ]
    for tick in y_ticks:
        parts.append(f'<path d="M{LEFT},{y(tick):.1f}H{RIGHT}" stroke="{GRID}"/>')
        parts.append(
            f'<text x="{LEFT - 5}" y="{y(tick) + 4:.1f}" text-anchor="end" opacity="0.8">{_short(tick)}</text>'
        )
    for tick in (t for t in _ticks(1, last) if t == int(t) and 1 <= t <= last):
        parts.append(f'<text x="{x(tick):.1f}" y="{BOTTOM + 15}" text-anchor="middle" opacity="0.8">{tick:.0f}</text>')
    right = -math.inf
    for number, step in marks:
        at = x(max(step - 0.5, 1))
        parts.append(
            f'<path class="live-change" data-step="{step}" d="M{at:.1f},{TOP}V{BOTTOM}" stroke="{TEXT}" '
            'stroke-dasharray="2 3"/>'
        )
        if at > right:  # else the numbers would run into each other
            parts.append(f'<text x="{at:.1f}" y="{TOP - 2}" text-anchor="middle" font-size="10">{number}</text>')
            right = at + 7 * len(number)
    for i, (column, values) in enumerate(curves.items()):
        parts += _curve(
            i, column, list(curves), [(s, v) for s, v in zip(steps, values, strict=True) if v is not None], x, y
        )
    return "".join(parts)


def _curve(i, column, columns, points, x, y):
    """The curve of one column, and its newest value in the same colour."""
    style = line_style(i)
    name = {"kl": "mean ", "kl_median": "median "}.get(column, "") if len(columns) > 1 else ""
    newest = f"{name}{_short(points[-1][1])}" if points else ""
    parts = [
        f'<text class="live-value" data-column="{column}" x="{LEFT + 125 * i}" y="29" fill="{style["color"]}" '
        f'font-weight="600">{newest}</text>'
    ]
    if len(points) == 1:
        [(step, value)] = points
        parts.append(f'<circle cx="{x(step):.1f}" cy="{y(value):.1f}" r="2.5" fill="{style["color"]}"/>')
    if points:
        line = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in _thinned(points))
        dash = "" if style["dash"] == "solid" else f' stroke-dasharray="{style["dash"].replace("px", "")}"'
        parts.append(
            f'<polyline data-column="{column}" points="{line}" fill="none" stroke="{style["color"]}" '
            f'stroke-width="1.8" stroke-linejoin="round"{dash}/>'
        )
    return parts


def _thinned(points, most=MOST_POINTS):
    """At most `most` points: of each stretch the least and the greatest, in their order, and the newest point."""
    if len(points) <= most:
        return points
    stretch = math.ceil(len(points) / (most // 2 - 1))
    kept = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _range(curves):
    """From 0, or from the least value below it, to the greatest value drawn."""
    values = [value for column in curves.values() for value in column if value is not None]
    low, high = min([0.0, *values]), max([0.0, *values])
    return (low, high) if high - low > 1e-9 else (low, low + 1.0)


def _ticks(low, high, about=3):
    """Round numbers, 1, 2, 2.5 or 5 times a power of ten apart, that cover what lies between low and high.

    >>> _ticks(0, 0.83), _ticks(1, 150)
    ([0.0, 0.5, 1.0], [0.0, 50.0, 100.0, 150.0])
    """
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    gap = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [round(i * gap, 10) for i in range(math.floor(low / gap + 1e-9), math.ceil(high / gap - 1e-9) + 1)]


def _marks(changes):
    """(number, step) of each step with a change; numbered as in the list of changes."""
    steps = {}
    for number, change in enumerate(changes, 1):
        steps.setdefault(change.step, []).append(str(number))
    return [(",".join(numbers), step) for step, numbers in sorted(steps.items())]


def _description(history, changes):
    if not history:
        return "Empty panels at step 0: the curves of the run will be drawn here."
    newest = history[-1]
    values = (
        f"{AXIS_TITLES[column].replace('<br>', ' ')} {_short(value)}"
        for columns in PANELS
        for column in columns
        if (value := getattr(newest, column)) is not None
    )
    said = f" Changed: {'; '.join(map(str, changes))}." if changes else ""
    return f"Six panels over {newest.step} training steps. At the newest: {'; '.join(values)}.{said}"


def _short(value):
    return f"{value:.3g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
