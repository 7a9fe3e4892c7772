"""Exercise checks on fine-tuning: bytes, size of an adapter, lost updates, what a stopped run leaves, time left."""

import numpy as np

from grpo_lib.verdicts import judge

__all__ = ["check_left_behind", "check_lora_parameters", "check_moves", "check_time_left", "check_training_bytes"]


def check_training_bytes(attempt):
    """Check `f(frozen, frozen_bytes, trainable)`: bytes of weights, gradients and Adam, what learns being fp32.

    >>> check_training_bytes(lambda frozen, frozen_bytes, trainable: 16 * (frozen + trainable)).slip
    'adam everywhere'
    """
    slips = {
        "adam everywhere": (
            lambda frozen, size, learns: 16 * (frozen + learns),
            "Frozen weights have no gradient and no moments, and keep their own number of bytes.",
        ),
        "12 bytes": (
            lambda frozen, size, learns: frozen * size + 12 * learns,
            "A number that learns takes weight 4, gradient 4, and Adam's TWO moments 4 + 4.",
        ),
        "no adam": (
            lambda frozen, size, learns: frozen * size + 8 * learns,
            "AdamW keeps two moments of each number that learns: 8 bytes more.",
        ),
        "half moments": (
            lambda frozen, size, learns: (frozen + learns) * size + 12 * learns,
            "What learns is fp32, also on a base in half precision: 4 bytes of weight, not frozen_bytes.",
        ),
        "no base": (lambda frozen, size, learns: 16 * learns, "The frozen weights are in memory too."),
    }
    cases = [(0, 2, 1_000), (1_000, 2, 10), (1_000, 4, 10), (494_000_000, 2, 8_800_000)]
    return judge(
        "bytes of a run",
        attempt,
        lambda frozen, size, learns: frozen * size + 16 * learns,
        cases,
        slips,
        praise="Activations and logits come on top; the estimate has them.",
    )


def check_lora_parameters(attempt):
    """Check `f(shapes, rank)`: how many numbers a LoRA adapter of all these (rows, columns) matrices has.

    >>> check_lora_parameters(lambda shapes, rank: sum(m * n for m, n in shapes)).slip
    'whole matrices'
    """
    slips = {
        "whole matrices": (
            lambda shapes, rank: sum(m * n for m, n in shapes),
            "Those are the frozen matrices themselves; the adapter has B (rows x rank) and A (rank x columns).",
        ),
        "rank times whole": (
            lambda shapes, rank: rank * sum(m * n for m, n in shapes),
            "B A is as large as W, but only B and A are kept: add their sizes, do not multiply them.",
        ),
        "one half": (
            lambda shapes, rank: rank * sum(n for _, n in shapes),
            "That is A alone; B has rank numbers for each row.",
        ),
        "a middle": (
            lambda shapes, rank: sum(rank * (m + n) + rank * rank for m, n in shapes),
            "There is no rank x rank matrix between B and A.",
        ),
    }
    cases = [([(896, 896)], 16), ([(896, 128), (4864, 896)], 16), ([(3, 5)] * 4, 2)]
    return judge("size of an adapter", attempt, lambda shapes, rank: rank * sum(map(sum, shapes)), cases, slips)


def check_moves(attempt):
    """Check `f(weights, step)`: (N,) 1 where a bfloat16 weight changes by a step, 0 where that is rounded away.

    >>> check_moves(lambda weights, step: weights * 0 + 1).slip
    'always'
    """

    def spacing(weights, bits):
        return 2.0 ** (np.floor(np.log2(np.abs(weights))) - bits)

    def moves(weights, step, bits=7, part=0.5):
        return (step > part * spacing(weights, bits)).astype(float)

    slips = {
        "always": (lambda w, step: np.ones_like(w), "In exact numbers every step counts; bfloat16 has gaps."),
        "never": (lambda w, step: np.zeros_like(w), "A weight near 0 has close neighbours: it does move."),
        "whole gap": (
            lambda w, step: moves(w, step, part=1.0),
            "Half a gap is enough: the sum is rounded to the nearest number.",
        ),
        "float16": (lambda w, step: moves(w, step, bits=10), "10 bits is float16; bfloat16 keeps 7 after the point."),
        "fixed gap": (
            lambda w, step: (step > 2.0**-9 * np.ones_like(w)).astype(float),
            "The gap grows with the weight: 2^-7 of the power of two below it.",
        ),
    }
    weights = np.array([0.03, -0.0013, 0.3, 7e-5, -0.021, 0.9, 0.00011, 0.0047])
    cases = [(weights, step) for step in (1e-6, 4e-6, 3e-5, 7e-5, 1e-3, 3e-3)]
    return judge("which weights move", attempt, moves, cases, slips, praise="So what learns is kept in fp32.")


def check_left_behind(attempt):
    """Check `f(stopped, checkpoint_every, eval_every, scores)` → [step of `best`, step that is taken up].

    >>> check_left_behind(lambda stopped, checkpoint_every, eval_every, scores: [stopped, stopped]).slip
    'nothing lost'
    """

    def step_of(stopped, eval_every, scores):
        return eval_every * (1 + int(np.argmax(scores[: stopped // eval_every])))

    def taken(stopped, every):
        return stopped // every * every

    def reference(stopped, every, eval_every, scores):
        return [step_of(stopped, eval_every, scores), taken(stopped, every)]

    slips = {
        "nothing lost": (
            lambda stopped, *a: [stopped, stopped],
            "Only what was saved is left, not the step it was at.",
        ),
        "best taken up": (
            lambda *a: [reference(*a)[0]] * 2,
            "`best` holds the policy's weights alone; a run goes on from its newest checkpoint.",
        ),
        "newest for best": (
            lambda stopped, every, eval_every, scores: [taken(stopped, eval_every), taken(stopped, every)],
            "`best` is not the newest evaluation: the one with the highest score so far.",
        ),
        "foreseen": (
            lambda stopped, every, eval_every, scores: [
                step_of(len(scores) * eval_every, eval_every, scores),
                taken(stopped, every),
            ],
            "You use scores of evaluations after the stop: only those up to `stopped` had been made.",
        ),
        "places": (
            lambda *a: [reference(*a)[0] // a[2], reference(*a)[1]],
            "The first number is a step: the i-th evaluation is at step i * eval_every.",
        ),
        "exchanged": (lambda *a: reference(*a)[::-1], "Give `best` first, then what is taken up."),
    }
    cases = [
        (37, 5, 10, [0.5, 0.7, 0.6, 0.9]),
        (44, 20, 10, [0.3, 0.2, 0.5, 0.4, 0.8]),
        (60, 25, 20, [0.6, 0.4, 0.5]),
    ]
    praise = "Two files, two purposes: one to report, one to go on from."
    return judge("what a stopped run leaves", attempt, reference, cases, slips, praise=praise)


def check_time_left(attempt):
    """Check `f(seconds, num_steps, eval_every, eval_seconds)`: the rest of a run, the first step's time left out.

    >>> check_time_left(lambda seconds, num_steps, eval_every, eval_seconds: num_steps * seconds[0]).slip
    'first step'
    """

    def looks(seconds, num_steps, every):
        return num_steps // every - len(seconds) // every

    def mean_after_first(seconds):
        return sum(seconds[1:]) / (len(seconds) - 1)

    def reference(seconds, num_steps, every, look):
        return (num_steps - len(seconds)) * mean_after_first(seconds) + looks(seconds, num_steps, every) * look

    slips = {
        "first step": (
            lambda seconds, n, every, look: n * seconds[0],
            "The first step also pays for what is set up once, and not all steps are still to come.",
        ),
        "mean of all": (
            lambda seconds, n, every, look: (
                (n - len(seconds)) * sum(seconds) / len(seconds) + looks(seconds, n, every) * look
            ),
            "Leave the first step out of the mean: it also pays for what is set up once.",
        ),
        "no evaluations": (
            lambda seconds, n, every, look: (n - len(seconds)) * mean_after_first(seconds),
            "Evaluations take time too: count those that are still to come.",
        ),
        "all steps": (
            lambda seconds, n, every, look: n * mean_after_first(seconds) + n // every * look,
            "That is the whole run; take off what is done.",
        ),
        "all evaluations": (
            lambda seconds, n, every, look: (n - len(seconds)) * mean_after_first(seconds) + n // every * look,
            "Some evaluations are done already: every `eval_every` steps one.",
        ),
    }
    cases = [([9.0, 3.0, 3.2, 2.8], 40, 2, 30.0), ([20.0, 8.0], 100, 2, 60.0), ([5.0] + [2.0] * 9, 25, 5, 7.0)]
    return judge("time left", attempt, reference, cases, slips, praise="Decide now, not in three hours.")
