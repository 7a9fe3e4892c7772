"""The loss family: against TRL, plain loops, finite differences, and whole batches against their parts."""

import json
import math
from dataclasses import asdict, fields, replace

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

from grpo_lib.clock import PhaseClock
from grpo_lib.grpo import collect_rollout, grpo_loss, rollout_loss, score_rollout
from grpo_lib.loss_weights import token_weights
from grpo_lib.losses import LOSS_TYPES, policy_loss
from grpo_lib.records import GRPOSettings, record_step
from grpo_lib.surrogates import cispo_surrogate, clipped_surrogate, importance_ratio, sapo_surrogate, vespo_surrogate
from grpo_lib.update import accumulate_gradients

VARIANTS = [(name, level) for name in LOSS_TYPES for level in ("token", "sequence")]
every_variant = pytest.mark.parametrize(("loss_type", "level"), VARIANTS, ids=[f"{n}-{v}" for n, v in VARIANTS])


def double(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("number", range(28))
def test_golden_trl_losses_and_gradients(golden, number):
    data = golden("trl_losses")
    case, batch = data["cases"][number], {name: double(rows) for name, rows in data["batch"].items()}
    low, high = case.get("eps", (data["eps_low"], data["eps_high"]))
    if case["loss_type"] == "cispo":
        high = data["eps_high_cispo"] - 1  # TRL takes the cap itself, here it is 1 + epsilon_high
    new = batch["logp"].requires_grad_()
    loss, watch = policy_loss(
        new,
        batch["old"] if case.get("old", True) else None,
        batch["ref"],
        batch["adv"],
        batch["mask"],
        beta=case["beta"],
        epsilon=low,
        epsilon_high=high,
        loss_type=case["loss_type"],
        importance_sampling_level=case["level"],
        delta=case["delta"],
        bias_correction_kl=case["bias"],
        max_completion_length=data["max_completion_length"],
        num_items_in_batch=data["num_items_in_batch"],
    )
    loss.backward()
    assert math.isclose(loss.item(), case["loss"], rel_tol=1e-12, abs_tol=1e-12), case["name"]
    torch.testing.assert_close(new.grad, double(case["grad"]), rtol=0, atol=1e-11)
    kl = watch["kl"] * (watch["ratio"] if case["bias"] else 1)
    whole = -(watch["weight"] * (watch["surrogate"] - case["beta"] * kl)).sum()
    assert math.isclose(whole.item(), loss.item(), rel_tol=1e-12, abs_tol=1e-12)


def test_all_golden_cases_are_used(golden):
    assert len(golden("trl_losses")["cases"]) == 28
    assert {case["loss_type"] for case in golden("trl_losses")["cases"]} == set(LOSS_TYPES)


def a_batch(seed=5, spread=0.4):
    g = torch.Generator().manual_seed(seed)
    new = -2 + torch.randn(4, 5, dtype=torch.float64, generator=g)
    old, ref = (new + spread * torch.randn(4, 5, dtype=torch.float64, generator=g) for _ in range(2))
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    return new, old, ref, double([1.0, -0.5, 0.3, -1.2]), mask


@every_variant
@pytest.mark.parametrize(("beta", "correction"), [(0.0, False), (0.3, False), (0.3, True)])
def test_gradients_against_finite_differences(loss_type, level, beta, correction):
    new, old, ref, advantages, mask = a_batch()
    options = dict(beta=beta, epsilon_high=0.28, loss_type=loss_type, importance_sampling_level=level)
    options |= dict(bias_correction_kl=correction, max_completion_length=6)
    surrogate = LOSS_TYPES[loss_type][0]
    start = new.clone().requires_grad_()
    policy_loss(start, old, ref, advantages, mask, **options)[0].backward()

    def objective(x):
        """The same, but what stops the gradient (a weight) is held where it was."""
        if surrogate not in ("cispo", "vespo"):
            return policy_loss(x, old, ref, advantages, mask, **options)[0]
        log_weighted = lambda y: policy_loss(y, old, ref, advantages, mask, **{**options, "beta": 0.0})[1]  # noqa: E731
        weight = log_weighted(new)["surrogate"] / torch.where(mask.bool(), new, 1.0)  # weight · A
        d = ref - x
        ratio = importance_ratio(torch.where(mask.bool(), x, 0), torch.where(mask.bool(), old, 0), mask, level)
        kl = (d.exp() - d - 1) * (ratio if correction else 1)
        return -(log_weighted(new)["weight"] * (weight * x - beta * kl) * mask).sum()

    h, found = 1e-6, torch.zeros_like(new)
    for i in range(new.numel()):
        nudge = torch.zeros_like(new).flatten()
        nudge[i] = h
        nudge = nudge.view_as(new)
        found.view(-1)[i] = (objective(new + nudge) - objective(new - nudge)) / (2 * h)
    torch.testing.assert_close(start.grad, found, rtol=1e-6, atol=1e-9)
    assert (start.grad[mask == 0] == 0).all() and start.grad.abs().max() > 1e-3


@every_variant
@pytest.mark.parametrize("old", ["on-policy", "off-policy"])
def test_masked_junk_and_masked_rows_reach_neither_loss_nor_gradient(loss_type, level, old):
    new, before, ref, advantages, mask = a_batch()
    mask = torch.cat([mask, torch.zeros(1, 5, dtype=torch.int64)])  # and a row that does not count at all
    pad = lambda x, fill: torch.where(mask.bool(), torch.cat([x, x[:1]]), fill)  # noqa: E731
    per_token = torch.cat([advantages, double([2.0])])[:, None].expand(5, 5)
    options = dict(beta=0.1, loss_type=loss_type, importance_sampling_level=level, max_completion_length=6)
    found = []
    for fill in (0.0, -50.0, float("nan"), float("inf")):
        x = pad(new, fill).requires_grad_()
        A = torch.where(mask.bool(), per_token, fill)
        loss, _ = policy_loss(x, pad(before, fill) if old == "off-policy" else None, pad(ref, fill), A, mask, **options)
        loss.backward()
        assert math.isfinite(loss.item()) and torch.isfinite(x.grad).all()
        assert (x.grad[mask == 0] == 0).all() and (x.grad[-1] == 0).all()
        found.append((loss.item(), x.grad))
    for loss, grad in found[1:]:
        assert loss == found[0][0]
        assert torch.equal(grad, found[0][1])
    nothing, _ = policy_loss(new, before, ref, advantages, torch.zeros_like(new), **options)
    assert nothing.item() == 0.0


@every_variant
def test_more_padding_changes_nothing(loss_type, level):
    new, old, ref, advantages, mask = a_batch()
    options = dict(beta=0.1, loss_type=loss_type, importance_sampling_level=level, max_completion_length=9)
    short, _ = policy_loss(new, old, ref, advantages, mask, **options)
    wide = [torch.nn.functional.pad(x, (0, 4)) for x in (new, old, ref, mask)]
    long, _ = policy_loss(*wide[:3], advantages, wide[3], **options)
    assert math.isclose(short.item(), long.item(), rel_tol=1e-12)


def test_weights_by_a_plain_loop():
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 0, 0]])
    rows = {
        "completion mean": [1 / (3 * 2), 1 / (3 * 3)],
        "completion sum": [1 / 3, 1 / 3],
        "local mean": [1 / 5, 1 / 5],
        "global mean": [1 / 10, 1 / 10],
        "constant length": [1 / (3 * 7), 1 / (3 * 7)],
    }
    for weighting, (first, second) in rows.items():
        found = token_weights(mask, weighting, max_completion_length=7, num_items_in_batch=10, dtype=torch.float64)
        expected = double([[first, first, 0], [second] * 3, [0, 0, 0]])
        torch.testing.assert_close(found, expected, rtol=1e-15, atol=0)


def test_surrogates_by_plain_arithmetic():
    ratio, log_probs = torch.tensor([[0.4, 1.0, 1.9]]), torch.tensor([[-1.0, -2.0, -3.0]])
    for A in (1.5, -1.5):
        advantage, k, lam, tau = torch.tensor([A]), *((2, 3, 1.0) if A > 0 else (3, 2, 1.05))
        value, capped = cispo_surrogate(ratio, log_probs, advantage, 0.3)
        expected = [min(r, 1.3) * A * x for r, x in zip(ratio[0].tolist(), log_probs[0].tolist(), strict=True)]
        torch.testing.assert_close(value, torch.tensor([expected]))
        assert capped.tolist() == [[False, False, True]]
        expected = [4 / tau / (1 + math.exp(-tau * (r - 1))) * A for r in ratio[0].tolist()]
        torch.testing.assert_close(sapo_surrogate(ratio, advantage), torch.tensor([expected]))
        W = 0.4 * 1.0 * 1.9
        phi = W**k * math.exp(lam * (1 - W))
        value = vespo_surrogate(log_probs, log_probs - ratio.log(), advantage, torch.ones(1, 3))
        torch.testing.assert_close(value, phi * A * log_probs)


@pytest.mark.parametrize("delta", [1.1, 1.25, 1.4, 3.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.15, 1.26, 1.35, 2.0, 4.0])
def test_delta_and_what_is_called_clipped(ratio, sign, delta):
    x = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    value, clipped = clipped_surrogate(x.exp(), torch.tensor([sign]), 0.2, 0.28, delta)
    value.sum().backward()
    expected = min(min(ratio, delta) * sign, min(max(ratio, 0.8), 1.28) * sign)
    assert math.isclose(value.item(), expected, rel_tol=1e-6)
    assert clipped.item() == (x.grad.item() == 0)


def test_sequence_ratio_is_the_geometric_mean_over_the_tokens_that_count():
    new, old, _, _, mask = a_batch()
    ratio = importance_ratio(new, old, mask, "sequence")
    for row, keep in enumerate(mask.bool()):
        ratios = (new[row] / 1 - old[row]).exp()[keep]
        torch.testing.assert_close(ratio[row], (ratios.prod() ** (1 / len(ratios))).expand(5))


def test_on_policy_every_variant_pushes_each_token_with_weight_times_advantage():
    new, _, _, advantages, mask = a_batch()
    for loss_type, level in VARIANTS:
        x = new.clone().requires_grad_()
        options = dict(loss_type=loss_type, importance_sampling_level=level, max_completion_length=5)
        loss, watch = policy_loss(x, None, None, advantages, mask, beta=0.0, **options)
        loss.backward()
        push = watch["weight"] * advantages[:, None]
        if level == "sequence" and LOSS_TYPES[loss_type][0] in ("clip", "sapo"):
            push = push.sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True) * mask  # through the shared mean
        torch.testing.assert_close(x.grad, -push, msg=f"{loss_type} {level}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss_type": "ppo"}, "loss_type must be one of 'grpo', 'bnpo', .* got 'ppo'"),
        ({"importance_sampling_level": "word"}, "importance_sampling_level must be one of 'token', 'sequence'"),
        ({"loss_type": "dr_grpo"}, "needs max_completion_length"),
        ({"loss_type": "dr_grpo", "max_completion_length": 2}, "max_completion_length = 2, but a completion has 3"),
        ({"loss_type": "cispo", "delta": 2.0}, "delta bounds the ratio of a clipped surrogate; cispo has none"),
        ({"delta": 0.9}, "delta must be a finite number > 1, got 0.9"),
        ({"loss_type": "dapo", "num_items_in_batch": 3}, "num_items_in_batch = 3 is less than the 6 tokens"),
        ({"loss_type": "sapo", "sapo_temperatures": (1.0, 0.0)}, "sapo_temperatures must be a finite number > 0"),
        ({"loss_type": "vespo", "vespo_gammas": ((2.0, 3.0), (3.0, float("nan")))}, "vespo_gammas .* got nan"),
        ({"loss_type": "cispo", "epsilon_high": -1.0}, "epsilon_high must be a finite number >= 0"),
        ({"loss_type": ["grpo"]}, r"loss_type must be one of .* got \['grpo'\]"),
        ({"loss_type": "sapo", "sapo_temperatures": (1.0,)}, r"sapo_temperatures must be a pair .* got \(1.0,\)"),
        ({"loss_type": "vespo", "vespo_gammas": (2.0, 3.0)}, "two pairs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    zeros = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=message):
        policy_loss(zeros, None, None, torch.zeros(2), torch.ones(2, 3), beta=0.0, **options)
    if set(options) <= {field.name for field in fields(GRPOSettings)} and "dr_grpo" not in options.values():
        with pytest.raises(ValueError, match=message):  # a run's settings know it before anything is trained
            GRPOSettings(**options)


@pytest.mark.parametrize("options", [{"sapo_temperatures": "hot"}, {"vespo_gammas": "x"}, {"vespo_gammas": (1, 2)}])
def test_settings_of_another_variant_are_checked_too(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        GRPOSettings(**options)


def test_vespo_keeps_its_weight_within_bounds():
    old, A = torch.zeros(1, 2, dtype=torch.float64), double([1.0])
    for ratios, log_w in (([-25.0, 22.0], 0.0), ([-30.0, -30.0], math.log(1e-8)), ([15.0, 15.0], 20.0)):
        new = double([ratios])
        phi = math.exp(2 * log_w + 3 * (1 - math.exp(log_w)))
        torch.testing.assert_close(vespo_surrogate(new, old, A, torch.ones(1, 2)), phi * new)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_half_precision_log_probs_are_counted_exactly(loss_type):
    ones = torch.ones(40, 2001)
    new = torch.full((40, 2001), -1.0, dtype=torch.float16, requires_grad=True)
    options = dict(beta=0.0, loss_type=loss_type, max_completion_length=2001)
    _, watch = policy_loss(new, None, None, torch.ones(40), ones, **options)
    _, exact = policy_loss(new.float(), None, None, torch.ones(40), ones, **options)
    torch.testing.assert_close(watch["weight"], exact["weight"])


def lengths(prompts, completions, answer):
    return [float(len(text)) for text in completions]


def a_rollout(name="qwen3", **options):
    torch.manual_seed(0)
    model, reference = tiny_model(name).eval(), tiny_model(name).eval()
    samples = [("w3 w4 w5", "?"), ("w6", "?"), ("w7 w8", "?")]
    rollout = collect_rollout(
        model, CountingTokenizer(), samples, lengths, num_generations=4, max_completion_length=7, **options
    )
    rollout = replace(
        rollout,
        ref_log_probs=score_rollout(reference, rollout),
        old_log_probs=score_rollout(model, rollout) + 0.3 * torch.randn(rollout.completion_ids.shape),
    )
    return model, rollout


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("mask_cut", [False, True])
def test_micro_batches_add_up_to_the_whole(name, loss_type, mask_cut):
    model, rollout = a_rollout(name)
    assert 1 < rollout.completion_mask.sum(dim=1).unique().numel()  # lengths differ
    rollout = replace(rollout, truncated=torch.arange(12) % 3 == 0)
    settings = GRPOSettings(beta=0.1, loss_type=loss_type, max_completion_length=7, mask_truncated_completions=mask_cut)
    whole, watch = rollout_loss(model, rollout, **settings.loss_options)
    whole.backward()
    results = [(whole.item(), gradient(model), watch)]
    for size in (None, 5, 1):
        model.zero_grad()
        told = replace(settings, micro_batch_size=size)
        loss, watch = accumulate_gradients(model, rollout, told, PhaseClock(torch.device("cpu")))
        results.append((loss, gradient(model), watch))
    torch.testing.assert_close(results.pop(1)[1], results[0][1], rtol=1e-4, atol=1e-5)  # also for bnpo
    for loss, grad, watch in results[1:]:
        if loss_type == "bnpo":  # a mean over the tokens of each part: parts of unequal lengths weigh otherwise
            assert abs(loss - results[0][0]) > 1e-5
            continue
        assert math.isclose(loss, results[0][0], rel_tol=1e-4, abs_tol=1e-6)
        torch.testing.assert_close(grad, results[0][1], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(watch["weight"], results[0][2]["weight"])


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_padding_of_prompts_and_completions_does_not_change_the_loss(name):
    model, rollout = a_rollout(name)
    wide = replace(
        rollout,
        prompt_ids=torch.nn.functional.pad(rollout.prompt_ids, (3, 0)),
        prompt_mask=torch.nn.functional.pad(rollout.prompt_mask, (3, 0)),
        **{
            field: torch.nn.functional.pad(getattr(rollout, field), (0, 2))
            for field in ("completion_ids", "completion_mask", "old_log_probs", "ref_log_probs")
        },
    )
    for loss_type, level in VARIANTS:
        options = dict(loss_type=loss_type, importance_sampling_level=level, max_completion_length=9)
        a, b = (rollout_loss(model, r, **options)[0].item() for r in (rollout, wide))
        assert math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5), (loss_type, level)


def test_masked_truncated_completions_leave_the_loss_but_not_the_lengths():  # M11
    model, rollout = a_rollout()
    ids = torch.tensor([[5, 1, 0, 0], [5, 6, 7, 8]])
    two = replace(
        rollout.rows(slice(0, 2)),
        completion_ids=ids,
        completion_mask=torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]),
        truncated=torch.tensor([False, True]),
        rewards=torch.tensor([1.0, 0.0]),
        advantages=torch.tensor([0.7, -0.7]),
        old_log_probs=None,
        ref_log_probs=None,
        num_generations=2,
    )
    for loss_type in LOSS_TYPES:
        options = dict(beta=0.0, loss_type=loss_type, max_completion_length=4, mask_truncated_completions=True)
        loss, watch = rollout_loss(model, two, **options)
        assert watch["weight"][1].sum() == 0 < watch["weight"][0].sum()
    settings = GRPOSettings(beta=0.0, mask_truncated_completions=True)
    record = record_step(1, settings, two, watch, loss.item(), 1.0, 1e-4, {})
    assert (record.completion_length, record.truncated) == (3.0, 0.5)


@pytest.mark.parametrize("cut", [(False, True), (True, True)])
def test_a_record_tells_the_clip_of_the_loss_and_the_kl_of_everything(cut):
    _, rollout = a_rollout()
    two = replace(
        rollout.rows(slice(0, 2)),
        completion_mask=torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]),
        completion_ids=torch.tensor([[5, 1, 0, 0], [5, 6, 7, 8]]),
        ref_log_probs=torch.full((2, 4), -2.0),
        truncated=torch.tensor(cut),
        num_generations=2,
    )
    in_loss = two.loss_mask(True)
    watch = {
        "log_probs": torch.full((2, 4), -1.0),
        "ratio": torch.tensor([[1.5, 0.9, 9.0, 9.0], [1.0] * 4]),
        "clipped": torch.tensor([[True, False, True, True], [False] * 4]),
    }
    record = record_step(1, GRPOSettings(mask_truncated_completions=True), two, watch, 0.0, 1.0, 1e-4, {})
    k3 = math.exp(-1) - (-1) - 1
    assert math.isclose(record.kl, k3, rel_tol=1e-6) and math.isclose(record.kl_median, k3, rel_tol=1e-6)
    if in_loss.any():  # row 0 alone: its two tokens
        assert math.isclose(record.ratio_mean, 1.2, rel_tol=1e-6)
        assert (record.ratio_max, record.clip_fraction) == (1.5, 0.5)
    else:
        assert (record.ratio_mean, record.ratio_max, record.clip_fraction) == (1.0, 1.0, 0.0)


def test_settings_carry_every_option_to_the_loss_and_survive_json():
    settings = GRPOSettings(
        loss_type="vespo", importance_sampling_level="sequence", vespo_gammas=((1.0, 2.0), (3.0, 4.0)), epsilon_high=0.3
    )
    back = GRPOSettings(**json.loads(json.dumps(asdict(settings))))
    assert back == settings and hash(back.vespo_gammas)
    model, rollout = a_rollout()
    for changed in (dict(loss_type="cispo"), dict(delta=1.05), dict(bias_correction_kl=True), dict(epsilon_high=0.01)):
        plain, other = (
            rollout_loss(model, rollout, **GRPOSettings(max_completion_length=7, **c).loss_options)[0].item()
            for c in ({}, changed)
        )
        assert plain != other, changed


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_grpo_loss_takes_every_variant(loss_type):
    torch.manual_seed(0)
    model = tiny_model("qwen3")
    samples = [("w3 w4", "?")]
    loss = grpo_loss(model, None, CountingTokenizer(), samples, lengths, 0.0, 4, 6, loss_type=loss_type)
    loss.backward()
    assert torch.isfinite(gradient(model)).all()
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilom'"):
        grpo_loss(model, None, CountingTokenizer(), samples, lengths, 0.0, epsilom=0.1)


@pytest.mark.parametrize(
    ("mask_lengths", "advantages", "expected"),
    [((1, 3), (1.0, -1.0), 0.5), ((3, 1), (2.0, -1.0), -1.25)],
    ids=["S02", "S14"],
)
def test_a_mean_over_tokens_is_not_the_mean_over_completions(mask_lengths, advantages, expected):
    mask = torch.tensor([[int(t < n) for t in range(3)] for n in mask_lengths])
    for loss_type in ("bnpo", "dapo"):
        loss, _ = policy_loss(
            torch.zeros(2, 3), None, None, torch.tensor(advantages), mask, beta=0.0, loss_type=loss_type
        )
        assert math.isclose(loss.item(), expected, rel_tol=1e-6)


def test_one_ratio_a_completion_is_a_variant_of_its_own():  # S04
    old, new = torch.tensor([[0.5, 0.4, 0.2]]).log(), torch.tensor([[0.55, 0.36, 0.30]]).log()
    up, one = torch.tensor([1.0]), torch.ones(1, 3)
    token, _ = policy_loss(new, old, None, up, one, beta=0.0)
    sequence, watch = policy_loss(new, old, None, up, one, beta=0.0, importance_sampling_level="sequence")
    assert math.isclose(token.item(), -(1.1 + 0.9 + 1.2) / 3, rel_tol=1e-6)
    assert math.isclose(sequence.item(), -((1.1 * 0.9 * 1.5) ** (1 / 3)), rel_tol=1e-6)
    assert not watch["clipped"].any()  # the plain product, 1.485, would be
