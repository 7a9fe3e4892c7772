"""What a token's update is worth, by variant: the ratio, and the surrogates that are built on it."""

import math

import torch

from grpo_lib._arguments import check_choice, check_number, check_pair, check_shapes
from grpo_lib.clipping import surrogate_value
from grpo_lib.loss_weights import masked_mean

__all__ = [
    "LEVELS",
    "check_gammas",
    "cispo_surrogate",
    "clipped_surrogate",
    "importance_ratio",
    "sapo_surrogate",
    "sequence_log_ratio",
    "vespo_surrogate",
]

LEVELS = ("token", "sequence")


def importance_ratio(log_probs, old_log_probs, mask, level="token"):
    """Compare the policy with the one that sampled: token by token, or once for a whole completion.

        token:     ratio_t = π(y_t) / π_old(y_t)
        sequence:  ratio   = (π(y) / π_old(y))^(1/|y|) = exp(mean_t log ratio_t), the same for each token

    Source: Schulman et al. 2017, PPO (arXiv:1707.06347); Zheng et al. 2025, GSPO, equation 7 (arXiv:2507.18071).

    Args:
        log_probs, old_log_probs: (B, T), nats. mask: (B, T), 1 for the tokens that count.
        level: "token" or "sequence".
    Returns:
        (B, T).
    Raises:
        ValueError: if shapes differ or the level is unknown.

    >>> new, old = torch.tensor([[0.5, 0.4]]).log(), torch.tensor([[0.4, 0.4]]).log()
    >>> importance_ratio(new, old, torch.ones(1, 2))
    tensor([[1.2500, 1.0000]])
    >>> importance_ratio(new, old, torch.ones(1, 2), "sequence")  # sqrt(1.25)
    tensor([[1.1180, 1.1180]])
    """
    check_choice("importance_sampling_level", level, LEVELS)
    check_shapes(log_probs=log_probs, old_log_probs=old_log_probs, mask=mask)
    log_ratio = log_probs - old_log_probs
    if level == "sequence":
        log_ratio = masked_mean(log_ratio, mask, dim=1)[:, None].expand_as(log_ratio)
    return log_ratio.exp()


def clipped_surrogate(ratio, advantages, epsilon=0.2, epsilon_high=None, delta=None):
    """Reward a token for moving with its advantage, up to the clip range: PPO's pessimistic minimum.

        min(min(ratio, delta) · A, clip(ratio, 1 - ε, 1 + ε_high) · A)

    With A > 0 the gain stops at 1 + ε_high. With A < 0 it stops at 1 - ε, while a ratio that *rose* is still
    pushed back, with a force that grows with the ratio: `delta` bounds that force's ratio ("two-sided clip"), and
    beyond max(delta, 1 + ε_high) nothing pushes any more.

    Source: Schulman et al. 2017, PPO, equation 7 (arXiv:1707.06347); Yu et al. 2025, DAPO, for ε_high
    (arXiv:2503.14476); Prime Intellect 2025, INTELLECT-2, for delta (arXiv:2505.07291).

    Args:
        ratio: (B, T), π / π_old. advantages: (B,), or (B, T) for one a token.
        epsilon: clip range below, 0 <= ε < 1; also above unless `epsilon_high` is given.
        delta: a number > 1, or None for no such bound.
    Returns:
        (surrogate, clipped): (B, T) to be maximised, and (B, T) bool, True where the gradient is cut off.
    Raises:
        ValueError: on shapes that do not fit, or a clip range or delta that makes no sense.

    >>> ratio = torch.tensor([[1.1, 0.9, 1.5]])
    >>> clipped_surrogate(ratio, torch.tensor([1.0]))[0]
    tensor([[1.1000, 0.9000, 1.2000]])
    >>> clipped_surrogate(ratio, torch.tensor([-1.0]))[0]
    tensor([[-1.1000, -0.9000, -1.5000]])
    >>> clipped_surrogate(ratio, torch.tensor([-1.0]), delta=1.3)[0]
    tensor([[-1.1000, -0.9000, -1.3000]])
    """
    epsilon_high = epsilon if epsilon_high is None else epsilon_high
    if not (0 <= epsilon < 1 and epsilon_high >= 0):
        raise ValueError(f"the clip needs 0 <= epsilon < 1 and epsilon_high >= 0, got {epsilon!r} and {epsilon_high!r}")
    advantages = per_token(advantages, ratio)
    low, high = 1 - epsilon, 1 + epsilon_high
    value, clipped = surrogate_value(ratio, advantages, low, high)
    if delta is None:
        return value, clipped
    check_number("delta", delta, 1, inclusive=False, why=": a bound on ratios that rose, or None")
    bound = ratio.clip(low, high) * advantages
    value = bound.minimum(ratio.clip(max=delta) * advantages)
    rose = torch.where(advantages > 0, ratio > min(delta, high), (advantages < 0) & (ratio > max(delta, high)))
    return value, clipped | rose


def cispo_surrogate(ratio, log_probs, advantages, epsilon_high=0.2):
    """Cap the weight, never the gradient: every token keeps pushing its own log-prob.

        stop_gradient(min(ratio, 1 + ε_high)) · A · log π

    Source: MiniMax 2025, MiniMax-M1, section 3.1 (arXiv:2506.13585). Its gradient at ratio <= 1 + ε_high is that of
    ratio · A.

    Args:
        ratio, log_probs: (B, T). advantages: (B,) or (B, T). epsilon_high: >= 0; the cap is 1 + ε_high.
    Returns:
        (surrogate, clipped): (B, T); and (B, T) bool, True where the weight is capped (it still pushes).
    Raises:
        ValueError: on shapes that do not fit or a negative ε_high.

    >>> ratio = torch.tensor([[0.5, 1.5]])
    >>> cispo_surrogate(ratio, torch.tensor([[-1.0, -2.0]]), torch.tensor([1.0]))  # -0.5, 1.2 * -2
    (tensor([[-0.5000, -2.4000]]), tensor([[False,  True]]))
    """
    check_number("epsilon_high", epsilon_high, 0)
    check_shapes(ratio=ratio, log_probs=log_probs)
    weight = ratio.detach().clip(max=1 + epsilon_high)
    return weight * per_token(advantages, ratio) * log_probs, ratio.detach() > 1 + epsilon_high


def sapo_surrogate(ratio, advantages, temperatures=(1.0, 1.05)):
    """Fade the push out softly with the distance from ratio 1, in place of a clip.

        4 / τ · sigmoid(τ (ratio - 1)) · A,      τ = τ_pos where A > 0, else τ_neg

    Its slope in the ratio is A at ratio 1 and falls off on both sides, faster for a larger τ; nothing is ever cut.

    Source: Gao et al. 2025, SAPO (arXiv:2511.20347).

    Args:
        ratio: (B, T). advantages: (B,) or (B, T). temperatures: (τ_pos, τ_neg), each > 0.
    Returns:
        (B, T).
    Raises:
        ValueError: on shapes that do not fit or a τ that is not > 0.

    >>> sapo_surrogate(torch.tensor([[1.0, 2.0]]), torch.tensor([1.0]))  # 2, 4 sigmoid(1)
    tensor([[2.0000, 2.9242]])
    """
    positive, negative = check_pair("sapo_temperatures", temperatures)
    advantages = per_token(advantages, ratio)
    tau = torch.where(advantages > 0, positive, negative).to(ratio)
    return 4 / tau * torch.sigmoid(tau * (ratio - 1)) * advantages


def vespo_surrogate(log_probs, old_log_probs, advantages, mask, gammas=((2.0, 3.0), (3.0, 2.0))):
    """Weigh a whole completion by a smooth function of how much likelier or rarer it became.

        stop_gradient(φ(W)) · A · log π,      φ(W) = W^k exp(λ (1 - W)),      W = Π_t π(y_t) / π_old(y_t)

    φ(1) = 1; completions that moved far in either direction weigh less. (k, λ) depend on the sign of A. W is the
    product over all tokens, without GSPO's root, so a long completion moves away fast.

    Source: Shen et al. 2026, VESPO (arXiv:2602.10693). log W is kept within [log 1e-8, 20], as in TRL.

    Args:
        log_probs, old_log_probs, mask: (B, T). advantages: (B,) or (B, T).
        gammas: (k, λ) for A >= 0, and for A < 0; each number > 0.
    Returns:
        (B, T).
    Raises:
        ValueError: on shapes that do not fit or a number that is not > 0.

    >>> new, old = torch.tensor([[-1.0, -1.0]]), torch.tensor([[-1.0, -1.5]])
    >>> vespo_surrogate(new, old, torch.tensor([1.0]), torch.ones(1, 2))  # W = e^.5, φ = e^(1 + 3 - 3 W)
    tensor([[-0.3882, -0.3882]])
    """
    check_shapes(log_probs=log_probs, old_log_probs=old_log_probs, mask=mask)
    (k_pos, rate_pos), (k_neg, rate_neg) = check_gammas(gammas)
    advantages = per_token(advantages, log_probs)
    log_w = sequence_log_ratio((log_probs - old_log_probs).detach(), mask)  # (B, 1)
    k = torch.where(advantages >= 0, k_pos, k_neg)
    rate = torch.where(advantages >= 0, rate_pos, rate_neg)
    return (k * log_w + rate * (1 - log_w.exp())).exp() * advantages * log_probs


def sequence_log_ratio(log_ratio, mask):
    """log W of a completion, kept within bounds as TRL keeps it: (B, T), (B, T) → (B, 1).

        log W = clip(sum_t clip(log ratio_t, -20, 20), log 1e-8, 20)

    >>> sequence_log_ratio(torch.tensor([[0.5, 0.25, 9.0]]), torch.tensor([[1, 1, 0]]))
    tensor([[0.7500]])
    """
    log_ratio = torch.where(mask.bool(), log_ratio, torch.zeros_like(log_ratio))
    return log_ratio.clip(-20, 20).sum(dim=1, keepdim=True).clip(math.log(1e-8), 20)


def check_gammas(gammas):
    """Return ((k, λ) for A >= 0, (k, λ) for A < 0) as floats, or raise ValueError."""
    if not isinstance(gammas, (list, tuple)) or len(gammas) != 2:
        raise ValueError(f"vespo_gammas must be two pairs (k, λ), for A >= 0 and for A < 0, got {gammas!r}")
    return tuple(
        check_pair("vespo_gammas", pair, why=": two pairs (k, λ), for A >= 0 and for A < 0") for pair in gammas
    )


def per_token(advantages, log_probs):
    """(B,) → (B, T). Anything but (B,) or (B, T) is refused: (1, T) or (T,) would be broadcast without a word."""
    if advantages.shape == log_probs.shape:
        return advantages
    if log_probs.ndim == 2 and advantages.shape == log_probs.shape[:1]:
        return advantages[:, None].expand_as(log_probs)
    raise ValueError(
        f"advantages must have shape (B,) or (B, T) for log_probs of shape {tuple(log_probs.shape)}, got "
        f"{tuple(advantages.shape)}"
    )
