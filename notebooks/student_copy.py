"""Write a copy of the notebooks without the exercises' solutions.

    python notebooks/student_copy.py FOLDER
    python notebooks/student_copy.py FOLDER --clear-outputs
    python notebooks/student_copy.py FOLDER --address OWNER/NAME

The copy has the numbered notebooks, their figures, and the pages for
students.  What is folded up under an exercise goes; hints, and the reasons
under a quiz's choices, stay: a student checks a choice with them.

The Colab badges would lead back to the notebooks with solutions, so they
go, unless the copy gets a repository of its own: --address (the notebooks
at its top level, its branch called main).  The setup cell still installs
the library from the book's repository.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

import nbformat

from figure_pictures import one_line_figures
from run_notebooks import find_notebooks
from set_address import ADDRESS, read_address

HERE = Path(__file__).resolve().parent
FOLDED = re.compile(
    r"<details><summary>(?P<summary>.*?)</summary>.*?</details>\n*", re.S
)
KEPT = re.compile(r"[a-e]\) |Hint")  # all else that is folded up goes
NOT_FOR_STUDENTS = ("index.md", "instructor")  # names of pages begin so
BADGE = re.compile(
    r"\[!\[Open in Colab\]\([^)]*\)\]"
    r"\(https://colab\.research\.google\.com/[^)]*/(?P<name>[^/)]+)\)"
)
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)")


def student_notebook(notebook, elsewhere, address=None, clear=False):
    """A notebook as students get it; the one given stays as it is.

    Args:
        notebook: with solutions.
        elsewhere: a function from a relative link to the link in the copy.
        address: OWNER/NAME of the copy's own repository, for the badges.
        clear: whether to leave out the outputs.
    """
    notebook = nbformat.from_dict(notebook)
    kept = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = student_text(cell.source, elsewhere, address)
            if cell.source.strip() and not text.strip():
                continue
            cell.source = text
        elif clear:
            cell.outputs, cell.execution_count = [], None
        kept.append(cell)
    notebook.cells = kept
    return notebook


def student_text(text, elsewhere, address=None):
    """A cell's or a page's text without solutions, its links mended.

    >>> folded = "<details><summary>Solution</summary>3</details>"
    >>> student_text("Try it.\\n\\n" + folded, elsewhere=str)
    'Try it.'
    """
    fold = lambda m: m[0] if KEPT.match(m["summary"]) else ""  # noqa: E731
    shorter = FOLDED.sub(fold, text)
    if shorter != text:
        text = shorter.rstrip()
    if BADGE.search(text):
        home = f"https://colab.research.google.com/github/{address}"
        old = BADGE.search(text)[0]
        link = f"{home}/blob/main/{BADGE.search(text)['name']}"
        new = old[: old.rindex("(")] + f"({link})" if address else ""
        text = text.replace(old if address else old + "\n\n", new)
    return LINK.sub(lambda m: m[1] + elsewhere(m[2]), text)


def pages(folder=HERE):
    """The pages beside the notebooks that are for students."""
    found = sorted(folder.glob("*.md"))
    return [p for p in found if not p.name.startswith(NOT_FOR_STUDENTS)]


def link_finder(source, names):
    """A function from a relative link to the link in the copy.

    What the copy does not have is in the book's repository.
    """
    root = source.parent
    home = f"https://github.com/{read_address(root)}/blob/main"

    def elsewhere(link):
        name, anchor = re.fullmatch(r"([^#]*)(#.*)?", link).groups("")
        if name in names or name.startswith("figures/"):
            return link
        target = (source / name).resolve().relative_to(root)
        return f"{home}/{target.as_posix()}{anchor}"

    return elsewhere


def write_copy(folder, source=HERE, address=None, clear=False):
    """Write the copy into a new folder; returns the names of its files.

    Raises:
        FileExistsError: if the folder is there and not empty.
        ValueError: if the address is not OWNER/NAME.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"{folder} is there already: name a new folder, or empty it"
        )
    if address is not None and not re.fullmatch(ADDRESS, address):
        raise ValueError(f"an address is OWNER/NAME, got {address!r}")
    books, texts = find_notebooks([], source), pages(source)
    elsewhere = link_finder(source, {p.name for p in [*books, *texts]})
    written = {}
    for path in books:
        notebook = nbformat.read(path, as_version=4)
        copy = student_notebook(notebook, elsewhere, address, clear)
        written[path.name] = one_line_figures(copy)
    for path in texts:
        text = path.read_text(encoding="utf-8")
        written[path.name] = student_text(text, elsewhere, address)
    shutil.copytree(source / "figures", folder / "figures")
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return sorted(written)


def main(arguments=None):
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="a new one")
    parser.add_argument("--address", help="OWNER/NAME of the copy's own")
    parser.add_argument("--clear-outputs", action="store_true")
    options = parser.parse_args(arguments)
    clear = options.clear_outputs
    try:
        names = write_copy(options.folder, HERE, options.address, clear)
    except (FileExistsError, ValueError) as error:
        parser.error(str(error))
    print(f"{options.folder}: {len(names)} files without solutions")


if __name__ == "__main__":
    sys.exit(main())
