"""The explorer's sliders, moved by mouse and keyboard in a real Chromium, in JupyterLab and in Notebook 7."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import grpo_lib
from grpo_lib.explore import compare_bandits, explore_bandit, explore_bandit_step

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install 'grpo_lib[dev]')")
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed (pip install 'grpo_lib[dev]')")
pytest.importorskip("notebook", reason="Notebook 7 is not installed (pip install 'grpo_lib[dev]')")

from playwright.sync_api import expect, sync_playwright  # noqa: E402

pytestmark = pytest.mark.browser

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(grpo_lib.__file__)))
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
CELL = """from grpo_lib.widgets import BanditExplorer
explorer = BanditExplorer()
explorer.show()"""
PLOT = ".jp-OutputArea .js-plotly-plot"
CURVES = f"""() => {{
  const plot = document.querySelector({PLOT!r});
  return plot && plot.data && plot.data.map(t => [t.name, Array.from(t.y)]);
}}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a Jupyter server on an empty folder with one notebook, whose kernel is this interpreter."""
    work = tmp_path_factory.mktemp("jupyter")
    cell = dict(cell_type="code", id="c0", metadata={}, outputs=[], execution_count=None, source=CELL)
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


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


def _open(browser, url):
    """A page with the notebook's cell run and the explorer's first figure drawn."""
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


def _wait_for(page, figure, what):
    """Wait until the page's Plotly figure holds this figure's curves, number for number."""
    wanted = [[trace.name, list(trace.y)] for trace in figure.data]
    for _ in range(150):
        seen = page.evaluate(CURVES)
        if seen == wanted:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{what}: the page shows {json.dumps(seen)[:300]}, wanted {json.dumps(wanted)[:300]}")


def _readout(
    page,
    description,
):
    """The number that stands beside a slider."""
    row = page.locator(".widget-slider", has=page.locator("label", has_text=description))
    return float(row.locator(".widget-readout").inner_text())


def _handle(page, description):
    row = page.locator(".widget-slider", has=page.locator("label", has_text=description))
    return row.locator(".noUi-handle"), row.locator(".noUi-base")


def _menu(page, description):
    return page.locator(".widget-dropdown", has=page.locator("label", has_text=description)).locator("select")


def _drag(page, description, fraction):
    handle, base = _handle(page, description)
    handle.scroll_into_view_if_needed()
    start, track = handle.bounding_box(), base.bounding_box()
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(track["x"] + fraction * track["width"], start["y"] + start["height"] / 2, steps=5)
    page.mouse.up()


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_sliders_change_the_curves(browser, address, front, tmp_path):
    url = f"{address}/lab/tree/lab.ipynb?reset" if front == "lab" else f"{address}/notebooks/notebook.ipynb"
    page = _open(browser, url)
    _wait_for(page, explore_bandit(), "at the start")
    page.screenshot(path=tmp_path / "start.png")

    _drag(page, "beta", 0.4)
    beta = _readout(page, "beta")
    assert abs(beta - 2.0) < 0.3
    _wait_for(page, explore_bandit(beta), "beta dragged")

    _drag(page, "learning rate", 0.625)
    rate = 10 ** round(-4 + 4 * 0.625, 1)
    assert _readout(page, "learning rate") == pytest.approx(rate, rel=0.3)
    rate = _exact_rate(_readout(page, "learning rate"))
    _wait_for(page, explore_bandit(beta, rate), "learning rate dragged")
    page.screenshot(path=tmp_path / "dragged.png")

    keys = ["Shift+ArrowRight", "PageUp", "Home", "End", "Shift+ArrowLeft"]
    for key in keys + ["ArrowLeft"] * (front == "lab"):  # Notebook 7 keeps the plain arrows for itself
        before = _readout(page, "beta")
        _handle(page, "beta")[0].focus()
        page.keyboard.press(key)
        page.wait_for_timeout(300)
        beta = _readout(page, "beta")
        assert beta != before, key
        _wait_for(page, explore_bandit(beta, rate), f"{key} on beta")

    page.click("button:has-text('One step')")
    _wait_for(page, explore_bandit_step(beta, rate), "one step")
    page.wait_for_selector("table:has-text('learning rate ×')")
    page.click("button:has-text('One step')")
    _wait_for(page, explore_bandit_step(beta, rate, iteration=2), "second step")
    page.screenshot(path=tmp_path / "step.png")
    page.click("button:has-text('Run')")
    _wait_for(page, explore_bandit(beta, rate), "run")

    _menu(page, "baseline").select_option(label="mean of the others")
    present = dict(beta=beta, learning_rate=rate, baseline="loo")
    _wait_for(page, explore_bandit(**present), "baseline chosen")
    page.locator("button:has-text('Compare')").focus()
    page.keyboard.press("Space")
    _wait_for(page, compare_bandits(present, present), "compare")
    _drag(page, "updates per rollout", 1.0)
    other = dict(present, updates_per_rollout=8)
    _wait_for(page, compare_bandits(present, other), "updates dragged beside the kept run")
    _menu(page, "KL").focus()
    for key in ("Space", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    _wait_for(page, compare_bandits(present, dict(other, kl_direction="forward")), "KL chosen by key")
    page.screenshot(path=tmp_path / "compare.png")
    page.click("button:has-text('Reset')")
    _wait_for(page, explore_bandit(), "reset")
    page.close()


def _exact_rate(shown):
    """The learning rate on the slider's grid of tenths of a decade that reads as `shown`."""
    grid = [10 ** (tenth / 10) for tenth in range(-40, 1)]
    return min(grid, key=lambda rate: abs(rate - shown))
