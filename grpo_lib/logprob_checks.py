"""Exercise checks on scoring: positions, perplexity, temperature, memory of the logits. Only a call loads torch."""

from grpo_lib.verdicts import judge

__all__ = [
    "check_logits_memory",
    "check_perplexity",
    "check_position_ids",
    "check_temperature_log_prob",
    "check_temperature_ratio",
]


def check_position_ids(attempt):
    """Check `f(attention_mask)`: positions counted from each row's first real token; (B, L) → (B, L).

    >>> check_position_ids(lambda mask: mask.cumsum(dim=-1)).slip
    'counted from 1'
    """
    import torch

    from grpo_lib.masks import position_ids_from_mask

    mask = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    slips = {
        "padding counted": (
            lambda mask: torch.arange(mask.shape[1]).expand_as(mask),
            "Every row gets 0, 1, 2, …: the padding is counted. Count the real tokens only.",
        ),
        "counted from 1": (
            lambda mask: mask.cumsum(dim=-1),
            "The first real token stands at 0, not at 1: take one off.",
        ),
        "below 0": (
            lambda mask: mask.cumsum(dim=-1) - 1,
            "Padding gets -1, which is no row of a table of positions: raise it to 0.",
        ),
        "shifted by one padding": (
            lambda mask: (torch.arange(mask.shape[1]) - (mask == 0).any(dim=-1, keepdim=True).long()).clamp(min=0),
            "You shift a padded row by 1, whatever its padding: shift it by the number of its padding tokens.",
        ),
    }
    praise = "Each row counts from its own first token."
    return judge("position ids", attempt, position_ids_from_mask, [(mask,)], slips, praise=praise)


def check_perplexity(attempt):
    """Check `f(log_probs, completion_mask)`: exp of minus the mean log-prob of a row's own tokens; (B, T) → (B,).

    >>> check_perplexity(lambda log_probs, mask: (-log_probs.mean(dim=-1)).exp()).slip
    'padding counted'
    """
    import torch

    log_probs = torch.tensor([[-0.5, -1.0, -0.25, -0.1], [-2.0, -0.2, -5.0, -7.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])

    def mean(log_probs, mask):
        return (log_probs * mask).sum(-1) / mask.sum(-1)

    slips = {
        "padding counted": (
            lambda log_probs, mask: (-log_probs.mean(-1)).exp(),
            "The padding counts too. Take each row's own tokens only: multiply by the mask.",
        ),
        "divided by T": (
            lambda log_probs, mask: (-(log_probs * mask).mean(-1)).exp(),
            "You divide by T: divide by the number of tokens in the row's mask.",
        ),
        "sum": (
            lambda log_probs, mask: (-(log_probs * mask).sum(-1)).exp(),
            "This is one over the probability of the whole completion: take the mean of the log-probs, not their sum.",
        ),
        "sign": (
            lambda log_probs, mask: mean(log_probs, mask).exp(),
            "This is at most 1, and a perplexity at least: there is a minus before the mean.",
        ),
        "mean of probabilities": (
            lambda log_probs, mask: 1 / mean(log_probs.exp(), mask),
            "You average probabilities: average the log-probs, then take the exponential.",
        ),
    }
    praise = "At least 1, as it must be."
    return judge(
        "perplexity",
        attempt,
        lambda log_probs, mask: (-mean(log_probs, mask)).exp(),
        [(log_probs, mask)],
        slips,
        praise=praise,
    )


def check_temperature_log_prob(attempt):
    """Check `f(logits, token, temperature)`: the log-prob of a token that was sampled at a temperature.

    >>> check_temperature_log_prob(lambda logits, token, temperature: logits.log_softmax(-1)[token]).slip
    'temperature left out'
    """
    import torch

    logits = torch.tensor([2.0, 1.0, 0.0])
    cases = [(logits, 0, 0.5), (logits, 0, 1.0), (logits, 0, 2.0), (logits, 2, 0.5)]
    slips = {
        "temperature left out": (
            lambda x, token, t: x.log_softmax(-1)[token],
            "This is the log-prob at temperature 1, whatever was sampled.",
        ),
        "multiplied": (
            lambda x, token, t: (x * t).log_softmax(-1)[token],
            "You multiply by the temperature: a low one must make the distribution sharper, so divide.",
        ),
        "divided after the softmax": (
            lambda x, token, t: x.log_softmax(-1)[token] / t,
            "You divide the log-prob: the probabilities then no longer sum to 1. Divide the logits, then normalise.",
        ),
        "probabilities": (
            lambda x, token, t: (x / t).softmax(-1)[token],
            "This is a probability: take its logarithm.",
        ),
    }
    reference = lambda x, token, t: (x / t).log_softmax(-1)[token]  # noqa: E731
    praise = "Scored as it was sampled."
    return judge("log-prob at a temperature", attempt, reference, cases, slips, praise=praise)


def check_temperature_ratio(attempt):
    """Check `f(logits, token, sampled_at, scored_at)`: the ratio before any update, if the temperatures differ.

    >>> check_temperature_ratio(lambda logits, token, sampled_at, scored_at: 1.0).slip
    'no temperature'
    """
    import torch

    logits = torch.tensor([2.0, 1.0, 0.0])
    cases = [(logits, 0, 0.5, 1.0), (logits, 2, 0.5, 1.0), (logits, 1, 2.0, 1.0), (logits, 0, 0.7, 0.7)]

    def score(logits, token, temperature):
        return (logits / temperature).log_softmax(-1)[token]

    def log_ratio(logits, token, sampled_at, scored_at):
        return score(logits, token, scored_at) - score(logits, token, sampled_at)

    slips = {
        "no temperature": (
            lambda logits, token, sampled_at, scored_at: 1.0,
            "A ratio of 1 is what should be; with two temperatures the two log-probs differ.",
        ),
        "upside down": (
            lambda *a: (-log_ratio(*a)).exp(),
            "The ratio is upside down: what is scored stands above, what was sampled from below.",
        ),
        "log-ratio": (log_ratio, "This is the logarithm of the ratio: take exp."),
        "not normalised": (
            lambda x, token, sampled_at, scored_at: (x[token] / scored_at - x[token] / sampled_at).exp(),
            "You compare logits: each temperature has a log-sum-exp of its own, normalise first.",
        ),
        "divided after the softmax": (
            lambda x, token, sampled_at, scored_at: (x.log_softmax(-1)[token] * (1 / scored_at - 1 / sampled_at)).exp(),
            "You divide log-probs by the temperature: divide the logits, then normalise.",
        ),
        "multiplied": (
            lambda x, token, sampled_at, scored_at: log_ratio(x, token, 1 / sampled_at, 1 / scored_at).exp(),
            "You multiply by the temperature: the logits are divided by it.",
        ),
    }
    praise = "Only one temperature for both leaves it at 1."
    return judge("ratio of two temperatures", attempt, lambda *a: log_ratio(*a).exp(), cases, slips, praise=praise)


def check_logits_memory(attempt):
    """Check `f(B, L, T, V)` → GiB of fp32: [logits of all L + T positions, training step usual, training step library].

    The two steps hold the logits of T positions, their gradient, and whatever lies beside them: (1 + 3) and (1 + 1)
    tensors of (B, T, V).

    >>> check_logits_memory(lambda B, L, T, V: [B * (L + T) * V * 4, 4 * B * T * V * 4, 2 * B * T * V * 4]).slip
    'bytes'
    """
    cases = [(16, 64, 128, 151_936), (4, 48, 16, 50_257)]

    def sizes(B, L, T, V, *, number=4, unit=2**30, steps=(4, 2)):
        return [B * (L + T) * V * number / unit, *(n * B * T * V * number / unit for n in steps)]

    slips = {
        "bytes": (lambda *a: sizes(*a, unit=1), "These are bytes: one GiB is 2**30 of them."),
        "GB": (lambda *a: sizes(*a, unit=1e9), "You divide by 1e9: that gives GB. One GiB is 2**30 bytes."),
        "numbers, not bytes": (lambda *a: sizes(*a, number=1), "You count numbers: in fp32 each takes 4 bytes."),
        "16 bits": (lambda *a: sizes(*a, number=2), "You take 2 bytes a number: fp32 has 4."),
        "logits left out": (
            lambda *a: sizes(*a, steps=(3, 1)),
            "The bars of section 7 are what comes on top of the logits: add the logits themselves.",
        ),
        "turned": (lambda *a: sizes(*a, steps=(2, 4)), "The two ways have changed places: first the usual one."),
        "prompt left out": (
            lambda B, L, T, V: [*sizes(B, 0, T, V)],
            "The first number is of all positions: without `logits_to_keep` the prompt's logits are made too.",
        ),
    }
    praise = "V is the factor that hurts."
    return judge("memory of the logits", attempt, sizes, cases, slips, praise=praise)
