"""The memory meter against cases counted by hand, and the ways to score against what was measured before."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from grpo_lib import memory_meter
from grpo_lib.logprobs import selective_log_softmax
from grpo_lib.memory_meter import MemoryUse, measure_memory

SIZE = 1000  # fp32 numbers
BYTES = 4 * SIZE


@pytest.fixture
def x():
    return torch.linspace(0.1, 1.0, SIZE)


@pytest.mark.parametrize(
    "function, peak, kept",
    [
        (lambda x: None, 0, 0),
        (lambda x: x.view(10, 100), 0, 0),  # no copy
        (lambda x: x.exp(), 1, 1),
        (lambda x: x.exp().neg(), 2, 1),
        (lambda x: x.exp().neg_(), 1, 1),  # in place
        (lambda x: x.exp().neg().abs().neg(), 2, 1),  # each goes when the next is made
        (lambda x: [x.exp() for _ in range(5)], 5, 5),
        (lambda x: [x.exp() for _ in range(5)].pop(), 5, 1),
        (lambda x: x.exp().double().half(), 3, 0.5),  # the worst moment is not the last
        (lambda x: x.double(), 2, 2),
        (lambda x: x.half(), 0.5, 0.5),
        (lambda x: torch.cat([x, x, x]), 3, 3),
    ],
)
def test_counted_by_hand(x, function, peak, kept):
    assert measure_memory(lambda: function(x)) == MemoryUse(int(peak * BYTES), int(kept * BYTES))


def test_what_an_operation_allocates_inside_is_seen(x):
    """logsumexp exponentiates into a copy of its input, though only one number comes out."""
    use = measure_memory(lambda: x.logsumexp(-1))
    assert BYTES <= use.peak < 1.1 * BYTES and use.kept == 4


def test_gradients_left_behind_are_kept(x):
    x.requires_grad_()
    use = measure_memory(lambda: x.exp().sum().backward())
    assert use.peak >= 2 * BYTES and use.kept == BYTES
    assert x.grad is not None


def test_the_same_code_gives_the_same_number(x):
    def function():
        return (x[:, None] * x[:100]).softmax(-1).sum()

    assert len({measure_memory(function) for _ in range(5)}) == 1


def test_freeing_what_was_there_before_does_not_count(x):
    measured_before = []
    measure_memory(lambda: measured_before.append(x.exp()))

    def swap():
        measured_before.clear()
        return x.exp()

    assert measure_memory(swap) == MemoryUse(BYTES, BYTES)


def test_events_are_added_up_in_order():
    events = [(1, 100), (9, -70), (2, 50), (1, -100), (1, 80), (2, -50)]  # 9 was there before; address 1 is used twice
    assert memory_meter._use(events) == MemoryUse(peak=150, kept=80)


def test_nothing_is_written_to_stderr_but_what_the_function_writes(x, capfd):
    import sys

    measure_memory(lambda: print("from the function", file=sys.stderr))
    assert capfd.readouterr().err == "from the function\n"


def test_an_error_is_passed_on_and_the_next_measurement_works(x):
    with pytest.raises(ZeroDivisionError):
        measure_memory(lambda: 1 / 0)
    assert measure_memory(x.exp).peak == BYTES


def test_a_measurement_inside_another_is_refused(x):
    """Two of torch's profilers at once would end the process."""
    with pytest.raises(RuntimeError, match="a profiler is running already"):
        measure_memory(lambda: measure_memory(x.exp))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        with pytest.raises(RuntimeError, match="a profiler is running already"):
            measure_memory(x.exp)
    assert measure_memory(x.exp).peak == BYTES


def test_a_tensor_is_refused(x):
    with pytest.raises(TypeError, match="takes a function of no argument, such as lambda"):
        measure_memory(x)


# --- the ways to get a token's log-prob, at the vocabulary of Qwen2.5

B, T, V = 4, 4, 151_936


def whole(logits, ids):
    return logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]


def difference(logits, ids):
    return logits.gather(-1, ids[..., None])[..., 0] - logits.logsumexp(-1)


def by_rows(way):
    return lambda logits, ids: torch.stack([way(x, i) for x, i in zip(logits, ids, strict=True)])


def loss(logits, ids):
    return -cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none").view_as(ids)


WAYS = {"full": whole, "lse": difference, "rows": by_rows(whole), "rowlse": by_rows(difference), "cross_entropy": loss}


def in_logits(way, grad, dtype=torch.float32):
    """Peak memory beyond the logits, in sizes of the logits."""
    logits = torch.randn(B, T, V, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_(grad)
    ids = torch.arange(B * T).view(B, T)
    use = measure_memory((lambda: way(logits, ids).sum().backward()) if grad else lambda: way(logits, ids))
    return use.peak / (logits.numel() * logits.element_size())


@pytest.fixture
def golden_in_logits(golden):
    """Measured on longer rows (T = 256), as the growth of the whole process."""
    data = golden("selective_log_softmax_memory")
    assert (data["B"], data["V"]) == (B, V)
    return {
        (row["name"], row["grad"]): row["extra_total_MiB"] / row["logits_MiB"]
        for row in data["rows"]
        if row["dtype"] == "float32"
    }


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_the_meter_agrees_with_the_process_s_growth(name, grad, golden_in_logits):
    assert in_logits(WAYS[name], grad) == pytest.approx(golden_in_logits[name, grad], rel=0.01)


def test_the_library_s_way_needs_no_more_than_the_best_measured(golden_in_logits):
    with_gradient = in_logits(selective_log_softmax, True)
    assert 1.0 < with_gradient <= 1.01 * golden_in_logits["custom", True]  # the gradient itself is 1
    best = min(value for (name, grad), value in golden_in_logits.items() if grad and name != "custom")
    assert with_gradient < 0.8 * best
    assert in_logits(selective_log_softmax, False) <= 2.01 / B  # two rows of fp32


def test_half_precision_logits_are_taken_up_row_by_row():
    whole_in_fp32 = in_logits(lambda logits, ids: whole(logits.float(), ids), False, torch.bfloat16)
    assert in_logits(selective_log_softmax, False, torch.bfloat16) <= 1.01 < whole_in_fp32
