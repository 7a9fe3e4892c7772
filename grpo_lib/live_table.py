"""What stands under and over the curves of a live panel, as HTML text: samples, changes, where the run is."""

from html import escape

from grpo_lib.live_chart import NAMES, STEERED, newest_changes

__all__ = ["changes_html", "newest_samples", "samples_html", "status_html"]

LONGEST = 400  # characters of a prompt or a completion that are shown

CELL = "padding:2px 10px;vertical-align:top;border-bottom:1px solid rgba(128,128,128,.25)"


def newest_samples(rollout, most=8):
    """The first group of a rollout, at most `most` of its completions, as plain rows.

    Returns:
        a list of dicts: prompt, answer, completion, reward, advantage, truncated; empty where rollout is None.
    """
    if rollout is None:
        return []
    first = rollout.rows(slice(0, min(most, rollout.num_generations)))
    return [
        dict(prompt=_text(prompt), answer=answer, completion=text, reward=reward, advantage=advantage, truncated=cut)
        for prompt, answer, text, reward, advantage, cut in zip(
            first.prompts,
            first.answers,
            first.texts,
            first.rewards.tolist(),
            first.advantages.tolist(),
            first.truncated.tolist(),
            strict=True,
        )
    ]


def samples_html(samples, step=0):
    """A table of samples and their rewards; whatever a model writes is shown as text, never taken as HTML.

    Args:
        samples: dicts with prompt, completion and reward, and where known answer, advantage and truncated.
    Returns:
        the text of a `<table>`, or "" without samples.

    >>> row = dict(prompt="1+1=?", completion="<b>2</b>", reward=1.0, answer="2")
    >>> "&lt;b&gt;2&lt;/b&gt;" in samples_html([row]), samples_html([])
    (True, '')
    """
    if not samples:
        return ""
    prompts = dict.fromkeys(_question(row) for row in samples)
    one = len(prompts) == 1
    heads = [*([] if one else ["prompt"]), "completion", "reward", "advantage"]
    rows = "".join(_row(row, one) for row in samples)
    title = f"Newest samples, step {step}" + (f": {escape(next(iter(prompts)))}" if one else "")
    columns = "".join(f'<th scope="col" style="{CELL};text-align:{_side(name)}">{name}</th>' for name in heads)
    return (
        f'<table class="live-samples" data-step="{step}" '
        'style="border-collapse:collapse;min-width:340px;font-size:12px;line-height:1.4">'
        f'<caption style="text-align:left;padding:4px 10px;font-weight:600">{title}</caption>'
        f"<tr>{columns}</tr>{rows}</table>"
    )


def status_html(history, pending, state, max_steps):
    """Which step the run is at, with which settings that was taken, and what the next step will change.

    Args:
        history: the records. pending: name → value that the next step turns to. state: in a word, or None while paused.
        max_steps: where a started run stops.

    >>> status_html([], {"beta": 0.5}, None, 200)
    '<div class="live-status" style="line-height:1.5"><b>Step 0</b> of 200, ready · next step: beta 0.5</div>'
    """
    if state is None:
        state = "ready" if not history else "paused"
        if len(history) >= max_steps:
            state = "at max_steps; raise <code>panel.max_steps</code> to train on"
    parts = [f"<b>Step {len(history)}</b> of {max_steps}, {state}"]
    if history:
        newest = history[-1]
        parts.append("taken with " + _listed({name: getattr(newest, name) for name in STEERED}))
    if pending:
        parts.append(f"next step: {_listed(pending)}")
    return f'<div class="live-status" style="line-height:1.5">{" · ".join(parts)}</div>'


def _listed(settings):
    return ", ".join(f"{NAMES.get(name, name)} {value:.3g}" for name, value in settings.items())


def changes_html(changes):
    """The newest changes of settings, numbered as on the curves."""
    named = newest_changes(changes)
    lines = [f"<b>{number}</b> {escape(str(change))}" for number, change in named]
    if len(changes) > len(named):
        lines.insert(0, f"… {len(changes) - len(named)} earlier")
    lines = " &nbsp;·&nbsp; ".join(lines)
    return f'<div class="live-changes" style="font-size:12px;line-height:1.5">{lines}</div>' if lines else ""


def _row(row, one):
    cut = ' <span style="opacity:.7">(cut)</span>' if row.get("truncated") else ""
    code = "font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere"
    cells = {} if one else {"prompt": escape(_question(row))}
    cells["completion"] = f'<span style="{code}">{escape(_cut(row["completion"]))}</span>{cut}'
    cells["reward"] = f"{row['reward']:.3g}"
    cells["advantage"] = f"{row['advantage']:+.2f}" if row.get("advantage") is not None else ""
    inner = "".join(f'<td style="{CELL};text-align:{_side(name)}">{cell}</td>' for name, cell in cells.items())
    return f"<tr>{inner}</tr>"


def _side(name):
    return "right" if name in ("reward", "advantage") else "left"


def _question(row):
    answer = f"  (answer {_cut(str(row['answer']))})" if "answer" in row else ""
    return _cut(str(row["prompt"])) + answer


def _cut(text):
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _text(prompt):
    return prompt if isinstance(prompt, str) else prompt[-1]["content"]
