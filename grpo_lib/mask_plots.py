"""Masks in pictures: what each position of a sequence is, and two masks over the same tokens compared."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib.plot_style import TEMPLATE, TEXT, finish, subplots
from grpo_lib.token_plots import escaped, readable, shortened, visible

__all__ = ["mask_figure", "role_figure"]

# name -> fill, pattern, pattern's colour, text colour
_ROLES = {
    "prompt padding": ("#D9D9D9", "/", "#A8A8A8", "#222222"),
    "prompt": ("#B9D7EC", "", "#B9D7EC", "#222222"),
    "completion": ("#1F7FC1", "", "#1F7FC1", "#FFFFFF"),
    "end token": ("#E69F00", "", "#E69F00", "#222222"),
    "after the end": ("#D9D9D9", "\\", "#A8A8A8", "#222222"),
}
_COUNTS = {
    "counts": ("#1F7FC1", "", "#1F7FC1", "#FFFFFF"),
    "does not count": ("#D9D9D9", "/", "#A8A8A8", "#222222"),
    "counts, wrongly": ("#D55E00", "", "#D55E00", "#FFFFFF"),
    "left out, wrongly": ("#F9DCC6", "x", "#F0AF83", "#222222"),
}


def role_figure(tokens, completion_mask, truncated, *, prompt_mask=None, row_labels=None, title=None):
    """Draw what each position of a batch is: prompt padding, prompt, completion, end token, after the end.

    Args:
        tokens: B rows of L + T token strings (L = 0 without a prompt mask).
        completion_mask: (B, T), from `create_completion_mask`: ones, then zeros.
        truncated: (B,), from `truncated_completions`; the last 1 of a row that is not truncated is its end token.
        prompt_mask: (B, L), zeros (padding), then ones; a line is drawn where the prompt ends.
        row_labels: B names for the rows.
    Returns:
        `go.Figure`, one trace for each role in sight.
    Raises:
        ValueError: if the shapes do not fit, or a mask is no mask of one end (as one made by comparing ids).

    >>> fig = role_figure([["4", "<end>", "<pad>"]], [[1, 1, 0]], [False])
    >>> [trace.name for trace in fig.data]
    ['completion', 'end token', 'after the end']
    """
    counts, cut = _mask("completion_mask", completion_mask), _array(truncated).astype(bool)
    if cut.shape != counts.shape[:1]:
        raise ValueError(f"truncated must have shape {counts.shape[:1]}, one a row, got {cut.shape}")
    ones = counts.sum(axis=1)
    for row, mask in enumerate(counts):
        if not mask[: ones[row]].all() or not ones[row] or (cut[row] and not mask.all()):
            wanted = "all ones, as it is truncated" if cut[row] else "ones, then zeros"
            raise ValueError(f"completion_mask[{row}] must be {wanted}, got {mask.tolist()}")
    names = np.where(counts, "completion", "after the end").astype(object)  # (B, T)
    names[~cut, ones[~cut] - 1] = "end token"
    length = 0
    if prompt_mask is not None:
        prompt = _mask("prompt_mask", prompt_mask)
        if len(prompt) != len(counts) or (np.diff(prompt, axis=1) < 0).any():
            raise ValueError(f"prompt_mask must have {len(counts)} rows of zeros, then ones, got {prompt.tolist()}")
        names = np.concatenate([np.where(prompt, "prompt", "prompt padding").astype(object), names], axis=1)
        length = prompt.shape[1]
    rows = _token_rows(tokens, names.shape)
    fig = go.Figure(layout=dict(template=TEMPLATE))
    _draw(fig, rows, names, _ROLES, width=620)
    if length:
        fig.add_vline(x=length - 0.5, line=dict(color=TEXT, width=3))
    _axes(fig, len(rows), names.shape[1], row_labels)
    where = "prompt | completion" if length else "completion"
    fig.update_xaxes(title_text=f"position in the row: {where} (tokens)")
    told = ", ".join(f"{(names == name).sum()} {name}" for name in _ROLES if (names == name).any())
    alt = f"{len(rows)} row(s) of {names.shape[1]} tokens: {told}."
    return finish(fig, height=max(34 * len(rows), 80), alt=alt, title=title, barmode="overlay")


def mask_figure(tokens, masks, *, row_labels=None, title=None):
    """Draw masks over the same tokens in panels; where one differs from the first, the cell is vermilion.

    Args:
        tokens: B rows of T token strings.
        masks: dict name → (B, T) of 0 and 1; the first is the right one.
        row_labels: B names for the rows.
    Returns:
        `go.Figure`; short rows side by side, longer ones one above the other.
    Raises:
        ValueError: if there is no mask, the shapes do not fit, or an entry is neither 0 nor 1.

    >>> fig = mask_figure([["4", "<end>"]], {"right": [[1, 1]], "ids != end": [[1, 0]]})
    >>> fig.layout.meta["alt"]
    'Masks over 1 row(s) of 2 tokens. right: 2 count. ids != end: 1 count, 0 of them wrongly, 1 left out wrongly.'
    """
    if not masks:
        raise ValueError("masks must hold at least one mask, the right one first")
    given = {str(name): _mask(f"masks[{name!r}]", mask) for name, mask in masks.items()}
    right = next(iter(given.values()))
    for name, mask in given.items():
        if mask.shape != right.shape:
            raise ValueError(f"all masks must have one shape: the first has {right.shape}, {name!r} has {mask.shape}")
    rows = _token_rows(tokens, right.shape)
    beside = len(given) if len(given) * right.shape[1] <= 22 else 1
    down = len(given) // beside
    height = 34 * len(rows) + 40
    gap = dict(x=0.03, y=48 / (down * height)) if down > 1 else dict(x=0.03)
    fig = subplots(down, beside, shared_yaxes=beside > 1, subplot_titles=[escaped(name) for name in given], **gap)
    told, drawn = [], set()
    for i, (name, mask) in enumerate(given.items()):
        place = dict(row=i // beside + 1, col=i % beside + 1)
        kinds = np.where(right, np.where(mask, "counts", "left out, wrongly"), "does not count").astype(object)
        kinds[(mask == 1) & (right == 0)] = "counts, wrongly"
        drawn |= _draw(fig, rows, kinds, _COUNTS, width=620 / beside, place=place, seen=drawn)
        _axes(fig, len(rows), mask.shape[1], row_labels, place)
        told.append(f"{name}: {mask.sum()} count")
        if i:
            wrong, lost = (kinds == "counts, wrongly").sum(), (kinds == "left out, wrongly").sum()
            told[-1] += f", {wrong} of them wrongly, {lost} left out wrongly"
    fig.update_annotations(font=dict(size=13))
    fig.update_xaxes(title_text="position in the row (tokens)", row=down)
    alt = f"Masks over {len(rows)} row(s) of {right.shape[1]} tokens. {'. '.join(told)}."
    fig = finish(fig, height=down * height, alt=alt, title=title, barmode="overlay")
    return fig.update_layout(margin_t=fig.layout.margin.t + 20)  # room for the panels' titles


def _array(values):
    """An array of lists, arrays or tensors, these wherever they are."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def _mask(name, values):
    """A (B, T) array of 0 and 1."""
    array = _array(values)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{name} must have shape (B, T), none of them 0, got {array.shape}")
    if not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name} must hold 0 and 1 only, got {array[~np.isin(array, (0, 1))].flat[0]}")
    return array.astype(int)


def _token_rows(tokens, shape):
    rows = [list(row) for row in tokens]
    lengths = [len(row) for row in rows]
    if lengths != [shape[1]] * shape[0]:
        raise ValueError(f"tokens must have {shape[0]} rows of {shape[1]} tokens, as the masks, got rows of {lengths}")
    return rows


def _draw(fig, rows, names, looks, *, width, place=None, seen=()):
    """One bar trace for each name in sight, a box a token; returns the names drawn."""
    longest = max(1, *(len(readable(token)) for row in rows for token in row))
    room = max(3, int(width / names.shape[1] / (0.6 * 8)))  # characters that fit into a cell at the smallest font
    size = int(np.clip(width / names.shape[1] / min(room, longest) / 0.6, 8, 13))
    drawn = set()
    for name, (fill, shape, line, ink) in looks.items():
        cells = [(int(j), int(i), rows[i][j]) for i, j in zip(*np.nonzero(names == name), strict=True)]
        if not cells:
            continue
        x, y, text = (list(column) for column in zip(*cells, strict=True))
        fig.add_bar(
            x=x,
            y=[0.94] * len(x),
            base=[i - 0.47 for i in y],
            width=0.94,
            text=[shortened(token, room) for token in text],
            hovertext=[visible(token) for token in text],
            hovertemplate="%{hovertext}: " + name + "<extra></extra>",
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            textfont=dict(color=ink, size=size),
            marker=dict(color=fill, pattern=dict(shape=shape, fgcolor=line, bgcolor=fill, size=8)),
            name=name,
            legendgroup=name,
            showlegend=name not in seen,
            **(place or {}),
        )
        drawn.add(name)
    return drawn


def _axes(fig, height, width, row_labels, place=None):
    labels = [f"row {i}" for i in range(height)] if row_labels is None else [escaped(label) for label in row_labels]
    if len(labels) != height:
        raise ValueError(f"row_labels must have one name for each of the {height} rows, got {len(labels)}")
    place = place or {}
    fig.update_xaxes(range=[-0.5, width - 0.5], dtick=1 if width <= 30 else 5, tick0=0, showgrid=False, **place)
    ticks = dict(tickvals=list(range(height)), ticktext=labels) if place.get("col", 1) == 1 else {}
    fig.update_yaxes(range=[height - 0.5, -0.5], showgrid=False, **ticks, **place)
