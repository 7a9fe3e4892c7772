"""Run the notebooks from top to bottom and store their outputs.

    python notebooks/run_notebooks.py                # all, in order
    python notebooks/run_notebooks.py 01 10_train    # these
    python notebooks/run_notebooks.py --check        # run, write nothing
    python notebooks/run_notebooks.py --pictures     # draw, run nothing

A notebook that did not change is written byte-identical: no timings, no
progress bars, no widget state, fixed cell ids, figures as Plotly JSON and,
for pages without JavaScript, as a PNG (see figure_pictures.py).  A control
(slider, button) cannot be stored; a line of text stands in for it, and
another for what a cell tagged `of-this-machine` shows (memory, time).
The kernel is the interpreter that runs this script.
"""

import argparse
import copy
import os
import re
import sys
import time
from pathlib import Path

import ipykernel.kernelspec
import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from figure_pictures import (
    NO_BROWSER,
    PLOTLY,
    add_pictures,
    one_line_figures,
)

HERE = Path(__file__).resolve().parent
RENDERER = {"PLOTLY_RENDERER": "plotly_mimetype"}
STAND_IN = "(The control appears here when the cell is run.)"
OF_THIS_MACHINE = "of-this-machine"  # a cell's tag; what is stored of it:
SEEN_WHEN_RUN = (
    "(What is shown here depends on the machine: run the cell.)\n"
)
WIDGET = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


class ThisInterpreter(AsyncKernelManager):
    """A kernel of the interpreter that runs this script."""

    @property
    def kernel_spec(self):
        """The kernel spec ipykernel would install for `sys.executable`."""
        return KernelSpec(**ipykernel.kernelspec.get_kernel_dict())


def find_notebooks(names, folder=HERE):
    """The numbered notebooks whose file name starts with one of `names`.

    No names: all.  Raises ValueError for a name that fits none.
    """
    found = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
    if not names:
        return found
    stems = [Path(name).stem for name in names]
    for stem in stems:
        if not any(path.stem.startswith(stem) for path in found):
            have = ", ".join(path.stem for path in found) or "none"
            raise ValueError(
                f"no notebook starts with {stem!r}; there are: {have}"
            )
    return [path for path in found if path.stem.startswith(tuple(stems))]


def tidy_outputs(outputs):
    """What is stored of a cell's outputs (and compared by the tests).

    Progress bars and stderr go; a widget becomes one line of text; a
    figure is its JSON alone (the runner adds its picture afterwards).
    """
    kept = []
    for output in outputs:
        output = nbformat.from_dict(output)
        data = output.get("data", {})
        if output.output_type == "stream" and output.name == "stderr":
            continue
        if WIDGET in data:
            if re.search(r"\d+%\|", data.get("text/plain", "")):
                continue  # tqdm's bar: 50%|#####     | 5/10 [00:01<...
            output.data = nbformat.from_dict({"text/plain": STAND_IN})
        if PLOTLY in data:
            output.data = nbformat.from_dict({PLOTLY: data[PLOTLY]})
            output.metadata = nbformat.from_dict({})
        kept.append(output)
    return kept


def tidy(notebook):
    """Drop, in place, all that differs from one run to the next."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat_minor = 5
    for index, cell in enumerate(notebook.cells):
        cell.id = f"cell-{index:02d}"
        keep = ("tags", "jupyter")
        metadata = {k: cell.metadata[k] for k in keep if k in cell.metadata}
        cell.metadata = nbformat.from_dict(metadata)
        if cell.cell_type == "code":
            cell.outputs = tidy_outputs(cell.outputs)
            if OF_THIS_MACHINE in cell.metadata.get("tags", []):
                text = {"name": "stdout", "text": SEEN_WHEN_RUN}
                cell.outputs = [nbformat.v4.new_output("stream", **text)]
    nbformat.validate(notebook)
    return notebook


def run(path, timeout=600):
    """Execute the notebook at `path`; return it as it is to be stored."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_manager_class=ThisInterpreter,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(Path(path).parent)}},
    )
    client.execute(env={**os.environ, **RENDERER})
    return tidy(notebook)


def main(arguments=None, folder=HERE):
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="such as 01 or 10_train")
    parser.add_argument(
        "--check", action="store_true", help="write nothing"
    )
    parser.add_argument(
        "--pictures",
        action="store_true",
        help="run nothing, draw the figures that have no picture",
    )
    parser.add_argument(
        "--redraw",
        action="store_true",
        help="run nothing, draw the picture of every figure anew",
    )
    options = parser.parse_args(arguments)
    draw_only = options.pictures or options.redraw
    if options.check and draw_only:
        parser.error("--check writes nothing: leave out the other option")
    try:
        paths = find_notebooks(options.names, folder)
    except ValueError as error:
        parser.error(str(error))
    one = picture_one if draw_only else run_one
    failed = [path for path in paths if not one(path, options)]
    done = len(paths) - len(failed)
    print(
        f"{done} of {len(paths)} notebooks", "drawn" if draw_only else "ran"
    )
    return 1 if failed or not paths else 0


def run_one(path, options):
    """Run a notebook and store it with its pictures; tell how it went."""
    start = time.perf_counter()
    try:
        notebook = run(path)
    except CellExecutionError as error:
        print(f"{path.name}: a cell failed\n{error}", flush=True)
        return False
    if options.check:
        missing = []
    else:
        missing = add_pictures(notebook, nbformat.read(path, as_version=4))
        write(path, notebook)
    took = time.perf_counter() - start
    print(f"{path.name}: ran in {took:.0f} s", flush=True)
    return tell_missing(path, missing)


def picture_one(path, options):
    """Store a notebook's pictures, without running it."""
    notebook = nbformat.read(path, as_version=4)
    stored = None if options.redraw else copy.deepcopy(notebook)
    missing = add_pictures(notebook, stored)
    if not (missing and options.redraw):  # else it would only lose them
        write(path, notebook)
    return tell_missing(path, missing)


def tell_missing(path, missing):
    """Say which figures have no picture, and what to do; True if none."""
    if missing:
        numbers = ", ".join(map(str, missing))
        print(f"{path.name}: " + NO_BROWSER.format(missing=numbers))
    return not missing


def write(path, notebook):
    """Store a notebook as text that is the same on every system."""
    nbformat.validate(notebook)
    text = one_line_figures(notebook)
    path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
