"""Sample G completions a prompt from one explicit distribution: the policy's own, softmax(logits / temperature).

`generate` of transformers would otherwise apply top_k = 50 and whatever the checkpoint's generation config says (a
repetition penalty, a top-p …) without a word. Then the completions come from another distribution than the one that
is scored, and the ratio and the KL are wrong.
"""

from contextlib import contextmanager

import torch
from transformers import GenerationConfig

from grpo_lib._arguments import check_count, check_number
from grpo_lib.masks import create_completion_mask
from grpo_lib.modes import evaluation_mode
from grpo_lib.padding import check_prompts_fit, pad_left, warn_of_padding
from grpo_lib.prompts import encode_prompts

__all__ = [
    "completion_texts",
    "encode_prompts",
    "generate_completions",
    "sampling_config",
    "stop_token_ids",
]


def stop_token_ids(model, tokenizer):
    """Collect every token id that ends a completion: the tokenizer's and those of the model's generation config.

    Returns:
        a sorted list of ints, empty where neither names one (then every completion runs to the length limit).

    >>> from grpo_lib import load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> tokenizer.convert_ids_to_tokens(stop_token_ids(model, tokenizer))
    ['<|im_end|>']
    """
    config = getattr(model, "generation_config", None)
    found = set()
    for ids in (tokenizer.eos_token_id, getattr(config, "eos_token_id", None)):
        if ids is not None:
            found.update([ids] if isinstance(ids, int) else ids)
    return sorted(found)


def sampling_config(stop_ids, pad_token_id, max_completion_length, temperature=1.0):
    """Write down the whole sampling distribution: no top-k, no top-p, no penalties, only the temperature.

    Args:
        stop_ids: list of end token ids. pad_token_id: fills rows that ended early.
        max_completion_length: T, new tokens at most, >= 1.
        temperature: > 0; 0 stands for greedy decoding (evaluation only: greedy samples have no spread to learn from).
    Returns:
        a `transformers.GenerationConfig`.
    Raises:
        ValueError: on a temperature that is negative or not finite, or a length below 1.

    >>> config = sampling_config([2], 0, 8, temperature=0.7)
    >>> config.top_k, config.top_p, config.repetition_penalty, config.temperature
    (0, 1.0, 1.0, 0.7)
    """
    check_count("max_completion_length", max_completion_length, 1)
    check_number("temperature", temperature, 0, why="; 0 is greedy")
    sampling = {"do_sample": True, "temperature": float(temperature)} if temperature > 0 else {"do_sample": False}
    if temperature > 0:
        sampling.update(top_k=0, top_p=1.0)
    return GenerationConfig(
        **sampling,
        repetition_penalty=1.0,
        num_beams=1,
        max_new_tokens=max_completion_length,
        eos_token_id=list(stop_ids) or None,
        pad_token_id=pad_token_id,
        use_cache=True,
    )


def generate_completions(
    model, tokenizer, prompts, num_generations=4, max_completion_length=32, *, temperature=1.0, max_prompt_length=None
):
    """Sample `num_generations` completions for each prompt.

    Rows come in groups: row p * G + g is completion g of prompt p. Dropout is off and the cache is on while sampling;
    the model's modes and generation config and the tokenizer's padding side are afterwards what they were, also after
    an exception. Draws come from torch's global random generator.

    Args:
        model, tokenizer: a causal language model of transformers and its tokenizer.
        prompts: P prompts, each a string or a list of chat messages (they go through the chat template).
        num_generations: G >= 1 completions per prompt.
        max_completion_length: T at most.
        temperature: of sampling; 0 is greedy.
        max_prompt_length: refuse a longer prompt (in tokens) instead of cutting it; None accepts any.
    Returns:
        (prompt_ids, prompt_mask, completion_ids, completion_mask): (B, L), (B, L), (B, T), (B, T) int64, B = P * G;
        prompts are padded on the left, completions on the right.
    Raises:
        ValueError: on no prompt, an empty prompt, one that is too long or of another model's tokens, or settings out of
            range.
        FloatingPointError: if the model's logits are not finite.

    >>> from grpo_lib import load_tiny_policy
    >>> model, tokenizer = load_tiny_policy()
    >>> chat = [{"role": "user", "content": "2+3=?"}]
    >>> prompt_ids, _, completion_ids, completion_mask = generate_completions(model, tokenizer, [chat], 2, 8)
    >>> len(prompt_ids), completion_ids.shape == completion_mask.shape
    (2, True)
    """
    check_count("num_generations", num_generations, 1)
    stop_ids = stop_token_ids(model, tokenizer)
    pad_id = _pad_token_id(model, tokenizer, stop_ids)
    config = sampling_config(stop_ids, pad_id, max_completion_length, temperature)
    ids = encode_prompts(tokenizer, prompts, max_prompt_length=max_prompt_length)
    check_prompts_fit(model, ids, config.max_new_tokens)
    prompt_ids, prompt_mask = pad_left(ids, pad_id, next(model.parameters()).device)
    warn_of_padding(model, prompt_ids, prompt_mask)
    prompt_ids = prompt_ids.repeat_interleave(num_generations, dim=0)  # (B, L)
    prompt_mask = prompt_mask.repeat_interleave(num_generations, dim=0)
    with torch.no_grad(), evaluation_mode(model), _generation_config(model, config), _named_nan():
        output = model.generate(input_ids=prompt_ids, attention_mask=prompt_mask, generation_config=config)
    completion_ids = output[:, prompt_ids.shape[1] :]  # (B, T)
    return prompt_ids, prompt_mask, completion_ids, create_completion_mask(completion_ids, stop_ids or None)


def completion_texts(tokenizer, completion_ids, completion_mask):
    """Decode each completion up to its first end token; what stands after it never reaches a reward.

    Special tokens (the end token too) are left out of the text.

    Returns:
        a list of B strings.
    """
    rows = zip(completion_ids.tolist(), completion_mask.tolist(), strict=True)
    kept = [[token for token, keep in zip(ids, mask, strict=True) if keep] for ids, mask in rows]
    return [tokenizer.decode(ids, skip_special_tokens=True) for ids in kept]


def _pad_token_id(model, tokenizer, stop_ids):
    embeddings = model.get_input_embeddings().weight.shape[0]
    if tokenizer.pad_token_id is not None and tokenizer.pad_token_id < embeddings:  # an added one may have no row
        return tokenizer.pad_token_id
    return stop_ids[0] if stop_ids else 0  # masks go by position: any id will do


@contextmanager
def _generation_config(model, config):
    """`generate` fills what a config leaves open from the model's own one: for the time being that is ours too."""
    before = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = before


@contextmanager
def _named_nan():
    """torch refuses to draw from probabilities that are not numbers; say what that means here."""
    try:
        yield
    except RuntimeError as error:
        if "probability tensor contains" not in str(error):
            raise
        raise FloatingPointError(
            "the model's logits are not finite (NaN or infinite), so no token can be drawn. A learning rate too high, "
            "or float16 without room for the model's activations, does this: take up the last checkpoint"
        ) from error
