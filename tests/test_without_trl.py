"""The adapter to TRL where TRL is not installed: what works all the same, and what is said."""

import json
import sys
from importlib import resources

import pytest

from grpo_lib.records import GRPOSettings
from grpo_lib.trl_data import checked_reward, trl_dataset
from grpo_lib.trl_names import TESTED_TRL, TRL_NAMES
from grpo_lib.trl_parity import compare_losses, our_loss, parity_batch, parity_variants, trl_loss
from grpo_lib.trl_settings import settings_without_counterpart, trl_config


@pytest.fixture(autouse=True)
def no_trl(monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)
    monkeypatch.setitem(sys.modules, "datasets", None)


def test_every_variant_matches_what_trl_said_when_it_was_stored():
    rows = compare_losses()
    assert [row.variant for row in rows] == list(parity_variants()) and {row.source for row in rows} == {"stored"}
    assert max(row.difference for row in rows) < 1e-13 and max(row.gradient_difference for row in rows) < 1e-13
    stored = json.loads(resources.files("grpo_lib").joinpath("data/trl_losses.json").read_text(encoding="utf-8"))
    assert stored["trl"] == TESTED_TRL and list(stored["variants"]) == list(parity_variants())


def test_the_variants_differ_so_that_a_wrong_one_would_be_seen():
    """Each variant's gradient is its own, but for two pairs that are one by their formulae."""
    found = {}
    for row, (settings, off_policy) in zip(compare_losses(), parity_variants().values(), strict=True):
        batch = parity_batch()
        cut = batch.pop("truncated")
        if settings.mask_truncated_completions:
            batch["mask"] = batch["mask"] * ~cut[:, None]
        batch["old_log_probs"] = batch["old_log_probs"] if off_policy else None
        gradient = our_loss(settings, *batch.values())[1]
        found.setdefault(tuple(round(x, 9) for x in gradient.flatten().tolist()), []).append(row.variant)
    same = [names for names in found.values() if len(names) > 1]
    # without num_items_in_batch the whole batch is the local one; VESPO's ratio is always the completion's
    expected = [
        [f"bnpo, {level}, {kl}", f"dapo, {level}, {kl}"]
        for level in ("token", "sequence")
        for kl in ("no KL", "k3", "ratio·k3")
    ]
    expected += [[f"vespo, token, {kl}", f"vespo, sequence, {kl}"] for kl in ("no KL", "k3")]
    assert sorted(same) == sorted(expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda: trl_config(GRPOSettings(), "unused", num_steps=1),
        lambda: trl_dataset([("1+1=", "2")]),
        lambda: compare_losses(live=True),
        lambda: trl_loss(GRPOSettings(beta=0.0), *list(parity_batch().values())[:5]),
    ],
    ids=["trl_config", "trl_dataset", "compare_losses", "trl_loss"],
)
def test_without_trl_the_error_says_what_to_install(call):
    with pytest.raises(ImportError, match=f'pip install "trl=={TESTED_TRL}"'):
        call()


def test_a_folder_named_trl_on_the_path_is_not_taken_for_it(monkeypatch, tmp_path):
    (tmp_path / "trl").mkdir()
    monkeypatch.delitem(sys.modules, "trl")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ImportError, match=f'pip install "trl=={TESTED_TRL}"'):
        trl_config(GRPOSettings(), "unused", num_steps=1)
    assert compare_losses(["grpo, token, k3"])[0].source == "stored"


def test_settings_are_refused_before_trl_is_asked_for():
    with pytest.raises(ValueError, match="TRL cannot follow baseline = 'loo'"):
        trl_config(GRPOSettings(baseline="loo"), "unused", num_steps=1)
    with pytest.raises(ValueError, match="num_steps must be an integer >= 1, got 0"):
        trl_config(GRPOSettings(), "unused", num_steps=0)
    assert "RLOOTrainer" in settings_without_counterpart(GRPOSettings(baseline="loo"))["baseline"]


def test_an_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="variant must be one of 'grpo, token, no KL', .* got 'ppo'"):
        compare_losses(["ppo"])


def test_rewards_are_checked_without_trl_too():
    reward = checked_reward(lambda prompts, completions: [1.0] * len(completions))
    assert reward(prompts=["a"], completions=["b"], completion_ids=[[1]], trainer_state=object()) == [1.0]
    assert reward.__name__ == "<lambda>"


def test_the_table_has_a_note_where_names_or_defaults_need_one():
    rows = {row.ours: row for row in TRL_NAMES if row.ours}
    assert rows["loss_type"].defaults == ("dapo",) and rows["beta"].defaults == (0.0,)
    assert rows["autocast"].defaults == (True, False) and rows["bias_correction_kl"].defaults == (True,)
