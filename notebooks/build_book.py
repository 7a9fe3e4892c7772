"""Build the book's site from the stored notebooks.

Nothing is run, nothing is fetched.

    python notebooks/build_book.py          # into notebooks/_build/html
    python notebooks/build_book.py FOLDER   # into another folder

Needs `pip install -r notebooks/book/requirements.txt` on top of
requirements.txt.  A warning of Sphinx is an error.
"""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def build(target=HERE / "_build" / "html", source=HERE):
    """Build the site; returns Sphinx's exit status."""
    from sphinx.cmd.build import build_main

    target = Path(target).resolve()
    cache = target.parent / f"{target.name}.doctrees"
    options = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(cache)]
    status = build_main([*options, str(source), str(target)])
    copies = target.parent / "jupyter_execute"  # left by myst-nb, unused
    shutil.rmtree(copies, ignore_errors=True)
    return status


def main():
    """The command."""
    arguments = sys.argv[1:]
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        sys.exit(__doc__)
    try:
        status = build(*arguments)
    except ModuleNotFoundError as error:
        sys.exit(
            f"build_book: {error}; first run: "
            "pip install -r notebooks/book/requirements.txt"
        )
    if status == 0:
        target = arguments[0] if arguments else HERE / "_build" / "html"
        print(f"the site is built: open {Path(target) / 'index.html'}")
    sys.exit(status)


if __name__ == "__main__":
    main()
