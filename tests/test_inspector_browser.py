"""The rollout inspector, moved by mouse and keyboard in a real Chromium, in JupyterLab and in Notebook 7."""

import json

import pytest
from jupyter_pages import PLOT, choose, drag, growth, key, labels_cut, menu, open_plot, readout, serve, type_number

from grpo_lib.inspect_view import explore_rollout

pytestmark = pytest.mark.browser

CELL = """from grpo_lib import RolloutInspector
inspector = RolloutInspector()
inspector"""
HEAT_MAPS = f"""() => {{
  const plot = document.querySelector({PLOT!r});
  return plot && plot.data && plot.data.filter(t => t.type == "heatmap").map(t => t.z.map(row => Array.from(row)));
}}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("jupyter"), CELL) as address:
        yield address


def wait_for(page, view, what):
    """Wait until the page shows this view: the heat maps number for number, the story and the changes in words."""
    wanted = [[list(row) for row in trace.z] for trace in view.figure.data if trace.type == "heatmap"]
    texts = [*view.story.words.splitlines(), *filter(None, [view.changes])]
    for _ in range(150):
        seen = page.evaluate(HEAT_MAPS)
        body = page.locator(".jp-OutputArea").first.inner_text()
        if seen == wanted and all(text in body for text in texts):
            assert labels_cut(page) == [], what
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{what}: the page shows {json.dumps(seen)[:300]}, wanted {json.dumps(wanted)[:300]}, {texts}")


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_pickers_and_settings_change_the_picture(browser, address, front, tmp_path):
    page = open_plot(browser, address, front)
    start = explore_rollout()
    place = dict(token=start.token)
    wait_for(page, start, "at the start")
    assert page.locator(".jp-OutputArea-output", has_text="The figure's tokens as text").count() == 0  # the widget
    page.screenshot(path=tmp_path / "start.png")

    menu(page, "loss").select_option(label="cispo")
    wait_for(page, explore_rollout(**place, loss_type="cispo"), "cispo chosen")
    choose(page, "loss", "ArrowDown")
    wait_for(page, explore_rollout(**place, loss_type="sapo"), "the next loss chosen by key")
    menu(page, "loss").select_option(label="dapo")
    menu(page, "ratio of a").select_option(label="sequence")
    settings = dict(loss_type="dapo", importance_sampling_level="sequence")
    wait_for(page, explore_rollout(**place, **settings), "sequence level")
    page.screenshot(path=tmp_path / "sequence.png")

    drag(page, "beta", 0.8)
    assert abs(readout(page, "beta") - 0.8) < 0.1
    wait_for(page, explore_rollout(**place, **settings, beta=readout(page, "beta")), "beta dragged")
    page.locator("input[type=checkbox]").check()
    weighed = dict(settings, beta=readout(page, "beta"), bias_correction_kl=True)
    wait_for(page, explore_rollout(**place, **weighed), "the box ticked")
    page.locator("input[type=checkbox]").focus()
    page.keyboard.press("Space")
    for name in ("Shift+ArrowLeft", "PageDown"):
        beta = key(page, "beta", name)
        wait_for(page, explore_rollout(**place, **settings, beta=beta), f"{name} on beta")
    type_number(page, "beta", "0.1")
    wait_for(page, explore_rollout(**place, **settings), "beta typed")
    beta = key(page, "beta", "PageUp")
    menu(page, "compare").select_option(label="with the setting before")
    wait_for(page, explore_rollout(**place, **settings, beta=beta, compare_with=dict(settings, beta=0.1)), "before")

    menu(page, "group").select_option(index=3)
    menu(page, "completion").select_option(index=3)
    key(page, "token", "Home")
    picked = dict(group=3, completion=3, token=0)
    wait_for(page, explore_rollout(**picked, **settings, beta=beta, compare_with=dict(settings, beta=0.1)), "another")
    page.screenshot(path=tmp_path / "picked.png")
    page.close()


def test_the_page_lets_go_of_the_figures_before(browser, address):
    page = open_plot(browser, address, "lab")
    nodes, size = growth(page, "beta")
    assert nodes < 500 and size < 2_000_000, (nodes, size)  # one figure has over 700 nodes
    page.close()
