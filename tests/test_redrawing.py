"""What the three widgets have in common: bursts of events are gathered, and nothing stays behind when they close."""

import asyncio
import json
import re
import time

import ipywidgets
import pytest
from traitlets import TraitError
from widget_trees import all_widgets, walk

from grpo_lib import BanditExplorer, RolloutInspector, live_cells, rollout_inspector
from grpo_lib import widgets as bandit_widgets
from grpo_lib.explore import compare_bandits, explore_bandit, explore_bandit_step
from grpo_lib.inspect_view import explore_rollout
from grpo_lib.named_controls import closing_on_error
from grpo_lib.redrawing import QUIET, close_tree, live_layout

MAKE = {
    "explorer": ("BanditExplorer(num_iterations=50)", "_draw"),
    "inspector": ("RolloutInspector()", "_draw"),
    "panel": (
        "LivePanel(load_tiny_policy, load_addition('train'), GRPOSettings(batch_size=1, max_completion_length=2,"
        " beta=0.0, learning_rate=1e-4), reward_function=addition_reward)",
        "_draw_status",
    ),
}
SETUP = """
import asyncio, time, warnings; warnings.simplefilter("ignore")
from grpo_lib import *
import torch; torch.set_num_threads(1)
def count(thing, name):
    times, draw = [], getattr(thing, name)
    def counted(*arguments):
        draw(*arguments)
        times.append(time.time())
    setattr(thing, name, counted)
    return times
def left():
    tasks = [t for t in asyncio.all_tasks() if "LiveRun" in repr(t)]
    return [len(get_ipython().kernel.comm_manager.comms), len(tasks)]
"""


@pytest.mark.parametrize("name", MAKE)
def test_a_burst_of_30_messages_leads_to_few_redraws_and_closing_leaves_nothing(kernel, name):
    make, draw = MAKE[name]
    kernel.run(SETUP)
    before = kernel.run("print(left())")
    kernel.run(f"thing = {make}; times = count(thing, {draw!r}); thing.show(); del times[:]")
    comm = kernel.run("print(thing.beta.model_id)")
    kernel.run("seen = []; thing.beta.observe(lambda change: seen.append((change.new, time.time())), 'value')")
    for i in range(1, 31):
        kernel.move(comm, i / 40)
        time.sleep(0.01)
    kernel.wait(
        f"len(seen) == 30 and bool(times) and times[-1] >= seen[-1][1] and time.time() - times[-1] > {3 * QUIET}"
    )
    value, after, total = kernel.run("print(seen[-1][0], sum(t >= seen[-1][1] for t in times), len(times))").split()
    assert float(value) == 0.75 and 1 <= int(after) <= 2, total
    shown = {"explorer": "thing.run.beta", "inspector": "thing.view.inspection.options['beta']"}
    if name == "panel":
        assert "next step: beta 0.75" in kernel.run("print(thing._view.status.value)")
        assert kernel.run("print(thing.run(1)[0].beta, len(thing.changes))") == "0.75 1"  # one step, one change
    else:
        assert float(kernel.run(f"print({shown[name]})")) == 0.75 and int(total) < 30
    kernel.move(comm, 0.5)  # a redraw is still on its way when it closes
    kernel.run("thing.close(); thing.close(); del times[:]")
    kernel.run("import asyncio; await asyncio.sleep(0.3)")
    assert kernel.run("print(left())") == before and kernel.run("print(times)") == "[]"


def things():
    return BanditExplorer(num_iterations=2), RolloutInspector()


def test_closing_leaves_no_widget_observer_or_redraw_and_keeps_what_was_drawn():
    async def kernel():
        before = all_widgets().keys()
        for thing in things():
            assert len(all_widgets().keys() - before) > 30
            thing.prepare()
            drawn, figure, control = [], thing.figure, thing.beta
            thing._draw = lambda drawn=drawn: drawn.append(True)
            control.value = 0.25  # a redraw waits
            thing.close()
            control.value = 0.75  # nobody listens any longer
            await asyncio.sleep(3 * QUIET)
            assert drawn == [] and asyncio.all_tasks() == {asyncio.current_task()}
            for widget in walk(thing.box):
                assert widget.comm is None and not widget._trait_notifiers
            with pytest.raises(RuntimeError, match=f"this {type(thing).__name__} is closed: make a new one"):
                thing.show()
            with pytest.raises(RuntimeError, match="is closed"):  # it would be of another beta
                _ = thing.figure
            thing._stale = False
            assert thing.figure == figure
        explorer, inspector = things()
        explorer.close(), inspector.close()
        assert all_widgets().keys() == before

    asyncio.run(kernel())


def test_a_control_cannot_be_replaced_by_a_number():
    names = {
        "explorer": "beta learning_rate num_samples updates_per_rollout normalise baseline kl_direction clip "
        "num_iterations seed compare",
        "inspector": "group completion token compare loss_type importance_sampling_level beta epsilon epsilon_high "
        "delta bias_correction_kl",
    }
    for thing, (mine, controls) in zip(things(), names.items(), strict=True):
        for name in controls.split():
            control, value = getattr(thing, name), getattr(thing, name).value
            advice = re.escape(f"{name} is a control and stays one: set its value, as in {mine}.{name}.value = 0.5")
            with pytest.raises(AttributeError, match=f"^{advice}$"):
                setattr(thing, name, 0.5)
            assert getattr(thing, name) is control and control.value == value
        thing.close()


BAD = [
    (BanditExplorer, dict(beta=10.0), ValueError),  # found when all are made
    (BanditExplorer, dict(clip="wide", baseline="median"), TraitError),  # found while they are made
    (BanditExplorer, dict(seed="one"), TraitError),
    (RolloutInspector, dict(group=7), ValueError),
    (RolloutInspector, dict(gamma=1), TypeError),
]


@pytest.mark.parametrize("make, setting, error", BAD)
def test_a_panel_that_cannot_be_made_leaves_no_widget(make, setting, error):
    before = all_widgets().keys()
    with pytest.raises(error):
        make(**setting)
    assert all_widgets().keys() == before
    good = make()  # and the next one is not touched
    with pytest.raises(error):
        make(**setting)
    assert all_widgets().keys() - before >= {widget.model_id for widget in walk(good.box)}
    assert good.figure
    good.close()
    assert all_widgets().keys() == before


@pytest.mark.parametrize("module, make", [(bandit_widgets, BanditExplorer), (rollout_inspector, RolloutInspector)])
def test_a_panel_that_fails_at_its_very_end_leaves_no_widget(module, make, monkeypatch):
    before, count = all_widgets().keys(), []

    def arrange(*_):
        count.append(len(all_widgets().keys() - before))
        raise MemoryError

    monkeypatch.setattr(module, "arrange", arrange)
    with pytest.raises(MemoryError):
        make()
    assert count[0] > 30 and all_widgets().keys() == before


def test_what_else_listens_to_new_widgets_still_does():
    seen, before = [], ipywidgets.Widget._widget_construction_callback
    ipywidgets.Widget.on_widget_constructed(seen.append)
    try:
        with closing_on_error():
            inner = ipywidgets.Label()
        with pytest.raises(ZeroDivisionError), closing_on_error():
            lost = ipywidgets.Label()
            1 / 0  # noqa: B018
        outer = ipywidgets.Label()
    finally:
        ipywidgets.Widget.on_widget_constructed(before)
    assert [widget for widget in seen if isinstance(widget, ipywidgets.Label)] == [inner, lost, outer]
    assert inner.comm is not None and lost.comm is None and outer.comm is not None
    close_tree(inner), close_tree(outer)


def test_only_axes_labelled_in_words_keep_their_automatic_margin():
    kept = {
        "run": (explore_bandit(num_iterations=2), set()),
        "compare": (compare_bandits({}, {}, num_iterations=2), set()),
        "step": (explore_bandit_step(), {"xaxis", "xaxis2", "xaxis3"}),
        "inspector": (explore_rollout(loss_type="dapo").figure, {"yaxis", "yaxis2"}),
    }
    for name, (figure, automatic) in kept.items():
        given = json.loads(figure.to_json())
        before = json.dumps(given)
        layout = live_layout(given)
        axes = {axis for axis in layout if axis[1:5] == "axis"}
        assert {axis for axis in axes if layout[axis].get("automargin") is not False} == automatic, name
        panels = [box["height"] - box["margin"]["t"] - box["margin"]["b"] for box in (layout, given["layout"])]
        assert panels[0] == panels[1] and json.dumps(given) == before


def test_a_cell_run_again_closes_what_it_made_before(monkeypatch):
    monkeypatch.setattr(live_cells, "_MADE", {})

    def execute(cell, execution):
        monkeypatch.setattr(live_cells, "_running_cell", lambda: (cell, execution))

    execute("cell 1", "a")
    first = things()
    execute("cell 2", "b")
    elsewhere = things()
    assert not any(thing.closed for thing in first)
    execute("cell 1", "c")
    again = things()
    assert all(thing.closed for thing in first) and not any(thing.closed for thing in (*elsewhere, *again))
    for thing in (*elsewhere, *again):
        thing.close()


def test_the_keys_that_work_are_told_by_every_widget():
    for thing in things():
        [text] = [w.value for w in walk(thing.box) if isinstance(w, ipywidgets.HTML) and "Keyboard" in w.value]
        for word in ("Shift+", "PageUp", "PageDown", "Home or End", "number beside", "Notebook 7", "Space", "Enter"):
            assert word in text
        thing.close()
