"""What the next update does to each token of a group, as a picture."""

import numpy as np
import torch

from grpo_lib.inspection_tables import clip_word, push_colour, push_limit
from grpo_lib.plot_style import finish, subplots
from grpo_lib.recorded import check_place
from grpo_lib.token_plots import readable, token_heatmap, visible

__all__ = ["COLUMNS", "push_figure"]

COLUMNS = 32  # tokens side by side; a longer completion is shown page by page
_WIDTH, _CHARACTER = 540, 6.3  # pixels, of the rows and of a character
_BAR_TITLE = "push: −∂loss / ∂log π"


def push_figure(inspection, group=0, *, picked=None, before=None, title=None, change_title=None):
    """Draw a group's completions as rows of tokens, coloured by what the next update does to each.

    Blue is pushed up, vermilion down; the colour grows with the square root of the push, so that small ones show, on
    one scale for all groups. Clipped tokens are framed, masked ones grey. With `before` a second panel, on the same
    scale, shows how the push has changed.

    Args:
        inspection: an `Inspection`. group: which of its groups, from 0.
        picked: (row in the group, token) to mark with a triangle, or None; the page shown is the one that holds it.
        before: the `Inspection` to compare with, or None.
        title, change_title: of the two panels.
    Returns:
        `go.Figure`.
    Raises:
        ValueError: on a group or a picked token that is not there.

    >>> from grpo_lib.inspection import inspect_rollout
    >>> from grpo_lib.recordings import load_recorded_rollout
    >>> figure = push_figure(inspect_rollout(load_recorded_rollout()), picked=(0, 1))
    >>> figure.data[0].type, len(figure.data[0].z), len(figure.data[0].z[0])
    ('heatmap', 6, 20)
    """
    rows = inspection.recording.group(group)
    for name, place, size in zip(("picked[0]", "picked[1]"), picked or (), inspection.mask[rows].shape, strict=False):
        check_place(name, place, size)
    first = 0 if picked is None else picked[1] // COLUMNS * COLUMNS
    page = slice(first, first + COLUMNS)
    limit = push_limit(*(x for x in (inspection, before) if x is not None))
    panels = [(inspection.push, inspection.mask)]
    if before is not None:
        panels.append((inspection.push - before.push, inspection.mask | before.mask))
    height = max(28 * inspection.recording.num_generations, 110)
    fig = subplots(len(panels), 1, y=min(0.5, 92 / (height * len(panels) + 92)))
    tokens = _shown(inspection, rows, page)
    for number, (values, mask) in enumerate(panels, start=1):
        drawn = token_heatmap(
            tokens,
            values[rows, page].tolist(),
            mask=mask[rows, page].tolist(),
            row_labels=_labels(inspection, rows),
        )
        _add_panel(fig, number, drawn, limit, _hover(inspection, rows, page, values), _font_size(tokens))
        _frame(fig, number, inspection.clipped[rows, page], clip_word(inspection) if number == 1 else None)
        if picked is not None:
            _mark(fig, number, picked[0], picked[1] - first, legend=number == 1)
        _axes(fig, number, drawn, first, last=number == len(panels))
    fig = finish(
        fig, height=height * len(panels) + 92 * (len(panels) - 1), alt=_alt(inspection, rows, before), title=title
    )
    if before is not None:
        place = dict(xref="paper", yref="y2 domain", x=0, y=1, yanchor="bottom", xanchor="left", yshift=8)
        fig.add_annotation(text=change_title or "change", showarrow=False, font=dict(size=14), **place)
    return fig.update_layout(barmode="overlay")


def _shown(inspection, rows, page):
    """The page's tokens, cut to the width of a cell; nothing where they do not count (the hover text has them)."""
    kept = inspection.mask[rows, page].tolist()
    cut = [
        [token if keep else "" for token, keep in zip(row[page], keeps, strict=True)]
        for row, keeps in zip(inspection.recording.tokens[rows], kept, strict=True)
    ]
    room = max(2, int(_WIDTH / len(cut[0]) / _CHARACTER))
    return [[token if len(token) <= room else token[: room - 1] + "…" for token in row] for row in cut]


def _font_size(tokens):
    longest = max(1, *(len(readable(token)) for row in tokens for token in row))
    return int(np.clip(_WIDTH / len(tokens[0]) / longest / 0.62, 8, 13))


def _add_panel(fig, number, drawn, limit, hover, size):
    """The heat map of `token_heatmap`, on the shared colour scale and with hover texts of its own."""
    heat, *hidden = drawn.data
    bar = dict(title=dict(text=_BAR_TITLE, side="right", font=dict(size=12)), nticks=5, thickness=14, outlinewidth=0)
    heat.update(zmin=-limit, zmax=limit, colorscale=_colour_scale(), showscale=number == 1, colorbar=bar)
    heat.update(hovertext=hover, hovertemplate="%{hovertext}<extra></extra>")
    for trace in (heat, *hidden):
        trace.showlegend = trace.showlegend and number == 1
        trace.textfont.size = size
        fig.add_trace(trace, row=number, col=1)


def _colour_scale(stops=8):
    """`push_colour` as a colour scale; its stops lie closer where the colour changes faster."""
    steps = [step / stops for step in range(-stops, stops + 1)]
    shares = [step * abs(step) for step in steps]
    return [[0.5 + share / 2, push_colour(share)] for share in shares]


def _frame(fig, number, clipped, word):
    """A dark frame inside the cell of each clipped token; cells are light where the clip cuts, on any page."""
    y, x = np.nonzero(clipped.numpy())
    frame = dict(color="#222222", width=2)
    if len(x):
        _boxes(fig, number, x, y, 0.43, frame, showlegend=False)
    if len(x) and word:  # a bar without a length: the legend's swatch is light on any page
        fig.add_bar(x=[None], y=[None], name=word, marker=dict(color="#F7F7F7", line=frame), row=number, col=1)


def _mark(fig, number, y, x, legend):
    """A frame and a triangle at the picked token."""
    _boxes(fig, number, [x], [y], 0.49, dict(color="#CC79A7", width=3), showlegend=False)
    look = dict(symbol="triangle-down", size=11, color="#CC79A7", line=dict(color="#222222", width=1))
    fig.add_scatter(
        x=[x],
        y=[y - 0.5],
        mode="markers",
        marker=look,
        name="picked",
        showlegend=legend,
        hoverinfo="skip",
        cliponaxis=False,
        row=number,
        col=1,
    )


def _boxes(fig, number, x, y, half, line, **options):
    fig.add_bar(
        x=[int(i) for i in x],
        y=[2 * half] * len(x),
        base=[int(i) - half for i in y],
        width=2 * half,
        marker=dict(color="rgba(0,0,0,0)", line=line),
        hoverinfo="skip",
        row=number,
        col=1,
        **options,
    )


def _axes(fig, number, drawn, first, last):
    width = len(drawn.data[0].z[0])
    every = 1 if width <= 24 else 2
    ticks = list(range(0, width, every))
    fig.update_xaxes(range=[-0.5, width - 0.5], showgrid=False, row=number, col=1)
    fig.update_xaxes(tickvals=ticks, ticktext=[str(first + t) for t in ticks], row=number, col=1)
    if last:
        fig.update_xaxes(title_text="position in the completion (tokens)", row=number, col=1)
    fig.update_yaxes(drawn.layout.yaxis.to_plotly_json(), row=number, col=1)


def _labels(inspection, rows):
    recording = inspection.recording
    return [
        f"{i} · r {reward:g}, A {advantage:+.2f}" + (", cut" if cut else "")
        for i, (reward, advantage, cut) in enumerate(
            zip(
                recording.rewards[rows].tolist(),
                recording.advantages[rows].tolist(),
                recording.truncated[rows],
                strict=True,
            )
        )
    ]


def _hover(inspection, rows, page, values):
    """One text a cell: the value drawn, and what it is made of."""
    kl = torch.zeros_like(inspection.ratio) if inspection.kl is None else inspection.kl
    tables = [values, inspection.ratio, inspection.advantage, kl, inspection.clipped]
    tables = [table[rows, page].tolist() for table in tables]
    return [
        [
            f"{visible(token)}: {value:+.3g}<br>ratio {ratio:.3f}, A {a:+.2f}, KL {k:.3g}"
            + (f"<br>{clip_word(inspection)}" if cut else "")
            for token, value, ratio, a, k, cut in zip(tokens[page], *columns, strict=True)
        ]
        for tokens, *columns in zip(inspection.recording.tokens[rows], *tables, strict=True)
    ]


def _alt(inspection, rows, before):
    keep = inspection.mask[rows].bool()
    push = inspection.push[rows][keep]
    up, down, clipped = (int(x.sum()) for x in (push > 0, push < 0, inspection.clipped[rows]))
    hardest = push.abs().max().item() if len(push) else 0.0
    alt = (
        f"{len(keep)} completions, {len(push)} tokens that count: the next update pushes {up} up and {down} down, "
        f"the hardest by {hardest:.3g}; {clipped} are {clip_word(inspection)}, {int((~keep).sum())} masked"
    )
    if before is not None:
        change = (inspection.push - before.push)[rows].abs()  # 0 where neither counts
        otherwise = int((change > 1e-9 * push_limit(inspection, before)).sum())  # rounding aside
        alt += f". Below, the change against another setting: {otherwise} tokens are pushed otherwise"
    return f"{alt}."
