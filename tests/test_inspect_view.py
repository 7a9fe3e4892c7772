"""The inspector's picture and tables show the inspection's own numbers, with and without a front end."""

import re

import numpy as np
import pytest
import torch

from grpo_lib.inspect_view import explore_rollout
from grpo_lib.inspection import inspect_rollout
from grpo_lib.inspection_plots import COLUMNS, push_figure
from grpo_lib.inspection_tables import group_table, push_colour, token_rows
from grpo_lib.plot_style import alt_text
from grpo_lib.recordings import Recording, load_recorded_rollout
from grpo_lib.rollout_inspector import RolloutInspector


@pytest.fixture(scope="module")
def shipped():
    return load_recorded_rollout()


def heat_maps(figure):
    return [trace for trace in figure.data if trace.type == "heatmap"]


def values(heat):
    return np.array([[np.nan if v is None else v for v in row] for row in heat.z])


def hidden(numbers, keep):
    return np.where(keep, numbers, np.nan)


@pytest.mark.parametrize("group", [0, 3])
def test_the_figure_holds_each_tokens_push_and_its_change(shipped, group):
    now, before = inspect_rollout(shipped, loss_type="cispo"), inspect_rollout(shipped)
    figure = push_figure(now, group, picked=(2, 1), before=before)
    rows = shipped.group(group)
    keep = shipped.mask[rows].bool().numpy()
    top, bottom = heat_maps(figure)
    np.testing.assert_allclose(values(top), hidden(now.push[rows].numpy(), keep), rtol=1e-4)
    change = (now.push - before.push)[rows].numpy()
    np.testing.assert_allclose(values(bottom), hidden(change, keep), rtol=1e-4, atol=1e-12)
    largest = max(now.push.abs().max(), before.push.abs().max()).item()  # of all groups
    assert {(trace.zmin, trace.zmax) for trace in (top, bottom)} == {(-largest, largest)}
    assert top.colorscale[0][1] == "rgb(213,94,0)" and top.colorscale[-1][1] == "rgb(31,127,193)"
    frames = [t for t in figure.data if t.type == "bar" and t.marker.line.color == "#222222" and t.x[0] is not None]
    framed = {(y, x) for x, base in zip(frames[0].x, frames[0].base, strict=True) for y in [round(base + 0.43)]}
    assert framed == {tuple(place) for place in now.clipped[rows].nonzero().tolist()}
    [first, _] = [t for t in figure.data if t.name == "picked"]
    assert (first.x[0], first.y[0]) == (1, 1.5)
    masked = next(t for t in figure.data if t.name == "masked")
    assert len(masked.x) == (~keep).sum()
    labels = figure.layout.yaxis.ticktext
    assert (
        labels[0].startswith("0 · r ")
        and [label.endswith(", cut") for label in labels] == shipped.truncated[rows].tolist()
    )


def test_the_alt_text_counts(shipped):
    seen = inspect_rollout(shipped)
    rows = shipped.group(0)
    keep = shipped.mask[rows].bool()
    push = seen.push[rows][keep]
    text = alt_text(push_figure(seen, 0))
    numbers = [float(n) for n in re.findall(r"\d+\.?\d*", text)]
    expected = [6, keep.sum(), (push > 0).sum(), (push < 0).sum(), push.abs().max()]
    expected += [seen.clipped[rows].sum(), (~keep).sum()]
    np.testing.assert_allclose(numbers, [float(x) for x in expected], rtol=5e-3)
    assert "change against another setting" in alt_text(push_figure(seen, 0, before=seen))


def test_a_long_completion_is_shown_page_by_page():
    width = 3 * COLUMNS - 5
    tokens = [[f"{b}.{t}" for t in range(width)] for b in range(2)]
    log_probs = -torch.rand(2, width)
    recording = Recording(tokens, [1, 0], [1, -1], torch.ones(2, width), log_probs)
    seen = inspect_rollout(recording, beta=0.0)
    figure = push_figure(seen, 0, picked=(1, COLUMNS + 3))
    [heat] = heat_maps(figure)
    assert np.shape(heat.z) == (2, COLUMNS) and heat.hovertext[0][0].startswith(f"0.{COLUMNS}:")
    assert figure.layout.xaxis.ticktext[:2] == (str(COLUMNS), str(COLUMNS + 2))
    [mark] = [t for t in figure.data if t.name == "picked"]
    assert mark.x == (3,)
    assert len(heat_maps(push_figure(seen, 0, picked=(0, width - 1)))[0].z[0]) == COLUMNS - 5


def test_colours_are_signed_and_grow_with_the_root():
    def distance(share):
        return [abs(int(v) - 247) for v in re.findall(r"\d+", push_colour(share))]

    for sign in (1, -1):
        quarter, whole = np.array(distance(sign * 0.25)), np.array(distance(sign))
        np.testing.assert_allclose(quarter, whole / 2, atol=1)
    assert push_colour(0.0) == "rgb(247,247,247)"
    assert push_colour(1.0) != push_colour(-1.0)


def test_where_nothing_is_pushed_everything_is_white():
    recording = Recording([["a"], ["b"]], [1, 1], [0, 0], [[1], [1]], [[-1.0], [-2.0]])
    seen = inspect_rollout(recording, beta=0.0)
    [heat] = heat_maps(push_figure(seen, 0))
    assert heat.z == ((0.0,), (0.0,)) or [list(r) for r in heat.z] == [[0.0], [0.0]]
    assert (heat.zmin, heat.zmax) == (-1, 1)
    assert push_colour(0.0) in token_rows(seen)


def test_the_table_has_a_row_a_completion_with_its_part_of_the_loss(shipped):
    seen = inspect_rollout(shipped)
    html = group_table(seen, 3, picked=1)
    parts = [float(x) for x in re.findall(r">([+-]\d\.\d{5})<", html)]
    np.testing.assert_allclose(parts, seen.contribution[shipped.group(3)].sum(dim=1), atol=6e-6)
    assert html.count("<tr") == 7 and html.count("▶ 1") == 1 and html.count('scope="row"') == 6
    assert html.count(">cut</td>") == int(shipped.truncated[shipped.group(3)].sum()) > 0
    assert "&lt;think&gt;" in html and "<think>" not in html
    assert re.search(f"<code[^>]*>{re.escape(shipped.prompts[18])}</code>", html)


def test_texts_are_escaped_everywhere():
    bad = "<img src=x onerror=alert(1)>"
    recording = Recording(
        [[bad], [bad]], [1, 0], [1, -1], [[1], [1]], [[-1.0], [-1.0]], prompts=[bad] * 2, answers=[bad] * 2
    )
    view = explore_rollout(recording, beta=0.0)
    assert "<img" not in view.html and "&lt;img" in view.html
    assert "<img" not in str(view.figure.to_json())


def test_the_view_is_made_of_the_plain_parts(shipped):
    view = explore_rollout(shipped, group=3, completion=3, loss_type="luspo", beta=0.2, epsilon=0.1)
    now = inspect_rollout(shipped, loss_type="luspo", beta=0.2, epsilon=0.1)
    before = inspect_rollout(shipped, beta=0.2)
    assert view.token == int(now.push[21].abs().argmax())
    assert view.figure == push_figure(
        now,
        3,
        picked=(3, view.token),
        before=before,
        title="What the next update does to each token: luspo, token level, beta 0.2, clip 0.1",
        change_title="What changed against grpo, token level, beta 0.2, clip 0.2",
    )
    assert view.changes.startswith("Against grpo, token level, beta 0.2, clip 0.2. Of ")
    assert view.story.numbers["contribution"] == now.contribution[21, view.token].item()
    for line in view.story.lines:
        assert line.split("=")[0] in view.html
    other = explore_rollout(shipped, group=3, completion=3, loss_type="luspo", compare_with=dict(loss_type="dapo"))
    assert other.before.options["loss_type"] == "dapo" and other.before.options["beta"] == 0.1


def test_plain_grpo_has_nothing_to_compare_with():
    view = explore_rollout()
    assert view.changes == "" and len(heat_maps(view.figure)) == 1
    assert len(heat_maps(explore_rollout(loss_type="dapo").figure)) == 2


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(group=4), "group must be below 4, got 4"),
        (dict(completion=6), "completion must be below 6, got 6"),
        (dict(token=20), "token must be below 20, got 20"),
        (dict(token=-1), "token must be an integer >= 0, got -1"),
        (dict(beta=-1), "beta must be a finite number >= 0"),
        (dict(loss_type="cispo", delta=2.0), "delta bounds the ratio of a clipped surrogate"),
        (dict(compare_with=dict(loss_type="x")), "loss_type must be one of"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        explore_rollout(**options)


def test_without_a_front_end_a_notebook_stores_a_table_and_a_figure():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    sources = [
        "import plotly.io\nplotly.io.renderers.default = 'plotly_mimetype'",
        "from grpo_lib.inspect_view import explore_rollout\nexplore_rollout(loss_type='dapo')",
        "from grpo_lib import RolloutInspector\ninspector = RolloutInspector()\ninspector",
        "inspector.loss_type.value = 'luspo'\nprint(inspector.view.changes)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    table, figure = [output["data"] for output in book.cells[1].outputs]
    assert "<table" in table["text/html"] and "part of the loss" in table["text/html"]
    assert len(figure["application/vnd.plotly.v1+json"]["data"]) == len(explore_rollout(loss_type="dapo").figure.data)
    [inspector] = [output["data"] for output in book.cells[2].outputs]
    assert "application/vnd.jupyter.widget-view+json" in inspector
    static = inspector["text/html"]
    assert "<table" in static and "background:rgb(" in static and "ratio     = exp" in static
    assert book.cells[3].outputs[0]["text"].strip() == explore_rollout(loss_type="luspo").changes


def made(tokens, **more):
    """Two completions of these tokens, the second's of log-prob -2 in place of -1."""
    n = len(tokens)
    return Recording([tokens] * 2, [1, 0], [1, -1], [[1] * n] * 2, [[-1.0] * n, [-2.0] * n], **more)


def test_tokens_without_a_letter_can_be_drawn():
    view = explore_rollout(made(["", ""]), beta=0.0)
    assert heat_maps(view.figure)[0].textfont.size == 13 and view.rows_html.count("<span") == 4


def test_no_token_hides_or_moves_its_neighbours():
    bad = ["\u202eab", "\u05e9\u05dc", "\u200b", "\x0b\x00", "\ud800"]
    recording = made(bad, prompts=["p\u202e"] * 2, answers=["\u200b"] * 2)
    view = explore_rollout(recording, beta=0.0, token=1)
    rows = view.rows_html
    assert rows.count("<span") == rows.count("unicode-bidi:isolate") == 10
    shown = [rows, view.table, *map(str, heat_maps(view.figure)[0].hovertext[0]), *heat_maps(view.figure)[0].text[0]]
    shown += [label for label, _ in RolloutInspector(recording, beta=0.0).group.options]
    for text in shown:
        assert not set(text) & {"\u202e", "\u200b", "\x0b", "\x00", "\ud800"}
    assert "\\u202eab" in rows and "\\x0b\\x00" in rows and "answer <code" in view.table
    assert view.table.count("unicode-bidi:isolate") == 2 and "unicode-bidi:isolate" in view.story_html
    view.figure.to_json().encode()


def test_of_a_large_group_a_part_stands_as_text_and_the_rest_is_counted():
    n = 4000
    mask = [[1] * n] * 7 + [[1] * 10 + [0] * (n - 10)]
    recording = Recording([[f"{t}." for t in range(n)]] * 8, [1] * 8, [1] * 8, mask, [[-1.0] * n] * 8)
    seen = inspect_rollout(recording, beta=0.0)
    html = token_rows(seen)
    assert html.count("<span") == 7 * 250 + 10 and len(html) < 400_000
    assert html.count("<small>3750 more after these</small>") == 7 and html.count("<small>3990 masked</small>") == 1
    html = token_rows(seen, token=600)
    assert ">500.<" in html and ">749.<" in html and ">750.<" not in html and ">499.<" not in html
    assert html.count("500 before these") == 7 and html.count("3250 more after these") == 7
    view = explore_rollout(recording, beta=0.0, token=3999)
    assert ">3999.<" in view.rows_html and len(view.html) < 400_000


def test_places_that_are_not_there_are_refused_by_every_part(shipped):
    seen = inspect_rollout(shipped)
    for function in (push_figure, group_table, token_rows):
        for group in (99, -1):
            with pytest.raises(ValueError, match="group must be"):
                function(seen, group)
    with pytest.raises(ValueError, match="token must be below 20, got 20"):
        token_rows(seen, token=20)
    for picked, message in (((6, 0), r"picked\[0\] must be below 6"), ((0, 20), r"picked\[1\] must be below 20")):
        with pytest.raises(ValueError, match=message):
            push_figure(seen, picked=picked)


def test_what_is_left_out_by_one_of_two_settings_shows_in_the_change(shipped):
    """Cut completions are grey in the first panel, and what they lose stands in the second."""
    rows = shipped.group(3)
    view = explore_rollout(shipped, group=3, mask_truncated_completions=True)
    cut = shipped.truncated[rows].numpy()
    top, bottom = map(values, heat_maps(view.figure))
    assert np.isnan(top[cut]).all() and not np.isnan(top[~cut]).all()
    before = inspect_rollout(shipped)
    keep = shipped.mask[rows].bool().numpy()
    np.testing.assert_allclose(bottom[cut & True], hidden(-before.push[rows].numpy(), keep)[cut], rtol=1e-4)
    change = (view.inspection.push - before.push)[rows][torch.tensor(keep)]
    assert f"{int((change != 0).sum())} tokens are pushed otherwise" in alt_text(view.figure)
    assert "Against grpo, token level, beta 0.1, clip 0.2. " in view.changes
    assert view.figure.layout.title.text.endswith("cut completions left out")
    assert f"of {keep.sum()} tokens" in view.changes.lower()


def test_a_loss_that_is_not_finite_is_left_out_of_the_comparison():
    recording = made(["a"], old_log_probs=[[-1.0], [-760.0]])
    view = explore_rollout(recording, beta=0.0, loss_type="cispo", completion=1)
    assert view.changes.startswith("There is nothing to compare with: under grpo, token level, beta 0, clip 0.2 the")
    text = view.figure.to_json()
    assert len(heat_maps(view.figure)) == 1 and "ratio inf" in text and "nan" not in (text + view.html).lower()
    with pytest.raises(FloatingPointError, match="completion 1, token 0"):
        explore_rollout(recording, beta=0.0)


def test_a_masked_cell_is_blank_and_a_capped_one_is_not_called_clipped():
    plain, cispo = (explore_rollout(loss_type=name, compare_with=dict(loss_type="bnpo")) for name in ("grpo", "cispo"))
    hidden = [trace for trace in plain.figure.data if trace.name == "masked"]
    assert hidden and not any("".join(trace.text) for trace in hidden)
    for view, word, other in ((plain, "clipped", "capped"), (cispo, "capped", "clipped")):
        names = {trace.name for trace in view.figure.data}
        assert word in names and other not in names
        assert f" are {word}, " in view.figure.layout.meta["alt"]
        assert f">{word}</th>" in view.html


def test_the_alt_text_counts_no_rounding():
    view = explore_rollout(loss_type="cispo", compare_with=dict(loss_type="bnpo"))
    counted = int(view.figure.layout.meta["alt"].split(" another setting: ")[1].split()[0])
    clipped = inspect_rollout(load_recorded_rollout(), loss_type="bnpo").clipped[:6]
    capped = view.inspection.clipped[:6]
    assert counted == (clipped | capped).sum()


def test_the_last_line_of_a_story_is_the_push_that_colours_the_token():
    view = explore_rollout(completion=1, token=3)
    assert view.story.lines[-1].startswith("push      = -d loss / d log π = policy ")
    assert float(view.story.lines[-1].rsplit(" = ", 1)[1]) == pytest.approx(view.inspection.push[1, 3].item(), rel=1e-4)
