"""What the bandit explorer shows, as plain functions: settings in, a figure out; no widgets, no front end."""

from dataclasses import dataclass
from html import escape

import numpy as np

from grpo_lib.bandit import BanditGRPO, resting_point
from grpo_lib.plot_style import colour
from grpo_lib.plots import bandit_figure, bandit_step_figure


def explore_bandit(
    beta=0.5, learning_rate=0.01, num_samples=20, normalise=True, *, num_iterations=50, seed=42, **options
):
    """Train the bandit with these settings and draw its run, with the exact resting point dotted over it.

    Args:
        beta: weight of the KL to the reference, >= 0.
        learning_rate: > 0.
        num_samples: samples per iteration, G >= 2.
        normalise: whether advantages are divided by their standard deviation.
        num_iterations: iterations to train, >= 1.
        seed: of the start and the samples.
        options: further settings of `BanditGRPO`: vocab, baseline, kl_direction, reward, updates_per_rollout, clip.
    Returns:
        `go.Figure` of `bandit_figure`; the title says where the run rests, or that it goes to the corner.
    Raises:
        ValueError: on a bad setting.

    >>> figure = explore_bandit(beta=1.0, normalise=False, num_iterations=3)
    >>> figure.data[0].name, len(figure.data[0].y)
    ('ant (rests at 0.366)', 4)
    """
    settings = dict(beta=beta, learning_rate=learning_rate, normalise=normalise, seed=seed, **options)
    return explore_run(settings, num_samples, num_iterations).figure


def explore_bandit_step(
    beta=0.5, learning_rate=0.01, num_samples=20, normalise=True, *, iteration=1, seed=42, **options
):
    """Draw one iteration taken apart: samples, advantages, the push and pull on each word, before and after.

    Args:
        iteration: which iteration of the run to draw, from 1; those before it are trained first.
        beta, learning_rate, num_samples, normalise, seed, options: as in `explore_bandit`.
    Returns:
        `go.Figure` of `bandit_step_figure`.
    Raises:
        ValueError: on a bad setting.

    >>> figure = explore_bandit_step(num_samples=4)
    >>> list(figure.data[0].x), list(figure.data[0].y)
    (['ant', 'bear', 'cat', 'dog'], [3, 0, 0, 1])
    """
    settings = dict(beta=beta, learning_rate=learning_rate, normalise=normalise, seed=seed, **options)
    return explore_step(settings, num_samples, iteration).figure


@dataclass(frozen=True, eq=False)
class Exploration:
    """What one set of settings led to.

    Attributes:
        figure: `go.Figure`.
        run: the trained `BanditGRPO`.
        html: a table of the step; empty for a whole run.
    """

    figure: object
    run: BanditGRPO
    html: str = ""


def explore_run(settings, num_samples, num_iterations):
    """Train and draw a whole run. `settings` are keyword arguments of `BanditGRPO`; returns an `Exploration`."""
    run = BanditGRPO(**settings)
    run.train(num_iterations, num_samples)
    points = resting_points_of(run, num_samples)
    figure = bandit_figure(
        run.vocab,
        run.prob_history,
        run.reward_history,
        run.kl_div_history,
        run.kl_ref_history,
        resting_points=[point.probs for point in points or () if point.stable],
        title=f"{describe(run, num_samples)}<br>{resting_text(run, points)}",
    )
    return Exploration(figure, run)


def explore_step(settings, num_samples, iteration):
    """Train up to an iteration and draw that one. `settings` as in `explore_run`; returns an `Exploration`."""
    run = BanditGRPO(**settings)
    if iteration > 1:
        run.train(iteration - 1, num_samples)
    step = run.step(num_samples)
    figure = bandit_step_figure(
        run.vocab,
        step.samples,
        step.rewards,
        step.advantages,
        step.push,
        step.pull,
        step.probs_before,
        step.probs_after,
        title=f"Iteration {step.iteration}: {describe(run, num_samples)}",
    )
    return Exploration(figure, run, step_table(run, step))


def describe(run, num_samples):
    """The settings of a run in one line."""
    scale = "standardised" if run.normalise else "not standardised"
    return f"beta {run.beta:g}, learning rate {run.learning_rate:.3g}, {num_samples} samples, {scale}"


def resting_points_of(run, num_samples):
    """`resting_point` for the settings of a run; None where it does not hold (several updates on one group)."""
    if run.updates_per_rollout != 1 or (run.normalise and len(set(run.rewards)) > 2):
        return None
    return resting_point(
        run.ref_probs,
        run.rewards,
        run.beta,
        num_samples=num_samples,
        normalise=run.normalise,
        baseline=run.baseline,
        kl_direction=run.kl_direction,
        eps=run.epsilon,
    )


def resting_text(run, points):
    """One line that says where a run with these resting points comes to rest."""
    best = run.rewards == run.rewards.max()
    words = " + ".join(str(word) for word, good in zip(run.vocab, best, strict=True) if good)
    if points is None:
        return "no exact resting point is known for these settings"
    if not points:
        why = "beta 0 pulls nothing back" if run.beta == 0 else "the push outweighs the pull"
        return f"no resting point: {why}, the run goes to the corner P({words}) = 1"
    places = [f"P({words}) = {_close_to_one(point.probs[~best].sum())}" for point in points if point.stable]
    text = "dotted: the exact resting point, " + " or ".join(places)
    edges = [f"{point.probs[best].sum():.3f}" for point in points if not point.stable]
    if edges:
        text += f"; above {edges[-1]} the corner wins" if not points[-1].stable else f"; the watershed is {edges[-1]}"
    return text


def _close_to_one(rest):
    """1 - rest, in digits that tell it from 1."""
    return f"{1 - rest:.3f}" if rest >= 0.0005 else f"1 − {rest:.0e}, next to the corner"


def step_table(run, step):
    """The step as HTML: each sample in its order, then a row of numbers for each word."""
    chip = "display:inline-block;padding:0 5px;margin:1px;line-height:1.5;border-left:4px solid"
    chips = " ".join(
        f'<span style="{chip} {colour(k)}">'
        f"{escape(run.vocab[k])}&nbsp;<small>r&nbsp;{r:g}, A&nbsp;{a:+.2f}</small></span>"
        for k, r, a in zip(step.samples, step.rewards, step.advantages, strict=True)
    )
    head = ("word", "samples", "push", "pull", "learning rate × (push + pull)", "before", "after")
    counts = np.bincount(step.samples, minlength=len(run.vocab))
    rows = zip(run.vocab, counts, step.push, step.pull, step.probs_before, step.probs_after, strict=True)
    cells = [
        (escape(word), str(n), f"{up:+.3f}", f"{down:+.3f}", f"{run.learning_rate * (up + down):+.4f}")
        + (f"{before:.3f}", f"{after:.3f}")
        for word, n, up, down, before, after in rows
    ]
    style = 'style="text-align:right;padding:1px 10px"'
    body = "".join(f"<tr>{''.join(f'<td {style}>{cell}</td>' for cell in row)}</tr>" for row in cells)
    header = "".join(f'<th scope="col" {style}>{name}</th>' for name in head)
    return (
        f'<div style="max-height:9em;overflow:auto">{chips}</div>'
        f'<table style="margin-top:4px;line-height:1.4"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'
    )
