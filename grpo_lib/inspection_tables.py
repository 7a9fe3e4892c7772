"""A group of completions as HTML: a table of what each was worth, and its tokens in the colours of the next update."""

from html import escape

from grpo_lib.recorded import check_place
from grpo_lib.token_plots import readable, visible

__all__ = ["group_table", "push_colour", "push_limit", "token_rows"]

_MIDDLE, _UP, _DOWN = (247, 247, 247), (31, 127, 193), (213, 94, 0)  # blue pushes up, vermilion down

_RIGHT, _LEFT = (
    'style="text-align:right;padding:1px 10px;white-space:nowrap"',
    'style="text-align:left;padding:1px 10px"',
)
_BOLD = ' style="font-weight:bold"'
_LONGEST = 120  # characters of a completion that are shown
_MOST = 2000  # tokens of a group that are shown as text
_OWN_WAY = "unicode-bidi:isolate"  # a token that is written from right to left must not move its neighbours


def group_table(inspection, group=0, picked=None):
    """A group's completions as an HTML table: text, reward, advantage, length, whether cut, and its part of the loss.

    Args:
        inspection: an `Inspection`. group: which of its groups. picked: a row of the group to set in bold, or None.
    Returns:
        a string of HTML.
    """
    recording, rows = inspection.recording, inspection.recording.group(group)
    head = ("", "completion", "reward", "advantage", "tokens", "cut", clip_word(inspection), "part of the loss")
    columns = (
        recording.texts[rows],
        recording.rewards[rows].tolist(),
        recording.advantages[rows].tolist(),
        recording.mask[rows].sum(dim=1).tolist(),
        recording.truncated[rows].tolist(),
        inspection.clipped[rows].sum(dim=1).tolist(),
        inspection.contribution[rows].sum(dim=1).tolist(),
    )
    body = ""
    for i, (text, reward, advantage, length, cut, clipped, part) in enumerate(zip(*columns, strict=True)):
        number = f"▶ {i}" if i == picked else f"{i}"
        cells = (f"{reward:g}", f"{advantage:+.3f}", f"{length}", "cut" if cut else "", f"{clipped}", f"{part:+.5f}")
        shown = f"<td {_LEFT}><code>{_line(text)}</code></td>"
        body += f'<tr{_BOLD if i == picked else ""}><th scope="row" {_RIGHT}>{number}</th>{shown}'
        body += "".join(f"<td {_RIGHT}>{cell}</td>" for cell in cells) + "</tr>"
    header = "".join(f'<th scope="col" {_LEFT if name == "completion" else _RIGHT}>{name}</th>' for name in head)
    prompt, answer = recording.prompts[rows.start], recording.answers[rows.start]
    caption = f'Group {group}: prompt <code style="{_OWN_WAY}">{_line(prompt)}</code>'
    caption += f', answer <code style="{_OWN_WAY}">{_line(answer)}</code>' if answer else ""
    caption = f'<caption style="caption-side:top;text-align:left;color:inherit">{caption}</caption>'
    return f'<table style="line-height:1.4">{caption}<thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'


def clip_word(inspection):
    """What the loss does to a token beyond its range: it cuts the gradient off, or (CISPO) caps the weight."""
    return "capped" if inspection.options["loss_type"] == "cispo" else "clipped"


def push_limit(*inspections):
    """The hardest push of any token in these inspections, the end of the colour scale; 1 where nothing is pushed."""
    return max(x.push.abs().max().item() for x in inspections) or 1.0


def push_colour(share):
    """The colour of a push that is this share of the hardest, from -1 to 1; its strength is the share's square root.

    >>> push_colour(0.0), push_colour(1.0), push_colour(-0.25)
    ('rgb(247,247,247)', 'rgb(31,127,193)', 'rgb(230,170,124)')
    """
    strength, end = abs(share) ** 0.5, _UP if share > 0 else _DOWN
    return "rgb({},{},{})".format(*(round(m + strength * (e - m)) for m, e in zip(_MIDDLE, end, strict=True)))


def token_rows(inspection, group=0, limit=None, *, token=0):
    """A group's tokens as lines of HTML: blue is pushed up, vermilion down, framed is clipped; masked ones are counted.

    Of a large group a part is shown, and how many tokens were left out before and after it.

    Args:
        inspection: an `Inspection`. group: which of its groups. limit: the push of the strongest colour, or None.
        token: a position that is to be in sight.
    Returns:
        a string of HTML.
    Raises:
        ValueError: on a group or a position that is not there.
    """
    rows = inspection.recording.group(group)
    check_place("token", token, inspection.mask.shape[1])
    limit, most = limit or push_limit(inspection), max(1, _MOST // inspection.recording.num_generations)
    first = token // most * most
    page = slice(first, first + most)
    tables = [table[rows, page].tolist() for table in (inspection.push, inspection.clipped, inspection.mask)]
    shown = [tokens[page] for tokens in inspection.recording.tokens[rows]]
    lines = ""
    for i, (tokens, *columns) in enumerate(zip(shown, *tables, strict=True)):
        mask, cells = inspection.mask[rows][i], ""
        for token, push, clipped, kept in zip(tokens, *columns, strict=True):
            frame = "outline:2px solid #222;outline-offset:-2px;" if clipped else ""
            look = f"background:{push_colour(push / limit)};color:#222;{frame}padding:0 3px;margin:0 1px;{_OWN_WAY}"
            title = f"push {push:+.3g}{f', {clip_word(inspection)}' if clipped else ''}"
            cells += f'<span style="{look}" title="{title}">{visible(token)}</span>' if kept else ""
        before, after, hidden = int(mask[:first].sum()), int(mask[first + most :].sum()), int((mask == 0).sum())
        cells = f"<small>{before} before these</small> {cells}" if before else cells
        cells += f" <small>{after} more after these</small>" if after else ""
        cells += f" <small>{hidden} masked</small>" if hidden else ""
        lines += f'<div style="line-height:1.7">{i} <code>{cells}</code></div>'
    return lines


def _line(text):
    """A text on one line, not too long, fit for HTML."""
    text = readable(text)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
