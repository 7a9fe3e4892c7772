"""The maths of a softmax policy over a few words: KL and its gradient, advantages. Pure functions."""

import numpy as np
from scipy.special import rel_entr
from scipy.special import softmax as _softmax

from grpo_lib._arguments import check_choice, check_count, check_number, check_probs, check_vector


def log_softmax(theta):  # scipy's, to the last bits, at a third of its call time: this is the bandit's inner loop
    shifted = theta - theta.max()
    return shifted - np.log(np.exp(shifted).sum())


def softmax(theta):
    """Turn logits into probabilities: pi_k = exp(theta_k) / sum_j exp(theta_j).

    Args:
        theta: (K,) finite logits.
    Returns:
        (K,) probabilities; unchanged when a constant is added to every logit.
    Raises:
        ValueError: if theta is not a vector of K >= 2 finite numbers.

    >>> softmax([0.0, np.log(3.0)])
    array([0.25, 0.75])
    """
    return _softmax(check_vector("theta", theta))


def kl_divergence(p, q):
    """Kullback-Leibler divergence KL(p || q) = sum_k p_k log(p_k / q_k), in nats.

    0 log 0 counts as 0; a word that p allows and q rules out (p_k > 0, q_k = 0) makes it infinite.

    Args:
        p, q: (K,) probabilities.
    Returns:
        float >= 0, `inf` where q rules out what p allows.
    Raises:
        ValueError: if p or q is no distribution, or their lengths differ.

    >>> round(kl_divergence([0.5, 0.5], [0.25, 0.75]), 4)    # log(4/3) / 2
    0.1438
    """
    p, q = check_probs("p", p), check_probs("q", q)
    if p.shape != q.shape:
        raise ValueError(f"p and q must cover the same words, got {p.size} and {q.size} probabilities")
    return max(0.0, float(rel_entr(p, q).sum()))  # rounding can leave -1e-17


def log_probs_kl_gradient(log_probs, ref_log_probs, kl_direction):
    probs = np.exp(log_probs)
    if kl_direction == "forward":
        return probs - np.exp(ref_log_probs)
    log_ratio = log_probs - ref_log_probs
    return probs * (log_ratio - probs @ log_ratio)


def kl_gradient(theta, ref_probs, kl_direction="reverse"):
    """Exact gradient in theta of the KL between pi = softmax(theta) and a reference.

        reverse   grad KL(pi || ref) = pi * (log(pi / ref) - KL(pi || ref))
        forward   grad KL(ref || pi) = pi - ref

    This is per policy. The bandit sums its policy gradient over G samples, so it subtracts beta * G times this.

    Source: Schulman 2020, "Approximating KL divergence", for the two directions; else the softmax's derivative.

    Args:
        theta: (K,) logits.
        ref_probs: (K,) reference, every entry above 0.
        kl_direction: "reverse" for KL(pi || ref), "forward" for KL(ref || pi).
    Returns:
        (K,) gradient in nats per unit of logit; sums to 0.
    Raises:
        ValueError: on another direction, unequal lengths, or a reference with a zero.

    >>> kl_gradient([0.0, 0.0], [0.25, 0.75], "forward")
    array([ 0.25, -0.25])
    """
    ref = check_probs("ref_probs", ref_probs)
    theta = check_vector("theta", theta, ref.shape)
    check_choice("kl_direction", kl_direction, ("reverse", "forward"))
    if not (ref > 0).all():
        raise ValueError(f"ref_probs must be above 0 everywhere, got {ref!r}")
    return log_probs_kl_gradient(log_softmax(theta), np.log(ref), kl_direction)


def bandit_advantages(rewards, *, normalise=True, baseline="mean", eps=1e-8):
    """Compare each sample's reward with the others' of its group.

        A_i = (r_i - mean(r)) / (std(r) + eps)        # population standard deviation

    `baseline="loo"` subtracts the mean of the *other* samples, which is G / (G - 1) times as much and makes the
    un-normalised gradient unbiased. `normalise=False` does not divide.

    Source: Shao et al. 2024, DeepSeekMath, section 4.1 (arXiv:2402.03300); without the division, Liu et al. 2025,
    Dr. GRPO (arXiv:2503.20783); leave-one-out, Ahmadian et al. 2024 (arXiv:2402.14740).

    Args:
        rewards: (G,) rewards of one group, G >= 2.
        normalise: whether to divide by the standard deviation.
        baseline: "mean" or "loo".
        eps: guard of the division, >= 0.
    Returns:
        (G,) advantages that sum to 0; exact zeros where all rewards are equal.
    Raises:
        ValueError: if there are fewer than two rewards, or one is not finite, or on an unknown option.

    >>> bandit_advantages([1.0, 0.0, 0.0, 0.0], eps=0.0).round(4)
    array([ 1.7321, -0.5774, -0.5774, -0.5774])
    """
    rewards = check_vector("rewards", rewards)
    check_choice("normalise", normalise, (True, False))
    check_choice("baseline", baseline, ("mean", "loo"))
    return centre_and_scale(rewards, normalise, baseline, check_number("eps", eps, 0))


def centre_and_scale(rewards, normalise, baseline, eps):
    """`bandit_advantages` without the checks, for a loop that has made them."""
    if (rewards == rewards[0]).all():
        return np.zeros_like(rewards)  # a mean's rounding must not be blown up by 1 / eps
    G = rewards.size
    centred = rewards - rewards.sum() / G
    if normalise:
        centred = centred / (np.sqrt(centred @ centred / G) + eps)
    return centred if baseline == "mean" else centred * (G / (G - 1))


def zero_variance_probability(p, G):
    """Probability that G samples all succeed or all fail, so that the group teaches nothing: p^G + (1 - p)^G.

    Args:
        p: probability of success, a number or an array in [0, 1].
        G: samples per group, >= 1.
    Returns:
        the probability, in the shape of p.
    Raises:
        ValueError: if p lies outside [0, 1], or G is not an integer >= 1.

    >>> float(zero_variance_probability(0.5, 4))
    0.125
    """
    p, G = np.asarray(p, dtype=np.float64), check_count("G", G, 1)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p must lie in [0, 1], got {p!r}")
    return p**G + (1 - p) ** G
