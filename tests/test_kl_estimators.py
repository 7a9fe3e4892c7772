"""KL estimators against closed forms, finite differences, autograd, quadrature's golden values, and sampling."""

import numpy as np
import pytest
import torch

from grpo_lib import plots
from grpo_lib.bandit import kl_divergence, kl_gradient, softmax
from grpo_lib.kl_estimators import (
    KL_ESTIMATORS,
    KL_LOSSES,
    estimator_by_enumeration,
    kl_from_log_ratio,
    loss_slope,
    schulman_table,
)

THETA, REF = np.array([0.3, -0.8, 1.1]), np.array([0.2, 0.5, 0.3])
GOLDEN_NAMES = {"ratio*sg(k1)": "k1 in reward (sg)*ratio", "ratio*sg(k3)": "k3 in reward (sg)*ratio"}


def estimate(theta, ref, kind):
    """k1, k2 or k3 of every word, from probabilities: no line shared with the library."""
    r = ref / softmax(theta)
    return {"k1": np.log(1 / r), "k2": np.log(r) ** 2 / 2, "k3": r - 1 - np.log(r)}[kind]


def mean_loss(theta, theta_0, ref, kind):
    """Mean loss at theta of samples drawn at theta_0, by the definition of each loss."""
    ratio = softmax(theta) / softmax(theta_0) if kind.startswith("ratio") else 1.0
    name = kind.removeprefix("ratio*").strip("sg()")
    return softmax(theta_0) @ (ratio * estimate(theta_0 if "sg" in kind else theta, ref, name))


@pytest.mark.parametrize("kind", KL_LOSSES)
def test_golden_values_and_gradients(golden, kind):
    data = golden("toy_kl_gradients")
    expected = data["estimators"][GOLDEN_NAMES.get(kind, kind)]
    found = estimator_by_enumeration(data["theta"], softmax(data["ref_logits"]), kind)
    assert abs(found.value - expected["value"]) < 1e-12
    np.testing.assert_allclose(found.gradient, expected["grad"], rtol=0, atol=1e-12)


def test_every_golden_estimator_is_tested(golden):
    assert {GOLDEN_NAMES.get(kind, kind) for kind in KL_LOSSES} == set(golden("toy_kl_gradients")["estimators"])


@pytest.mark.parametrize("kind", KL_LOSSES)
def test_gradient_against_finite_differences(kind):
    h, found = 1e-5, estimator_by_enumeration(THETA, REF, kind)
    nudges = h * np.eye(3)
    slopes = [(mean_loss(THETA + e, THETA, REF, kind) - mean_loss(THETA - e, THETA, REF, kind)) / 2 / h for e in nudges]
    np.testing.assert_allclose(found.gradient, slopes, rtol=0, atol=1e-8)
    assert abs(found.value - mean_loss(THETA, THETA, REF, kind)) < 1e-14


REVERSE, FORWARD = kl_gradient(THETA, REF), kl_gradient(THETA, REF, "forward")
FOLLOWS = {"k1": 0 * REVERSE, "k2": REVERSE, "k3": FORWARD}
FOLLOWS |= dict.fromkeys(("ratio*k1", "ratio*k3", "ratio*sg(k1)"), REVERSE)


@pytest.mark.parametrize("kind", FOLLOWS)
def test_which_kl_each_gradient_follows(kind):
    gradient = estimator_by_enumeration(THETA, REF, kind).gradient
    np.testing.assert_allclose(gradient, FOLLOWS[kind], rtol=0, atol=1e-14)
    others = [g for name, g in (("reverse", REVERSE), ("forward", FORWARD)) if g is not FOLLOWS[kind]]
    assert all(np.abs(gradient - other).max() > 0.05 for other in others)


def test_k3_as_a_number_in_the_reward_follows_neither():
    gradient = estimator_by_enumeration(THETA, REF, "ratio*sg(k3)").gradient
    assert min(np.abs(gradient - REVERSE).max(), np.abs(gradient - FORWARD).max()) > 0.02


@pytest.mark.parametrize("kind", KL_LOSSES)
def test_spread_of_value_and_gradient_by_sampling(kind):
    found, probs = estimator_by_enumeration(THETA, REF, kind), softmax(THETA)
    words = np.random.default_rng(0).choice(3, size=200_000, p=probs)
    d = np.log(REF / probs)
    values = estimate(THETA, REF, kind.removeprefix("ratio*").strip("sg()"))[words]
    gradients = loss_slope(d, kind)[words, None] * (np.eye(3)[words] - probs)
    np.testing.assert_allclose([values.mean(), values.std()], [found.value, found.spread], rtol=0.02, atol=0.005)
    np.testing.assert_allclose(gradients.mean(axis=0), found.gradient, rtol=0, atol=0.01)
    np.testing.assert_allclose(gradients.std(axis=0), found.gradient_spread, rtol=0.02)


@pytest.mark.parametrize("kind", KL_LOSSES)
def test_slope_against_autograd_through_the_tensor_formula(kind):
    d = np.array([-2.0, -0.1, 0.0, 1.5])
    log_probs = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    k = kl_from_log_ratio(torch.tensor(d) - log_probs, kind.removeprefix("ratio*").strip("sg()"))
    k = k.detach() if "sg" in kind else k
    (k * log_probs.exp() if kind.startswith("ratio") else k).sum().backward()
    np.testing.assert_allclose(log_probs.grad, loss_slope(d, kind), rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", KL_ESTIMATORS)
def test_one_formula_for_arrays_and_tensors(kind):
    d = np.array([-3.0, -1e-9, 0.0, 1e-9, 2.0])
    tensor = kl_from_log_ratio(torch.tensor(d), kind)
    assert isinstance(tensor, torch.Tensor) and isinstance(kl_from_log_ratio(d, kind), np.ndarray)
    np.testing.assert_allclose(tensor.numpy(), kl_from_log_ratio(d, kind), rtol=1e-12, atol=1e-24)


def test_a_turned_d_hides_near_the_reference_and_shows_away_from_it():
    def gap(step):
        probs = softmax(np.log(REF) + step * np.array([1.0, -1.0, 0.0]))
        truth, d = kl_divergence(probs, REF), np.log(REF / probs)
        assert abs(probs @ kl_from_log_ratio(d) - truth) < 1e-14
        return abs(probs @ kl_from_log_ratio(-d) / truth - 1)

    assert gap(0.02) < 0.02 and gap(2.0) > 0.5


@pytest.mark.parametrize("mu", [0.1, 1.0])
@pytest.mark.parametrize("kind", KL_ESTIMATORS)
def test_schulman_s_table(golden, mu, kind):
    np.testing.assert_allclose(schulman_table(mu)[kind], golden("schulman_kl")[f"{kind}|mu={mu}"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mu", [0.3, 2.0, 3.0])
def test_schulman_s_table_in_closed_form(mu):
    true = mu**2 / 2  # moments of the normal d = mu x - mu² / 2
    k3_variance = np.exp(mu**2) - 1 - mu**2  # var(e^d) + var(d) - 2 cov(e^d, d), cov = mu²
    k2_variance = (mu**4 * 3 + 6 * mu**2 * true**2 + true**4 - (mu**2 + true**2) ** 2) / 4
    expected = {
        "k1": (0, mu / true),
        "k2": (mu**2 / 4, np.sqrt(k2_variance) / true),
        "k3": (0, np.sqrt(k3_variance) / true),
    }
    for kind, row in schulman_table(mu).items():
        np.testing.assert_allclose(row, expected[kind], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: kl_from_log_ratio(np.zeros(2), "k4"), "kind must be one of .*'k3'.*, got 'k4'"),
        (lambda: estimator_by_enumeration(THETA, REF, "ratio*k2"), "kind must be one of .*got 'ratio[*]k2'"),
        (lambda: estimator_by_enumeration(THETA[:2], REF), "theta must be a vector of 3 finite numbers"),
        (lambda: estimator_by_enumeration(THETA, [0.5, 0.5, 0.0]), "above 0 everywhere"),
        (lambda: schulman_table(0), "mu must be a finite number > 0, got 0"),
        (lambda: plots.kl_curves_figure(2, 1), "0 < near < far, got near = 2 and far = 1"),
        (lambda: plots.kl_value_figure(["a", "b"], [1.0], {}, 0), r"probs must have shape \(2,\), got \(1,\)"),
        (lambda: plots.kl_gradient_figure(["a"], {}, [0], [0]), "at least one loss"),
        (lambda: plots.kl_trace_figure({"k1": [1.0, 2.0], "k3": [1.0]}, 0), r"values\['k3'\] must have shape \(2,\)"),
        (lambda: plots.kl_trace_figure({"k1": []}, 0), "at least 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_figures_carry_the_numbers():
    probs, kinds = softmax(THETA), KL_ESTIMATORS
    words, truth = ["a", "b", "c"], kl_divergence(probs, REF)
    values = plots.kl_value_figure(words, probs, {k: estimate(THETA, REF, k) for k in kinds}, truth)
    exact = [estimator_by_enumeration(THETA, REF, k) for k in kinds]
    np.testing.assert_allclose(values.data[3].y, [e.value for e in exact], rtol=1e-4)
    np.testing.assert_allclose(values.data[3].error_y.array, [e.spread for e in exact], rtol=1e-4)
    gradients = plots.kl_gradient_figure(words, {"k3": FORWARD, "k1": 0 * FORWARD, "x": REF}, REVERSE, FORWARD)
    np.testing.assert_allclose(gradients.data[0].y, FORWARD, rtol=1e-4)
    assert "k3 KL(ref‖π); k1 has none; x neither" in plots.alt_text(gradients)
    curves = {(trace.name, trace.xaxis): trace for trace in plots.kl_curves_figure(0.1, 2.0).data}
    assert curves["k3 with d turned", "x2"].y == curves["k3", "x2"].y[::-1]
    trace = plots.kl_trace_figure({"k3": [0.0, 9.0]}, 1.0)
    assert trace.data[1].y == (0.0, 4.5) and "a k3 of 9 nats" in plots.alt_text(trace)
