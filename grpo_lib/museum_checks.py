"""Checks for your own code, on models: sampling, scoring, the reference, the weights.

    check_scores_repeat(my_score)           # ✓ or ✗, and what is wrong

As in `grpo_lib.museum_tensor_checks`, each knows one silent failure and returns a `Finding`. Small models with known
answers are made here; `grpo_lib.museum.course_parts` shows the arguments of each function.
"""

import copy

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from grpo_lib.models import build_tiny_tokenizer
from grpo_lib.museum_tensor_checks import Finding

__all__ = [
    "check_no_token_is_cut",
    "check_padding_changes_nothing",
    "check_reference_stays",
    "check_scores_repeat",
    "check_temperature_is_scored",
    "check_weights_move",
    "gpt2_shaped",
    "known_distribution",
]

VOCABULARY, EOS_ID = 61, 2  # the tiny policy's


def gpt2_shaped(*, dropout=0.0, seed=0):
    """A GPT-2 of a few thousand random weights: learned positions, and dropout where it is asked for.

    >>> gpt2_shaped().config.n_positions
    64
    """
    sizes = dict(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=2, initializer_range=0.2)
    rates = dict(embd_pdrop=dropout, resid_pdrop=dropout, attn_pdrop=dropout)
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        return GPT2LMHeadModel(GPT2Config(**sizes, **rates, bos_token_id=None, eos_token_id=EOS_ID)).eval()


def known_distribution(logits):
    """A GPT-2 that gives every next token the same logits, whatever stands before it.

    Args:
        logits: (V,), V = 61.
    Returns:
        a `GPT2LMHeadModel`: its last norm puts out the first unit vector, which picks these logits.
    """
    model = gpt2_shaped()
    with torch.no_grad():
        norm = model.transformer.ln_f
        norm.weight.zero_()
        norm.bias.zero_()
        norm.bias[0] = 1.0
        model.lm_head.weight[:, 0] = logits
    return model


def check_no_token_is_cut(sample, num_samples=6000):
    """Check `sample(model, tokenizer, prompts, num_generations, max_completion_length, temperature)`: no token is cut.

    The rarest of the model's 61 tokens has a chance of 0.26%, so among 6000 draws none should be missing (a right
    sampler misses one less than once in a million tries).
    """
    model = known_distribution(torch.linspace(0.0, -3.0, VOCABULARY))
    seen = _draws(sample, model, num_samples, 1.0).unique().numel()
    text = f"{num_samples} draws from 61 tokens, the rarest at 0.26%, gave {seen} different ones"
    if seen < VOCABULARY:
        return Finding("check_no_token_is_cut", False, f"{text}: the rare ones are cut, by top-k, top-p or min-p.")
    return Finding("check_no_token_is_cut", True, f"{text}.")


def check_temperature_is_scored(sample, score, temperature=0.5, num_samples=2000):
    """Check `sample` and `score(model, input_ids, attention_mask, num_completion_tokens, temperature)` on each other.

    The model knows two tokens, 3 to 1; at temperature T their odds are 3^(1/T) to 1. How often the first is drawn
    must be what its log-prob says, within four standard errors.
    """
    logits = torch.full((VOCABULARY,), -40.0)
    logits[20], logits[21] = torch.tensor(3.0).log(), 0.0
    model = known_distribution(logits)
    drawn = (_draws(sample, model, num_samples, temperature) == 20).double().mean().item()
    ids = torch.tensor([[11, 20]])
    said = score(model, ids, torch.ones_like(ids), 1, temperature).exp().item()
    text = f"at temperature {temperature:g} a token is drawn with frequency {drawn:.2f} and scored with {said:.2f}"
    if not abs(drawn - said) <= 4 * max(0.0, said * (1 - said) / num_samples) ** 0.5:
        return Finding("check_temperature_is_scored", False, f"{text}: the temperature is on one side only.")
    return Finding("check_temperature_is_scored", True, f"{text}.")


def check_padding_changes_nothing(score):
    """Check `score(…)` on a model with learned positions: padding on the left of a row leaves its log-probs alone."""
    ids = torch.tensor([[11, 20, 31, 14, 25, 16]])
    mask, padding = torch.ones_like(ids), torch.zeros(1, 5, dtype=torch.long)
    model = gpt2_shaped()
    alone = score(model, ids, mask, 3, 1.0)
    padded = score(model, torch.cat([padding, ids], dim=1), torch.cat([padding, mask], dim=1), 3, 1.0)
    worst = (alone - padded).abs().max().item()
    if not worst <= 1e-3:
        text = f"5 padding tokens move a log-prob by {worst:.2f} nats: positions are counted from the edge."
        return Finding("check_padding_changes_nothing", False, text)
    return Finding("check_padding_changes_nothing", True, "5 padding tokens move no log-prob.")


def check_scores_repeat(score):
    """Check `score(…)` on a model in training mode: the same row twice gives the same log-probs, so the ratio is 1.

    If your loop switches dropout off elsewhere, before it scores, put that into the function that you check.
    """
    model = gpt2_shaped(dropout=0.1).train()
    ids = torch.tensor([[11, 20, 31, 14, 25, 16]])
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(0)
        first, second = (score(model, ids, torch.ones_like(ids), 3, 1.0) for _ in range(2))
    ratio = (first - second).abs().exp().max().item()
    if not ratio <= 1 + 1e-5:
        text = f"the same row twice, with no update between, gives a ratio of {ratio:.2f}: dropout is on."
        return Finding("check_scores_repeat", False, text)
    return Finding("check_scores_repeat", True, "the same row twice gives a ratio of 1.")


def check_reference_stays(run):
    """Check a run that has `model`, `reference` and `next(run)`: a step leaves the reference as it was.

    The policy is moved a little by hand first, so that a copy of it would be seen. The run is not to be used further.
    """
    if run.reference is None:
        raise ValueError("this run keeps no reference; start one with beta > 0 or track_kl=True")
    before = [tensor.clone() for tensor in run.reference.state_dict().values()]
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(1.01)
    next(run)
    pairs = zip(before, run.reference.state_dict().values(), strict=True)
    if any(not torch.equal(old, new) for old, new in pairs):
        text = "a step changed the reference: the KL is measured to the policy's own recent past."
        return Finding("check_reference_stays", False, text)
    return Finding("check_reference_stays", True, "a step left the reference as it was.")


def check_weights_move(model, learning_rate, least=0.9):
    """Check a model: one AdamW step at this learning rate moves its trainable weights, and is not rounded away.

    Args:
        model: is left as it is, a copy takes the step. least: the share of trainable weights that must move.
    """
    trained = [parameter for parameter in copy.deepcopy(model).parameters() if parameter.requires_grad]
    if not trained:
        return Finding("check_weights_move", False, "no weight is trainable: requires_grad is False everywhere.")
    optimizer = torch.optim.AdamW(trained, lr=learning_rate, weight_decay=0.0)
    generator, moved, total = torch.Generator().manual_seed(0), 0, 0
    before = [parameter.detach().clone() for parameter in trained]
    for parameter in trained:
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter)
    optimizer.step()
    for old, new in zip(before, trained, strict=True):
        moved, total = moved + int((old != new).sum()), total + old.numel()
    dtype = str(trained[0].dtype).removeprefix("torch.")
    text = f"a step at learning rate {learning_rate:g} moves {moved / total:.0%} of the {dtype} weights"
    if moved < least * total:
        return Finding("check_weights_move", False, f"{text}: the others are rounded back.")
    return Finding("check_weights_move", True, f"{text}.")


def _draws(sample, model, num_samples, temperature):
    """(N,) first tokens of N completions of one prompt."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(0)
        return sample(model, build_tiny_tokenizer(), ["1"], num_samples, 1, temperature)[:, 0]
