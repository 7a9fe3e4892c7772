"""The clip: one formula for arrays and tensors, its figure, and updates on one rollout."""

import numpy as np
import pytest
import torch

from grpo_lib import plots
from grpo_lib.bandit import BanditGRPO, surrogate_gradient
from grpo_lib.clipping import clip_bounds, surrogate_value
from grpo_lib.losses import clipped_surrogate

RATIO = np.array([0.3, 0.79, 0.81, 1.0, 1.27, 1.29, 4.0])


@pytest.mark.parametrize("advantage", [2.0, -0.5, 0.0])
def test_value_case_by_case(advantage):
    value, clipped = surrogate_value(RATIO, advantage, 0.8, 1.28)
    kept = np.minimum(RATIO, 1.28) if advantage > 0 else np.maximum(RATIO, 0.8)  # no product, no minimum of products
    np.testing.assert_allclose(value, kept * advantage, rtol=1e-15)
    assert clipped.tolist() == ((kept != RATIO) & (advantage != 0)).tolist()


def test_arrays_tensors_and_the_language_model_loss_agree():
    advantages = np.linspace(-1, 1, 7)
    value, clipped = surrogate_value(RATIO, advantages, 0.8, 1.28)
    tensor, flags = surrogate_value(torch.tensor(RATIO), torch.tensor(advantages), 0.8, 1.28)
    loss_value, loss_flags = clipped_surrogate(torch.tensor(RATIO)[None], torch.tensor(advantages)[None], 0.2, 0.28)
    np.testing.assert_array_equal(value, tensor)
    np.testing.assert_allclose(value, loss_value[0], rtol=1e-14)
    assert clipped.tolist() == flags.tolist() == loss_flags[0].tolist()


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_the_bandit_s_gradient_is_that_of_the_tensor_formula(advantage):
    old, samples = np.log([0.2, 0.3, 0.5]), np.array([0, 1, 2, 2])
    theta = torch.tensor([0.4, -1.2, -0.1], dtype=torch.float64, requires_grad=True)
    log_probs = theta.log_softmax(0)
    ratio = (log_probs - torch.tensor(old)).exp()[samples]
    value, clipped = surrogate_value(ratio, advantage * torch.ones(4), 0.8, 1.2)
    value.sum().backward()
    gradient, share = surrogate_gradient(log_probs.detach().numpy(), old, samples, advantage * np.ones(4), 0.2)
    np.testing.assert_allclose(gradient, theta.grad, rtol=0, atol=1e-14)
    assert share == clipped.double().mean() > 0


@pytest.mark.parametrize(
    "clip, bounds", [(None, (0, np.inf)), (0.2, (0.8, 1.2)), ((0.1, 3.0), (0.9, 4.0)), ([0.5, 0.5], (0.5, 1.5))]
)
def test_bounds(clip, bounds):
    assert clip_bounds(clip) == pytest.approx(bounds)


@pytest.mark.parametrize("clip", [0, -0.2, "0.2", (0.2,), 1.0, (1.5, 0.2), float("nan")])
def test_a_bad_clip_is_refused(clip):
    with pytest.raises(ValueError, match="clip"):
        clip_bounds(clip)


def test_clip_figure_is_flat_where_it_is_shaded_and_has_slope_a_elsewhere():
    fig = plots.clip_figure((0.2, 0.28), maximum=True)
    shapes = [(s.x0, s.x1, s.xref) for s in fig.layout.shapes if s.type == "rect"]
    assert shapes == [(1.28, 2.0, "x"), (0, 0.8, "x2")]
    for trace, sign, (left, right, _) in zip((fig.data[1], fig.data[4]), (1, -1), shapes, strict=True):
        x, y = np.array(trace.x), np.array(trace.y)
        middle, slope = (x[1:] + x[:-1]) / 2, np.diff(y) / np.diff(x)
        np.testing.assert_allclose(slope, np.where((middle > left) & (middle < right), 0, sign), atol=1e-9)
    assert fig.data[6].name == "a maximum: wrong" and min(fig.data[6].y) == -1.28 and max(fig.data[6].y) == 0
    for ending in (1.2, 0.5, np.inf):
        with pytest.raises(ValueError, match="largest must lie above the clip range"):
            plots.clip_figure(0.2, largest=ending)


def test_updates_figure_draws_range_and_share():
    fig = plots.updates_figure([1, 2], {"a": [[1.0], [0.5, 3.0]], "b": [[1.0], [0.9]]}, {"a": [0.0, 0.25], "b": [0, 0]})
    smallest, largest, share = fig.data[:3]
    assert (smallest.y, largest.y, share.y) == ((1.0, 0.5), (1.0, 3.0), (0.0, 0.25))
    assert [trace.name for trace in fig.data if trace.showlegend] == ["a", "b"]
    for ratios, shares, message in (
        ([[1.0]], [0.0, 0.0], "one row for each of the 2 settings"),
        ([[1.0], []], [0.0, 0.0], "ratios must have shape"),
        ([[1.0], [1.0]], [0.0], r"clip_fractions must have shape \(2,\)"),
        ({"a": [[1.0], [1.0]]}, {"b": [0.0, 0.0]}, "must have the same names"),
    ):
        with pytest.raises(ValueError, match=message):
            plots.updates_figure([1, 2], ratios, shares)


def test_the_clip_holds_the_ratio_and_without_it_more_updates_go_further():
    def largest(updates, clip):
        step = BanditGRPO(beta=0.0, learning_rate=0.02, updates_per_rollout=updates, clip=clip).step(20)
        return (step.probs_after / step.probs_before)[step.samples].max(), step.clip_fraction

    assert largest(1, 0.2) == largest(1, None)
    assert largest(8, 0.2)[0] < largest(8, None)[0] and largest(8, 0.2)[1] > 0 == largest(8, None)[1]
