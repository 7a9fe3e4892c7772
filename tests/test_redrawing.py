"""What the three widgets have in common: bursts of events are gathered, and nothing stays behind when they close."""

import asyncio
import time

import ipywidgets
import pytest
from widget_trees import all_widgets, walk

from grpo_lib import BanditExplorer, RolloutInspector, live_cells
from grpo_lib.redrawing import QUIET

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
