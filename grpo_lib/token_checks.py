"""Exercise checks on tensors: group advantages, completion mask, token log-probs. Only a call loads torch."""

from grpo_lib.bandit_checks import REWARDS
from grpo_lib.verdicts import judge

__all__ = [
    "check_completion_mask",
    "check_group_advantages",
    "check_token_log_probs",
]


def check_group_advantages(attempt):
    """Check `f(rewards)` for one group of a language model: (r - mean) / (sample standard deviation + 1e-4).

    >>> check_group_advantages(lambda r: r - r.mean()).slip
    'no division'
    """
    import torch

    from grpo_lib.advantages import group_advantages

    cases = [(torch.tensor(case[0], dtype=torch.float32),) for case in REWARDS]
    slips = {
        "population std": (
            lambda r: (r - r.mean()) / (r.std(correction=0) + 1e-4),
            "You divide by the population standard deviation; the language-model part takes the sample's.",
        ),
        "no division": (lambda r: r - r.mean(), "You subtract the mean but do not divide by the standard deviation."),
        "sign": (
            lambda r: -group_advantages(r, len(r)),
            "The sign is turned: a good reward needs a positive advantage.",
        ),
    }
    reference = lambda r: group_advantages(r, len(r))  # noqa: E731
    return judge("group advantages", attempt, reference, cases, slips, praise="As in the library.", rtol=1e-3)


def check_completion_mask(attempt):
    """Check `f(completion_ids, eos_token_id)`: 1 up to and including the first end token, then 0; (B, T).

    >>> check_completion_mask(lambda ids, eos: (ids != eos).long()).slip
    'by id'
    """
    import torch

    from grpo_lib.masks import create_completion_mask

    ids = torch.tensor([[5, 6, 2, 2, 2], [5, 6, 7, 8, 9], [2, 4, 4, 2, 4]])
    mask = create_completion_mask
    slips = {
        "end token cut off": (
            lambda ids, eos: mask(ids, eos) * (ids != eos),
            "The first end token itself must count: without it the model never learns to stop.",
        ),
        "by id": (
            lambda ids, eos: (ids != eos).long(),
            "You compare with the id alone. What stands after the first end token is out, whatever its id.",
        ),
        "nothing masked": (lambda ids, eos: torch.ones_like(ids), "Tokens after the first end token must be 0."),
        "truncated row dropped": (
            lambda ids, eos: mask(ids, eos) * (ids == eos).any(dim=1, keepdim=True),
            "A row without an end token was cut at the length limit: all its tokens count.",
        ),
    }
    return judge("completion mask", attempt, mask, [(ids, 2)], slips, praise="The end token is in, all after it out.")


def check_token_log_probs(attempt):
    """Check `f(logits, input_ids, num_completion_tokens)`: log-probs of the last tokens, (B, L + T, V) → (B, T).

    >>> check_token_log_probs(lambda x, ids, n: x.log_softmax(-1)[:, -n:].gather(-1, ids[:, -n:, None])[..., 0])
    ✗ token log-probs: not yet. Off by one: the logits at one position predict the next token, so shift them by one.
    """
    import torch

    from grpo_lib.logprobs import selective_log_softmax

    logits = torch.sin(torch.arange(60.0)).view(2, 6, 5) * 2
    ids = torch.tensor([[0, 1, 2, 3, 4, 0], [4, 3, 1, 0, 2, 2]])
    cases = [(logits, ids, 3), (logits, ids, 2)]  # a prompt as long as the completion, and a longer one

    def reference(logits, ids, n):
        return selective_log_softmax(logits[:, -n - 1 : -1], ids[:, -n:])

    def pick(values, ids):
        return values.gather(-1, ids[..., None])[..., 0]

    slips = {
        "off by one": (
            lambda logits, ids, n: selective_log_softmax(logits[:, -n:], ids[:, -n:]),
            "Off by one: the logits at one position predict the next token, so shift them by one.",
        ),
        "shifted the other way": (
            lambda logits, ids, n: selective_log_softmax(logits[:, -n:], ids[:, -n - 1 : -1]),
            "Shifted the other way: the logits at one position predict the next token, not the one before.",
        ),
        "not normalised": (
            lambda logits, ids, n: pick(logits[:, -n - 1 : -1], ids[:, -n:]),
            "These are logits: subtract the log-sum-exp over the vocabulary.",
        ),
        "probabilities": (
            lambda logits, ids, n: reference(logits, ids, n).exp(),
            "These are probabilities: take their logarithm.",
        ),
        "normalised over positions": (
            lambda logits, ids, n: pick(logits.log_softmax(1)[:, -n - 1 : -1], ids[:, -n:]),
            "The softmax runs over the positions; it must run over the vocabulary (dim=-1).",
        ),
    }
    return judge("token log-probs", attempt, reference, cases, slips, praise="All at most 0, as they must.")
