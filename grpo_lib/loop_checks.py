"""Exercise checks on the loop as a whole: its six boxes, a run's end, the loss on fresh samples, many updates."""

import numpy as np

from grpo_lib.bandit import BanditGRPO
from grpo_lib.verdicts import judge

__all__ = ["check_final_probability", "check_fresh_loss", "check_ratio_after_updates", "check_six_boxes"]


def check_six_boxes(attempt):
    """Check `f()` → the numbers of the six boxes of GRPO's loop in the order in which they are gone through.

    1 loss, 2 completions, 3 update, 4 advantages, 5 prompt, 6 rewards.

    >>> check_six_boxes(lambda: [5, 2, 4, 6, 1, 3]).slip
    'advantages first'
    """
    slips = {
        "advantages first": (
            lambda: [5, 2, 4, 6, 1, 3],
            "An advantage compares rewards: they have to be there first.",
        ),
        "update first": (
            lambda: [5, 2, 6, 4, 3, 1],
            "The update follows the gradient of the loss: the loss comes before it.",
        ),
        "from the completions": (lambda: [2, 6, 4, 1, 3, 5], "The order is right; begin with what the model is asked."),
        "loss before advantages": (
            lambda: [5, 2, 6, 1, 4, 3],
            "The loss is made of the advantages: they come before it.",
        ),
    }
    praise = "And from the update back to the next prompt."
    return judge("six boxes", attempt, lambda: [5, 2, 6, 4, 1, 3], [()], slips, praise=praise)


def check_final_probability(attempt):
    """Check `f(beta)`: P(ant) after the 50 iterations of the default bandit.

    >>> check_final_probability(lambda beta: ...)
    ○ P(ant) at the end: not attempted yet.
    """

    def seen(beta=0.5, when=-1, word=0):
        run = BanditGRPO(beta=beta)
        run.train(num_iterations=50, num_samples=20)
        return run.prob_history[when][word]

    slips = {
        "start": (lambda beta: seen(beta, 0), "This is the start, the same for every beta; the end is at index -1."),
        "dog": (lambda beta: seen(beta, word=3), "This is dog: ant is the first word, `data[0]`."),
        "beta left out": (lambda beta: seen(), "The same for every beta: hand beta on, `explore_bandit(beta=beta)`."),
        "one too early": (lambda beta: seen(beta, -2), "This is iteration 49; the last one is at index -1."),
    }
    praise = "A larger beta ends closer to the start, 0.182."
    return judge("P(ant) at the end", attempt, seen, [(0.0,), (2.0,)], slips, praise=praise)


def check_fresh_loss(attempt):
    """Check `f(advantages, kl_step, kl_ref, beta)`: the loss on samples just drawn, where every ratio is 1.

        -mean(1 · A) + beta · KL to the reference

    >>> check_fresh_loss(lambda advantages, kl_step, kl_ref, beta: beta * kl_step).slip
    'KL of the step'
    """
    advantages = np.array([1.5, -0.5, -0.5, -0.5])
    cases = [(advantages, 0.02, 0.3, 0.5), (-advantages, 0.01, 1.4, 2.0), (advantages, 0.02, 0.3, 0.0)]
    slips = {
        "always 0": (
            lambda A, step, ref, beta: 0.0,
            "0 is right without a beta only: the KL stands in the loss too, and it is not 0.",
        ),
        "KL of the step": (
            lambda A, step, ref, beta: -A.mean() + beta * step,
            "beta weighs the KL to the reference; the KL of one step only tells how far the last step went.",
        ),
        "both KLs": (
            lambda A, step, ref, beta: -A.mean() + beta * (step + ref),
            "Only the KL to the reference stands in the loss; the KL of one step is logged.",
        ),
        "objective": (
            lambda A, step, ref, beta: A.mean() - beta * ref,
            "This is the objective, which is climbed; the loss is its negative.",
        ),
        "no beta": (lambda A, step, ref, beta: -A.mean() + ref, "The KL has the weight beta."),
        "largest advantage": (
            lambda A, step, ref, beta: -A.max() + beta * ref,
            "Take the mean over the whole group, not its best sample: the advantages add up to 0.",
        ),
    }

    def reference(advantages, kl_step, kl_ref, beta):
        return -advantages.mean() + beta * kl_ref

    praise = "Whatever the rewards were: it is beta · KL, no measure of progress."
    return judge("loss on fresh samples", attempt, reference, cases, slips, praise=praise)


def check_ratio_after_updates(attempt):
    """Check `f(growth, num_updates, high)`: a good word's ratio after updates that each multiply it while it may rise.

    >>> check_ratio_after_updates(lambda growth, num_updates, high: min(growth**num_updates, 1 + high)).slip
    'wall'
    """

    def pushed(growth, num_updates, may):
        ratio = 1.0
        for _ in range(num_updates):
            ratio = ratio * growth if may(ratio) else ratio
        return ratio

    def added(growth, num_updates, high):
        ratio = 1.0
        for _ in range(num_updates):
            ratio += growth - 1 if ratio <= 1 + high else 0.0
        return ratio

    slips = {
        "wall": (
            lambda growth, n, high: min(growth**n, 1 + high),
            "The clip is not a wall: the push that begins inside the range carries the ratio over its edge.",
        ),
        "inside": (
            lambda growth, n, high: pushed(growth, n, lambda ratio: ratio * growth <= 1 + high),
            "The clip looks at the ratio before an update, not at where the update will take it.",
        ),
        "no clip": (
            lambda growth, n, high: growth**n,
            "The clip is missing: above 1 + high the word is pushed no more.",
        ),
        "added": (added, "Each update multiplies the ratio by growth; you add."),
        "first is clipped": (
            lambda growth, n, high: pushed(growth, n - 1, lambda ratio: ratio <= 1 + high),
            "The first update counts as well: at a ratio of 1 nothing is clipped.",
        ),
    }

    def reference(growth, num_updates, high):
        return pushed(growth, num_updates, lambda ratio: ratio <= 1 + high)

    cases = [(1.15, 8, 0.2), (1.5, 1, 0.2), (1.02, 5, 0.28)]
    praise = "Above 1 + high it stands still, but above it stands."
    return judge("ratio after updates", attempt, reference, cases, slips, praise=praise)
