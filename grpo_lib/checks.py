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
from grpo_lib.claim_checks import check_form_points, check_picked_gain, check_problems_needed
from grpo_lib.estimator_checks import check_bias_and_spread, check_k3_test
from grpo_lib.evaluation_checks import check_mcnemar, check_pairings, check_pass_at_k, check_wilson_interval
from grpo_lib.finetune_checks import (
    check_left_behind,
    check_lora_parameters,
    check_moves,
    check_time_left,
    check_training_bytes,
)
from grpo_lib.logprob_checks import (
    check_logits_memory,
    check_perplexity,
    check_position_ids,
    check_temperature_log_prob,
    check_temperature_ratio,
)
from grpo_lib.loop_checks import (
    check_final_probability,
    check_fresh_loss,
    check_ratio_after_updates,
    check_six_boxes,
)
from grpo_lib.loss_checks import (
    check_clip_fraction,
    check_clipped_surrogate,
    check_k3,
    check_k3_gradient,
    check_ratio_and_k3,
)
from grpo_lib.mask_checks import check_completion_means, check_lengths, check_sequence_masks, check_truncated
from grpo_lib.museum_exercises import check_diagnosis, check_end_token_test, check_seen, check_surprise
from grpo_lib.rest_checks import check_critical_beta, check_group_size, check_largest_rate, check_resting_point
from grpo_lib.reward_exercises import check_form_reward, check_silent_shares, check_turning_point
from grpo_lib.sampling_checks import (
    check_effective_setting,
    check_group_rows,
    check_left_padding,
    check_top_k_log_probs,
    check_total_variation,
)
from grpo_lib.scale_checks import check_decode_floor, check_prompts_a_step, check_split_reward
from grpo_lib.token_checks import (
    check_completion_mask,
    check_group_advantages,
    check_token_log_probs,
)
from grpo_lib.training_checks import check_habits_alone, check_next_beta, check_run_names
from grpo_lib.variant_checks import (
    check_cispo_weight,
    check_dr_grpo_advantages,
    check_sequence_ratio,
    check_token_weights,
)
from grpo_lib.weight_checks import check_completion_pushes, check_grpo_loss

__all__ = [
    "check_attack",
    "check_bandit_advantages",
    "check_bandit_push",
    "check_bias_and_spread",
    "check_centred_rewards",
    "check_cispo_weight",
    "check_clip_fraction",
    "check_clipped_surrogate",
    "check_completion_mask",
    "check_completion_means",
    "check_completion_pushes",
    "check_critical_beta",
    "check_decode_floor",
    "check_diagnosis",
    "check_dr_grpo_advantages",
    "check_effective_setting",
    "check_end_token_test",
    "check_final_probability",
    "check_form_points",
    "check_form_reward",
    "check_fresh_loss",
    "check_group_advantages",
    "check_group_rows",
    "check_group_size",
    "check_grpo_loss",
    "check_habits_alone",
    "check_k3",
    "check_k3_gradient",
    "check_k3_test",
    "check_kl_divergence",
    "check_largest_rate",
    "check_leave_one_out",
    "check_left_behind",
    "check_left_padding",
    "check_lengths",
    "check_logits_memory",
    "check_lora_parameters",
    "check_mcnemar",
    "check_moves",
    "check_next_beta",
    "check_pairings",
    "check_pass_at_k",
    "check_perplexity",
    "check_picked_gain",
    "check_position_ids",
    "check_problems_needed",
    "check_prompts_a_step",
    "check_ratio_after_updates",
    "check_ratio_and_k3",
    "check_resting_point",
    "check_run_names",
    "check_seen",
    "check_sequence_masks",
    "check_sequence_ratio",
    "check_silent_shares",
    "check_six_boxes",
    "check_split_reward",
    "check_sturdy_reward",
    "check_surprise",
    "check_temperature_log_prob",
    "check_temperature_ratio",
    "check_time_left",
    "check_token_log_probs",
    "check_token_weights",
    "check_top_k_log_probs",
    "check_total_variation",
    "check_training_bytes",
    "check_truncated",
    "check_turning_point",
    "check_wilson_interval",
    "check_zero_variance_share",
]
