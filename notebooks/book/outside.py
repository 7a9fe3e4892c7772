"""Sphinx extension: all addresses outside the book on one page, written before the build from what `links.py` finds."""

from pathlib import Path

from links import external, texts

INTRO = """\
# External links

Every address outside the book that a notebook, a page or the README names, and where. `python notebooks/links.py` lists
the same; nothing is fetched.

"""


def page(table):
    """The page of {address: names of the files that hold it}; a page of the site is named by its link.

    >>> print(page({"https://example.com/a": ["01_bandit_grpo.ipynb", "README.md"]}).splitlines()[-1])
    - <https://example.com/a>: [01](../01_bandit_grpo.ipynb), README
    """
    return INTRO + "".join(f"- <{link}>: {', '.join(map(_named, names))}\n" for link, names in table.items())


def _named(file):
    stem, _, kind = file.partition(".")
    if file == "README.md":
        return stem
    return f"[{stem[:2] if kind == 'ipynb' else stem.replace('_', ' ')}](../{file})"


def write_page(app):
    """Event `builder-inited`; after the reference, whose folder it shares."""
    path, text = Path(app.srcdir) / "api" / "external_links.md", page(external(texts()))
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write_page, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
