"""Sphinx extension: notebooks and pages as they are read, scripts where a page needs them."""

import json
import re
from hashlib import sha256
from pathlib import Path

from book.controls import library_digest
from book.figures import prepare

BADGE = re.compile(r"\[!\[Open in Colab\]\(https://colab\.research\.google\.com/assets/colab-badge\.svg\)\]\(([^)]+)\)")
FUNCTION = re.compile(r"(?<![`}])`(grpo_lib(?:\.\w+)+)`(?!`)")
BUTTON = r"[Open in Colab](\1){.colab-button}"


def read_source(app, name, source):
    """Event `source-read`: outputs that the site can show, and a button that fetches no picture.

    On the pages beside the notebooks a function's full name leads to the reference.
    """
    file = Path(app.env.doc2path(name))
    if file.suffix == ".ipynb":
        notebook = prepare(json.loads(source[0]))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = BADGE.sub(BUTTON, "".join(cell["source"]))
        source[0] = json.dumps(notebook)
    elif file.suffix == ".md":
        source[0] = FUNCTION.sub(r"{py:obj}`~\1`", source[0])


def add_scripts(app, pagename, templatename, context, doctree):
    """Event `html-page-context`: plotly.js only where there is a figure."""
    if doctree is not None and "plotly-figure" in context.get("body", ""):
        for script in ("plotly.min.js", "figures.js", "sliders.js"):
            app.add_js_file(script, loading_method="defer")


def setup(app):
    own = sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()
    app.add_config_value("book_library", library_digest() + own, "env")  # if that changes, every page is read anew
    app.connect("source-read", read_source)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
