"""Tiny models of many families, an 11-word vocabulary each: positions learned, rotary, ALiBi; experts; state spaces."""

import torch
import transformers as hf
from tiny_models import DECODER, VOCABULARY

GPT = {"vocab_size": VOCABULARY, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32, "bos_token_id": 1}
PLAIN = {key: value for key, value in DECODER.items() if key != "num_key_value_heads"}
WINDOW = {**DECODER, "sliding_window": 4, "head_dim": 4, "num_hidden_layers": 2}
OWN = {"vocab_size": VOCABULARY, "hidden_size": 8}

FAMILIES = {
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT),
    "gptj": (hf.GPTJForCausalLM, hf.GPTJConfig, {**GPT, "rotary_dim": 4}),
    "gpt_neo": (
        hf.GPTNeoForCausalLM,
        hf.GPTNeoConfig,
        {**OWN, "num_layers": 1, "num_heads": 2, "attention_types": [[["global"], 1]], "max_position_embeddings": 32},
    ),
    "gpt_neox": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig, PLAIN),
    "opt": (
        hf.OPTForCausalLM,
        hf.OPTConfig,
        {**PLAIN, "ffn_dim": 16, "word_embed_proj_dim": 8, "pad_token_id": 0, "dropout": 0.1},
    ),
    "bloom": (hf.BloomForCausalLM, hf.BloomConfig, {**OWN, "n_layer": 1, "n_head": 2}),
    "falcon": (hf.FalconForCausalLM, hf.FalconConfig, {**PLAIN, "multi_query": True}),
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, DECODER),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig, WINDOW),
    "mixtral": (
        hf.MixtralForCausalLM,
        hf.MixtralConfig,
        {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config, DECODER),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config, {**DECODER, "head_dim": 4}),
    "phi": (hf.PhiForCausalLM, hf.PhiConfig, DECODER),
    "gemma": (hf.GemmaForCausalLM, hf.GemmaConfig, {**DECODER, "head_dim": 4}),
    "gemma2": (hf.Gemma2ForCausalLM, hf.Gemma2Config, WINDOW),
    "gemma3": (hf.Gemma3ForCausalLM, hf.Gemma3TextConfig, WINDOW),
    "olmo2": (hf.Olmo2ForCausalLM, hf.Olmo2Config, DECODER),
    "stablelm": (hf.StableLmForCausalLM, hf.StableLmConfig, DECODER),
    "mamba": (hf.MambaForCausalLM, hf.MambaConfig, {**OWN, "num_hidden_layers": 1, "state_size": 4}),
    "rwkv": (hf.RwkvForCausalLM, hf.RwkvConfig, {**OWN, "num_hidden_layers": 2, "attention_hidden_size": 8}),
    "bart": (
        hf.BartForCausalLM,
        hf.BartConfig,
        {
            "vocab_size": VOCABULARY,
            "d_model": 8,
            "decoder_layers": 1,
            "decoder_attention_heads": 2,
            "decoder_ffn_dim": 16,
            "max_position_embeddings": 32,
            "is_decoder": True,
            "is_encoder_decoder": False,
        },
    ),
}


READ_PADDING = ("bart", "rwkv")  # learned positions counted from the row's start; a state that padding goes into


def tiny_architecture(name):
    """The named family's smallest model, end token 1, its matrices spread so that its choices differ."""
    model, config, settings = FAMILIES[name]
    torch.manual_seed(0)
    model = model(config(**{"eos_token_id": 1, "pad_token_id": 0, **settings})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2 and name != "rwkv":
                parameter.mul_(12.0)
    return model
