"""The gradient steps of one iteration: the clipped surrogate's push, the KL's pull, and the record of both."""

from dataclasses import dataclass

import numpy as np

from grpo_lib.clipping import clip_bounds, surrogate_value
from grpo_lib.softmax_policy import log_probs_kl_gradient, log_softmax


@dataclass(frozen=True, eq=False)
class BanditStep:
    """What one iteration did: theta moved by learning_rate * (push + pull).

    Attributes:
        iteration: number of the iteration, from 1.
        samples: (G,) indices of the sampled words.
        rewards: (G,) their rewards.
        advantages: (G,) their advantages.
        push: (K,) summed policy gradient on each word's logit.
        pull: (K,) -beta * G * grad KL on each word's logit.
        probs_before: (K,) the policy that sampled.
        probs_after: (K,) the policy that came out.
        kl_step: KL(before || after) in nats.
        kl_ref: KL(after || reference) in nats.
        clip_fraction: share of samples on the clipped branch, averaged over the updates.
    """

    iteration: int
    samples: np.ndarray
    rewards: np.ndarray
    advantages: np.ndarray
    push: np.ndarray
    pull: np.ndarray
    probs_before: np.ndarray
    probs_after: np.ndarray
    kl_step: float
    kl_ref: float
    clip_fraction: float

    def report(self, vocab):
        """The step in words: probabilities after it, mean reward of its samples, both KLs."""
        lines = [f"\nIteration {self.iteration}", "Probabilities:"]
        lines += [f"  {word:<12}: {p:.3f}" for word, p in zip(vocab, self.probs_after, strict=True)]
        lines.append(f"Mean reward of its samples: {self.rewards.mean():.3f}")
        lines.append(f"KL of this step: {self.kl_step:.3f} nats, to the reference: {self.kl_ref:.3f} nats")
        return "\n".join(lines)


def surrogate_gradient(log_probs, old_log_probs, samples, advantages, clip=0.2):
    """Exact gradient in theta of the clipped surrogate, summed over samples.

        F = sum_i min(rho_i A_i, clip(rho_i, 1 - low, 1 + high) A_i),   rho_i = pi(w_i) / pi_old(w_i)
        grad F = sum over i on the unclipped branch of rho_i A_i (onehot(w_i) - pi)

    On the policy that drew the samples rho = 1, and this is the plain policy gradient.

    Source: Schulman et al. 2017, PPO, equation 7 (arXiv:1707.06347); a pair of bounds, Yu et al. 2025, DAPO
    (arXiv:2503.14476).

    Args:
        log_probs, old_log_probs: (K,) log-probs of the current and of the sampling policy.
        samples: (G,) word indices.
        advantages: (G,) advantages.
        clip: epsilon, or (low, high), or None for no clip.
    Returns:
        (K,) gradient, and the share of samples whose clipped branch is active (they push nothing).
    Raises:
        ValueError: on a bad clip.

    >>> gradient, share = surrogate_gradient(np.log([0.5, 0.5]), np.log([0.5, 0.5]), [0, 1], [1.0, -1.0])
    >>> gradient, float(share)
    (array([ 1., -1.]), 0.0)
    """
    low, high = clip_bounds(clip)
    log_probs, advantages = np.asarray(log_probs), np.asarray(advantages)
    ratio = np.exp(log_probs - old_log_probs)[samples]  # (G,)
    if advantages.shape != ratio.shape:
        raise ValueError(f"need one advantage a sample, got {advantages.shape} for {ratio.shape} samples")
    _, clipped = surrogate_value(ratio, advantages, low, high)  # (G,)
    return _policy_gradient(log_probs, samples, np.where(clipped, 0.0, ratio * advantages)), clipped.mean()


def _policy_gradient(log_probs, samples, weights):
    """(K,): sum_i weights_i * (onehot(w_i) - pi)."""
    return np.bincount(samples, weights, minlength=log_probs.size) - weights.sum() * np.exp(log_probs)


def ascend(theta, ref_log_probs, samples, advantages, *, beta, learning_rate, kl_direction, num_updates, clip):
    """Take `num_updates` gradient steps on one group of samples drawn from softmax(theta).

        theta <- theta + learning_rate * (grad F - beta * G * grad KL),   G samples

    Args:
        theta: (K,) logits that drew the samples; left as they are.
        ref_log_probs: (K,) log-probs of the reference.
        samples: (G,) word indices.
        advantages: (G,) advantages.
        beta: weight of the KL.
        learning_rate: size of a step.
        kl_direction: "reverse" or "forward".
        num_updates: steps, >= 1; the ratio is 1 in the first.
        clip: epsilon, (low, high) or None.
    Returns:
        theta (K,), its log-probs (K,), the summed push (K,), the summed pull (K,), the mean share of clipped samples.
    Raises:
        FloatingPointError: if theta becomes infinite or NaN, or its spread overflows.

    >>> options = dict(beta=0.0, learning_rate=0.1, kl_direction="reverse", num_updates=1, clip=0.2)
    >>> ascend(np.zeros(2), np.log([0.5, 0.5]), [0, 1], np.array([1.0, -1.0]), **options)[0]
    array([ 0.1, -0.1])
    """
    old = log_probs = log_softmax(theta)
    push, pull, share, clipped = 0.0, np.zeros(len(theta)), 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, in words
        for update in range(num_updates):
            if update == 0:  # on the policy that sampled every ratio is 1 and nothing is clipped
                gradient = _policy_gradient(log_probs, samples, advantages)
            else:
                gradient, clipped = surrogate_gradient(log_probs, old, samples, advantages, clip)
            step = gradient
            if beta:
                kl_pull = -beta * len(samples) * log_probs_kl_gradient(log_probs, ref_log_probs, kl_direction)
                pull, step = pull + kl_pull, gradient + kl_pull
            theta = theta + learning_rate * step
            log_probs = log_softmax(theta)
            if not log_probs.min() > -np.inf:  # also where it is NaN
                raise FloatingPointError(
                    f"theta became {theta} (learning_rate {learning_rate}, beta {beta}): "
                    "lower the learning rate, or beta, and start anew"
                )
            push, share = push + gradient, share + clipped / num_updates
    return theta, log_probs, push, pull, float(share)
