"""Exercise checks of the bug museum: name bugs from a log, test a mask, measure the surprise, read intervals."""

import numpy as np

from grpo_lib.verdicts import judge

__all__ = ["check_diagnosis", "check_end_token_test", "check_seen", "check_surprise", "unlabelled_logs"]

ASKED = ("a broadcast advantage", "reference re-synced every step", "dropout on")
ANSWERS = (3, 6, 7)
LOGGED = ("step", "reward_mean", "completion_length", "kl", "grad_norm")


def unlabelled_logs(steps=(1, 10, 20, 40), seed=1):
    """Three logs of runs with a bug each, without a name: a list of records a run, `LOGGED` of some steps.

    >>> len(unlabelled_logs()), list(unlabelled_logs()[0][0])
    (3, ['step', 'reward_mean', 'completion_length', 'kl', 'grad_norm'])
    """
    from grpo_lib.museum_runs import load_museum_runs

    runs = [load_museum_runs(name)[seed]["steps"] for name in ASKED]
    return [[{key: run[step - 1][key] for key in LOGGED} for step in steps] for run in runs]


def check_diagnosis(attempt):
    """Check `f()` → the numbers of the exhibits that wrote the three `unlabelled_logs`, in order.

    >>> check_diagnosis(lambda: [6, 3, 7]).slip
    'swapped'
    """
    slips = {
        "swapped": (
            lambda: [6, 3, 7],
            "The first two are swapped: one has no gradient, the other has one and only its KL is 0.",
        ),
        "frozen weights": (
            lambda: [5, 6, 7],
            "The first: bfloat16 rounds *steps* away, but its gradients are as large as ever. Here there is none.",
        ),
        "a KL without a gradient": (
            lambda: [3, 10, 7],
            "The second: under no_grad the KL is still measured, and it grows. Here it is 0 at every step.",
        ),
        "the sign": (
            lambda: [3, 6, 2],
            "The third: with the sign turned the KL starts at 0 and grows. Here it is huge before any update.",
        ),
    }
    known = [slip() for slip, _ in slips.values()] + [list(ANSWERS)]

    def letters(value):
        found = [int(number) for number in value] if np.shape(value) == (3,) else None
        if found is not None and found not in known:
            off = [letter for letter, a, b in zip("ABC", found, ANSWERS, strict=True) if a != b]
            raise ValueError(f"Not yet found: {', '.join(off)}. Look at step 1, and at whether KL and gradient are 0.")
        return value

    praise = "No gradient; a KL that is 0 while the reward rises; a KL that is there before the first update."
    return judge("diagnosis", attempt, lambda: list(ANSWERS), [()], slips, praise=praise, measure=letters)


class _Named:
    """A mask function under test, with a name to be shown."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def __call__(self, completion_ids, eos_token_id, pad_token_id):
        return self.function(completion_ids, eos_token_id, pad_token_id)

    def __repr__(self):
        return f"the mask function {self.name!r}"


def _mask_functions():
    """The library's mask function, the two of the exhibits, and one that is wrong only with a padding id of its own."""
    from grpo_lib.masks import create_completion_mask

    def library(ids, eos, pad):
        return create_completion_mask(ids, eos)

    def before_the_end(ids, eos, pad):
        return (ids != eos).long().cumprod(dim=1)

    def by_pad_id(ids, eos, pad):
        return (ids != pad).long()

    def unless_padding(ids, eos, pad):
        return create_completion_mask(ids, eos) * (1 if pad == eos else (ids != eos).long())

    return {
        "library": library,
        "before the end": before_the_end,
        "by pad id": by_pad_id,
        "no end token, but for pad = eos": unless_padding,
    }


def check_end_token_test(attempt):
    """Check `f(mask)` → True if `mask(completion_ids, eos_token_id, pad_token_id)` keeps the first end token, always.

    >>> check_end_token_test(lambda mask: True).slip
    'always True'
    """
    import torch

    from grpo_lib.museum_tensor_checks import Finding, check_mask_ignores_pad_id, check_mask_keeps_first_eos

    def ends_seen(mask, pads):
        """Whether the end token counts, with each of these pad ids; the end token is 2."""
        kept = [mask(torch.tensor([[5, 2, pad, pad]]), 2, pad)[0, 1].item() == 1 for pad in pads]
        return all(kept)

    cases = [(_Named(name, function),) for name, function in _mask_functions().items()]

    def truth(value, mask):
        if value is None:
            raise ValueError(f"For {mask!r} it returns None: return True or False.")
        return float(bool(value)) if isinstance(value, Finding) else value

    def reference(mask):
        return float(bool(check_mask_keeps_first_eos(mask)) and bool(check_mask_ignores_pad_id(mask)))

    slips = {
        "always True": (lambda mask: 1.0, "It says yes to every mask function."),
        "a pad id of its own": (
            lambda mask: float(ends_seen(mask, [0])),
            "A mask by pad id passes your test: try it with pad = eos too.",
        ),
        "pad = eos only": (
            lambda mask: float(ends_seen(mask, [2])),
            "It tries pad = eos only: a mask function can lose the end token where padding has an id of its own.",
        ),
        "turned": (lambda mask: 1.0 - reference(mask), "Turned round: True is for the mask function that is right."),
        "pad = eos, and all of it": (
            lambda mask: 0.0,
            "It says no to every mask function, also to the library's: after the first end token 0 is right.",
        ),
    }
    praise = "It lets the library's pass, and catches both exhibits."
    return judge("test of the end token", attempt, reference, cases, slips, praise=praise, measure=truth)


def check_surprise(attempt):
    """Check `f(logits, tokens)` → the mean of -log π(token), less the mean entropy of π: (N, V), (N,) → one number.

    >>> check_surprise(lambda logits, tokens: -logits.log_softmax(-1).gather(1, tokens[:, None]).mean()).slip
    'no entropy'
    """
    import torch

    def parts(logits, tokens):
        log_probs = logits.log_softmax(dim=-1)
        surprise = -log_probs.gather(1, tokens[:, None]).squeeze(1)
        return surprise, -(log_probs.exp() * log_probs).sum(dim=-1)

    def reference(logits, tokens):
        surprise, entropy = parts(logits, tokens)
        return (surprise - entropy).mean()

    slips = {
        "no entropy": (lambda *a: parts(*a)[0].mean(), "This is the surprise alone; take the entropy of π off."),
        "sign": (lambda *a: -reference(*a), "Turned round: surprise minus entropy."),
        "sum": (lambda *a: (parts(*a)[0] - parts(*a)[1]).sum(), "This is the sum: take the mean over the tokens."),
        "entropy's sign": (lambda *a: sum(parts(*a)).mean(), "Entropy is -sum π log π: there is a minus in it."),
        "entropy over the batch": (
            lambda *a: parts(*a)[0].mean() - parts(*a)[1].sum() / a[0].numel(),
            "The entropy is a sum over the vocabulary, not a mean.",
        ),
    }
    generator = torch.Generator().manual_seed(0)
    cases = [(2 * torch.randn(n, 5, generator=generator), torch.arange(n) % 5) for n in (3, 6)]
    praise = "0 on average where the tokens are drawn from π; below 0 where rare tokens are missing."
    return judge("surprise less entropy", attempt, reference, cases, slips, praise=praise)


def check_seen(attempt):
    """Check `f(rows)`: for each (mean, low, high) of "bug less fixed" -1 if it costs, 1 if it gains, 0 if not seen.

    >>> check_seen(lambda rows: [1 if low > 0 else -1 for mean, low, high in rows]).slip
    'one end'
    """

    def reference(rows):
        return [-1 if high < 0 else 1 if low > 0 else 0 for _, low, high in rows]

    slips = {
        "means": (
            lambda rows: [int(np.sign(mean)) for mean, *_ in rows],
            "A mean has a sign always; look at both ends.",
        ),
        "size": (
            lambda rows: [int(np.sign(mean)) if abs(mean) > 0.05 else 0 for mean, *_ in rows],
            "Not the size decides but the interval: a small difference can be sure, and a large one luck.",
        ),
        "turned": (lambda rows: [-s for s in reference(rows)], "Turned round: below 0 the bug costs something."),
        "one end": (
            lambda rows: [1 if low > 0 else -1 for _, low, _ in rows],
            "An interval that begins below 0 may still hold 0: it costs only where its upper end is below 0.",
        ),
        "seen or not": (lambda rows: [abs(s) for s in reference(rows)], "Say in which direction: -1 where it costs."),
    }
    cases = [
        ([(0.22, 0.19, 0.26), (-0.65, -0.70, -0.59), (-0.02, -0.06, 0.01), (0.09, 0.01, 0.16)],),
        ([(-0.14, -0.16, -0.12), (0.08, -0.06, 0.22), (-0.03, -0.05, -0.01), (0.0, -0.11, 0.11)],),
    ]
    return judge("seen or not seen", attempt, reference, cases, slips, praise="0 means not seen, not harmless.")
