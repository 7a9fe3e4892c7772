"""The live panel is steered between steps, in the kernel's own loop; it draws the run and leaves nothing behind."""

import asyncio
import itertools
import re
import sys
import threading
import tracemalloc
import types
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import ipywidgets
import numpy as np
import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model
from widget_trees import all_widgets, walk

from grpo_lib import GRPORun, GRPOSettings, LivePanel, live_cells, live_run
from grpo_lib.live_chart import Change, live_chart, live_figure
from grpo_lib.live_table import changes_html, newest_samples, samples_html, status_html

pytestmark = pytest.mark.filterwarnings("ignore:step .* every completion was cut")
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
FAST = dict(batch_size=2, max_completion_length=4, beta=0.0, learning_rate=1e-3, max_grad_norm=1.0)
LONG = 60.0  # seconds a test waits for what takes one or two


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def lively():
    torch.manual_seed(0)
    return tiny_model("qwen3", initializer_range=0.6).eval(), CountingTokenizer()


@pytest.fixture
def make():
    """Panels that are closed when the test is over."""
    made = []

    def make_panel(reward_function=count_w5, *, model_factory=lively, max_steps=1000, on_step=(), **settings):
        settings = GRPOSettings(**{**FAST, **settings})
        options = dict(reward_function=reward_function, max_steps=max_steps, on_step=on_step)
        made.append(LivePanel(model_factory, DATA, settings, **options))
        return made[-1]

    yield make_panel
    for panel in made:
        panel.close()


async def until(condition):
    """Let the loop run until the condition holds, as the kernel's loop does between two messages."""

    async def wait():
        while not condition():
            await asyncio.sleep(0.002)

    await asyncio.wait_for(wait(), LONG)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def button(panel, *names):
    [found] = [w for w in walk(panel.box) if isinstance(w, ipywidgets.Button) and w.description in names]
    return found


def shown(panel):
    """All the HTML that stands on the panel, as one text."""
    return "\n".join(w.value for w in walk(panel.box) if isinstance(w, ipywidgets.HTML))


def drawn_step(panel):
    return int(re.search(r'class="live-chart" data-step="(\d+)"', shown(panel))[1])


def fake_history(steps, **columns):
    """Records with the columns that are drawn; a column not given is a slow wave of its own."""
    names = "reward_mean completion_length entropy kl kl_median zero_variance truncated".split()
    waves = {name: [0.5 + 0.4 * np.sin(0.1 * i + k) for i in range(steps)] for k, name in enumerate(names)}
    settings = dict(beta=0.1, learning_rate=1e-3, temperature=1.0, num_generations=4)
    rows = zip(*{**waves, **columns}.values(), strict=True)
    return [SimpleNamespace(step=i + 1, **settings, **dict(zip(names, row, strict=True))) for i, row in enumerate(rows)]


# --- pure functions: the chart


def curves(svg):
    """{column: [(N, 2) points of each piece]} of the curves, read from the SVG as XML."""
    paths = [path for path in ElementTree.fromstring(svg).iter("path") if path.get("class") == "live-curve"]
    return {
        path.get("data-column"): [
            np.array([pair.split(",") for pair in re.findall("[-0-9.]+,[-0-9.]+", piece)], float)
            for piece in path.get("d").split("M")[1:]
        ]
        for path in paths
    }


def polylines(svg):
    """{column: (N, 2) points} of the curves, their pieces joined."""
    return {column: np.concatenate(pieces) for column, pieces in curves(svg).items()}


def test_each_curve_is_its_column_up_to_one_scale_an_axis():
    history = fake_history(40)
    found = polylines(live_chart(history))
    assert list(found) == [
        "reward_mean",
        "completion_length",
        "entropy",
        "kl",
        "kl_median",
        "zero_variance",
        "truncated",
    ]
    for column, points in found.items():
        values = [getattr(record, column) for record in history]
        for axis, wanted, direction in ((0, range(1, 41), 1), (1, values, -1)):
            slope, offset = np.polyfit(wanted, points[:, axis], 1)
            assert np.sign(slope) == direction
            np.testing.assert_allclose(points[:, axis], slope * np.array(wanted) + offset, atol=0.11)
    both = np.concatenate([[r.kl for r in history], [r.kl_median for r in history]])
    pixels = np.concatenate([found["kl"][:, 1], found["kl_median"][:, 1]])
    assert abs(np.corrcoef(both, pixels)[0, 1] + 1) < 1e-4  # mean and median stand on one scale


def test_ticks_say_what_the_pixels_mean():
    history = fake_history(30, reward_mean=list(np.linspace(0.1, 1.9, 30)))
    [cell] = [
        g for g in ElementTree.fromstring(live_chart(history)).iter("svg") if g.get("data-panel") == "reward_mean"
    ]
    ticks = [(float(t.text), float(t.get("y")) - 4) for t in cell.iter("text") if t.get("text-anchor") == "end"]
    slope, offset = np.polyfit(*zip(*ticks, strict=True), 1)
    points = polylines(live_chart(history))["reward_mean"]
    np.testing.assert_allclose((points[:, 1]), slope * np.linspace(0.1, 1.9, 30) + offset, atol=0.15)


def test_a_long_curve_keeps_its_spikes_in_few_points():
    kl = [0.01] * 2000
    kl[777] = 9.0
    points = polylines(live_chart(fake_history(2000, kl=kl)))["kl"]
    assert len(points) <= 301
    assert np.sum(points[:, 1] < points[:, 1].max() - 50) == 1  # one spike, high above the rest
    assert points[0, 0] == points[:, 0].min() and (np.diff(points[:, 0]) > 0).all()


def test_marks_stand_just_before_the_first_step_of_a_setting_and_in_the_words():
    changes = [
        Change(11, "beta", 0.0, 0.5),
        Change(11, "num_generations", 4, 8),
        Change(21, "learning_rate", 1e-3, 1e-4),
    ]
    history = fake_history(30)
    svg = live_chart(history, changes)
    root = ElementTree.fromstring(svg)
    x = polylines(svg)["entropy"][:, 0]
    marks = [
        (int(e.get("data-step")), float(re.match("M([0-9.]+)", e.get("d"))[1]))
        for e in root.iter("path")
        if e.get("class") == "live-change"
    ]
    assert len(marks) == 2 * 6
    for step, at in marks:
        assert at == pytest.approx((x[step - 2] + x[step - 1]) / 2, abs=0.11)
    assert [t.text for t in root.iter("text") if t.get("font-size") == "10"] == ["1,2", "3"] * 6
    assert "from step 11: beta 0 → 0.5; from step 11: group size 4 → 8" in root.get("aria-label")
    assert "<b>3</b> from step 21: learning rate 0.001 → 0.0001" in changes_html(changes)
    assert "… 3 earlier" in changes_html(changes * 3)


def test_newest_values_are_written_and_spoken():
    root = ElementTree.fromstring(live_chart(fake_history(3, reward_mean=[0, 1, 1.2345], kl=[0, 0, 0.25])))
    said = {t.get("data-column"): t.text for t in root.iter("text") if t.get("class")}
    assert said["reward_mean"] == "1.23" and said["kl"] == "mean 0.25" and said["kl_median"].startswith("median 0.")
    label = root.get("aria-label")
    assert "over 3 training steps" in label and "mean reward (points) 1.23; " in label and root.get("role") == "img"


def test_nothing_is_drawn_where_nothing_was_measured():
    assert polylines(live_chart([])) == {}
    found = polylines(live_chart(fake_history(5, kl=[None] * 5, kl_median=[None] * 5)))
    assert "kl" not in found and "kl_median" not in found and len(found) == 5
    assert "NaN" not in live_chart(fake_history(1)) and live_chart(fake_history(1)).count("h0") == 7


def test_what_is_not_finite_leaves_a_gap_and_is_named():
    inf, nan = float("inf"), float("nan")
    kl = [0.1, 0.2, inf, 0.4, None, 0.6, 0.7, nan, 1e306, 1.0, inf]
    history = fake_history(11, kl=kl, entropy=[nan] * 11, completion_length=[None] * 10 + [-inf])
    svg, plain = live_chart(history), live_chart(fake_history(11, kl=[v and min(v, 1) for v in kl[:2]] + [0.3] * 9))
    assert [len(piece) for piece in curves(svg)["kl"]] == [2, 1, 2, 1]
    x = polylines(plain)["kl"][:, 0]
    np.testing.assert_allclose(polylines(svg)["kl"][:, 0], x[[0, 1, 3, 5, 6, 9]])
    kept = [0.1, 0.2, 0.4, 0.6, 0.7, 1.0]
    slope, offset = np.polyfit(kept, polylines(svg)["kl"][:, 1], 1)
    np.testing.assert_allclose(polylines(svg)["kl"][:, 1], slope * np.array(kept) + offset, atol=0.11)
    assert "entropy" not in curves(svg) and "completion_length" not in curves(svg)
    said = {t.get("data-column"): t.text for t in ElementTree.fromstring(svg).iter("text") if t.get("class")}
    assert (said["kl"], said["entropy"], said["completion_length"]) == ("mean inf", "nan", "-inf")
    assert "KL to reference (nats/token) inf" in svg
    figure = live_figure(fake_history(5, kl=[0, 1, inf, nan, None], kl_median=[None, 0.5, inf, nan, 1.0]))
    assert figure.data[3].y == (0, 1, None, None, None) and figure.data[6].y == (None, 0.5, None, None, 1.0)


def test_a_long_curve_keeps_its_gaps():
    kl = [0.5 + 0.1 * (i % 7) for i in range(2000)]
    kl[1000] = float("inf")
    first, second = curves(live_chart(fake_history(2000, kl=kl)))["kl"]
    assert len(first) + len(second) <= 301 and first[-1, 0] < second[0, 0]


@pytest.mark.filterwarnings("ignore:step .* every completion was cut")
def test_a_run_goes_on_and_is_drawn_when_its_kl_is_infinite(make):
    panel = make()
    panel.run(2)
    panel.history[-1] = replace(panel.history[-1], kl=float("inf"))
    panel._live.redraw()
    assert ">mean inf<" in shown(panel) and len(panel.run(1)) == 1 and panel.figure().data[3].y[1] is None


def test_two_hundred_changes_make_no_longer_a_message_than_the_named_ones():
    history = fake_history(200)
    changes = [Change(step + 1, "temperature", 1.0, 1 - step / 1000) for step in range(200)]
    without, few, many = (live_chart(history, some) for some in ([], changes[-6:], changes))
    assert len(many) - len(few) < 12_000 and len(few) - len(without) < 8_000
    root = ElementTree.fromstring(many)
    cells = list(root.iter("svg"))
    for cell in cells:
        named = [int(path.get("data-step")) for path in cell.iter("path") if path.get("class") == "live-change"]
        [earlier] = [path.get("d") for path in cell.iter("path") if path.get("class") == "live-earlier"]
        at = np.array(re.findall(r"M([0-9.]+),", earlier), float)
        assert named == [195, 196, 197, 198, 199, 200] and 60 < len(at) <= 86 and np.diff(at).min() >= 2.9
        x = polylines(many)["entropy"][:, 0]
        assert at[0] == x[0] and x[190] < at[-1] < x[194]  # from the first to the last of the earlier ones
    label = root.get("aria-label")
    assert label.count("from step") == 6 and "Changed 200 times, at last: from step 195" in label
    assert changes_html(changes).count("from step") == 6 and "… 194 earlier" in changes_html(changes)
    alt = live_figure(history, changes).layout.meta["alt"]
    assert alt.count("from step") == 6


def test_the_static_figure_holds_the_same_numbers():
    history, changes = fake_history(12), [Change(5, "beta", 0.0, 1.0)]
    figure = live_figure(history, changes)
    for trace, column in zip(
        figure.data, "reward_mean completion_length entropy kl zero_variance truncated".split(), strict=False
    ):
        np.testing.assert_allclose(trace.y, [getattr(record, column) for record in history], rtol=1e-4)
    np.testing.assert_allclose(figure.data[6].y, [record.kl_median for record in history])
    assert figure.data[6].yaxis == figure.data[3].yaxis and figure.data[6].name == "KL, median over completions"
    assert {shape.x0 for shape in figure.layout.shapes} == {4.5} and len(figure.layout.shapes) == 6
    assert "beta 0 → 1" in figure.layout.title.text and "12 training steps" in figure.layout.meta["alt"]
    with pytest.raises(ValueError, match="take at least one training step first"):
        live_figure([])


# --- pure functions: table and state


def test_what_a_model_writes_is_shown_as_text():
    wild = "<script>alert(1)</script> & <think>"
    rows = [
        dict(prompt="<b>1+1</b>", answer="2", completion=wild, reward=1.0, advantage=0.5, truncated=True),
        dict(prompt="<b>1+1</b>", answer="2", completion="x" * 1000, reward=0.25, advantage=-0.5, truncated=False),
    ]
    html = samples_html(rows, step=7)
    table = ElementTree.fromstring(html)
    assert table.find("caption").text == "Newest samples, step 7: <b>1+1</b>  (answer 2)"
    texts = ["".join(cell.itertext()) for cell in table.iter("td")]
    assert texts[:3] == [wild + " (cut)", "1", "+0.50"]
    assert texts[3].startswith("xxx") and len(texts[3]) == 401 and texts[4:] == ["0.25", "-0.50"]
    assert "<script" not in html
    rows[1]["prompt"] = "2+2"
    long = ElementTree.fromstring(samples_html([dict(rows[0], answer="4" * 1000)]))
    assert long.find("caption").text.endswith(f"(answer {'4' * 400}…)")
    assert [h.text for h in ElementTree.fromstring(samples_html(rows)).iter("th")][0] == "prompt"


def test_the_samples_are_the_first_group_of_the_rollout(make):
    panel = make(num_generations=3)
    assert newest_samples(panel.rollout) == []
    panel.run(2)
    rows = newest_samples(panel.rollout)
    assert [row["completion"] for row in rows] == panel.rollout.texts[:3]
    assert [row["reward"] for row in rows] == [float(text.split().count("w5")) for text in panel.rollout.texts[:3]]
    assert sum(row["advantage"] for row in rows) == pytest.approx(0, abs=1e-5)
    assert samples_html(rows, 2) in shown(panel)


def test_the_status_names_step_settings_and_what_comes():
    text = status_html(fake_history(3), {"num_generations": 8}, "training", 9)
    assert "<b>Step 3</b> of 9, training" in text and "next step: group size 8" in text
    assert "taken with beta 0.1, learning rate 0.001, temperature 1, group size 4" in text
    assert "panel.max_steps" in status_html(fake_history(9), {}, None, 9)


# --- a run without a front end


def test_the_panel_runs_what_grporun_runs(make):
    settings = GRPOSettings(**FAST, track_kl=True, seed=3)
    run = GRPORun(*lively(), DATA, settings, reward_function=count_w5)
    alone = list(itertools.islice(run, 6))
    panel = make(seed=3)
    assert panel.run(4) + panel.run(2) == alone == panel.history
    assert torch.equal(weights(panel.model), weights(run.model))
    assert panel.training.settings == settings and panel.changes == []


@pytest.mark.parametrize(
    ("name", "value"), [("beta", 1.5), ("learning_rate", 1e-2), ("temperature", 0.5), ("num_generations", 6)]
)
def test_a_slider_acts_from_the_next_step_on_and_is_marked(make, name, value):
    panel, other = make(), make()
    before = panel.run(2)
    getattr(panel, name).value = value
    assert "next step: " in shown(panel)
    after = panel.run(3)
    old = getattr(GRPOSettings(**FAST), name)
    assert [getattr(record, name) for record in before + after] == [old] * 2 + [value] * 3
    assert panel.changes == [Change(3, name, old, value)]
    assert str(panel.changes[0]) in shown(panel) and "next step: " not in shown(panel)
    assert after != other.run(5)[2:]  # and it makes a difference


def test_beta_can_be_raised_from_zero_and_then_pulls_back(make):
    equal = []

    def reward(prompts, completions, answer):
        return [1.0] * len(completions) if equal else count_w5(prompts, completions, answer)

    panel = make(reward, learning_rate=3e-3)
    far = sum(record.kl for record in panel.run(12)[-5:]) / 5
    equal.append(True)  # no group has a signal any longer: beyond AdamW's momentum only the KL moves a weight
    panel.beta.value = 5.0
    near = sum(record.kl for record in panel.run(60)[-5:]) / 5
    assert [record.beta for record in panel.history] == [0.0] * 12 + [5.0] * 60
    assert far > 0.1 and near < 0.4 * far


def test_a_setting_changed_from_code_stands_until_its_slider_moves(make):
    def cool(run, record):
        if record.step == 2:
            run.change(temperature=0.3, epsilon=0.1)

    panel = make(on_step=cool)
    assert [record.temperature for record in panel.run(4)] == [1.0, 1.0, 0.3, 0.3]
    assert [(change.step, change.name, change.new) for change in panel.changes] == [
        (3, "epsilon", 0.1),
        (3, "temperature", 0.3),
    ]
    panel.temperature.value = 0.8
    assert panel.run(1)[0].temperature == 0.8


def test_warm_up_is_not_marked_as_a_change(make):
    panel = make(warmup_steps=5)
    assert len({record.learning_rate for record in panel.run(5)}) == 5 and panel.changes == []


def test_on_step_sees_each_step_and_its_rollout_and_can_leave(make):
    seen = []
    panel = make(on_step=lambda run, record: seen.append((record.step, run.rollout.texts)))
    panel.run(2)
    assert seen[-1] == (2, panel.rollout.texts) and len(seen) == 2

    def second(run, record):
        seen.append(record.step)

    panel.on_step(second)
    panel.run(1)
    panel.on_step(second, remove=True)
    panel.run(1)
    assert [entry for entry in seen if isinstance(entry, int)] == [3]
    with pytest.raises(TypeError, match="on_step needs a function of a run and a record, got 3"):
        panel.on_step(3)
    with pytest.raises(ValueError, match="second cannot be removed: it is none of the 1 functions called"):
        panel.on_step(second, remove=True)


def test_a_reset_is_the_start_again(make):
    panel = make()
    first, start = panel.run(3), panel.model
    panel.beta.value, panel.num_generations.value = 2.0, 7
    panel.run(2)
    panel.reset()
    assert (panel.history, panel.changes, panel.beta.value, panel.num_generations.value) == ([], [], 0.0, 4)
    assert panel.model is not start and drawn_step(panel) == 0 and "Newest samples" not in shown(panel)
    assert panel.run(3) == first and panel.changes == []


def test_a_slider_moved_before_the_first_step_acts_on_it(make):
    panel = make()
    panel.beta.value = 1.0
    assert panel.run(1)[0].beta == 1.0
    assert str(panel.changes[0]) == "from step 1: beta 0 → 1"


def test_a_factory_that_hands_out_the_trained_model_again_is_refused(make):
    pair = lively()
    panel = make(model_factory=lambda: pair)
    panel.run(1)
    with pytest.raises(ValueError, match="returned the model that was trained already"):
        panel.reset()
    with pytest.raises(RuntimeError, match="there is no run: see panel.error, mend it, panel.reset"):
        _ = panel.history
    assert "returned the model that was trained already" in shown(panel) and "Step" not in panel._view.status.value


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            dict(model_factory=lively()),
            TypeError,
            r"model_factory must be a function .* got \(Qwen3.* give the function",
        ),
        (dict(max_steps=0), ValueError, "max_steps must be an integer >= 1, got 0"),
        (dict(beta=7.0), ValueError, "beta must lie on its control, from 0 to 5, got 7.0; GRPORun takes any value"),
        (dict(learning_rate=0.0), ValueError, r"learning_rate must lie on its control, from 1e-07 to 0\.1, got 0\.0"),
        (dict(num_generations=64), ValueError, "num_generations must lie on its control, from 2 to 32, got 64"),
        (dict(on_step=[1]), TypeError, "on_step needs a function"),
    ],
)
def test_bad_arguments_are_refused_with_their_rule(make, options, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        make(**options)
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        make().run(0)


@pytest.mark.parametrize("name", ["beta", "learning_rate", "temperature", "num_generations"])
def test_a_slider_is_not_replaced_by_a_number(make, name):
    panel = make()
    slider = getattr(panel, name)
    with pytest.raises(AttributeError, match=rf"set its value, as in panel\.{name}\.value = 2"):
        setattr(panel, name, 2)
    assert getattr(panel, name) is slider and slider in list(walk(panel.box))


def test_a_constructor_that_fails_leaves_no_widget(make):
    def broken():
        raise OSError("no network")

    def interrupted():
        raise KeyboardInterrupt

    bad = [
        (OSError, dict(model_factory=broken)),
        (TypeError, dict(model_factory=lambda: 3)),
        (KeyboardInterrupt, dict(model_factory=interrupted)),
        (ValueError, dict(beta=7.0)),
        (TypeError, dict(on_step=[1])),
        (ValueError, dict(max_steps=0)),
    ]
    before = all_widgets().keys()
    for error, options in bad:
        with pytest.raises(error):
            make(**options)
        assert all_widgets().keys() == before
    with pytest.raises(ValueError):  # refused by GRPORun, which comes last
        LivePanel(lively, [], GRPOSettings(**FAST))
    assert all_widgets().keys() == before


def test_without_an_event_loop_start_says_what_to_do_instead(make):
    with pytest.raises(RuntimeError, match=r"needs a notebook's event loop; run\(steps\) needs none"):
        make().start()


# --- live, in an event loop


def test_pause_step_resume_reset_in_that_order(make):
    async def kernel():
        panel = make()
        assert button(panel, "Start", "Resume").description == "Start" and "Step 0</b> of 1000, ready" in shown(panel)
        button(panel, "Start").click()
        await until(lambda: len(panel.history) >= 3)
        assert panel.running and ", training" in shown(panel)
        button(panel, "Pause").click()
        await until(lambda: not panel.running)
        taken = len(panel.history)
        await asyncio.sleep(0.1)
        assert len(panel.history) == taken == drawn_step(panel) and ", paused" in shown(panel)
        for wanted in (taken + 1, taken + 2):
            button(panel, "One step").click()
            await asyncio.sleep(0.2)
            assert len(panel.history) == wanted == drawn_step(panel)
        button(panel, "Resume").click()
        await until(lambda: len(panel.history) >= taken + 5)
        button(panel, "One step").click()  # pauses
        await until(lambda: not panel.running)
        taken = len(panel.history)
        await asyncio.sleep(0.05)
        assert len(panel.history) == taken
        button(panel, "Resume").click()
        await until(lambda: len(panel.history) > taken)
        button(panel, "Reset").click()
        await until(lambda: not panel.history)
        await asyncio.sleep(0.1)
        assert (panel.history, drawn_step(panel), panel.running) == ([], 0, False)
        assert button(panel, "Start")

    asyncio.run(kernel())


def test_a_slider_moved_in_the_middle_of_150_steps_is_obeyed_within_two(make):
    async def kernel():
        panel = make(max_steps=150)
        panel.start()
        await until(lambda: len(panel.history) >= 75)
        moved_at = len(panel.history)
        panel.beta.value, panel.learning_rate.value = 2.0, 1e-4
        await until(lambda: not panel.running)
        betas = [record.beta for record in panel.history]
        assert len(betas) == 150 and ", at max_steps" in shown(panel) and drawn_step(panel) == 150
        assert betas[:moved_at] == [0.0] * moved_at and betas[moved_at + 1 :] == [2.0] * (149 - moved_at)
        assert panel.history[moved_at + 1].learning_rate == 1e-4
        panel.max_steps = 152
        panel.start()
        await until(lambda: not panel.running)
        assert len(panel.history) == 152

    asyncio.run(kernel())


def test_start_pause_and_run_from_one_cell_keep_their_order(make):
    async def kernel():
        panel = make()
        panel.start()
        panel.pause()
        await asyncio.sleep(0.1)
        assert panel.history == []
        panel.start()
        await until(lambda: len(panel.history) >= 2)
        taken = len(panel.history)
        assert [record.step for record in panel.run(3)] == [taken + 1, taken + 2, taken + 3]
        await asyncio.sleep(0.1)
        assert len(panel.history) == taken + 3  # run() has paused the rest
        panel.start(), panel.start(), panel.pause(), panel.start()
        await until(lambda: len(panel.history) >= taken + 6)
        assert len(asyncio.all_tasks()) == 2  # this one, and one that trains

    asyncio.run(kernel())


def test_a_button_pressed_in_another_thread_acts_in_the_main_one(make):
    threads = set()

    def reward(prompts, completions, answer):
        threads.add(threading.get_ident())
        return count_w5(prompts, completions, answer)

    async def kernel():
        panel = make(reward)
        presses = [
            ("Start", lambda: len(panel.history) >= 3),
            ("Pause", lambda: not panel.running),
            ("One step", lambda: len(panel.history) > taken),
        ]
        for name, condition in presses:
            taken = len(panel.history)
            thread = threading.Thread(target=button(panel, name).click)
            thread.start()
            await until(condition)
            thread.join()
        return panel

    panel = asyncio.run(kernel())
    assert threads == {threading.get_ident()} and panel.error is None


def test_an_error_in_a_step_is_shown_stops_the_run_and_leaves_the_weights(make):
    broken = []

    def reward(prompts, completions, answer):
        if broken:
            raise RuntimeError("BOOM <&>")
        return count_w5(prompts, completions, answer)

    async def kernel():
        panel = make(reward)
        panel.start()
        await until(lambda: len(panel.history) >= 3)
        broken.append(True)
        await until(lambda: not panel.running)
        taken, kept = len(panel.history), weights(panel.model).clone()
        await asyncio.sleep(0.1)
        assert len(panel.history) == taken and torch.isfinite(kept).all()
        assert torch.equal(weights(panel.model), kept)
        assert "BOOM &lt;&amp;&gt;" in shown(panel) and 'role="alert"' in shown(panel)
        assert "in reward" in shown(panel) and ", stopped by an error" in shown(panel)
        assert "BOOM" in str(panel.error)
        with pytest.raises(RuntimeError, match="BOOM"):
            panel.run(1)
        broken.clear()
        panel.start()
        await until(lambda: len(panel.history) >= taken + 2)
        assert panel.error is None and "BOOM" not in shown(panel)
        assert [record.step for record in panel.history] == list(range(1, len(panel.history) + 1))

    asyncio.run(kernel())


def test_a_loss_that_is_not_finite_stops_before_the_weights_are(make, monkeypatch):
    panel = make(beta=0.5)
    panel.run(2)
    with torch.no_grad():
        for parameter in panel.training.reference.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="the run stopped before the optimizer step"):
        panel.run(1)
    assert torch.isfinite(weights(panel.model)).all() and len(panel.history) == 2
    assert "FloatingPointError" in shown(panel) and drawn_step(panel) == 2


def test_an_interrupt_pauses_a_background_run_and_the_loop_lives_on(make):
    interrupt = []

    def reward(prompts, completions, answer):
        if interrupt:
            raise KeyboardInterrupt
        return count_w5(prompts, completions, answer)

    async def kernel():
        panel = make(reward)
        panel.start()
        await until(lambda: len(panel.history) >= 2)
        interrupt.append(True)
        await until(lambda: not panel.running)
        taken = len(panel.history)
        assert panel.error is None and ", paused" in shown(panel)
        interrupt.clear()
        panel.start()
        await until(lambda: len(panel.history) > taken)

    asyncio.run(kernel())


def test_an_error_of_a_callback_or_of_the_drawing_is_not_lost(make, monkeypatch):
    async def kernel():
        panel = make(on_step=lambda run, record: 1 / 0)
        panel.start()
        await until(lambda: not panel.running)
        assert "ZeroDivisionError" in shown(panel) and len(panel.history) == 1
        panel = make()
        panel.start()
        await until(lambda: panel.history)
        monkeypatch.setattr("grpo_lib.panel_view.live_chart", lambda *_: {}["no chart"])
        await until(lambda: not panel.running)
        assert "KeyError" in shown(panel) and "no chart" in shown(panel)

    asyncio.run(kernel())


@pytest.mark.parametrize("ends", ["cancelled", "stopped", "closed"])
def test_a_loop_that_ends_under_a_run_ends_it_and_another_takes_it_up(make, ends):
    panel = make()

    async def train(more):
        panel.start()
        taken = len(panel.history)
        await until(lambda: len(panel.history) >= taken + more)
        assert panel.running

    if ends == "cancelled":
        asyncio.run(train(2))
        assert ", paused" in shown(panel)
    else:
        old = asyncio.new_event_loop()
        old.run_until_complete(train(2))
        if ends == "closed":
            old.close()
    assert not panel.running
    taken = len(panel.history)
    asyncio.run(train(3))
    assert not panel.running and len(panel.history) >= taken + 3
    if ends == "stopped":  # the task that was left in it must not train beside the new one
        taken = len(panel.history)
        old.run_until_complete(asyncio.sleep(0.1))
        assert len(panel.history) == taken and not asyncio.all_tasks(old)
        old.close()
    assert len(panel.run(1)) == 1 and not panel.running
    panel.close()


def test_only_the_panel_started_last_trains(make):
    async def kernel():
        first, second = make(), make()
        first.start()
        await until(lambda: len(first.history) >= 2)
        second.start()
        await until(lambda: len(second.history) >= 2)
        taken = len(first.history)
        await asyncio.sleep(0.1)
        assert len(first.history) == taken and ", paused" in shown(first) and second.running
        third = make()  # another cell's panel is put up: nothing trains on unseen
        taken = len(second.history)
        await asyncio.sleep(0.1)
        assert len(second.history) == taken and not second.running and third.history == []
        button(first, "Resume").click()  # the first can be taken up again
        await until(lambda: first.running)

    asyncio.run(kernel())


def test_a_cell_run_again_closes_what_it_made_before(make, monkeypatch):
    monkeypatch.setattr(live_cells, "_MADE", {})

    def execute(cell, execution):
        monkeypatch.setattr(live_cells, "_running_cell", lambda: (cell, execution))

    async def kernel():
        execute("cell 1", "a")
        old, beside = make(), make()
        execute("cell 2", "b")
        elsewhere = make()
        old.start()
        await until(lambda: len(old.history) >= 2)
        taken = len(old.history)
        execute("cell 1", "c")
        new = make()
        await asyncio.sleep(0.1)
        assert len(old.history) == taken == len(old.figure().data[0].x)
        assert old.box.comm is None and beside.box.comm is None
        assert elsewhere.box.comm is not None and new.box.comm is not None
        with pytest.raises(RuntimeError, match="this run is closed: make a new one"):
            old.start()
        assert len(asyncio.all_tasks()) == 1
        execute(None, None)  # a front end that does not name its cells
        make()
        assert new.box.comm is not None

    asyncio.run(kernel())


def test_closing_leaves_no_task_widget_or_observer(make):
    async def kernel():
        before = all_widgets().keys()
        panel = make()
        assert len(all_widgets().keys() - before) > 40
        panel.start()
        await until(lambda: len(panel.history) >= 2)
        task = panel._live.task
        panel.close()
        panel.close()
        await asyncio.sleep(0.05)
        assert task.cancelled() and asyncio.all_tasks() == {asyncio.current_task()}
        assert all_widgets().keys() == before
        taken = len(panel.history)
        panel.beta.value = 3.0  # nobody listens any longer
        await asyncio.sleep(0.05)
        assert len(panel.history) == taken > 0 and panel.figure().data[0].x == tuple(range(1, taken + 1))
        assert torch.isfinite(weights(panel.model)).all()
        for call in (panel.start, panel.show, panel.reset, lambda: panel.run(1)):
            with pytest.raises(RuntimeError, match="this run is closed: make a new one"):
                call()

    asyncio.run(kernel())


# --- the inspector below


def test_inspect_opens_the_newest_step_and_the_next_press_takes_its_place(make):
    panel = make(updates_per_rollout=2)
    inspect = button(panel, "Inspect")
    assert inspect.disabled
    with pytest.raises(RuntimeError, match="take a training step first"):
        panel.inspect()
    before = len(all_widgets())
    panel.run(2)
    inspect.click()
    first = panel._view.inspector
    assert not inspect.disabled and first.box in list(walk(panel.box)) and "Step 2, after its update" in shown(panel)
    assert first.recording.texts == panel.rollout.texts and (first.view.inspection.ratio - 1).abs().max() > 1e-3
    assert first.out.outputs and first.view.figure == panel.inspect().view.figure
    number = len(all_widgets()) - before
    panel.run(1)
    assert first.recording.texts != panel.rollout.texts and not first.closed  # it stays until asked for again
    inspect.click()
    second = panel._view.inspector
    assert second.recording.texts == panel.rollout.texts and first.closed and "Step 3, after its update" in shown(panel)
    assert first.box not in list(walk(panel.box)) and len(all_widgets()) - before <= number
    panel.beta.value = 3.0
    panel.run(1)
    inspect.click()
    assert panel._view.inspector.beta.value == 3.0 and panel._view.inspector.error is None
    panel.reset()
    assert panel._view.inspector is None and second.closed and "after its update" not in shown(panel)


def test_an_inspector_that_cannot_be_opened_says_why_and_the_run_goes_on(make, monkeypatch):
    async def kernel():
        panel = make()
        panel.start()
        await until(lambda: panel.history)
        before = all_widgets().keys()
        with monkeypatch.context() as patch:

            def out_of_memory(*args):
                raise MemoryError("no <room> left")

            patch.setattr("grpo_lib.held_run.record_rollout", out_of_memory)
            button(panel, "Inspect").click()
            await until(lambda: "no &lt;room&gt; left" in shown(panel))
            taken = len(panel.history)
            await until(lambda: len(panel.history) > taken + 2)
        assert panel.running and panel.error is None and ", training" in shown(panel)
        assert "the inspector could not be opened" in shown(panel)
        button(panel, "Inspect").click()
        await until(lambda: panel._view.inspector is not None)
        assert panel.running and "could not be opened" not in shown(panel)
        panel.reset()
        assert all_widgets().keys() == before

    asyncio.run(kernel())


def test_closing_the_panel_closes_its_inspector(make):
    async def kernel():
        before = all_widgets().keys()
        panel = make()
        panel.run(1)
        button(panel, "Inspect").click()
        await until(lambda: panel._view.inspector is not None)
        inspector = panel._view.inspector
        inspector.beta.value = 0.25  # its redraw waits
        panel.close()
        await asyncio.sleep(0.2)
        assert inspector.closed and all_widgets().keys() == before

    asyncio.run(kernel())


# --- how often it draws, and what that costs


def test_it_redraws_at_most_every_tenth_of_a_second_and_at_the_end(make, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(live_run, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def reward(prompts, completions, answer):
        now[0] += 0.03  # a step takes 0.03 s of this clock
        return count_w5(prompts, completions, answer)

    panel = make(reward)
    drawn = []
    draw = panel._live._draw
    monkeypatch.setattr(panel._live, "_draw", lambda: (draw(), drawn.append(drawn_step(panel))))
    panel._live.redraw()
    panel.run(10)
    assert drawn == [0, 4, 8, 10]


def test_500_redraws_keep_nothing(make):
    panel = make()
    panel.run(3)

    def redraw(times):
        for _ in range(times // 2):  # two pictures in turn: one that does not change would not be sent
            record = panel.history.pop()
            panel._live.redraw()
            panel.history.append(record)
            panel._live.redraw()

    redraw(20)
    widgets_before = len(all_widgets())
    tracemalloc.start()
    try:
        redraw(20)
        before = tracemalloc.get_traced_memory()[0]
        redraw(500)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000 and len(all_widgets()) == widgets_before  # one chart alone has 8,000 characters


def test_a_redraw_stays_one_short_message_however_long_the_run():
    lengths = [len(live_chart(fake_history(n))) for n in (300, 3000)]
    assert lengths[1] < 1.2 * lengths[0] < 50_000


# --- front ends


def test_only_core_widgets_are_used_and_the_keys_are_told(make):
    panel = make()
    for widget in walk(panel.box):
        assert type(widget).__module__.startswith("ipywidgets.widgets.")
        assert widget._model_module in ("@jupyter-widgets/controls", "@jupyter-widgets/base")
    for name in ("beta", "learning_rate", "temperature", "num_generations"):
        slider = getattr(panel, name)
        assert slider in list(walk(panel.box)) and slider.continuous_update is False and slider.readout is True
    assert (panel.beta.min, panel.beta.max) == (0, 5)
    for word in ("Shift+", "PageUp", "Home", "number beside", "Notebook 7", "Space"):
        assert word in shown(panel)


def test_on_colab_there_is_a_heartbeat_that_changes_nothing(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    panel, plain = make(), make()
    assert panel._buttons.keys() == plain._buttons.keys() == {"start", "pause", "one_step", "reset"}
    [play] = [widget for widget in walk(panel.box) if isinstance(widget, ipywidgets.Play)]
    play.value += 1
    assert panel.run(2) == plain.run(2)
    panel.close()
    assert play.comm is None


CELL = """
import time, warnings
import torch; torch.set_num_threads(1)
from grpo_lib import GRPOSettings, LivePanel, addition_reward, load_addition, load_tiny_policy
warnings.simplefilter("ignore")
began = []
def reward(**columns):
    began.append(time.time())
    time.sleep(0.08)
    return addition_reward(**columns)
settings = GRPOSettings(batch_size=1, num_generations=2, max_completion_length=2, beta=0.0, learning_rate=1e-4)
panel = LivePanel(load_tiny_policy, load_addition("train"), settings, reward_function=reward, max_steps=150)
panel.show()
"""


def test_a_notebook_runs_it_without_a_front_end():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cells = [
        CELL,
        "panel.start()",
        "print(len(panel.history), panel.running)",
        "print([record.step for record in panel.run(2)][1] == len(panel.history), panel.running)",
        "panel.figure()",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    assert "application/vnd.jupyter.widget-view+json" in book.cells[0].outputs[0]["data"]
    assert [cell.outputs[0]["text"].split()[-1] for cell in book.cells[2:4]] == ["True", "False"]
    assert book.cells[3].outputs[0]["text"].startswith("True")
    assert "application/vnd.plotly.v1+json" in book.cells[4].outputs[-1]["data"]


def test_a_kernel_obeys_the_sliders_messages_within_two_steps_and_pause(kernel):
    import time

    kernel.run(CELL)
    buttons = "*[panel._buttons[name].model_id for name in ('start', 'pause', 'one_step')]"
    ids = f"panel.beta.model_id, panel.learning_rate.model_id, {buttons}"
    beta, rate, start, pause, step = kernel.run(f"print({ids})").split()
    kernel.click(start)
    kernel.wait("len(panel.history) > 20")
    sent = time.time()
    for comm, value in ((beta, 2.0), (rate, 1e-3)):
        kernel.move(comm, value)
    kernel.wait("panel.history[-1].beta == 2")
    late = kernel.run(
        f"print([r.beta == 2 for r, t in zip(panel.history, began) if t > {sent}].index(True),"
        f" [r.learning_rate == 1e-3 for r, t in zip(panel.history, began) if t > {sent}].index(True))"
    )
    assert max(map(int, late.split())) <= 1, late  # index 0: the first step begun after the message was sent
    kernel.click(pause)
    kernel.wait("not panel.running")
    taken = int(kernel.run("print(len(panel.history))"))
    asyncio.run(asyncio.sleep(0.3))
    assert int(kernel.run("print(len(panel.history))")) == taken < 150
    kernel.click(step)
    kernel.wait(f"len(panel.history) == {taken + 1}")
    assert kernel.run("print(panel.error, panel.history[-1].beta, panel.history[-1].learning_rate)") == "None 2.0 0.001"


def test_a_kernel_keeps_no_comm_of_a_closed_panel(kernel):
    kernel.run("import asyncio\ndef comms(): return len(get_ipython().kernel.comm_manager.comms)")
    before = int(kernel.run("print(comms())"))
    kernel.run(CELL.replace("panel =", "again =").replace("panel.show", "again.show"))
    assert int(kernel.run("print(comms())")) > before + 40
    kernel.run("again.start()")
    kernel.wait("len(again.history) > 2")
    kernel.run("again.close()")
    tasks = "len([t for t in asyncio.all_tasks() if 'LiveRun' in repr(t)])"
    assert kernel.run(f"print(comms(), {tasks})") == f"{before} 0"


@pytest.mark.parametrize("what", ["pause", "close"])
def test_a_callback_ends_run_after_its_step(make, what):
    panel = make()
    panel.on_step(lambda run, record: getattr(panel, what)() if record.step == 2 else None)
    assert [record.step for record in panel.run(5)] == [1, 2]


def test_a_callback_that_resets_ends_run_and_one_that_runs_is_refused(make):
    panel = make()
    once = iter([True])
    panel.on_step(lambda run, record: panel.reset() if record.step == 2 and next(once, False) else None)
    assert [record.step for record in panel.run(5)] == [1, 2]
    assert panel.history == []
    panel = make()
    panel.on_step(lambda run, record: panel.run(1))
    with pytest.raises(RuntimeError, match="from within a step"):
        panel.run(2)
    assert len(panel.history) == 1


@pytest.mark.parametrize("callbacks", [None, [1], 3])
def test_a_callback_that_cannot_be_called_is_refused_before_anything_is_loaded(callbacks):
    def factory():
        raise AssertionError("loaded")

    with pytest.raises(TypeError, match="on_step needs a function"):
        LivePanel(factory, [("w3", "?")], on_step=callbacks)


def test_a_button_that_comes_after_close_does_nothing(make):
    async def scene():
        panel = make()
        panel._buttons["one_step"].click()
        panel.close()
        await asyncio.sleep(0.05)
        assert panel.history == [] and panel.error is None

    asyncio.run(scene())


def test_a_figure_of_two_hundred_changes_marks_each_in_every_panel(make):
    panel = make()
    history = panel.run(1) * 200
    changes = [Change(step + 1, "temperature", 1.0, 0.9) for step in range(200)]
    figure = live_figure(history, changes)
    assert len(figure.layout.shapes) == 6 * 200
    first = [shape for shape in figure.layout.shapes if shape.x0 == 0.5]
    assert {shape.yref for shape in first} == {f"y{n} domain" for n in ("", 2, 3, 4, 5, 6)}
