"""The course in one figure: GRPO's loop on one small group of completions, and the notebook that opens each box."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib.plot_style import CLEAR, GRID, TEMPLATE, TEXT, colour, finish

__all__ = ["course_map"]

# The group that the figure carries round the loop: one prompt, four completions, one of them right.
PROMPT, COMPLETIONS, REWARDS = "47 + 38 = ?", ("85", "75", "715", "84"), (1.0, 0.0, 0.0, 0.0)

# (title, what happens, left edge, bottom edge, the notebooks that open the box); the page is 100 × 100
WIDTH, HEIGHT, TOP, BOTTOM = 29, 36, 61, 16
BOXES = (
    ("1 · Prompt", "the policy is asked", 0, TOP, ("10 sums", "12 word problems")),
    ("2 · G completions", "it samples several answers", 35.5, TOP, ("05 masks", "07 sampling")),
    ("3 · Rewards", "a function scores each", 71, TOP, ("08 rewards",)),
    ("4 · Advantages", "each against its group", 71, BOTTOM, ("01 by hand",)),
    ("5 · Loss", "how far to move each token", 35.5, BOTTOM, ("03 KL", "04 clip", "06 log-probs", "09 loss")),
    ("6 · Update", "better than the group: more likely", 0, BOTTOM, ("02 beta and learning rate",)),
)
ARROWS = ((29.3, 79, 35.2, 79), (64.8, 79, 70.7, 79), (85.5, 60.4, 85.5, 52.6))
ARROWS += ((70.7, 34, 64.8, 34), (35.2, 34, 29.3, 34), (14.5, 52.6, 14.5, 60.4))
WHOLE = (
    ("the whole loop", ("01 four words", "10 a tiny language model", "12 a 0.5B model")),
    ("around the loop", ("11 honest evaluation", "13 bug museum", "14 scale out")),
)


def course_map():
    """Draw GRPO's loop as six boxes, prompt to update and back, with the notebooks that open each of them.

    The advantages in it are those of its four rewards, (r - mean) / (sample standard deviation), as a language model
    is trained on. It reads on light and on dark pages from 700 px of width on.

    Source: the loop of Shao et al. 2024, DeepSeekMath, section 4.1 (arXiv:2402.03300).

    Returns:
        `go.Figure`.

    >>> course_map().layout.meta["alt"].partition(":")[0]
    'The loop of GRPO in six boxes'
    """
    fig = go.Figure(layout=dict(template=TEMPLATE))
    for title, text, left, bottom, notebooks in BOXES:
        _box(fig, title, text, left, bottom)
        _chips(fig, notebooks, left + WIDTH / 2, bottom + 3.6)
    for tail_x, tail_y, x, y in ARROWS:
        _arrow(fig, tail_x, tail_y, x, y)
    _note(fig, 16, 56.5, "again, with the new policy", size=11, anchor="left")
    _fill_boxes(fig, _advantages())
    for row, (name, notebooks) in enumerate(WHOLE):
        y = 7.5 - 7.5 * row
        _note(fig, 0, y, name, size=12, anchor="left")
        _chips(fig, notebooks, 15.6, y, anchor="left")
    alt = (
        "The loop of GRPO in six boxes: a prompt, a group of completions, a reward for each, advantages within the "
        "group, the loss, the update of the policy, and back to the prompt; each box names the notebooks that open it."
    )
    hidden = dict(visible=False, fixedrange=True)
    finish(fig, height=480, alt=alt)
    margin = dict(l=5, r=5, t=5, b=5)
    axes = dict(xaxis={**hidden, "range": [-0.5, 100.5]}, yaxis={**hidden, "range": [-4, 98]})
    return fig.update_layout(height=490, margin=margin, hovermode=False, **axes)


def _advantages():
    rewards = np.array(REWARDS)
    return (rewards - rewards.mean()) / rewards.std(ddof=1)


def _note(fig, x, y, text, *, size=13, anchor="center", ink=TEXT, **more):
    look = dict(showarrow=False, xanchor=anchor, yanchor="middle", font=dict(size=size, color=ink))
    fig.add_annotation(x=x, y=y, text=text, **look, **more)


def _arrow(fig, tail_x, tail_y, x, y):
    axes = dict(xref="x", yref="y", axref="x", ayref="y")
    fig.add_annotation(
        x=x, y=y, ax=tail_x, ay=tail_y, text="", arrowcolor=colour(0), arrowwidth=2.5, arrowhead=2, **axes
    )


def _box(fig, title, text, left, bottom):
    line = dict(color=TEXT, width=1)
    right, top = left + WIDTH, bottom + HEIGHT
    path = f"M{left + 1},{bottom} H{right - 1} Q{right},{bottom} {right},{bottom + 2} V{top - 2} "
    path += f"Q{right},{top} {right - 1},{top} H{left + 1} Q{left},{top} {left},{top - 2} V{bottom + 2} "
    path += f"Q{left},{bottom} {left + 1},{bottom} Z"  # rounded corners
    fig.add_shape(type="path", path=path, line=line, fillcolor="rgba(128,128,128,0.07)", layer="below")
    _note(fig, left + 1, bottom + HEIGHT - 3.4, f"<b>{title}</b>", size=14, anchor="left")
    _note(fig, left + 1, bottom + HEIGHT - 7.6, text, size=11, anchor="left")


def _chips(fig, names, x, y, anchor="center"):
    """The notebooks' names on one line."""
    text = "  ".join(f"<b>{name[:2]}</b>{name[2:]}".replace(" ", "\u00a0") for name in names)
    _note(fig, x, y, text, size=11, anchor=anchor, ink="#FFFFFF", bgcolor=colour(0), borderpad=3)


def _fill_boxes(fig, advantages):
    """The example: the same four rows in the boxes of completions, rewards, advantages and update."""
    _note(fig, 14.5, TOP + 16, f"<b>{PROMPT}</b>", size=20)
    _note(fig, 50, BOTTOM + 19, "−[ min(<i>ρA</i>, clip(<i>ρ</i>)<i>A</i>)", size=15)
    _note(fig, 50, BOTTOM + 13, "− <i>β</i> · KL to the reference ]", size=13)
    for row, (completion, reward, advantage) in enumerate(zip(COMPLETIONS, REWARDS, advantages, strict=True)):
        ink, down = colour(0 if advantage > 0 else 1), 22.5 - 4.6 * row
        _note(fig, 50, TOP + down, f"“{completion}”", ink=ink)
        _note(fig, 85.5, TOP + down, f"{reward:g}", ink=ink)
        _bar(fig, 87, BOTTOM + down, 6 * advantage, ink)
        _note(fig, 79, BOTTOM + down, f"{advantage:+.2f}".replace("-", "−"), ink=ink)
        _note(fig, 13, BOTTOM + down, f"“{completion}”", ink=ink, anchor="right")
        _note(fig, 17, BOTTOM + down, "▲" if advantage > 0 else "▼", ink=ink, size=18 if advantage > 0 else 10)
    fig.add_shape(type="line", x0=87, x1=87, y0=BOTTOM + 6.5, y1=BOTTOM + 25, line=dict(color=GRID, width=1))


def _bar(fig, x, y, length, ink):
    sides = dict(x0=x, x1=x + length, y0=y - 1.3, y1=y + 1.3)
    fig.add_shape(type="rect", **sides, fillcolor=ink, line=dict(color=CLEAR, width=0))
