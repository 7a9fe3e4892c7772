"""Checks for the exercises: each says what is right, or names the usual slip.

    def my_advantages(rewards): ...
    checks.check_bandit_advantages(my_advantages)

An exercise that is still `...` reads as "not attempted yet". The reference is always the library's own function.
"""

from grpo_lib.attack_exercises import check_attack, check_sturdy_reward
from grpo_lib.bandit_checks import (
    check_bandit_advantages,
    check_bandit_push,
    check_centred_rewards,
    check_kl_divergence,
    check_leave_one_out,
    check_zero_variance_share,
)
from grpo_lib.evaluation_checks import check_mcnemar, check_pairings, check_pass_at_k, check_wilson_interval
from grpo_lib.finetune_checks import check_lora_parameters, check_moves, check_training_bytes
from grpo_lib.logprob_checks import check_perplexity, check_position_ids
from grpo_lib.loss_checks import (
    check_clip_fraction,
    check_clipped_surrogate,
    check_k3,
    check_k3_gradient,
    check_ratio_and_k3,
)
from grpo_lib.mask_checks import check_completion_means, check_truncated
from grpo_lib.museum_exercises import check_diagnosis, check_end_token_test, check_surprise
from grpo_lib.rest_checks import check_largest_rate, check_resting_point
from grpo_lib.reward_exercises import check_form_reward, check_silent_shares
from grpo_lib.sampling_checks import check_group_rows, check_temperature_log_prob, check_top_k_log_probs
from grpo_lib.token_checks import (
    check_completion_mask,
    check_group_advantages,
    check_loss_mask,
    check_token_log_probs,
)
from grpo_lib.variant_checks import (
    check_cispo_weight,
    check_dr_grpo_advantages,
    check_sequence_ratio,
    check_token_weights,
)

__all__ = [
    "check_attack",
    "check_bandit_advantages",
    "check_bandit_push",
    "check_centred_rewards",
    "check_cispo_weight",
    "check_clip_fraction",
    "check_clipped_surrogate",
    "check_completion_mask",
    "check_completion_means",
    "check_diagnosis",
    "check_dr_grpo_advantages",
    "check_end_token_test",
    "check_form_reward",
    "check_group_advantages",
    "check_group_rows",
    "check_k3",
    "check_k3_gradient",
    "check_kl_divergence",
    "check_largest_rate",
    "check_leave_one_out",
    "check_lora_parameters",
    "check_loss_mask",
    "check_mcnemar",
    "check_moves",
    "check_pairings",
    "check_pass_at_k",
    "check_perplexity",
    "check_position_ids",
    "check_ratio_and_k3",
    "check_resting_point",
    "check_sequence_ratio",
    "check_silent_shares",
    "check_sturdy_reward",
    "check_surprise",
    "check_temperature_log_prob",
    "check_token_log_probs",
    "check_token_weights",
    "check_top_k_log_probs",
    "check_training_bytes",
    "check_truncated",
    "check_wilson_interval",
    "check_zero_variance_share",
]
