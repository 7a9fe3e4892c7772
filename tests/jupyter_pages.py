"""A Jupyter server on notebooks of one cell, and pages of it in a real Chromium."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

from playwright.sync_api import expect

import grpo_lib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(grpo_lib.__file__)))
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PLOT = ".jp-OutputArea .js-plotly-plot"


@contextmanager
def jupyter_server(work, source):
    """Serve the folder `work`, with the notebooks lab.ipynb and notebook.ipynb of one cell; yields its address.

    The kernel is this interpreter.
    """
    cell = dict(cell_type="code", id="c0", metadata={}, outputs=[], execution_count=None, source=source)
    kernel = dict(name="python3", display_name="Python 3", language="python")
    book = dict(cells=[cell], metadata=dict(kernelspec=kernel), nbformat=4, nbformat_minor=5)
    for name in ("lab", "notebook"):
        (work / f"{name}.ipynb").write_text(json.dumps(book))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {f"JUPYTER_{kind}_DIR": str(work / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={work}",
    ]
    with open(work / "server.log", "w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **folders, "PATH": path, "PYTHONPATH": ROOT}
        )
    try:
        yield _answering(f"http://127.0.0.1:{port}", server, work / "server.log")
    finally:
        server.terminate()
        server.wait(30)


def _answering(base, server, log):
    for _ in range(300):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(base + "/api", timeout=5)
            return base
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the Jupyter server did not answer:\n{log.read_text()[-3000:]}")


def open_notebook(browser, address, front):
    """A page in the "lab" or the "notebook" front end, its cell run and the first figure drawn."""
    url = f"{address}/lab/tree/lab.ipynb?reset" if front == "lab" else f"{address}/notebooks/notebook.ipynb"
    page = browser.new_page(viewport=dict(width=1280, height=1000))
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_function("document.querySelector('.jp-NotebookPanel, .jp-Notebook') !== null")
    expect(page.locator(".jp-Notebook-ExecutionIndicator, .jp-NotebookKernelStatus").first).to_be_attached()
    page.wait_for_timeout(3000)
    page.click(".jp-Cell .jp-InputPrompt")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(PLOT)
    return page


def menu(page, description):
    """The menu with this description."""
    return page.locator(".widget-dropdown", has=page.locator("label", has_text=description)).locator("select")


def handle(page, description):
    """The handle and the track of a slider."""
    row = page.locator(".widget-slider", has=page.locator("label", has_text=description))
    return row.locator(".noUi-handle"), row.locator(".noUi-base")


def readout(page, description):
    """The number that stands beside a slider."""
    row = page.locator(".widget-slider", has=page.locator("label", has_text=description))
    return float(row.locator(".widget-readout").inner_text())
