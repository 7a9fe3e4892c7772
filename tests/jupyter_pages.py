"""A Jupyter server of this interpreter, and its pages in a real Chromium, as the browser tests need them.

A test says what a person does, by mouse (`drag`, `press`) or by keyboard (`key`, `type_number`, `choose`), and reads
what the page then shows.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import grpo_lib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(grpo_lib.__file__)))
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FRONTS = {"lab": "lab/tree/lab.ipynb?reset", "notebook": "notebooks/notebook.ipynb"}
PLOT = ".jp-OutputArea .js-plotly-plot"
LABELS_CUT = f"""() => {{
  const plot = document.querySelector({PLOT!r}), room = plot.getBoundingClientRect(), wrong = [];
  const box = text => [text.textContent, text.getBoundingClientRect()];
  const all = query => Array.from(plot.querySelectorAll(query), box).filter(([_, b]) => b.width);
  for (const [text, b] of all('.infolayer text, .xtick text, .ytick text'))
    if (b.left < room.left || b.right > room.right || b.top < room.top || b.bottom > room.bottom) wrong.push(text);
  for (const [title, a] of all('.xtitle, .ytitle'))
    for (const [text, b] of all('.xtick text, .ytick text, .legendtext'))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
        wrong.push(title + ' | ' + text);
  return wrong;
}}"""


# --- server and page


@contextmanager
def serve(work, *cells):
    """Serve a folder with one notebook of these cells for each front end; gives the server's address."""
    cells = [
        dict(cell_type="code", id=f"c{i}", metadata={}, outputs=[], execution_count=None, source=cell)
        for i, cell in enumerate(cells)
    ]
    kernel = dict(name="python3", display_name="Python 3", language="python")
    book = dict(cells=cells, metadata=dict(kernelspec=kernel), nbformat=4, nbformat_minor=5)
    for name in FRONTS:
        (work / f"{name}.ipynb").write_text(json.dumps(book))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {f"JUPYTER_{kind}_DIR": str(work / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    folders["JUPYTERLAB_SETTINGS_DIR"] = str(work / "settings")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="]
    environment = {**os.environ, **folders, "PATH": path, "PYTHONPATH": ROOT}
    with open(work / "server.log", "w") as log:
        server = subprocess.Popen([*command, f"--ServerApp.root_dir={work}"], stdout=log, stderr=log, env=environment)
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


def open_page(browser, address, front, height=1000):
    """A page of the notebook in the front end "lab" or "notebook", its kernel ready to be asked."""
    page = browser.new_page(viewport=dict(width=1280, height=height))
    page.set_default_timeout(60_000)
    page.goto(f"{address}/{FRONTS[front]}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.locator(".jp-Notebook-ExecutionIndicator, .jp-NotebookKernelStatus").first.wait_for(state="attached")
    page.wait_for_timeout(3000)
    return page


def run_cell(page, index):
    """Run one cell of the notebook; does not wait for its end."""
    page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-InputPrompt").click()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")


def open_plot(browser, address, front):
    """A page whose first cell has been run and has drawn its Plotly figure."""
    page = open_page(browser, address, front)
    run_cell(page, 0)
    page.wait_for_selector(PLOT)
    return page


def labels_cut(page):
    """Texts of the page's Plotly figure that reach out of it, or of which one covers another on an axis."""
    return page.evaluate(LABELS_CUT)


# --- controls


def slider(page, description):
    """The (handle, track) of the slider with this description."""
    row = _row(page, description)
    return row.locator(".noUi-handle"), row.locator(".noUi-base")


def readout(page, description):
    """The number that stands beside a slider."""
    return float(_row(page, description).locator(".widget-readout").inner_text())


def _row(page, description):
    return page.locator(".widget-slider", has=page.locator("label", has_text=description))


def menu(page, description):
    """The menu with this description, to be chosen from with `select_option`."""
    return page.locator(".widget-dropdown", has=page.locator("label", has_text=description)).locator("select")


def drag(page, description, fraction):
    """Pull a slider's handle with the mouse to a place on its track, from 0 to 1, and let go."""
    handle, track = slider(page, description)
    handle.scroll_into_view_if_needed()
    start, box = handle.bounding_box(), track.bounding_box()
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + fraction * box["width"], start["y"] + start["height"] / 2, steps=5)
    page.mouse.up()


def key(page, description, name):
    """Press a key on a slider; the number it then stands at, which must be another one than before."""
    before = readout(page, description)
    slider(page, description)[0].focus()
    page.keyboard.press(name)
    page.wait_for_timeout(300)
    assert readout(page, description) != before, (description, name)
    return readout(page, description)


def type_number(page, description, text):
    """Type a number into the field beside a slider, and Enter."""
    _row(page, description).locator(".widget-readout").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)


def choose(page, description, *keys):
    """Choose from a menu by keyboard alone: Space opens it, the keys go through it, Enter takes."""
    menu(page, description).focus()
    for name in ("Space", *keys, "Enter"):
        page.keyboard.press(name)


def press(page, name, key=None):
    """Press a button with the mouse, or with a key."""
    button = page.locator(f"button.jupyter-button:has-text('{name}')")
    if key is None:
        button.click()
    else:
        button.focus()
        page.keyboard.press(key)


def page_size(page):
    """(DOM nodes, bytes of the JavaScript heap) that a page holds on to."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return session.send("Memory.getDOMCounters")["nodes"], session.send("Runtime.getHeapUsage")["usedSize"]


def growth(page, description, redraws=12):
    """What a page holds on to after so many more moves of a slider: (DOM nodes, bytes)."""
    sizes = []
    for count in (4, redraws):  # the first ones warm up
        for i in range(count):
            key(page, description, "Shift+ArrowLeft" if i % 2 else "Shift+ArrowRight")
        seen = []
        for _ in range(4):  # what was drawn last is let go of a moment later
            page.wait_for_timeout(1000)
            seen.append(page_size(page))
        sizes.append(min(seen))
    return tuple(after - before for before, after in zip(*sizes, strict=True))
