"""Models small enough to compute by hand or in a blink; no checkpoint, no network."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 11
DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
}


def tiny_model(name, **changes):
    """A Qwen3-, Llama- or GPT-2-shaped model with an 11-word vocabulary and one layer, weights as initialised."""
    if name == "gpt2":
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=8,
            n_layer=1,
            n_head=2,
            n_positions=32,
            bos_token_id=1,
            eos_token_id=1,
            **changes,
        )
        return GPT2LMHeadModel(config)
    if name == "llama":
        return LlamaForCausalLM(LlamaConfig(**DECODER, tie_word_embeddings=False, eos_token_id=1, **changes))
    return Qwen3ForCausalLM(Qwen3Config(**DECODER, head_dim=4, tie_word_embeddings=False, eos_token_id=1, **changes))


def sine_model(name, scale=1.0):
    """The same with weights that are sines of their index, in float64: no random number anywhere."""
    model = tiny_model(name).double().eval()
    for k, (label, parameter) in enumerate(model.named_parameters()):
        index = torch.arange(parameter.numel(), dtype=torch.float64)
        values = 0.35 * torch.sin(0.7 * index + 1.3 * k + 0.1)
        if parameter.ndim == 1 and label.endswith("weight"):
            values = 1 + 0.1 * values
        parameter.data = scale * values.view(parameter.shape)
    return model


class CountingTokenizer:
    """Words 'w0' … 'w10' ↔ ids 0 … 10: the few methods of a tokenizer that the library uses."""

    eos_token_id = 1
    pad_token_id = 0
    chat_template = None
    padding_side = "right"

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [int(word[1:]) for word in text.split()]}

    def decode(self, ids, skip_special_tokens=True):
        return " ".join(f"w{i}" for i in ids if not (skip_special_tokens and i in (0, 1)))
