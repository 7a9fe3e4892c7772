"""Masks in pictures: every box is what the mask says, and no mask of another kind passes for one."""

import unicodedata

import pytest
import torch

from grpo_lib import plots
from grpo_lib.masks import create_completion_mask, truncated_completions

IDS = torch.tensor([[5, 6, 2, 0], [5, 6, 7, 8], [2, 9, 9, 9], [5, 6, 7, 2]])
TOKENS = [[f"t{i}" for i in row] for row in IDS.tolist()]
MASK, CUT = create_completion_mask(IDS, 2), truncated_completions(IDS, 2)


def boxes(fig, xaxis="x"):
    """{(row, column): (name, hover text)} of the boxes drawn in one panel."""
    found = {}
    for trace in fig.data:
        if (trace.xaxis or "x") == xaxis:
            for x, base, text in zip(trace.x, trace.base, trace.hovertext, strict=True):
                assert (round(base + 0.47), x) not in found
                found[round(base + 0.47), x] = (trace.name, text)
    return found


def test_each_position_has_the_role_a_loop_finds():
    prompt_mask = torch.tensor([[0, 1], [1, 1], [0, 0], [1, 1]])
    fig = plots.role_figure([["p", "q", *row] for row in TOKENS], MASK, CUT, prompt_mask=prompt_mask)
    found = boxes(fig)
    assert len(found) == 4 * 6
    for b, row in enumerate(IDS.tolist()):
        assert found[b, 0] == ("prompt" if prompt_mask[b, 0] else "prompt padding", "p")
        end = row.index(2) if 2 in row else 99
        for t in range(4):
            role = "completion" if t < end else "end token" if t == end else "after the end"
            assert found[b, 2 + t] == (role, f"t{row[t]}")
    assert [shape.x0 for shape in fig.layout.shapes] == [1.5]
    assert fig.layout.meta["alt"] == (
        "4 row(s) of 6 tokens: 3 prompt padding, 5 prompt, 9 completion, 3 end token, 4 after the end."
    )


def test_without_a_prompt_there_is_no_line_and_rows_have_their_names():
    fig = plots.role_figure(TOKENS, MASK.tolist(), CUT.tolist(), row_labels="abcd", title="roles")
    assert not fig.layout.shapes and fig.layout.yaxis.ticktext == ("a", "b", "c", "d")
    assert fig.layout.title.text == "roles" and fig.layout.barmode == "overlay"


def test_masks_are_compared_cell_by_cell_with_the_first():
    masks = {"right": MASK, "ids != 2": (IDS != 2).long(), "ids < 9": IDS < 9}
    fig = plots.mask_figure(TOKENS, masks)
    assert [note.text for note in fig.layout.annotations] == ["right", "ids != 2", "ids &lt; 9"]
    right = MASK.bool()
    for axis, mask in zip(("x", "x2", "x3"), masks.values(), strict=True):
        found = boxes(fig, axis)
        wrongly = {place for place, (name, _) in found.items() if name == "counts, wrongly"}
        lost = {place for place, (name, _) in found.items() if name == "left out, wrongly"}
        assert wrongly == set(map(tuple, (mask.bool() & ~right).nonzero().tolist()))
        assert lost == set(map(tuple, (~mask.bool() & right).nonzero().tolist()))
        assert {place for place, (name, _) in found.items() if name == "counts"} == set(
            map(tuple, (mask.bool() & right).nonzero().tolist())
        )
        assert len(found) == IDS.numel()
    names = [trace.name for trace in fig.data if trace.showlegend]
    assert sorted(names) == ["counts", "counts, wrongly", "does not count", "left out, wrongly"]
    assert "ids != 2: 13 count, 4 of them wrongly, 3 left out wrongly." in fig.layout.meta["alt"]


@pytest.mark.parametrize(("repeat", "panels"), [(1, [1, 2]), (3, [1, 1])])
def test_short_rows_stand_side_by_side_and_long_ones_one_above_the_other(repeat, panels):
    tokens, mask = [row * repeat for row in TOKENS], MASK.repeat(1, repeat)
    fig = plots.mask_figure(tokens, {"a": mask, "b": mask})
    tops = {axis.domain[1] for axis in (fig.layout.yaxis, fig.layout.yaxis2)}
    assert len(tops) == 1 if panels == [1, 2] else len(tops) == 2
    assert {trace.name for trace in fig.data} == {"counts", "does not count"}


def test_names_of_rows_are_text_never_tags():
    for fig in (
        plots.mask_figure([["a"]], {"m": [[1]]}, row_labels=["<b> 1"]),
        plots.role_figure([["a"]], [[1]], [False], row_labels=["<b> 1"]),
        plots.token_heatmap([["a"]], [[1.0]], row_labels=["<b> 1"]),
    ):
        assert fig.layout.yaxis.ticktext == ("&lt;b&gt; 1",)


def test_tokens_without_a_letter_can_be_drawn():
    figs = plots.mask_figure([["", ""]], {"m": [[1, 0]]}), plots.role_figure([["", ""]], [[1, 1]], [True])
    assert [fig.data[0].textfont.size for fig in figs] == [13, 13]


def test_no_character_of_a_token_is_invisible():
    """Each that Unicode calls a control, a format or a separator character gets a sign or a code of its own."""
    bad = [chr(i) for i in range(0x3000) if unicodedata.category(chr(i)) in ("Cc", "Cf", "Zl", "Zp", "Zs")]
    texts = plots.mask_figure([bad], {"m": [[1] * len(bad)]}).data[0].hovertext
    assert len(bad) > 100 and len(set(texts)) == len(bad)
    assert all(unicodedata.category(c)[0] not in "CZ" for text in texts for c in text)
    assert plots.token_heatmap([["\u202eabcdef"] * 60], [[1.0] * 60]).data[0].text[0][0] == "\\u…"


def test_tokens_can_be_read_in_their_boxes():
    fig = plots.mask_figure([["<|im_end|>", "\n"] * 10], {"a": [[1] * 20]})
    assert fig.data[0].text[:2] == ("&lt;|im_…", "⏎") and fig.data[0].hovertext[0] == "&lt;|im_end|&gt;"


@pytest.mark.parametrize(
    ("mask", "cut", "more", "message"),
    [
        ([[1, 1, 0, 1]] * 4, CUT, {}, r"completion_mask\[0\] must be ones, then zeros, got \[1, 1, 0, 1\]"),
        ([[0, 0, 0, 0]] * 4, CUT, {}, r"completion_mask\[0\] must be ones, then zeros"),
        (MASK, [True] * 4, {}, r"completion_mask\[0\] must be all ones, as it is truncated, got \[1, 1, 1, 0\]"),
        (MASK, CUT[:3], {}, r"truncated must have shape \(4,\), one a row, got \(3,\)"),
        (MASK * 2, CUT, {}, "completion_mask must hold 0 and 1 only, got 2"),
        (MASK[0], CUT, {}, r"completion_mask must have shape \(B, T\), none of them 0, got \(4,\)"),
        (MASK, CUT, {"prompt_mask": [[1, 0]] * 4}, "prompt_mask must have 4 rows of zeros, then ones"),
        (MASK, CUT, {"prompt_mask": [[1]]}, "prompt_mask must have 4 rows"),
        (MASK, CUT, {"prompt_mask": [[1]] * 4}, r"tokens must have 4 rows of 5 tokens, .* got rows of \[4, 4, 4, 4\]"),
        (MASK, CUT, {"row_labels": ["a"]}, "row_labels must have one name for each of the 4 rows, got 1"),
    ],
)
def test_roles_name_what_does_not_fit(mask, cut, more, message):
    with pytest.raises(ValueError, match=message):
        plots.role_figure(TOKENS, mask, cut, **more)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({}, "masks must hold at least one mask"),
        ({"a": MASK, "b": MASK[:, :3]}, r"the first has \(4, 4\), 'b' has \(4, 3\)"),
        ({"a": MASK[:, :3]}, r"tokens must have 4 rows of 3 tokens"),
        ({"a": MASK - 1}, r"masks\['a'\] must hold 0 and 1 only, got -1"),
    ],
)
def test_masks_name_what_does_not_fit(masks, message):
    with pytest.raises(ValueError, match=message):
        plots.mask_figure(TOKENS, masks)
