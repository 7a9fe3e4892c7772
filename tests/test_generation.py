import copy
import logging
import math

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model
from tokenizers.processors import TemplateProcessing
from transformers import BatchEncoding, GenerationConfig

from grpo_lib import correctness_reward, load_tiny_policy
from grpo_lib.generation import (
    completion_texts,
    encode_prompts,
    generate_completions,
    sampling_config,
    stop_token_ids,
)
from grpo_lib.logprobs import compute_log_probs
from grpo_lib.masks import create_completion_mask

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
    logger, said = logging.getLogger("transformers"), []
    handler = logging.Handler()
    handler.emit = said.append
    logger.addHandler(handler)
    again = generate_completions(model, TOKENIZER, ["w3 w4"], 1, 6, temperature=0)[2]
    logger.warning("heard")
    logger.removeHandler(handler)
    assert again.tolist() == plain.tolist()
    assert model.training and model.is_gradient_checkpointing
    assert [record.getMessage() for record in said] == ["heard"]  # no warning a token about the cache


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


def test_a_tokenizer_that_pads_on_the_right_gives_the_same_texts_and_still_does():
    policy, tokenizer = load_tiny_policy()
    tokenizer.padding_side = "right"
    prompts = [[{"role": "user", "content": text}] for text in ("47+38=?", "5+2=?", "what is 47+38=?")]
    together = completion_texts(tokenizer, *generate_completions(policy, tokenizer, prompts, 1, 24, temperature=0)[2:])
    for prompt, text in zip(prompts, together, strict=True):
        alone = generate_completions(policy, tokenizer, [prompt], 1, 24, temperature=0)
        assert completion_texts(tokenizer, *alone[2:]) == [text]
    assert tokenizer.padding_side == "right"


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


def test_one_bos_from_a_real_tokenizer_whose_template_prints_one_too():
    tokenizer = load_tiny_policy()[1]
    tokenizer.add_special_tokens({"bos_token": "<|im_start|>"})
    template = TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", tokenizer.bos_token_id)])
    tokenizer.backend_tokenizer.post_processor = template
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    chat = [{"role": "user", "content": "1+2=?"}]
    rendered = tokenizer.apply_chat_template(chat, tokenize=False)
    assert tokenizer(rendered)["input_ids"][:2] == [1, 1]  # the fault this is about
    for prompt in (chat, rendered, "1+2=?"):
        [ids] = encode_prompts(tokenizer, [prompt])
        assert ids.count(1) == 1 and ids[0] == 1 and tokenizer.decode(ids[1:]) == "1+2=?"


def test_chat_ids_are_those_of_transformers_own_template():
    tokenizer = load_tiny_policy()[1]
    chat = [{"role": "user", "content": "47+38=?"}]
    wanted = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=True)
    assert encode_prompts(tokenizer, [chat]) == [list(wanted["input_ids"])]


@pytest.mark.parametrize("form", [list, lambda ids: BatchEncoding({"input_ids": ids}), torch.tensor])
def test_whatever_a_chat_template_tokenizes_to_the_ids_are_the_same(form):
    """Versions of transformers return a list, a mapping or a tensor from `tokenize=True`; text is text in all."""

    class Tokenizer(ChatTokenizer):
        def apply_chat_template(self, messages, add_generation_prompt=False, tokenize=True):
            text = super().apply_chat_template(messages, add_generation_prompt, tokenize=False)
            return form(self(text)["input_ids"]) if tokenize else text

    assert encode_prompts(Tokenizer(), [[{"role": "user", "content": "w3 w4"}]]) == [[2, 3, 4, 8]]


def test_what_follows_the_end_token_is_not_in_the_text_that_is_rewarded():
    tokenizer = load_tiny_policy()[1]
    ids = tokenizer("<answer>\n5\n</answer><|im_end|><answer>\n9\n</answer>")["input_ids"]
    ids = torch.tensor([ids])
    texts = completion_texts(tokenizer, ids, create_completion_mask(ids, tokenizer.eos_token_id))
    assert texts == ["<answer>\n5\n</answer>"]
    assert correctness_reward([""], texts, ["5"]) == [2.0]
    assert correctness_reward([""], [tokenizer.decode(ids[0])], ["5"]) != [2.0]


LONG = [{"role": "user", "content": " ".join(["w3"] * 48)}]


def test_a_prompt_too_long_for_the_limit_is_refused_whole():
    assert len(encode_prompts(ChatTokenizer(), [LONG], max_prompt_length=50)[0]) == 50
    with pytest.raises(ValueError, match="prompt 1 has 50 tokens, more than max_prompt_length = 20. It is not cut"):
        encode_prompts(ChatTokenizer(), ["w3", LONG], max_prompt_length=20)


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
