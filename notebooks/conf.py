"""Sphinx settings of the book's site: python notebooks/build_book.py"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

from book.assets import MATHJAX, mathjax_file, plotly_file  # noqa: E402
from set_address import read_address  # noqa: E402

project = "GRPO, from a four-word bandit to a language model"
author = "the grpo-book authors"
copyright = f"{author}; code MIT, prose and figures CC BY 4.0"
language = "en"
root_doc = "index"
exclude_patterns = ["_build", "book", "checkpoints", "runs", "**.ipynb_*"]
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # types of other libraries

extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "book.pages",
    "book.api",
    "book.outside",
]

# Notebooks are shown with the outputs stored in them; nothing is run.
nb_execution_mode = "off"
myst_enable_extensions = [
    "dollarmath",
    "colon_fence",
    "deflist",
    "attrs_inline",
]
myst_heading_anchors = 3
myst_dmath_double_inline = True

default_role = "code"
autodoc_member_order = "bysource"
add_module_names = False

# MathJax without its menu: parts of that would be fetched from elsewhere,
# and it makes every formula a stop of the Tab key.
mathjax_path = MATHJAX
mathjax_options = {"defer": "defer"}
mathjax3_config = {
    "options": {"enableMenu": False},
    "tex": {"tags": "none"},
}

html_theme = "sphinx_book_theme"
html_title = project
html_favicon = "book/static/favicon.svg"
html_static_path = ["book/static", plotly_file(), mathjax_file()]
html_css_files = ["book.css"]
html_js_files = [("page.js", {"defer": "defer"})]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "repository_url": f"https://github.com/{read_address(ROOT)}",
    "repository_branch": "main",
    "path_to_docs": "notebooks",
    "use_repository_button": True,
    "use_download_button": False,
    "launch_buttons": {"colab_url": "https://colab.research.google.com"},
    "logo": {"text": "GRPO by hand"},
    "navbar_persistent": [],
    "home_page_in_toc": False,
    "show_navbar_depth": 1,
    "max_navbar_depth": 1,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
