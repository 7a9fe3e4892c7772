"""One GRPO step of the bandit taken apart: its samples, the push and pull on each word, before and after."""

import numpy as np

from grpo_lib.plot_style import CLEAR, TEXT, checked, colour, finish, rounded, signed, subplots

__all__ = ["bandit_step_figure"]


def bandit_step_figure(vocab, samples, rewards, advantages, push, pull, probs_before, probs_after, *, title=None):
    """Draw one GRPO step by hand: what was sampled, the push and pull on each word, probabilities before and after.

    Args:
        vocab: K words.
        samples: (G,) index of each sampled word.
        rewards, advantages: (G,), of the same samples.
        push: (K,) step of each word's logit asked for by the samples (policy gradient).
        pull: (K,) step asked for by the KL to the reference, signed as it is added; zeros if beta is 0.
        probs_before, probs_after: (K,).
    Returns:
        `go.Figure`; traces: sample counts, push, pull, their sum, probabilities before, and after.
    Raises:
        ValueError: on a shape that does not fit, or an index outside the vocabulary.

    >>> step = [0, 1], [1.0, 0.0], [1.0, -1.0], [1.0, -1.0], [0.0, 0.0], [0.5, 0.5], [0.6, 0.4]
    >>> bandit_step_figure(["ant", "cat"], *step).layout.meta["alt"]
    'One step on 2 samples moves the probability of ant from 0.500 to 0.600.'
    """
    k, g = len(vocab), len(samples)
    index = checked("samples", samples, (None,)).astype(int)
    if index.min() < 0 or index.max() >= k:
        raise ValueError(f"samples must be word indices 0 to {k - 1}, got {index.min()} to {index.max()}")
    rewards, advantages = checked("rewards", rewards, (g,)), checked("advantages", advantages, (g,))
    push, pull = checked("push", push, (k,)), checked("pull", pull, (k,))
    before, after = checked("probs_before", probs_before, (k,)), checked("probs_after", probs_after, (k,))
    words, colours = list(vocab), [colour(i) for i in range(k)]
    fig = subplots(1, 3, x=0.1)
    _samples_panel(fig, words, index, rewards, advantages)
    _push_and_pull_panel(fig, words, push, pull)
    for name, values, opacity in (("before", before, 0.4), ("after", after, 1.0)):
        look = dict(color=colours, opacity=opacity)
        fig.add_bar(x=words, y=rounded(values), name=name, marker=look, showlegend=False, row=1, col=3)
    for col, text in enumerate(
        ("samples (count)", "push and pull on each logit", "probability (pale before, full after)"), start=1
    ):
        fig.update_yaxes(title_text=text, row=1, col=col)
    fig.update_xaxes(title_text="word")
    up = int(np.argmax(np.abs(after - before)))
    alt = f"One step on {g} samples moves the probability of {words[up]} from {before[up]:.3f} to {after[up]:.3f}."
    return finish(fig, height=270, alt=alt, title=title)


def _samples_panel(fig, words, index, rewards, advantages):
    counts = np.bincount(index, minlength=len(words))
    fig.add_bar(
        x=words,
        y=counts.tolist(),
        text=[_sample_label(index == i, rewards, advantages) for i in range(len(words))],
        textposition="outside",
        textangle=0,
        textfont=dict(size=11, color=TEXT),
        cliponaxis=False,
        marker_color=[colour(i) for i in range(len(words))],
        name="samples",
        showlegend=False,
        row=1,
        col=1,
    )
    fig.update_yaxes(range=[0, 1.3 * float(counts.max())], row=1, col=1)  # room for the text above the bars


def _push_and_pull_panel(fig, words, push, pull):
    fig.add_bar(x=words, y=rounded(push), name="push (samples)", marker_color=colour(5), row=1, col=2)
    hatch = dict(
        color=CLEAR,
        line=dict(color=colour(4), width=1.5),
        pattern=dict(shape="/", fgcolor=colour(4), bgcolor=CLEAR, size=7),
    )
    fig.add_bar(x=words, y=rounded(pull), name="pull (KL)", marker=hatch, row=1, col=2)
    net = dict(symbol="diamond", size=10, color=TEXT, line=dict(color="#FFFFFF", width=1))
    fig.add_scatter(x=words, y=rounded(push + pull), name="their sum", mode="markers", marker=net, row=1, col=2)
    fig.update_yaxes(zeroline=True, zerolinecolor=TEXT, row=1, col=2)


def _sample_label(chosen, rewards, advantages):
    """Reward and advantage of one word's samples, for the text on its bar."""
    if not chosen.any():
        return ""
    pairs = zip(rewards[chosen], advantages[chosen], strict=True)
    return "<br>".join(sorted({f"r {r:.3g}<br>A {signed(a, 2)}" for r, a in pairs})[:2])
