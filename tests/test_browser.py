"""The explorer's sliders, moved by mouse and keyboard in a real Chromium, in JupyterLab and in Notebook 7."""

import json

import pytest
from jupyter_pages import (
    PLOT,
    choose,
    drag,
    growth,
    key,
    labels_cut,
    menu,
    open_plot,
    press,
    readout,
    serve,
    type_number,
)

from grpo_lib.explore import compare_bandits, explore_bandit, explore_bandit_step

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
    with serve(tmp_path_factory.mktemp("jupyter"), CELL) as address:
        yield address


def _wait_for(page, figure, what):
    """Wait until the page's Plotly figure holds this figure's curves, number for number."""
    wanted = [[trace.name, list(trace.y)] for trace in figure.data]
    for _ in range(150):
        seen = page.evaluate(CURVES)
        if seen == wanted:
            assert labels_cut(page) == [], what
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{what}: the page shows {json.dumps(seen)[:300]}, wanted {json.dumps(wanted)[:300]}")


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_sliders_change_the_curves(browser, address, front, tmp_path):
    page = open_plot(browser, address, front)
    _wait_for(page, explore_bandit(), "at the start")
    page.screenshot(path=tmp_path / "start.png")

    drag(page, "beta", 0.4)
    beta = readout(page, "beta")
    assert abs(beta - 2.0) < 0.3
    _wait_for(page, explore_bandit(beta), "beta dragged")

    drag(page, "learning rate", 0.625)
    rate = 10 ** round(-4 + 4 * 0.625, 1)
    assert readout(page, "learning rate") == pytest.approx(rate, rel=0.3)
    rate = _exact_rate(readout(page, "learning rate"))
    _wait_for(page, explore_bandit(beta, rate), "learning rate dragged")
    page.screenshot(path=tmp_path / "dragged.png")

    keys = ["Shift+ArrowRight", "PageUp", "PageDown", "Home", "End", "Shift+ArrowLeft"]
    for name in keys + ["ArrowLeft"] * (front == "lab"):  # Notebook 7 keeps the plain arrows for itself
        beta = key(page, "beta", name)
        _wait_for(page, explore_bandit(beta, rate), f"{name} on beta")
    type_number(page, "beta", "1.25")
    beta = readout(page, "beta")
    assert beta == 1.25
    _wait_for(page, explore_bandit(beta, rate), "beta typed")

    press(page, "One step")
    _wait_for(page, explore_bandit_step(beta, rate), "one step")
    page.wait_for_selector("table:has-text('learning rate ×')")
    press(page, "One step")
    _wait_for(page, explore_bandit_step(beta, rate, iteration=2), "second step")
    page.screenshot(path=tmp_path / "step.png")
    press(page, "Run")
    _wait_for(page, explore_bandit(beta, rate), "run")

    menu(page, "baseline").select_option(label="mean of the others")
    present = dict(beta=beta, learning_rate=rate, baseline="loo")
    _wait_for(page, explore_bandit(**present), "baseline chosen")
    press(page, "Compare", "Space")
    _wait_for(page, compare_bandits(present, present), "compare")
    drag(page, "updates per rollout", 1.0)
    other = dict(present, updates_per_rollout=8)
    _wait_for(page, compare_bandits(present, other), "updates dragged beside the kept run")
    choose(page, "KL", "ArrowDown")
    _wait_for(page, compare_bandits(present, dict(other, kl_direction="forward")), "KL chosen by key")
    page.screenshot(path=tmp_path / "compare.png")
    press(page, "Reset", "Space")
    _wait_for(page, explore_bandit(), "reset")
    page.close()


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_the_page_lets_go_of_the_figures_before(browser, address, front):
    page = open_plot(browser, address, front)
    nodes, size = growth(page, "beta")
    assert nodes < 500 and size < 2_000_000, (nodes, size)  # one figure has over 600 nodes
    page.close()


def _exact_rate(shown):
    """The learning rate on the slider's grid of tenths of a decade that reads as `shown`."""
    grid = [10 ** (tenth / 10) for tenth in range(-40, 1)]
    return min(grid, key=lambda rate: abs(rate - shown))
