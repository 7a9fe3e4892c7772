"""The bandit's figures: a whole run in three panels, and two runs side by side.

Each comes as a `go.Figure` and as plain data (`…_figure_dict`), which a slider's redraw sends to the page. Plotly takes
long to build and check a figure, so plain data is a figure of the same structure, built once, with other curves.
"""

from functools import lru_cache

import numpy as np

from grpo_lib.plot_style import TEXT, checked, colour, finish, line_style, positive, refilled, rounded, subplots

__all__ = ["bandit_figure", "bandit_figure_dict", "compare_figure", "compare_figure_dict"]

RUN_HEIGHT, COMPARE_HEIGHT = 330, 390  # pixels, of the panels
_BLANK = dict(name=" ", x=[], y=[])  # where a curve will be


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
    curves, alt = _run_curves(vocab, prob_history, reward_history, kl_step_history, kl_ref_history, resting_points)
    return _drawn_run(len(vocab), curves, alt, title)


def bandit_figure_dict(vocab, *histories, resting_points=None, title=None):
    """`bandit_figure` of the same arguments as plain data: `json.loads(bandit_figure(…).to_json())`, but sooner."""
    curves, alt = _run_curves(vocab, *histories, resting_points)
    skeleton = _run_skeleton(len(vocab), len(curves), bool(title))
    return refilled(skeleton, curves, height=RUN_HEIGHT, alt=alt, title=title)


@lru_cache(maxsize=32)
def _run_skeleton(words, count, titled):
    """As text, which nobody can alter."""
    return _drawn_run(words, [_BLANK] * count, " ", " " if titled else None).to_json()


def _run_curves(vocab, prob_history, reward_history, kl_step_history, kl_ref_history, resting_points):
    """Name, x and y of each trace of `bandit_figure`, in their order, and its alt text."""
    probs, rewards, kl_step, kl_ref, rests = _checked_run(
        vocab, prob_history, reward_history, kl_step_history, kl_ref_history, resting_points
    )
    names = [_resting_name(word, k, rests) for k, word in enumerate(vocab)]
    reward = dict(name="mean reward", x=list(range(len(rewards))), y=rounded(rewards))
    curves = [*_word_curves(vocab, names, probs, rests), reward, *_kl_curves(kl_step, kl_ref)]
    paths = ", ".join(f"{word} from {p[0]:.2f} to {p[-1]:.2f}" for word, p in zip(vocab, probs.T, strict=True))
    alt = (
        f"Probabilities over {len(rewards)} iterations: {paths}; the KL to the reference ends at {kl_ref[-1]:.2g} nats."
    )
    return curves, alt


def _drawn_run(words, curves, alt, title):
    """The figure of a run, whatever its curves are."""
    *word_curves, reward, kl_step, kl_ref = curves
    fig = subplots(2, 2, x=0.13, specs=[[dict(rowspan=2), {}], [None, {}]], column_widths=[0.56, 0.44])
    _words_panel(fig, words, word_curves)
    fig.add_scatter(**reward, line=dict(color=TEXT, width=1.5), showlegend=False, row=1, col=2)
    _kl_panel(fig, kl_step, kl_ref)
    fig.update_traces(mode="lines")
    fig.update_xaxes(title_text="iteration")
    fig.update_xaxes(nticks=4, col=2)  # the same grid lines in both, though only the lower one is labelled
    fig.update_xaxes(title_text=None, showticklabels=False, row=1, col=2)
    fig.update_yaxes(title_text="probability of each word", range=[-0.02, 1.02], row=1, col=1)
    fig.update_yaxes(title_text="mean reward", row=1, col=2)
    fig.update_yaxes(title_text="KL (nats, log)", type="log", exponentformat="power", nticks=5, row=2, col=2)
    return finish(fig, height=RUN_HEIGHT, alt=alt, title=title)


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
    curves, sizes, kl_range, alt = _compared_curves(vocab, run_a, run_b)
    return _drawn_comparison(len(vocab), sizes, curves, kl_range, alt, title)


def compare_figure_dict(vocab, run_a, run_b, *, title=None):
    """`compare_figure` of the same arguments as plain data, but sooner."""
    curves, sizes, kl_range, alt = _compared_curves(vocab, run_a, run_b)
    curves = [{**curve, "legendgroup": _legend_group(curve["name"])} for curve in curves]
    skeleton = _comparison_skeleton(len(vocab), sizes, bool(title))
    figure = refilled(skeleton, curves, height=COMPARE_HEIGHT, alt=alt, title=title)
    for axis in ("yaxis3", "yaxis4"):
        figure["layout"][axis]["range"] = list(kl_range)
    return figure


@lru_cache(maxsize=32)
def _comparison_skeleton(words, sizes, titled):
    return _drawn_comparison(words, sizes, [_BLANK] * sum(sizes), [0, 1], " ", " " if titled else None).to_json()


def _compared_curves(vocab, run_a, run_b):
    """Name, x and y of each trace of `compare_figure`, how many are A's and B's, the KL axis' range, the alt text."""
    curves, sizes, ends, kls = [], [], [], []
    for run in (run_a, run_b):
        probs, _, kl_step, kl_ref, rests = _checked_run(vocab, *run)
        own = [*_word_curves(vocab, vocab, probs, rests), *_kl_curves(kl_step, kl_ref)]
        curves += own
        sizes.append(len(own))
        ends.append(probs[-1])
        kls += [*kl_step, *kl_ref]
    kls = np.log10([kl for kl in kls if kl > 0] or [1])  # matched log axes do not find their range by themselves
    kl_range = [float(max(kls.min(), kls.max() - 8) - 0.1), float(kls.max() + 0.1)]
    best = int(np.argmax(ends[0]))
    alt = f"Two runs side by side: the probability of {vocab[best]} ends at {ends[0][best]:.2f} in A"
    return curves, tuple(sizes), kl_range, f"{alt} and at {ends[1][best]:.2f} in B."


def _drawn_comparison(words, sizes, curves, kl_range, alt, title):
    """The figure of two runs, whatever their curves are."""
    fig = subplots(2, 2, x=0.06, y=0.1, shared_yaxes="rows", shared_xaxes="all", row_heights=[0.6, 0.4])
    for col, own in enumerate((curves[: sizes[0]], curves[sizes[0] :]), start=1):
        *word_curves, kl_step, kl_ref = own
        _words_panel(fig, words, word_curves, col=col)
        _kl_panel(fig, kl_step, kl_ref, col=col)
        fig.update_xaxes(title_text=f"iteration ({'AB'[col - 1]})", row=2, col=col)
    fig.update_traces(mode="lines")
    fig.for_each_trace(lambda trace: trace.update(legendgroup=_legend_group(trace.name)))
    fig.update_yaxes(range=[-0.02, 1.02], row=1)
    fig.update_yaxes(title_text="probability of each word", row=1, col=1)
    fig.update_yaxes(type="log", range=kl_range, exponentformat="power", nticks=5, row=2)
    fig.update_yaxes(title_text="KL (nats, log)", row=2, col=1)
    fig.update_layout(title_font_size=13)
    return finish(fig, height=COMPARE_HEIGHT, alt=alt, title=title)


def _legend_group(name):
    return name.removesuffix(" at rest")


def _resting_name(word, k, rests):
    rest = " or ".join(f"{p[k]:.3f}" for p in rests)
    return f"{word} (rests at {rest})" if rest else str(word)


def _word_curves(vocab, names, probs, rests):
    """One curve a word, then one line a word and resting point."""
    steps = list(range(len(probs)))
    curves = [dict(name=str(name), x=steps, y=rounded(probs[:, k])) for k, name in enumerate(names)]
    ends = [steps[0], steps[-1]]
    return curves + [
        dict(name=f"{word} at rest", x=ends, y=rounded(point[[k, k]]))
        for point in rests
        for k, word in enumerate(vocab)
    ]


def _kl_curves(kl_step, kl_ref):
    steps = list(range(len(kl_ref)))
    return [
        dict(name="KL of one step", x=steps[1:], y=positive(kl_step)),
        dict(name="KL to reference", x=steps, y=positive(kl_ref)),
    ]


def _words_panel(fig, words, curves, col=1):
    """One curve a word, then one dotted line a word and resting point; the legend is that of column 1."""
    for i, curve in enumerate(curves):
        k, at_rest = i % words, i >= words
        line = dict(color=colour(k), dash="dot", width=1.5) if at_rest else line_style(k)
        fig.add_scatter(**curve, line=line, showlegend=col == 1 and not at_rest, row=1, col=col)


def _kl_panel(fig, kl_step, kl_ref, col=None):
    """Both KLs, in the lower right panel, or in a column of two runs."""
    blue, orange = dict(color=colour(5)), dict(color=colour(4), dash="6px 3px")
    place = dict(row=2, col=col or 2, showlegend=col != 2)
    fig.add_scatter(**kl_step, line=orange, **place)
    fig.add_scatter(**kl_ref, line=blue, **place)


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
