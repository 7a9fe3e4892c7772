"""Runs from which nothing can be learned say so at once, once, and keep what was saved."""

import itertools
import re
import warnings

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

from grpo_lib.checkpoints import latest_checkpoint
from grpo_lib.precision import moving_share
from grpo_lib.training import GRPORun, GRPOSettings, train_with_grpo

DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
FAST = {"batch_size": 3, "max_completion_length": 6, "learning_rate": 3e-3, "max_grad_norm": 1.0, "beta": 0.0}


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def equal(prompts, completions, answer, **kwargs):
    return [1.5] * len(completions)


def by_prompt(prompts, completions, answer, **kwargs):
    """Differs from group to group and never within one."""
    return [float(sum(map(ord, prompt))) for prompt in prompts]


def model(dtype=torch.float32):
    torch.manual_seed(0)
    return tiny_model("qwen3", initializer_range=0.6).eval().to(dtype)


def start(policy=None, reward=count_w5, **settings):
    settings = GRPOSettings(**{**FAST, **settings})
    return GRPORun(policy or model(), CountingTokenizer(), DATA, settings, reward_function=reward)


def said(action):
    """The texts of the warnings that an action gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(w.message) for w in caught if re.search("rewards are |bfloat16", str(w.message))]


# ---- groups without a difference


@pytest.mark.parametrize(("reward", "mean"), [(equal, "1.5"), (by_prompt, r"\d+\S*")])
def test_no_group_that_differs_is_said_at_the_first_step_and_again_when_it_lasts(reward, mean):
    run = start(reward=reward)
    before = [p.clone() for p in run.model.parameters()]
    steps = [said(lambda: next(run)) for _ in range(12)]
    assert all(torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True)), "nothing is learned"
    assert [len(texts) for texts in steps] == [1, *8 * [0], 1, 0, 0]
    assert re.match(rf"step 1: within every group the rewards are equal \(their mean is {mean};", steps[0][0])
    assert steps[9][0].startswith("steps 1 to 10: share of zero-variance groups 1.00")
    assert "KL term" not in steps[9][0] and "earlier checkpoint" in steps[9][0]


def test_a_collapse_is_said_when_it_has_lasted():
    run = start(beta=0.1)
    list(itertools.islice(run, 3))
    run.reward_function = equal
    steps = [said(lambda: next(run)) for _ in range(11)]
    [[number, [text]]] = [(i, texts) for i, texts in enumerate(steps, start=4) if texts]
    flat = sum(record.zero_variance for record in run.history[number - 10 : number]) / 10
    assert flat >= 0.8 > sum(record.zero_variance for record in run.history[number - 11 : number - 1]) / 10
    assert f"steps {number - 9} to {number}: share of zero-variance groups {flat:.2f}" in text


def test_where_no_group_differs_the_kl_term_alone_moves_the_weights():
    run = start(reward=equal, beta=0.1)
    first, text = said(lambda: list(itertools.islice(run, 10)))
    assert "the KL term alone moves the weights" in text


def test_one_group_that_differs_is_enough():
    def one(prompts, completions, answer, **kwargs):
        return [1.0] + [0.0] * (len(completions) - 1)

    run = start(reward=one)
    assert said(lambda: list(itertools.islice(run, 9))) == []


@pytest.mark.parametrize(("masked", "words"), [(False, "if rewards stay flat, raise it"), (True, "nothing is learned")])
def test_every_completion_cut_is_said_and_what_masking_makes_of_it(masked, words):
    run = start(max_completion_length=1, mask_truncated_completions=masked)
    run.model.lm_head.register_forward_hook(lambda m, i, out: out - 1e4 * (torch.arange(11) == 1))
    with pytest.warns(UserWarning, match=f"every completion was cut at max_completion_length = 1; .*{words}"):
        next(run)


@pytest.mark.filterwarnings("ignore:step .*")
@pytest.mark.parametrize(("reward", "cap"), [(equal, 6), (count_w5, 1)])
def test_what_was_saved_stays_when_rewards_fall_silent_or_all_is_cut(reward, cap, tmp_path):
    history, policy = [], model()
    policy.lm_head.register_forward_hook(lambda m, i, out: out - 1e4 * (torch.arange(11) == 1) * (cap == 1))
    arguments = {**FAST, "reward_function": reward, "quiet": True, "history": history, "max_completion_length": cap}
    train_with_grpo(policy, CountingTokenizer(), DATA, 6, checkpoint_dir=tmp_path, checkpoint_every=2, **arguments)
    assert all(record.truncated == 1.0 for record in history) or cap > 1
    assert latest_checkpoint(tmp_path).name == "step-000006" and len(history) == 6


# ---- 16-bit weights


@pytest.mark.parametrize("rate", [1e-6, 1e-5, 1e-4, 1e-3])
def test_the_share_is_what_a_step_of_adamw_really_changes(rate):
    torch.manual_seed(0)
    weights = torch.nn.Parameter((0.02 * torch.randn(20_000)).bfloat16())
    expected = moving_share([weights], rate)
    before = weights.detach().clone()
    optimizer = torch.optim.AdamW([weights], lr=rate, weight_decay=0.0)
    weights.grad = torch.where(torch.arange(20_000) % 2 == 0, 1.0, -1.0).bfloat16()
    optimizer.step()
    changed = (weights != before).float().mean().item()
    assert expected == pytest.approx(changed, abs=0.02) and 0 < expected <= 1


def test_a_weight_of_two_hundredths_does_not_move_at_a_millionth():
    one = torch.tensor([0.02]).bfloat16()
    assert [moving_share([one], rate) for rate in (1e-6, 4e-5, 7e-5)] == [0.0, 0.0, 1.0]
    assert moving_share([one.half()], 1e-6) == 0.0 and moving_share([one.half()], 1e-5) == 1.0
    assert moving_share([one.float()], 1e-6) is None and moving_share([], 1e-6) is None
    assert moving_share([one.float(), one], 1e-6) == 0.0, "only the 16-bit ones are asked"


def test_a_run_says_once_that_its_16_bit_weights_will_not_move_and_what_to_do():
    policy = model(torch.bfloat16)
    with pytest.warns(UserWarning, match=r"bfloat16: at learning_rate 1e-06 .* changes 0\.\d% of them.*float32.*LoRA"):
        run = start(policy, learning_rate=1e-6)
    assert said(lambda: run.change(learning_rate=1e-7)) == []
    assert said(lambda: start(learning_rate=1e-6)) == [], "fp32 weights do move"
