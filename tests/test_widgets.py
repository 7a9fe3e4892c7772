"""The explorer is a thin layer: what it shows is what the plain functions give, and nothing gets lost on the way."""

import asyncio
import html
import sys
import time
import types

import ipywidgets
import numpy as np
import pytest
from widget_trees import walk

from grpo_lib import explore, redrawing, widgets
from grpo_lib.bandit import BanditGRPO, critical_beta, resting_point
from grpo_lib.explore import compare_bandits, explore_bandit, explore_bandit_step
from grpo_lib.plot_style import alt_text
from grpo_lib.redrawing import live_layout

MIME = "application/vnd.plotly.v1+json"


def curves(figure):
    return [(trace.name, trace.y) for trace in figure.data]


def shown(explorer):
    """The curves of the bundle in the explorer's output area."""
    [output] = explorer.out.outputs
    return [(trace["name"], tuple(trace["y"])) for trace in output["data"][MIME]["data"]]


@pytest.fixture
def displayed(monkeypatch):
    seen = []
    monkeypatch.setattr(redrawing, "display", lambda shown, raw=False: seen.append(shown))
    monkeypatch.setattr(redrawing, "clear_output", lambda wait: seen.append(f"cleared, wait={wait}"))
    return seen


@pytest.fixture
def counted(monkeypatch):
    """Settings of every run that the explorer computed."""
    calls = []
    explore_run = widgets.explore_run

    def count(settings, *sizes):
        calls.append(settings)
        return explore_run(settings, *sizes)

    monkeypatch.setattr(widgets, "explore_run", count)
    return calls


def test_the_plain_function_draws_the_bandits_own_run():
    bandit = BanditGRPO(beta=1.5, learning_rate=0.02, normalise=False, seed=7)
    bandit.train(30, 12)
    figure = explore_bandit(1.5, 0.02, 12, False, num_iterations=30, seed=7)
    for k in range(4):
        np.testing.assert_allclose(figure.data[k].y, np.array(bandit.prob_history)[:, k], rtol=1e-4)
    np.testing.assert_allclose(figure.data[8].y, bandit.reward_history, rtol=1e-4)


def test_the_dotted_lines_are_where_a_long_run_ends():
    figure = explore_bandit(beta=2.0, learning_rate=0.002, num_samples=100, num_iterations=1500)
    for line, dotted in zip(figure.data[:4], figure.data[4:8], strict=True):
        assert dotted.line.dash == "dot" and dotted.y[0] == dotted.y[1]
        assert abs(np.mean(line.y[-500:]) - dotted.y[0]) < 0.01
    assert "dotted: the exact resting point" in figure.layout.title.text


@pytest.mark.parametrize(
    "settings, why",
    [(dict(beta=0.0), "beta 0 pulls nothing back"), (dict(beta=0.1), "balance nowhere short of the corner")],
)
def test_where_there_is_no_resting_point_the_figure_says_so(settings, why):
    assert settings["beta"] < critical_beta(BanditGRPO().ref_probs, BanditGRPO().rewards)
    figure = explore_bandit(**settings, num_iterations=2)
    assert why in figure.layout.title.text and "corner P(ant) = 1" in figure.layout.title.text
    assert all(trace.line.dash != "dot" for trace in figure.data)


def test_two_resting_points_are_told_apart_by_their_watershed():
    text = explore_bandit(beta=0.9, num_samples=100, num_iterations=2).layout.title.text
    stable, edge, corner = resting_point(BanditGRPO().ref_probs, [1, 0, 0, 0], 0.9, num_samples=100)
    assert (stable.stable, edge.stable, corner.stable) == (True, False, True)
    assert f"P(ant) = {stable.probs[0]:.3f} or P(ant) = 1 − {1 - corner.probs[0]:.0e}" in text
    assert f"the watershed is {edge.probs[0]:.3f}" in text


def test_no_dotted_line_is_drawn_where_no_resting_point_is_known():
    figure = explore_bandit(beta=2.0, updates_per_rollout=3, num_iterations=2)
    assert "no exact resting point is known" in figure.layout.title.text and len(figure.data) == 7


def test_the_step_figure_is_the_iteration_of_the_same_run():
    bandit = BanditGRPO(beta=2.0, learning_rate=0.1)
    bandit.train(2, 20)
    record = bandit.step(20)
    figure = explore_bandit_step(2.0, 0.1, iteration=3)
    assert figure.data[0].y == tuple(np.bincount(record.samples, minlength=4))
    moved = np.array(figure.data[3].y) * 0.1  # push + pull, times the learning rate: the logits' own change
    change = np.log(record.probs_after) - np.log(record.probs_before)
    np.testing.assert_allclose(moved - moved.mean(), change - change.mean(), rtol=1e-3)


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="beta must be a finite number >= 0, got -1"):
        explore_bandit(beta=-1)
    with pytest.raises(ValueError, match="num_samples must be an integer >= 2, got 1"):
        explore_bandit_step(num_samples=1)


def test_moving_a_control_changes_the_figure(displayed):
    explorer = widgets.BanditExplorer(num_iterations=10)
    explorer.show()
    [data] = displayed
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.box.model_id
    assert alt_text(explorer.figure) in html.unescape(data["text/html"])  # where no front end draws widgets
    for name, value in [("beta", 3.0), ("learning_rate", 0.1), ("num_samples", 8), ("normalise", False), ("seed", 3)]:
        before = shown(explorer)
        getattr(explorer, name).value = value
        assert shown(explorer) != before, name
    assert shown(explorer) == curves(explorer.figure)
    assert curves(explorer.figure) == curves(explore_bandit(3.0, 0.1, 8, False, num_iterations=10, seed=3))
    assert explorer.run.beta == 3.0 and len(explorer.run.reward_history) == 10


NEW = [
    ("updates_per_rollout", 4, 4),
    ("clip", "none", None),
    ("clip", (0.2, 0.28), (0.2, 0.28)),
    ("baseline", "loo", "loo"),
    ("kl_direction", "forward", "forward"),
]


@pytest.mark.parametrize("name, value, setting", NEW)
def test_moving_each_further_control_gives_the_plain_functions_figure(displayed, name, value, setting):
    options = dict(learning_rate=0.1, num_iterations=8, updates_per_rollout=3, clip=0.05)
    explorer = widgets.BanditExplorer(beta=1.0, **options)
    explorer.show()
    before = shown(explorer)
    getattr(explorer, name).value = value
    assert shown(explorer) != before
    assert shown(explorer) == curves(explore_bandit(1.0, **{**options, name: setting}))
    explorer.one_step()
    assert curves(explorer.figure) == curves(
        explore_bandit_step(1.0, learning_rate=0.1, **{**dict(updates_per_rollout=3, clip=0.05), name: setting})
    )


def test_with_one_update_the_clip_changes_nothing():
    explorer = widgets.BanditExplorer(num_iterations=8)
    before = curves(explorer.figure)
    for clip in (0.05, "none"):
        explorer.clip.value = clip
        assert curves(explorer.figure) == before


@pytest.mark.parametrize("clip, value", [(None, "none"), (0.2, 0.2), (0.37, 0.37), ([0.1, 0.4], (0.1, 0.4))])
def test_a_clip_of_ones_own_stands_in_the_menu(clip, value):
    explorer = widgets.BanditExplorer(clip=clip, num_iterations=2)
    assert explorer.clip.value == value
    assert explorer.run.clip == (None if clip is None else value)


def test_compare_draws_the_kept_settings_beside_the_present_ones(displayed):
    explorer = widgets.BanditExplorer(beta=1.0, num_iterations=10)
    explorer.show()
    explorer.compare.value = True
    kept = dict(beta=1.0, num_iterations=10)
    assert shown(explorer) == curves(compare_bandits(kept, kept))
    assert "the same settings" in explorer.figure.layout.title.text
    explorer.normalise.value, explorer.learning_rate.value = False, 0.1
    present = dict(kept, normalise=False, learning_rate=0.1)
    assert shown(explorer) == curves(compare_bandits(kept, present))
    assert explorer.run.normalise is False
    button(explorer, "One step").click()  # of the present settings
    assert curves(explorer.figure) == curves(explore_bandit_step(1.0, 0.1, normalise=False))
    button(explorer, "Run").click()
    assert shown(explorer) == curves(compare_bandits(kept, present))
    explorer.compare.value = False
    assert shown(explorer) == curves(explore_bandit(**present))
    explorer.compare.value = True
    explorer.beta.value = 3.0
    assert shown(explorer) == curves(compare_bandits(present, dict(present, beta=3.0)))
    button(explorer, "Reset").click()
    assert explorer.compare.value is False and shown(explorer) == curves(explore_bandit(**kept))


def test_the_compared_runs_are_the_bandits_own_and_the_title_tells_them_apart():
    figure = compare_bandits(
        dict(beta=0.5), dict(beta=2.0, baseline="loo", seed=7), learning_rate=0.02, num_iterations=6
    )
    column = {"x": [], "x2": []}
    for trace in figure.data:
        if trace.yaxis in (None, "y", "y2") and trace.line.dash != "dot":
            column[trace.xaxis or "x"].append(trace.y)
    for axis, options in (("x", dict(beta=0.5)), ("x2", dict(beta=2.0, baseline="loo", seed=7))):
        run = BanditGRPO(**options, learning_rate=0.02)
        run.train(6, 20)
        np.testing.assert_allclose(np.transpose(column[axis]), run.prob_history, rtol=1e-4)
    lines = figure.layout.title.text.split("<br>")
    assert lines[0] == "A and B: learning rate 0.02, 20 samples, standardised"
    assert lines[1] == "A: beta 0.5, baseline mean, seed 42" and lines[3] == "B: beta 2, baseline leave-one-out, seed 7"
    with pytest.raises(ValueError, match="beta must be a finite number >= 0, got -1"):
        compare_bandits(dict(beta=-1), {})


def test_two_vocabularies_are_not_drawn_under_one_ones_names():
    words = ("dog", "cat", "bear", "ant")
    for other in (words, ("ant", "bear"), ("ant", "bear", "cat", "eel")):
        with pytest.raises(ValueError, match=r"A and B must have one vocabulary, in one order, got \('ant', .* and "):
            compare_bandits({}, dict(vocab=other), num_iterations=2)
    figure = compare_bandits({}, dict(beta=1.0, vocab=list(words)), vocab=words, num_iterations=2)
    assert [trace.name for trace in figure.data[:4]] == list(words)


OWN = [  # what A has of its own, what B has, and how the title names each
    (dict(sample_seed=3), {}, "sample seed 3", "no sample seed"),
    (dict(epsilon=0.1), {}, "epsilon 0.1", "epsilon 1e-08"),
    ({}, dict(reward=[0, 0.25, 1, 0]), "reward 1, 0, 0, 0", "reward 0, 0.25, 1, 0"),
    (dict(learning_rate=0.0123), dict(learning_rate=0.01234), "learning rate 0.0123", "learning rate 0.01234"),
    (dict(beta=0.3), dict(beta=0.3 + 1e-9), "beta 0.3", f"beta {0.3 + 1e-9!r}"),
]


@pytest.mark.parametrize("a, b, name_a, name_b", OWN)
def test_the_title_names_every_setting_in_which_two_runs_differ(a, b, name_a, name_b):
    text = compare_bandits(a, b, num_iterations=2).layout.title.text
    assert f"<br>A: {name_a}<br>" in text and f"<br>B: {name_b}<br>" in text
    assert "the same settings" in compare_bandits(a, a, num_iterations=2).layout.title.text


def test_many_words_with_other_rewards_are_told_apart():
    words = tuple(f"w{i}" for i in range(30))
    rewards = [dict(reward=np.eye(30)[i]) for i in (0, 3)]
    text = compare_bandits(*rewards, vocab=words, num_iterations=2).layout.title.text
    assert "A: its own reward<br>" in text and "B: its own reward<br>" in text


@pytest.mark.parametrize("options", [{}, dict(beta=0.0), dict(updates_per_rollout=3), dict(normalise=False)])
def test_equal_rewards_leave_the_run_at_the_reference_and_the_title_says_so(options):
    figure = explore_bandit(reward=lambda word: 1.0, num_iterations=30, **options)
    run = BanditGRPO(reward=lambda word: 1.0, **options)
    run.train(30, 20)
    np.testing.assert_allclose(run.prob_history[-1], run.ref_probs, rtol=1e-9)
    said = figure.layout.title.text.split("<br>")[-1]
    assert said == "equal rewards push nowhere: the run rests where it starts, at the reference"


def test_a_rest_too_near_the_corner_for_a_float_has_a_bound():
    options = dict(beta=0.5, normalise=False, learning_rate=1e-9, num_iterations=2)
    said = explore_bandit(reward=[1e6, 0, 0, 0], **options).layout.title.text
    assert said.endswith("P(ant) = 1 − less than 5e-324, next to the corner")
    [point] = resting_point(BanditGRPO().ref_probs, [1e6, 0, 0, 0], 0.5, num_samples=20, normalise=False)
    assert point.probs[1:].sum() == 0 and 5e-324 / 2 == 0
    assert "P(ant) = 1 − 3e-08, next to" in explore_bandit(reward=[10, 0, 0, 0], **options).layout.title.text


def test_a_zero_of_the_step_has_no_sign():
    step = explore.explore_step(dict(beta=0.0, reward=[0.0] * 4), 4, 1)
    assert "-0.00" not in step.html and "+0.00" not in step.html
    assert step.html.count(">0.000<") == 8 and step.html.count(">0.0000<") == 4 and "A&nbsp;0.00<" in step.html
    assert {text for text in step.figure.data[0].text if text} == {"r 0<br>A 0.00"}
    step = explore.explore_step(dict(beta=1e-6, learning_rate=1e-4), 20, 2)
    assert "-0.000<" not in step.html and "+0.000<" not in step.html and ">+" in step.html


LONG = dict(beta=0.9, baseline="loo", kl_direction="forward", updates_per_rollout=3, clip=(0.2, 0.28))


def test_no_line_of_a_live_title_is_longer_than_a_narrow_page(displayed):
    explorer = widgets.BanditExplorer(**LONG)
    explorer.show()
    many = widgets.BanditExplorer(vocab=[f"aword{i}" for i in range(30)], num_iterations=2)
    many.show()
    for act in (lambda: None, lambda: setattr(explorer.compare, "value", True), explorer.one_step):
        act()
        for panel in (explorer, many):
            plain, [output] = panel.figure.layout, panel.out.outputs
            live = output["data"][MIME]["layout"]
            lines, before = live["title"]["text"].split("<br>"), plain.title.text.split("<br>")
            longest = {13: 78, 15: 67}[plain.title.font.size or plain.template.layout.title.font.size]
            assert max(map(len, before)) > longest >= max(map(len, lines))
            assert " ".join(lines) == " ".join(before) and "clip (0.2,<br>" not in live["title"]["text"]
            more = 20 * (len(lines) - len(before))
            assert live["margin"]["t"] == plain.margin.t + more and live["height"] == plain.height + 20 + more


def test_a_short_title_and_a_figure_without_one_stay_as_they_are():
    for figure in (explore_bandit(num_iterations=2, beta=2.0), explore_bandit_step()):
        assert live_layout(figure.to_plotly_json())["title"]["text"] == figure.layout.title.text
    figure.layout.title.text = None
    layout = live_layout(figure.to_plotly_json())
    assert layout["margin"]["t"] == figure.layout.margin.t


def test_a_value_outside_a_controls_range_is_moved_to_its_end_as_the_docstring_says():
    explorer = widgets.BanditExplorer(num_iterations=2)
    explorer.beta.value, explorer.num_samples.value = 9.0, 1
    assert (explorer.beta.value, explorer.num_samples.value) == (5.0, 2)
    assert "is moved to the end of the range" in widgets.BanditExplorer.__doc__


def test_the_step_says_how_much_was_clipped():
    run = BanditGRPO(learning_rate=0.3, updates_per_rollout=4)
    share = run.step(20).clip_fraction
    assert share > 0
    title = explore_bandit_step(0.1, 0.3, updates_per_rollout=4).layout.title.text
    assert title.endswith(f"clipped: {share:.0%} of the samples")


def button(explorer, name):
    [found] = [w for w in walk(explorer.box) if isinstance(w, ipywidgets.Button) and w.description == name]
    return found


def test_buttons_step_run_and_reset():
    explorer = widgets.BanditExplorer(beta=1.0, num_iterations=10)
    for iteration in (1, 2):
        button(explorer, "One step").click()
        assert curves(explorer.figure) == curves(explore_bandit_step(1.0, iteration=iteration))
    for word in explorer.run.vocab:
        assert f'<td style="text-align:right;padding:1px 10px">{word}</td>' in explorer.table.value
    assert explorer.table.value.count("<span") == 20  # one chip a sample
    explorer.beta.value = 4.0  # the same iteration, with another beta
    assert curves(explorer.figure) == curves(explore_bandit_step(4.0, iteration=2))
    button(explorer, "Run").click()
    assert curves(explorer.figure) == curves(explore_bandit(4.0, num_iterations=10)) and explorer.table.value == ""
    button(explorer, "Reset").click()
    assert explorer.beta.value == 1.0
    assert curves(explorer.figure) == curves(explore_bandit(1.0, num_iterations=10))


def test_a_reset_recomputes_once(counted):
    explorer = widgets.BanditExplorer(num_iterations=2)
    for name, value in [("beta", 3.0), ("learning_rate", 0.1), ("seed", 3)]:
        getattr(explorer, name).value = value
    counted.clear()
    explorer.reset()
    assert [call["seed"] for call in counted] == [42]


def test_a_burst_of_events_in_a_kernel_leads_to_few_redraws(displayed, counted):
    async def kernel():
        explorer = widgets.BanditExplorer(num_iterations=5)
        explorer.show()
        counted.clear()
        for i in range(30):
            explorer.beta.value = i / 10
            await asyncio.sleep(0)
        deadline = time.monotonic() + 30
        while (not counted or counted[-1]["beta"] != 2.9) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return explorer

    explorer = asyncio.run(kernel())
    assert 1 <= len(counted) <= 5 and counted[-1]["beta"] == 2.9
    assert shown(explorer) == curves(explore_bandit(2.9, num_iterations=5))


def test_code_that_reads_the_figure_never_sees_an_old_one(displayed):
    async def cell():
        explorer = widgets.BanditExplorer(num_iterations=5)
        explorer.show()
        explorer.beta.value = 4.0  # its redraw waits for the cell's end ...
        return curves(explorer.figure)  # ... but not this one

    assert asyncio.run(cell()) == curves(explore_bandit(4.0, num_iterations=5))


def test_a_redraw_builds_no_figure_until_one_is_asked_for(displayed, monkeypatch):
    drawn = []
    for name in ("bandit_figure", "compare_figure"):
        draw = getattr(explore, name)
        monkeypatch.setattr(explore, name, lambda *a, draw=draw, **b: drawn.append(draw(*a, **b)) or drawn[-1])
    explorer = widgets.BanditExplorer(num_iterations=5)
    explorer.show()
    explorer.beta.value = 3.0
    explorer.compare.value = True
    assert drawn == [] and shown(explorer) == curves(explorer.figure)
    assert explorer.figure is drawn[0] and len(drawn) == 1


def test_a_figure_asked_for_late_is_of_the_run_in_sight(displayed):
    explorer = widgets.BanditExplorer(num_iterations=5)
    explorer.show()
    explorer.run.train(7, 20)
    assert shown(explorer) == curves(explorer.figure) == curves(explore_bandit(num_iterations=5))


def test_a_cell_run_again_does_no_double_work(displayed, counted):
    first = widgets.BanditExplorer(num_iterations=2)
    first.show()
    first.show()
    second = widgets.BanditExplorer(num_iterations=2)
    second.show()
    counted.clear()
    second.beta.value = 3.0
    assert len(counted) == 1
    first.beta.value = 3.0
    assert len(counted) == 2


def test_an_error_in_a_callback_is_seen_and_goes_when_repaired(monkeypatch):
    explorer = widgets.BanditExplorer(num_iterations=2)
    good = widgets.explore_run

    def broken(*args):
        raise RuntimeError("BOOM <&>")

    monkeypatch.setattr(widgets, "explore_run", broken)
    explorer.beta.value = 3.0
    assert "RuntimeError: BOOM &lt;&amp;&gt;" in explorer.message.value and "color:#d32f2f" in explorer.message.value
    assert "in broken" in explorer.message.value  # where it happened
    with pytest.raises(RuntimeError, match="BOOM"):
        _ = explorer.figure
    monkeypatch.setattr(widgets, "explore_run", good)
    explorer.beta.value = 4.0
    assert explorer.message.value == "" and explorer.error is None


def test_a_reward_without_a_known_resting_point_still_runs():
    explorer = widgets.BanditExplorer(reward=[0.0, 1.0, 2.0, 3.0], num_iterations=2)
    assert "no exact resting point" in explorer.figure.layout.title.text


def test_only_core_widgets_are_used():
    found = list(walk(widgets.BanditExplorer().box))
    assert len(found) > 12
    for widget in found:
        assert type(widget).__module__.startswith("ipywidgets.widgets.")
        assert widget._model_module in ("@jupyter-widgets/controls", "@jupyter-widgets/base", "@jupyter-widgets/output")


def test_sliders_redraw_when_let_go_and_the_keys_are_told():
    explorer = widgets.BanditExplorer()
    sliders = (explorer.beta, explorer.learning_rate, explorer.num_samples, explorer.updates_per_rollout)
    for slider in sliders:
        assert slider.continuous_update is False and slider.readout is True
    assert (explorer.beta.min, explorer.beta.max) == (0, 5)
    texts = [child.value for child in explorer.box.children if isinstance(child, ipywidgets.HTML)]
    assert any("Shift+" in text and "PageUp" in text and "number" in text and "Enter" in text for text in texts)


def test_on_colab_each_redraw_loads_plotly_by_itself(displayed, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    explorer = widgets.BanditExplorer(num_iterations=2)
    explorer.show()
    explorer.beta.value = 3.0
    pages = [item.data for item in displayed if hasattr(item, "data")]
    assert len(pages) == 2 and displayed.count("cleared, wait=True") == 2
    for page in pages:
        assert page.index("cdn.plot.ly/plotly") < page.index("Plotly.newPlot")
    assert explorer.out.outputs == ()  # nothing that Colab's Output does not take


def test_without_a_front_end_a_notebook_runs_it():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cells = [
        "from grpo_lib.widgets import BanditExplorer\nexplorer = BanditExplorer(num_iterations=5)\nexplorer",
        "explorer.beta.value = 3.0\nprint(list(explorer.figure.data[0].y))",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    views = [o["data"] for o in book.cells[0].outputs if o["output_type"] == "display_data"]
    assert len(views) == 1 and "application/vnd.jupyter.widget-view+json" in views[0]
    assert book.cells[1].outputs[0]["text"].strip() == str(list(explore_bandit(3.0, num_iterations=5).data[0].y))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (dict(beta=10.0), r"beta must lie on its control, from 0 to 5, got 10\.0"),
        (dict(learning_rate=1e-6), "learning_rate must lie on its control, from 0.0001 to 1"),
        (dict(num_samples=200), "num_samples must lie on its control, from 2 to 100, got 200"),
        (dict(seed=None), "seed must lie on its control"),
    ],
)
def test_a_setting_that_no_control_can_show_is_refused_not_moved(setting, message):
    with pytest.raises(ValueError, match=message):
        widgets.BanditExplorer(**setting)
