"""The whole loop on tiny models of many families, and with tokenizers of many habits: sample, score, loss, step."""

import copy
import json
import math
import random
import warnings

import pytest
import torch
from fuzz import mask_by_hand
from tiny_architectures import FAMILIES, READ_PADDING, tiny_architecture
from tiny_models import CountingTokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from grpo_lib.generation import encode_prompts, generate_completions, stop_token_ids
from grpo_lib.padding import padding_gap
from grpo_lib.records import GRPOSettings
from grpo_lib.run import GRPORun

TOKENIZER = CountingTokenizer()
DATA = [("w2", "a"), ("w4 w5 w6", "b"), ("w7 w8", "c")]
pytestmark = [
    pytest.mark.filterwarnings("ignore:step"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]


def different_words(prompts, completions, answer):
    return [float(len(set(text.split()))) for text in completions]


def scored_alone(model, rollout):
    """Each row by itself, without padding, all logits, PyTorch's own log_softmax."""
    rows = []
    for prompt, real, ids, counts in zip(
        rollout.prompt_ids, rollout.prompt_mask, rollout.completion_ids, rollout.completion_mask, strict=True
    ):
        prompt, ids = prompt[real.bool()], ids[counts.bool()]
        whole = torch.cat([prompt, ids])[None]
        with torch.no_grad():
            logits = model(input_ids=whole, attention_mask=torch.ones_like(whole)).logits[0, len(prompt) - 1 : -1]
        rows.append(logits.log_softmax(-1)[torch.arange(len(ids)), ids])
    return rows


def check_numbers(record):
    numbers = [value for value in vars(record).values() if isinstance(value, float)]
    assert len(numbers) > 10 and all(map(math.isfinite, numbers))


def whole_loop(model, data, **settings):
    start = copy.deepcopy(model)
    settings = {"num_generations": 4, "max_completion_length": 6, "learning_rate": 1e-3, **settings}
    settings |= {"beta": 0.1, "updates_per_rollout": 2, "micro_batch_size": 5}
    run = GRPORun(model, TOKENIZER, data, GRPOSettings(**settings), reward_function=different_words)
    first = next(run)
    assert first.kl is not None and first.kl > 0  # of the second update, the first has moved the policy
    check_numbers(first)
    rollout = run.rollout
    want, cut = mask_by_hand(rollout.completion_ids.tolist(), {1})
    assert rollout.completion_mask.tolist() == want and rollout.truncated.tolist() == cut
    for got, alone, counts in zip(
        rollout.old_log_probs, scored_alone(start, rollout), rollout.completion_mask, strict=True
    ):
        torch.testing.assert_close(got[counts.bool()], alone, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(rollout.ref_log_probs, rollout.old_log_probs, atol=2e-5, rtol=1e-4)
    check_numbers(next(run))
    moved = [(a - b).abs().max() for a, b in zip(model.parameters(), start.parameters(), strict=True)]
    assert all(torch.isfinite(part) for part in moved) and max(moved) > 0


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in READ_PADDING])
def test_a_batch_of_unequal_prompts_is_sampled_scored_and_learned_from(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*reads a prompt differently")
        whole_loop(tiny_architecture(name), DATA, batch_size=3)


@pytest.mark.parametrize("name", READ_PADDING)
def test_a_model_that_reads_padding_is_named_once_and_right_without_any(name):
    model = tiny_architecture(name)
    ids, mask = torch.tensor([[0, 0, 0, 5, 6, 7]]), torch.tensor([[0, 0, 0, 1, 1, 1]])
    assert padding_gap(model, ids, mask) > 1e-3
    assert padding_gap(model, ids, mask) == padding_gap(model, ids, mask)
    prompts = [prompt for prompt, _ in DATA]
    with pytest.warns(UserWarning, match=f"{type(model).__name__} reads .*Use prompts of one length, or batch_size=1"):
        generate_completions(model, TOKENIZER, prompts, 2, 3)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*reads a prompt differently")
        generate_completions(model, TOKENIZER, prompts, 2, 3)
        whole_loop(model, DATA, batch_size=1)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in READ_PADDING])
def test_greedy_tokens_of_a_padded_batch_are_the_likeliest_of_each_row_alone(name):
    model = tiny_architecture(name)
    prompts, real, ids, counts = generate_completions(model, TOKENIZER, [p for p, _ in DATA], 1, 5, temperature=0)
    for row in range(len(DATA)):
        prefix = prompts[row][real[row].bool()].tolist()
        for token in ids[row][counts[row].bool()].tolist():
            with torch.no_grad():
                logits = model(torch.tensor([prefix]), attention_mask=torch.ones(1, len(prefix))).logits[0, -1]
            assert logits.max() - logits[token] < 1e-4
            prefix.append(token)


# ---------------------------------------------------------------- tokenizers


CORPUS = ["47+38=?", "the answer is 85", "a < b & c", "שלום 5", "مرحبا", "naïve café", "\U0001f600 smile", "x\x00y\x1b"]
TEMPLATES = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
    "{{ bos_token or '' }}{% for m in messages %}[{{ m['content'] }}]{% endfor %}",
)


def random_tokenizer(rng):
    """A tokenizer of random make, and whether it puts its BOS in front of plain texts."""
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    if rng.random() < 0.5:
        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=rng.choice([270, 300]),
            special_tokens=rng.sample(list(special.values()), 4),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        inner = Tokenizer(models.WordLevel(unk_token="<unk>"))
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
        trainer = trainers.WordLevelTrainer(special_tokens=rng.sample(list(special.values()), 4), show_progress=False)
    inner.train_from_iterator(CORPUS * 3, trainer)
    in_front, behind = rng.random() < 0.5, rng.random() < 0.3
    if in_front or behind:
        single = f"{'<s> ' if in_front else ''}$A{' </s>' if behind else ''}"
        ids = [(token, inner.token_to_id(token)) for token in ("<s>", "</s>")]
        inner.post_processor = processors.TemplateProcessing(single=single, special_tokens=ids)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    tokenizer.padding_side = rng.choice(["left", "right"])
    tokenizer.pad_token = rng.choice(["<pad>", "</s>", None])
    tokenizer.eos_token = "</s>" if behind else rng.choice(["</s>", None])
    tokenizer.chat_template = rng.choice(TEMPLATES)
    return tokenizer


@pytest.mark.parametrize("seed", range(16))
def test_the_loop_is_right_with_any_tokenizer(seed):
    rng = random.Random(seed)
    tokenizer = random_tokenizer(rng)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + rng.choice([0, 3]),
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    model = LlamaForCausalLM(config).eval()
    more = rng.sample(range(len(tokenizer)), 40)
    model.generation_config.eos_token_id = rng.choice([None, more[0], more])
    texts = rng.sample(CORPUS, 3)
    data = [
        {"prompt": text if rng.random() < 0.5 else [{"role": "user", "content": text}], "answer": "5"} for text in texts
    ]
    for prompt, ids in zip(data, encode_prompts(tokenizer, [row["prompt"] for row in data]), strict=True):
        assert ids.count(tokenizer.bos_token_id) <= 1 and ids[-1] not in (tokenizer.eos_token_id, None), prompt
    before = (tokenizer.padding_side, tokenizer.pad_token, model.generation_config.to_dict())
    settings = GRPOSettings(batch_size=3, num_generations=3, max_completion_length=8, beta=0.05, learning_rate=1e-2)
    seen = []

    def reward(prompts, completions, answer):
        seen.extend(c if isinstance(c, str) else c[0]["content"] for c in completions)
        return [float(len(text)) for text in seen[-len(completions) :]]

    run = GRPORun(model, tokenizer, data, settings, reward_function=reward)
    record = next(run)
    check_numbers(record)
    assert record.kl < 1e-6
    rollout, stops = run.rollout, set(stop_token_ids(model, tokenizer))
    assert tokenizer.eos_token_id is None or tokenizer.eos_token_id in stops
    want, cut = mask_by_hand(rollout.completion_ids.tolist(), stops)
    assert rollout.completion_mask.tolist() == want and rollout.truncated.tolist() == cut
    for text, ids, counts in zip(seen, rollout.completion_ids.tolist(), want, strict=True):
        assert text == tokenizer.decode(ids[: sum(counts)], skip_special_tokens=True)
    check_numbers(next(run))
    assert before == (tokenizer.padding_side, tokenizer.pad_token, model.generation_config.to_dict())


# ---------------------------------------------------------------- hostile completions


HOSTILE = [
    "9" * 10**6,
    "\x00\x01\x1b[31m",
    "\u202eאב 7\u2066",
    "<answer>" * 999,
    "\ud800 \udfff",
    "",
    "</pre><script>",
    "𝟕²½",
]


class Hostile(CountingTokenizer):
    """Whatever the model samples, its texts are these in turn."""

    def __init__(self):
        self.count = 0

    def decode(self, ids, skip_special_tokens=True):
        self.count += 1
        return HOSTILE[self.count % len(HOSTILE)]


def test_no_completion_stops_a_run_or_its_checkpoint(tmp_path):
    from grpo_lib.rewards import combined_reward

    data = [{"prompt": "w2", "answer": "9"}, {"prompt": "w3 w4", "answer": "7"}]
    settings = GRPOSettings(batch_size=2, num_generations=4, max_completion_length=3, beta=0.0, learning_rate=1e-3)

    def start():
        return GRPORun(
            tiny_architecture("qwen3"),
            Hostile(),
            data,
            settings,
            reward_function=lambda **batch: [r + 0.1 * i for i, r in enumerate(combined_reward(**batch))],
        )

    run = start()
    for _ in range(2):
        check_numbers(next(run))
    assert run.rollout.texts[:7] == [*HOSTILE[1:]] or set(run.rollout.texts) == set(HOSTILE)
    path = run.save(tmp_path)
    again = start()
    again.load(path)
    assert again.history == run.history
    assert json.loads(json.dumps(again.history[-1].samples)) == run.history[-1].samples
