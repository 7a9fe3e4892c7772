"""The curves of a run as SVG text, for a panel that redraws many times a minute.

SVG in an HTML widget needs no plotly.js and no extension, and a redraw is one short message. For a figure to keep, see
`live_figure`, the same curves as Plotly.
"""

import math
from dataclasses import dataclass
from html import escape

from grpo_lib.live_scale import drawable, pieces, round_ticks, value_range
from grpo_lib.plot_style import GRID, TEXT, finish, line_style
from grpo_lib.plots import AXIS_TITLES, TRAINING_COLUMNS, training_curves

__all__ = ["Change", "live_chart", "live_figure", "newest_changes"]

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
NAMED = 6  # of the newest changes are numbered on the curves, listed under them, and spoken
APART = 3  # units between the marks of earlier changes, at least: a message must not grow with their number


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
    groups of equal reward and of truncated completions. The newest value stands in figures over each curve. A value
    that is not finite leaves a gap. Dotted lines mark where settings changed: the newest 6 changes are numbered, those
    before are paler, and where they stand too close together not all are drawn. See `pieces` for a long curve.

    Args:
        history: a list of `StepRecord`s, may be empty. changes: `Change`s, oldest first.
    Returns:
        HTML: six `<svg>` that wrap on a narrow page, with a description for screen readers in one `aria-label`.

    >>> "step 0" in live_chart([]), live_chart([]).count("live-curve")
    (True, 0)
    """
    steps = [record.step for record in history]
    last = max(steps[-1] if steps else 0, 10)
    marks = _marks(changes, lambda step: _across(step, last))
    panels = []
    for columns in PANELS:
        curves = {column: [getattr(record, column) for record in history] for column in columns}
        panels.append(
            f'<svg data-panel="{columns[0]}" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12" fill="currentColor" '
            f'style="flex:1 1 260px;max-width:{WIDTH}px">{marks}{_panel(columns, steps, curves, last)}</svg>'
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
    steps = [record.step for record in history]
    medians = [record.kl_median if drawable(record.kl_median) else None for record in history]
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
    title = "<br>".join(map(str, changes[-NAMED:])) or None
    return finish(fig, height=370, alt=_description(history, changes), title=title, title_font_size=12)


def newest_changes(changes):
    """(number, change) of the changes that are named: the newest 6, numbered from the first of all.

    >>> [number for number, change in newest_changes([Change(1, "beta", 0.0, 1.0)] * 8)]
    [3, 4, 5, 6, 7, 8]
    """
    first = max(0, len(changes) - NAMED)
    return list(enumerate(changes[first:], first + 1))


def _across(step, last):
    return LEFT + (RIGHT - LEFT) * (step - 1) / (last - 1)


def _panel(columns, steps, curves, last):
    """One panel in its own coordinates: title, newest values, grid and curves."""
    low, high = (0.0, 1.0) if columns[0] in SHARES else value_range(curves.values())
    y_ticks = round_ticks(low, high)
    low, high = min(low, y_ticks[0]), max(high, y_ticks[-1])

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
    for tick in (t for t in round_ticks(1, last, about=4) if t == int(t) and 1 <= t <= last):
        at = _across(tick, last)
        parts.append(f'<text x="{at:.1f}" y="{BOTTOM + 15}" text-anchor="middle" opacity="0.8">{tick:.0f}</text>')
    for i, (column, values) in enumerate(curves.items()):
        parts += _curve(i, column, list(curves), steps, values, lambda step: _across(step, last), y)
    return "".join(parts)


def _curve(i, column, columns, steps, values, x, y):
    """The curve of one column, and its newest value in the same colour, finite or not."""
    style = line_style(i)
    name = {"kl": "mean ", "kl_median": "median "}.get(column, "") if len(columns) > 1 else ""
    newest = next((f"{name}{_short(value)}" for value in reversed(values) if value is not None), "")
    parts = [
        f'<text class="live-value" data-column="{column}" x="{LEFT + 125 * i}" y="29" fill="{style["color"]}" '
        f'font-weight="600">{newest}</text>'
    ]
    drawn = [[f"{x(step):.1f},{y(value):.1f}" for step, value in piece] for piece in pieces(steps, values)]
    if drawn:
        # a piece of one point is a stroke of no length, which its round ends make a dot
        line = "".join(f"M{piece[0]}{'L' + ' '.join(piece[1:]) if piece[1:] else 'h0'}" for piece in drawn)
        dash = "" if style["dash"] == "solid" else f' stroke-dasharray="{style["dash"].replace("px", "")}"'
        width = 5 if len(drawn) == len(drawn[0]) == 1 else 1.8
        parts.append(
            f'<path class="live-curve" data-column="{column}" d="{line}" fill="none" stroke="{style["color"]}" '
            f'stroke-width="{width}" stroke-linejoin="round" stroke-linecap="round"{dash}/>'
        )
    return parts


def _marks(changes, x):
    """Dotted lines just before the first step of each change; the named ones with their numbers, as in the list."""
    named, parts, earlier, right = {}, [], [], -math.inf
    for number, change in newest_changes(changes):
        named.setdefault(change.step, []).append(str(number))
    for at in sorted({x(max(change.step - 0.5, 1)) for change in changes[:-NAMED] if change.step not in named}):
        if at >= right:
            earlier.append(f"M{at:.1f},{TOP}V{BOTTOM}")
            right = at + APART
    if earlier:
        d, pale = "".join(earlier), 'stroke-dasharray="1 4" opacity="0.7"'
        parts.append(f'<path class="live-earlier" d="{d}" stroke="{TEXT}" {pale}/>')
    right = -math.inf
    for step, numbers in sorted(named.items()):
        at, text = x(max(step - 0.5, 1)), ",".join(numbers)
        parts.append(
            f'<path class="live-change" data-step="{step}" d="M{at:.1f},{TOP}V{BOTTOM}" stroke="{TEXT}" '
            'stroke-dasharray="2 3"/>'
        )
        if at > right:  # else the numbers would run into each other
            parts.append(f'<text x="{at:.1f}" y="{TOP - 2}" text-anchor="middle" font-size="10">{text}</text>')
            right = at + 7 * len(text)
    return "".join(parts)


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
    often = f" {len(changes)} times, at last" if len(changes) > NAMED else ""
    said = f" Changed{often}: {'; '.join(map(str, changes[-NAMED:]))}." if changes else ""
    return f"Six panels over {newest.step} training steps. At the newest: {'; '.join(values)}.{said}"


def _short(value):
    return f"{value:.3g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
