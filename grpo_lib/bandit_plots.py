"""The bandit's figures: a whole run in three panels, two runs side by side, and one GRPO step taken apart."""

import numpy as np

from grpo_lib.plot_style import CLEAR, TEXT, checked, colour, finish, line_style, positive, rounded, subplots


def bandit_figure(
    vocab, prob_history, reward_history, kl_step_history, kl_ref_history, *, resting_points=None, title=None
):
    """Draw a bandit's run in three panels: word probabilities, mean reward, and the two KLs on a log axis.

    Args:
        vocab: K words.
        prob_history: (N+1, K) probabilities; row 0 is the start.
        reward_history: (N,) mean reward of each iteration's samples, drawn at the policy that was sampled.
        kl_step_history: (N,) KL of one step, in nats, drawn where the step arrives.
        kl_ref_history: (N+1,) KL to the reference, in nats. Zeros have no place on a log axis and leave a gap.
        resting_points: probability vectors (K,) where the run can come to rest, drawn dotted in each word's colour.
    Returns:
        `go.Figure`; traces: K words, then the dotted lines, then "mean reward", "KL of one step", "KL to reference".
    Raises:
        ValueError: if the lengths do not belong to one run of N >= 1 iterations, or a number is not finite.

    >>> fig = bandit_figure(["ant", "cat"], [[0.5, 0.5], [0.6, 0.4]], [0.5], [0.02], [0.0, 0.02])
    >>> [trace.name for trace in fig.data]
    ['ant', 'cat', 'mean reward', 'KL of one step', 'KL to reference']
    """
    probs, rewards, kl_step, kl_ref, rests = _checked_run(
        vocab, prob_history, reward_history, kl_step_history, kl_ref_history, resting_points
    )
    steps = list(range(len(probs)))
    fig = subplots(2, 2, x=0.13, specs=[[dict(rowspan=2), {}], [None, {}]], column_widths=[0.56, 0.44])
    _words_panel(fig, vocab, probs, rests, [_resting_name(word, k, rests) for k, word in enumerate(vocab)])
    grey = dict(color=TEXT, width=1.5)
    fig.add_scatter(x=steps[:-1], y=rounded(rewards), name="mean reward", line=grey, showlegend=False, row=1, col=2)
    _kl_panel(fig, kl_step, kl_ref)
    fig.update_traces(mode="lines")
    fig.update_xaxes(title_text="iteration")
    fig.update_xaxes(nticks=4, col=2)  # the same grid lines in both, though only the lower one is labelled
    fig.update_xaxes(title_text=None, showticklabels=False, row=1, col=2)
    fig.update_yaxes(title_text="probability of each word", range=[-0.02, 1.02], row=1, col=1)
    fig.update_yaxes(title_text="mean reward", row=1, col=2)
    fig.update_yaxes(title_text="KL (nats, log)", type="log", exponentformat="power", nticks=5, row=2, col=2)
    best = int(np.argmax(probs[-1]))
    alt = (
        f"Over {len(rewards)} iterations the probability of {vocab[best]} goes from {probs[0, best]:.2f} "
        f"to {probs[-1, best]:.2f}, and the KL to the reference ends at {kl_ref[-1]:.2g} nats."
    )
    return finish(fig, height=330, alt=alt, title=title)


def compare_figure(vocab, run_a, run_b, *, title=None):
    """Draw two runs of the bandit side by side on the same axes: word probabilities above, the two KLs below.

    Args:
        vocab: K words.
        run_a, run_b: for the left and the right, the arguments of `bandit_figure` after vocab, as a tuple:
            (prob_history, reward_history, kl_step_history, kl_ref_history, resting_points). Rewards are not drawn.
    Returns:
        `go.Figure`; traces: A's, then B's: K words, the dotted lines, "KL of one step", "KL to reference".
    Raises:
        ValueError: as in `bandit_figure`.

    >>> run = [[0.5, 0.5], [0.6, 0.4]], [0.5], [0.02], [0.0, 0.02], None
    >>> [trace.name for trace in compare_figure(["ant", "cat"], run, run).data[:4]]
    ['ant', 'cat', 'KL of one step', 'KL to reference']
    """
    fig = subplots(2, 2, x=0.06, y=0.1, shared_yaxes="rows", shared_xaxes="all", row_heights=[0.6, 0.4])
    ends, kls = [], []
    for col, run in enumerate((run_a, run_b), start=1):
        probs, _, kl_step, kl_ref, rests = _checked_run(vocab, *run)
        _words_panel(fig, vocab, probs, rests, vocab, col=col)
        _kl_panel(fig, kl_step, kl_ref, col=col)
        fig.update_xaxes(title_text=f"iteration ({'AB'[col - 1]})", row=2, col=col)
        ends.append(probs[-1])
        kls += [*kl_step, *kl_ref]
    fig.update_traces(mode="lines")
    fig.for_each_trace(lambda trace: trace.update(legendgroup=trace.name.removesuffix(" at rest")))
    fig.update_yaxes(range=[-0.02, 1.02], row=1)
    fig.update_yaxes(title_text="probability of each word", row=1, col=1)
    kls = np.log10([kl for kl in kls if kl > 0] or [1])  # matched log axes do not find their range by themselves
    kl_range = [max(kls.min(), kls.max() - 8) - 0.1, kls.max() + 0.1]
    fig.update_yaxes(type="log", range=kl_range, exponentformat="power", nticks=5, row=2)
    fig.update_yaxes(title_text="KL (nats, log)", row=2, col=1)
    best = int(np.argmax(ends[0]))
    alt = f"Two runs side by side: the probability of {vocab[best]} ends at {ends[0][best]:.2f} in A"
    fig.update_layout(title_font_size=13)
    return finish(fig, height=390, alt=f"{alt} and at {ends[1][best]:.2f} in B.", title=title)


def _resting_name(word, k, rests):
    rest = " or ".join(f"{p[k]:.3f}" for p in rests)
    return f"{word} (rests at {rest})" if rest else str(word)


def _words_panel(fig, vocab, probs, rests, names, col=1):
    """One curve a word, then one dotted line a word and resting point; the legend is that of column 1."""
    steps = list(range(len(probs)))
    place = dict(row=1, col=col)
    for k, name in enumerate(names):
        fig.add_scatter(x=steps, y=rounded(probs[:, k]), name=name, line=line_style(k), showlegend=col == 1, **place)
    for point in rests:
        for k, word in enumerate(vocab):
            dotted = dict(color=colour(k), dash="dot", width=1.5)
            tip = f"{word} at rest"
            fig.add_scatter(
                x=[0, steps[-1]], y=rounded(point[[k, k]]), name=tip, line=dotted, showlegend=False, **place
            )


def _kl_panel(fig, kl_step, kl_ref, col=None):
    """Both KLs, in the lower right panel, or in a column of two runs."""
    blue, orange = dict(color=colour(5)), dict(color=colour(4), dash="6px 3px")
    steps, place = list(range(len(kl_ref))), dict(row=2, col=col or 2, showlegend=col != 2)
    fig.add_scatter(x=steps[1:], y=positive(kl_step), name="KL of one step", line=orange, **place)
    fig.add_scatter(x=steps, y=positive(kl_ref), name="KL to reference", line=blue, **place)


def _checked_run(vocab, prob_history, reward_history, kl_step_history, kl_ref_history, resting_points):
    """The histories of one run as arrays of matching lengths, and its resting points as a list of arrays."""
    k = len(vocab)
    probs = checked("prob_history", prob_history, (None, k))
    n = len(probs) - 1
    if n < 1:
        raise ValueError("prob_history must hold the start and at least one iteration, got 1 row; train first")
    rests = [checked("resting_points", p, (k,)) for p in (() if resting_points is None else resting_points)]
    return (
        probs,
        checked("reward_history", reward_history, (n,)),
        checked("kl_step_history", kl_step_history, (n,)),
        checked("kl_ref_history", kl_ref_history, (n + 1,)),
        rests,
    )


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
    spread = sorted({f"r {r:.3g}<br>A {a:+.2f}" for r, a in zip(rewards[chosen], advantages[chosen], strict=True)})
    return "<br>".join(spread[:2])
