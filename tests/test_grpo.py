import copy
import math
from dataclasses import replace

import pytest
import torch
from tiny_models import CountingTokenizer, sine_model, tiny_model

from grpo_lib.grpo import Rollout, collect_rollout, grpo_loss, rollout_loss, score_rollout
from grpo_lib.masks import create_completion_mask

TOKENIZER = CountingTokenizer()
SAMPLES = [{"prompt": "w3 w4", "answer": "w5"}, {"prompt": "w6", "answer": "w7"}]


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def lively_model(name="qwen3", **changes):
    torch.manual_seed(0)
    return tiny_model(name, initializer_range=0.6, **changes).eval()


def fixed_rollout(data, **changes):
    completion_ids, prompt_ids = torch.tensor(data["completion_ids"]), torch.tensor(data["prompt_ids"])
    fields = {
        "prompts": [""] * 4,
        "answers": [""] * 4,
        "completions": [""] * 4,
        "texts": [""] * 4,
        "prompt_ids": prompt_ids,
        "prompt_mask": (prompt_ids != 0).long(),
        "completion_ids": completion_ids,
        "completion_mask": torch.tensor(data["completion_mask"]),
        "truncated": torch.zeros(4, dtype=torch.bool),
        "rewards": torch.zeros(4),
        "advantages": torch.tensor(data["advantages"], dtype=torch.float64),
        "num_generations": 2,
    }
    return Rollout(**{**fields, **changes})


@pytest.mark.parametrize("name", ["qwen3", "llama", "gpt2"])
def test_golden_sine_models_loss_and_gradient_norm(golden, name):
    data = golden("sine_models")
    model, rollout = sine_model(name), fixed_rollout(data)
    rollout = replace(rollout, ref_log_probs=score_rollout(sine_model(name, 0.9), rollout))
    loss, _ = rollout_loss(model, rollout, beta=0.1)
    loss.backward()
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in model.parameters() if p.grad is not None))
    assert abs(loss.item() - data[name]["grpo_loss_beta01"]) < 1e-5
    assert abs(norm - data[name]["grad_norm"]) < 1e-5


def test_layout_given_to_the_reward_function():
    seen = {}

    def reward(prompts, completions, answer, level, **kwargs):
        seen.update(prompts=prompts, answer=answer, level=level, kwargs=kwargs)
        return [0.0] * len(completions)

    samples = [{**sample, "level": i} for i, sample in enumerate(SAMPLES)]
    rollout = collect_rollout(lively_model(), TOKENIZER, samples, reward, num_generations=4, max_completion_length=3)
    assert seen["prompts"] == ["w3 w4"] * 4 + ["w6"] * 4
    assert seen["answer"] == ["w5"] * 4 + ["w7"] * 4
    assert seen["level"] == [0] * 4 + [1] * 4
    assert rollout.answers == seen["answer"]
    assert len(rollout) == 8


def test_pairs_and_dicts_give_the_same_loss():
    model = lively_model()
    losses = []
    for samples in (SAMPLES, [tuple(s.values()) for s in SAMPLES]):
        torch.manual_seed(5)
        losses.append(grpo_loss(model, None, TOKENIZER, samples, count_w5, beta=0.0, max_completion_length=4).item())
    assert losses[0] == losses[1]


def test_loss_is_the_composition_of_its_parts():
    """The same number from log_softmax over all logits, a loop over tokens, and Python's arithmetic."""
    model, ref = lively_model(), copy.deepcopy(lively_model())
    with torch.no_grad():
        for p in ref.parameters():
            p.mul_(0.9)
    torch.manual_seed(1)
    loss = grpo_loss(model, ref, TOKENIZER, SAMPLES, count_w5, beta=0.2, num_generations=4, max_completion_length=5)
    torch.manual_seed(1)
    r = collect_rollout(model, TOKENIZER, SAMPLES, count_w5, num_generations=4, max_completion_length=5)
    assert r.rewards.std() > 0
    total = 0.0
    for b in range(8):
        prompt = r.prompt_ids[b][r.prompt_mask[b].bool()].tolist()
        completion = r.completion_ids[b][r.completion_mask[b].bool()].tolist()
        ids = torch.tensor([prompt + completion])
        new, old = ((m(input_ids=ids).logits[0].log_softmax(-1)) for m in (model, ref))
        group = r.rewards[b // 4 * 4 : b // 4 * 4 + 4].tolist()
        mean = sum(group) / 4
        std = math.sqrt(sum((x - mean) ** 2 for x in group) / 3)
        advantage = (r.rewards[b].item() - mean) / (std + 1e-4)
        terms = []
        for t, token in enumerate(completion):
            d = (old[len(prompt) + t - 1, token] - new[len(prompt) + t - 1, token]).item()
            terms.append(-(advantage - 0.2 * (math.exp(d) - d - 1)))
        total += sum(terms) / len(terms)
    assert math.isclose(loss.item(), total / 8, rel_tol=1e-4, abs_tol=1e-6)


def test_dropout_is_off_while_scoring_so_kl_starts_at_zero_and_ratio_at_one():
    model = lively_model("gpt2", resid_pdrop=0.3, embd_pdrop=0.3, attn_pdrop=0.3).train()
    ref = copy.deepcopy(model).eval()
    rollout = collect_rollout(model, TOKENIZER, SAMPLES, count_w5, max_completion_length=4)
    old = score_rollout(model, rollout)
    rollout = replace(rollout, old_log_probs=old, ref_log_probs=score_rollout(ref, rollout))
    _, watch = rollout_loss(model, rollout, beta=0.1)
    keep = rollout.completion_mask.bool()
    assert watch["kl"][keep].abs().max() < 1e-5
    assert (watch["ratio"][keep] - 1).abs().max() < 1e-5
    assert model.training


def test_gradient_checkpointing_gives_the_same_gradients():
    plain, saving = lively_model("llama"), lively_model("llama")
    rollout = collect_rollout(plain, TOKENIZER, SAMPLES, count_w5, max_completion_length=4)
    saving.gradient_checkpointing_enable()
    saving.train()
    recomputed = []
    saving.model.layers[0].self_attn.register_forward_hook(lambda *_: recomputed.append(1))
    for model in (plain, saving):
        rollout_loss(model, rollout, beta=0.0)[0].backward()
    assert len(recomputed) == 2  # forward, and once more for the backward pass
    for a, b in zip(plain.parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_scored_in_one_batch_or_in_chunks_the_ratio_is_one():
    model = lively_model()
    rollout = collect_rollout(model, TOKENIZER, SAMPLES, count_w5, max_completion_length=6)
    rollout = replace(rollout, old_log_probs=score_rollout(model, rollout, chunk_size=2))
    _, watch = rollout_loss(model, rollout, beta=0.0)
    assert (watch["ratio"][rollout.completion_mask.bool()] - 1).abs().max() < 1e-4
    assert not watch["clipped"].any()


def test_temperature_of_the_rollout_is_the_temperature_of_the_score():
    model = lively_model()
    rollout = collect_rollout(model, TOKENIZER, SAMPLES, count_w5, max_completion_length=4, temperature=2.0)
    cold = score_rollout(model, replace(rollout, temperature=1.0))
    assert (score_rollout(model, rollout) - cold)[rollout.completion_mask.bool()].abs().max() > 0.1


def test_text_after_the_end_token_never_reaches_the_reward():
    texts = []

    def spy(prompts, completions, answer):
        texts.extend(completions)
        return [0.0] * len(completions)

    rollout = collect_rollout(lively_model(), TOKENIZER, SAMPLES * 4, spy, num_generations=8, max_completion_length=12)
    assert (rollout.completion_mask.sum(1) < rollout.completion_ids.shape[1]).any()
    for ids, text in zip(rollout.completion_ids, texts, strict=True):
        mask = create_completion_mask(ids[None], 1)[0]
        assert text == TOKENIZER.decode(ids[mask.bool()].tolist())


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (lambda n: [1.0], "count_of_one.*1.*8|count_of_one.*8.*1"),
        (lambda n: [1.0] * 7, "count_of_one"),
        (lambda n: [1.0] * 7 + [None], "count_of_one.*7|count_of_one.*row"),
        (lambda n: [1.0] * 7 + [math.nan], "count_of_one"),
    ],
)
def test_rewards_are_checked_where_they_enter(rewards, message):
    def count_of_one(prompts, completions, answer):
        return rewards(len(completions))

    with pytest.raises((ValueError, TypeError), match=message):
        grpo_loss(lively_model(), None, TOKENIZER, SAMPLES, count_of_one, beta=0.0)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "at least one sample"),
        ({"prompt": "w3", "answer": "w4"}, "must be a list"),
        (["w3"], "sample 0 must be a dict"),
        ([{"question": "w3", "answer": "w4"}], "sample 0 must be a dict"),
        ([SAMPLES[0], {**SAMPLES[1], "level": 1}], "same keys: sample 0 has .* sample 1"),
    ],
)
def test_bad_samples_are_refused(samples, message):
    with pytest.raises(ValueError, match=message):
        grpo_loss(lively_model(), None, TOKENIZER, samples, count_w5, beta=0.0)


def test_a_reward_that_changes_its_arguments_changes_nothing_else():
    samples = [{"prompt": [{"role": "user", "content": "w3"}], "answer": ["w5"]}]

    def vandal(prompts, completions, answer):
        for prompt, gold in zip(prompts, answer, strict=True):
            prompt.append({"role": "user", "content": "w4"})
            gold.clear()
        rewards = [0.0] * len(completions)
        completions.clear()
        return rewards

    class Chat(CountingTokenizer):
        chat_template = "template"

        def apply_chat_template(self, messages, add_generation_prompt, tokenize):
            return " ".join(m["content"] for m in messages)

    rollout = collect_rollout(lively_model(), Chat(), samples, vandal, max_completion_length=3)
    assert samples == [{"prompt": [{"role": "user", "content": "w3"}], "answer": ["w5"]}]
    assert len(rollout.completions) == len(rollout) == 4


def test_checkpointing_with_dropout_is_refused_where_the_backward_pass_is_not_ours():
    model = lively_model("gpt2", resid_pdrop=0.3).train()
    model.gradient_checkpointing_enable()
    with pytest.raises(ValueError, match="checkpoints its activations and has dropout"):
        grpo_loss(model, None, TOKENIZER, SAMPLES, count_w5, beta=0.0)


def test_missing_reference_and_single_generation_are_refused():
    with pytest.raises(ValueError, match="needs a ref_model"):
        grpo_loss(lively_model(), None, TOKENIZER, SAMPLES, count_w5)
    with pytest.raises(ValueError, match=">= 2, got 1"):
        grpo_loss(lively_model(), None, TOKENIZER, SAMPLES, count_w5, beta=0.0, num_generations=1)


def test_loss_out_of_range_is_an_error_not_a_number():
    model = lively_model()
    model.lm_head.register_forward_hook(lambda m, i, out: out * float("inf") if torch.is_grad_enabled() else out)
    with pytest.raises(FloatingPointError, match="the loss is nan"):
        grpo_loss(model, None, TOKENIZER, SAMPLES, count_w5, beta=0.0, max_completion_length=8)
