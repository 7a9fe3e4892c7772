"""Token heat maps: rows of tokens, each cell coloured by a value and carrying the token's text."""

import numpy as np
import plotly.graph_objects as go

from grpo_lib.plot_style import TEMPLATE, finish, rounded

_DIVERGING = [[0, "#D55E00"], [0.5, "#F7F7F7"], [1, "#1F7FC1"]]  # vermilion below 0, blue above
_SEQUENTIAL = [[0, "#F7F7F7"], [1, "#1F7FC1"]]
_ROOM = 540  # pixels that the cells have on a page 760 wide: row names and colour bar take the rest
_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_HTML = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def readable(text, blank=" "):
    """A text on one line, every character to be seen: a line end as ⏎, one without a picture by its code.

    Zero-width characters, control characters and those that turn the direction of writing would else hide, or
    reorder what follows.

    >>> readable("a b\\n\\u202ec")
    'a b⏎\\\\u202ec'
    """
    return "".join(blank if c == " " else c if c.isprintable() else _SIGNS.get(c) or _code(c) for c in str(text))


def _code(character):
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def visible(token):
    """A token as it can be read in a cell: blanks and line ends made visible, HTML characters escaped.

    >>> visible(" a\\n")
    '␣a⏎'
    """
    return readable(token, "␣").translate(_HTML)


def escaped(name):
    """A name as a figure can show it: blanks stay blanks, HTML characters are escaped.

    >>> escaped("ids < 9")
    'ids &lt; 9'
    """
    return readable(name).translate(_HTML)


def shortened(token, room):
    """A token as it can be read in a cell of `room` characters; what is too long ends in an ellipsis.

    >>> shortened("<answer>", 5), shortened("7", 5)
    ('&lt;ans…', '7')
    """
    token = readable(token, "␣")
    return (token if len(token) <= room else token[: room - 1] + "…").translate(_HTML)


def token_heatmap(tokens, values, *, mask=None, row_labels=None, title=None, colorbar_title=None, x_title=None):
    """Draw rows of tokens coloured by their values; masked cells are grey and hatched.

    A token too long for its cell is shortened there and stands in full in the hover text. The scale is centred
    on 0 (vermilion below, blue above) if values of both signs are in sight, else it runs from 0.

    Args:
        tokens: B rows of token strings, of any lengths.
        values: B rows of numbers, one a token; None or NaN where there is none.
        mask: B rows of 0 or 1, one a token; 0 greys the cell out and takes its value off the scale.
        row_labels: B names for the rows. x_title: in place of "position in the completion (tokens)".
    Raises:
        ValueError: on an empty or ragged input: the row and both lengths are named.

    >>> fig = token_heatmap([["a", " b"]], [[1.0, -2.0]])
    >>> fig.data[0].zmin, fig.data[0].zmax, list(fig.data[0].text[0])
    (-2.0, 2.0, ['a', '␣b'])
    """
    tokens, values = [list(row) for row in tokens], [list(row) for row in values]
    mask = [[1] * len(row) for row in tokens] if mask is None else [list(row) for row in mask]
    labels = [f"row {i}" for i in range(len(tokens))] if row_labels is None else [escaped(name) for name in row_labels]
    _check_rows(tokens, values=values, mask=mask, row_labels=labels)
    width = max(map(len, tokens))
    room = max(3, int(_ROOM / width / (0.55 * 8)))  # characters that fit into a cell at the smallest font
    z, text = np.full((len(tokens), width), np.nan), [[""] * width for _ in tokens]
    whole, hidden = [[""] * width for _ in tokens], []
    for i, row in enumerate(tokens):
        for j, token in enumerate(row):
            if mask[i][j]:
                z[i, j] = np.nan if values[i][j] is None else values[i][j]
                text[i][j], whole[i][j] = shortened(token, room), visible(token)
            else:
                hidden.append((j, i, shortened(token, room)))
    longest = min(room, max(1, max(len(readable(token)) for row in tokens for token in row)))
    size = int(np.clip(_ROOM / width / longest / 0.55, 8, 13))
    fig = go.Figure(layout=dict(template=TEMPLATE))
    fig.add_heatmap(
        z=rounded(z),
        text=text,
        texttemplate="%{text}",
        textfont_size=size,
        hovertext=whole,
        hovertemplate="%{hovertext}: %{z}<extra></extra>",
        xgap=1,
        ygap=1,
        **_scale(z, colorbar_title),
    )
    if hidden:
        _add_masked(fig, hidden, size)
    x_title = x_title or "position in the completion (tokens)"
    fig.update_xaxes(title_text=x_title, range=[-0.5, width - 0.5], showgrid=False)
    fig.update_xaxes(dtick=1 if width <= 30 else None, tick0=0)
    rows = list(range(len(tokens)))
    fig.update_yaxes(tickvals=rows, ticktext=labels, range=[len(rows) - 0.5, -0.5], showgrid=False)
    names = [f"row {i}" for i in rows] if row_labels is None else [readable(name) for name in row_labels]
    span = _told(z, tokens, names, (colorbar_title or "value").replace("<br>", " "))
    alt = f"{len(tokens)} row(s) of up to {width} tokens; {span}; {len(hidden)} token(s) masked."
    return finish(fig, height=max(34 * len(tokens), 110), alt=alt, title=title)


def _check_rows(tokens, **others):
    if not tokens or not all(tokens):
        raise ValueError("tokens must hold at least one row, and every row at least one token")
    for name, rows in others.items():
        if len(rows) != len(tokens):
            raise ValueError(f"{name} must have one row for each of the {len(tokens)} rows of tokens, got {len(rows)}")
        for i, row in enumerate(rows):
            if name != "row_labels" and len(row) != len(tokens[i]):
                raise ValueError(f"{name}[{i}] must have {len(tokens[i])} entries, one a token, got {len(row)}")


def _told(z, tokens, names, title):
    """What is drawn, its smallest and its largest value, and the token at which each stands first."""
    if not np.isfinite(z).any():
        return "no value"
    places = [np.unravel_index(find(z), z.shape) for find in (np.nanargmin, np.nanargmax)]
    ends = [f"{z[row, col]:.3g} (first at {readable(tokens[row][col])!r}, {names[row]})" for row, col in places]
    return f"{title} from {ends[0]} to {ends[1]}"


def _scale(z, title):
    """Colour scale and limits for the values in sight."""
    seen = z[np.isfinite(z)]
    low, high = (seen.min(), seen.max()) if seen.size else (0.0, 1.0)
    bar = dict(
        title=dict(text=title or "value", side="right", font=dict(size=12)), nticks=4, thickness=14, outlinewidth=0
    )
    if low < 0 < high:
        limit = float(f"{max(-low, high):.5g}")
        return dict(colorscale=_DIVERGING, zmin=-limit, zmax=limit, colorbar=bar)
    if high <= 0 and low < 0:
        return dict(colorscale=[_DIVERGING[0], [1, "#F7F7F7"]], zmin=float(f"{low:.5g}"), zmax=0.0, colorbar=bar)
    return dict(colorscale=_SEQUENTIAL, zmin=0.0, zmax=float(f"{high:.5g}") or 1.0, colorbar=bar)


def _add_masked(fig, cells, size):
    """Grey hatched boxes with the token's text, drawn as bars since heat maps know no hatching."""
    x, y, text = (list(column) for column in zip(*cells, strict=True))
    hatch = dict(color="#CFCFCF", pattern=dict(shape="/", fgcolor="#A8A8A8", bgcolor="#D9D9D9", size=8))
    fig.add_bar(
        x=x,
        y=[0.94] * len(x),
        base=[i - 0.47 for i in y],
        width=0.94,
        text=text,
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        constraintext="none",
        textfont=dict(color="#222222", size=size),
        marker=hatch,
        name="masked",
        showlegend=True,
        hovertemplate="%{text} (masked)<extra></extra>",
    )
