"""Exercise checks on the parts of the loss, which need only numpy: KL estimates, ratio, clip."""

import numpy as np

from grpo_lib.clipping import clip_bounds, surrogate_value
from grpo_lib.kl_estimators import estimator_by_enumeration, kl_from_log_ratio
from grpo_lib.softmax_policy import log_probs_kl_gradient
from grpo_lib.verdicts import judge

__all__ = [
    "check_clip_fraction",
    "check_clipped_surrogate",
    "check_k3",
    "check_k3_gradient",
    "check_ratio_and_k3",
]


def check_k3(attempt):
    """Check `f(log_probs, ref_log_probs)`: k3 = exp(d) - d - 1 with d = ref_log_probs - log_probs.

    >>> check_k3(lambda new, ref: np.exp(new - ref) - (new - ref) - 1).slip
    'sign of d'
    """
    cases = [(np.array([-1.0, -2.0, -0.3]), np.array([-1.5, -0.5, -0.3]))]

    def k3(new, ref):
        return kl_from_log_ratio(ref - new)

    slips = {
        "sign of d": (
            lambda new, ref: k3(ref, new),
            "d is turned: take log π_ref - log π. Near 0 both look alike; further out they do not.",
        ),
        "k1": (lambda new, ref: new - ref, "This is k1: right on average, but it can be negative."),
        "k2": (lambda new, ref: (new - ref) ** 2 / 2, "This is k2: never negative, but biased."),
        "no -1": (lambda new, ref: k3(new, ref) + 1, "At equal log-probs k3 must be 0: the -1 is missing."),
    }
    return judge("k3", attempt, k3, cases, slips, praise="Never negative, and 0 only where both agree.")


def check_k3_gradient(attempt):
    """Check `f(probs, ref_probs)`: the mean gradient on the logits of plain k3 used as a loss, (K,).

    >>> check_k3_gradient(lambda probs, ref: ref - probs).slip
    'sign'
    """
    first, second = np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.3, 0.4])

    def of(kind):
        return lambda probs, ref: estimator_by_enumeration(np.log(probs), ref, kind).gradient

    slips = {
        "of the value": (
            lambda probs, ref: log_probs_kl_gradient(np.log(probs), np.log(ref), "reverse"),
            "This is the gradient of KL(π‖ref), the number that k3's mean estimates. Differentiate k3 itself, then "
            "take the mean: the weights π stay as they are.",
        ),
        "sign": (
            lambda probs, ref: -of("k3")(probs, ref),
            "The sign is turned: d = log ref - log π falls when log π rises.",
        ),
        "no slope": (
            of("ratio*sg(k3)"),
            "You weigh each onehot - π with the value of k3; the weight is its slope, 1 - ref / π.",
        ),
        "no weights": (
            lambda probs, ref: (1 - ref / probs) @ (np.eye(len(probs)) - probs),
            "A mean over samples of π: each word's gradient needs the weight π.",
        ),
        "no -pi": (
            lambda probs, ref: (probs - ref) * (1 - probs),
            "Only the sampled word's own logit is in it; the gradient of log softmax takes π off every word.",
        ),
    }
    praise = "It is π - ref, the gradient of KL(ref‖π)."
    return judge("k3's gradient", attempt, of("k3"), [(first, second), (second, first)], slips, praise=praise)


def check_ratio_and_k3(attempt):
    """Check `f(log_probs, old_log_probs, ref_log_probs)` → [ratio, k3], (2, T): which log-probs belong to which.

    >>> check_ratio_and_k3(lambda new, old, ref: [np.exp(new - ref), np.exp(ref - new) - (ref - new) - 1]).slip
    'ratio to the reference'
    """
    new, old, ref = np.array([-1.0, -2.0, -0.5]), np.array([-1.2, -1.5, -0.5]), np.array([-0.7, -2.4, -1.5])

    def both(above, below, target, policy):
        return np.array([np.exp(above - below), kl_from_log_ratio(target - policy)])

    slips = {
        "ratio to the reference": (
            lambda new, old, ref: both(new, ref, ref, new),
            "The ratio compares π with the policy that drew the samples, π_old; the reference has no part in it.",
        ),
        "k3 to old": (
            lambda new, old, ref: both(new, old, old, new),
            "k3 compares π with the reference; with π_old it measures the last steps only.",
        ),
        "both swapped": (
            lambda new, old, ref: both(new, ref, old, new),
            "Old and reference have changed places: the ratio takes π_old, k3 takes the reference.",
        ),
        "ratio upside down": (
            lambda new, old, ref: both(old, new, ref, new),
            "The ratio is upside down: π is above, π_old below.",
        ),
        "k3 of old": (
            lambda new, old, ref: both(new, old, ref, old),
            "k3 is of the policy that is being trained, π; π_old does not move, so it would have no gradient.",
        ),
        "sign of d": (lambda new, old, ref: both(new, old, new, ref), "d in k3 is turned: take log π_ref - log π."),
    }
    praise = "The ratio looks back to the sampling, k3 to the start."
    reference = lambda new, old, ref: both(new, old, ref, new)  # noqa: E731
    return judge("ratio and k3", attempt, reference, [(new, old, ref)], slips, praise=praise)


RATIOS = np.array([0.5, 0.9, 1.0, 1.1, 1.25, 1.5, 0.5, 0.9, 1.0, 1.1, 1.25, 1.5])
ADVANTAGES = np.repeat([2.0, -0.5], 6)


def check_clipped_surrogate(attempt):
    """Check `f(ratio, advantages, low, high)`: min(ratio · A, clip(ratio, 1 - low, 1 + high) · A).

    >>> check_clipped_surrogate(lambda ratio, A, low, high: np.clip(ratio, 1 - low, 1 + high) * A).slip
    'no minimum'
    """

    def parts(ratio, advantages, low, high):
        return ratio * advantages, np.clip(ratio, 1 - low, 1 + high) * advantages

    def maximum_below_zero(ratio, advantages, low, high):
        free, bound = parts(ratio, advantages, low, high)
        return np.where(advantages < 0, np.maximum(free, bound), np.minimum(free, bound))

    slips = {
        "maximum for A < 0": (
            maximum_below_zero,
            "For A < 0 you take the maximum. It is the minimum for both signs: a bad word that became more likely "
            "must still be pushed back.",
        ),
        "no minimum": (
            lambda *a: parts(*a)[1],
            "This is the clipped product alone: a word that went the wrong way would get no gradient to come back.",
        ),
        "maximum": (lambda *a: np.maximum(*parts(*a)), "You take the maximum; the surrogate is pessimistic: minimum."),
        "clip on the product": (
            lambda ratio, advantages, low, high: np.minimum(
                ratio * advantages, np.clip(ratio * advantages, 1 - low, 1 + high)
            ),
            "You clip ratio · A. Clip the ratio, then multiply by A.",
        ),
        "clip on the log-ratio": (
            lambda ratio, A, low, high: np.minimum(ratio * A, np.exp(np.clip(np.log(ratio), -low, high)) * A),
            "You clip the log-ratio; the range is of the ratio itself.",
        ),
        "clip around 0": (
            lambda ratio, advantages, low, high: np.minimum(
                ratio * advantages, np.clip(ratio, -low, high) * advantages
            ),
            "The range lies around 1, not around 0: from 1 - low to 1 + high.",
        ),
        "one epsilon": (
            lambda ratio, advantages, low, high: np.minimum(*parts(ratio, advantages, low, low)),
            "Above 1 the range has its own width, high.",
        ),
        "no clip": (lambda *a: parts(*a)[0], "Nothing is clipped here."),
        "loss": (lambda *a: -np.minimum(*parts(*a)), "This is the loss; the surrogate is what is climbed: no minus."),
    }

    def reference(ratio, advantages, low, high):
        return surrogate_value(ratio, advantages, *clip_bounds((low, high)))[0]

    cases = [(RATIOS, ADVANTAGES, 0.2, 0.28)]
    praise = "A minimum, whatever the sign of A."
    return judge("clipped surrogate", attempt, reference, cases, slips, praise=praise)


def check_clip_fraction(attempt):
    """Check `f(ratio, advantages, low, high)`: the share of samples whose gradient the clip cuts off.

    >>> check_clip_fraction(lambda ratio, A, low, high: np.mean((ratio < 1 - low) | (ratio > 1 + high))).slip
    'sign of A'
    """

    def outside(ratio, low, high):
        return (ratio < 1 - low) | (ratio > 1 + high)

    def cut(ratio, advantages, low, high):
        return surrogate_value(ratio, advantages, *clip_bounds((low, high)))[1]

    slips = {
        "sign of A": (
            lambda ratio, advantages, low, high: outside(ratio, low, high).mean(),
            "You count every ratio outside the range. With A > 0 only those above it are cut, with A < 0 only those "
            "below it.",
        ),
        "only above": (
            lambda ratio, advantages, low, high: (ratio > 1 + high).mean(),
            "You count the ratios above the range only, whatever the sign of A.",
        ),
        "other side": (
            lambda ratio, advantages, low, high: (
                outside(ratio, low, high) & ~cut(ratio, advantages, low, high)
            ).mean(),
            "You count the ratios that went against their advantage. Those are still pushed back, not cut.",
        ),
        "count": (lambda *a: float(cut(*a).sum()), "This counts them; divide by the number of samples."),
        "complement": (lambda *a: 1 - cut(*a).mean(), "This is the share that still pushes."),
        "one epsilon": (
            lambda ratio, advantages, low, high: cut(ratio, advantages, low, low).mean(),
            "Above 1 the range has its own width, high.",
        ),
    }
    cases = [(RATIOS[:-1], ADVANTAGES[:-1], 0.2, 0.28), (np.array([1.5, 1.1, 0.5, 0.7]), np.ones(4), 0.2, 0.28)]
    praise = "Samples on the flat part push nothing."
    return judge("clip fraction", attempt, lambda *a: cut(*a).mean(), cases, slips, praise=praise)
