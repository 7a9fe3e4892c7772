"""Run the notebooks from top to bottom and store their outputs.

    python notebooks/run_notebooks.py                # all, in order
    python notebooks/run_notebooks.py 01 10_train    # these
    python notebooks/run_notebooks.py --check        # run, write nothing

A notebook that did not change is written byte-identical: no timings, no
progress bars, no widget state, fixed cell ids, figures as Plotly JSON.  A
control (slider, button) cannot be stored; a line of text stands in for it,
and another for what a cell tagged `of-this-machine` shows (memory, time).
The kernel is the interpreter that runs this script.
"""

import argparse
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

    Progress bars and stderr go; a widget becomes one line of text.
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
    """Execute the notebook at `path`; return the text to store."""
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
    return nbformat.writes(tidy(notebook)) + "\n"


def main(arguments=None, folder=HERE):
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="such as 01 or 10_train")
    parser.add_argument(
        "--check", action="store_true", help="write nothing"
    )
    options = parser.parse_args(arguments)
    try:
        paths = find_notebooks(options.names, folder)
    except ValueError as error:
        parser.error(str(error))
    failed = []
    for path in paths:
        start = time.perf_counter()
        try:
            text = run(path)
        except CellExecutionError as error:
            failed.append(path.name)
            print(f"{path.name}: a cell failed\n{error}", flush=True)
            continue
        if not options.check:
            path.write_text(text, encoding="utf-8", newline="\n")
        took = time.perf_counter() - start
        print(f"{path.name}: ran in {took:.0f} s", flush=True)
    print(f"{len(paths) - len(failed)} of {len(paths)} notebooks ran")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
