"""All links of the book: those within it are checked, the others listed.

    python notebooks/links.py    # every address outside, and what names it

Looks at the notebooks' text, the pages beside them, and the README.
Nothing is fetched.
"""

import re
import sys
from pathlib import Path

import nbformat

HERE = Path(__file__).resolve().parent
CODE_BLOCKS = re.compile(r"^( *)```.*?^\1```", re.S | re.M)
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.S | re.M)
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>(?:!\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]"
    r"\((?P<to><[^>]*>|(?:[^()\s]|\([^()\s]*\))+)(?:\s+\"[^\"]*\")?\)"
)
IMAGE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<to>[^)\s]+)\)")
BARE = re.compile(r"(?:https?://|www\.)[^\s<>\"'`|]+")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)
TARGET = re.compile(r"^\(([\w.-]+)\)=$|<a (?:id|name)=\"([^\"]+)\"", re.M)
FORMS = {
    "arxiv.org": r"/(?:abs|pdf)/\d{4}\.\d{4,5}(?:v\d+)?$",
    "doi.org": r"/10\.\d{4,9}/\S+$",
}
HTTP_ONLY = ("http://joschu.net/",)  # as its author cites it
PLACEHOLDERS = ("example.com", "localhost", "TODO", "XXX", "...", "…")


def texts(root=HERE.parent):
    """{path: its Markdown}: the README, the pages, the notebooks' text."""
    books = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    others = sorted((root / "notebooks").glob("*.md"))
    found = {path: path.read_text("utf-8") for path in others}
    found[root / "README.md"] = (root / "README.md").read_text("utf-8")
    for path in books:
        cells = nbformat.read(path, as_version=4).cells
        parts = [c.source for c in cells if c.cell_type == "markdown"]
        found[path] = "\n\n".join(parts)
    return found


def links(text):
    """Addresses in a Markdown text, in order; what is code does not count.

    >>> links("[a](b.md#c), `[no](link)`, https://arxiv.org/abs/2402.03300.")
    ['b.md#c', 'https://arxiv.org/abs/2402.03300']
    """
    text = CODE.sub(" ", text)
    found = [match["to"].strip("<>") for match in LINK.finditer(text)]
    inner = " ".join(match["text"] for match in LINK.finditer(text))
    found += [match["to"] for match in IMAGE.finditer(inner)]
    bare = [
        trimmed(address) for address in BARE.findall(LINK.sub(" ", text))
    ]
    return found + bare


def trimmed(address):
    """A bare address without the punctuation of its sentence."""
    address = address.rstrip(".,;:!?*_]")
    if address.endswith(")") and "(" not in address:
        return trimmed(address[:-1])
    return address


def images(text):
    """(alt text, address) of the images in a Markdown text."""
    text = CODE.sub(" ", text)
    return [(match["text"], match["to"]) for match in IMAGE.finditer(text)]


def anchors(text):
    """What `#…` can point to: headings as GitHub and the site name them.

    >>> sorted(anchors("## 3. The KL, at last\\n## The end\\n## The end"))
    ['3-the-kl-at-last', 'the-end', 'the-end-1']
    """
    names = {}
    for heading in HEADING.findall(CODE_BLOCKS.sub("", text)):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names[name] = names.get(name, -1) + 1
    found = {
        f"{n}-{i}" for n, last in names.items() for i in range(1, last + 1)
    }
    targets = {a or b for a, b in TARGET.findall(text)}
    return found | names.keys() | targets


def is_external(link):
    """Whether a link leads out of the book."""
    return re.match(r"[a-z]+:|www\.", link) is not None


def broken(found):
    """The links within the book that lead nowhere: (from, link, why)."""
    bad = []
    for path, text in found.items():
        for link in links(text):
            if not is_external(link):
                why = problem(path, link, found)
                bad += [(path.name, link, why)] if why else []
    return bad


def problem(path, link, found):
    """Why a relative link leads nowhere, or None."""
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.exists():
        return "there is no such file"
    if anchor and target in found and anchor not in anchors(found[target]):
        return "there is no such heading"
    return None


def external(found):
    """{address: the names of what holds it}, sorted."""
    table = {}
    for path, text in found.items():
        for link in filter(is_external, links(text)):
            table.setdefault(link, set()).add(path.name)
    return {link: sorted(table[link]) for link in sorted(table)}


def malformed(addresses):
    """Those that cannot be right: (address, why)."""
    return [(link, why) for link in addresses if (why := fault(link))]


def fault(link):
    """Why an address cannot be right, or None.

    >>> fault("https://arxiv.org/abs/2402.3300v")
    'not the form of a link to arxiv.org'
    """
    if not link.startswith(("https://", *HTTP_ONLY)):
        return "not https"
    if any(word in link for word in PLACEHOLDERS):
        return "a placeholder"
    host, slash, rest = link.partition("://")[2].partition("/")
    if not re.fullmatch(r"(?:[\w-]+\.)+[a-z]{2,}", host):
        return "no name of a host"
    for site, form in FORMS.items():
        if host.removeprefix("www.").removeprefix("dx.") == site:
            if not re.match(form, slash + rest):
                return f"not the form of a link to {site}"
    return None


def main():
    """The command: list what is outside, fail on what is broken."""
    found = texts()
    table = external(found)
    for link, names in table.items():
        print(link, "   ", ", ".join(names))
    faults = [f"{name}: {to} ({why})" for name, to, why in broken(found)]
    faults += [f"{to} ({why})" for to, why in malformed(table)]
    print(
        f"{len(table)} addresses; faults: {len(faults)}", *faults, sep="\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
