import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lib.masks import create_completion_mask, position_ids_from_mask, truncated_completions


@pytest.mark.parametrize(
    ("ids", "eos", "mask", "truncated"),
    [
        ([[5, 6, 107, 9, 9], [5, 6, 7, 1, 9]], [1, 107], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], [False, False]),
        ([[5, 6, 2, 2, 2]], 2, [[1, 1, 1, 0, 0]], [False]),
        ([[7, 8, 2]], 2, [[1, 1, 1]], [False]),
        ([[5, 6, 7, 8]], 2, [[1, 1, 1, 1]], [True]),
        ([[2, 0, 0], [5, 6, 2]], 2, [[1, 0, 0], [1, 1, 1]], [False, False]),
        ([[5, 2, 5]], None, [[1, 1, 1]], [True]),
        ([[5, 2, 5]], [], [[1, 1, 1]], [True]),
        ([[5, 0, 6, 2, 0]], 2, [[1, 1, 1, 1, 0]], [False]),
        ([[5, 2]], torch.tensor([2]), [[1, 1]], [False]),
    ],
    ids=["M02", "M03", "M05", "M07", "M08", "none", "empty", "pad-inside", "tensor"],
)
def test_mask_and_truncation(ids, eos, mask, truncated):
    ids = torch.tensor(ids)
    got = create_completion_mask(ids, eos)
    assert got.tolist() == mask
    assert got.dtype == torch.int64
    assert truncated_completions(ids, eos).tolist() == truncated


@given(
    st.lists(st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=1, max_size=5), st.sets(st.integers(0, 5))
)
def test_mask_equals_a_loop_over_tokens(rows, ends):
    expected = []
    for row in rows:
        ended, line = False, []
        for token in row:
            line.append(int(not ended))
            ended = ended or token in ends
        expected.append(line)
    assert create_completion_mask(torch.tensor(rows), list(ends)).tolist() == expected


def test_positions_start_at_the_first_real_token():
    mask = torch.tensor([[1, 1, 1], [0, 1, 1], [0, 0, 1]])
    assert position_ids_from_mask(mask).tolist() == [[0, 1, 2], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("ids", "eos", "error", "message"),
    [
        (torch.tensor([1, 2]), 2, ValueError, r"shape \(B, T\), got \(2,\)"),
        (torch.tensor([[1.0]]), 2, TypeError, "got dtype torch.float32"),
        ([[1, 2]], 2, TypeError, "got list"),
        (torch.tensor([[1]]), "2", TypeError, "got '2'"),
        (torch.tensor([[1]]), 2.0, TypeError, "got 2.0"),
        (torch.tensor([[1]]), [2, None], TypeError, "None"),
        (torch.tensor([[1]]), True, TypeError, "got True"),
    ],
)
def test_bad_input_is_refused(ids, eos, error, message):
    with pytest.raises(error, match=message):
        create_completion_mask(ids, eos)
