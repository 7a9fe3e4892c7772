"""Exercise checks on KL estimators: bias and spread by enumeration, a test that catches a wrong k3."""

import numpy as np

from grpo_lib.kl_estimators import kl_from_log_ratio
from grpo_lib.softmax_policy import kl_divergence
from grpo_lib.verdicts import judge

__all__ = ["check_bias_and_spread", "check_k3_test"]


def check_bias_and_spread(attempt):
    """Check `f(probs, ref_probs, estimates)` → [bias, spread] of one sample's estimate of KL(probs‖ref_probs).

    >>> check_bias_and_spread(lambda p, ref, k: [p @ k - (p * np.log(p / ref)).sum(), k.std()]).slip
    'spread without weights'
    """
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.3, 0.4])
    cases = [(p, q, kl_from_log_ratio(np.log(q / p), kind)) for kind in ("k1", "k2", "k3")]

    def spread(p, k):
        return np.sqrt(p @ (k - p @ k) ** 2)

    slips = {
        "no weights": (
            lambda p, q, k: [k.mean() - kl_divergence(p, q), k.std()],
            "Words are not sampled equally often: weigh each estimate with its probability under π.",
        ),
        "spread without weights": (
            lambda p, q, k: [p @ k - kl_divergence(p, q), k.std()],
            "The bias is right; the spread needs the weights π too.",
        ),
        "weights of ref": (
            lambda p, q, k: [q @ k - kl_divergence(p, q), spread(q, k)],
            "The samples come from π: weigh with probs, not with ref_probs.",
        ),
        "variance": (
            lambda p, q, k: [p @ k - kl_divergence(p, q), spread(p, k) ** 2],
            "This is the variance: take its square root.",
        ),
        "mean for bias": (
            lambda p, q, k: [p @ k, spread(p, k)],
            "This is the mean; the bias is the mean minus the truth, KL(π‖ref).",
        ),
        "other KL": (
            lambda p, q, k: [p @ k - kl_divergence(q, p), spread(p, k)],
            "The truth is KL(π‖ref); you took KL(ref‖π).",
        ),
        "sign": (
            lambda p, q, k: [kl_divergence(p, q) - p @ k, spread(p, k)],
            "The sign is turned: the bias is mean minus truth.",
        ),
    }

    def reference(p, q, k):
        return [p @ k - kl_divergence(p, q), spread(p, k)]

    praise = "The weights are those of the policy that samples."
    return judge("bias and spread", attempt, reference, cases, slips, praise=praise)


class _Named:
    """An estimator of (log_probs, ref_log_probs) that a verdict can name."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def __call__(self, log_probs, ref_log_probs):
        return self.function(np.asarray(ref_log_probs, dtype=float) - np.asarray(log_probs, dtype=float))

    def __repr__(self):
        return self.name


def check_k3_test(attempt):
    """Check `f(k3)` → True if the given function of (log_probs, ref_log_probs) computes k3, else False.

    >>> check_k3_test(lambda k3: np.allclose(k3([0.0], [0.001]), 0.0, atol=1e-3)).slip
    'near 0'
    """
    right = _Named("k3", kl_from_log_ratio)
    cases = [
        (right,),
        (_Named("k3 with d turned", lambda d: kl_from_log_ratio(-d)),),
        (_Named("k2", lambda d: kl_from_log_ratio(d, "k2")),),
        (_Named("k3 without the -1", lambda d: kl_from_log_ratio(d) + 1),),
    ]

    def value(k3, d):
        return np.asarray(k3(np.zeros(1), np.array([d])))[0]

    slips = {
        "near 0": (
            lambda k3: abs(value(k3, 0.001)) < 1e-3,
            "Your test lets k2 and the k3 with d turned pass: near 0 all three are alike. Look at d = 1.",
        ),
        "never negative": (
            lambda k3: value(k3, 1.0) >= 0 and value(k3, -1.0) >= 0,
            "Your test lets all of them pass: none is ever negative. Compare with the value e^d - d - 1.",
        ),
        "only the shape": (
            lambda k3: value(k3, 2.0) >= value(k3, -2.0),
            "It catches the turned d only: k2 and the k3 without the -1 still pass. Compare with a value.",
        ),
        "all refused": (lambda k3: False, "Your test refuses the right k3 as well: is its own d = ref - log_probs?"),
        "turned": (
            lambda k3: not reference(k3),
            "True and False have changed places: True is for the right k3.",
        ),
    }

    def reference(k3):
        return bool(np.isclose(value(k3, 1.0), np.e - 2) and np.isclose(value(k3, -1.0), np.exp(-1)))

    praise = "One value away from 0 tells them apart."
    return judge("a test of k3", attempt, reference, cases, slips, praise=praise)
