"""Where the scripts are that the site serves by itself: plotly.js and MathJax, each out of a package of the book's."""

from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path

MATHJAX = "tex-svg-full.js"  # all extensions of TeX in one file; the smaller one fetches them when they are used


def plotly_file():
    """The path of plotly.min.js, of the very Plotly that drew the figures."""
    package = find_spec("plotly").submodule_search_locations[0]
    return str(Path(package) / "package_data" / "plotly.min.js")


def mathjax_file():
    """The path of MathJax 3."""
    [found] = [path for path in files("django-static-mathjax") if path.parts[-2:] == ("es5", MATHJAX)]
    return str(found.locate())
