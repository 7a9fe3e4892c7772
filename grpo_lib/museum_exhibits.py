"""The exhibits of the bug museum, by halls: seen in the reward, seen in another curve, seen in hardly any."""

from grpo_lib import museum_bugs as bugs
from grpo_lib.museum import Exhibit

__all__ = ["EXHIBITS", "find_exhibit"]

_KL = {"beta": 0.5}
_LIST = (
    Exhibit(
        "a reward that pays for an empty answer",
        right="found == gold",
        wrong="found in gold",
        cause='Where no answer is found, found is "", and the empty text is part of any text.',
        check="check_empty_answer_earns_nothing",
        reward=bugs.contained_reward,
    ),
    Exhibit(
        "sign of the KL",
        right="objective = surrogate - beta * kl",
        wrong="objective = surrogate + beta * kl",
        cause="The policy is paid for going away from the reference.",
        check="check_kl_is_a_cost",
        settings=_KL,
        patches={"losses.kl_estimate": bugs.negative},
    ),
    Exhibit(
        "a broadcast advantage",
        right="surrogate = ratio * advantages[:, None]         # (B, T) * (B, 1) = (B, T)",
        wrong="surrogate = ratio * advantages[:, None, None]   # (B, T) * (B, 1, 1) = (B, B, T)",
        cause="Each completion meets the advantages of all, and their mean is 0: nothing is left to learn from.",
        check="check_each_reward_pushes_its_own",
        patches={"losses.clipped_surrogate": bugs.every_advantage_for_every_row},
    ),
    Exhibit(
        "clip with maximum",
        right="surrogate = torch.min(ratio * A, ratio.clip(low, high) * A)",
        wrong="surrogate = torch.max(ratio * A, ratio.clip(low, high) * A)",
        cause="The clip holds back what went the wrong way and lets run what has gone too far.",
        check="check_clip_is_pessimistic",
        settings={"updates_per_rollout": 4, "learning_rate": 2e-4},
        patches={"losses.clipped_surrogate": bugs.optimistic},
    ),
    Exhibit(
        "bfloat16 weights",
        right="load_policy(name, dtype=torch.float32)",
        wrong="load_policy(name, dtype=torch.bfloat16)",
        cause="A bfloat16 number has 8 significant bits: most updates are smaller than the gap to the next one.",
        check="check_weights_move",
        settings={"learning_rate": 1e-4},
        prepare=bugs.to_bfloat16,
    ),
    Exhibit(
        "reference re-synced every step",
        right="ref_sync_every=None",
        wrong="ref_sync_every=1",
        cause="The reference is the policy itself, a step ago: the KL is 0 whatever the policy does; beta is inert.",
        check="check_reference_stays",
        settings=_KL,
        wrong_settings={"ref_sync_every": 1},
    ),
    Exhibit(
        "dropout on",
        right="model.eval()",
        wrong="model.train()",
        cause="Each forward pass drops other units: the policy that is scored is not the one that sampled.",
        check="check_scores_repeat",
        patches={"rollout.evaluation_mode": bugs.leave_as_it_is, "update.evaluation_mode": bugs.leave_as_it_is},
        prepare=bugs.switch_dropout_on,
    ),
    Exhibit(
        "end token cut off the mask",
        right="mask = position <= first_end",
        wrong="mask = position < first_end",
        cause="The end token gets no gradient, so no reward can teach the policy when to stop.",
        check="check_mask_keeps_first_eos",
        patches={"generation.create_completion_mask": bugs.without_end_token},
    ),
    Exhibit(
        "mask by pad id, pad = eos",
        right="mask = create_completion_mask(completion_ids, eos_token_id)",
        wrong="mask = (completion_ids != pad_token_id).long()",
        cause="Where padding and end token share one id, this takes out the end token as well.",
        check="check_mask_ignores_pad_id",
        patches={"generation.create_completion_mask": bugs.by_pad_id},
        parts={"mask": bugs.mask_by_pad_id},
        prepare=bugs.pad_with_eos,
    ),
    Exhibit(
        "KL under no_grad",
        right="kl = kl_estimate(log_probs, ref_log_probs)",
        wrong="with torch.no_grad():\n    kl = kl_estimate(log_probs, ref_log_probs)",
        cause="The KL is in the loss as a number without a gradient: beta changes what is printed, and nothing else.",
        check="check_kl_has_gradient",
        settings=_KL,
        patches={"losses.kl_estimate": bugs.without_gradient},
    ),
    Exhibit(
        "advantages over the batch",
        right="r = rewards.view(-1, G)\nA = (r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + eps)",
        wrong="A = (rewards - rewards.mean()) / (rewards.std() + eps)",
        cause="An answer is compared with answers to other prompts: easy prompts are pushed up, hard ones down.",
        check="check_advantages_stay_in_group",
        patches={"rollout.group_advantages": bugs.over_the_batch},
    ),
    Exhibit(
        "sampled with top-k, scored without",
        right="GenerationConfig(do_sample=True, top_k=0, top_p=1.0)",
        wrong=f"GenerationConfig(do_sample=True, top_k={bugs.TOP_K}, top_p=1.0)",
        cause="Rare tokens are never drawn, yet the scores count their share: what is scored is not what is sampled.",
        check="check_no_token_is_cut",
        patches={"generation.sampling_config": bugs.top_k},
    ),
    Exhibit(
        "temperature on one side only",
        right="compute_log_probs(model, ids, mask, T, temperature=rollout.temperature)",
        wrong="compute_log_probs(model, ids, mask, T)",
        cause="Sampled at one temperature, scored at 1: the log-probs belong to another policy than the samples.",
        check="check_temperature_is_scored",
        settings={"temperature": bugs.TEMPERATURE},
        patches={"rollout.compute_log_probs": bugs.no_temperature},
    ),
    Exhibit(
        "no position ids",
        right="model(input_ids=ids, attention_mask=mask, position_ids=position_ids)",
        wrong="model(input_ids=ids, attention_mask=mask)",
        cause="Learned positions are counted from the left edge, padding included: a padded row is scored wrongly.",
        check="check_padding_changes_nothing",
        patches={"logprobs.position_ids_from_mask": bugs.positions_from_the_edge},
    ),
)
EXHIBITS = {exhibit.name: exhibit for exhibit in _LIST}


def find_exhibit(which):
    """An exhibit by its number in the museum, from 1, or by its name.

    Raises:
        ValueError: on a number or a name that the museum does not have.

    >>> find_exhibit(2).name
    'sign of the KL'
    """
    if which in EXHIBITS:
        return EXHIBITS[which]
    if isinstance(which, int) and 1 <= which <= len(EXHIBITS):
        return _LIST[which - 1]
    raise ValueError(f"the museum has the exhibits 1 to {len(EXHIBITS)}: {', '.join(EXHIBITS)}; got {which!r}")
