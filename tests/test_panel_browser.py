"""The live panel in a real Chromium: paused, steered by mouse and keyboard, stepped, in JupyterLab and Notebook 7."""

import json

import numpy as np
import pytest
from jupyter_pages import PLOT, choose, drag, key, open_page, page_size, press, readout, run_cell, serve, type_number

pytestmark = pytest.mark.browser

CELLS = [
    """import time
from grpo_lib import GRPOSettings, LivePanel, addition_reward, classroom, load_addition, load_tiny_policy
import torch; torch.set_num_threads(1)
ends = []
settings = GRPOSettings(batch_size=2, num_generations=4, max_completion_length=16, beta=0.0, learning_rate=1e-4)
panel = LivePanel(load_tiny_policy, load_addition("train"), settings, reward_function=addition_reward,
                  on_step=lambda run, record: ends.append(time.time()))
panel.show()""",
    """import json
from ipywidgets import Widget
rows = [[r.step, r.beta, r.learning_rate, r.temperature, r.num_generations] for r in panel.history]
drawn = {name: [getattr(r, name) for r in panel.history] for name in ("reward_mean", "completion_length", "entropy")}
opened = panel._view.inspector
view = opened and dict(title=opened.figure.layout.title.text, ratios=opened.view.inspection.ratio.max().item(),
                       maps=[[list(row) for row in t.z] for t in opened.figure.data if t.type == "heatmap"])
comms = len(get_ipython().kernel.comm_manager.comms)
print(json.dumps(dict(rows=rows, drawn=drawn, view=view, ends=ends, comms=comms)))""",
    """import asyncio
for _ in range(250):
    record = panel.history.pop(); panel._live.redraw(); await asyncio.sleep(0.01)
    panel.history.append(record); panel._live.redraw(); await asyncio.sleep(0.01)
print('"redrawn"')""",
]
POINTER_UP = """() => { window.ups = [];
  addEventListener('pointerup', e => window.ups.push((performance.timeOrigin + e.timeStamp) / 1000), true); }"""
INSPECTOR = f"""() => {{
  const plot = document.querySelector({PLOT!r});
  return plot && plot.data && {{title: plot.layout.title.text.replaceAll("<br>", " "),
    maps: plot.data.filter(t => t.type == "heatmap").map(t => t.z.map(row => Array.from(row)))}};
}}"""
PAGE = """() => {
  const chart = document.querySelector('.live-chart');
  if (!chart) return null;
  const lines = [...chart.querySelectorAll('.live-curve')];
  const points = line => line.getAttribute('d').match(/[-0-9.]+,[-0-9.]+/g);
  return {
    step: Number(chart.dataset.step),
    points: Object.fromEntries(lines.map(l => [l.dataset.column, points(l).length])),
    heights: Object.fromEntries(lines.map(l => [l.dataset.column, points(l).map(p => Number(p.split(',')[1]))])),
    marks: [...new Set([...chart.querySelectorAll('.live-change')].map(m => Number(m.dataset.step)))],
    values: Object.fromEntries([...chart.querySelectorAll('.live-value')].map(t => [t.dataset.column, t.textContent])),
    status: document.querySelector('.live-status').textContent,
    changes: document.querySelector('.live-changes')?.textContent ?? '',
    samples: document.querySelectorAll('.live-samples td').length,
    buttons: [...document.querySelectorAll('button.jupyter-button')].map(b => b.textContent.trim()),
  };
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("jupyter"), *CELLS) as address:
        yield address


def wait_for(page, what, condition):
    """What the page shows of the panel, once the condition holds for it."""
    seen = None
    for _ in range(600):
        seen = page.evaluate(PAGE)
        if seen is not None and condition(seen):
            return seen
        page.wait_for_timeout(50)
    raise AssertionError(f"{what}: the page shows {json.dumps(seen)}")


def ask(page, cell=1):
    """Run a cell that prints JSON, and read it from the page."""
    output = page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea-output pre")
    before = page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-InputPrompt").inner_text()
    run_cell(page, cell)
    for _ in range(600):
        prompt = page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-InputPrompt").inner_text()
        if prompt not in (before, "[*]:") and output.count():
            return json.loads(output.first.inner_text())
        page.wait_for_timeout(50)
    raise AssertionError(f"cell {cell} did not end: {prompt}")


def check_inspector(page):
    """The inspector on the page shows the kernel's picture of the newest step, with ratios that have moved off 1."""
    view = ask(page)["view"]
    assert view.pop("ratios") > 1.00001  # on the policy that drew it: within 1e-6 of 1
    for _ in range(100):
        if page.evaluate(INSPECTOR) == view:
            return view
        page.wait_for_timeout(100)
    raise AssertionError(f"the page shows {json.dumps(page.evaluate(INSPECTOR))[:300]}, the kernel {view}")


def exact(shown):
    """The learning rate on the slider's grid of tenths of a decade that reads as `shown`."""
    return min((10 ** (tenth / 10) for tenth in range(-70, -9)), key=lambda rate: abs(rate - shown))


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_a_run_is_steered_while_it_trains(browser, address, front, tmp_path):
    page = open_page(browser, address, front, height=1300)
    run_cell(page, 0)
    wait_for(page, "at the start", lambda seen: seen["step"] == 0 and "ready" in seen["status"])
    page.evaluate(POINTER_UP)

    press(page, "Start")
    wait_for(page, "started", lambda seen: seen["step"] >= 3 and "training" in seen["status"])
    press(page, "Pause", "Space")
    paused = wait_for(page, "paused", lambda seen: "paused" in seen["status"] and "Resume" in seen["buttons"])
    step = paused["step"]
    page.wait_for_timeout(1000)
    seen = page.evaluate(PAGE)
    assert (
        seen == paused and set(seen["points"].values()) == {step} and len(seen["points"]) == 7 and seen["samples"] == 12
    )

    drag(page, "beta", 0.3)
    assert abs(readout(page, "beta") - 1.5) < 0.3
    for name in ("Shift+ArrowRight", "PageUp"):
        beta = key(page, "beta", name)
    drag(page, "learning rate", 0.6)
    for name in ("Shift+ArrowLeft", "PageUp", "PageDown"):
        rate = exact(key(page, "learning rate", name))
    assert rate == pytest.approx(10 ** (-7 + 6 * 0.6), rel=0.6)
    wait_for(page, "announced", lambda seen: f"next step: beta {beta:.3g}, learning rate {rate:.3g}" in seen["status"])
    press(page, "One step")
    taken = f"taken with beta {beta:.3g}, learning rate {rate:.3g}, temperature 1, group size 4"
    seen = wait_for(page, "one step", lambda seen: seen["step"] == step + 1 and taken in seen["status"])
    assert seen["marks"] == [step + 1] and set(seen["points"].values()) == {step + 1}
    assert f"from step {step + 1}: beta 0 → {beta:.3g}" in seen["changes"]
    record = ask(page)["rows"][-1]
    assert record == [step + 1, pytest.approx(beta), pytest.approx(rate), 1.0, 4]
    page.screenshot(path=tmp_path / "stepped.png")

    press(page, "Resume", "Space")
    wait_for(page, "resumed", lambda seen: seen["step"] >= step + 4)
    drag(page, "beta", 0.9)
    let_go, beta = page.evaluate("window.ups.at(-1)"), readout(page, "beta")
    drag(page, "group size", 0.2)
    type_number(page, "temperature", "0.5")
    wait_for(page, "steered", lambda seen: seen["changes"].count("from step") >= 5)
    press(page, "Pause")
    wait_for(page, "paused", lambda seen: "paused" in seen["status"])
    said = ask(page)
    begun_after = [row for row, before in zip(said["rows"][1:], said["ends"], strict=False) if before > let_go]
    assert [row[1] == pytest.approx(beta) for row in begun_after].index(True) <= 1, "obeyed at the first or second step"
    assert said["rows"][-1][3:] == [0.5, int(readout(page, "group size"))]
    seen = page.evaluate(PAGE)
    for column, values in said["drawn"].items():  # each curve is its column, upside down, up to one scale
        slope, offset = np.polyfit(values, seen["heights"][column], 1)
        assert slope < 0
        np.testing.assert_allclose(seen["heights"][column], slope * np.array(values) + offset, atol=0.11)
        assert seen["values"][column].endswith(f"{values[-1]:.3g}")

    press(page, "Inspect")
    page.wait_for_selector(PLOT)
    view = check_inspector(page)
    choose(page, "loss", "ArrowDown")
    page.wait_for_timeout(1000)
    assert check_inspector(page) != view
    page.screenshot(path=tmp_path / "inspected.png", full_page=True)

    press(page, "Reset", "Space")
    wait_for(page, "reset", lambda seen: seen["step"] == 0 and "Start" in seen["buttons"] and seen["points"] == {})
    page.wait_for_selector(PLOT, state="detached")
    assert (readout(page, "beta"), readout(page, "group size"), readout(page, "temperature")) == (0, 4, 1)
    page.close()


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_a_cell_run_again_leaves_one_run_and_500_redraws_leave_nothing(browser, address, front):
    page = open_page(browser, address, front)
    run_cell(page, 0)
    wait_for(page, "at the start", lambda seen: seen["step"] == 0)
    comms = ask(page)["comms"]
    press(page, "Start")
    wait_for(page, "started", lambda seen: seen["step"] >= 3)
    run_cell(page, 0)
    wait_for(page, "run again", lambda seen: seen["step"] == 0 and "ready" in seen["status"])
    page.wait_for_timeout(1000)
    said = ask(page)
    assert (said["rows"], said["ends"], said["comms"]) == ([], [], comms) and page.evaluate(PAGE)["step"] == 0
    press(page, "One step")
    wait_for(page, "one step", lambda seen: seen["step"] == 1)

    assert ask(page, 2) == "redrawn"  # the first time warms up
    before = page_size(page)
    assert ask(page, 2) == "redrawn"
    after = page_size(page)
    print(front, "DOM nodes and bytes before and after 500 redraws", before, after)
    assert after[0] - before[0] < 500  # one chart has over 100 nodes
    assert after[1] - before[1] < 5_000_000
    page.close()
