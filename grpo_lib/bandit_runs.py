"""Many runs of the bandit, where a run with given settings comes to rest, and its settings in words."""

from dataclasses import dataclass
from inspect import signature

import numpy as np

from grpo_lib._arguments import word_rewards
from grpo_lib.bandit import BanditGRPO, resting_point

EPSILON = signature(BanditGRPO).parameters["epsilon"].default
MOST_REWARDS = 6  # words whose rewards a title lists one by one


@dataclass(frozen=True, eq=False)
class BanditSweep:
    """Runs from one start with one setting, each with its own luck in the samples.

    Attributes:
        vocab: the K words.
        probs: (S, N + 1, K) word probabilities; [:, 0] is the start.
        rewards: (S, N) mean reward of each iteration's samples.
        kl_step: (S, N) KL of one step, nats.
        kl_ref: (S, N + 1) KL to the reference, nats.
        resting_points: list of `RestingPoint`, empty where the runs go to a corner; None where none is known.
    """

    vocab: tuple
    probs: np.ndarray
    rewards: np.ndarray
    kl_step: np.ndarray
    kl_ref: np.ndarray
    resting_points: list | None


def sweep_bandit(
    beta=0.5,
    learning_rate=0.01,
    num_samples=20,
    normalise=True,
    *,
    num_iterations=50,
    sample_seeds=range(20),
    seed=42,
    **options,
):
    """Train the bandit once for each seed of its samples; the start, and so the resting point, stays the same.

    Args:
        beta, learning_rate, num_samples, normalise, num_iterations: one setting, as in `BanditGRPO`.
        sample_seeds: S integers.
        seed: of the start.
        options: further settings of `BanditGRPO`.
    Returns:
        `BanditSweep`.
    Raises:
        ValueError: on a bad setting, or no seed.
        FloatingPointError: if a run blows up.

    >>> sweep = sweep_bandit(beta=1.0, num_iterations=5, sample_seeds=range(3))
    >>> sweep.probs.shape, sweep.resting_points[0].probs.round(3)
    ((3, 6, 4), array([0.624, 0.044, 0.098, 0.234]))
    """
    settings = dict(beta=beta, learning_rate=learning_rate, normalise=normalise, seed=seed, **options)
    runs = [BanditGRPO(**settings, sample_seed=int(sample_seed)) for sample_seed in sample_seeds]
    if not runs:
        raise ValueError("sample_seeds must hold at least one integer, got none")
    for run in runs:
        run.train(num_iterations, num_samples)
    histories = zip(
        *[(r.prob_history, r.reward_history, r.kl_div_history, r.kl_ref_history) for r in runs], strict=True
    )
    return BanditSweep(runs[0].vocab, *map(np.array, histories), resting_points_of(runs[0], num_samples))


def resting_curve(ref_probs, rewards, betas, **options):
    """Find the reward mass at rest for each beta: what the resting points put on the best-paid words.

    Args:
        ref_probs, rewards: (K,) each, as in `resting_point`.
        betas: B numbers > 0.
        options: num_samples, normalise, baseline, kl_direction of `resting_point`.
    Returns:
        stable (B,) and unstable (B,): of the lowest stable point and of the lowest unstable one, NaN where there is
        none. Where both are NaN the run goes to the corner.
    Raises:
        ValueError: as in `resting_point`.

    >>> stable, unstable = resting_curve([0.5, 0.5], [1.0, 0.0], [1.0, 2.0])     # critical_beta is 1.5089
    >>> stable.round(3), unstable.round(3)
    (array([  nan, 0.765]), array([  nan, 0.986]))
    """
    rewards = np.asarray(rewards, dtype=float)
    best, found = rewards == rewards.max(), {True: [], False: []}
    for beta in betas:
        points = resting_point(ref_probs, rewards, beta, **options)
        for kind, masses in found.items():
            masses.append(next((point.probs[best].sum() for point in points if point.stable is kind), np.nan))
    return np.array(found[True]), np.array(found[False])


def resting_points_of(run, num_samples):
    """`resting_point` for the settings of a run; None where it does not hold (several updates on one group)."""
    if run.updates_per_rollout != 1 or (run.normalise and len(set(run.rewards)) > 2):
        return None
    return resting_point(
        run.ref_probs,
        run.rewards,
        run.beta,
        num_samples=num_samples,
        normalise=run.normalise,
        baseline=run.baseline,
        kl_direction=run.kl_direction,
        eps=run.epsilon,
    )


def resting_text(run, points):
    """One line that says where a run with these resting points comes to rest."""
    best = run.rewards == run.rewards.max()
    if best.all():
        return "equal rewards push nowhere: the run rests where it starts, at the reference"
    words = " + ".join(str(word) for word, good in zip(run.vocab, best, strict=True) if good)
    if points is None:
        return "no exact resting point is known for these settings"
    if not points:
        if run.beta == 0:
            return f"no resting point: beta 0 pulls nothing back, the run goes to the corner P({words}) = 1"
        return f"push and pull balance nowhere short of the corner P({words}) = 1, and the run goes there"
    places = [f"P({words}) = {_close_to_one(point.probs[~best].sum())}" for point in points if point.stable]
    text = "dotted: the exact resting point, " + " or ".join(places)
    edges = [_of_one(point.probs[~best].sum()) for point in points if not point.stable]
    if edges:
        text += f"; above {edges[-1]} the corner wins" if not points[-1].stable else f"; the watershed is {edges[-1]}"
    return text


def _close_to_one(rest):
    """1 - rest, in digits that tell it from 1, and how near that is."""
    return _of_one(rest) + ("" if rest >= 0.0005 else ", next to the corner")


def _of_one(rest):
    if rest == 0:  # float64 has nothing between 0 and 5e-324
        return "1 − less than 5e-324"
    return f"{1 - rest:.3f}" if rest >= 0.0005 else f"1 − {rest:.0e}"


def setting_texts(run, num_samples, seed=None, sample_seed=None):
    """{setting: (its value in words, whether to say it of a run that stands alone)}."""
    loo, reverse, several = run.baseline == "loo", run.kl_direction == "reverse", run.updates_per_rollout > 1
    updates = f"{run.updates_per_rollout} updates a rollout" if several else "1 update a rollout"
    clip = "no clip" if run.clip is None else f"clip {run.clip}"
    return {
        "beta": (f"beta {run.beta:g}", True),
        "learning_rate": (f"learning rate {run.learning_rate:.3g}", True),
        "num_samples": (f"{num_samples} samples", True),
        "normalise": ("standardised" if run.normalise else "not standardised", True),
        "baseline": ("baseline leave-one-out" if loo else "baseline mean", loo),
        "kl_direction": ("KL(π‖ref)" if reverse else "KL(ref‖π)", not reverse),
        "updates_per_rollout": (updates, several),
        "clip": (clip, several),
        "reward": (_reward_text(run.rewards), not np.array_equal(run.rewards, word_rewards(run.vocab, None))),
        "epsilon": (f"epsilon {run.epsilon:g}", run.epsilon != EPSILON),
        "num_iterations": (f"{len(run.reward_history)} iterations", False),
        "seed": (f"seed {seed}", False),
        "sample_seed": ("no sample seed" if sample_seed is None else f"sample seed {sample_seed}", False),
    }


def _reward_text(rewards):
    if len(rewards) > MOST_REWARDS:
        return "its own reward"
    return f"reward {', '.join(f'{reward:g}' for reward in rewards)}"


def setting_values(run, num_samples, seed=None, sample_seed=None):
    """{setting: its value}, of the settings of `setting_texts`."""
    names = ("beta", "learning_rate", "normalise", "baseline", "kl_direction", "updates_per_rollout", "clip", "epsilon")
    values = {name: getattr(run, name) for name in names}
    values["clip"] = tuple(run.clip) if isinstance(run.clip, list) else run.clip
    values |= dict(num_samples=num_samples, num_iterations=len(run.reward_history), reward=run.rewards.tolist())
    return values | dict(seed=seed, sample_seed=sample_seed)


def compared_texts(first, second):
    """What two runs have in common, in words, and what is each one's own.

    Args:
        first, second: the arguments of `setting_texts`, of each run.
    Returns:
        three lists of texts: the common settings that are worth saying, the first run's own ones, the second's.
    """
    runs = first, second
    texts, values = [[how(*run) for run in runs] for how in (setting_texts, setting_values)]
    common, own = [], ([], [])
    for name, (text, said) in texts[0].items():
        shown, exact = (text, texts[1][name][0]), [value[name] for value in values]
        if exact[0] == exact[1]:
            common += [text] if said else []
            continue
        if shown[0] == shown[1] and name != "reward":  # numbers so close that rounding hides it
            shown = [f"{name.replace('_', ' ')} {value!r}" for value in exact]
        for texts_of_one, one in zip(own, shown, strict=True):
            texts_of_one.append(one)
    return common, *own


def describe(run, num_samples):
    """The settings of a run in one line."""
    return ", ".join(text for text, said in setting_texts(run, num_samples).values() if said)
