"""TRL draws from the distribution that it scores, whatever the checkpoint's generation config asks for."""

import pytest

pytest.importorskip("trl")

import torch  # noqa: E402

from grpo_lib.records import GRPOSettings  # noqa: E402
from grpo_lib.trl_sampling import sampled_as_scored  # noqa: E402

SETTINGS = GRPOSettings(batch_size=3, num_generations=4, max_completion_length=8, beta=0.0)
# what a checkpoint may ask for, and whether it gets into TRL 1.16's own sampling
ASKED = {
    "top_k": (1, False),
    "top_p": (0.1, False),
    "temperature": (0.01, False),
    "repetition_penalty": (5.0, False),
    "do_sample": (False, False),
    "min_p": (0.9, True),
    "typical_p": (0.1, True),
    "epsilon_cutoff": (0.5, True),
    "no_repeat_ngram_size": (1, True),
    "min_new_tokens": (6, True),
    "suppress_tokens": (list(range(30)), True),
    "bad_words_ids": ([[i] for i in range(30)], True),
    "forced_eos_token_id": (2, True),
}


@pytest.fixture
def drawn(real_trainer, sampled):
    """`drawn(plain, **asked)`: the completions of a model whose generation config asks for something."""

    def draw(plain, **asked):
        trainer = real_trainer(SETTINGS, lambda completions, **_: [1.0] * len(completions))
        for name, value in asked.items():
            setattr(trainer.model.generation_config, name, value)
        if plain:
            with sampled_as_scored(trainer.model):
                ids = sampled(trainer)[1]["completion_ids"]
        else:
            ids = sampled(trainer)[1]["completion_ids"]
        assert all(getattr(trainer.model.generation_config, name) == value for name, value in asked.items())
        return ids

    return draw


@pytest.mark.parametrize("name", ASKED)
def test_a_checkpoint_s_sampling_settings_change_nothing(name, drawn):
    value, gets_in = ASKED[name]
    expected = drawn(False)
    assert torch.equal(drawn(True, **{name: value}), expected)
    without = drawn(False, **{name: value})
    assert torch.equal(without, expected) is not gets_in


def test_draws_follow_the_scored_distribution(random_qwen, real_trainer, sampled):
    """First tokens of 600 completions of one prompt, against the log-probs that TRL scores them with."""
    settings = GRPOSettings(
        batch_size=1, num_generations=600, max_completion_length=1, beta=0.0, temperature=0.7, updates_per_rollout=2
    )
    trainer = real_trainer(settings, lambda completions, **_: [1.0] * len(completions))
    batch = sampled(trainer)[1]
    ids, log_probs = batch["completion_ids"][:, 0], batch["old_per_token_logps"][:, 0]
    for token in ids.unique():
        p, share = log_probs[ids == token][0].exp(), (ids == token).float().mean()
        assert abs(share - p) < 5 * (p * (1 - p) / 600) ** 0.5 + 1e-9
    assert len(ids.unique()) > 10


def test_attention_dropout_would_blur_the_scores(real_trainer, sampled):
    settings = GRPOSettings(batch_size=3, max_completion_length=8, beta=0.0, updates_per_rollout=2)
    trainer = real_trainer(settings, lambda completions, **_: [1.0] * len(completions))
    layers = [layer.self_attn for layer in trainer.model.model.layers]
    for layer in layers:
        layer.attention_dropout = 0.5

    def apart():
        """How far the scores of a batch are from the same scores taken again: the first ratio should be 1."""
        batch = sampled(trainer)[1]
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        with torch.no_grad():
            again = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, 8)[0]
        return ((again - batch["old_per_token_logps"]) * batch["completion_mask"]).abs().max().item()

    assert apart() > 0.1
    with sampled_as_scored(trainer.model):
        assert apart() == 0.0
    assert [layer.attention_dropout for layer in layers] == [0.5, 0.5]
