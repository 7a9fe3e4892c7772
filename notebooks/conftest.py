"""nbval's policy here: every cell runs, and its output is compared.

Text and figures are compared with a tolerance for floats; HTML, stderr,
progress bars and the pictures of figures are not.  A cell that stored a
control must show one again.
"""

import os
from unittest import mock

from notebook_comparison import comparable
from run_notebooks import RENDERER, STAND_IN, tidy_outputs

# Sphinx reads this one, with what is installed for the site.
collect_ignore = ["conf.py"]


def pytest_collectstart(collector):
    """Let the kernels that nbval starts store figures as Plotly JSON."""
    if type(collector).__name__ != "IPyNbFile":
        return
    collector.skip_compare += ("text/html", "stderr")
    start_kernel = collector.setup

    def setup():
        with mock.patch.dict(os.environ, RENDERER):
            start_kernel()

    collector.setup = setup


def pytest_itemcollected(item):
    """Compare with tolerances, after the same tidying as the runner's."""
    if type(item).__name__ != "IPyNbCell":
        return
    sanitize, compare_outputs = item.sanitize, item.compare_outputs

    def compare(test, ref, skip_compare=None):
        test, ref = tidy_outputs(test), tidy_outputs(ref)
        stored, shown = count_controls(ref), count_controls(test)
        if stored == shown == 0:
            return compare_outputs(test, ref, skip_compare)
        item.comparison_traceback = [
            f"stored controls: {stored}, controls shown now: {shown}"
        ]
        return stored == shown

    item.sanitize = lambda output: comparable(sanitize(output))
    item.compare_outputs = compare


def count_controls(outputs):
    """How many of the outputs are stand-ins for a control."""
    return sum(
        output.get("data", {}).get("text/plain") == STAND_IN
        for output in outputs
    )
