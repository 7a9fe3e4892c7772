"""The pure maths of the GRPO loss: tensors in, tensors out.

Three policies appear. π is being trained (`log_probs`, with gradient), π_old sampled the completions
(`old_log_probs`), π_ref is the frozen start that the KL term pulls back to (`ref_log_probs`).
This is GRPO as first published: ratio and clip per token, k3 added to the loss, the mean over a completion's tokens
and then over completions.
"""

import torch

from grpo_lib._arguments import check_number
from grpo_lib.clipping import surrogate_value
from grpo_lib.kl_estimators import KL_ESTIMATORS, kl_from_log_ratio

__all__ = ["KL_ESTIMATORS", "clipped_surrogate", "kl_estimate", "masked_mean", "policy_loss"]


def kl_estimate(log_probs, ref_log_probs, kind="k3"):
    """Estimate KL(π‖π_ref) from tokens sampled from π, one value a token.

        d = log π_ref - log π;      k1 = -d,      k2 = d² / 2,      k3 = exp(d) - d - 1

    k1 and k3 have the right mean, k3 is never negative. As a *loss*, plain k3 has the gradient of KL(π_ref‖π).

    Source: J. Schulman 2020, "Approximating KL divergence" (joschu.net/blog/kl-approx.html).

    Args:
        log_probs, ref_log_probs: one shape, nats.
        kind: "k1", "k2" or "k3".
    Returns:
        the same shape, nats.
    Raises:
        ValueError: if the shapes differ or the kind is unknown.

    >>> kl_estimate(torch.tensor([-1.0]), torch.tensor([-1.5]))
    tensor([0.1065])
    """
    _check_shapes(log_probs=log_probs, ref_log_probs=ref_log_probs)
    return kl_from_log_ratio(ref_log_probs - log_probs, kind)


def clipped_surrogate(log_probs, old_log_probs, advantages, epsilon=0.2, epsilon_high=None):
    """Reward a token for moving with its advantage, up to the clip range: PPO's pessimistic minimum.

        ratio = π / π_old;      min(ratio · A, clip(ratio, 1 - ε, 1 + ε_high) · A)

    With A > 0 the gain stops at 1 + ε_high. With A < 0 it stops at 1 - ε, while a ratio that *rose* is still
    pushed back: it is a minimum for both signs.

    Source: Schulman et al. 2017, PPO, equation 7 (arXiv:1707.06347); Yu et al. 2025, DAPO, for ε_high
    (arXiv:2503.14476).

    Args:
        log_probs, old_log_probs: (B, T). advantages: (B,), or (B, T) for one a token.
        epsilon: clip range below, 0 <= ε < 1; also above unless `epsilon_high` is given.
    Returns:
        (surrogate, clipped): (B, T) to be maximised, and (B, T) bool, True where the clip cuts the gradient off.
    Raises:
        ValueError: on shapes that do not fit or a clip range that makes no sense.

    >>> new, old = torch.tensor([[0.55, 0.36, 0.30]]).log(), torch.tensor([[0.5, 0.4, 0.2]]).log()
    >>> clipped_surrogate(new, old, torch.tensor([1.0]))[0]  # ratios 1.1, 0.9, 1.5
    tensor([[1.1000, 0.9000, 1.2000]])
    >>> clipped_surrogate(new, old, torch.tensor([-1.0]))[0]
    tensor([[-1.1000, -0.9000, -1.5000]])
    """
    epsilon_high = epsilon if epsilon_high is None else epsilon_high
    if not (0 <= epsilon < 1 and epsilon_high >= 0):
        raise ValueError(f"the clip needs 0 <= epsilon < 1 and epsilon_high >= 0, got {epsilon!r} and {epsilon_high!r}")
    _check_shapes(log_probs=log_probs, old_log_probs=old_log_probs)
    advantages = _per_token(advantages, log_probs)
    ratio = (log_probs - old_log_probs).exp()
    return surrogate_value(ratio, advantages, 1 - epsilon, 1 + epsilon_high)


def masked_mean(values, mask, dim=None):
    """Average over the tokens that count; where none counts the result is 0.

        sum(values · mask) / max(sum(mask), 1)

    What stands at a masked position does not matter, not even a NaN, neither here nor in the gradient.

    >>> masked_mean(torch.tensor([[0.2, 0.4, float("nan")]]), torch.tensor([[1, 1, 0]]))
    tensor(0.3000)
    """
    _check_shapes(values=values, mask=mask)
    keep = mask.bool()
    values = torch.where(keep, values, torch.zeros_like(values))
    if dim is None:
        return values.sum() / keep.sum().clamp(min=1)
    return values.sum(dim=dim) / keep.sum(dim=dim).clamp(min=1)


def policy_loss(log_probs, old_log_probs, ref_log_probs, advantages, mask, *, beta=0.1, epsilon=0.2, epsilon_high=None):
    """The GRPO loss of a batch of completions, and what to watch beside it.

        loss = mean_b mean_t -( min(ratio · A, clip(ratio, 1 - ε, 1 + ε) · A) - beta · k3 )

    The inner mean runs over the unmasked tokens of completion b, the outer one over all B completions; a completion
    whose mask is all 0 adds 0. On-policy (π = π_old) with A of mean 0 the *value* is 0 and the gradient is not.

    Source: Shao et al. 2024, DeepSeekMath, equations 3 and 4 (arXiv:2402.03300).

    Args:
        log_probs: (B, T) under π, with gradient.
        old_log_probs: (B, T) under π_old, or None for `log_probs` (the first update of a rollout).
        ref_log_probs: (B, T) under π_ref, or None, which needs beta = 0. Both count as constants: no gradient.
        advantages: (B,). mask: (B, T), 1 for the tokens that count.
        beta: weight of the KL term, >= 0. epsilon, epsilon_high: clip range, see `clipped_surrogate`.
    Returns:
        (loss, watch): a scalar, and a dict of (B, T) tensors without gradient: "ratio", "clipped", "kl" (or None).
    Raises:
        ValueError: if shapes differ, beta is negative or not finite, or beta > 0 without `ref_log_probs`.

    >>> new = torch.tensor([[-1.0, -2.0], [-1.5, -0.5]], requires_grad=True)
    >>> loss, watch = policy_loss(new, None, None, torch.tensor([1.0, -1.0]), torch.ones(2, 2), beta=0.0)
    >>> loss.backward()
    >>> bool(loss == 0), new.grad  # a loss of 0, a gradient that is not
    (True, tensor([[-0.2500, -0.2500],
            [ 0.2500,  0.2500]]))
    """
    check_number("beta", beta, 0)
    if beta > 0 and ref_log_probs is None:
        raise ValueError(f"beta = {beta} needs ref_log_probs, the log-probs under the reference; got None")
    given = {"old_log_probs": old_log_probs, "ref_log_probs": ref_log_probs}
    _check_shapes(log_probs=log_probs, mask=mask, **{name: x for name, x in given.items() if x is not None})
    keep = mask.bool()

    def clean(values):  # a masked NaN would poison the gradient of everything
        return torch.where(keep, values, torch.zeros_like(values))

    log_probs = clean(log_probs)
    old_log_probs = log_probs.detach() if old_log_probs is None else clean(old_log_probs).detach()
    surrogate, clipped = clipped_surrogate(log_probs, old_log_probs, advantages, epsilon, epsilon_high)
    kl = None if ref_log_probs is None else kl_estimate(log_probs, clean(ref_log_probs).detach())
    objective = surrogate if beta == 0 else surrogate - beta * kl
    loss = -masked_mean(objective, mask, dim=1).mean()
    watch = {
        "ratio": (log_probs - old_log_probs).exp().detach(),
        "clipped": clipped & keep,
        "kl": None if kl is None else kl.detach(),
    }
    return loss, watch


def _per_token(advantages, log_probs):
    """(B,) → (B, 1). Anything but (B,) or (B, T) is refused: (1, T) or (T,) would be broadcast without a word."""
    if advantages.shape == log_probs.shape:
        return advantages
    if log_probs.ndim == 2 and advantages.shape == log_probs.shape[:1]:
        return advantages[:, None]
    raise ValueError(
        f"advantages must have shape (B,) or (B, T) for log_probs of shape {tuple(log_probs.shape)}, got "
        f"{tuple(advantages.shape)}"
    )


def _check_shapes(**tensors):
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"these must have one shape: {', '.join(f'{n} {s}' for n, s in shapes.items())}")
