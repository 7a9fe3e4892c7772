"""What the bandit explorer shows, as plain functions: settings in, a figure out; no widgets, no front end."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape

import numpy as np

from grpo_lib.bandit import BanditGRPO
from grpo_lib.bandit_plots import bandit_figure_dict, compare_figure_dict
from grpo_lib.bandit_runs import compared_texts, describe, resting_points_of, resting_text
from grpo_lib.plot_style import colour, signed
from grpo_lib.plots import bandit_figure, bandit_step_figure, compare_figure


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
        options: further settings of `BanditGRPO`: vocab, baseline, kl_direction, reward, updates_per_rollout, clip,
            epsilon, sample_seed.
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


def compare_bandits(settings_a, settings_b, **shared):
    """Train two bandits that differ in some settings and draw them side by side, on the same axes.

    Args:
        settings_a, settings_b: dicts of arguments of `explore_bandit`, for the left and for the right.
        shared: arguments of both; the vocabulary is one of these, or the default.
    Returns:
        `go.Figure` of `compare_figure`; the title says what differs, and where each run rests.
    Raises:
        ValueError: on a bad setting, or two vocabularies.

    >>> figure = compare_bandits(dict(normalise=True), dict(normalise=False), beta=1.0, num_iterations=3)
    >>> print(figure.layout.title.text.replace("<br>", chr(10)))
    A and B: beta 1, learning rate 0.01, 20 samples
    A: standardised
    dotted: the exact resting point, P(ant) = 0.624
    B: not standardised
    dotted: the exact resting point, P(ant) = 0.366
    """
    return explore_both(*(_split(**{**shared, **settings}) for settings in (settings_a, settings_b))).figure


def _split(*, beta=0.5, learning_rate=0.01, normalise=True, num_samples=20, num_iterations=50, seed=42, **options):
    """The arguments of `explore_bandit` as those of `explore_run`."""
    settings = dict(beta=beta, learning_rate=learning_rate, normalise=normalise, seed=seed, **options)
    return settings, num_samples, num_iterations


@dataclass(frozen=True, eq=False)
class Exploration:
    """What one set of settings led to.

    Args:
        run: the trained `BanditGRPO`.
        draw: called without arguments, returns the figure; when it is asked for.
        draw_dict: the same as plain data, where that is to be had sooner than through the figure.
        html: a table of the step; empty for a whole run.
    Attributes:
        figure: `go.Figure`. figure_dict: the same as plain data, ready to be sent to a page.
    """

    run: BanditGRPO
    draw: Callable
    draw_dict: Callable | None = None
    html: str = ""

    @cached_property
    def figure(self):
        return self.draw()

    @cached_property
    def figure_dict(self):
        return json.loads(self.figure.to_json()) if self.draw_dict is None else self.draw_dict()


def explore_run(settings, num_samples, num_iterations):
    """Train and draw a whole run. `settings` are keyword arguments of `BanditGRPO`; returns an `Exploration`."""
    run, histories, rest = _trained(settings, num_samples, num_iterations)
    *histories, points = histories
    title = f"{describe(run, num_samples)}<br>{rest}"
    arguments, more = (run.vocab, *histories), dict(resting_points=points, title=title)
    draw, draw_dict = (partial(how, *arguments, **more) for how in (bandit_figure, bandit_figure_dict))
    return Exploration(run, draw, draw_dict)


def explore_both(first, second):
    """Train and draw two runs side by side, each given as the arguments of `explore_run`; `run` is the second."""
    runs, drawn, rests = zip(*[_trained(*arguments) for arguments in (first, second)], strict=True)
    if runs[0].vocab != runs[1].vocab:
        raise ValueError(
            f"A and B must have one vocabulary, in one order, got {runs[0].vocab} and {runs[1].vocab}: "
            "give both the same vocab, or draw each with explore_bandit"
        )
    same, *owns = compared_texts(
        *[(run, n, s.get("seed"), s.get("sample_seed")) for run, (s, n, _) in zip(runs, (first, second), strict=True)]
    )
    lines = [f"A and B: {', '.join(same)}"] if same else []
    for name, own, rest in zip("AB", owns, rests, strict=True):
        lines += [f"{name}: {', '.join(own) or 'the same settings'}", rest]
    title = "<br>".join(lines)
    draw, draw_dict = (
        partial(how, runs[0].vocab, *drawn, title=title) for how in (compare_figure, compare_figure_dict)
    )
    return Exploration(runs[1], draw, draw_dict)


def _trained(settings, num_samples, num_iterations):
    """A trained run, what `bandit_figure` draws of it, and one line about where it rests."""
    run = BanditGRPO(**settings)
    run.train(num_iterations, num_samples)
    points = resting_points_of(run, num_samples)
    stable = [point.probs for point in points or () if point.stable]
    histories = run.prob_history, run.reward_history, run.kl_div_history, run.kl_ref_history
    return run, (*map(tuple, histories), stable), resting_text(run, points)  # copies: a run may be trained on


def explore_step(settings, num_samples, iteration):
    """Train up to an iteration and draw that one. `settings` as in `explore_run`; returns an `Exploration`."""
    run = BanditGRPO(**settings)
    if iteration > 1:
        run.train(iteration - 1, num_samples)
    step = run.step(num_samples)
    clipped = f"<br>clipped: {step.clip_fraction:.0%} of the samples" if run.updates_per_rollout > 1 else ""
    draw = partial(
        bandit_step_figure,
        run.vocab,
        step.samples,
        step.rewards,
        step.advantages,
        step.push,
        step.pull,
        step.probs_before,
        step.probs_after,
        title=f"Iteration {step.iteration}: {describe(run, num_samples)}{clipped}",
    )
    return Exploration(run, draw, html=step_table(run, step))


def step_table(run, step):
    """The step as HTML: each sample in its order, then a row of numbers for each word."""
    chip = "display:inline-block;padding:0 5px;margin:1px;line-height:1.5;border-left:4px solid"
    chips = " ".join(
        f'<span style="{chip} {colour(k)}">'
        f"{escape(run.vocab[k])}&nbsp;<small>r&nbsp;{r:g}, A&nbsp;{signed(a, 2)}</small></span>"
        for k, r, a in zip(step.samples, step.rewards, step.advantages, strict=True)
    )
    head = ("word", "samples", "push", "pull", "learning rate × (push + pull)", "before", "after")
    counts = np.bincount(step.samples, minlength=len(run.vocab))
    rows = zip(run.vocab, counts, step.push, step.pull, step.probs_before, step.probs_after, strict=True)
    cells = [
        (escape(word), str(n), signed(up, 3), signed(down, 3), signed(run.learning_rate * (up + down), 4))
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
