"""KL estimators in pictures: their shapes, their values and gradients against the truth, their spikes."""

import numpy as np

from grpo_lib.kl_estimators import KL_ESTIMATORS, kl_from_log_ratio
from grpo_lib.plot_style import TEXT, checked, colour, finish, line_style, rounded, subplots

__all__ = ["kl_curves_figure", "kl_gradient_figure", "kl_trace_figure", "kl_value_figure"]


def kl_curves_figure(near=0.1, far=2.0, *, title=None):
    """Draw k1, k2, k3 and k3 with d turned against the log-ratio d: close to 0, and further out.

    Args:
        near, far: half the width of the left and of the right panel, nats; 0 < near < far.
    Returns:
        `go.Figure`; traces: the four curves in the left panel, then in the right.
    Raises:
        ValueError: unless 0 < near < far.

    >>> [trace.name for trace in kl_curves_figure().data[:4]]
    ['k1', 'k2', 'k3', 'k3 with d turned']
    """
    if not 0 < near < far < np.inf:
        raise ValueError(f"the panels need 0 < near < far, got near = {near!r} and far = {far!r}")
    fig = subplots(1, 2, x=0.12)
    for col, width in enumerate((near, far), start=1):
        d = np.linspace(-width, width, 61)
        curves = {kind: kl_from_log_ratio(d, kind) for kind in KL_ESTIMATORS}
        curves["k3 with d turned"] = kl_from_log_ratio(-d)
        for i, (name, values) in enumerate(curves.items()):
            line = line_style(i) if i else dict(color=TEXT, width=1.5)  # k1: grey, it leaves the others' scale
            fig.add_scatter(
                x=rounded(d), y=rounded(values), name=name, mode="lines", line=line, showlegend=col == 1, row=1, col=col
            )
        top = kl_from_log_ratio(width)
        fig.update_yaxes(range=rounded([-0.35 * top, 1.05 * top]), zeroline=True, zerolinecolor=TEXT, row=1, col=col)
    fig.update_xaxes(title_text="d = log π_ref − log π (nats)")
    fig.update_yaxes(title_text="one sample's estimate (nats)", col=1)
    fig.update_yaxes(title_text="the same, further out", col=2)
    alt = (
        f"Within {near:g} nats of 0, k2, k3 and k3 with d turned lie on one another; at d = {far:g} they are "
        f"{far**2 / 2:.2f}, {kl_from_log_ratio(far):.2f} and {kl_from_log_ratio(-far):.2f}."
    )
    return finish(fig, height=280, alt=alt, title=title)


def kl_value_figure(vocab, probs, values, truth, *, title=None):
    """Draw every value an estimator can take, as large as it is likely, with mean and spread, against the true KL.

    Args:
        vocab: K words.
        probs: (K,) probabilities of the policy that samples.
        values: dict estimator → (K,) its value where each word is sampled, nats.
        truth: the KL that they estimate, nats; drawn dotted.
    Returns:
        `go.Figure`; traces: one a word, then the means with one standard deviation to each side, then the truth.
    Raises:
        ValueError: on a shape that does not fit, or a number that is not finite.

    >>> fig = kl_value_figure(["ant", "cat"], [0.5, 0.5], {"k1": [-1.0, 1.5]}, 0.25)
    >>> fig.data[2].y, fig.data[2].error_y.array
    ((0.25,), (1.25,))
    """
    k, kinds = len(vocab), list(values)
    probs = checked("probs", probs, (k,))
    table = np.array([checked(f"values[{kind!r}]", row, (k,)) for kind, row in values.items()])  # (S, K)
    mean = table @ probs
    spread = np.sqrt(((table - mean[:, None]) ** 2) @ probs)
    fig, place = subplots(1, 1), np.arange(len(kinds))
    for i, word in enumerate(vocab):
        look = dict(color=colour(i), size=float(60 * np.sqrt(probs[i])), opacity=0.75, line=dict(width=0))
        fig.add_scatter(
            x=rounded(place - 0.35 + 0.45 * (i + 0.5) / k),
            y=rounded(table[:, i]),
            name=f"{word} (π {probs[i]:.3f})",
            mode="markers",
            marker=look,
        )
    bars = dict(type="data", array=rounded(spread), color=TEXT, thickness=2, width=8)
    marker = dict(symbol="diamond", size=10, color=TEXT)
    name = "mean ± one standard deviation"
    fig.add_scatter(x=rounded(place + 0.3), y=rounded(mean), error_y=bars, name=name, mode="markers", marker=marker)
    ends, dotted = [-0.5, len(kinds) - 0.5], dict(color=TEXT, dash="dot", width=2)
    fig.add_scatter(x=ends, y=rounded([truth, truth]), name=f"true KL {truth:.3f}", mode="lines", line=dotted)
    fig.update_xaxes(title_text="estimator", tickvals=place.tolist(), ticktext=kinds, range=ends, showgrid=False)
    fig.update_yaxes(title_text="estimate from one sample (nats)", zeroline=True, zerolinecolor=TEXT)
    fig.update_layout(legend_itemsizing="constant")
    found = ", ".join(f"{kind} {m:.3f} ± {s:.3f}" for kind, m, s in zip(kinds, mean, spread, strict=True))
    alt = f"Mean and standard deviation of one sample's estimate: {found}; the true KL is {truth:.3f} nats."
    return finish(fig, height=300, alt=alt, title=title)


def kl_gradient_figure(vocab, gradients, reverse, forward, *, title=None):
    """Draw each loss's mean gradient, one bar a word, and mark where the gradients of the two KLs lie.

    Args:
        vocab: K words.
        gradients: dict loss → (K,) mean gradient on the logits, nats per unit of logit; a panel each.
        reverse, forward: (K,) gradients of KL(π‖ref) and of KL(ref‖π).
    Returns:
        `go.Figure`; traces: bars, reverse (circles) and forward (crosses) of each panel in turn.
    Raises:
        ValueError: on a shape that does not fit, or a number that is not finite.

    >>> fig = kl_gradient_figure(["ant", "cat"], {"k1": [0.0, 0.0]}, [0.2, -0.2], [0.1, -0.1])
    >>> [trace.name for trace in fig.data]
    ['mean gradient of the loss', '∇ KL(π‖ref)', '∇ KL(ref‖π)']
    """
    k, words = len(vocab), list(vocab)
    truths = {"∇ KL(π‖ref)": checked("reverse", reverse, (k,)), "∇ KL(ref‖π)": checked("forward", forward, (k,))}
    rows = {kind: checked(f"gradients[{kind!r}]", row, (k,)) for kind, row in gradients.items()}
    if not rows:
        raise ValueError("gradients must hold at least one loss, got an empty dict")
    titles = [kind.replace("*", " · ") for kind in rows]
    fig = subplots(1, len(rows), x=0.015, shared_yaxes=True, subplot_titles=titles)
    for col, row in enumerate(rows.values(), start=1):
        place = dict(row=1, col=col, showlegend=col == 1)
        fill = dict(color=[colour(i) for i in range(k)], opacity=0.6)
        fig.add_bar(x=words, y=rounded(row), name="mean gradient of the loss", marker=fill, **place)
        for (name, truth), symbol, size in zip(truths.items(), ("circle-open", "x-thin"), (13, 9), strict=True):
            look = dict(symbol=symbol, size=size, color=TEXT, line=dict(color=TEXT, width=2.5))
            fig.add_scatter(x=words, y=rounded(truth), name=name, mode="markers", marker=look, **place)
    fig.update_annotations(font=dict(size=13, color=TEXT))
    fig.update_xaxes(tickangle=-90, showgrid=False)
    fig.update_xaxes(title_text="word")
    fig.update_yaxes(zeroline=True, zerolinecolor=TEXT)
    fig.update_yaxes(title_text="gradient on each logit (nats)", col=1)
    alt = "; ".join(f"{kind} {_follows(row, truths)}" for kind, row in rows.items())
    fig = finish(fig, height=270, alt=f"Which KL's gradient each loss has on average: {alt}.", title=title)
    return fig.update_layout(margin_t=fig.layout.margin.t + 15, height=fig.layout.height + 15)


def _follows(row, truths):
    if np.allclose(row, 0, atol=1e-9):
        return "has none"
    return next((name.removeprefix("∇ ") for name, g in truths.items() if np.allclose(row, g, atol=1e-9)), "neither")


def kl_trace_figure(values, truth, *, title=None):
    """Draw estimates sample by sample, and the mean of all samples so far against the true KL.

    Args:
        values: dict estimator → (N,) its value on the same N samples, in their order, nats.
        truth: the KL that they estimate, nats; drawn dotted.
    Returns:
        `go.Figure`; traces: for each estimator its samples (left) and its running mean (right), then the truth.
    Raises:
        ValueError: on unequal lengths, or a number that is not finite.

    >>> kl_trace_figure({"k1": [1.0, 0.0, -1.0]}, 0.2).data[1].y
    (1.0, 0.5, 0.0)
    """
    n = len(next(iter(values.values()), ()))
    fig, steps = subplots(1, 2, x=0.13), list(range(1, n + 1))
    symbols, tallest = ("circle-open", "square-open", "diamond"), ("", 0.0)
    for i, (kind, row) in enumerate(values.items()):
        row = checked(f"values[{kind!r}]", row, (n or None,))
        tallest = max(tallest, (kind, float(row.max())), key=lambda pair: pair[1])
        dots = dict(color=colour(i), size=5, symbol=symbols[i % 3])
        mean = np.cumsum(row) / steps
        fig.add_scatter(x=steps, y=rounded(row), mode="markers", marker=dots, name=kind, showlegend=False, row=1, col=1)
        fig.add_scatter(x=steps, y=rounded(mean), mode="lines", line=line_style(i), name=kind, row=1, col=2)
    dotted = dict(color=TEXT, dash="dot", width=2)
    ends = [1, n]
    fig.add_scatter(
        x=ends, y=rounded([truth] * 2), mode="lines", line=dotted, name=f"true KL {truth:.3f}", row=1, col=2
    )
    fig.update_xaxes(title_text="sample", col=1)
    fig.update_xaxes(title_text="samples so far", col=2)
    fig.update_yaxes(title_text="estimate from one sample (nats)", zeroline=True, zerolinecolor=TEXT, col=1)
    fig.update_yaxes(title_text="mean so far (nats)", col=2)
    alt = (
        f"Over {n} samples the tallest estimate is a {tallest[0]} of {tallest[1]:.3g} nats; the true KL is {truth:.3g}."
    )
    return finish(fig, height=270, alt=alt, title=title)
