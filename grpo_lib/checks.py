"""Checks for the exercises: each says what is right, or names the usual slip.

    def my_advantages(rewards): ...
    checks.check_bandit_advantages(my_advantages)

An exercise that is still `...` reads as "not attempted yet". The reference is always the library's own function.
"""

from grpo_lib.bandit_checks import (
    check_bandit_advantages,
    check_bandit_push,
    check_centred_rewards,
    check_kl_divergence,
    check_leave_one_out,
    check_zero_variance_share,
)
from grpo_lib.evaluation_checks import check_mcnemar, check_pairings, check_pass_at_k, check_wilson_interval
from grpo_lib.loss_checks import (
    check_clip_fraction,
    check_clipped_surrogate,
    check_k3,
    check_k3_gradient,
    check_ratio_and_k3,
)
from grpo_lib.rest_checks import check_largest_rate, check_resting_point
from grpo_lib.token_checks import (
    check_completion_mask,
    check_group_advantages,
    check_loss_mask,
    check_token_log_probs,
)

__all__ = [
    "check_bandit_advantages",
    "check_bandit_push",
    "check_centred_rewards",
    "check_clip_fraction",
    "check_clipped_surrogate",
    "check_completion_mask",
    "check_group_advantages",
    "check_k3",
    "check_k3_gradient",
    "check_kl_divergence",
    "check_largest_rate",
    "check_leave_one_out",
    "check_loss_mask",
    "check_mcnemar",
    "check_pairings",
    "check_pass_at_k",
    "check_ratio_and_k3",
    "check_resting_point",
    "check_token_log_probs",
    "check_wilson_interval",
    "check_zero_variance_share",
]
