"""Figures of the loss family: what is drawn is what was given, and what was given is the library's own gradient."""

import numpy as np
import pytest
import torch

from grpo_lib import plots
from grpo_lib.losses import policy_loss

TOKENS = [["it", "is", "85"], ["75", "end"]]
MASK = [[1, 1, 1], [1, 1, 0]]
PUSHES = {"grpo": [[1.0, 0.0, 2.0], [-3.0, -2.0, 99.0]], "cispo": [[4.0, 4.0, 0.0], [0.0, -2.0, 0.0]]}
CLIPPED = {"grpo": [[0, 1, 0], [0, 0, 1]], "cispo": [[1, 0, 0], [0, 0, 0]]}


def rows(table):
    return [list(row) for row in table]


def test_each_variant_s_shares_sum_to_one_and_have_one_scale():
    fig = plots.variant_figure(TOKENS, PUSHES, CLIPPED, MASK, row_labels=["right", "wrong"])
    grpo, grey, cispo, _, *legend = fig.data
    assert rows(grpo.z) == [[0.125, 0.0, 0.25], [-0.375, -0.25, None]]  # of 8; what is masked takes no part
    assert rows(cispo.z) == [[0.4, 0.4, 0.0], [0.0, -0.2, None]]  # of 10
    assert {(trace.zmin, trace.zmax) for trace in (grpo, cispo)} == {(-0.4, 0.4)}
    assert [trace.showscale for trace in (grpo, cispo)] == [True, False]
    assert rows(grey.z) == [[None, None, None], [None, None, 1.0]]
    assert [trace.name for trace in legend] == ["cut by the clip", "weight capped", "masked"]


def test_marks_tell_a_cut_token_from_a_capped_one_and_leave_masked_ones_out():
    fig = plots.variant_figure(TOKENS, PUSHES, CLIPPED, MASK)
    assert rows(fig.data[0].text) == [["", "×", ""], ["", "", ""]]
    assert rows(fig.data[2].text) == [["○", "", ""], ["", "", ""]]
    assert rows(fig.data[0].hovertext) == [["it", "is", "85"], ["75", "end", ""]]


def test_a_mark_means_what_the_loss_says_not_what_the_push_is():
    """With a KL term a token cut by the clip is pushed still; where A is 0 one with a capped weight is not."""
    keep, old, ref = torch.ones(2, 2), torch.tensor([[-1.5, -1.0]] * 2), torch.full((2, 2), -2.0)

    def push_of(loss_type):
        x = torch.full((2, 2), -1.0, requires_grad=True)  # the first token's ratio is e^0.5
        loss, watch = policy_loss(x, old, ref, torch.tensor([1.0, 0.0]), keep, loss_type=loss_type, beta=0.1)
        loss.backward()
        return -x.grad, watch["clipped"]

    pushes, clips = ({name: push_of(name)[i] for name in ("grpo", "cispo")} for i in (0, 1))
    assert clips["grpo"][0, 0] and pushes["grpo"][0, 0] != 0
    fig = plots.variant_figure([["a", "b"]] * 2, pushes, clips, keep)
    assert rows(fig.data[0].text) == [["×", ""], ["", ""]]
    assert rows(fig.data[2].text) == [["○", ""], ["○", ""]]
    silent = {"cispo": torch.tensor([[1.0, 1.0], [0.0, 0.0]])}
    assert plots.variant_figure([["a", "b"]] * 2, silent, {"cispo": clips["cispo"]}, keep).data[0].text[1][0] == "○"
    named = plots.variant_figure([["a", "b"]] * 2, {"x": pushes["cispo"]}, {"x": clips["cispo"]}, keep, capped=["x"])
    assert rows(named.data[0].text) == [["○", ""], ["○", ""]]


def test_tokens_and_names_are_text_never_tags():
    pushes, clipped = {"<b>": PUSHES["grpo"]}, {"<b>": CLIPPED["grpo"]}
    fig = plots.variant_figure([["<think>", " ", "\n"], ["a"]], pushes, clipped, MASK, row_labels=["<i>", "r 1"])
    assert rows(fig.data[0].hovertext) == [["&lt;think&gt;", "␣", "⏎"], ["a", "", ""]]
    assert fig.layout.yaxis.ticktext == ("&lt;i&gt;", "r 1")
    assert fig.layout.annotations[0].text == "&lt;b&gt;" and fig.data[0].hovertemplate.startswith("&lt;b&gt;, ")


def test_every_variant_has_a_panel_with_its_name_and_the_figure_says_what_it_is():
    names = [f"variant {i}" for i in range(7)]
    fig = plots.variant_figure(TOKENS, dict.fromkeys(names, PUSHES["grpo"]), dict.fromkeys(names, MASK), MASK)
    assert [note.text for note in fig.layout.annotations] == names
    assert all(name in plots.alt_text(fig) for name in names)
    assert fig.layout.yaxis.ticktext == ("row 0", "row 1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(pushes={"grpo": [[1.0, 2.0]]}, clipped={"grpo": [[0, 0]]}), r"pushes of 'grpo' must have shape \(2, 3\)"),
        (dict(pushes={}, clipped={}), "must have the same names"),
        (dict(clipped={"grpo": MASK}), "must have the same names"),
        (dict(pushes={"grpo": np.zeros((2, 3))}, clipped={"grpo": MASK}), "are all 0"),
        (dict(tokens=[["a", "b", "c", "d"], ["a"]]), "tokens and row_labels must fit"),
        (dict(row_labels=["one"]), "tokens and row_labels must fit"),
        (dict(mask=[1, 1]), "mask must have shape"),
        (dict(capped=["sapo"]), "capped must be a list of names of pushes, .* got .'sapo'"),
        (dict(capped="cispo"), "capped must be a list of names of pushes"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = dict(tokens=TOKENS, pushes=PUSHES, clipped=CLIPPED, mask=MASK) | change
    with pytest.raises(ValueError, match=message):
        plots.variant_figure(**arguments)


def test_push_curves_of_the_library_s_gradient_follow_the_closed_forms():
    ratio = torch.tensor([0.5, 0.9, 1.1, 1.9], dtype=torch.float64)

    def push(loss_type, sign):
        x = ratio.log()[:, None].requires_grad_()
        one = torch.ones(4, 1, dtype=torch.float64)
        policy_loss(x, 0 * one, None, sign * one[:, 0], one, beta=0.0, loss_type=loss_type)[0].backward()
        return -4 * x.grad[:, 0]

    fig = plots.push_curves_figure(ratio, {n: [push(n, 1.0), push(n, -1.0)] for n in ("grpo", "cispo", "sapo")})
    np.testing.assert_allclose(fig.data[0].y, [0.5, 0.9, 1.1, 0.0], atol=1e-4)
    np.testing.assert_allclose(fig.data[1].y, [0.0, -0.9, -1.1, -1.9], atol=1e-4)
    np.testing.assert_allclose(fig.data[2].y, [0.5, 0.9, 1.1, 1.2], atol=1e-4)
    np.testing.assert_allclose(fig.data[3].y, [-0.5, -0.9, -1.1, -1.2], atol=1e-4)
    soft = [r / np.cosh((r - 1) / 2) ** 2 for r in ratio.tolist()]  # 4 s (1 - s) is 1 / cosh²
    np.testing.assert_allclose(fig.data[4].y, soft, atol=1e-4)
    assert [trace.name for trace in fig.data if trace.showlegend] == ["grpo", "cispo", "sapo"]
    assert "grpo at ratio 1.9: 0 and -1.9" in plots.alt_text(fig)
    with pytest.raises(ValueError, match=r"curves of 'x' must have shape \(2, 4\)"):
        plots.push_curves_figure(ratio, {"x": ratio})


def test_length_figure_multiplies_by_the_length():
    fig = plots.length_figure([2, 8], {"mean": [0.5, 0.125], "sum": [1.0, 1.0]})
    assert [trace.y for trace in fig.data] == [(0.5, 0.125), (1.0, 1.0), (1.0, 1.0), (2.0, 8.0)]
    assert "mean by 0.25 a token, 1 a completion; sum by 1 a token, 4 a completion" in plots.alt_text(fig)
    for lengths, push, message in (
        ([2, 8], [0.5], r"pushes of 'x' must have shape \(2,\)"),
        ([2, 8], [0.5, 0.0], "pushes > 0"),
        ([0, 8], [0.5, 0.5], "lengths must be >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            plots.length_figure(lengths, {"x": push})


def test_difficulty_figure_draws_what_it_is_given():
    fig = plots.difficulty_figure([0.0, 0.5, 1.0], {"std": [0.0, 1.0, 0.5], "none": [0, 0.25, 0]}, y_title="mean |A|")
    assert [trace.y for trace in fig.data] == [(0.0, 1.0, 0.5), (0.0, 0.25, 0.0)]
    assert plots.alt_text(fig).startswith("mean |A| against the probability of success; std is highest at 0.5, 1;")
    with pytest.raises(ValueError, match=r"success must lie in \[0, 1\], got 0 to 1.5"):
        plots.difficulty_figure([0.0, 1.5], {"a": [0, 0]}, y_title="y")
    with pytest.raises(ValueError, match=r"curves of 'a' must have shape \(2,\)"):
        plots.difficulty_figure([0.0, 1.0], {"a": [0]}, y_title="y")
