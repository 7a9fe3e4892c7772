"""The GRPO loss and its family: tensors in, tensors out.

Three policies appear. π is being trained (`log_probs`, with gradient), π_old sampled the completions
(`old_log_probs`), π_ref is the frozen start that the KL term pulls back to (`ref_log_probs`).
"""

import torch

from grpo_lib._arguments import check_choice, check_number, check_shapes
from grpo_lib.kl_estimators import KL_ESTIMATORS, kl_from_log_ratio
from grpo_lib.loss_weights import masked_mean, token_weights
from grpo_lib.surrogates import (
    LEVELS,
    cispo_surrogate,
    clipped_surrogate,
    importance_ratio,
    per_token,
    sapo_surrogate,
    vespo_surrogate,
)

__all__ = [
    "KL_ESTIMATORS",
    "LEVELS",
    "LOSS_TYPES",
    "clipped_surrogate",
    "kl_estimate",
    "masked_mean",
    "policy_loss",
]

# loss type -> (surrogate, weighting of the tokens)
LOSS_TYPES = {
    "grpo": ("clip", "completion mean"),
    "bnpo": ("clip", "local mean"),
    "dr_grpo": ("clip", "constant length"),
    "dapo": ("clip", "global mean"),
    "cispo": ("cispo", "global mean"),
    "sapo": ("sapo", "completion mean"),
    "luspo": ("clip", "completion sum"),
    "vespo": ("vespo", "global mean"),
}


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
    check_shapes(log_probs=log_probs, ref_log_probs=ref_log_probs)
    return kl_from_log_ratio(ref_log_probs - log_probs, kind)


def policy_loss(
    log_probs,
    old_log_probs,
    ref_log_probs,
    advantages,
    mask,
    *,
    beta=0.1,
    epsilon=0.2,
    epsilon_high=None,
    loss_type="grpo",
    importance_sampling_level="token",
    delta=None,
    bias_correction_kl=False,
    max_completion_length=None,
    num_items_in_batch=None,
    sapo_temperatures=(1.0, 1.05),
    vespo_gammas=((2.0, 3.0), (3.0, 2.0)),
):
    """Take the loss of a batch of completions, of GRPO or a relative of it, and what to watch beside it.

        loss = -sum_{b,t} weight · (surrogate - beta · KL),      KL = k3, or ratio · k3 with `bias_correction_kl`

        loss_type   surrogate                            weight            source
        grpo        min(ratio·A, clip(ratio)·A)          1 / (B |o_b|)     DeepSeekMath, arXiv:2402.03300
        bnpo        the same                             1 / sum |o|       TRL's name for the mean over a batch's tokens
        dapo        the same                             1 / N             DAPO, arXiv:2503.14476
        dr_grpo     the same                             1 / (B L_max)     Dr. GRPO, arXiv:2503.20783
        luspo       the same                             1 / B             LUSPO, arXiv:2602.05261
        cispo       sg(min(ratio, 1 + ε_high))·A·log π   1 / N             MiniMax-M1, arXiv:2506.13585
        sapo        4/τ · sigmoid(τ(ratio - 1)) · A      1 / (B |o_b|)     SAPO, arXiv:2511.20347
        vespo       sg(φ(Π ratio)) · A · log π           1 / N             VESPO, arXiv:2602.10693

    |o_b|: tokens that count in completion b. N: those of the whole batch, `num_items_in_batch` where this is one part
    of it; bnpo takes the part's own. clip(ratio) is to [1 - ε, 1 + ε_high]. sg: stop-gradient. (TRL's epsilon_high for
    cispo is the cap itself; here the cap is 1 + ε_high.)
    With level "sequence" the ratio is the completion's (GSPO, arXiv:2507.18071; LUSPO is meant so); VESPO's always is.
    Dr. GRPO and DAPO are more than their weights: `group_advantages(scale="none")`, `epsilon_high=0.28`.
    ratio·k3 is from DeepSeek-V3.2 (arXiv:2512.02556): its gradient is that of KL(π‖π_ref), plain k3's of KL(π_ref‖π).
    Left out: GSPO-token, entropy bonus and entropy masks, weights for a second sampling engine.

    On-policy (π = π_old) with A of mean 0 GRPO's *value* is 0 and its gradient is not. A completion whose mask is all
    0 adds 0 and stays one of the B. Masked positions may hold anything.

    Args:
        log_probs: (B, T) under π, with gradient.
        old_log_probs: (B, T) under π_old, or None for `log_probs` (the first update of a rollout).
        ref_log_probs: (B, T) under π_ref, or None, which needs beta = 0. Both count as constants: no gradient.
        advantages: (B,), or (B, T) for one a token. mask: (B, T), 1 for the tokens that count.
        beta: weight of the KL term, >= 0. epsilon, epsilon_high, delta: see `clipped_surrogate`.
        loss_type: a key of `LOSS_TYPES`. importance_sampling_level: "token" or "sequence", see `importance_ratio`.
        max_completion_length, num_items_in_batch: see `token_weights`.
        sapo_temperatures, vespo_gammas: see `sapo_surrogate`, `vespo_surrogate`.
    Returns:
        (loss, watch): a scalar, and a dict of (B, T) tensors without gradient: "ratio", "clipped", "kl" (or None),
        "surrogate" and "weight". "kl" is k3 also with `bias_correction_kl`; "clipped" is True where the clip cuts the
        gradient off, or for cispo caps the weight.
    Raises:
        ValueError: if shapes differ, a setting makes no sense, beta > 0 without `ref_log_probs`, dr_grpo without
        `max_completion_length`, or `delta` with a loss type that does not clip.

    >>> new = torch.tensor([[-1.0, -2.0], [-1.5, -0.5]], requires_grad=True)
    >>> loss, watch = policy_loss(new, None, None, torch.tensor([1.0, -1.0]), torch.ones(2, 2), beta=0.0)
    >>> loss.backward()
    >>> bool(loss == 0), new.grad  # a loss of 0, a gradient that is not
    (True, tensor([[-0.2500, -0.2500],
            [ 0.2500,  0.2500]]))
    """
    check_choice("loss_type", loss_type, LOSS_TYPES)
    surrogate_name, weighting = LOSS_TYPES[loss_type]
    if delta is not None and surrogate_name != "clip":
        raise ValueError(f"delta bounds the ratio of a clipped surrogate; {loss_type} has none: leave delta at None")
    check_number("beta", beta, 0)
    if beta > 0 and ref_log_probs is None:
        raise ValueError(f"beta = {beta} needs ref_log_probs, the log-probs under the reference; got None")
    given = {"old_log_probs": old_log_probs, "ref_log_probs": ref_log_probs}
    check_shapes(log_probs=log_probs, mask=mask, **{name: x for name, x in given.items() if x is not None})
    keep = mask.bool()

    def clean(values):  # a masked NaN would poison the gradient of everything
        return torch.where(keep, values, torch.zeros_like(values))

    log_probs, advantages = clean(log_probs), clean(per_token(advantages, log_probs))
    old_log_probs = log_probs.detach() if old_log_probs is None else clean(old_log_probs).detach()
    ratio = importance_ratio(log_probs, old_log_probs, mask, importance_sampling_level)
    clipped = torch.zeros_like(keep)
    if surrogate_name == "vespo":
        surrogate = vespo_surrogate(log_probs, old_log_probs, advantages, mask, vespo_gammas)
    elif surrogate_name == "sapo":
        surrogate = sapo_surrogate(ratio, advantages, sapo_temperatures)
    elif surrogate_name == "cispo":
        cap = epsilon if epsilon_high is None else epsilon_high
        surrogate, clipped = cispo_surrogate(ratio, log_probs, advantages, cap)
    else:
        surrogate, clipped = clipped_surrogate(ratio, advantages, epsilon, epsilon_high, delta)
    kl = None if ref_log_probs is None else kl_estimate(log_probs, clean(ref_log_probs).detach())
    objective = surrogate if beta == 0 else surrogate - beta * (kl * ratio if bias_correction_kl else kl)
    weight = token_weights(
        mask,
        weighting,
        dtype=log_probs.dtype,
        max_completion_length=max_completion_length,
        num_items_in_batch=num_items_in_batch,
    )
    loss = -(weight * clean(objective)).sum()
    watch = {"ratio": ratio, "clipped": clipped & keep, "kl": kl, "surrogate": clean(surrogate), "weight": weight}
    return loss, {name: None if value is None else value.detach() for name, value in watch.items()}
