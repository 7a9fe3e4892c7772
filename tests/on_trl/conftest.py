"""The lane with TRL: skipped where it is not installed, unless GRPO_TRL_LANE=1 says that it must be."""

import importlib.util
import os
from pathlib import Path

import pytest

if os.environ.get("GRPO_TRL_LANE") and importlib.util.find_spec("trl") is None:
    raise ModuleNotFoundError("GRPO_TRL_LANE is set, but TRL is not installed: pip install -r .ci/trl.txt")

# scripts that a launcher starts: no tests, and no doctests to look for
collect_ignore = [path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
PROMPTS = ("1+1=", "12+30=", "7+8=", "100+200=", "5-3=")  # of unequal length: 4 to 8 tokens


@pytest.fixture(scope="session")
def random_qwen(tmp_path_factory):
    """The folder of a Qwen3 with random weights and its tokenizer; its completions end at different lengths."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from grpo_lib.models import build_tiny_tokenizer

    folder, tokenizer = tmp_path_factory.mktemp("random_qwen"), build_tiny_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 6.0  # as initialised it would hardly prefer one token to another
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(20, 32)]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def real_trainer(random_qwen, tmp_path):
    """`real_trainer(settings, reward, …)`: a GRPOTrainer on that model, as our settings and samples make it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOTrainer

    from grpo_lib import trl_callbacks, trl_config, trl_dataset

    def make(settings, reward, *, data=None, num_steps=1, **options):
        data = data or [{"prompt": prompt, "answer": str(row), "level": row} for row, prompt in enumerate(PROMPTS)]
        return GRPOTrainer(
            AutoModelForCausalLM.from_pretrained(random_qwen),
            reward,
            args=trl_config(
                settings, tmp_path / "out", num_steps=num_steps, use_cpu=True, disable_tqdm=True, **options
            ),
            train_dataset=trl_dataset(data),
            processing_class=AutoTokenizer.from_pretrained(random_qwen),
            callbacks=trl_callbacks(settings),
        )

    return make


@pytest.fixture
def sampled():
    """`sampled(trainer)`: the trainer's first batch, generated and scored by it, in the order of its groups."""

    def sample(trainer):
        rows = next(iter(trainer.get_train_dataloader()))
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps  # as its loop does
        return rows, trainer._generate_and_score_completions(rows)

    return sample
