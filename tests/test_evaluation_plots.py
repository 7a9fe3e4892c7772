"""Figures of evaluation hold the numbers they were given, and say so in their alt text."""

import pytest

from grpo_lib.comparison import PairedTable
from grpo_lib.evaluation_plots import interval_figure, paired_table_figure, power_figure
from grpo_lib.plot_style import alt_text


def test_interval_figure_draws_each_value_with_its_ends():
    rows = {"before": (0.25, 0.125, 0.5), "after": (0.75, 0.5, 0.875)}
    fig = interval_figure(rows, x_title="accuracy (share)", reference=0.5, reference_name="start")
    trace, legend = fig.data
    assert trace.x == (0.25, 0.75) and trace.y == (0, 1) and fig.layout.yaxis.ticktext == ("before", "after")
    assert trace.error_x.array == (0.25, 0.125) and trace.error_x.arrayminus == (0.125, 0.25)
    assert fig.layout.shapes[0].x0 == 0.5 and legend.name == "start" and trace.showlegend is False
    assert "after 0.75 [0.5, 0.875]" in alt_text(fig)
    assert not interval_figure(rows, x_title="accuracy").layout.showlegend
    assert fig.layout.yaxis.range[0] > fig.layout.yaxis.range[1]  # from top to bottom


def test_interval_figure_in_groups():
    groups = {"strict": {"start": (0.2, 0.1, 0.3)}, "lenient": {"start": (0.4, 0.3, 0.5), "end": (0.6, 0.5, 0.7)}}
    fig = interval_figure(groups, x_title="accuracy")
    assert [(t.name, t.customdata) for t in fig.data] == [("strict", ("start",)), ("lenient", ("start", "end"))]
    assert [[round(y) for y in trace.y] for trace in fig.data] == [[0], [0, 1]]
    assert fig.data[0].y[0] < fig.data[1].y[0]  # beside each other, not upon each other
    assert fig.layout.showlegend and "strict start 0.2 [0.1, 0.3]" in alt_text(fig)


@pytest.mark.parametrize(
    ("rows", "message"),
    [({}, "at least one row"), ({"a": (0.5, 0.6, 0.7)}, "must lie in its interval"), ({"a": (0.5, 0.6)}, "shape")],
)
def test_interval_figure_refuses(rows, message):
    with pytest.raises(ValueError, match=message):
        interval_figure(rows, x_title="accuracy")


def test_paired_table_figure():
    fig = paired_table_figure(PairedTable(both=40, gained=30, lost=5, neither=25), names=("at first", "later"))
    heat = fig.data[0]
    assert [[cell.split("<br>")[0] for cell in row] for row in heat.text] == [["40", "5"], ["30", "25"]]
    assert list(heat.x) == ["right later", "wrong later"] and list(heat.y) == ["right at first", "wrong at first"]
    assert heat.z[0][1] == 2 and heat.z[1][0] == 1 and heat.z[0][0] == heat.z[1][1] == 0
    assert "Of 100 problems 40 were right" in alt_text(fig) and "30 gained, 5 lost" in alt_text(fig)
    with pytest.raises(TypeError, match="got tuple"):
        paired_table_figure((1, 2, 3, 4))


def test_power_figure():
    fig = power_figure([30, 100, 1000], {"paired": [0.2, 0.8, 1.0], "unpaired": [0.1, 0.3, 0.5]})
    assert [trace.y for trace in fig.data] == [(0.2, 0.8, 1.0), (0.1, 0.3, 0.5)]
    assert fig.layout.xaxis.type == "log" and fig.layout.shapes[0].y0 == 0.8
    assert "paired at 100; unpaired not at all" in alt_text(fig)
    with pytest.raises(ValueError, match="needs a curve"):
        power_figure([30], {})
    with pytest.raises(ValueError, match="numbers of problems above 0"):
        power_figure([0, 30], {"a": [0.1, 0.2]})
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        power_figure([30], {"a": [1.2]})
    with pytest.raises(ValueError, match="shape"):
        power_figure([30], {"a": [0.1, 0.2]})
