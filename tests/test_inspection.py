"""Token by token: parts that sum to the loss, gradients against finite differences, stories whose numbers add up."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from grpo_lib.inspection import DEFAULTS, inspect_rollout, setting_text
from grpo_lib.loss_formulas import clip_range
from grpo_lib.losses import LEVELS, LOSS_TYPES, policy_loss
from grpo_lib.recordings import Recording, load_recorded_rollout
from grpo_lib.token_stories import describe_changes, token_story

LENGTHS = (5, 1, 3, 0)  # a whole row, a single token, a padded row, one that is masked altogether
KINDS = ("start", "stop", "turn", "harder", "softer", "same")
ADVANTAGES = (1.5, -0.7, -1.2, 0.4)


@pytest.fixture(scope="module")
def recording():
    random = np.random.default_rng(3)
    new = -np.abs(random.normal(1.5, 0.7, (4, 5)))
    mask = np.arange(5) < np.array(LENGTHS)[:, None]
    near = np.minimum(new + random.normal(0, 0.3, new.shape), -0.01)
    far = np.minimum(new + random.normal(0, 0.6, new.shape), -0.01)
    tokens = [[f"t{b}{t}" for t in range(5)] for b in range(4)]
    return Recording(
        tokens, [1, 0, 0, 1], ADVANTAGES, mask.astype(int), new, near, far, num_generations=2, max_completion_length=6
    )


def expected_loss(x, recording, options):
    """The whole loss in numpy, from its formulae; what is behind a stop-gradient stays at the recording's values."""
    at, old, ref = (t.double().numpy() for t in (recording.log_probs, recording.old_log_probs, recording.ref_log_probs))
    mask, name = recording.mask.numpy(), options["loss_type"]
    low, high = clip_range({**DEFAULTS, **options})
    lengths, total = mask.sum(axis=1), 0.0

    def ratios(values, b):
        log_ratio = (values[b] - old[b])[mask[b] == 1]
        if options["importance_sampling_level"] == "sequence":
            log_ratio = np.full_like(log_ratio, log_ratio.mean())
        return np.exp(log_ratio)

    for b in range(len(x)):
        n, a = lengths[b], float(recording.advantages[b])
        weight = {
            "grpo": 1 / max(n, 1) / len(x),
            "sapo": 1 / max(n, 1) / len(x),
            "luspo": 1 / len(x),
            "dr_grpo": 1 / recording.max_completion_length / len(x),
        }.get(name, 1 / lengths.sum())
        if not n:
            continue
        r, fixed = ratios(x, b), ratios(at, b)
        for t in range(n):
            if name == "cispo":
                value = min(fixed[t], high) * a * x[b, t]
            elif name == "sapo":
                tau = 1.0 if a > 0 else 1.05
                value = 4 / tau / (1 + np.exp(-tau * (r[t] - 1))) * a
            elif name == "vespo":
                w = np.exp((at[b, :n] - old[b, :n]).sum())
                k, rate = (2, 3) if a >= 0 else (3, 2)
                value = w**k * np.exp(rate * (1 - w)) * a * x[b, t]
            else:
                value = min(r[t] * a, min(max(r[t], low), high) * a)
            d = ref[b, t] - x[b, t]
            k3 = np.exp(d) - d - 1
            pull = k3 * r[t] if options.get("bias_correction_kl") else k3
            total -= weight * (value - options["beta"] * pull)
    return total


VARIANTS = [
    dict(loss_type=name, importance_sampling_level=level, beta=beta)
    for name in LOSS_TYPES
    for level in LEVELS
    for beta in (0.0, 0.1)
]
MORE = [
    dict(loss_type=name, importance_sampling_level=level, beta=0.5, bias_correction_kl=True, epsilon_high=0.28)
    for name in ("grpo", "vespo")
    for level in LEVELS
]


@pytest.mark.parametrize("options", VARIANTS + MORE, ids=lambda options: "-".join(map(str, options.values())))
def test_parts_sum_to_the_loss_and_gradients_are_its_slopes(recording, options):
    seen, x = inspect_rollout(recording, **options), recording.log_probs.double().numpy()
    loss, _ = policy_loss(
        recording.log_probs.double(),
        recording.old_log_probs.double(),
        recording.ref_log_probs.double(),
        recording.advantages.double(),
        recording.mask,
        max_completion_length=6,
        **options,
    )
    assert seen.loss == pytest.approx(loss.item(), rel=1e-12)
    assert seen.contribution.sum().item() == pytest.approx(loss.item(), rel=1e-12, abs=1e-15)
    assert expected_loss(x, recording, options) == pytest.approx(loss.item(), rel=1e-6)
    step, slopes = 1e-6, np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * step
            slopes[place] += sign * expected_loss(moved, recording, options) / (2 * step)
    np.testing.assert_allclose(seen.gradient.numpy(), slopes, atol=1e-8)
    np.testing.assert_allclose(seen.push.numpy(), -slopes, atol=1e-8)
    silent = inspect_rollout(recording, **{**options, "beta": 0.0})
    assert torch.equal(seen.policy_gradient, silent.gradient)
    assert (seen.kl_gradient == 0).all() == (options["beta"] == 0)


def test_golden_losses_and_gradients(golden):
    """Loss and slopes of another library, on its batch; a recording keeps float32, hence the tolerance."""
    data = golden("trl_losses")
    batch = data["batch"]
    rows = Recording(
        [["t"] * len(batch["logp"][0])] * len(batch["logp"]),
        [0.0] * len(batch["logp"]),
        batch["adv"],
        batch["mask"],
        batch["logp"],
        batch["old"],
        batch["ref"],
        max_completion_length=data["max_completion_length"],
    )
    for case in data["cases"]:
        low, high = case.get("eps", (data["eps_low"], data["eps_high"]))
        options = {name: case[name] for name in ("loss_type", "beta", "delta")}
        options |= dict(importance_sampling_level=case["level"], bias_correction_kl=case["bias"])
        options |= dict(epsilon=low, epsilon_high=data["eps_high_cispo"] - 1 if case["loss_type"] == "cispo" else high)
        sampled = rows if case.get("old", True) else replace(rows, old_log_probs=None)
        seen = inspect_rollout(sampled, **options, num_items_in_batch=data["num_items_in_batch"])
        assert seen.loss == pytest.approx(case["loss"], rel=1e-5, abs=1e-7), case["name"]
        np.testing.assert_allclose(seen.gradient.numpy(), case["grad"], atol=1e-6, err_msg=case["name"])


@pytest.mark.parametrize("options", VARIANTS + MORE, ids=lambda options: "-".join(map(str, options.values())))
def test_a_storys_numbers_add_up(recording, options):
    seen = inspect_rollout(recording, **options)
    for b, t in recording.mask.nonzero().tolist():
        story = token_story(seen, b, t)
        n = story.numbers
        pull = n["kl"] * (n["ratio"] if options.get("bias_correction_kl") else 1)
        whole = -n["weight"] * (n["surrogate"] - options["beta"] * pull)
        assert whole == pytest.approx(seen.contribution[b, t].item(), rel=1e-12)
        assert n["policy_gradient"] + n["kl_gradient"] == seen.gradient[b, t].item()
        assert story.verdict == ("up" if n["gradient"] < 0 else "down" if n["gradient"] > 0 else "nothing")
        for line in story.lines:
            assert evaluates(line) or line.startswith("A  "), line
    assert token_story(seen, 3, 0).verdict == token_story(seen, 1, 4).verdict == "nothing"
    assert "masked" in token_story(seen, 3, 0).words


def evaluates(line):
    """Whether the filled-in formula of a line, worked out by Python, is the number at its end."""
    if line.count("=") < 2:
        return False
    *_, filled, result = re.sub(r"  \((the|all|clipped|capped)[^)]*\)", "", line).replace("\n", " ").split(" = ")
    code = filled.replace("sg", "").replace("policy ", "").replace("KL ", "").replace("·", "*").replace("^", "**")
    names = dict(exp=np.exp, min=min, clip=np.clip, sigmoid=lambda z: 1 / (1 + np.exp(-z)))
    return eval(code, names) == pytest.approx(float(result), rel=2e-3, abs=2e-5)


def test_the_check_of_lines_can_fail():
    assert evaluates("KL        = exp(d) - d - 1 = exp(0.5) - 0.5 - 1 = 0.14872")
    assert not evaluates("KL        = exp(d) - d - 1 = exp(0.5) - 0.5 - 1 = 0.15872")


def made(ratio, advantage, ref=-1.0):
    """One token of each of two completions, the first with this ratio and advantage; log π is -1."""
    return Recording(
        [["a"], ["b"]],
        [1, 0],
        [advantage, 0.0],
        [[1], [1]],
        [[-1.0]] * 2,
        [[-1.0 - np.log(ratio)], [-1.0]],
        [[ref]] * 2,
    )


WORDS = [
    (1.0, 1.0, {}, "up", "rewarded above its group's mean"),
    (1.0, -1.0, {}, "down", "rewarded below its group's mean"),
    (1.5, 1.0, {}, "nothing", "since A > 0 and the ratio 1.5 is above 1.2"),
    (0.5, -1.0, {}, "nothing", "since A < 0 and the ratio 0.5 is below 0.8"),
    (1.5, 1.0, dict(importance_sampling_level="sequence"), "nothing", "the completion's ratio 1.5 is above 1.2"),
    (1.5, 1.0, dict(epsilon_high=0.6), "up", "above"),
    (3.0, -1.0, {}, "down", "below"),
    (3.0, -1.0, dict(delta=2.0), "nothing", "delta cuts its gradient off, since A < 0 and the ratio 3 is above 2"),
    (1.0, 0.0, {}, "nothing", "the advantage is 0"),
    (1.5, 1.0, dict(loss_type="cispo"), "up", "with the weight capped"),
    (
        1.7,
        1.0,
        dict(delta=1.5, epsilon_high=1.0),
        "nothing",
        "delta cuts its gradient off, since A > 0 and the ratio 1.7 is above 1.5",
    ),
    (
        1.7,
        1.0,
        dict(delta=1.5),
        "nothing",
        "the clip cuts its gradient off, since A > 0 and the ratio 1.7 is above 1.2",
    ),
    (1.20004, 1.0, {}, "nothing", "the ratio 1.20004 is above 1.2"),
    (np.exp(7.8), 1.0, dict(loss_type="vespo"), "nothing", "φ(W) is 0 in these digits, since W = 2.44e+03 is far"),
    (49.0, 1.0, dict(loss_type="sapo"), "nothing", "the sigmoid is flat at the ratio 49: its slope is 0 in these"),
]


@pytest.mark.parametrize("ratio, advantage, options, verdict, words", WORDS)
def test_a_story_says_what_happens_and_why(ratio, advantage, options, verdict, words):
    story = token_story(inspect_rollout(made(ratio, advantage), beta=0.0, **options), 0, 0)
    assert story.verdict == verdict and words in story.words and "KL" not in story.words
    assert str(story).endswith(story.words)


@pytest.mark.parametrize(
    "advantage, ref, verdict, words",
    [
        (1.0, -2.0, "up", "the KL term pulls it back down, with 6 % of the policy term's force"),
        (1.0, -0.5, "up", "the KL term pushes the same way"),
        (0.0, -2.0, "down", "Pushed down, by the KL term alone: the advantage is 0"),
        (0.0, -1.0, "nothing", "Nothing: the advantage is 0"),
        (-0.01, -0.5, "up", "outweighs that and pulls it back up, with 6.5 times"),
    ],
)
def test_a_story_tells_the_kl_apart(advantage, ref, verdict, words):
    story = token_story(inspect_rollout(made(1.0, advantage, ref), beta=0.1), 0, 0)
    assert story.verdict == verdict and words in story.words


def test_changes_are_counted_by_kind(recording):
    now, before = (inspect_rollout(recording, beta=0.0, loss_type=name) for name in ("cispo", "grpo"))
    text, counts = describe_changes(now, before)
    keep = recording.mask.bool()
    assert sum(counts.values()) == keep.sum()
    assert counts["start"] == before.clipped.sum() > 0 and counts["stop"] == counts["turn"] == 0
    factor = (now.push / before.push)[keep & ~before.clipped]
    assert counts["harder"] == (factor > 1.01).sum() and counts["softer"] == (factor < 0.99).sum()
    assert f"newly pushed {counts['start']}" in text
    assert describe_changes(before, now)[1]["stop"] == counts["start"]
    assert describe_changes(now, now)[1] == {**dict.fromkeys(counts, 0), "same": int(keep.sum())}
    assert describe_changes(inspect_rollout(recording, beta=0.1), before)[0].count("inf") == 0
    flipped = replace(now, policy_gradient=-now.policy_gradient)
    assert describe_changes(flipped, now)[1]["turn"] == (now.push[keep] != 0).sum()
    with pytest.raises(ValueError, match="of one recording"):
        describe_changes(now, inspect_rollout(load_recorded_rollout(), beta=0.0))


def test_settings_in_words():
    assert setting_text(dict(beta=0.0)) == "grpo, token level, beta 0, clip 0.2"
    assert setting_text(dict(loss_type="vespo", delta=None)) == "vespo, beta 0.1"
    text = setting_text(dict(loss_type="cispo", epsilon_high=0.3, bias_correction_kl=True))
    assert text == "cispo, token level, beta 0.1, cap 1.3, KL weighed by the ratio"
    assert setting_text(dict(delta=2.0)).endswith("delta 2")
    weighed = dict(loss_type="vespo", importance_sampling_level="sequence", bias_correction_kl=True)
    assert setting_text(weighed) == "vespo, sequence level, beta 0.1, KL weighed by the ratio"
    assert setting_text({**weighed, "beta": 0.0}) == "vespo, beta 0"


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(loss_type="sapo", sapo_temperatures=(1.0, 1.05)), ""),
        (dict(loss_type="sapo", sapo_temperatures=[1, 2.5]), ", τ 1 for A > 0 and 2.5 else"),
        (dict(loss_type="vespo", vespo_gammas=[[2, 3], [3, 2]]), ""),
        (dict(loss_type="vespo", vespo_gammas=((2, 1), (3, 2))), ", (k, λ) (2, 1) for A ≥ 0 and (3, 2) else"),
        (dict(loss_type="dr_grpo", max_completion_length=20), ", L_max 20"),
        (dict(loss_type="dapo", num_items_in_batch=96), ", N 96"),
        (dict(loss_type="bnpo", num_items_in_batch=96, max_completion_length=20), ""),
        (dict(loss_type="grpo", sapo_temperatures=(1, 2)), ""),
        (dict(loss_type="grpo", mask_truncated_completions=True), ", cut completions left out"),
    ],
)
def test_settings_without_a_control_stand_in_the_words_where_they_matter(options, words):
    assert setting_text(options) == setting_text(dict(loss_type=options["loss_type"])) + words


def test_bad_input_is_refused(recording):
    with pytest.raises(
        TypeError, match="a Recording is needed, got a dict; of a live rollout make one with record_rol"
    ):
        inspect_rollout({})
    with pytest.raises(TypeError, match=r"unknown loss option \['gamma'\]; there are: beta, epsilon"):
        inspect_rollout(recording, gamma=1)
    with pytest.raises(ValueError, match="loss_type must be one of"):
        inspect_rollout(recording, loss_type="ppo")
    seen = inspect_rollout(recording)
    with pytest.raises(ValueError, match="completion must be below 4, got 4"):
        token_story(seen, 4, 0)
    with pytest.raises(ValueError, match="token must be an integer >= 0, got -1"):
        token_story(seen, 0, -1)


def test_what_a_story_says_of_a_ratio_and_a_bound_is_true():
    said = 0
    for ratio in (0.5, 0.79, 0.7999, 1.2001, 1.3, 1.7, 2.5, 5.0):
        for advantage in (1.0, -1.0):
            for delta in (None, 1.1, 1.5, 4.0):
                for high in (None, 0.28, 1.0):
                    options = dict(delta=delta, epsilon_high=high, beta=0.0)
                    story = token_story(inspect_rollout(made(ratio, advantage), **options), 0, 0)
                    if story.verdict == "nothing":
                        shown, side, bound = re.search(r"ratio (\S+) is (above|below) (\S+)\.$", story.words).groups()
                        assert float(shown) > float(bound) if side == "above" else float(shown) < float(bound)
                        assert float(shown) == pytest.approx(ratio, rel=5e-3)
                        known = {0.8, 1.2, 1 + (high or 0.2), delta} - {None}
                        assert any(float(bound) == pytest.approx(x) for x in known)
                        top = 1 + (high or 0.2)
                        by_delta = delta and {min(delta, top) if advantage > 0 else max(delta, top)}
                        if "delta" in story.words:
                            assert float(bound) in by_delta
                        said += 1
    assert said > 50


def test_a_ratio_too_small_for_the_digits_is_said_to_be_so():
    far = Recording([["a"]] * 2, [1, 0], [1, -1], [[1]] * 2, [[-800.0], [-1.0]], [[-1.0], [-1.0]])
    for loss_type in ("grpo", "cispo", "sapo"):
        story = token_story(inspect_rollout(far, beta=0.0, loss_type=loss_type), 0, 0)
        assert story.verdict == "nothing" and "the ratio 0 is so small that the push is 0" in story.words


def test_vespo_shows_the_ratio_that_weighs_its_kl(recording):
    options = dict(loss_type="vespo", beta=0.5, bias_correction_kl=True)
    losses = []
    for level in LEVELS:
        seen = inspect_rollout(recording, **options, importance_sampling_level=level)
        losses.append(seen.loss)
        lines = token_story(seen, 0, 1).lines
        ratio = [line for line in lines if line.startswith("ratio")][-1]
        number = re.search(r"= (\S+)(  \(the completion's\))?$", ratio)[1]
        [part] = [line for line in lines if line.startswith("loss part")]
        assert f"0.5 · {number} · " in part and float(number) == pytest.approx(seen.ratio[0, 1].item(), rel=1e-4)
    assert losses[0] != losses[1]


@pytest.mark.parametrize(
    "log_ratios, log_w",
    [
        ((-25.0, 22.0), 0.0),
        ((15.0, 15.0), 20.0),
        ((-15.0, -15.0), np.log(1e-8)),
        ((0.5, -0.25), 0.25),
        ((750.0, -20.0), 0),
    ],
)
def test_vespo_s_story_keeps_w_within_the_limits_of_its_loss(log_ratios, log_w):
    new = [-1.0 - max(-x, 0.0) for x in log_ratios]
    old = [at - x for at, x in zip(new, log_ratios, strict=True)]
    far = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1]] * 2, [new, [-1.0] * 2], [old, [-1.0] * 2])
    seen = inspect_rollout(far, beta=0.0, loss_type="vespo")
    story = token_story(seen, 0, 0)
    phi = np.exp(2 * log_w + 3 * (1 - np.exp(log_w)))
    assert story.numbers["log_w"] == pytest.approx(log_w, abs=1e-6)
    assert seen.surrogate[0, 0].item() == pytest.approx(phi * new[0], rel=1e-5)
    for line in story.lines[1:]:
        assert evaluates(line) or line.startswith("A  "), line
    inside = abs(sum(log_ratios) - log_w) < 1e-9
    assert ("kept in" in story.lines[1]) != inside


def test_a_long_completion_has_a_story_under_every_loss():
    n = 1500
    far = Recording([["a"] * n] * 2, [1, 0], [1, -1], [[1] * n] * 2, [[-1.0] * n] * 2, [[-1.5] * n, [-1.0] * n])
    for loss_type in LOSS_TYPES:
        story = token_story(inspect_rollout(far, beta=0.0, loss_type=loss_type), 0, 0)
        assert str(story) and "inf" not in str(story) and "nan" not in str(story)


def test_a_loss_that_is_not_finite_is_refused_with_its_token():
    far = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1]] * 2, [[-1.0] * 2] * 2, [[-1.0, -1.0], [-1.0, -760.0]])
    wanted = r"under grpo, token level, beta 0, clip 0.2 .* completion 1, token 1, .*log π is -1, log π_old -760"
    with pytest.raises(FloatingPointError, match=wanted):
        inspect_rollout(far, beta=0.0)
    for loss_type in ("cispo", "vespo"):  # their weights are bounded
        story = token_story(inspect_rollout(far, beta=0.0, loss_type=loss_type), 1, 1)
        assert "= inf" in story.lines[0] and np.isfinite(story.numbers["contribution"])


def test_completions_that_were_cut_can_be_left_out(recording):
    """Against the recording whose mask is 0 there."""
    cut = replace(recording, truncated=torch.tensor([True, False, True, False]))
    for loss_type in LOSS_TYPES:
        seen = inspect_rollout(cut, loss_type=loss_type, mask_truncated_completions=True)
        mask = recording.mask * torch.tensor([0, 1, 0, 1])[:, None]
        by_mask = inspect_rollout(replace(recording, mask=mask, truncated=None), loss_type=loss_type)
        assert seen.loss == by_mask.loss != inspect_rollout(cut, loss_type=loss_type).loss
        assert torch.equal(seen.gradient, by_mask.gradient) and torch.equal(seen.mask, mask)
        assert token_story(seen, 1, 0).lines == token_story(by_mask, 1, 0).lines
    assert "was cut at the length limit" in token_story(seen, 0, 0).words
    assert "after the completion's end" in token_story(seen, 1, 4).words
    whole, part = inspect_rollout(cut), inspect_rollout(cut, mask_truncated_completions=True)
    assert describe_changes(part, whole)[1]["stop"] == (whole.push[[0, 2]] != 0).sum() > 0
    assert describe_changes(whole, part)[1]["start"] == (whole.push[[0, 2]] != 0).sum()
    with pytest.raises(ValueError, match="mask_truncated_completions must be one of False, True, got 2"):
        inspect_rollout(cut, mask_truncated_completions=2)


def test_a_group_without_a_token_that_counts_is_said_to_be_so(recording):
    seen = inspect_rollout(recording)
    assert describe_changes(seen, seen, slice(3, 4)) == ("No token here is part of the loss.", dict.fromkeys(KINDS, 0))
