"""Exercise checks on the weights of the loss: what a completion gets as a whole, and from the parts to the loss."""

from grpo_lib.verdicts import judge

__all__ = ["check_completion_pushes", "check_grpo_loss"]


def check_grpo_loss(attempt):
    """Check `f(surrogate, kl, mask, beta)`: GRPO's loss from its parts, (B, T), (B, T), (B, T), a number → a number.

    >>> check_grpo_loss(lambda surrogate, kl, mask, beta: -((surrogate - beta * kl) * mask).sum() / mask.sum()).slip
    'mean over all tokens'
    """
    import torch

    from grpo_lib.loss_weights import masked_mean

    surrogate = torch.tensor([[0.9, 0.7, 1.0, 5.0], [-0.9, -1.1, 4.0, 4.0], [-0.4, -0.2, -0.6, -0.8]])
    kl = torch.tensor([[0.1, 0.0, 0.3, 2.0], [0.2, 0.5, 3.0, 1.0], [0.0, 0.1, 0.4, 0.6]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    cases = [(surrogate, kl, mask, 0.1), (surrogate, kl, mask, 0.0)]

    def loss(surrogate, kl, mask, beta):
        return -masked_mean(surrogate - beta * kl, mask, dim=1).mean()

    slips = {
        "no minus": (lambda *a: -loss(*a), "This is what is climbed; an optimizer goes down: the loss has a minus."),
        "KL rewarded": (
            lambda s, kl, mask, beta: loss(s, -kl, mask, beta),
            "The KL term has the wrong sign: with it the policy would be paid for leaving the reference.",
        ),
        "no KL": (
            lambda s, kl, mask, beta: loss(s, kl, mask, 0.0),
            "The KL term is missing: take beta * kl off the surrogate.",
        ),
        "KL without beta": (lambda s, kl, mask, beta: loss(s, kl, mask, 1.0), "The KL term lacks its weight, beta."),
        "mean over all tokens": (
            lambda s, kl, mask, beta: -masked_mean(s - beta * kl, mask),
            "One mean over all tokens is bnpo: take each completion's mean first, then the mean of those.",
        ),
        "mean over all positions": (
            lambda s, kl, mask, beta: -((s - beta * kl) * mask).mean(),
            "You divide by all B · T positions: a completion's mean is over its own tokens.",
        ),
        "padding counted": (
            lambda s, kl, mask, beta: -(s - beta * kl).mean(),
            "What stands after the end counts too: use the mask.",
        ),
        "sum over the tokens": (
            lambda s, kl, mask, beta: -((s - beta * kl) * mask).sum(dim=1).mean(),
            "You sum a completion's tokens (luspo): GRPO divides by its length.",
        ),
        "KL over all tokens": (
            lambda s, kl, mask, beta: loss(s, kl, mask, 0.0) + beta * masked_mean(kl, mask),
            "The KL term has the same weights as the surrogate: a mean per completion, then over completions.",
        ),
    }
    praise = "Each completion's mean first, then the mean of those."
    return judge("GRPO's loss", attempt, loss, cases, slips, praise=praise)


def check_completion_pushes(attempt):
    """Check `f(advantages, lengths, max_completion_length)`: the push on each whole completion, (3, B).

    On fresh samples: the sum of weight · A over a completion's tokens, for grpo, bnpo and dr_grpo.

    >>> check_completion_pushes(lambda A, lengths, limit: [A / len(A)] * 3).slip
    'length never counts'
    """
    import torch

    def pushes(A, lengths, limit):
        return torch.stack([A / len(A), A * lengths / lengths.sum(), A * lengths / (len(A) * limit)])

    def but(row, wrong):
        """The reference, with another formula in one of the three rows."""

        def slip(A, lengths, limit):
            rows = pushes(A, lengths, limit)
            rows[row] = wrong(A, lengths, limit)
            return rows

        return slip

    slips = {
        "per token": (
            lambda A, lengths, limit: pushes(A, lengths, limit) / lengths,
            "This is what *one token* gets: a completion gets it once for each of its tokens.",
        ),
        "length never counts": (
            lambda A, lengths, limit: torch.stack([A / len(A)] * 3),
            "Only in grpo does the length cancel. With the other two weights each token counts the same, and a longer "
            "completion more.",
        ),
        "grpo by length": (
            but(0, lambda A, lengths, limit: A * lengths / len(A)),
            "grpo: each token has the weight 1 / (B |o|), so the length cancels in the sum.",
        ),
        "grpo without B": (but(0, lambda A, lengths, limit: A), "grpo: it is still a mean over the completions."),
        "bnpo by mean length": (
            but(1, lambda A, lengths, limit: A * lengths / lengths.mean()),
            "bnpo: divide by the number of all tokens, the sum of the lengths.",
        ),
        "longest in the batch": (
            but(2, lambda A, lengths, limit: A * lengths / (len(A) * lengths.max())),
            "dr_grpo: you divide by the longest completion of the batch; take the length limit.",
        ),
        "dr_grpo without B": (
            but(2, lambda A, lengths, limit: A * lengths / limit),
            "dr_grpo: divide by the number of completions as well.",
        ),
    }
    A, lengths = torch.tensor([1.2, 0.4, -0.9, -0.7]), torch.tensor([4.0, 6.0, 2.0, 8.0])
    cases = [(A, lengths, 16), (A[:3], lengths[1:], 11)]
    praise = "Equal completions or equal tokens: not both."
    return judge("pushes on completions", attempt, pushes, cases, slips, praise=praise)
