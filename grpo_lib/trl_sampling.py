"""What TRL samples is what it scores: neither a checkpoint's generation config nor dropout gets in between."""

from contextlib import contextmanager

from transformers import GenerationConfig

from grpo_lib.adapters import has_adapter

__all__ = ["sampled_as_scored"]

_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


@contextmanager
def sampled_as_scored(model):
    """For one block, leave only token ids in a model's generation config, and no dropout that TRL would not find.

    TRL writes temperature, top_k, top_p and the repetition penalty down; whatever else it leaves open transformers
    fills in from the model (min_p, no_repeat_ngram_size, min_new_tokens, suppress_tokens, …), and then the completions
    come from another distribution than the one that is scored. vLLM does not look at the model's config.
    TRL samples, scores and learns in training mode. Its disable_dropout, which `trl_config` sets, silences modules;
    rates that are plain numbers (`attention_dropout` of Qwen or Llama) would go on drawing. Our own loop has no
    dropout anywhere. Save the model after the block: its generation config is then its own again.

    Args:
        model: as it goes into GRPOTrainer.

    >>> from grpo_lib import load_tiny_policy
    >>> model, _ = load_tiny_policy()
    >>> model.generation_config.min_p = 0.5
    >>> with sampled_as_scored(model):
    ...     model.generation_config.min_p, model.generation_config.eos_token_id
    (None, 2)
    >>> model.generation_config.min_p
    0.5
    """
    rates = [(module, name, rate) for module in model.modules() for name, rate in _numeric_rates(module)]
    if has_adapter(model):  # it hands the generation config of the model beneath on
        model = model.get_base_model()
    before = getattr(model, "generation_config", None)
    if before is not None:
        model.generation_config = GenerationConfig(**{name: getattr(before, name) for name in _TOKEN_IDS})
    for module, name, _ in rates:
        setattr(module, name, 0.0)
    try:
        yield
    finally:
        if before is not None:
            model.generation_config = before
        for module, name, rate in rates:
            setattr(module, name, rate)


def _numeric_rates(module):
    named = [(name, value) for name, value in vars(module).items() if "dropout" in name or name.endswith("pdrop")]
    return [(name, value) for name, value in named if isinstance(value, float) and value > 0]
