"""Estimates of a KL from samples: their values and the gradients they have as a loss, exactly.

`kl_from_log_ratio` is the formula that the language-model loss uses; it takes numpy arrays and torch tensors alike.
`estimator_by_enumeration` weighs every word of a small policy, so that no sampling noise is left.
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad_vec

from grpo_lib._arguments import check_choice, check_number, check_probs, check_vector
from grpo_lib.softmax_policy import log_softmax

__all__ = [
    "KL_ESTIMATORS",
    "KL_LOSSES",
    "KLEstimator",
    "estimator_by_enumeration",
    "kl_from_log_ratio",
    "schulman_table",
]

KL_ESTIMATORS = ("k1", "k2", "k3")
# sg: stop-gradient, the estimate counts as a number, as it does when it is taken off the reward
KL_LOSSES = (*KL_ESTIMATORS, "ratio*k1", "ratio*k3", "ratio*sg(k1)", "ratio*sg(k3)")


def kl_from_log_ratio(d, kind="k3"):
    """Estimate KL(π‖π_ref) from d = log π_ref - log π of a sample of π.

        k1 = -d,      k2 = d² / 2,      k3 = exp(d) - d - 1

    Source: J. Schulman 2020, "Approximating KL divergence" (joschu.net/blog/kl-approx.html).

    Args:
        d: array or tensor of log-ratios, nats.
        kind: "k1", "k2" or "k3".
    Returns:
        the same shape, nats.
    Raises:
        ValueError: if the kind is unknown.

    >>> d = np.array([-0.5, 0.0, 0.5])
    >>> kl_from_log_ratio(d, "k1"), kl_from_log_ratio(d, "k3").round(4)
    (array([ 0.5, -0. , -0.5]), array([0.1065, 0.    , 0.1487]))
    """
    if kind == "k1":
        return -d
    if kind == "k2":
        return d * d / 2
    if kind == "k3":  # expm1: exp(d) - 1 without cancellation near 0
        return (d.expm1() if hasattr(d, "expm1") else np.expm1(d)) - d
    raise ValueError(f"kind must be one of {KL_ESTIMATORS}, got {kind!r}")


@dataclass(frozen=True, eq=False)
class KLEstimator:
    """What an estimator does over all samples of a policy.

    Attributes:
        value: its mean, nats.
        spread: its standard deviation, nats.
        gradient: (K,) mean gradient on the logits when it is used as a loss, nats per unit of logit.
        gradient_spread: (K,) standard deviation of one sample's gradient.
    """

    value: float
    spread: float
    gradient: np.ndarray
    gradient_spread: np.ndarray


def estimator_by_enumeration(theta, ref_probs, kind="k3"):
    """Weigh an estimator's value and gradient with the probability of each word: no sampling, no noise.

        value = sum_w pi_w k(d_w),      d_w = log(ref_w / pi_w)
        gradient = sum_w pi_w slope_w (onehot(w) - pi),      slope = d loss / d log pi

        loss           slope              mean gradient
        k1             1                  0
        k2             -d                 grad KL(pi || ref)
        k3             1 - exp(d)         grad KL(ref || pi)
        ratio*k        k + slope of k     grad KL(pi || ref), for k1 and k3
        ratio*sg(k)    k                  grad KL(pi || ref) for k1, neither for k3

    The weights pi_w are those of the policy that sampled and take no part in the gradient; ratio = pi / pi_sampled is
    1, its gradient is not 0.

    Source: J. Schulman 2020 for the values; Tang, Munos 2025 (arXiv:2506.09477) for gradients of k1, k2, k3 as a loss;
    DeepSeek-AI 2025, DeepSeek-V3.2, section 3.1, for ratio*k3 (arXiv:2512.02556).

    Args:
        theta: (K,) logits of pi.
        ref_probs: (K,) reference, every entry above 0.
        kind: one of `KL_LOSSES`.
    Returns:
        `KLEstimator`.
    Raises:
        ValueError: on another kind, unequal lengths, or a reference with a zero.

    >>> k3 = estimator_by_enumeration([0.0, 0.0], [0.25, 0.75], "k3")
    >>> round(k3.value, 4), k3.gradient  # KL(pi || ref), and pi - ref
    (0.1438, array([ 0.25, -0.25]))
    """
    ref = check_probs("ref_probs", ref_probs)
    log_probs = log_softmax(check_vector("theta", theta, ref.shape))
    check_choice("kind", kind, KL_LOSSES)
    if not (ref > 0).all():
        raise ValueError(f"ref_probs must be above 0 everywhere, got {ref!r}")
    probs, d = np.exp(log_probs), np.log(ref) - log_probs  # (K,), (K,)
    values = kl_from_log_ratio(d, kind.removeprefix("ratio*").removeprefix("sg(").removesuffix(")"))
    gradients = loss_slope(d, kind)[:, None] * (np.eye(len(probs)) - probs)  # (K sampled words, K logits)
    value, gradient = probs @ values, probs @ gradients
    spread, gradient_spread = (np.sqrt(probs @ (x - mean) ** 2) for x, mean in ((values, value), (gradients, gradient)))
    return KLEstimator(float(value), float(spread), gradient, gradient_spread)


def loss_slope(d, kind):
    """Slope of one sample's loss in log pi, on the policy that drew it.

    >>> loss_slope(np.array([-1.0, 0.0, 1.0]), "k2")
    array([ 1.,  0., -1.])
    """
    form, _, name = kind.rpartition("*")
    number = name.removeprefix("sg(").removesuffix(")")
    weighted = kl_from_log_ratio(d, number) if form else 0.0  # the ratio's part
    slopes = {"k1": np.ones_like(d), "k2": -d, "k3": -np.expm1(d)}
    return weighted if name != number else weighted + slopes[number]


def schulman_table(mu):
    """Bias and spread of k1, k2, k3 where pi is the normal N(0, 1) and the reference N(mu, 1), by quadrature.

        d(x) = mu x - mu² / 2,      true KL = mu² / 2

    Source: J. Schulman 2020, "Approximating KL divergence" (joschu.net/blog/kl-approx.html), both tables.

    Args:
        mu: mean of the reference, > 0.
    Returns:
        dict kind → (bias / true KL, standard deviation / true KL).
    Raises:
        ValueError: if mu is not a finite number > 0.

    >>> bias, spread = schulman_table(1.0)["k2"]
    >>> round(bias, 4), round(spread, 4)  # mu² / 4, sqrt(3)
    (0.25, 1.7321)
    """
    mu = check_number("mu", mu, 0, inclusive=False)
    true = mu**2 / 2

    def moments(x):
        k = np.array([kl_from_log_ratio(mu * x - true, kind) for kind in KL_ESTIMATORS]) / true
        return np.array([k, k * k]) * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)

    (mean, square), _ = quad_vec(moments, -12, 12 + 2 * mu, epsabs=1e-13, epsrel=1e-13)  # k3² peaks at 2 mu
    spread = np.sqrt(square - mean**2)
    return {kind: (float(m - 1), float(s)) for kind, m, s in zip(KL_ESTIMATORS, mean, spread, strict=True)}
