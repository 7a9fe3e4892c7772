"""The bug museum: every exhibit is caught by exactly its check, the library is whole afterwards, the curves real."""

import contextlib
import importlib
import json
import re
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from grpo_lib import museum_checks, museum_exercises, museum_tensor_checks
from grpo_lib.adapters import add_lora
from grpo_lib.losses import policy_loss
from grpo_lib.masks import create_completion_mask
from grpo_lib.models import load_tiny_policy
from grpo_lib.museum import BASE, course_parts, new_run
from grpo_lib.museum_exhibits import EXHIBITS, find_exhibit
from grpo_lib.museum_plots import catch_figure, exhibit_figure, padding_figure, watched_figure
from grpo_lib.museum_runs import (
    ARMS,
    COLUMNS,
    FILE,
    LOGGED,
    NO_RUNS,
    NUM_STEPS,
    SEEDS,
    exhibit_runs,
    fixed_arm,
    load_museum_runs,
    measure_policy,
    run_arm,
    run_difference,
)
from grpo_lib.museum_tensor_checks import (
    Finding,
    check_advantages_stay_in_group,
    check_clip_is_pessimistic,
    check_each_reward_pushes_its_own,
    check_empty_answer_earns_nothing,
    check_kl_has_gradient,
    check_kl_is_a_cost,
    check_mask_ignores_pad_id,
    check_mask_keeps_first_eos,
)
from grpo_lib.museum_tour import CHECKS, examine, reveal
from grpo_lib.plot_style import alt_text
from grpo_lib.records import GRPOSettings
from grpo_lib.reward_attacks import regex_reward, substring_reward
from grpo_lib.rewards import combined_reward, correctness_reward, format_reward
from grpo_lib.rollout import collect_rollout
from grpo_lib.run import GRPORun
from grpo_lib.tasks import addition_reward, load_addition

each_exhibit = pytest.mark.parametrize("name", EXHIBITS)
RAN = [name for name in EXHIBITS if name not in NO_RUNS]


# ---------------------------------------------------------------- checks × exhibits


@each_exhibit
def test_an_exhibit_is_caught_by_its_check_and_by_no_other(name):
    caught, wrong = [], []
    for check in CHECKS:
        broken, fixed = examine(name, check)
        assert broken.check == fixed.check == check
        caught += [] if broken else [check]
        wrong += [] if fixed else [check]
    assert caught == [EXHIBITS[name].check] and wrong == []


def test_there_are_as_many_checks_as_exhibits():
    assert len(EXHIBITS) == len(CHECKS) == 14
    assert {exhibit.check for exhibit in EXHIBITS.values()} == set(CHECKS)


@each_exhibit
def test_after_the_block_the_library_is_what_it_was(name):
    places = [place.rpartition(".") for place in EXHIBITS[name].patches]
    objects = [(importlib.import_module(f"grpo_lib.{module}"), function) for module, _, function in places]
    before = [getattr(module, function) for module, function in objects]
    with contextlib.suppress(KeyError), EXHIBITS[name].broken():
        inside = [getattr(module, function) for module, function in objects]
        assert all(old is not new for old, new in zip(before, inside, strict=True))
        raise KeyError  # also after an exception
    assert [getattr(module, function) for module, function in objects] == before


@each_exhibit
def test_a_bug_differs_from_its_fix_in_one_thing(name):
    exhibit = EXHIBITS[name]
    assert exhibit.right != exhibit.wrong and exhibit.cause.endswith(".")
    prepared = type(exhibit).__dataclass_fields__["prepare"].default is not exhibit.prepare
    ways = [bool(exhibit.patches), bool(exhibit.wrong_settings), prepared, exhibit.reward is not addition_reward]
    assert sum(ways) == 1 or name in ("dropout on", "mask by pad id, pad = eos")  # patched, and needs its model so
    shown = reveal(name)
    assert exhibit.name in shown and "broken  ✗ " + exhibit.check in shown and "fixed   ✓ " + exhibit.check in shown


def test_exhibits_are_found_by_number_and_by_name():
    assert [find_exhibit(i + 1).name for i in range(14)] == list(EXHIBITS)
    assert find_exhibit("dropout on") is EXHIBITS["dropout on"]
    for which in (0, 15, "dropout", None, True + 0.5):
        with pytest.raises(ValueError, match="the museum has the exhibits 1 to 14: a reward that pays"):
            find_exhibit(which)


# ---------------------------------------------------------------- each check on siblings of its bug


def test_mask_checks_on_other_wrong_masks():
    def wrong(change):
        return lambda ids, eos, pad: change(create_completion_mask(ids, eos), ids)

    for change in (lambda mask, ids: torch.ones_like(mask), lambda mask, ids: mask.roll(1, dims=1)):
        assert not check_mask_keeps_first_eos(wrong(change))
    cut_rows_out = wrong(lambda mask, ids: mask * (ids == 2).any(dim=1, keepdim=True))
    assert not check_mask_keeps_first_eos(cut_rows_out) and check_mask_ignores_pad_id(cut_rows_out)
    right = wrong(lambda mask, ids: mask)
    assert check_mask_keeps_first_eos(right) and check_mask_ignores_pad_id(right)


def test_advantage_check_on_relatives_that_are_right_and_on_rows_out_of_order():
    from grpo_lib.advantages import group_advantages

    for options in (dict(scale="none"), dict(scale="batch"), dict(baseline="loo")):
        assert check_advantages_stay_in_group(lambda r, G, o=options: group_advantages(r, G, **o))
    tiled = lambda r, G: group_advantages(r.view(G, -1).T.flatten(), G).view(-1, G).T.flatten()  # noqa: E731
    assert not check_advantages_stay_in_group(tiled)
    assert not check_advantages_stay_in_group(lambda r, G: r)


def _group_gaps(r, G):
    r = r.view(-1, G)
    return r - r.mean(dim=1, keepdim=True)


@pytest.mark.parametrize(
    "shown", [lambda A: A, lambda A: A.numpy(), lambda A: A.flatten().tolist(), lambda A: A.T.clone().T]
)
def test_advantages_may_come_in_any_form(shown):
    assert check_advantages_stay_in_group(lambda r, G: shown(_group_gaps(r, G)))


def test_advantages_that_are_nan_where_rewards_are_equal_are_caught():
    found = check_advantages_stay_in_group(lambda r, G: _group_gaps(r, G) / r.view(-1, G).std(dim=1, keepdim=True))
    assert not found and "0.00, nan, 0.00: equal rewards have std 0" in found.message
    batch = lambda r, G: (r.view(-1) - r.view(-1).mean()) / r.view(-1).std()  # noqa: E731
    assert not check_advantages_stay_in_group(batch)


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dapo", "sapo", "cispo", "luspo"])
def test_loss_checks_on_the_loss_family(loss_type):
    def loss(*tensors, beta):
        return policy_loss(*tensors, beta=beta, loss_type=loss_type)[0]

    assert check_kl_is_a_cost(loss) and check_kl_has_gradient(loss) and check_each_reward_pushes_its_own(loss)
    clips = loss_type not in ("sapo", "cispo")  # these two never cut a gradient off
    assert bool(check_clip_is_pessimistic(loss)) is clips


def test_loss_checks_on_hand_written_losses():
    def hand(new, old, ref, advantages, mask, *, beta, d=lambda new, ref: ref - new, surrogate=None):
        ratio, gap, A = (new - old).exp(), d(new, ref), advantages[:, None]
        push = (surrogate or (lambda r, a: torch.min(r * a, r.clip(0.8, 1.2) * a)))(ratio, A)
        return -((push - beta * (gap.exp() - gap - 1)) * mask).sum() / mask.sum()

    def with_(**change):
        return lambda *tensors, beta: hand(*tensors, beta=beta, **change)

    for check in (check_kl_is_a_cost, check_kl_has_gradient, check_each_reward_pushes_its_own):
        assert check(hand)
    assert check_clip_is_pessimistic(hand)
    assert not check_clip_is_pessimistic(with_(surrogate=lambda r, a: r * a))  # no clip
    assert not check_clip_is_pessimistic(with_(surrogate=lambda r, a: r.clip(0.8, 1.2) * a))  # no minimum
    assert not check_each_reward_pushes_its_own(with_(surrogate=lambda r, a: -r * a))  # climbs down
    assert not check_each_reward_pushes_its_own(with_(surrogate=lambda r, a: r * a.abs()))
    assert not check_kl_has_gradient(with_(d=lambda new, ref: (ref - new).detach()))
    assert not check_kl_has_gradient(with_(d=lambda new, ref: 0 * (ref - new)))  # beta not used


def _written_otherwise(kl="k3", sign=1, push=None, seen=lambda kl: kl):
    estimators = {"k1": lambda d: d, "k2": lambda d: d**2 / 2, "k3": lambda d: torch.expm1(-d) + d}

    def loss(log_probs, old, ref, A, mask, beta=0.0):
        A = A.unsqueeze(-1).expand_as(log_probs) if push is None else A
        ratio = torch.exp(log_probs - old)
        worst = (push or (lambda r, A: torch.maximum(-r * A, -r.clamp(0.8, 1.2) * A)))(ratio, A)
        per_token = worst + sign * beta * seen(estimators[kl](log_probs - ref))
        return ((per_token * mask).sum(dim=1) / mask.sum(dim=1)).mean()

    return loss


@pytest.mark.parametrize("kl", ["k1", "k2", "k3"])
def test_the_sign_of_every_kl_estimator_is_told(kl):
    checks = (check_kl_is_a_cost, check_kl_has_gradient, check_each_reward_pushes_its_own, check_clip_is_pessimistic)
    assert all(check(_written_otherwise(kl)) for check in checks)
    assert not check_kl_is_a_cost(_written_otherwise(kl, sign=-1))


@pytest.mark.parametrize("seen", [lambda kl: kl.detach(), lambda kl: kl.data, lambda kl: kl.mean().item()])
def test_every_way_to_lose_the_gradient_of_the_kl_is_caught(seen):
    assert not check_kl_has_gradient(_written_otherwise(seen=seen))


@pytest.mark.parametrize(
    "push",
    [
        lambda ratio, A: -ratio * A,  # (B, T) * (B,), silent where B = T
        lambda ratio, A: -(ratio.mean(dim=1, keepdim=True) * A).mean(dim=1, keepdim=True),  # (B, 1) * (B,) = (B, B)
        lambda ratio, A: -ratio * A.mean(),
    ],
)
def test_every_broadcast_is_caught(push):
    assert not check_each_reward_pushes_its_own(_written_otherwise(push=push))


def test_nan_is_no_pass():
    def nothing(log_probs, *others, beta):
        return log_probs.sum() * torch.nan

    def scores(*arguments):
        return course_parts().score(*arguments) * torch.nan

    for check in (check_kl_is_a_cost, check_kl_has_gradient, check_each_reward_pushes_its_own):
        assert not check(nothing)
    assert not museum_checks.check_scores_repeat(scores) and not museum_checks.check_padding_changes_nothing(scores)
    assert not museum_checks.check_temperature_is_scored(course_parts().sample, scores)


@pytest.mark.parametrize(
    "judge",
    [
        lambda found, gold: gold.startswith(found or ""),
        lambda found, gold: re.match(found or "", gold),
        lambda found, gold: found is not None and found in gold,
        lambda found, gold: found and found.strip() in gold,  # pays for a blank
        lambda found, gold: int(found if (found or "").isdigit() else 0) == int(gold),  # pays where the gold is 0
    ],
)
def test_rewards_that_pay_for_nothing_in_another_way(judge):
    def reward(prompts, completions, answer):
        tags = [re.search("<answer>(.*)</answer>", text) for text in completions]
        return [float(bool(judge(tag and tag[1], gold))) for tag, gold in zip(tags, answer, strict=True)]

    assert not check_empty_answer_earns_nothing(reward)


def test_empty_answers_on_the_rewards_of_this_course():
    for reward in (addition_reward, correctness_reward, combined_reward, regex_reward, substring_reward):
        assert check_empty_answer_earns_nothing(reward)
    both_unread = lambda prompts, completions, answer: [1.0] * len(completions)  # noqa: E731
    for reward in (format_reward, both_unread):  # the form alone pays nothing for the answer in it
        assert not check_empty_answer_earns_nothing(reward)


def test_a_finding_is_its_truth_and_its_text():
    assert bool(Finding("check_it", True, "fine.")) and not Finding("check_it", False, "bad.")
    assert repr(Finding("check_it", False, "bad.")) == "✗ check_it: bad."


# ---------------------------------------------------------------- models with known answers


def test_known_distribution_gives_every_position_the_same_logits():
    logits = torch.randn(61, generator=torch.Generator().manual_seed(1))
    model = museum_checks.known_distribution(logits)
    found = model(input_ids=torch.tensor([[5, 9, 2], [1, 1, 30]])).logits
    torch.testing.assert_close(found, logits.expand(2, 3, 61))


def test_sampling_checks_on_other_wrong_samplers():
    from grpo_lib.generation import generate_completions

    def sample(model, tokenizer, prompts, *sizes):
        return generate_completions(model, tokenizer, prompts, sizes[0], sizes[1], temperature=sizes[2])[2]

    def generate(**cut):
        def sample(model, tokenizer, prompts, num_generations, length, temperature):
            ids = torch.tensor([tokenizer(prompts[0]).input_ids]).repeat(num_generations, 1)
            options = dict(do_sample=True, temperature=temperature, max_new_tokens=length, pad_token_id=0)
            out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options, **cut)
            return out[:, ids.shape[1] :]

        return sample

    score = course_parts().score
    assert museum_checks.check_no_token_is_cut(sample)
    assert museum_checks.check_no_token_is_cut(generate(top_k=0))
    for cut in (dict(top_k=0, top_p=0.99), dict(top_k=0, min_p=0.05), dict(top_k=60), {}):  # {}: top_k = 50
        assert not museum_checks.check_no_token_is_cut(generate(**cut))
    assert museum_checks.check_temperature_is_scored(sample, score)
    hot = lambda *a: sample(*a[:-1], 1.0)  # the temperature forgotten while sampling  # noqa: E731
    twice = lambda *a: score(*a[:-1], a[-1] ** 2)  # or applied twice while scoring  # noqa: E731
    assert not museum_checks.check_temperature_is_scored(hot, score)
    assert not museum_checks.check_temperature_is_scored(sample, twice)


def test_a_run_without_a_reference_is_refused_and_an_adapter_s_reference_stays():
    with pytest.raises(ValueError, match="keeps no reference; start one with beta > 0"):
        museum_checks.check_reference_stays(SimpleNamespace(reference=None))
    run = new_run(batch_size=2, num_generations=2)
    assert museum_checks.check_reference_stays(run)
    model, tokenizer = load_tiny_policy()
    options = dict(reward_function=addition_reward)
    settings = GRPOSettings(**{**BASE, "batch_size": 2, "num_generations": 2})
    adapted = GRPORun(add_lora(model, 2), tokenizer, load_addition("train"), settings, **options)
    assert museum_checks.check_reference_stays(adapted)


def test_weights_of_an_adapter_and_of_half_precision():
    model, _ = load_tiny_policy()
    assert museum_checks.check_weights_move(model, 1e-6)
    before = [parameter.clone() for parameter in model.parameters()]
    assert museum_checks.check_weights_move(model, 1e-3)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert museum_checks.check_weights_move(add_lora(model, 2), 1e-5)
    half = load_tiny_policy()[0].to(torch.bfloat16)
    adapters = add_lora(load_tiny_policy()[0].to(torch.bfloat16), 2)
    for parameter in adapters.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    assert museum_checks.check_weights_move(adapters, 1e-5)  # the frozen base need not move
    assert "no weight is trainable" in museum_checks.check_weights_move(model.requires_grad_(False), 1e-3).message
    assert not museum_checks.check_weights_move(half, 1e-5) and museum_checks.check_weights_move(half, 0.1)


# ---------------------------------------------------------------- the curves


def test_what_the_museum_measures_against_torch_distributions():
    torch.manual_seed(0)
    model, tokenizer = load_tiny_policy()
    start, _ = load_tiny_policy()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.03)
    rollout = collect_rollout(model, tokenizer, load_addition("train")[:3], addition_reward, num_generations=2)
    seen = measure_policy(model, start, rollout, 0.8, tokenizer.eos_token_id)
    drift, surprise, count = 0.0, 0.0, 0
    for prompt, ids in zip(rollout.prompt_ids, rollout.completion_ids, strict=True):
        tokens = ids.tolist()
        tokens = tokens[: tokens.index(2) + 1] if 2 in tokens else tokens
        row, T = torch.tensor([prompt.tolist() + tokens]), len(tokens)  # alone: nothing is padded
        with torch.no_grad():
            new, old = (
                torch.distributions.Categorical(logits=network(input_ids=row).logits[0, -T - 1 : -1] / 0.8)
                for network in (model, start)
            )
        drift += torch.distributions.kl_divergence(new, old).sum().item()
        surprise += (-new.log_prob(torch.tensor(tokens)) - new.entropy()).sum().item()
        count += T
    assert seen["drift"] == pytest.approx(drift / count, rel=1e-3) and seen["drift"] > 1e-3
    assert seen["surprise"] == pytest.approx(surprise / count, rel=1e-3, abs=1e-5)


def test_stored_runs_are_complete():
    stored = json.loads((resources.files("grpo_lib") / "data" / FILE).read_text(encoding="utf-8"))
    assert list(stored) == list(ARMS)
    for arm in ARMS:
        runs = load_museum_runs(arm)
        assert [run["seed"] for run in runs] == list(SEEDS)
        for run in runs:
            assert list(run["columns"]) == list(COLUMNS) and len(run["steps"]) == NUM_STEPS
            assert run["steps"][-1]["step"] == NUM_STEPS and np.isfinite(list(run["columns"].values())).all()
            assert 0 <= run["held_out"]["correct"] <= run["held_out"]["total"] == 500


@pytest.mark.parametrize("arm", ARMS)
def test_stored_runs_start_as_a_new_run_does(arm):
    again = run_arm(ARMS[arm], 1, num_steps=2, held_out=False)
    for column, values in again["columns"].items():
        stored = load_museum_runs(arm)[1]["columns"][column][:2]
        assert values == pytest.approx(stored, rel=0.02, abs=1e-6), column


def test_bugs_that_draw_the_same_curve_do():
    cut, by_pad = load_museum_runs("end token cut off the mask"), load_museum_runs("mask by pad id, pad = eos")
    assert cut == by_pad
    inert, free = load_museum_runs("reference re-synced every step"), load_museum_runs("fixed")
    for one, other in zip(inert, free, strict=True):
        assert one["columns"]["reward_mean"] == other["columns"]["reward_mean"]
        assert max(one["columns"]["kl"]) < 1e-6 < max(other["columns"]["kl"])
    no_grad = load_museum_runs("KL under no_grad")
    assert [run["columns"] for run in no_grad] == [run["columns"] for run in free]


def test_all_runs_start_from_one_policy():
    for arm in ARMS:
        for run in load_museum_runs(arm):
            assert run["steps"][0]["drift"] == pytest.approx(0, abs=1e-6)


def test_fixed_arms_share_settings_with_their_exhibits():
    for name in RAN:
        exhibit, broken = ARMS[fixed_arm(name)]
        assert not broken and EXHIBITS[exhibit].settings == EXHIBITS[name].settings
    assert new_run(EXHIBITS["sign of the KL"]).settings.beta == 0.5 and BASE["beta"] == 0


@pytest.mark.parametrize("key", ["reward_mean", "held_out"])
def test_differences_are_paired_by_seed(key):
    runs = exhibit_runs("sign of the KL")

    def value(run):
        if key == "held_out":
            return run["held_out"]["correct"] / 500
        return np.mean([step[key] for step in run["steps"][-10:]])

    gaps = [value(broken) - value(fixed) for fixed, broken in zip(*runs.values(), strict=True)]
    mean, low, high = run_difference("sign of the KL", key)
    assert mean == pytest.approx(np.mean(gaps))
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 4, loc=np.mean(gaps), scale=stats.sem(gaps)))


def test_unknown_arms_and_exhibits_without_runs_are_refused():
    with pytest.raises(ValueError, match="no runs stored for 'no position ids'; there are: "):
        load_museum_runs("no position ids")
    with pytest.raises(ValueError, match="has no runs: the tiny policy has no learned positions"):
        exhibit_runs("no position ids")


# ---------------------------------------------------------------- figures


def test_exhibit_figure_draws_the_stored_numbers():
    fig = exhibit_figure(2)
    runs = exhibit_runs(2)
    per_panel = 2 * len(SEEDS)
    assert len(fig.data) == 6 * per_panel and fig.layout.title.text == "Exhibit 2"
    for panel, column in enumerate(LOGGED):
        for i, run in enumerate(runs["fixed"] + runs["with the bug"]):
            values = [step[column] for step in run["steps"]]
            least = {"kl": 1e-6, "grad_norm": 1e-6, "ratio_max": 1.0}.get(column, -np.inf)
            assert list(fig.data[panel * per_panel + i].y) == pytest.approx(np.maximum(values, least), rel=1e-4)
    shown = [trace.name for trace in fig.data if trace.showlegend]
    assert shown == ["fixed", "with the bug"]
    end = np.mean([run["steps"][-1]["reward_mean"] for run in runs["with the bug"]])
    assert f"reward with the bug {end:.3g}" in alt_text(fig)


def test_watched_figure_draws_columns_that_a_run_does_not_log():
    fig = watched_figure("a reward that pays for an empty answer", "reward_mean", "true")
    runs = exhibit_runs(1)["with the bug"]
    assert list(fig.data[-1].y) == pytest.approx([step["true"] for step in runs[-1]["steps"]], rel=1e-4)
    with pytest.raises(ValueError, match="column must be one of"):
        watched_figure(1, "rewards")
    with pytest.raises(ValueError, match="one to three columns, got 0"):
        watched_figure(1)


def test_catch_figure_draws_who_catches_whom():
    yes, no = Finding("c", True, ""), Finding("c", False, "")
    fig = catch_figure(
        {"a": {"check_x_y": (no, yes), "check_z": (yes, yes)}, "b": {"check_x_y": (yes, yes), "check_z": (no, no)}}
    )
    assert fig.data[0].z == ([1, 0], [0, 2]) and fig.data[0].x == ("x y", "z") and fig.data[0].y == ("1 a", "2 b")
    assert alt_text(fig) == "2 exhibits against 2 checks: 1 caught, 1 where the fixed code fails."
    for found in ({}, {"a": {"x": (no, yes)}, "b": {"z": (no, yes)}}):
        with pytest.raises(ValueError, match="at least one exhibit, and each exhibit the same checks"):
            catch_figure(found)


def test_padding_figure():
    fig = padding_figure({"a": [0.0, 0.5], "b": [0.0, 0.0]})
    assert [trace.y for trace in fig.data] == [(0.0, 0.5), (0.0, 0.0)] and "a 0.5, b 0" in alt_text(fig)
    with pytest.raises(ValueError, match="at least one model"):
        padding_figure({})
    with pytest.raises(ValueError, match="errors of 'b' must have shape"):
        padding_figure({"a": [0.0, 0.5], "b": [0.0]})


# ---------------------------------------------------------------- exercises


def test_the_logs_of_the_diagnosis_are_those_of_its_answers():
    logs = museum_exercises.unlabelled_logs()
    for number, log in zip(museum_exercises.ANSWERS, logs, strict=True):
        steps = exhibit_runs(number)["with the bug"][1]["steps"]
        assert [row["kl"] for row in log] == [steps[row["step"] - 1]["kl"] for row in log]


@pytest.mark.parametrize("answer", [[1, 1, 1], [7, 6, 3], [3, 6, 10]])
def test_a_wrong_diagnosis_gets_a_hint_and_not_the_answer(answer):
    found = museum_exercises.check_diagnosis(lambda: answer)
    wrong = [letter for letter, a, b in zip("ABC", answer, museum_exercises.ANSWERS, strict=True) if a != b]
    assert not found.right and f"Not yet found: {', '.join(wrong)}." in found.message
    assert "3, 6, 7" not in found.message


def test_a_test_of_the_end_token_may_return_findings_and_must_try_both_pad_ids():
    check = museum_exercises.check_end_token_test
    assert check(lambda mask: check_mask_keeps_first_eos(mask) and check_mask_ignores_pad_id(mask)).right
    assert check(lambda mask: bool((mask(torch.tensor([[5, 2, 2]]), 2, 2)[0, 1] == 1).all())).slip == "pad = eos only"
    assert "it returns None: return True or False" in check(lambda mask: mask.name == "library" or None).message


def test_checks_are_public():
    for module in (museum_checks, museum_tensor_checks):
        names = {name for name in module.__all__ if name.startswith("check_")}
        assert names <= set(CHECKS)
