"""The inspector opens on a run's newest step: with its log-probs, its loss, and ratios that have moved off 1."""

import copy

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

from grpo_lib import GRPORun, GRPOSettings, policy_loss
from grpo_lib.grpo import score_rollout
from grpo_lib.held_run import inspect_newest

DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
FAST = dict(batch_size=2, max_completion_length=5, learning_rate=3e-3, max_grad_norm=1.0, track_kl=True)


def count_w5(prompts, completions, answer):
    return [float(text.split().count("w5")) for text in completions]


def start(**settings):
    torch.manual_seed(0)
    model = tiny_model("qwen3", initializer_range=0.6).eval()
    settings = GRPOSettings(**{**FAST, **settings})
    return GRPORun(model, CountingTokenizer(), DATA, settings, reward_function=count_w5)


@pytest.mark.filterwarnings("ignore:step .* every completion was cut")
@pytest.mark.parametrize(
    "settings",
    [
        dict(beta=0.3, updates_per_rollout=3),
        dict(beta=0.0, micro_batch_size=3),
        dict(beta=0.2, loss_type="dr_grpo", epsilon=0.1, epsilon_high=0.3, temperature=0.7),
        dict(beta=0.1, loss_type="sapo", sapo_temperatures=(2.0, 3.0), mask_truncated_completions=True),
        dict(beta=0.1, loss_type="dapo", importance_sampling_level="sequence", bias_correction_kl=True),
    ],
)
def test_the_inspector_shows_the_loss_of_one_more_update_on_the_newest_rollout(settings):
    run = start(**settings)
    next(run)
    sampled_by = copy.deepcopy(run.model)
    next(run)
    inspector = inspect_newest(run, completion=1)
    seen, keep = inspector.view.inspection, run.rollout.loss_mask(run.settings.mask_truncated_completions)
    logs = [score_rollout(model, run.rollout).double() for model in (run.model, sampled_by, run.reference)]
    options = run.settings.loss_options
    del options["mask_truncated_completions"]
    loss, watch = policy_loss(*logs, run.rollout.advantages.double(), keep, **options)
    assert seen.loss == pytest.approx(loss.item(), abs=1e-6)
    assert torch.equal(seen.mask, keep) and inspector.view.completion == 1
    moved = (logs[0] - logs[1]).exp()[keep.bool()]
    if settings.get("importance_sampling_level") != "sequence":
        torch.testing.assert_close(seen.ratio[keep.bool()], moved, rtol=1e-5, atol=0)
    assert (moved - 1).abs().max() > 1e-3
    assert (inspector.beta.value, inspector.loss_type.value) == (run.settings.beta, run.settings.loss_type)
    inspector.beta.value = 0.7  # the reference is there
    assert inspector.view.inspection.options["beta"] == 0.7 and inspector.error is None
    inspector.close()


@pytest.mark.filterwarnings("ignore:step .* every completion was cut")
@pytest.mark.parametrize("updates", [1, 3])
def test_the_runs_rollout_holds_the_log_probs_of_the_policy_that_sampled_it(updates):
    run = start(beta=0.1, updates_per_rollout=updates, micro_batch_size=3)
    sampled_by = copy.deepcopy(run.model)
    next(run)
    keep = run.rollout.completion_mask.bool()
    torch.testing.assert_close(run.rollout.old_log_probs[keep], score_rollout(sampled_by, run.rollout)[keep])


@pytest.mark.filterwarnings("ignore:step .* every completion was cut")
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_where_the_model_has_not_moved_every_ratio_is_one_in_the_runs_own_precision(autocast):
    run = start(beta=0.1, autocast=autocast)
    sampled_by = copy.deepcopy(run.model.state_dict())
    next(run)
    run.model.load_state_dict(sampled_by)  # as if the update had not been
    seen = inspect_newest(run).view.inspection
    assert (seen.ratio[seen.mask.bool()] == 1).all()


def test_before_the_first_step_it_says_what_is_missing():
    with pytest.raises(RuntimeError, match="no rollout to inspect yet: take a training step first"):
        inspect_newest(start(beta=0.1))
