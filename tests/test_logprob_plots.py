"""Scoring in pictures: the arrows go where the formula says, the bars and errors are the numbers given."""

import json

import numpy as np
import pytest
import torch

from grpo_lib import plots
from grpo_lib.plot_style import CLEAR

TOKENS = ["<pad>", "4", "+", "7", "=", "1", "1", "<end>"]
TABLE = {"whole": {"forward": 1.0, "both": 3.0}, "rows": {"forward": 0.25, "both": 2.0}}
ERRORS = {
    "fp32": {"fp32": torch.tensor([1e-6, -3e-6]), "bf16": torch.tensor([0.02, 0.0, -0.04])},
    "bf16": {"fp32": [-2e-6], "bf16": np.array([0.1, 0.1])},
}


def alignment(T=3, **options):
    return plots.alignment_figure(TOKENS, T, **options)


@pytest.mark.parametrize("T", [1, 3, 7])
def test_each_completion_token_is_scored_by_the_logits_before_it(T):
    """Against scoring itself: with one-hot logits for the token after, only the shifted pairing gives log-prob 0."""
    n = len(TOKENS)
    logits = torch.full((n, n), -50.0)
    logits[range(n - 1), range(1, n)] = 50.0  # the row at t is sure of token t + 1
    arrows = [(a.ax, a.x) for a in alignment(T).layout.annotations]
    assert len(arrows) == T
    assert [logits.log_softmax(-1)[int(row), int(token)].item() for row, token in arrows] == [0.0] * T
    assert [token for _, token in arrows] == list(range(n - T, n))


def test_rows_of_logits_are_kept_dropped_or_not_asked_for():
    [_, middle, _] = alignment().data[0].text
    assert list(middle) == ["–"] * 4 + ["keep"] * 3 + ["drop"]
    assert middle[-4:].count("keep") == 3  # T + 1 rows are asked for
    one = alignment(1).data[0].text[1]
    assert list(one) == ["–"] * 6 + ["keep", "drop"]


def test_log_probs_stand_under_the_tokens_that_they_score():
    fig = alignment(log_probs=torch.tensor([-0.5, -1.25, -0.001]), mask=[0] + [1] * 6 + [0], title="padded")
    top, _, low = fig.data[0].text
    assert list(low) == [""] * 5 + ["-0.50", "-1.25", "-0.00"]
    assert list(top)[1:7] == ["4", "+", "7", "=", "1", "1"]
    kinds = fig.data[0].hovertext
    assert kinds[0][0] == kinds[0][7] == kinds[2][7] == "padding" and kinds[0][1] == "prompt token"
    assert list(fig.data[0].z[2][:5]) == [None] * 5
    names = [trace.name for trace in fig.data[1:]]
    assert names[0] == "padding" and len(names) == len(set(names)) == 6
    assert "padding" not in [trace.name for trace in alignment().data]
    assert "logits at positions 4 to 6 score the tokens at 5 to 7" in plots.alt_text(fig)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(T=8), "from 1 to 7, one prompt token less, got 8"),
        (dict(T=0), "got 0"),
        (dict(T=1.9), "num_completion_tokens must be an integer >= 1, got 1.9"),
        (dict(log_probs=[-1.0]), r"log_probs must have shape \(3,\), got \(1,\)"),
        (dict(log_probs=[-1.0, float("nan"), 0.0]), "log_probs must be finite"),
        (dict(mask=[1, 1]), r"mask must have shape \(8,\)"),
    ],
)
def test_an_alignment_that_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        alignment(**arguments)


def test_bars_are_the_numbers_given():
    fig = plots.memory_bars(TABLE, x_title="GiB")
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in fig.data] == [
        ("forward", [1.0, 0.25], ["whole", "rows"]),
        ("both", [3.0, 2.0], ["whole", "rows"]),
    ]
    assert [list(trace.text) for trace in fig.data] == [["1.00", "0.25"], ["3.00", "2.00"]]
    assert fig.layout.xaxis.title.text == "GiB" and fig.layout.shapes[0].x0 == 1
    told = "whole: forward 1.00, both 3.00; rows: forward 0.25, both 2.00"
    assert plots.alt_text(fig) == f"Bars of GiB. {told}."
    plain = plots.memory_bars({"a": {"peak": 0.0}}, unit_line=False)
    assert not plain.layout.shapes and not plain.layout.showlegend


@pytest.mark.parametrize(
    "table, message",
    [
        ({}, "at least one way"),
        ({"a": {}}, "at least one measure"),
        ({"a": {"x": 1.0}, "b": {"y": 1.0}}, r"table\['b'\] must have the measures \['x'\], got \['y'\]"),
        ({"a": {"x": -1.0}}, ">= 0"),
        ({"a": {"x": float("inf")}}, "must be finite"),
    ],
)
def test_a_bad_table_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        plots.memory_bars(table)


def test_errors_are_drawn_from_their_mean_to_their_largest():
    fig = plots.log_prob_error_figure(ERRORS)
    assert [trace.name for trace in fig.data] == ["fp32", "bf16"]
    assert fig.data[0].y == (2e-06, 3e-06, None, 0.02, 0.04, None)
    assert fig.data[1].y == (2e-06, 2e-06, None, 0.1, 0.1, None)
    assert [round(x) for x in fig.data[0].x if x is not None] == [0, 0, 1, 1]
    assert fig.layout.yaxis.type == "log" and fig.layout.xaxis.ticktext == ("fp32", "bf16")
    assert plots.alt_text(fig) == "Largest error of a log-prob in nats: fp32 3e-06, bf16 0.1."


@pytest.mark.parametrize(
    "errors, message",
    [
        ({}, "at least one way"),
        ({"a": {}}, "at least one format"),
        ({"a": {"x": [1.0]}, "b": {"y": [1.0]}}, r"must have the formats \['x'\], got \['y'\]"),
        ({"a": {"x": [0.0, 0.0]}}, "an error that is not 0"),
        ({"a": {"x": []}}, "at least 1"),
    ],
)
def test_bad_errors_are_refused(errors, message):
    with pytest.raises(ValueError, match=message):
        plots.log_prob_error_figure(errors)


@pytest.mark.parametrize("fig", [alignment(), plots.memory_bars(TABLE), plots.log_prob_error_figure(ERRORS)])
def test_figures_are_small_plain_and_described(fig):
    assert "bdata" not in fig.to_json() and len(fig.to_json()) < 12_000
    json.loads(fig.to_json())
    assert plots.alt_text(fig).endswith(".") and fig.layout.template.layout.paper_bgcolor == CLEAR
    assert fig.layout.xaxis.title.text and (fig.layout.yaxis.title.text or fig.layout.yaxis.tickvals)
