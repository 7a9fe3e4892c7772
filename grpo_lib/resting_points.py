"""Where the bandit comes to rest: the exact zeros of the expected GRPO update.

In expectation one iteration with G samples moves theta along

    sum_i E[A_i grad log pi(w_i)] - G * beta * grad KL

so a policy rests where the advantages' push and the KL's pull cancel. `resting_point` finds every such policy;
`critical_beta` says below which beta the standardised push outweighs any pull. Both hold for small learning rates and
one update per rollout.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, gammaln, log_expit, logit, softmax

from grpo_lib._arguments import check_choice, check_count, check_number, check_probs, check_vector

# Reward mass closer than this to 0 or 1 counts as a corner: float64 training cannot tell the two apart.
CORNER = 1e-12
_GRID_POINTS = 2001  # on the log-odds axis; two points closer than one cell (about 0.015) are taken for none


@dataclass(frozen=True, eq=False)
class RestingPoint:
    """A policy at which the expected update vanishes.

    Attributes:
        probs: (K,) word probabilities.
        stable: True where small disturbances die out (training ends here), False where they grow (training leaves).
    """

    probs: np.ndarray
    stable: bool


def resting_point(
    ref_probs, rewards, beta, *, num_samples=None, normalise=True, baseline="mean", kl_direction="reverse", eps=1e-8
):
    """Find every policy at which the bandit's expected update is zero.

        plain, reverse KL      pi_k ∝ ref_k exp(s r_k / beta)
        plain, forward KL      pi_k = beta ref_k / (lam - s r_k), lam such that the sum is 1
        standardised           the same with s = g(p) / (r_high - r_low), solved for p = pi's mass on r_high
                               g(p) = E[n (1 - n/G) / (sqrt(n/G (1 - n/G)) + eps)] / (G p (1 - p)), n ~ Binomial(G, p)
                               g(p) = 1 / sqrt(p (1 - p)) for G -> inf, where no eps is needed

    s is 1 for the leave-one-out baseline and (G - 1) / G for the mean, whose own sample sits in the baseline;
    standardised, g is multiplied by G / (G - 1) and 1. eps stands here for eps / (r_high - r_low). Stability is that of
    the expected update.

    Source: the plain closed form is that of KL-regularised policy search, Peters et al. 2010 (REPS); the advantage,
    Shao et al. 2024, section 4.1 (arXiv:2402.03300); the standardised equation, own derivation from it.

    Args:
        ref_probs: (K,) reference policy, every entry above 0.
        rewards: (K,) reward of each word; two distinct values at most where `normalise` is True.
        beta: weight of the KL, >= 0, reward units per nat.
        num_samples: samples per iteration, G >= 2; None for the limit G -> inf.
        normalise: whether advantages are divided by the population standard deviation.
        baseline: "mean" or "loo" (leave-one-out).
        kl_direction: "reverse" for KL(pi || ref), "forward" for KL(ref || pi).
        eps: the guard in the advantages' division, as in `bandit_advantages`; unused for G -> inf.
    Returns:
        list of `RestingPoint`, by rising reward; empty where the policy runs into a corner (beta 0, or a push that no
        pull stops). Standardised points with a reward mass within 1e-12 of 1 count as corners.
    Raises:
        ValueError: on a bad argument, or more than two distinct rewards where `normalise` is True.

    >>> [point] = resting_point([0.5, 0.5], [1.0, 0.0], beta=1.0, normalise=False)
    >>> point.probs.round(4), point.stable            # e / (e + 1)
    (array([0.7311, 0.2689]), True)
    >>> resting_point([0.5, 0.5], [1.0, 0.0], beta=0.1)
    []
    """
    ref, rewards = _check_bandit(ref_probs, rewards)
    beta, eps = check_number("beta", beta, 0), check_number("eps", eps, 0)
    if num_samples is not None:
        check_count("num_samples", num_samples, 2, why=" (None is the limit of many samples)")
    check_choice("normalise", normalise, (True, False))
    check_choice("baseline", baseline, ("mean", "loo"))
    check_choice("kl_direction", kl_direction, ("reverse", "forward"))
    if beta == 0:
        return []  # nothing pulls back
    if np.ptp(rewards) == 0:
        return [RestingPoint(ref, True)]  # nothing pushes
    shrink = 1.0 if num_samples is None else (num_samples - 1) / num_samples
    if not normalise:
        scale = shrink if baseline == "mean" else 1.0
        solve = plain_reverse if kl_direction == "reverse" else _plain_forward
        return [RestingPoint(solve(ref, scale * rewards, beta), True)]
    scale = 1.0 if baseline == "mean" else 1 / shrink
    return _standardised(ref, rewards, beta / scale, num_samples, kl_direction, eps)


def critical_beta(ref_probs, rewards):
    """The beta below which standardised advantages leave no interior resting point (G -> inf, reverse KL).

        beta_c = min over u > u_ref of 2 cosh(u / 2) / (u - u_ref),   u = logit(p)

    Below it the policy runs into the corner whatever its start. For a finite G the push stays bounded, and the resting
    point moves towards the corner instead of vanishing.

    Source: own derivation from the advantage of Shao et al. 2024, section 4.1 (arXiv:2402.03300).

    Args:
        ref_probs: (K,) reference policy, every entry above 0.
        rewards: (K,) reward of each word, two distinct values.
    Returns:
        float, in nats^-1 (a standardised reward has no unit).
    Raises:
        ValueError: on a bad argument, or unless there are two distinct rewards.

    >>> round(critical_beta([0.5, 0.5], [1.0, 0.0]), 4)
    1.5089
    """
    ref, rewards = _check_bandit(ref_probs, rewards)
    if np.ptp(rewards) == 0:
        raise ValueError(f"rewards must take two distinct values, got {rewards!r}: equal rewards push nowhere")
    u_ref = logit(ref[_rewarded(rewards)].sum())
    low = max(0.0, u_ref)  # the slope of log cosh(u/2) - log(u - u_ref) changes sign once, within 4 of here
    u = brentq(lambda u: (u - u_ref) * np.tanh(u / 2) - 2, low, low + 4, xtol=1e-13)
    return float(2 * np.cosh(u / 2) / (u - u_ref))


def _check_bandit(ref_probs, rewards):
    ref = check_probs("ref_probs", ref_probs)
    rewards = check_vector("rewards", rewards, ref.shape)
    if not (ref > 0).all():
        raise ValueError(f"ref_probs must be above 0 everywhere, got {ref!r}: a KL to it would be infinite")
    return ref, rewards


def plain_reverse(ref, rewards, beta):
    """`resting_point` without the division, reverse KL, without the checks: pi_k ∝ ref_k exp(r_k / beta)."""
    return softmax(np.log(ref) + (rewards - rewards.max()) / beta)


def _plain_forward(ref, rewards, beta):
    gap = rewards.max() - rewards  # (K,), in units of reward below the best
    best = ref[gap == 0].sum()
    # with lam measured from the best reward the sum falls from >= 1 at beta * best to <= 1 at beta
    lam = brentq(lambda lam: (beta * ref / (lam + gap)).sum() - 1, beta * best, beta, xtol=1e-15 * beta, rtol=1e-14)
    probs = beta * ref / (lam + gap)
    return probs / probs.sum()


def _rewarded(rewards):
    values = np.unique(rewards)
    if values.size > 2:
        raise ValueError(
            f"standardised advantages have a closed form only for two distinct rewards, got {values.size}: {values!r}. "
            "Use normalise=False, or rewards of two values"
        )
    return rewards == values[-1]


def _standardised(ref, rewards, beta, num_samples, kl_direction, eps):
    rewarded = _rewarded(rewards)
    p_ref, q_ref = ref[rewarded].sum(), ref[~rewarded].sum()
    u_ref = np.log(p_ref / q_ref)
    eps = eps / np.ptp(rewards)

    def push_minus_pull(u):  # both divided by p (1 - p)
        pull = u - u_ref if kl_direction == "reverse" else (expit(u) - p_ref) / (expit(u) * expit(-u))
        return _standardised_gap(u, num_samples, eps) - beta * pull

    grid = np.linspace(u_ref, max(u_ref, logit(1 - CORNER)), _GRID_POINTS)  # below u_ref both point upwards
    signs = np.sign(push_minus_pull(grid))
    points = []
    for i in np.flatnonzero(signs[:-1] * signs[1:] < 0):
        u = brentq(push_minus_pull, grid[i], grid[i + 1], xtol=1e-13)
        # among words of equal reward the odds stay those of the reference, so u alone decides both value and stability
        probs = ref * np.where(rewarded, expit(u) / p_ref, expit(-u) / q_ref)
        points.append(RestingPoint(probs, bool(signs[i] > 0)))
    return points


def _standardised_gap(u, num_samples, eps):
    """g at log-odds u, any shape: the expected advantage of the better reward over the worse, standardised."""
    if num_samples is None:
        return 2 * np.cosh(u / 2)  # 1 / sqrt(p (1 - p))
    G, n = num_samples, np.arange(1, num_samples)  # n = 0 and n = G have no spread and push nothing
    push = n * (1 - n / G) / (np.sqrt(n * (G - n)) / G + eps)  # (G - 1,)
    log_weight = gammaln(G + 1) - gammaln(n + 1) - gammaln(G - n + 1) + np.log(push / G)
    u = np.asarray(u)[..., None]  # (..., 1)
    return np.exp(log_weight + (n - 1) * log_expit(u) + (G - n - 1) * log_expit(-u)).sum(-1)  # (...)
