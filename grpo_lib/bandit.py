"""GRPO on a softmax bandit: one word per completion, so that every quantity of the algorithm is exact and visible.

The variant: advantages by the *population* standard deviation (the language-model part divides by the sample one), the
gradient *summed* over samples, the KL exact instead of estimated, plain gradient ascent. `resting_point` says where
a run ends.
"""

import numpy as np

from grpo_lib._arguments import check_choice, check_count, check_number, check_vector, check_vocab, word_rewards
from grpo_lib.bandit_step import BanditStep, ascend, surrogate_gradient
from grpo_lib.clipping import clip_bounds
from grpo_lib.resting_points import RestingPoint, critical_beta, resting_point
from grpo_lib.softmax_policy import (
    bandit_advantages,
    centre_and_scale,
    kl_divergence,
    kl_gradient,
    log_softmax,
    softmax,
    zero_variance_probability,
)

__all__ = [
    "BanditGRPO",
    "BanditStep",
    "RestingPoint",
    "bandit_advantages",
    "critical_beta",
    "kl_divergence",
    "kl_gradient",
    "resting_point",
    "softmax",
    "surrogate_gradient",
    "zero_variance_probability",
]


class BanditGRPO:
    """A policy over a few words, trained by GRPO from rewards alone.

        each iteration   w_1 .. w_G ~ pi = softmax(theta),   A_i = (r_i - mean(r)) / (std(r) + epsilon)
                         theta += learning_rate * (sum_i A_i grad log pi(w_i) - beta * G * grad KL(pi || pi_ref))

    pi_ref is the frozen start. The KL's gradient carries the factor G because the first term sums over the G samples.
    beta, learning_rate and the other options may be changed between steps: they are checked, and act, from the next on.

    Source: Shao et al. 2024, DeepSeekMath, section 4.1 (arXiv:2402.03300). Differs from it: exact KL, population
    standard deviation, a sum over samples instead of a mean.

    Attributes:
        theta: (K,) logits; the start is randn(K) of RandomState(seed), whose stream then feeds the sampling.
        rewards: (K,) the reward of each word.
        ref_probs: (K,) the reference policy.
        prob_history: N + 1 arrays (K,): index 0 is the start, index i the policy after i iterations.
        reward_history: N numbers: index i is the mean reward of the samples drawn from prob_history[i].
        kl_div_history: N numbers, nats: KL(prob_history[i] || prob_history[i + 1]), of one step.
        kl_ref_history: N + 1 numbers, nats: KL(prob_history[i] || ref_probs).

    Args:
        vocab: at least two distinct, non-empty words.
        beta: weight of the KL to the reference, >= 0.
        epsilon: guard of the advantages' division (elsewhere in this library epsilon is the clip), >= 0.
        learning_rate: > 0.
        seed: an integer, or None for a run that cannot be repeated.
        normalise: whether advantages are divided by the standard deviation.
        baseline: "mean" or "loo" (leave-one-out).
        kl_direction: "reverse" for KL(pi || ref), "forward" for KL(ref || pi).
        reward: None (1.0 for a word that starts with a vowel, else 0.0), a function of the word (called once
            a word), or K numbers.
        updates_per_rollout: gradient steps taken on the same samples; from the second on ratio and clip act.
        clip: epsilon, a pair (low, high), or None; inert with one update per rollout, where every ratio is 1.
        sample_seed: an integer, for samples from a stream of their own: the same start, other luck.
    Raises:
        ValueError: on a bad argument.

    >>> bandit = BanditGRPO(beta=0.0)
    >>> bandit.train(num_iterations=50, num_samples=20)
    >>> bandit.prob_history[0].round(3), bandit.prob_history[-1].round(3)
    (array([0.182, 0.097, 0.212, 0.509]), array([0.953, 0.01 , 0.018, 0.019]))
    """

    def __init__(
        self,
        vocab=("ant", "bear", "cat", "dog"),
        beta=0.1,
        epsilon=1e-8,
        *,
        learning_rate=0.01,
        seed=42,
        normalise=True,
        baseline="mean",
        kl_direction="reverse",
        reward=None,
        updates_per_rollout=1,
        clip=0.2,
        sample_seed=None,
    ):
        self.vocab = check_vocab(vocab)
        self.beta, self.epsilon, self.learning_rate = beta, epsilon, learning_rate
        self.normalise, self.baseline, self.kl_direction = normalise, baseline, kl_direction
        self.updates_per_rollout, self.clip = updates_per_rollout, clip
        self.rewards = word_rewards(self.vocab, reward)
        self._rng = np.random.RandomState(seed)
        self.theta = self._rng.randn(len(self.vocab))
        if sample_seed is not None:
            self._rng = np.random.RandomState(sample_seed)
        self._checked = None
        self._check_settings()
        self._ref_log_probs = log_softmax(self.theta)
        self.ref_probs = np.exp(self._ref_log_probs)
        self.prob_history, self.reward_history = [self.ref_probs], []
        self.kl_div_history, self.kl_ref_history = [], [0.0]

    def _check_settings(self):
        settings = (self.beta, self.epsilon, self.learning_rate, self.normalise, self.baseline, self.kl_direction)
        settings += (self.updates_per_rollout, self.clip)
        if settings == self._checked:
            return
        check_number("beta", self.beta, 0, why=". 0 switches the KL off")
        check_number("epsilon", self.epsilon, 0)
        check_number("learning_rate", self.learning_rate, 0, inclusive=False)
        check_choice("normalise", self.normalise, (True, False))
        check_choice("baseline", self.baseline, ("mean", "loo"))
        check_choice("kl_direction", self.kl_direction, ("reverse", "forward"))
        check_count("updates_per_rollout", self.updates_per_rollout, 1)
        clip_bounds(self.clip)
        self._checked = settings

    def get_policy_probs(self, logits):
        """(K,) logits to (K,) probabilities, by softmax."""
        return softmax(check_vector("logits", logits, (len(self.vocab),)))

    def sample_word(self, probs):
        """Draw the index of one word from (K,) probabilities, out of the same random stream as training."""
        return int(self._rng.choice(len(self.vocab), p=probs))

    def compute_reward(self, word_idx):
        """The reward of the word with this index; by default 1.0 if the word starts with a vowel, else 0.0."""
        if not 0 <= word_idx < len(self.vocab):
            raise ValueError(f"word_idx must be one of 0 .. {len(self.vocab) - 1}, got {word_idx!r}")
        return float(self.rewards[word_idx])

    def compute_kl_divergence(self, old_probs, new_probs):
        """KL(old || new) in nats of two (K,) distributions, as `kl_divergence`."""
        return kl_divergence(old_probs, new_probs)

    def step(self, num_samples=20):
        """Do one iteration: sample a group, compare, update; append to the histories.

        Args:
            num_samples: G >= 2.
        Returns:
            `BanditStep`.
        Raises:
            ValueError: on a bad argument or setting.
            FloatingPointError: if theta would become infinite or NaN; theta and the histories stay as they were.

        >>> record = BanditGRPO(beta=0.0).step(num_samples=4)
        >>> record.samples, record.rewards, record.push.round(4)
        (array([0, 0, 0, 3]), array([1., 1., 1., 0.]), array([ 1.7321,  0.    ,  0.    , -1.7321]))
        """
        self._check_settings()
        check_count("num_samples", num_samples, 2, why=". A group of one has nobody to be compared with")
        old = log_softmax(self.theta)
        probs = np.exp(old)
        samples = self._draw(probs, num_samples)
        rewards = self.rewards[samples]
        advantages = centre_and_scale(rewards, self.normalise, self.baseline, self.epsilon)
        options = {"beta": self.beta, "learning_rate": self.learning_rate, "kl_direction": self.kl_direction}
        options |= {"num_updates": self.updates_per_rollout, "clip": self.clip}
        theta, new, push, pull, clip_fraction = ascend(self.theta, self._ref_log_probs, samples, advantages, **options)
        new_probs = np.exp(new)
        kl_step = max(0.0, float(probs @ (old - new)))  # from log-probs: finite where a probability underflows
        kl_ref = max(0.0, float(new_probs @ (new - self._ref_log_probs)))
        self.theta = theta
        self.prob_history.append(new_probs)
        self.reward_history.append(float(rewards.sum() / num_samples))
        self.kl_div_history.append(kl_step)
        self.kl_ref_history.append(kl_ref)
        outcome = (push, pull, probs, new_probs, kl_step, kl_ref, clip_fraction)
        return BanditStep(len(self.reward_history), samples, rewards, advantages, *outcome)

    def _draw(self, probs, size):
        """RandomState.choice(K, size, p=probs): the same words from the same stream, without its checks of probs."""
        cumulative = probs.cumsum()
        return (cumulative / cumulative[-1]).searchsorted(self._rng.random_sample(size), side="right")

    def train(self, num_iterations=50, num_samples=20, *, report_every=None):
        """Do `num_iterations` steps. A second call continues where the first one ended.

        Args:
            num_iterations: >= 1.
            num_samples: G >= 2 samples per iteration.
            report_every: print probabilities, mean reward and KLs every so many iterations (10, say); None is silent.
        Raises:
            ValueError: on a bad argument or setting.
            FloatingPointError: if theta becomes infinite or NaN.
        """
        check_count("num_iterations", num_iterations, 1)
        if report_every is not None:
            check_count("report_every", report_every, 1)
        for _ in range(num_iterations):
            record = self.step(num_samples)
            if report_every and record.iteration % report_every == 0:
                print(record.report(self.vocab))

    def plot_training_progress(self, resting_point=None):
        """Draw word probabilities, mean reward and the two KLs over the iterations.

        Args:
            resting_point: what `resting_point(...)` returns, or a list of (K,) probabilities; drawn as dotted lines. Of
                `RestingPoint`s the stable ones are drawn.
        Returns:
            plotly.graph_objects.Figure with three panels (plotly is loaded here, not with the module).
        Raises:
            RuntimeError: if nothing has been trained yet.
        """
        from grpo_lib.plots import bandit_figure

        if not self.reward_history:
            raise RuntimeError("there is nothing to plot yet: call train() or step() first")
        drawn = None
        if resting_point is not None:
            drawn = [getattr(point, "probs", point) for point in resting_point if getattr(point, "stable", True)]
        return bandit_figure(
            self.vocab,
            np.array(self.prob_history),
            np.array(self.reward_history),
            np.array(self.kl_div_history),
            np.array(self.kl_ref_history),
            resting_points=drawn,
        )
