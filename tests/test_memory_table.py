"""The stored predictions are those of the plans as they are now, and each fits its machine."""

import json

import pytest

from grpo_lib import memory_table
from grpo_lib.memory_table import MACHINES, SHAPES, load_memory_table, predict_row
from grpo_lib.policies import count_parameters

TABLE = load_memory_table()


def test_the_shapes_have_the_models_parameters():
    counts = {size: count_parameters(config) for size, config in SHAPES.items()}
    assert counts == {"tiny": 102_592, "smollm2": 134_515_008, "gpu": 494_032_768}


@pytest.mark.parametrize("name", MACHINES)
def test_a_row_is_of_the_plan_as_it_is_now(name):
    asked = memory_table._asked(memory_table._plan(name))
    assert {key: TABLE[name][key] for key in asked} == asked, "run: python -m grpo_lib.memory_table"


@pytest.mark.parametrize("name", ["any CPU", "laptop"])
def test_a_row_is_what_would_be_predicted_now(name):
    now = predict_row(name)
    for key in ("peak", "checkpoint"):
        assert TABLE[name][key] == pytest.approx(now[key], rel=0.05), key


def test_every_row_is_there_and_fits():
    assert TABLE.keys() == MACHINES.keys()
    for row in TABLE.values():
        assert 0 < row["peak"] < row["free"]
        parts = row["parts"]
        if row["learns"] == "all weights":  # fp32 weights; a checkpoint has them, Adam's two moments and the reference
            assert parts["adam"] == pytest.approx(2 * parts["weights"], rel=0.01)
            assert row["checkpoint"] == pytest.approx(3 * parts["weights"] + parts["reference"], rel=0.01, abs=2e-4)
        else:
            assert parts["reference"] == 0 and row["checkpoint"] < 0.2


def test_the_command_writes_what_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory_table, "MACHINES", {"any CPU": MACHINES["any CPU"]})
    memory_table.main(tmp_path / "table.json")
    assert json.loads((tmp_path / "table.json").read_text()) == {"any CPU": predict_row("any CPU")}
    assert "any CPU: 0.0 GB" in capsys.readouterr().out
