"""Exercise checks on sampling: groups in consecutive rows, the price of top-k, the temperature. A call loads torch."""

from grpo_lib.verdicts import judge

__all__ = ["check_group_rows", "check_temperature_log_prob", "check_top_k_log_probs"]


def check_group_rows(attempt):
    """Check `f(prompts, answers, num_generations)`: G (prompt, answer) rows a prompt, in consecutive rows; (B, 2).

    >>> check_group_rows(lambda prompts, answers, n: list(zip(prompts * n, answers * n))).slip
    'tiled'
    """

    def rows(prompts, answers, _):
        return [list(pair) for pair in zip(prompts, answers, strict=True)]

    def repeated(values, n):
        return [value for value in values for _ in range(n)]

    slips = {
        "tiled": (
            lambda p, a, n: rows(p * n, a * n, n),
            "The prompts come round and round: 1, 2, 3, 1, 2, 3. A group must stand in consecutive rows, 1, 1, 2, 2, "
            "or each advantage is taken against other prompts' rewards.",
        ),
        "answers tiled": (
            lambda p, a, n: rows(repeated(p, n), a * n, n),
            "The prompts are in consecutive rows, the answers come round and round: most rows are rewarded against "
            "the answer of another prompt. Repeat both in the same way.",
        ),
        "prompts tiled": (
            lambda p, a, n: rows(p * n, repeated(a, n), n),
            "The answers are in consecutive rows, the prompts come round and round: most rows hold another prompt's "
            "answer. Repeat both in the same way.",
        ),
    }
    cases = [([11, 12, 13], [21, 22, 23], 2), ([7, 8], [1, 2], 3)]
    reference = lambda p, a, n: rows(repeated(p, n), repeated(a, n), n)  # noqa: E731
    praise = "Row p * G + g is completion g of prompt p, and its answer stands beside it."
    return judge("groups in rows", attempt, reference, cases, slips, praise=praise)


def check_top_k_log_probs(attempt):
    """Check `f(logits, token, k)`: [log-prob as scored, log-prob under top-k]; the second is higher by -log(kept mass).

    >>> check_top_k_log_probs(lambda logits, token, k: [logits.log_softmax(-1)[token]] * 2).slip
    'not renormalised'
    """
    import torch

    def scored(logits, token):
        return logits.log_softmax(-1)[token]

    def kept(logits, k):
        return logits.softmax(-1).topk(k).values.sum().log()

    def reference(logits, token, k):
        return torch.stack([scored(logits, token), scored(logits, token) - kept(logits, k)])

    cases = [(torch.tensor([0.6, 0.3, 0.1]).log(), 0, 2), (torch.tensor([1.0, -1.0, 2.5, 0.0]), 2, 3)]
    slips = {
        "not renormalised": (
            lambda x, token, k: torch.stack([scored(x, token)] * 2),
            "Both are the full policy's. Top-k shares the mass of the dropped tokens out among the kept ones.",
        ),
        "swapped": (lambda x, token, k: reference(x, token, k).flip(0), "The two are swapped: scored comes first."),
        "sign of the gap": (
            lambda x, token, k: torch.stack([scored(x, token), scored(x, token) + kept(x, k)]),
            "A kept token becomes more likely, not less: subtract the logarithm of the kept mass.",
        ),
        "probabilities": (
            lambda x, token, k: reference(x, token, k).exp(),
            "These are probabilities: take their logarithm.",
        ),
        "dropped tokens at 0": (
            lambda x, token, k: torch.stack([scored(x, token), _zeroed(x, k).log_softmax(-1)[token]]),
            "A logit of 0 is a probability like any other. Give the dropped tokens -inf.",
        ),
    }
    praise = "The gap is the logarithm of the kept mass, the same for every kept token."
    return judge("top-k log-probs", attempt, reference, cases, slips, praise=praise)


def _zeroed(logits, k):
    """Logits with 0, not -inf, outside the k largest."""
    return logits.where(logits >= logits.topk(k).values[-1], 0.0)


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
