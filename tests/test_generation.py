import copy
import math

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model
from transformers import GenerationConfig

from grpo_lib.generation import (
    completion_texts,
    encode_prompts,
    generate_completions,
    sampling_config,
    stop_token_ids,
)
from grpo_lib.logprobs import compute_log_probs

TOKENIZER = CountingTokenizer()


def lively_model(name="qwen3", **changes):
    """A tiny model whose distributions are far from uniform."""
    torch.manual_seed(0)
    return tiny_model(name, initializer_range=0.6, **changes).eval()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_sampled_frequencies_follow_the_scored_policy_whatever_the_checkpoint_says(temperature):
    model = lively_model()
    model.generation_config = GenerationConfig(
        do_sample=True, top_k=2, top_p=0.5, temperature=0.3, repetition_penalty=1.5, eos_token_id=1, min_new_tokens=1
    )
    torch.manual_seed(0)
    n = 20_000
    _, _, ids, _ = generate_completions(model, TOKENIZER, ["w3 w4"], n, 1, temperature=temperature)
    frequency = torch.bincount(ids[:, 0], minlength=11) / n
    prompt = torch.tensor([[3, 4]] * 11)
    scored = compute_log_probs(
        model, torch.cat([prompt, torch.arange(11)[:, None]], 1), torch.ones(11, 3), 1, temperature=temperature
    )
    error = (frequency - scored.exp()[:, 0]).abs()
    assert (error < 4 * (scored.exp()[:, 0] / n).sqrt() + 1e-4).all()
    assert scored.exp().min() > 1e-5 and frequency.count_nonzero() > 5


def test_the_same_test_sees_a_truncated_distribution():
    model = lively_model()
    torch.manual_seed(0)
    config = GenerationConfig(do_sample=True, top_k=2, max_new_tokens=1, pad_token_id=0)
    ids = model.generate(torch.tensor([[3, 4]] * 2000), generation_config=config)[:, 2]
    frequency = torch.bincount(ids, minlength=11) / 2000
    assert frequency.count_nonzero() <= 2


def test_everything_is_given_back_also_after_an_exception():
    model = lively_model("gpt2", resid_pdrop=0.5).train()
    model.lm_head.eval()
    own, modes = model.generation_config, [m.training for m in model.modules()]
    generate_completions(model, TOKENIZER, ["w3"], 2, 3)
    assert model.generation_config is own
    assert [m.training for m in model.modules()] == modes

    model.transformer.register_forward_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("boom")))
    with pytest.raises(RuntimeError, match="boom"):
        generate_completions(model, TOKENIZER, ["w3"], 2, 3)
    assert model.generation_config is own
    assert [m.training for m in model.modules()] == modes
    assert TOKENIZER.padding_side == "right"


def test_training_mode_with_dropout_and_checkpointing_changes_nothing():
    model = lively_model("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    plain = generate_completions(model, TOKENIZER, ["w3 w4"], 1, 6, temperature=0)[2]
    model.gradient_checkpointing_enable()
    model.train()
    again = generate_completions(model, TOKENIZER, ["w3 w4"], 1, 6, temperature=0)[2]
    assert again.tolist() == plain.tolist()
    assert model.training and model.is_gradient_checkpointing


@pytest.mark.parametrize("name", ["qwen3", "llama", "gpt2"])
def test_batch_of_unequal_prompts_equals_one_by_one(name):
    model = lively_model(name)
    prompts = ["w3 w4 w5 w6 w7", "w8", "w9 w2"]
    together = generate_completions(model, TOKENIZER, prompts, 1, 6, temperature=0)
    for row, prompt in enumerate(prompts):
        alone = generate_completions(model, TOKENIZER, [prompt], 1, 6, temperature=0)
        length = int(alone[3].sum())
        assert together[2][row, :length].tolist() == alone[2][0, :length].tolist()
        assert int(together[3][row].sum()) == length


def test_rows_are_groups_prompts_padded_left():
    prompt_ids, prompt_mask, completion_ids, completion_mask = generate_completions(
        lively_model(), TOKENIZER, ["w3", "w4 w5"], 2, 4
    )
    assert prompt_ids.tolist() == [[0, 3], [0, 3], [4, 5], [4, 5]]
    assert prompt_mask.tolist() == [[0, 1], [0, 1], [1, 1], [1, 1]]
    assert completion_ids.shape == completion_mask.shape
    assert completion_ids.shape[1] <= 4


class EndsAfterThree:
    """A forward hook: all mass on token 7 for three tokens, then on the end token."""

    def __init__(self, stop):
        self.stop, self.calls = stop, 0

    def __call__(self, module, args, output):
        self.calls += 1
        output.logits[:] = -1e4
        output.logits[..., self.stop if self.calls > 3 else 7] = 1e4
        return output


@pytest.mark.parametrize("stop", [1, 9], ids=["tokenizer's", "checkpoint's second"])
def test_every_stop_id_ends_a_completion_early(stop):
    model = lively_model()
    model.generation_config.eos_token_id = [1, 9]
    hook = EndsAfterThree(stop)
    model.register_forward_hook(hook)
    _, _, ids, mask = generate_completions(model, TOKENIZER, ["w3"], 2, 20)
    assert stop_token_ids(model, TOKENIZER) == [1, 9]
    assert ids[:, :4].tolist() == [[7, 7, 7, stop]] * 2
    assert mask.sum(dim=1).tolist() == [4, 4]
    assert hook.calls == 4  # not 20


def test_effective_settings():
    config = sampling_config([1], 0, 5, 0.7)
    assert (config.top_k, config.top_p, config.repetition_penalty, config.temperature) == (0, 1.0, 1.0, 0.7)
    assert sampling_config([1], 0, 5, 0).do_sample is False


def test_text_stops_at_the_first_end_token():
    ids = torch.tensor([[5, 1, 9, 9], [1, 5, 5, 5], [5, 6, 7, 8]])
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]])
    assert completion_texts(TOKENIZER, ids, mask) == ["w5", "", "w5 w6 w7 w8"]


class EndingTokenizer(CountingTokenizer):
    """Puts BOS in front and the end token behind, as some tokenizers do."""

    bos_token_id = 2

    def __call__(self, text, add_special_tokens=True):
        ids = super().__call__(text)["input_ids"]
        return {"input_ids": [2, *ids, 1] if add_special_tokens else ids}

    def decode(self, ids, skip_special_tokens=True):
        return " ".join(f"w{i}" for i in ids)


def test_a_rendered_prompt_gets_no_second_bos_and_no_end_token():
    assert encode_prompts(EndingTokenizer(), ["w2 w3 w4", "w3"]) == [[2, 3, 4], [2, 3]]


def test_a_padding_token_without_an_embedding_is_not_used():
    tokenizer = copy.copy(TOKENIZER)
    tokenizer.pad_token_id = 11  # the model knows 0 … 10
    prompt_ids, _, _, _ = generate_completions(lively_model(), tokenizer, ["w3", "w4 w5"], 1, 2)
    assert prompt_ids.tolist() == [[1, 3], [4, 5]]


class ChatTokenizer(CountingTokenizer):
    """Puts a BOS (id 2) in front of plain text; its template writes one too, and the assistant's header (id 8)."""

    chat_template = "template"

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": ([2] if add_special_tokens else []) + super().__call__(text)["input_ids"]}

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        assert add_generation_prompt and not tokenize
        return " ".join(["w2", *(m["content"] for m in messages), "w8"])


def test_one_bos_for_plain_text_and_for_chat():
    got = encode_prompts(ChatTokenizer(), ["w3 w4", [{"role": "user", "content": "w3 w4"}]])
    assert got == [[2, 3, 4], [2, 3, 4, 8]]


@pytest.mark.parametrize(
    ("prompts", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one prompt"),
        ("w3", {}, ValueError, "must be a list"),
        (["w3", ""], {}, ValueError, "prompt 1 has no token"),
        ([7], {}, TypeError, "prompt 0 must be a string or a list of messages"),
        ([[{"role": "user", "content": "w3"}]], {}, ValueError, "no chat template"),
        (["w3 w4 w5"], {"max_prompt_length": 2}, ValueError, "prompt 0 has 3 tokens, more than max_prompt_length = 2"),
        (["w3"], {"num_generations": 0}, ValueError, "num_generations must be"),
        (["w3"], {"max_completion_length": 0}, ValueError, "max_completion_length must be"),
        (["w3"], {"temperature": -1}, ValueError, "temperature must be"),
        (["w3"], {"temperature": math.nan}, ValueError, "temperature must be"),
    ],
)
def test_bad_input_is_refused(prompts, options, error, message):
    with pytest.raises(error, match=message):
        generate_completions(tiny_model("llama"), TOKENIZER, prompts, **options)


def test_a_tokenizer_without_a_padding_token_is_left_as_it_is():
    tokenizer = copy.copy(TOKENIZER)
    tokenizer.pad_token_id = None
    _, _, ids, mask = generate_completions(lively_model(), tokenizer, ["w3", "w4 w5"], 2, 8)
    assert tokenizer.pad_token_id is None
    assert ids.shape == mask.shape
