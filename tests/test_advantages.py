import math

import pytest
import torch

from grpo_lib.advantages import group_advantages, zero_variance_groups


def test_golden_trl_advantages(golden):
    data = golden("trl_advantages")
    assert len(data["cases"]) == 6
    for case in data["cases"]:
        rewards = torch.tensor(case["rewards"])
        got = group_advantages(rewards, data["num_generations"], scale=case["scale"], eps=data["eps"])
        torch.testing.assert_close(got, torch.tensor(case["advantages"]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rewards", "num_generations", "expected"),
    [
        ([1, 1, 1, 1, 0, 0, 0, 1], 4, [0, 0, 0, 0, -0.5, -0.5, -0.5, 1.5]),
        ([1, 0], 2, [math.sqrt(0.5), -math.sqrt(0.5)]),
        ([1, -1], 2, [math.sqrt(0.5), -math.sqrt(0.5)]),
        ([1, 1, 2], 3, [-0.57735, -0.57735, 1.154701]),
    ],
    ids=["S16", "S18-01", "S18-pm1", "S18-three"],
)
def test_sample_standard_deviation_within_the_group(rewards, num_generations, expected):
    got = group_advantages(torch.tensor(rewards), num_generations, eps=0.0)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float32), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("baseline", ["mean", "loo"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, -2.7])
def test_equal_rewards_give_exact_zeros_even_without_eps(scale, baseline, value):
    got = group_advantages(torch.full((6,), value), 3, scale=scale, baseline=baseline, eps=0.0)
    assert got.tolist() == [0.0] * 6


def test_mean_of_each_group_is_zero_and_signal_remains():
    rewards = torch.rand(40, generator=torch.Generator().manual_seed(3))
    got = group_advantages(rewards, 8).view(5, 8)
    assert got.mean(dim=1).abs().max() < 1e-6
    assert (got.abs().mean(dim=1) > 0.1).all()


def test_leave_one_out_subtracts_the_mean_of_the_others():
    rewards = torch.tensor([1.0, 0.0, 0.5, 0.25])
    expected = [r - (rewards.sum() - r) / 3 for r in rewards]
    got = group_advantages(rewards, 4, scale="none", baseline="loo")
    torch.testing.assert_close(got, torch.stack(expected))


def test_share_of_groups_without_signal_matches_the_binomial_formula():
    p, draws = 0.1819, torch.Generator().manual_seed(0)
    for size, expected in ((2, 0.702), (4, 0.449), (8, 0.201), (16, 0.040)):
        assert abs(p**size + (1 - p) ** size - expected) < 1e-3
        rewards = (torch.rand(40_000 * size, generator=draws) < p).float()
        share = zero_variance_groups(rewards, size).float().mean().item()
        assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / 40_000) + 1e-3


@pytest.mark.parametrize(
    ("rewards", "num_generations", "options", "message"),
    [
        ([1.0], 1, {}, ">= 2, got 1"),
        ([1.0, 0.0, 1.0], 2, {}, r"num_generations = 2, got shape \(3,\)"),
        ([], 2, {}, r"got shape \(0,\)"),
        ([[1.0, 0.0]], 2, {}, r"got shape \(1, 2\)"),
        ([1.0, float("nan")], 2, {}, "finite, got nan in row 1"),
        ([float("inf"), 0.0], 2, {}, "finite, got inf in row 0"),
        ([1.0, 0.0], 2, {"scale": True}, "scale must be one of"),
        ([1.0, 0.0], 2, {"baseline": "median"}, "baseline must be one of"),
        ([1.0, 0.0], 2, {"eps": float("nan")}, "eps must be"),
    ],
)
def test_bad_input_is_refused(rewards, num_generations, options, message):
    with pytest.raises(ValueError, match=message):
        group_advantages(torch.tensor(rewards), num_generations, **options)


def test_input_is_not_changed():
    rewards = torch.tensor([1.0, 0.0])
    group_advantages(rewards, 2)
    assert rewards.tolist() == [1.0, 0.0]


def test_rewards_too_large_for_their_dtype_are_refused():
    with pytest.raises(ValueError, match="rewards up to 3e.38 are too large for torch.float32"):
        group_advantages(torch.tensor([3e38, 3e38, 0.0, 0.0]), 4)
