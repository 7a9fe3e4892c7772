"""Exercise checks on sampling: groups, padding, the price of top-k, distance, settings. Only a call loads torch."""

from grpo_lib.verdicts import judge

__all__ = [
    "check_effective_setting",
    "check_group_rows",
    "check_left_padding",
    "check_top_k_log_probs",
    "check_total_variation",
]


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


def check_total_variation(attempt):
    """Check `f(counts, probs)`: half the sum of the absolute differences of frequencies and probabilities.

    >>> check_total_variation(lambda counts, probs: abs(counts / counts.sum() - probs).sum()).slip
    'no half'
    """
    import numpy as np

    cases = [
        (np.array([60, 25, 15]), np.array([0.5, 0.3, 0.2])),
        (np.array([0, 3, 1, 4]), np.array([0.1, 0.2, 0.3, 0.4])),
    ]

    def gaps(counts, probs):
        return counts / counts.sum() - probs

    slips = {
        "no half": (
            lambda *a: abs(gaps(*a)).sum(),
            "Without the half each misplaced share counts twice: where it is missing and where it is too much.",
        ),
        "counts": (
            lambda counts, probs: abs(counts - probs).sum() / 2,
            "You compare counts with probabilities: divide the counts by their sum first.",
        ),
        "no absolute value": (
            lambda *a: gaps(*a).sum() / 2,
            "Pluses and minuses cancel, and the sum is always 0: take absolute values.",
        ),
        "mean": (lambda *a: abs(gaps(*a)).mean() / 2, "You take the mean over the words: take the sum."),
        "largest": (
            lambda *a: abs(gaps(*a)).max(),
            "This is the largest error of one word; the distance is that of the worst *set* of words.",
        ),
        "squared": (lambda *a: (gaps(*a) ** 2).sum() / 2, "You square the differences: take absolute values."),
    }
    reference = lambda *a: abs(gaps(*a)).sum() / 2  # noqa: E731
    return judge("total variation", attempt, reference, cases, slips, praise="0 if they agree, and never above 1.")


def check_effective_setting(attempt):
    """Check `f(call, checkpoint, default)`: the value that counts; None stands for "not said".

    >>> check_effective_setting(lambda call, checkpoint, default: call or checkpoint or default).slip
    'zero taken for silence'
    """
    cases = [(0, 2, 50), (None, 2, 50), (None, None, 50), (1.0, 0.3, 1.5), (None, 0, 50), (3, None, 50)]

    def said(*values):
        return next(value for value in values if value is not None)

    slips = {
        "zero taken for silence": (
            lambda call, checkpoint, default: call or checkpoint or default,
            "`or` skips a 0, and top_k = 0 is a setting: no top-k. Ask for `is None`.",
        ),
        "checkpoint first": (
            lambda call, checkpoint, default: said(checkpoint, call, default),
            "What the call says wins over the checkpoint's file.",
        ),
        "checkpoint left out": (
            lambda call, checkpoint, default: said(call, default),
            "A setting that the call leaves open is filled from the checkpoint's file before the default.",
        ),
        "default first": (
            lambda call, checkpoint, default: default,
            "The default counts only where neither the call nor the checkpoint says anything.",
        ),
    }
    praise = "Call, then file, then default: so leave nothing open."
    return judge("effective setting", attempt, said, cases, slips, praise=praise)


def check_left_padding(attempt):
    """Check `f(rows, pad_id)`: [ids, mask] of unequal prompts, padded on the left; two of (P, L).

    >>> check_left_padding(lambda rows, pad_id: ...)
    ○ left padding: not attempted yet.
    """
    cases = [([[3, 4], [5, 6, 7, 8], [0, 9, 3]], 0), ([[1, 1], [2]], 7)]

    def padded(rows, pad, *, left=True, fill=None):
        L, fill = max(map(len, rows)), pad if fill is None else fill
        ids = [[fill] * (L - len(r)) + r if left else r + [fill] * (L - len(r)) for r in rows]
        ones = [[0] * (L - len(r)) + [1] * len(r) if left else [1] * len(r) + [0] * (L - len(r)) for r in rows]
        return [ids, ones]

    def with_mask(rows, pad, mask_of):
        ids, mask = padded(rows, pad)
        return [ids, [[mask_of(i, m, pad) for i, m in zip(*pair, strict=True)] for pair in zip(ids, mask, strict=True)]]

    slips = {
        "on the right": (
            lambda rows, pad: padded(rows, pad, left=False),
            "The padding stands on the right: `generate` would append to it. Put it on the left.",
        ),
        "mask by id": (
            lambda rows, pad: with_mask(rows, pad, lambda i, m, pad: int(i != pad)),
            "You compare with the padding's id, and a prompt may hold that id itself: make the mask from the lengths.",
        ),
        "all ones": (
            lambda rows, pad: with_mask(rows, pad, lambda i, m, pad: 1),
            "The mask is 1 on the padding: the model would read it as text.",
        ),
        "turned": (
            lambda rows, pad: with_mask(rows, pad, lambda i, m, pad: 1 - m),
            "The mask is turned: 1 where a real token stands.",
        ),
        "padded with 0": (
            lambda rows, pad: padded(rows, pad, fill=0),
            "You pad with 0: use the `pad_id` that you are given.",
        ),
    }
    praise = "Every prompt ends in the last column."
    return judge("left padding", attempt, padded, cases, slips, praise=praise)
