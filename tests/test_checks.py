import inspect

import numpy as np
import pytest

from grpo_lib import bandit_checks, checks, evaluation_checks, loss_checks, rest_checks, token_checks, verdicts

ALL = [getattr(checks, name) for name in checks.__all__]


@pytest.fixture
def judged(monkeypatch):
    """Run a check and return what it handed to `judge`: reference, cases, slips."""

    def run(check):
        seen = {}

        def spy(exercise, attempt, reference, cases, slips, **options):
            seen.update(reference=reference, cases=cases, slips=slips)
            return verdicts.judge(exercise, attempt, reference, cases, slips, **options)

        for module in (bandit_checks, evaluation_checks, loss_checks, rest_checks, token_checks):
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


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.__name__)
def test_unattempted_stubs_and_errors(check):
    def unwritten(*arguments):
        raise NotImplementedError

    for stub in (lambda *a: None, lambda *a: ..., unwritten):
        assert check(stub).status == "not attempted yet"
    verdict = check(lambda *a: 1 / 0)
    assert verdict.status == "not yet" and "ZeroDivisionError" in verdict.message
    assert "expected numbers" in check(lambda *a: "x").message
    assert "shape" in check(lambda *a: np.zeros((7, 7, 7))).message


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
        for module in (bandit_checks, evaluation_checks, loss_checks, rest_checks, token_checks)
        for name, f in vars(module).items()
        if inspect.isfunction(f) and name.startswith("check_")
    }
    assert functions == set(checks.__all__)
    assert all(">>>" in f.__doc__ for f in ALL)
