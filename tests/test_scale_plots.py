"""Figures of scaling out: what is drawn is what was given, at the place where it belongs."""

import pytest

from grpo_lib.plot_style import alt_text
from grpo_lib.published_steps import compare_with_published
from grpo_lib.scale_plots import SMALLEST, parity_figure, published_figure, step_time_figure
from grpo_lib.step_time import StepTime
from grpo_lib.trl_parity import LossRow

ROWS = [LossRow("grpo, token", 1.0, 1.0, 1e-12, 2e-9, "live"), LossRow("dapo, sequence", 1.0, 1.0, 0.0, 0.0, "live")]
TIMES = {1: StepTime(4.0, 1.0, 3.0, 0.0), 8: StepTime(3.0, 0.125, 0.375, 0.5)}


def test_a_difference_of_nothing_is_on_the_edge_and_limits_are_drawn():
    fig = parity_figure(ROWS)
    assert [list(trace.x) for trace in fig.data[:2]] == [[1e-12, SMALLEST], [2e-9, SMALLEST]]
    assert list(fig.data[0].y) == ["grpo", "dapo"] and list(fig.data[0].customdata) == ["grpo, token", "dapo, sequence"]
    assert [trace.name for trace in fig.data[2:]] == ["limit of the loss", "limit of the gradient"]
    assert [shape.x0 for shape in fig.layout.shapes] == [1e-6, 1e-5]
    assert "losses by at most 1.0e-12, limit 1e-06; the gradients by at most 2.0e-09" in alt_text(fig)


def test_phases_are_stacked_in_the_order_of_a_step():
    fig = step_time_figure(TIMES)
    assert [trace.name for trace in fig.data[:4]] == ["generation", "scoring", "training", "synchronisation"]
    assert [sum(column) for column in zip(*[trace.y for trace in fig.data[:4]], strict=True)] == [8.0, 4.0]
    assert list(fig.data[4].text) == ["8", "4"] and fig.layout.barmode == "stack"
    assert "from 8 at 1 to 4 at 8; the share of generation goes from 0.50 to 0.75" in alt_text(fig)


def test_published_and_model_stand_in_one_row():
    rows = compare_with_published()
    published, model, *gaps = published_figure(rows).data
    assert list(published.y) == list(model.y) and len(set(published.y)) == len(gaps) == len(rows)
    assert published.x[0] == pytest.approx(rows[0]["published"], rel=1e-4)
    assert model.x[0] == pytest.approx(rows[0]["model"].total, rel=1e-4)


@pytest.mark.parametrize("draw", [parity_figure, step_time_figure, published_figure])
def test_nothing_to_draw_is_refused(draw):
    with pytest.raises(ValueError, match="at least one"):
        draw([])
    with pytest.raises(ValueError, match="difference must hold numbers >= 0"):
        parity_figure([ROWS[0]._replace(difference=-1.0)])
