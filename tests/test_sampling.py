"""What is sampled is what is scored: whatever a checkpoint's generation config says, and for prompts of any length."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from tiny_models import CountingTokenizer, tiny_model
from transformers import GenerationConfig, TopKLogitsWarper, set_seed

from grpo_lib.generation import generate_completions
from grpo_lib.logprobs import compute_log_probs, selective_log_softmax

TOKENIZER = CountingTokenizer()
V = 11
CHECKPOINTS = {
    "says nothing": {},
    "top-k, temperature, penalty": dict(do_sample=True, top_k=2, temperature=0.3, repetition_penalty=1.5),
    "near greedy": dict(do_sample=True, top_k=1, temperature=0.01, repetition_penalty=1.1),
    "tails cut": dict(do_sample=True, top_p=0.5, min_p=0.2, typical_p=0.5, epsilon_cutoff=0.1, eta_cutoff=0.1),
    "tokens forbidden": dict(suppress_tokens=[4], begin_suppress_tokens=[5], bad_words_ids=[[6]], min_new_tokens=3),
    "lengths and repeats": dict(
        no_repeat_ngram_size=1, forced_eos_token_id=7, exponential_decay_length_penalty=[0, 3.0]
    ),
    "beams": dict(num_beams=3, num_return_sequences=2, length_penalty=2.0),
    "greedy": dict(do_sample=False),
}
each_checkpoint = pytest.mark.parametrize("checkpoint", CHECKPOINTS.values(), ids=CHECKPOINTS)


def lively_model(name="qwen3", **checkpoint):
    """A tiny model in fp64 whose distributions are far from uniform, with what its checkpoint says about sampling."""
    torch.manual_seed(0)
    model = tiny_model(name, initializer_range=0.6).double().eval()
    model.generation_config = GenerationConfig(eos_token_id=1, pad_token_id=0, **checkpoint)
    return model


@torch.no_grad()
def scored(model, prompt, length=1, temperature=1.0):
    """Probabilities of all V ** length completions of a prompt, by enumeration."""
    completions = torch.cartesian_prod(*[torch.arange(V)] * length).view(-1, length)
    rows = torch.cat([torch.tensor([prompt] * len(completions)), completions], dim=1)
    scores = compute_log_probs(model, rows, torch.ones_like(rows), length, temperature=temperature)
    return scores.sum(dim=1).exp().numpy()


def p_value(counts, probs):
    """Chi-square test of counts against probabilities; cells with fewer than five expected samples are put together."""
    expected = counts.sum() * probs
    often = expected >= 5
    counts, expected = ([*x[often], x[~often].sum()] for x in (counts, expected))
    return chisquare(*(x if expected[-1] > 0 else x[:-1] for x in (counts, expected))).pvalue


def sampled(model, n=20_000, **options):
    set_seed(0)
    ids = generate_completions(model, TOKENIZER, ["w3 w4"], n, 1, **options)[2]
    return np.bincount(ids[:, 0], minlength=V)


@each_checkpoint
def test_frequencies_are_those_of_the_scored_policy(checkpoint):
    model = lively_model(**checkpoint)
    counts, probs = sampled(model), scored(model, [3, 4])
    assert p_value(counts, probs) > 0.001
    error = np.abs(counts / 20_000 - probs)
    assert (error < 4 * np.sqrt(probs / 20_000) + 1e-4).all()
    assert np.abs(counts / 20_000 - probs).sum() / 2 < 0.02


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_of_sampling_is_that_of_scoring_and_no_other(temperature):
    model = lively_model(**CHECKPOINTS["top-k, temperature, penalty"])
    counts = sampled(model, temperature=temperature)
    assert p_value(counts, scored(model, [3, 4], temperature=temperature)) > 0.001
    assert p_value(counts, scored(model, [3, 4])) < 1e-6


@each_checkpoint
def test_two_tokens_follow_the_scored_policy_too(checkpoint):
    model = lively_model(**checkpoint)
    set_seed(0)
    ids = generate_completions(model, TOKENIZER, ["w3 w4"], 20_000, 2)[2]
    counts, probs = np.bincount(ids[:, 0] * V + ids[:, 1], minlength=V * V), scored(model, [3, 4], length=2)
    probs[V], probs[V + 1 : 2 * V] = probs[V : 2 * V].sum(), 0  # the end token first: only padding follows
    assert counts[probs == 0].sum() == 0
    assert p_value(counts, probs) > 0.001


@pytest.mark.parametrize(
    "setting", [dict(top_k=3), dict(top_p=0.7), dict(repetition_penalty=1.5), dict(temperature=0.8)]
)
def test_these_tests_see_a_mismatch(setting):
    model = lively_model()
    set_seed(0)
    rows = torch.tensor([[3, 4]] * 20_000)
    options = dict(dict(do_sample=True, max_new_tokens=1, top_k=0), **setting)
    ids = model.generate(rows, attention_mask=torch.ones_like(rows), **options)
    assert p_value(np.bincount(ids[:, 2], minlength=V), scored(model, [3, 4])) < 1e-6


def effective(model, call):
    """What the sampling loop is handed in the end: (the generation config, the names of the steps before the draw)."""
    seen = []

    def note(model, input_ids, logits_processor, generation_config, **_):
        seen.append((generation_config, [type(step).__name__ for step in logits_processor]))
        return input_ids

    model.generate = partial(type(model).generate, model, custom_generate=note)
    call()
    return seen[0]


@each_checkpoint
@pytest.mark.parametrize("temperature", [1.0, 0.7, 0])
def test_effective_settings_are_those_asked_for_and_no_step_comes_before_the_draw(checkpoint, temperature):
    model = lively_model(**checkpoint)
    config, steps = effective(
        model, lambda: generate_completions(model, TOKENIZER, ["w3 w4"], 2, 5, temperature=temperature)
    )
    assert steps == (["TemperatureLogitsWarper"] if temperature == 0.7 else [])
    assert (config.num_beams, config.repetition_penalty, config.max_new_tokens) == (1, 1.0, 5)
    assert config.do_sample is (temperature > 0)
    if temperature:
        assert (config.temperature, config.top_k, config.top_p) == (temperature, 0, 1.0)


def test_reading_settings_back_sees_what_a_plain_call_gets():
    rows = torch.tensor([[3, 4]])
    options = dict(attention_mask=torch.ones_like(rows), do_sample=True, max_new_tokens=5)
    silent, loud = lively_model(), lively_model(**CHECKPOINTS["top-k, temperature, penalty"])
    config, steps = effective(silent, lambda: silent.generate(rows, **options))
    assert (config.top_k, steps) == (50, ["TopKLogitsWarper"])
    config, steps = effective(loud, lambda: loud.generate(rows, **options))
    assert (config.top_k, config.temperature, config.repetition_penalty) == (2, 0.3, 1.5)
    assert steps == ["RepetitionPenaltyLogitsProcessor", "TemperatureLogitsWarper", "TopKLogitsWarper"]


def test_top_k_would_raise_the_log_prob_by_the_kept_mass_and_nothing_is_cut_here():
    logits = torch.tensor([0.6, 0.3, 0.1]).log()
    cut = TopKLogitsWarper(2)(None, logits[None])
    full, kept = (selective_log_softmax(x.view(1, 1, 3), torch.tensor([[0]])).item() for x in (logits, cut))
    assert (round(full, 4), round(kept, 4)) == (-0.5108, -0.4055)
    assert full - kept == pytest.approx(np.log(0.9), abs=1e-6)

    model = lively_model(top_k=2)

    def three_words(module, args, output):
        output.logits[:] = -1e4
        output.logits[..., 5:8] = logits.double()
        return output

    model.register_forward_hook(three_words)
    assert p_value(sampled(model)[5:8], np.array([0.6, 0.3, 0.1])) > 0.001


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
def test_each_prompt_of_an_unequal_batch_gets_its_own_distribution(name):
    model, prompts = lively_model(name), [[3, 4, 5, 6, 7], [8], [9, 2]]
    set_seed(0)
    texts = [" ".join(f"w{i}" for i in prompt) for prompt in prompts]
    ids = generate_completions(model, TOKENIZER, texts, 4000, 1)[2].view(3, 4000)  # groups in consecutive rows
    table = [[p_value(np.bincount(group, minlength=V), scored(model, prompt)) for prompt in prompts] for group in ids]
    assert np.diag(table).min() > 0.001
    assert max(table[i][j] for i in range(3) for j in range(3) if i != j) < 1e-6
