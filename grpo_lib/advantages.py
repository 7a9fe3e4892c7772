"""Rewards of a group of completions → advantages.

Two conventions meet in this course. The language-model part (here, as in TRL) divides by the *sample* standard
deviation, the bandit by the *population* one; the two differ by the factor sqrt((G - 1) / G).
"""

import torch

from grpo_lib._arguments import check_choice, check_count, check_number

__all__ = ["group_advantages", "zero_variance_groups"]

SCALES = ("group", "batch", "none")
BASELINES = ("mean", "loo")


def group_advantages(rewards, num_generations, *, scale="group", baseline="mean", eps=1e-4):
    """Compare each reward with the other rewards of its group.

        A_i = (r_i - mean(r_group)) / (std(r_group) + eps)        # sample standard deviation

    `scale="batch"` divides by the standard deviation of the whole batch, `scale="none"` does not divide (Dr. GRPO).
    `baseline="loo"` subtracts the mean of the *other* rewards of the group (RLOO), which is r_i - mean times G/(G-1).

    Source: Shao et al. 2024, DeepSeekMath, section 4.1 (arXiv:2402.03300); Liu et al. 2025, Dr. GRPO
    (arXiv:2503.20783) for `scale="none"`; Ahmadian et al. 2024, RLOO (arXiv:2402.14740) for `baseline="loo"`.

    Args:
        rewards: (B,), B = P * num_generations, the G rewards of one prompt in consecutive rows.
        num_generations: completions per prompt, G >= 2.
        scale: "group", "batch" or "none".
        baseline: "mean" or "loo".
        eps: added to the standard deviation.
    Returns:
        (B,), zero mean inside each group; exact zeros where the rewards of a group are equal.
    Raises:
        ValueError: if B is not a multiple of G, or G < 2, or a reward is not finite, or an option is unknown.

    >>> group_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0]), 2, eps=0.0)
    tensor([ 0.7071, -0.7071, -0.7071,  0.7071])
    >>> group_advantages(torch.tensor([0.0, 0.0, 0.0, 1.0]), 4, scale="none")
    tensor([-0.2500, -0.2500, -0.2500,  0.7500])
    """
    groups = _groups(rewards, num_generations)  # (P, G)
    check_choice("scale", scale, SCALES)
    check_choice("baseline", baseline, BASELINES)
    check_number("eps", eps, 0)
    centred = groups - groups.mean(dim=1, keepdim=True)  # (P, G)
    centred[_equal(groups)] = 0.0  # a mean may round, equal rewards must not push
    if baseline == "loo":
        centred = centred * (num_generations / (num_generations - 1))
    if scale == "group":
        centred = _divide(centred, groups.std(dim=1, keepdim=True) + eps)
    elif scale == "batch":
        centred = _divide(centred, groups.std() + eps)
    if not torch.isfinite(centred).all():
        raise ValueError(
            f"rewards up to {groups.abs().max().item():.3g} are too large for {groups.dtype}: scale them down"
        )
    return centred.flatten()


def zero_variance_groups(rewards, num_generations):
    """Mark the groups whose rewards are all equal: they carry no learning signal.

    They stay in the batch: their tokens count in the loss's averages, and with beta > 0 the KL term pulls at them too.

    Args:
        rewards: (B,), B = P * num_generations.
        num_generations: completions per prompt, G >= 2.
    Returns:
        (P,) bool.
    Raises:
        ValueError: as for `group_advantages`.

    >>> zero_variance_groups(torch.tensor([1.0, 1.0, 0.0, 1.0]), 2)
    tensor([ True, False])
    """
    return _equal(_groups(rewards, num_generations))


def _groups(rewards, num_generations):
    check_count("num_generations", num_generations, 2, why=": a group of one has nothing to compare with")
    rewards = torch.as_tensor(rewards)
    if not rewards.is_floating_point():
        rewards = rewards.float()
    if rewards.ndim != 1 or len(rewards) == 0 or len(rewards) % num_generations:
        raise ValueError(
            f"rewards must have shape (B,) with B a positive multiple of num_generations = {num_generations}, "
            f"got shape {tuple(rewards.shape)}"
        )
    if not torch.isfinite(rewards).all():
        row = int((~torch.isfinite(rewards)).nonzero()[0])
        raise ValueError(f"rewards must be finite, got {rewards[row].item()} in row {row}")
    return rewards.view(-1, num_generations)


def _equal(groups):
    return groups.amax(dim=1) == groups.amin(dim=1)


def _divide(centred, std):
    return torch.where(centred == 0, torch.zeros_like(centred), centred / std)  # 0 / 0 with eps = 0 is 0 here
