import math

import pytest
import torch

from grpo_lib.losses import clipped_surrogate, kl_estimate, masked_mean, policy_loss


def test_golden_docstring_example(golden):
    data = golden("docstring_example")
    new, ref = (torch.tensor(data[k], dtype=torch.float64) for k in ("policy_log_probs", "ref_log_probs"))
    advantages, mask = torch.tensor(data["advantages"], dtype=torch.float64), torch.tensor(data["mask"])
    torch.testing.assert_close(
        kl_estimate(new, ref), torch.tensor(data["kl_k3"], dtype=torch.float64), rtol=1e-12, atol=0
    )
    for beta, key in ((0.0, "loss_beta0"), (0.1, "loss_beta01")):
        loss, _ = policy_loss(new, None, ref, advantages, mask, beta=beta)
        assert math.isclose(loss.item(), data[key], rel_tol=1e-12)


def test_kl_estimators_of_one_token():
    new, ref = torch.tensor([-1.0]), torch.tensor([-1.5])
    assert kl_estimate(new, ref, "k1").item() == 0.5
    assert kl_estimate(new, ref, "k2").item() == 0.125
    assert abs(kl_estimate(new, ref, "k3").item() - 0.106531) < 1e-6  # 0.1487 would be the sign slip


def test_kl_values_and_gradients_by_enumeration(golden):
    data = golden("toy_kl_gradients")
    theta = torch.tensor(data["theta"], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor(data["ref_logits"], dtype=torch.float64).log_softmax(0)
    for kind in ("k1", "k2", "k3"):
        log_probs = theta.log_softmax(0)
        value = (log_probs.exp().detach() * kl_estimate(log_probs, ref, kind)).sum()
        (gradient,) = torch.autograd.grad(value, theta)
        expected = data["estimators"][kind]
        assert math.isclose(value.item(), expected["value"], rel_tol=1e-9)
        torch.testing.assert_close(gradient, torch.tensor(expected["grad"], dtype=torch.float64), rtol=0, atol=1e-9)


def test_k3_is_never_negative_and_zero_only_where_equal():
    torch.manual_seed(0)
    new = torch.randn(1000)
    assert (kl_estimate(new, new + 0.01 * torch.randn(1000)) >= 0).all()
    assert kl_estimate(new, new).abs().max() == 0


def test_clip_is_per_token_and_a_minimum_for_both_signs():
    old, new = torch.tensor([[0.5, 0.4, 0.2]]).log(), torch.tensor([[0.55, 0.36, 0.30]]).log()
    mask = torch.ones(1, 3)
    up, watch = policy_loss(new, old, None, torch.tensor([1.0]), mask, beta=0.0)
    down, _ = policy_loss(new, old, None, torch.tensor([-1.0]), mask, beta=0.0)
    assert abs(up.item() + (1.1 + 0.9 + 1.2) / 3) < 1e-6
    assert abs(down.item() - (1.1 + 0.9 + 1.5) / 3) < 1e-6
    assert watch["clipped"].tolist() == [[False, False, True]]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("ratio", [0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 1.27, 1.29, 2.0])
def test_surrogate_and_its_gradient_in_the_four_quadrants(sign, ratio):
    new = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    value, clipped = clipped_surrogate(new.exp(), torch.tensor([sign]), 0.2, 0.28)
    value.sum().backward()
    cut = ratio > 1.28 if sign > 0 else ratio < 0.8
    expected = (1.28 if sign > 0 else -0.8) if cut else sign * ratio
    assert math.isclose(value.item(), expected, rel_tol=1e-12)
    assert math.isclose(new.grad.item(), 0.0 if cut else sign * ratio, rel_tol=1e-12)
    assert clipped.item() == cut


def test_on_policy_the_value_is_zero_and_the_gradient_is_not():
    new = torch.full((2, 3), -1.0, requires_grad=True)
    loss, _ = policy_loss(new, None, new.detach(), torch.tensor([0.7071, -0.7071]), torch.ones(2, 3), beta=0.04)
    loss.backward()
    assert abs(loss.item()) < 1e-6
    assert new.grad.norm() > 0.1


def test_gradient_at_ratio_one_is_minus_the_advantage():
    new = torch.zeros(2, 1, requires_grad=True)
    policy_loss(new, None, None, torch.tensor([2.0, -2.0]), torch.ones(2, 1), beta=0.0)[0].backward()
    assert new.grad.tolist() == [[-1.0], [1.0]]


@pytest.mark.parametrize(
    ("lengths", "advantages", "expected"), [((1, 3), (1.0, -1.0), 0.0), ((3, 1), (2.0, -1.0), -0.5)], ids=["S02", "S14"]
)
def test_mean_is_per_completion_first(lengths, advantages, expected):
    mask = torch.tensor([[int(t < n) for t in range(3)] for n in lengths])
    loss, _ = policy_loss(torch.zeros(2, 3), None, None, torch.tensor(advantages), mask, beta=0.0)
    assert math.isclose(loss.item(), expected, abs_tol=1e-7)


def test_end_token_receives_its_share_of_the_gradient():
    new = torch.zeros(1, 3, requires_grad=True)
    policy_loss(new, None, None, torch.tensor([1.0]), torch.ones(1, 3), beta=0.0)[0].backward()
    torch.testing.assert_close(new.grad, torch.full((1, 3), -1 / 3))


def test_masked_rows_add_zero_and_leave_the_others_alone():
    new = torch.randn(2, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    advantages, mask = torch.tensor([1.0, -1.0]), torch.tensor([[0, 0, 0, 0], [1, 1, 0, 0]])
    loss, watch = policy_loss(new, None, new.detach() - 0.3, advantages, mask, beta=0.1)
    loss.backward()
    assert math.isfinite(loss.item())
    assert new.grad[0].tolist() == [0.0] * 4
    alone = new.detach()[1:].requires_grad_()
    policy_loss(alone, None, new.detach()[1:] - 0.3, advantages[1:], mask[1:], beta=0.1)[0].backward()
    torch.testing.assert_close(new.grad[1:], alone.grad / 2)
    none, _ = policy_loss(new, None, None, advantages, torch.zeros(2, 4), beta=0.0)
    assert none.item() == 0.0


def test_nan_under_the_mask_reaches_neither_value_nor_gradient():
    nan = float("nan")
    new = torch.tensor([[-1.0, -1.0, nan]], requires_grad=True)
    ref, mask = torch.tensor([[-1.5, -1.0, nan]]), torch.tensor([[1, 1, 0]])
    loss, watch = policy_loss(new, None, ref, torch.tensor([1.0]), mask, beta=0.1)
    loss.backward()
    assert math.isfinite(loss.item())
    assert torch.isfinite(new.grad).all()
    assert abs(masked_mean(watch["kl"], mask).item() - 0.0532653) < 1e-6


def test_kl_is_averaged_over_the_tokens_that_count():
    assert abs(masked_mean(torch.tensor([[0.2, 0.4, 0.0]]), torch.tensor([[1, 1, 0]])).item() - 0.3) < 1e-7


def test_kl_pulls_also_where_all_rewards_are_equal():
    new = torch.tensor([[-1.0]], requires_grad=True)
    policy_loss(new, None, torch.tensor([[-1.5]]), torch.zeros(1), torch.ones(1, 1), beta=0.1)[0].backward()
    assert math.isclose(new.grad.item(), 0.1 * (1 - math.exp(-0.5)), rel_tol=1e-6)


def test_old_and_reference_log_probs_are_constants_even_with_a_graph():
    new = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    policy_loss(new, new, new, torch.tensor([1.0]), torch.ones(1, 2), beta=0.1)[0].backward()
    torch.testing.assert_close(new.grad, torch.full((1, 2), -0.5))


def test_loss_gradient_against_finite_differences():
    g = torch.Generator().manual_seed(5)
    new, old, ref = (torch.randn(3, 4, dtype=torch.float64, generator=g) for _ in range(3))
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    advantages = torch.tensor([1.0, -0.5, 0.3], dtype=torch.float64)
    loss = lambda x: policy_loss(x, old, ref, advantages, mask, beta=0.3, epsilon=0.2, epsilon_high=0.28)[0]  # noqa: E731
    assert torch.autograd.gradcheck(loss, (new.requires_grad_(),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": -0.1}, "beta must be a finite number >= 0, got -0.1"),
        ({"beta": float("nan")}, "got nan"),
        ({"ref_log_probs": None, "beta": 0.1}, "needs ref_log_probs"),
        ({"advantages": torch.zeros(3)}, r"\(B,\) or \(B, T\) .* got \(3,\)"),
        ({"advantages": torch.zeros(1, 3)}, r"got \(1, 3\)"),
        ({"advantages": torch.zeros(2, 1)}, r"got \(2, 1\)"),
        ({"mask": torch.ones(2)}, "one shape"),
        ({"old_log_probs": torch.zeros(2, 1)}, "one shape: .* old_log_probs"),
        ({"epsilon": 1.5}, "0 <= epsilon < 1"),
    ],
)
def test_bad_input_is_refused(change, message):
    zeros = torch.zeros(2, 3)
    arguments = {"log_probs": zeros, "old_log_probs": None, "ref_log_probs": zeros, "advantages": torch.zeros(2)}
    with pytest.raises(ValueError, match=message):
        policy_loss(**{**arguments, "mask": torch.ones(2, 3), **change})
