"""A figure with sliders shows, at each combination, what the plain function of the control draws at that setting."""

import json
from itertools import product

import pytest

from grpo_lib.explore import explore_bandit
from grpo_lib.inspect_view import explore_rollout
from grpo_lib.slider_figures import slider_figure, state_at
from grpo_lib.slider_grids import bandit_sliders, rollout_sliders, run_sliders, smollm_sliders
from grpo_lib.stored_runs import load_stored_runs


def plain(figure):
    return json.loads(figure.to_json())


def small(**values):
    layout = dict(height=100 + 10 * values["b"], margin=dict(t=20, b=30), title=str(values))
    return dict(data=[dict(x=[0, 1], y=[values["a"], values["b"]])] * (1 + values["b"]), layout=layout)


def test_every_combination_is_the_figure_drawn_there():
    figure = slider_figure(small, dict(a=[1, 2, 3], b={"none": 0, "one": 1}))
    figure = json.loads(json.dumps(figure))  # as it is written into a page
    for a, (text, b) in product((1, 2, 3), (("none", 0), ("one", 1))):
        state = state_at(figure, a=str(a), b=text)
        assert state["data"] == small(a=a, b=b)["data"]
        assert state["layout"]["title"] == str(dict(a=a, b=b))


def test_all_states_have_one_size_and_the_sliders_stand_below_the_panels():
    figure = slider_figure(small, dict(a=[1, 2], b=[0, 1]), b=1)
    layouts = [state_at(figure, a=a, b=b)["layout"] for a, b in product("12", "01")]
    assert len({(x["height"], x["margin"]["b"]) for x in layouts}) == 1
    margin, sliders = layouts[0]["margin"], figure["layout"]["sliders"]
    panels = layouts[0]["height"] - margin["t"] - margin["b"]
    tops = [-slider["y"] * panels for slider in sliders]  # pixels below the panels
    assert 30 <= tops[0] < tops[0] + 60 < tops[1] < margin["b"] - 60
    assert [slider["active"] for slider in sliders] == [0, 1]
    assert {step["method"] for slider in sliders for step in slider["steps"]} == {"skip"}


def test_what_is_common_is_kept_once():
    figure = slider_figure(small, dict(a=list(range(50)), b=[0]))
    assert figure["grid"]["pool"].count([0, 1]) == 1


@pytest.mark.parametrize(
    ("axes", "start", "message"),
    [
        (dict(a=[1], b=[]), {}, "a slider needs at least one value"),
        (dict(a=[1], b=[0]), dict(a=7), "a must start at one of 1, got 7"),
        (dict(a=[1], b=[0]), dict(c=7), "no slider for c; the sliders are a, b"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(axes, start, message):
    with pytest.raises(ValueError, match=message):
        slider_figure(small, axes, **start)


def test_a_position_that_is_not_there_is_named():
    figure = slider_figure(small, dict(a=[1, 2], b=[0, 1]))
    with pytest.raises(ValueError, match="b must be one of 0, 1, got None"):
        state_at(figure, a="1")


def test_an_axis_with_one_value_has_no_slider():
    """Plotly divides by the number of steps less one."""
    figure = slider_figure(small, dict(a=[7], b=[0, 1]))
    assert [slider["currentvalue"]["prefix"] for slider in figure["layout"]["sliders"]] == ["b: "]
    assert state_at(figure, b="1")["data"] == small(a=7, b=1)["data"]


@pytest.fixture(scope="module")
def explorer():
    return bandit_sliders(beta=1.0, num_iterations=12)


@pytest.mark.parametrize(
    ("beta", "rate", "divide", "group"),
    [(0, 0.01, True, 20), (1, 0.1, False, 2), (5, 1, True, 2), (2, 0.25, False, 20)],
)
def test_the_explorer_s_sliders_show_explore_bandit(explorer, beta, rate, divide, group):
    texts = {"beta": f"{beta:g}", "learning rate": f"{rate:g}"}
    texts |= {"divide by std": "yes" if divide else "no", "group size": str(group)}
    state = state_at(explorer, **texts)
    wanted = plain(explore_bandit(beta, rate, group, divide, num_iterations=12))
    assert state["data"] == wanted["data"]
    assert state["layout"]["title"] == wanted["layout"]["title"]
    assert state["layout"]["meta"] == wanted["layout"]["meta"]


def test_beta_rate_and_normalisation_each_change_the_curves(explorer):
    base = {"beta": "1", "learning rate": "0.1", "divide by std": "yes", "group size": "20"}
    ends = [
        state_at(explorer, **base | change)["data"][0]["y"][-1]
        for change in ({}, {"beta": "5"}, {"learning rate": "0.01"}, {"divide by std": "no"}, {"group size": "2"})
    ]
    assert len(set(ends)) == 5


def test_the_start_is_where_the_control_of_the_cell_stood():
    figure = bandit_sliders(beta=0.3, learning_rate=0.05, num_iterations=2, updates_per_rollout=3)
    wanted = explore_bandit(0.3, 0.05, num_iterations=2, updates_per_rollout=3)
    assert figure["data"] == plain(wanted)["data"]
    assert [axis["name"] for axis in figure["grid"]["axes"]][-2:] == ["updates per rollout", "clip"]


def test_the_inspector_s_sliders_show_explore_rollout():
    figure = rollout_sliders(variants=("grpo", "cispo"), betas=(0.1,), completion=1, token=0)
    for loss, completion, token in (("grpo", 1, 0), ("cispo", 3, None)):
        view = explore_rollout(loss_type=loss, completion=completion, token=token)
        state = state_at(figure, loss=loss, beta="0.1", group="0", completion=str(completion))
        assert state["data"] == plain(view.figure)["data"]
        assert view.story_html in state["html"] and view.changes in state["html"]


def test_the_panel_s_sliders_show_stored_runs():
    state = state_at(run_sliders(), run="beta 2", seed="1")
    rewards = [step["reward_mean"] for step in load_stored_runs("beta = 2")[1]["steps"]]
    assert any(trace["y"] == pytest.approx(rewards, rel=1e-4) for trace in state["data"])
    assert state_at(smollm_sliders(), task="vowel", seed="2")["data"]
