"""The model of a step's time against numbers worked out by hand, and what must hold whatever the numbers are."""

import itertools

import pytest

from grpo_lib.hardware import GPU, GPUS, SHAPES, Shape
from grpo_lib.published_steps import PUBLISHED, compare_with_published
from grpo_lib.step_time import StepTime, decode_floor, generation_time, step_time

PLAIN = Shape(1e9, layers=10, width=1000, kv_width=500)  # 2 GB of weights, 20 kB of cache a token
CHIP = GPU(bandwidth=1e12, flops=1e14, link=1e11)
RUN = dict(completions=64, prompt_length=100, completion_length=1000, group=8)
WHOLE = dict(bandwidth_share=1, peak_share=1)


def test_bytes_and_operations_of_a_shape_by_hand():
    assert PLAIN.weight_bytes == 2e9
    assert PLAIN.cache_bytes == 2 * 10 * 500 * 2  # keys and values, layers, width, bytes
    assert PLAIN.forward_flops(1000) == 2e12 + 2 * 10 * 1000 * 1e6  # 2 per weight and token, attention over S²


def test_one_row_is_bound_by_reading_the_weights_once_a_token():
    assert decode_floor(PLAIN, CHIP, 1000) == pytest.approx(2.0)  # 2 GB at 1 TB/s is 2 ms
    assert decode_floor(PLAIN, CHIP, 1000, tensor_parallel=4) == pytest.approx(0.5)
    assert decode_floor(PLAIN, CHIP, 1000, bandwidth_share=0.5) == pytest.approx(4.0)


def test_generation_bound_by_memory_by_hand():
    got = generation_time(PLAIN, CHIP, rows=10, prompt_length=100, completion_length=1000, group=10, **WHOLE)
    cache = 10 * 1000 * (100 + 500) * 20_000 / 1e12  # rows, tokens, the mean context, bytes a token
    prompt = (2e11 + 2 * 10 * 1000 * 1e4) / 1e14  # one prompt for the ten
    assert got == pytest.approx(2.0 + cache + prompt)


def test_generation_bound_by_arithmetic_where_many_rows_share_the_weights():
    few, many = (
        generation_time(PLAIN, CHIP, rows=rows, prompt_length=0, completion_length=100, **WHOLE) for rows in (1, 5000)
    )
    assert few == pytest.approx(0.2 + 100 * 50 * 20_000 / 1e12)
    assert many == pytest.approx(5000 * (2e11 + 2 * 10 * 1000 * 1e4) / 1e14)


def test_a_step_by_hand():
    time = step_time(PLAIN, CHIP, **RUN, num_gpus=2, scorings=2, checkpointing=False, **WHOLE)
    forward = 64 * (2e9 * 1100 + 2 * 10 * 1000 * 1100**2) / 2 / 1e14
    assert time.scoring == pytest.approx(2 * forward)
    assert time.training == pytest.approx(3 * forward)  # 6 W a token
    assert time.synchronisation == pytest.approx((2 * 1 / 2 + 1) * 2e9 / 1e11)  # ring all-reduce, then to the sampler
    assert time.total == pytest.approx(time.generation + 5 * forward + time.synchronisation)
    assert sum(time.shares.values()) == pytest.approx(1) and list(time.shares)[0] == "generation"
    assert step_time(PLAIN, CHIP, **RUN, **WHOLE).training == pytest.approx(2 * 4 * forward)  # one GPU, recomputed


def test_what_more_gpus_shorten_and_what_they_do_not():
    times = [step_time(PLAIN, CHIP, **RUN, longest=4000, num_gpus=n) for n in (1, 2, 4, 8, 16)]
    for fewer, more in itertools.pairwise(times):
        assert more.training == pytest.approx(fewer.training / 2)
        assert more.generation < fewer.generation
    floor = decode_floor(PLAIN, CHIP, 4000, bandwidth_share=0.6)
    assert all(time.generation > floor for time in times)
    assert times[-1].generation < 1.1 * floor  # what is left is the longest completion
    cut = step_time(PLAIN, CHIP, **RUN, longest=4000, num_gpus=16, tensor_parallel=4)
    assert cut.generation < times[-1].generation


def test_more_completions_in_proportion_take_the_same_time_but_for_the_link():
    one = step_time(PLAIN, CHIP, **RUN)
    eight = step_time(PLAIN, CHIP, **{**RUN, "completions": 512}, num_gpus=8)
    assert eight.generation == pytest.approx(one.generation) and eight.training == pytest.approx(one.training)
    assert one.synchronisation == 0
    assert eight.synchronisation == pytest.approx((2 * 7 / 8 + 1) * 2e9 / 1e11)


def test_the_data_sheets_are_in_their_order():
    for name in ("bandwidth", "flops"):
        values = [getattr(GPUS[gpu], name) for gpu in ("T4", "A100 40 GB", "A100 80 GB", "H100", "H200")]
        assert values == sorted(values)
    assert GPUS["H100"].bandwidth == 3.35e12 and GPUS["H100"].flops == 989e12


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"completions": 0}, "completions must be an integer >= 1, got 0"),
        ({"num_gpus": 6, "tensor_parallel": 4}, "num_gpus must be a multiple of tensor_parallel, got 6 and 4"),
        ({"longest": 900}, "longest must be a finite number >= 1000"),
        ({"bandwidth_share": 1.5}, "bandwidth_share is a share of the data sheet, above 0 and at most 1, got 1.5"),
        ({"peak_share": 0}, "peak_share must be a finite number > 0, got 0"),
        ({"link": 0}, "link must be a finite number > 0, got 0"),
    ],
)
def test_bad_numbers_are_refused(changes, error):
    with pytest.raises(ValueError, match=error):
        step_time(PLAIN, CHIP, **{**RUN, **changes})


def test_published_steps_are_what_their_sources_say():
    rows = compare_with_published()
    assert [round(row["published"], 1) for row in rows] == [
        *(159.3, 114.6, 301.8, 251.5, 34.9, 1240.9, 503.1, 111.8, 1408.6, 209.6, 559.0),
        *(97.7, 393.0),
    ]
    assert 10.8 * 3600 / (131_900 / 1024) == pytest.approx(rows[2]["published"])
    tokens = 1562 * 16 * 97.7  # what NeMo RL's tokens a second and GPU say of the step, beside 2048 * 1060
    assert tokens == pytest.approx(2048 * 1060, rel=0.15)
    assert {row.options["completions"] for row in PUBLISHED} == {1024, 2048}
    assert len({row.source for row in PUBLISHED}) == 2


def test_a_copy_is_cut_over_the_fewest_gpus_that_hold_it_where_the_source_does_not_say():
    memory = {"A100 40 GB": 40e9, "A100 80 GB": 80e9}
    for row in PUBLISHED[:11]:
        fits = [cut for cut in (1, 2, 4, 8) if SHAPES[row.shape].weight_bytes / cut < memory[row.gpu]]
        assert row.options["tensor_parallel"] == fits[0], row


def test_shapes_have_as_many_weights_as_their_layers_and_words():
    for name in ("OPT-6.7B", "OPT-13B", "OPT-30B", "OPT-66B", "OPT-175B"):
        shape = SHAPES[name]
        counted = 12 * shape.layers * shape.width**2 + 50272 * shape.width  # attention 4 d², the block behind it 8 d²
        assert shape.parameters == pytest.approx(counted, rel=0.015), name


def test_the_model_is_too_fast_everywhere_and_by_about_three_at_most_but_for_one():
    factors = {(row["shape"], row["gpu"], row["num_gpus"]): row["factor"] for row in compare_with_published()}
    assert 5 < factors.pop(("OPT-30B", "A100 40 GB", 8)) < 6  # 16 bytes a weight are 60 GB on each GPU: no room
    assert all(1 < factor < 3.1 for factor in factors.values()), factors
    assert all(isinstance(row["model"], StepTime) for row in compare_with_published())
