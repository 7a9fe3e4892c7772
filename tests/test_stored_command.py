"""The commands that make stored runs again, on runs that cost nothing."""

import json
import sys

from grpo_lib import stored_runs


def test_only_the_named_runs_are_made_and_the_order_is_the_tables(tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "runs.json"
    path.write_text(json.dumps({"b": [{"seed": 9}]}), encoding="utf-8")
    monkeypatch.setattr(stored_runs.resources, "files", lambda package: tmp_path)
    monkeypatch.setattr(sys, "argv", ["runs", "a"])
    table = {"a": {"beta": 1.0}, "b": {}}
    stored_runs.store_runs("runs.json", table, lambda change, seed: {"seed": seed, **change}, lambda run: 0.5, (3, 4))
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert list(stored) == ["a", "b"]
    assert stored["a"] == [{"seed": 3, "beta": 1.0}, {"seed": 4, "beta": 1.0}] and stored["b"] == [{"seed": 9}]
    assert "a: right on held-out problems 0.500, 0.500" in capsys.readouterr().out
