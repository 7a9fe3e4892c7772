import inspect
import itertools
import re
import sys

import numpy as np
import pytest
import torch

from grpo_lib import checks, reward_exercises, verdicts
from grpo_lib.answers import extract_answer, parse_number

ALL = [getattr(checks, name) for name in checks.__all__]
MODULES = [sys.modules[name] for name in sorted({check.__module__ for check in ALL})]


@pytest.fixture
def judged(monkeypatch):
    """Run a check and return what it handed to `judge`: reference, cases, slips."""

    def run(check):
        seen = {}

        def spy(exercise, attempt, reference, cases, slips, **options):
            seen.update(reference=reference, cases=cases, slips=slips)
            return verdicts.judge(exercise, attempt, reference, cases, slips, **options)

        for module in MODULES:
            monkeypatch.setattr(module, "judge", spy)
        check(lambda *a: None)
        return seen

    return run


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.__name__)
def test_reference_is_right_and_every_slip_is_named(check, judged):
    parts = judged(check)
    assert check(parts["reference"]).right
    assert parts["slips"]
    for name, (slip, explanation) in parts["slips"].items():
        verdict = check(slip)
        assert (verdict.status, verdict.slip, verdict.message) == ("not yet", name, explanation)
        assert explanation in repr(verdict) and len(explanation) > 20 and explanation.endswith((".", "?", ")"))
    explanations = [explanation for _, explanation in parts["slips"].values()]
    assert len(set(explanations)) == len(explanations)  # each says what is its own


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.__name__)
def test_unattempted_stubs_and_errors(check):
    def unwritten(*arguments):
        raise NotImplementedError

    for stub in (lambda *a: None, lambda *a: ..., unwritten):
        assert check(stub).status == "not attempted yet"
    verdict = check(lambda *a: 1 / 0)
    assert verdict.status == "not yet" and "ZeroDivisionError" in verdict.message
    told = [check(attempt).message for attempt in (lambda *a: "x", lambda *a: np.zeros((7, 7, 7)))]
    if check is checks.check_attack:
        assert all("expected two texts" in message for message in told)
    else:
        assert re.search("expected (one number|numbers of shape)", told[0]) and "shape (7, 7, 7)" in told[1]
    assert max(map(len, told)) < 320  # the arguments of a batch are told in short


QUANTITIES = {
    "B": lambda mask, limit: torch.tensor(float(len(mask))),
    "T": lambda mask, limit: torch.tensor(float(mask.shape[1])),
    "length": lambda mask, limit: mask.sum(dim=1, keepdim=True).float(),
    "tokens": lambda mask, limit: mask.sum().float(),
    "limit": lambda mask, limit: torch.tensor(float(limit)),
    "longest": lambda mask, limit: mask.sum(dim=1).max().float(),
    "mean length": lambda mask, limit: mask.sum(dim=1).float().mean(),
}


def test_no_wrong_denominator_of_the_token_weights_passes_by_coincidence(judged):
    parts = judged(checks.check_token_weights)
    reference, far = parts["reference"], (torch.tensor([[1] * 7 + [0] * 4, [1] * 11, [1] + [0] * 10] * 2), 23)
    accepted = set()
    products = [p for size in range(4) for p in itertools.combinations_with_replacement(QUANTITIES, size)]
    for row, names in itertools.product(range(4), products):

        def attempt(mask, limit, row=row, names=names):
            weights = reference(mask, limit)
            weights[row] = mask.float()
            for name in names:
                weights[row] = weights[row] / QUANTITIES[name](mask, limit)
            return weights

        if torch.allclose(attempt(*far), reference(*far)):
            accepted.add(row)
            assert checks.check_token_weights(attempt).right
        else:
            assert not checks.check_token_weights(attempt).right, (row, names)
    assert accepted == {0, 1, 2, 3}


def test_token_log_probs_are_counted_from_the_end_of_the_row(judged):
    parts = judged(checks.check_token_log_probs)

    def from_the_front(logits, ids, n):  # right only where the prompt is as long as the completion
        return parts["reference"](logits[:, : 2 * n], ids[:, : 2 * n], n)

    assert not checks.check_token_log_probs(from_the_front).right


def test_parts_of_different_shapes_are_named():
    lengths = lambda mask: mask.sum(dim=1, keepdim=True)  # noqa: E731
    verdict = checks.check_token_weights(lambda mask, limit: [mask, 1 / lengths(mask), mask, mask])
    assert "parts of the shapes (3, 5), (3, 1), (3, 5), (3, 5), expected numbers of shape (4, 3, 5)" in verdict.message
    with_grad = [torch.ones(3, 5, requires_grad=True)] * 4
    assert "it gives" in checks.check_token_weights(lambda mask, limit: with_grad).message


@pytest.mark.parametrize("moved", [max, lambda last, place: place], ids=["on", "back"])
def test_a_tag_that_is_not_paid_must_not_move_the_place(moved):
    def form(texts):
        scores = []
        for text in texts:
            paid, last = 0, -1
            for tag in reward_exercises.THINK_TAGS:
                place = text.find(tag)
                paid += place > last and text.count(tag) == 1
                last = moved(last, place)
            scores.append(paid / 4)
        return scores

    assert not checks.check_form_reward(form).right


def test_silence_is_not_an_answer_of_zero_and_greedy_is_not_first():
    def sturdy(pattern=None, empty=None):
        def read(text):
            found = re.findall(pattern, text, re.DOTALL) if pattern else [extract_answer(text)]
            return parse_number((found[0] if found else None) or empty or "")

        def reward(prompts, completions, answer):
            values = [(read(text), parse_number(gold)) for text, gold in zip(completions, answer, strict=True)]
            return [float(value is not None and value == gold) for value, gold in values]

        return reward

    assert checks.check_sturdy_reward(sturdy()).right
    assert checks.check_sturdy_reward(sturdy(empty="0")).slip == "zero by default"
    assert checks.check_sturdy_reward(sturdy("<answer>(.*)</answer>")).slip == "greedy"
    assert checks.check_sturdy_reward(sturdy("<answer>(.*?)</answer>")).slip == "first block"
    assert len(checks.check_sturdy_reward(lambda *a: [1.0]).message) < 120


def test_an_attack_is_told_what_its_texts_do():
    good = lambda gold: (f"<answer>8</answer>, {gold}", f"<answer>{gold}</answer> (in 2 steps)")  # noqa: E731
    assert checks.check_attack(good).right
    verdict = checks.check_attack(lambda gold: ["", good(gold)[0]])
    assert verdict.slip is None and "'12' the first text is not paid, its tag holds no number" in verdict.message
    assert "the second is paid, its tag holds another number" in verdict.message
    assert "expected two texts" in checks.check_attack(lambda gold: good(gold)[0]).message


def test_an_unknown_error_shows_what_was_expected():
    verdict = checks.check_kl_divergence(lambda p, q: 0.25)
    assert verdict.slip is None
    assert "it gives 0.25, expected 0.2" in verdict.message


def test_an_attempt_in_place_is_judged_fairly_and_spoils_nothing():
    def in_place(rewards):
        rewards -= rewards.mean()
        return rewards

    assert checks.check_centred_rewards(in_place).right
    assert not checks.check_bandit_advantages(lambda r: r / (r.std() + 1e-8)).right


def test_every_check_is_public_and_documented():
    functions = {
        name
        for module in MODULES
        for name, f in vars(module).items()
        if inspect.isfunction(f) and name.startswith("check_")
    }
    assert functions == set(checks.__all__)
    assert all(">>>" in f.__doc__ for f in ALL)


def test_long_arguments_are_told_by_their_shape_and_an_iterator_is_named():
    verdict = checks.check_token_log_probs(lambda logits, ids, n: logits[:, -n:, 0] * 0 - 7.5)
    assert "numbers of shape (2, 6, 5)" in verdict.message and len(verdict.message) < 400
    assert "return a list" in checks.check_group_rows(lambda *a: zip([1], [2], strict=True)).message


def test_arguments_of_unequal_rows_are_told():
    verdict = checks.check_left_padding(lambda rows, pad: [[[1] * 4] * 3] * 2)
    assert "[[1, 1], [2]], 7 it gives the shape (2, 3, 4), expected (2, 2, 2)" in verdict.message


def test_the_loss_from_its_parts_and_the_pushes_are_those_of_policy_loss(judged):
    from grpo_lib import policy_loss

    loss_of = judged(checks.check_grpo_loss)["reference"]
    pushes_of = judged(checks.check_completion_pushes)["reference"]
    torch.manual_seed(0)
    old, new, ref = -torch.rand(3, 3, 5)
    lengths, A, limit = torch.tensor([2, 5, 3]), torch.tensor([1.0, -0.4, -0.6]), 9
    mask = (torch.arange(5) < lengths[:, None]).long()
    loss, watch = policy_loss(new, old, ref, A, mask, beta=0.3)
    assert torch.isclose(loss_of(watch["surrogate"], watch["kl"], mask, 0.3), loss)
    for loss_type, row in zip(("grpo", "bnpo", "dr_grpo"), pushes_of(A, lengths.float(), limit), strict=True):
        fresh = old.clone().requires_grad_()
        options = dict(beta=0.0, loss_type=loss_type, max_completion_length=limit)
        policy_loss(fresh, None, None, A, mask, **options)[0].backward()
        assert torch.allclose(-fresh.grad.sum(dim=1), row)


def test_the_total_variation_is_the_largest_error_of_any_set_of_words(judged):
    parts = judged(checks.check_total_variation)
    for counts, probs in parts["cases"]:
        gaps = counts / counts.sum() - probs
        sets = [list(s) for size in range(len(gaps) + 1) for s in itertools.combinations(range(len(gaps)), size)]
        assert np.isclose(parts["reference"](counts, probs), max(abs(gaps[s].sum()) for s in sets))


def test_lengths_are_those_counted_by_hand(judged):
    parts = judged(checks.check_lengths)
    [(ids, stops)] = parts["cases"]
    ends = [next((t for t, i in enumerate(row) if i in stops), None) for row in ids.tolist()]
    finished = [end + 1 for end in ends if end is not None]
    lengths = finished + [ids.shape[1]] * ends.count(None)
    by_hand = [np.mean(lengths), ends.count(None) / len(ends), np.mean(finished)]
    assert np.allclose(parts["reference"](ids, stops), by_hand)
