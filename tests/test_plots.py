"""The figures hold the numbers they were given, read on any page, and refuse what does not fit."""

import json
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import plotly.graph_objects as go
import pytest

from grpo_lib import plot_style, plots
from grpo_lib.bandit_plots import bandit_figure_dict, compare_figure_dict

WORDS = ["ant", "bear", "cat"]
PROBS = np.array([[0.2, 0.3, 0.5], [0.4, 0.3, 0.3], [0.6, 0.2, 0.2]])
RUN = (WORDS, PROBS, [0.2, 0.5], [0.123456789, 0.0], [0.0, 0.1, 0.3])
STEP = (WORDS, [0, 0, 2, 1], [1, 1, 0, 0], [1.0, 1.0, -1.0, -1.0], [2.0, -1.0, -1.0], [-0.5, 0.25, 0.25], *PROBS[:2])


def records(values, column="reward_mean", **more):
    return [{"step": i + 1, column: v, **more} for i, v in enumerate(values)]


def figures():
    rng = np.random.default_rng(0)
    history = [records(rng.random(30)) for _ in range(3)]
    yield plots.bandit_figure(*RUN, resting_points=np.array([[0.7, 0.1, 0.2]]), title="a<br>b")
    yield plots.bandit_step_figure(*(np.array(part) for part in STEP))
    yield plots.training_curves({"a": history, "b": history[0]}, columns=["reward_mean"], band=True, smooth=3)
    yield plots.token_heatmap([["a", "b"], ["c"]], [np.array([1.0, -1.0]), [np.nan]], mask=[[1, 0], [1]])
    yield plots.sweep_figure(np.array([0.1, 1.0]), rng.random((2, 3)), x_title="beta", y_title="share", log_x=True)
    yield plots.compare_figure(WORDS, (*RUN[1:], None), (*RUN[1:], np.array([[0.7, 0.1, 0.2]])), title="A<br>B")
    yield plots.band_figure({"a": rng.random((3, 5))}, y_title="share", resting_points={"a": np.float64(0.5)})
    curve = (np.array([0.9, 0.5]), np.array([np.nan, 0.95]))
    yield plots.resting_point_figure(np.array([0.5, 1]), {"KL": {"plain": curve}}, start=0.2, critical=np.float64(0.8))
    yield plots.silent_groups_figure(np.linspace(0, 1, 3), {2: np.array([1, 0.5, 1])}, {2: (np.array([0.5]), [0.4])})
    yield plots.kl_curves_figure()
    yield plots.kl_value_figure(WORDS, PROBS[0], {"k1": PROBS[1], "k3": PROBS[2]}, np.float64(0.4))
    yield plots.kl_gradient_figure(WORDS, {"k1": PROBS[0] - PROBS[1], "ratio*k3": np.zeros(3)}, *PROBS[:2])
    yield plots.kl_trace_figure({"k1": rng.random(30), "k3": rng.random(30)}, np.float64(0.4))
    yield plots.clip_figure((0.2, 0.28), maximum=True)
    yield plots.updates_figure(range(1, 4), {"a": rng.random((3, 5))}, {"a": rng.random(3)})


@pytest.fixture(autouse=True)
def nothing_is_shown(monkeypatch):
    def show(*args, **kwargs):
        raise AssertionError("a plot function showed its figure")

    monkeypatch.setattr(go.Figure, "show", show)


def arrays_in(node):
    if isinstance(node, dict):
        return [found for value in node.values() for found in arrays_in(value)]
    if isinstance(node, (list, tuple)):
        return [found for value in node for found in arrays_in(value)]
    return [node] if isinstance(node, (np.ndarray, np.generic)) else []


IDS = ["bandit", "step", "training", "tokens", "sweep", "compare", "band", "resting", "silent"]
IDS += ["k curves", "k values", "k gradients", "k trace", "clip", "updates"]


@pytest.mark.parametrize("fig", list(figures()), ids=IDS)
def test_every_figure_is_small_plain_and_described(fig):
    assert arrays_in(fig.to_plotly_json()) == [] and "bdata" not in fig.to_json()
    assert len(json.dumps(fig.to_plotly_json()["layout"]["template"])) < 2_000
    assert len(fig.to_json()) < 12_000
    assert plots.alt_text(fig).endswith(".") and len(plots.alt_text(fig)) > 20
    assert fig.layout.width is None and fig.layout.height > 150
    assert fig.layout.template.layout.paper_bgcolor == plot_style.CLEAR == fig.layout.template.layout.plot_bgcolor
    for axis in [*fig.select_xaxes(), *fig.select_yaxes()]:
        assert axis.title.text or axis.showticklabels is False or axis.ticktext is not None


def luminance(hexadecimal):  # WCAG 2
    srgb = np.array([int(hexadecimal[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    high, low = sorted((luminance(c) @ [0.2126, 0.7152, 0.0722] for c in (a, b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", ["#FFFFFF", "#111111"])
def test_text_and_lines_stand_out_on_light_and_dark_pages(page):
    assert contrast(plot_style.TEXT, page) > 3.9
    assert all(contrast(line, page) > 2.1 for line in plot_style.PALETTE)


# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB
PROTAN = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
DEUTAN = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


@pytest.mark.parametrize("eye", [np.eye(3), np.array(PROTAN), np.array(DEUTAN)], ids=["full", "protan", "deutan"])
def test_neighbouring_colours_differ_for_colour_blind_eyes(eye):
    def lab(colour):
        xyz = np.array(TO_XYZ) @ np.clip(eye @ luminance(colour), 0, 1) / [0.9505, 1.0, 1.089]
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    assert min(np.linalg.norm(lab(a) - lab(b)) for a, b in combinations(plot_style.PALETTE[:4], 2)) > 15
    assert len(set(plot_style.DASHES)) == 6 and "dot" not in plot_style.DASHES


def test_bandit_figure_draws_each_history_where_it_belongs():
    fig = plots.bandit_figure(*RUN, resting_points=[[0.7, 0.1, 0.2], [0.9, 0.05, 0.05]])
    lines = {trace.name: trace for trace in fig.data}
    assert lines["ant (rests at 0.700 or 0.900)"].y == (0.2, 0.4, 0.6)
    assert (lines["mean reward"].x, lines["mean reward"].y) == ((0, 1), (0.2, 0.5))
    assert (lines["KL of one step"].x, lines["KL of one step"].y) == ((1, 2), (0.12346, None))
    assert (lines["KL to reference"].x, lines["KL to reference"].y) == ((0, 1, 2), (None, 0.1, 0.3))
    dotted = [trace for trace in fig.data if trace.line.dash == "dot"]
    assert [trace.y for trace in dotted] == [(v, v) for v in (0.7, 0.1, 0.2, 0.9, 0.05, 0.05)]
    assert [trace.line.color for trace in dotted] == 2 * [trace.line.color for trace in fig.data[:3]]
    assert lines["KL to reference"].yaxis == "y3" and fig.layout.yaxis3.type == "log"


@pytest.mark.parametrize(
    "place, value, message",
    [
        (1, PROBS[:, :2], r"prob_history must have shape \(at least 1, 3\), got \(3, 2\)"),
        (1, PROBS[:1], "at least one iteration"),
        (1, [], "prob_history must have shape"),
        (2, [0.2], r"reward_history must have shape \(2,\), got \(1,\)"),
        (3, [0.1, np.nan], "kl_step_history must be finite, got nan"),
        (4, [0.0, 0.1], r"kl_ref_history must have shape \(3,\)"),
    ],
)
def test_bandit_figure_names_what_does_not_fit(place, value, message):
    with pytest.raises(ValueError, match=message):
        plots.bandit_figure(*RUN[:place], value, *RUN[place + 1 :])
    with pytest.raises(ValueError, match=r"resting_points must have shape \(3,\), got \(2,\)"):
        plots.bandit_figure(*RUN, resting_points=[[0.5, 0.5]])


RESTS = [[], [[0.7, 0.1, 0.2]], [[0.7, 0.1, 0.2], [0.9, 0.05, 0.05]]]
LONG = (WORDS, np.tile(PROBS, (4, 1)), np.full(11, 0.3), np.full(11, 0.1), np.geomspace(1e-5, 1, 12))
FOUR = (["a", "rhinoceros", "c", "d"], [[0.25] * 4, [0.1, 0.2, 0.3, 0.4]], [1.0], [0.1], [0.0, 0.1])


@pytest.mark.parametrize("title", [None, "one", "one<br>two<br>three"])
@pytest.mark.parametrize("rests", RESTS, ids=len)
def test_plain_data_is_the_figure_number_for_number(rests, title):
    for run in (RUN, LONG):
        drawn = run[:5], dict(resting_points=rests, title=title)
        figure, plain = (draw(*drawn[0], **drawn[1]) for draw in (plots.bandit_figure, bandit_figure_dict))
        assert plain == json.loads(figure.to_json())
        both = WORDS, (*run[1:], rests), (*RUN[1:], RESTS[1])
        figure, plain = (draw(*both, title=title) for draw in (plots.compare_figure, compare_figure_dict))
        assert plain == json.loads(figure.to_json())
    assert bandit_figure_dict(*FOUR, title=title) == json.loads(plots.bandit_figure(*FOUR, title=title).to_json())


def test_nobody_can_spoil_the_next_figure():
    before = bandit_figure_dict(*RUN, title="a")
    spoilt, figure = bandit_figure_dict(*RUN, title="a"), plots.bandit_figure(*RUN, title="a")
    spoilt["layout"]["template"]["layout"]["font"]["size"] = spoilt["layout"]["xaxis"]["title"]["text"] = 99
    spoilt["data"][0]["line"]["color"] = "red"
    spoilt["data"][0]["y"].append(1)
    figure.data[0].line.color = "red"
    figure.update_layout(font_size=99, xaxis_title_text="x")
    assert bandit_figure_dict(*RUN, title="a") == before == json.loads(plots.bandit_figure(*RUN, title="a").to_json())


def test_plain_data_names_what_does_not_fit():
    with pytest.raises(ValueError, match=r"reward_history must have shape \(2,\), got \(1,\)"):
        bandit_figure_dict(WORDS, PROBS, [0.2], *RUN[3:])


def test_step_figure_counts_and_adds_up():
    fig = plots.bandit_step_figure(*STEP)
    counts, push, pull, net, before, after = fig.data
    assert counts.y == (2, 1, 1) and counts.text == ("r 1<br>A +1.00", "r 0<br>A -1.00", "r 0<br>A -1.00")
    assert net.y == (1.5, -0.75, -0.75) == tuple(a + b for a, b in zip(push.y, pull.y, strict=True))
    assert before.y == tuple(PROBS[0]) and after.y == tuple(PROBS[1])
    assert "ant from 0.200 to 0.400" in plots.alt_text(fig)


@pytest.mark.parametrize(
    "place, value, message",
    [
        (1, [0, 3, 0, 0], "word indices 0 to 2, got 0 to 3"),
        (1, [], "samples must have shape"),
        (2, [1, 1, 0], r"rewards must have shape \(4,\)"),
        (4, [1.0, 2.0], r"push must have shape \(3,\)"),
    ],
)
def test_step_figure_names_what_does_not_fit(place, value, message):
    with pytest.raises(ValueError, match=message):
        plots.bandit_step_figure(*STEP[:place], value, *STEP[place + 1 :])


def test_training_curves_average_seeds_and_shade_their_range():
    seeds = np.random.default_rng(1).random((3, 20))
    fig = plots.training_curves({"x": [records(row) for row in seeds]}, columns=["reward_mean"], band=True)
    low, high, mean = (np.array(trace.y) for trace in fig.data)
    np.testing.assert_allclose(low, seeds.min(0), rtol=1e-4)
    np.testing.assert_allclose(high, seeds.max(0), rtol=1e-4)
    np.testing.assert_allclose(mean, seeds.mean(0), rtol=1e-4)
    fig = plots.training_curves({"x": [records(row) for row in seeds]}, columns=["reward_mean"], band="std")
    np.testing.assert_allclose(fig.data[1].y, seeds.mean(0) + seeds.std(0), rtol=1e-4)


def test_training_curves_smooth_over_the_last_steps_and_keep_gaps():
    values = [1.0, None, 3.0, 5.0, 9.0]
    raw, smooth = plots.training_curves(records(values, "kl"), columns=["kl"], smooth=3).data
    assert raw.y == tuple(values)
    # by hand: {1}, gap, {1, 3}, {3, 5}, {3, 5, 9}
    assert smooth.y == (1.0, None, 2.0, 4.0, 5.6667)
    nothing = plots.training_curves(records([None, None], "kl"), columns=["kl"])
    assert nothing.data[0].y == (None, None)


def test_training_curves_take_objects_and_own_labels():
    @dataclass
    class Record:
        step: int
        reward_mean: float

    fig = plots.training_curves([Record(1, 0.5), Record(2, 0.7)], columns=["reward_mean"], labels={"reward_mean": "r"})
    assert (fig.data[0].x, fig.data[0].y) == ((1, 2), (0.5, 0.7)) and fig.layout.yaxis.title.text == "r"
    assert plots.training_curves([Record(1, 0.5)], columns=["reward_mean"]).data[0].mode == "lines+markers"


def test_training_curves_are_told_by_their_ends():
    seeds = {"a": [records([0.1, 0.4], "kl"), records([0.3, 0.8], "kl")], "b": records([None, None], "kl")}
    alt = "Curves of a, b, training step 1 to 2: KL to reference (nats/token) a from 0.2 to 0.6, b not recorded."
    assert plots.alt_text(plots.training_curves(seeds, columns=["kl"])) == alt
    one = plots.training_curves(records([0.0, 1.0, 0.5]), columns=["reward_mean"], smooth=2)
    assert plots.alt_text(one) == "Curves of a run, training step 1 to 3: mean reward (points) from 0 to 0.75."


def test_training_curves_lay_out_one_panel_a_column():
    run = [dict.fromkeys(plots.TRAINING_COLUMNS, 0.1) | {"step": i} for i in range(3)]
    fig = plots.training_curves({"a": run, "b": run})
    assert [trace.yaxis for trace in fig.data[::2]] == ["y", "y2", "y3", "y4", "y5", "y6"]
    assert fig.layout.yaxis3.title.text == plots.AXIS_TITLES["entropy"]
    assert [trace.showlegend for trace in fig.data] == [True, True] + [False] * 10


@pytest.mark.parametrize(
    "histories, options, message",
    [
        ([], {}, "history of 'run' is empty"),
        ({}, {}, "histories is empty"),
        ({"a": [records([1]), []]}, {}, "history of 'a' is empty"),
        (records([1, 2]), {"columns": ["kl"]}, "no record of 'run' has the column 'kl'; it has reward_mean, step"),
        (records([1]), {"columns": "reward_mean"}, "sequence of at least one column"),
        ({"a": [records([1, 2]), records([1])]}, {}, "seeds of 'a' were recorded at different steps"),
        (records([1]), {"smooth": 0}, "smooth must be None or a whole number"),
        (records([1]), {"band": "max"}, "band must be"),
    ],
)
def test_training_curves_name_what_does_not_fit(histories, options, message):
    with pytest.raises(ValueError, match=message):
        plots.training_curves(histories, **{"columns": ["reward_mean"], **options})


def test_token_heatmap_shows_blanks_and_keeps_masked_tokens_off_the_scale():
    tokens = [["<answer>", " 7", "\n"], ["a&b"]]
    fig = plots.token_heatmap(tokens, [[1.0, -2.0, 99.0], [None]], mask=[[1, 1, 0], [1]], row_labels=["x", "y"])
    heat, masked = fig.data
    assert [list(row) for row in heat.text] == [["&lt;answer&gt;", "␣7", ""], ["a&amp;b", "", ""]]
    assert [list(row) for row in heat.z] == [[1.0, -2.0, None], [None, None, None]]
    assert (heat.zmin, heat.zmax) == (-2.0, 2.0)
    assert (masked.x, masked.text) == ((2,), ("⏎",)) and masked.marker.pattern.shape == "/"
    assert fig.layout.yaxis.range == (1.5, -0.5) and fig.layout.yaxis.ticktext == ("x", "y")


@pytest.mark.parametrize(
    "values, limits", [([1, 3], (0, 3)), ([-1, -3], (-3, 0)), ([0, 0], (0, 1)), ([-1, 4], (-4, 4))]
)
def test_token_heatmap_centres_its_scale_only_on_both_signs(values, limits):
    heat = plots.token_heatmap([["a", "b"]], [values]).data[0]
    assert (heat.zmin, heat.zmax) == limits


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(tokens=[], values=[]), "at least one row"),
        (dict(tokens=[["a"], []], values=[[1], []]), "every row at least one token"),
        (dict(tokens=[["a"]], values=[[1], [2]]), "values must have one row for each of the 1 rows of tokens, got 2"),
        (dict(tokens=[["a", "b"]], values=[[1]]), r"values\[0\] must have 2 entries, one a token, got 1"),
        (dict(tokens=[["a"]], values=[[1]], mask=[[1, 1]]), r"mask\[0\] must have 1 entries"),
        (dict(tokens=[["a"]], values=[[1]], row_labels=["x", "y"]), "row_labels must have one row"),
    ],
)
def test_token_heatmap_names_what_does_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        plots.token_heatmap(**arguments)


def test_sweep_draws_every_seed_and_the_means():
    rows = {"a": [[0.1, 0.3], [0.5]], "b": [[1.0], [0.0]]}
    fig = plots.sweep_figure([1e-4, 1e-3], rows, x_title="rate", y_title="accuracy", log_x=True)
    dots, mean, _, other = fig.data
    assert (dots.x, dots.y) == ((1e-4, 1e-4, 1e-3), (0.1, 0.3, 0.5))
    assert mean.y == (0.2, 0.5) and other.y == (1.0, 0.0) and mean.line.dash != other.line.dash
    assert fig.layout.xaxis.type == "log" and fig.layout.xaxis.ticktext == ("0.0001", "0.001")
    assert plots.sweep_figure(["x", "y"], [[1], [2]], x_title="a", y_title="b").layout.xaxis.type == "category"


@pytest.mark.parametrize(
    "x, rows, log_x, message",
    [
        ([1, 2], [[1]], False, "one row for each of the 2 settings in x, got 1"),
        ([], [], False, "one row for each of the 0 settings"),
        ([1], [[]], False, "at least one finite number"),
        ([1], [[np.inf]], False, "at least one finite number"),
        ([0, 1], [[1], [2]], True, "log_x needs numbers above 0"),
    ],
)
def test_sweep_names_what_does_not_fit(x, rows, log_x, message):
    with pytest.raises(ValueError, match=message):
        plots.sweep_figure(x, rows, x_title="x", y_title="y", log_x=log_x)


def test_sweep_draws_what_is_exact_as_a_dotted_line():
    for exact in (0.4, [0.4, 0.4]):
        fig = plots.sweep_figure([1, 2], [[0.1], [0.5]], x_title="rate", y_title="share", exact=exact)
        assert (fig.data[-1].name, fig.data[-1].y, fig.data[-1].line.dash) == ("exact", (0.4, 0.4), "dot")
    options = dict(x_title="rate", y_title="share", exact=0.4, exact_name="formula")
    assert plots.sweep_figure([1, 2], [[0.1], [0.5]], **options).data[-1].name == "formula"
    with pytest.raises(ValueError, match=r"exact must have shape \(2,\), got \(3,\)"):
        plots.sweep_figure([1, 2], [[0.1], [0.5]], x_title="rate", y_title="share", exact=[1, 2, 3])


def test_titles_break_after_commas_and_only_else_at_spaces():
    title = "beta 0.9, learning rate 0.01, clip (0.2, 0.28)<br>a rest"
    assert plot_style.wrapped(title, 80) == title
    assert plot_style.wrapped(title, 30) == "beta 0.9, learning rate 0.01,<br>clip (0.2, 0.28)<br>a rest"
    assert plot_style.wrapped(title, 20) == "beta 0.9,<br>learning rate 0.01,<br>clip (0.2, 0.28)<br>a rest"
    assert plot_style.wrapped("one two three four", 9) == "one two<br>three<br>four"
    assert plot_style.wrapped("seventeen letters", 5) == "seven<br>teen<br>lette<br>rs"
    assert plot_style.wrapped("", 5) == ""


@pytest.mark.parametrize("value, text", [(0.0005, "+0.001"), (-0.0004, "0.000"), (-0.0, "0.000"), (-2, "-2.000")])
def test_what_rounds_to_zero_has_no_sign(value, text):
    assert plot_style.signed(value, 3) == text


def test_two_runs_share_their_axes_and_keep_their_own_resting_points():
    other = (WORDS, PROBS[::-1], [0.2, 0.5], [0.02, 1e-30], [0.0, 0.2, 3.0])
    fig = plots.compare_figure(WORDS, (*RUN[1:], None), (*other[1:], [[0.7, 0.1, 0.2]]))
    left = [trace for trace in fig.data if trace.xaxis in (None, "x")]
    right = [trace for trace in fig.data if trace.xaxis == "x2"]
    assert [trace.y for trace in left] == [tuple(row) for row in PROBS.T]
    assert [trace.y for trace in right[:3]] == [tuple(row) for row in PROBS[::-1].T]
    assert [trace.y[0] for trace in right[3:]] == [0.7, 0.1, 0.2]
    assert [trace.name for trace in fig.data if trace.showlegend] == [*WORDS, "KL of one step", "KL to reference"]
    low, high = fig.layout.yaxis3.range
    assert fig.layout.yaxis4.range == (low, high) and -8.2 < low - np.log10(3) < -7 and 10**high > 3
    assert fig.layout.yaxis.range == fig.layout.yaxis2.range == (-0.02, 1.02)
    with pytest.raises(ValueError, match=r"reward_history must have shape \(2,\), got \(1,\)"):
        plots.compare_figure(WORDS, (*RUN[1:], None), (PROBS, [0.2], *RUN[3:], None))


def test_a_band_holds_eight_runs_in_ten():
    runs = {"a": np.arange(11)[:, None] * np.ones(3), "b": np.zeros((2, 2))}
    fig = plots.band_figure(runs, y_title="share", resting_points={"a": [4.0, 6.0]})
    low, high, mean, first, second, *_, flat = fig.data
    assert (low.y, high.y, mean.y) == ((1.0,) * 3, (9.0,) * 3, (5.0,) * 3) and high.fill == "tonexty"
    assert (first.y, second.y, first.line.dash) == ((4.0, 4.0), (6.0, 6.0), "dot")
    assert flat.y == (0.0, 0.0) and [t.name for t in fig.data if t.showlegend is not False] == ["a", "b"]
    with pytest.raises(ValueError, match=r"resting_points must name settings of runs, \['a', 'b'\], got \['c'\]"):
        plots.band_figure(runs, y_title="share", resting_points={"c": 1})
    with pytest.raises(ValueError, match="runs of 'a' must be finite"):
        plots.band_figure({"a": [[np.nan]]}, y_title="share")


def test_resting_points_are_drawn_by_panel_and_unstable_ones_thin():
    none, curve = np.full(2, np.nan), np.array([0.9, 0.5])
    panels = {"reverse": {"x": (curve, [np.nan, 0.95])}, "forward": {"x": (curve, none), "y": (curve / 2, none)}}
    fig = plots.resting_point_figure([0.5, 1], panels, start=0.2, critical=0.8)
    assert [(t.name, t.xaxis) for t in fig.data] == [("x", "x"), ("x, unstable", "x"), ("x", "x2"), ("y", "x2")]
    assert fig.data[1].y == (None, 0.95) and fig.data[1].line.dash == "dot" and fig.data[1].showlegend is False
    assert {s.x0 for s in fig.layout.shapes if s.x0 == s.x1} == {0.8}
    assert "critical 0.800" in [a.text for a in fig.layout.annotations]
    with pytest.raises(ValueError, match="betas must rise from above 0"):
        plots.resting_point_figure([1, 0.5], panels, start=0.2)
    with pytest.raises(ValueError, match="'x' must have one value for each of 3 betas, got"):
        plots.resting_point_figure([0.5, 1, 2], panels, start=0.2)


def test_measured_shares_wear_the_colour_of_their_formula():
    fig = plots.silent_groups_figure([0, 1], {2: [1, 1], 4: [1, 1]}, {4: ([0.5], [0.1])})
    assert [(t.name, t.mode) for t in fig.data] == [
        ("G = 2", "lines"),
        ("G = 4", "lines"),
        ("G = 4, measured", "markers"),
    ]
    assert fig.data[2].marker.color == fig.data[1].line.color and fig.data[2].y == (0.1,)
    with pytest.raises(ValueError, match=r"measured must have group sizes of formula, \[2\], got \[4\]"):
        plots.silent_groups_figure([0, 1], {2: [1, 1]}, {4: ([0.5], [0.1])})
