"""Attacks and look-alikes against naive rewards and the library's; the figure of who pays for what."""

from decimal import Decimal, InvalidOperation

import numpy as np
import pytest

from grpo_lib.answers import extract_answer
from grpo_lib.gsm8k import SYSTEM_PROMPT
from grpo_lib.plots import alt_text, attack_figure
from grpo_lib.reward_attacks import (
    ATTACKS,
    LOOK_ALIKES,
    Attack,
    attack_table,
    find_mistakes,
    regex_reward,
    substring_reward,
)
from grpo_lib.reward_plots import CLASSES, classify_pay
from grpo_lib.rewards import combined_reward, correctness_reward, format_reward

ALL = ATTACKS + LOOK_ALIKES
TABLE = attack_table(
    {
        "substring": substring_reward,
        "regex": regex_reward,
        "correctness": correctness_reward,
        "combined": combined_reward,
        "format": format_reward,
    }
)


def by_hand(found):
    """The number a person reads in the answer of a look-alike, with none of the library's code."""
    text = found.replace("\\frac{1}{2}", "0.5").replace("\u2212", "-").strip("$ \n").replace(",", "").split()[0]
    return Decimal(text)


def test_names_are_distinct_and_every_text_has_a_reason():
    assert len({attack.name for attack in ALL}) == len(ALL)
    assert all(attack.why and not attack.deserves for attack in ATTACKS)
    assert all(attack.why and attack.deserves for attack in LOOK_ALIKES)


@pytest.mark.parametrize("attack", LOOK_ALIKES, ids=lambda attack: attack.name)
def test_a_look_alike_really_is_right(attack):
    assert by_hand(extract_answer(attack.text)) == Decimal(attack.gold)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_really_is_no_answer(attack):
    try:
        read = Decimal(extract_answer(attack.text) or "")
    except InvalidOperation:
        read = None
    assert (read == Decimal(attack.gold)) == (attack.name == "nonsense reasoning")


def test_correctness_is_fooled_by_luck_alone_and_unfair_to_nobody():
    assert find_mistakes(TABLE["correctness"]) == (["nonsense reasoning"], [])


def test_naive_rewards_are_fooled_where_the_notebook_says():
    fooled, unfair = find_mistakes(TABLE["substring"])
    assert len(fooled) == 14 and unfair == ["thousands", "minus sign", "fraction"]
    assert {"substring", "number soup", "copied question", "prompt injection", "wrong sign"} <= set(fooled)
    hedged, refused = find_mistakes(TABLE["regex"])
    assert hedged == ["number soup", "7 or 8", "about 7", "range", "several tags", "number words", "nonsense reasoning"]
    assert refused == ["trailing zero", *unfair] and set(hedged) < set(fooled)


def test_combined_pays_for_form_but_never_as_much_as_for_a_right_answer():
    assert TABLE["combined"] == [a + b for a, b in zip(TABLE["correctness"], TABLE["format"], strict=True)]
    honest = [paid for paid, attack in zip(TABLE["combined"], ALL, strict=True) if attack.deserves]
    wrong = {attack.name: paid for paid, attack in zip(TABLE["combined"], ALL, strict=True) if not attack.deserves}
    assert wrong.pop("nonsense reasoning") == 2.8
    assert max(wrong.values()) == 0.8 < min(honest)
    assert wrong["repeated tags"] == wrong["several tags"] == 0.0
    assert ATTACKS[13].text == SYSTEM_PROMPT and wrong["copied instruction"] == 0.8


def test_find_mistakes_counts_both_kinds_and_wants_one_amount_a_text():
    assert find_mistakes([1.0] * len(ALL)) == ([attack.name for attack in ATTACKS], [])
    assert find_mistakes([0.0] * len(ALL)) == ([], [attack.name for attack in LOOK_ALIKES])
    with pytest.raises(ValueError):
        find_mistakes([1.0])


def test_a_reward_that_fails_on_an_attack_is_named():
    def fragile(prompts, completions, answer):
        return [float(text[0] == "<") for text in completions]

    with pytest.raises(RuntimeError, match="fragile raised IndexError on row 0 of 28, ''"):
        attack_table({"mine": fragile})


# ---------------------------------------------------------------- the figure


def test_pay_falls_into_classes():
    deserves = [True, True, False, False, False, True]
    assert classify_pay([2.0, 1.5, 0.0, 1.4, 1.5, 0.0], deserves) == [1, 1, 0, 2, 2, 4]
    assert classify_pay([2.0, 1.5, 0.0, 1.4, 1.5, 1.5], deserves) == [1, 1, 0, 3, 2, 1]
    assert classify_pay([0.1], [False]) == [2]  # with no right answer beside it, there is nothing to lose to


def test_figure_draws_every_amount_and_class():
    fig = attack_figure(TABLE, ALL)
    heat, *legend = fig.data
    assert list(heat.x) == list(TABLE) and len(heat.y) == len(ALL)
    amounts = [[float(cell.split()[0]) for cell in row] for row in heat.text]
    np.testing.assert_allclose(np.array(amounts).T, list(TABLE.values()))
    for r, name in enumerate(TABLE):
        fooled, unfair = find_mistakes(TABLE[name])
        drawn = [attack.name for attack, row in zip(ALL, heat.z, strict=True) if row[r] in (2, 3)]
        assert drawn == fooled
        assert [attack.name for attack, row in zip(ALL, heat.z, strict=True) if row[r] == 4] == unfair
    seen = {kind for row in heat.z for kind in row}
    assert {trace.name for trace in legend} == {CLASSES[kind][0] for kind in seen}
    shades = {edge[1] for edge in heat.colorscale}
    assert shades == {shade for _, shade, _ in CLASSES}
    assert "substring 14, regex 7, correctness 1, combined 1" in alt_text(fig)


def test_markup_in_names_and_texts_is_escaped():
    fig = attack_figure({"r": [1.0]}, [Attack("<b>", "<answer>", "7", False, "why")])
    assert fig.data[0].y == ("&lt;b&gt;",) and "&lt;answer&gt;" in fig.data[0].customdata[0][0]


@pytest.mark.parametrize(
    "table, attacks, message",
    [
        ({}, ALL, "needs a reward and a text, got 0 rewards and 28 texts"),
        ({"mine": []}, [], "got 1 rewards and 0 texts"),
        ({"mine": [1.0]}, ALL, r"what 'mine' paid must have shape \(28,\), got \(1,\)"),
        ({"mine": [float("nan")]}, ALL[:1], "what 'mine' paid must be finite"),
    ],
)
def test_bad_input_is_refused(table, attacks, message):
    with pytest.raises(ValueError, match=message):
        attack_figure(table, attacks)
