"""Sampling figures: the values drawn are the values given, the interval is Wilson's, bad input is refused."""

import math

import numpy as np
import pytest

from grpo_lib import plots

WORDS = ["ant", "bear", "cat"]
SCORED = [0.5, 0.3, 0.2]


def wilson(count, total, z=1.959963984540054):
    """The interval in closed form."""
    p, scale = count / total, 1 + z * z / total
    middle = (p + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    return middle - half, middle + half


def test_frequencies_are_drawn_over_the_scored_policy_with_wilson_s_interval():
    counts = [60, 40, 0]
    fig = plots.frequencies_figure(WORDS, counts, SCORED, sampler=[0.625, 0.375, 0.0])
    policy, sampled, warped = fig.data
    assert policy.y == tuple(SCORED) and sampled.y == (0.6, 0.4, 0.0) and warped.y == (0.625, 0.375, 0.0)
    assert all(trace.x == tuple(WORDS) for trace in fig.data)
    for count, frequency, up, down in zip(
        counts, sampled.y, sampled.error_y.array, sampled.error_y.arrayminus, strict=True
    ):
        low, high = wilson(count, 100)
        assert (frequency - down, frequency + up) == pytest.approx((low, high), abs=1e-5)
    assert policy.width > sampled.width and fig.layout.barmode == "overlay"
    assert plots.alt_text(fig).endswith("sampled and scored 0.200.")  # (0.1 + 0.1 + 0.2) / 2


def test_words_are_text_never_tags():
    fig = plots.frequencies_figure(["<b>", "a b", "\u200b"], [1, 1, 1], SCORED)
    assert fig.data[0].x == fig.data[1].x == ("&lt;b&gt;", "a b", "\\u200b")


def test_one_panel_a_setting_each_with_its_own_policy():
    counts = {"hot": [1, 1, 2], "cold": [3, 1, 0], "odd": [0, 4, 0]}
    scored = {"hot": SCORED, "cold": [0.7, 0.2, 0.1], "odd": SCORED}
    fig = plots.frequencies_figure(WORDS, counts, scored)
    assert [trace.y for trace in fig.data[::2]] == [tuple(row) for row in scored.values()]
    assert [trace.y for trace in fig.data[1::2]] == [tuple(np.divide(row, 4)) for row in counts.values()]
    assert [note.text for note in fig.layout.annotations] == list(counts)
    assert len([trace for trace in fig.data if trace.showlegend]) == 2
    assert [trace.xaxis for trace in fig.data[::2]] == ["x", "x2", "x3"]


@pytest.mark.parametrize(
    ("counts", "scored", "options", "message"),
    [
        ([1, 2], SCORED, {}, r"counts must have shape \(3,\), got \(2,\)"),
        ({"a": [1, 2, 0.5]}, SCORED, {}, "counts must be whole numbers"),
        ([0, 0, 0], SCORED, {}, "at least one sample"),
        ([1, -1, 1], SCORED, {}, "counts must be whole numbers"),
        ([1, 1, 1], [0.5, 0.3, 0.3], {}, "scored must be probabilities that sum to 1, .* sum 1.1"),
        ([1, 1, 1], [1.2, -0.1, -0.1], {}, "scored must be probabilities"),
        ({"a": [1, 1, 1]}, {"b": SCORED}, {}, r"scored must have the titles of counts, \['a'\], got \['b'\]"),
        ([1, 1, 1], SCORED, {"sampler": [1.0, 1.0, 0.0]}, "sampler must be probabilities"),
        ({}, SCORED, {}, "counts is empty"),
    ],
)
def test_bad_frequencies_are_refused(counts, scored, options, message):
    with pytest.raises(ValueError, match=message):
        plots.frequencies_figure(WORDS, counts, scored, **options)


def test_distances_are_drawn_over_the_room_that_chance_has():
    fig = plots.distance_figure([10, 100], {"top-k": [0.4, 0.37], "right": [0.1, 0.0]}, [0.3, 0.1])
    chance, *curves = fig.data
    assert chance.y == (0.3, 0.1) and chance.fill == "tozeroy"
    assert [curve.y for curve in curves] == [(0.4, 0.37), (0.1, None)]  # 0 has no place on a logarithmic axis
    assert fig.layout.xaxis.type == fig.layout.yaxis.type == "log"
    assert 10 ** fig.layout.yaxis.range[0] < 0.1
    assert "top-k 0.37" in plots.alt_text(fig) and "right 0" in plots.alt_text(fig)


@pytest.mark.parametrize(
    ("distances", "chance", "message"),
    [
        ({"a": [0.1]}, [0.1, 0.1], r"distances\['a'\] must have shape \(2,\), got \(1,\)"),
        ({"a": [0.1, math.nan]}, [0.1, 0.1], "must be finite"),
        ({"a": [0.1, 1.5]}, [0.1, 0.1], r"distances\['a'\] must lie in \[0, 1\], .* got \[0.1, 1.5\]"),
        ({"a": [-1.0, 0.1]}, [0.1, 0.1], r"must lie in \[0, 1\]"),
        ({"a": [0.1, 0.1]}, [2.0, 0.1], r"chance must lie in \[0, 1\]"),
        ({"a": [0.1, 0.1]}, [0.1], "chance must have shape"),
        ({"a": [0.1, 0.1]}, [0.0, 0.0], "chance must be above 0"),
    ],
)
def test_bad_distances_are_refused(distances, chance, message):
    with pytest.raises(ValueError, match=message):
        plots.distance_figure([10, 100], distances, chance)


def test_each_seed_is_a_dot_and_the_line_is_their_mean():
    fig = plots.temperature_figure([0.5, 1.0], {"distinct": [[2, 4], [5, 7]], "reward": [[0, 0], [1, 0]]})
    dots, line, _, rewards = fig.data
    assert list(zip(dots.x, dots.y, strict=True)) == [(0.5, 2), (0.5, 4), (1.0, 5), (1.0, 7)]
    assert line.y == (3.0, 6.0) and rewards.y == (0.0, 0.5)
    assert (fig.layout.yaxis.title.text, fig.layout.yaxis2.title.text) == ("distinct", "reward")
    assert "distinct from 3 to 6" in plots.alt_text(fig)


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ({}, "measures is empty"),
        ({"a": [[1.0]]}, r"measures\['a'\] must have shape \(2, at least 1\), got \(1, 1\)"),
        ({"a": [[1.0], [math.inf]]}, "must be finite"),
    ],
)
def test_bad_measures_are_refused(measures, message):
    with pytest.raises(ValueError, match=message):
        plots.temperature_figure([0.5, 1.0], measures)


def test_temperature_0_has_no_place_on_the_axis():
    with pytest.raises(ValueError, match=r"temperatures must be above 0, .* got \[0.0, 1.0\]"):
        plots.temperature_figure([0.0, 1.0], {"a": [[1.0], [2.0]]})


def test_distances_of_0_are_gaps_also_where_there_are_no_others():
    fig = plots.distance_figure([10, 100], {"right": [0.0, 0.0]}, [0.3, 0.1])
    assert fig.data[1].y == (None, None) and 10 ** fig.layout.yaxis.range[0] == pytest.approx(0.1 / 1.6)
    with pytest.raises(ValueError, match=r"num_samples must be above 0, .* got \[0.0, 10.0\]"):
        plots.distance_figure([0, 10], {"right": [0.1, 0.1]}, [0.3, 0.1])


def test_a_heat_map_can_name_its_axis():
    assert plots.token_heatmap([["a"]], [[1.0]], x_title="column").layout.xaxis.title.text == "column"
    assert "completion" in plots.token_heatmap([["a"]], [[1.0]]).layout.xaxis.title.text
