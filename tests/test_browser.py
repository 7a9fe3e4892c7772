"""The explorer's sliders, moved by mouse and keyboard in a real Chromium, in JupyterLab and in Notebook 7."""

import json

import pytest

from grpo_lib.explore import compare_bandits, explore_bandit, explore_bandit_step

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install 'grpo_lib[dev]')")
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed (pip install 'grpo_lib[dev]')")
pytest.importorskip("notebook", reason="Notebook 7 is not installed (pip install 'grpo_lib[dev]')")

from jupyter_pages import FLAGS, PLOT, handle, jupyter_server, menu, open_notebook, readout  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

pytestmark = pytest.mark.browser

CELL = """from grpo_lib.widgets import BanditExplorer
explorer = BanditExplorer()
explorer.show()"""
CURVES = f"""() => {{
  const plot = document.querySelector({PLOT!r});
  return plot && plot.data && plot.data.map(t => [t.name, Array.from(t.y)]);
}}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with jupyter_server(tmp_path_factory.mktemp("jupyter"), CELL) as address:
        yield address


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


def _wait_for(page, figure, what):
    """Wait until the page's Plotly figure holds this figure's curves, number for number."""
    wanted = [[trace.name, list(trace.y)] for trace in figure.data]
    for _ in range(150):
        seen = page.evaluate(CURVES)
        if seen == wanted:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{what}: the page shows {json.dumps(seen)[:300]}, wanted {json.dumps(wanted)[:300]}")


def _drag(page, description, fraction):
    knob, base = handle(page, description)
    knob.scroll_into_view_if_needed()
    start, track = knob.bounding_box(), base.bounding_box()
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(track["x"] + fraction * track["width"], start["y"] + start["height"] / 2, steps=5)
    page.mouse.up()


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_sliders_change_the_curves(browser, address, front, tmp_path):
    page = open_notebook(browser, address, front)
    _wait_for(page, explore_bandit(), "at the start")
    page.screenshot(path=tmp_path / "start.png")

    _drag(page, "beta", 0.4)
    beta = readout(page, "beta")
    assert abs(beta - 2.0) < 0.3
    _wait_for(page, explore_bandit(beta), "beta dragged")

    _drag(page, "learning rate", 0.625)
    rate = 10 ** round(-4 + 4 * 0.625, 1)
    assert readout(page, "learning rate") == pytest.approx(rate, rel=0.3)
    rate = _exact_rate(readout(page, "learning rate"))
    _wait_for(page, explore_bandit(beta, rate), "learning rate dragged")
    page.screenshot(path=tmp_path / "dragged.png")

    keys = ["Shift+ArrowRight", "PageUp", "Home", "End", "Shift+ArrowLeft"]
    for key in keys + ["ArrowLeft"] * (front == "lab"):  # Notebook 7 keeps the plain arrows for itself
        before = readout(page, "beta")
        handle(page, "beta")[0].focus()
        page.keyboard.press(key)
        page.wait_for_timeout(300)
        beta = readout(page, "beta")
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

    menu(page, "baseline").select_option(label="mean of the others")
    present = dict(beta=beta, learning_rate=rate, baseline="loo")
    _wait_for(page, explore_bandit(**present), "baseline chosen")
    page.locator("button:has-text('Compare')").focus()
    page.keyboard.press("Space")
    _wait_for(page, compare_bandits(present, present), "compare")
    _drag(page, "updates per rollout", 1.0)
    other = dict(present, updates_per_rollout=8)
    _wait_for(page, compare_bandits(present, other), "updates dragged beside the kept run")
    menu(page, "KL").focus()
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
