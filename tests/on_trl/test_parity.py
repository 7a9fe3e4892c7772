"""Our loss, gradients, log-probs and advantages against TRL's own code: on one batch, and through its real trainer."""

import copy
from dataclasses import replace

import pytest

pytest.importorskip("trl")

import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from grpo_lib.advantages import group_advantages  # noqa: E402
from grpo_lib.clock import PhaseClock  # noqa: E402
from grpo_lib.grpo import Rollout, rollout_loss, score_rollout  # noqa: E402
from grpo_lib.losses import LEVELS, LOSS_TYPES  # noqa: E402
from grpo_lib.masks import truncated_completions  # noqa: E402
from grpo_lib.records import GRPOSettings  # noqa: E402
from grpo_lib.reference import sync_reference  # noqa: E402
from grpo_lib.schedule import learning_rate_factor  # noqa: E402
from grpo_lib.trl_parity import compare_losses, our_loss, parity_batch, parity_variants, trl_loss  # noqa: E402
from grpo_lib.update import update_policy  # noqa: E402

LOSS, GRADIENT = 1e-6, 1e-5
KLS = {"no KL": (0.0, False), "k3": (0.1, False), "ratio k3": (0.1, True)}


def lengths(prompts, completions, **_):
    return [float(len(text) % 5) for text in completions]


# --- on one batch of log-probs


@pytest.mark.parametrize("name", parity_variants())
def test_each_variant_is_trl_s(name):
    [row] = compare_losses([name], live=True)
    assert row.source == "live"
    assert row.difference <= LOSS and row.gradient_difference <= GRADIENT
    assert row.difference <= 1e-14 and row.gradient_difference <= 1e-14  # in float64 nothing but rounding is left


def test_the_stored_values_are_what_this_trl_says():
    for live, stored in zip(compare_losses(live=True), compare_losses(live=False), strict=True):
        assert live.variant == stored.variant and abs(live.trl - stored.trl) < 1e-14
        assert abs(live.gradient_difference - stored.gradient_difference) < 1e-14


def arguments(seed, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    new = -2 + torch.randn(6, 7, generator=g)
    old, ref = (new + 0.5 * torch.randn(6, 7, generator=g) for _ in range(2))
    mask = (torch.arange(7) < torch.tensor([7, 1, 3, 0, 5, 7])[:, None]).long()  # row 3 was cut, and left out
    return [x.to(dtype) for x in (new, old, ref)] + [torch.randn(6, generator=g).to(dtype), mask]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_random_batches_in_single_precision(loss_type, level, seed):
    kinds = [*KLS.values()]
    beta, bias = kinds[seed]
    options = dict(loss_type=loss_type, importance_sampling_level=level, beta=beta, bias_correction_kl=bias)
    settings = GRPOSettings(max_completion_length=9, epsilon_high=0.3, **options)
    batch = arguments(seed)
    ours, theirs = our_loss(settings, *batch), trl_loss(settings, *batch)
    scale = max(1.0, theirs[0].abs().item())
    assert abs(ours[0] - theirs[0]) <= LOSS * scale
    assert (ours[1] - theirs[1]).abs().max() <= GRADIENT
    assert theirs[1].abs().max() > 1e-3 and (theirs[1][3] == 0).all()


def test_another_setting_is_seen():
    batch = parity_batch()
    del batch["truncated"]
    for name, change in {"epsilon": 0.3, "epsilon_high": 0.3, "beta": 0.2, "delta": 1.1, "loss_type": "dapo"}.items():
        settings = GRPOSettings(beta=0.1, max_completion_length=6)
        ours = our_loss(replace(settings, **{name: change}), *batch.values())
        theirs = trl_loss(settings, *batch.values())
        assert (ours[1] - theirs[1]).abs().max() > GRADIENT, name


# --- through the real trainer


def rollout_of(trainer, batch, settings):
    """TRL's own generated and scored batch, as a `Rollout` without log-probs."""
    rewards = torch.tensor(list(trainer._logs["rewards"]["lengths"]))
    stop = trainer.eos_token_ids
    cut = torch.stack(
        [
            truncated_completions(ids[keep.bool()][None], stop)[0] if keep.any() else torch.tensor(True)
            for ids, keep in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
        ]
    )
    texts = list(trainer._logs["completion"])
    return Rollout(
        prompts=list(trainer._logs["prompt"]),
        answers=[""] * len(texts),
        completions=texts,
        texts=texts,
        prompt_ids=batch["prompt_ids"],
        prompt_mask=batch["prompt_mask"],
        completion_ids=batch["completion_ids"],
        completion_mask=batch["completion_mask"].long(),
        truncated=cut,
        rewards=rewards,
        advantages=group_advantages(rewards, settings.num_generations, scale=settings.scale),
        num_generations=settings.num_generations,
        temperature=settings.temperature,
    )


def moved(model, seed=1):
    """The same small change of every weight, so that π is neither π_old nor π_ref."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.03 * torch.randn(parameter.shape, generator=g)
    return model


def largest(ours, theirs):
    return max(
        (a.grad - b.grad).abs().max().item() for a, b in zip(ours.parameters(), theirs.parameters(), strict=True)
    )


@pytest.mark.parametrize("kl", KLS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_a_real_trainer_s_batch_gives_our_loss_and_gradients(loss_type, level, kl, random_qwen, real_trainer, sampled):
    beta, bias = KLS[kl]
    settings = GRPOSettings(
        batch_size=3,
        max_completion_length=8,
        beta=beta,
        bias_correction_kl=bias,
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon_high=0.25,
        mask_truncated_completions=kl == "ratio k3",
        scale={"no KL": "group", "k3": "batch", "ratio k3": "none"}[kl],
        temperature=0.9,
        updates_per_rollout=2,  # so that TRL keeps the old log-probs
    )
    trainer = real_trainer(settings, lengths)
    _, batch = sampled(trainer)
    keep = batch["completion_mask"]
    assert (
        len(set(batch["prompt_mask"].sum(dim=1).tolist())) > 1 and (batch["prompt_mask"][:, 0] == 0).any()
    )  # padded left
    assert len(set(keep.sum(dim=1).tolist())) > 2

    ours = AutoModelForCausalLM.from_pretrained(random_qwen).train()
    rollout = rollout_of(trainer, batch, settings)
    torch.testing.assert_close(rollout.advantages, batch["advantages"], rtol=0, atol=LOSS)
    start = score_rollout(ours, rollout)
    mine, theirs = (torch.where(keep.bool(), x, 0) for x in (start, batch["old_per_token_logps"]))
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)
    if beta:
        assert torch.equal(batch["ref_per_token_logps"], batch["old_per_token_logps"])  # both are the start
    moved(ours), moved(trainer.model)
    rollout = replace(rollout, old_log_probs=start, ref_log_probs=start if beta else None)
    loss, watch = rollout_loss(ours, rollout, **settings.loss_options)
    their_loss = trainer.compute_loss(trainer.model, batch)
    loss.backward(), their_loss.backward()
    assert abs(loss - their_loss) <= LOSS * max(1.0, abs(their_loss.item()))
    assert largest(ours, trainer.model) <= GRADIENT * max(1.0, max(p.grad.abs().max() for p in ours.parameters()))
    assert watch["ratio"][keep.bool()].std() > 0.02 and max(p.grad.abs().max() for p in ours.parameters()) > 1e-3


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("num_generations", [2, 4])
def test_advantages_are_trl_s_also_of_groups_without_spread(scale, num_generations, real_trainer, sampled):
    def reward(prompts, completions, level, **_):  # the groups of levels 0 and 1: all equal
        return [7.3 if row < 2 else float(len(text)) for row, text in zip(level, completions, strict=True)]

    reward.__name__ = "lengths"
    settings = GRPOSettings(
        batch_size=5, num_generations=num_generations, max_completion_length=8, beta=0.0, scale=scale
    )
    trainer = real_trainer(settings, reward)
    _, batch = sampled(trainer)
    found = group_advantages(torch.tensor(list(trainer._logs["rewards"]["lengths"])), num_generations, scale=scale)
    torch.testing.assert_close(found, batch["advantages"], rtol=0, atol=LOSS)
    assert (found == 0).sum() >= 2 * num_generations and (found != 0).any()


# --- whole steps

RUNS = {
    "two updates, grpo": dict(updates_per_rollout=2, beta=0.1, max_grad_norm=0.1),
    "parts of three, dapo": dict(loss_type="dapo", micro_batch_size=3, beta=0.0, max_grad_norm=None),
    "warm-up and cosine": dict(warmup_steps=2, schedule="cosine", schedule_steps=5, updates_per_rollout=2, beta=0.0),
    "reference synced, decay": dict(ref_sync_every=2, beta=0.3, updates_per_rollout=2, weight_decay=0.1),
    "parts and updates, dr_grpo, cut ones left out": dict(
        loss_type="dr_grpo", micro_batch_size=6, updates_per_rollout=2, mask_truncated_completions=True, beta=0.04
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_whole_steps_leave_the_same_weights(name, random_qwen, real_trainer, monkeypatch):
    """TRL trains; the same optimizer steps of ours on what it sampled end with the same weights."""
    settings = GRPOSettings(batch_size=3, max_completion_length=8, learning_rate=2e-3, **RUNS[name])
    trainer, rollouts = real_trainer(settings, lengths, num_steps=3), []
    generate = trainer._generate_and_score_completions

    def remembered(rows):
        batch = generate(rows)
        rollouts.append(rollout_of(trainer, batch, settings))
        return batch

    monkeypatch.setattr(trainer, "_generate_and_score_completions", remembered)
    trainer.train()
    assert len(rollouts) == 3 and trainer.state.global_step == 3 * settings.updates_per_rollout

    ours = AutoModelForCausalLM.from_pretrained(random_qwen)
    reference, start = copy.deepcopy(ours), copy.deepcopy(ours)
    decayed = [p for n, p in ours.named_parameters() if "norm" not in n]  # as TRL's optimizer has it
    others = [p for n, p in ours.named_parameters() if "norm" in n]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
    for step, rollout in enumerate(rollouts, 1):
        if settings.beta:
            rollout = replace(rollout, ref_log_probs=score_rollout(reference, rollout))
        factor = learning_rate_factor(settings.schedule, step, settings.warmup_steps, settings.schedule_steps)
        update_policy(
            ours, optimizer, rollout, settings, settings.learning_rate * factor, PhaseClock(torch.device("cpu"))
        )
        if settings.ref_sync_every and step % settings.ref_sync_every == 0:
            sync_reference(reference, ours)
    rates = [entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry]
    assert len(rates) == 3
    far = max((p - q).abs().max() for p, q in zip(ours.parameters(), start.parameters(), strict=True))
    apart = max((p - q).abs().max() for p, q in zip(ours.parameters(), trainer.model.parameters(), strict=True))
    assert far > 1e-3 and apart < 2e-3 * far, (far, apart)
