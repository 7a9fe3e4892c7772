"""The library's docstrings as reStructuredText: prose, formulae, arguments, doctests.

A docstring of grpo_lib is plain text. Backticks mark code; an indented block is a formula or a table, kept as it is;
`Args:`, `Returns:`, `Raises:` and `Attributes:` begin a section; `>>>` begins an example.
"""

import re

SECTIONS = {
    "Args:": "Arguments",
    "Attributes:": "Attributes",
    "Returns:": "Returns",
    "Raises:": "Raises",
}
SPECIAL = re.compile(r"([\\*_|<>])")
STRESSED = re.compile(r"(?<![\w*\\])\\\*([a-zA-Z][a-zA-Z -]*)\\\*(?![\w*\\])")  # *so*, after SPECIAL
ITEM = re.compile(r"^((?:\*{0,2}\w+(?:\.\w+)*)(?:, \*{0,2}\w+(?:\.\w+)*)*): (.*)$", re.S)


def to_rst(lines):
    """The lines of a docstring as lines of reStructuredText.

    >>> print(*to_rst(["Half of `x`.", "", "Args:", "    x: a number."]), sep="|")
    Half of ``x``.||.. rubric:: Arguments||``x``|    a number.|
    """
    lines, out, at = [line.rstrip() for line in lines], [], 0
    while at < len(lines):
        line = lines[at]
        if not line:
            at += 1
            continue
        take = _example if line.startswith(">>>") else _indented if line.startswith(" ") else _prose
        title, rest = _section(line)
        if title:
            block, at = _block(lines, at + 1)
            out += [
                f".. rubric:: {title}",
                "",
                *_items([rest, *block] if rest else block),
            ]
            continue
        block, at = take(lines, at)
        out += block
    return out


def _section(line):
    """A section's title and what stands beside it, or None."""
    for mark, title in SECTIONS.items():
        if line.startswith(mark):
            return title, line[len(mark) :].strip()
    return None, None


def _block(lines, at):
    """The indented lines from here on, without their indentation, and where they end."""
    end = at
    while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
        end += 1
    block = lines[at:end]
    depth = min(
        (len(line) - len(line.lstrip()) for line in block if line),
        default=0,
    )
    return [line[depth:] for line in block], end


def _example(lines, at):
    end = at
    while end < len(lines) and lines[end]:
        end += 1
    return _code(lines[at:end], "pycon"), end


def _indented(lines, at):
    block, end = _block(lines, at)
    while block and not block[-1]:
        block.pop()
    return _code(block, "text"), end


def _prose(lines, at):
    end = at
    while end < len(lines) and lines[end] and not lines[end].startswith((" ", ">>>")) and not _section(lines[end])[0]:
        end += 1
    text = " ".join(lines[at:end])
    while end < len(lines) and lines[end].startswith(" ") and text.startswith(("Source:", "Sources:")):
        text += " " + lines[end].strip()  # a source that goes on, indented
        end += 1
    return [inline(text), ""], end


def _items(block):
    """A section's lines as a definition list; lines that name nothing are prose."""
    texts = []
    for line in block:
        if not line:
            continue
        if line.startswith(" ") and texts:
            texts[-1] += " " + line.strip()
        elif texts and not ITEM.match(line):
            texts[-1] += " " + line
        else:
            texts.append(line)
    out = []
    for text in texts:
        named = ITEM.match(text)
        if named:
            names = ", ".join(f"``{name}``" for name in named[1].split(", "))
            out += [names, "    " + (inline(named[2]) or "\\ "), ""]
        else:
            out += [inline(text), ""]
    return out


def _code(block, language):
    return [
        f".. code-block:: {language}",
        "",
        *[f"    {line}" if line else "" for line in block],
        "",
    ]


def inline(text):
    """One line of prose: backticks become literals, all else is kept as it stands.

    >>> inline("the mean of `r_i`, a*b")
    'the mean of ``r_i``, a\\\\*b'
    """
    parts = re.split(r"(`+)(.+?)\1", text.strip())
    out = []
    for i in range(0, len(parts), 3):
        out.append(STRESSED.sub(r"*\1*", SPECIAL.sub(r"\\\1", parts[i])).replace("`", "\\`"))
        if i + 2 < len(parts):
            before, after = parts[i][-1:], parts[i + 3][:1]
            left = "\\ " if before and not before.isspace() and before not in "([{-/" else ""
            right = "\\ " if after and (after.isalnum() or after in "_`") else ""
            out.append(f"{left}``{parts[i + 2].strip()}``{right}")
    return "".join(out)
