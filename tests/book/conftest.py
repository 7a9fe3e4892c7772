"""The site, built once and served to a headless browser that has no other network."""

import functools
import http.server
import os
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))  # for site_pages
WANTED = os.environ.get("GRPO_BOOK_LANE") == "1"


def _needs(*names):
    for name in names:
        try:
            __import__(name)
        except ModuleNotFoundError:
            reason = f"{name} is not installed: pip install -r notebooks/book/requirements.txt"
            (pytest.fail if WANTED else pytest.skip)(reason)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site: $GRPO_BOOK_SITE, or one built here."""
    if os.environ.get("GRPO_BOOK_SITE"):
        return Path(os.environ["GRPO_BOOK_SITE"])
    _needs("sphinx", "myst_nb", "sphinx_book_theme")
    import build_book

    target = tmp_path_factory.mktemp("book") / "html"
    assert build_book.build(target) == 0, "Sphinx warned: see above"
    return target


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def address(site):
    """Where the site is served."""
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser(chromium):
    """A headless browser. Not longer than a module, see tests/conftest.py."""
    _needs("playwright", "axe_playwright_python")
    from jupyter_pages import FLAGS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """`visit(name, …)` opens a page of the site; what went wrong on it is in its `faults`."""
    from site_pages import Visit

    open_now = []

    def go(name, **options):
        open_now.append(Visit(browser, address, name, **options))
        return open_now[-1]

    yield go
    for one in open_now:
        one.close()
