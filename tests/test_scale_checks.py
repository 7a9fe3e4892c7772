"""The exercises on scaling out against what they talk about: TRL's arithmetic in words, a reward that runs on parts."""

import inspect

import numpy as np
import pytest

from grpo_lib import scale_checks
from grpo_lib.hardware import GPU, Shape
from grpo_lib.step_time import decode_floor


def test_prompts_of_a_step_by_counting():
    def counted(per_device, accumulation, processes, group):
        rows = [(k, a, i) for k in range(processes) for a in range(accumulation) for i in range(per_device)]
        return len(rows) / group

    assert scale_checks.check_prompts_a_step(counted).right


def test_a_reward_really_run_on_parts():
    def shortest(lengths):
        return [float(length == min(lengths)) for length in lengths]

    def run(lengths, part):
        paid = []
        for start in range(0, len(lengths), part):
            paid += shortest(list(lengths[start : start + part]))
        return paid

    assert scale_checks.check_split_reward(run).right


def test_the_floor_is_the_library_s():
    def floor(parameters, number_bytes, bandwidth, tokens, copies):
        return decode_floor(Shape(parameters, 1, 1, 1, number_bytes), GPU(bandwidth, 1.0, 1.0), tokens)

    assert scale_checks.check_decode_floor(floor).right


@pytest.mark.parametrize("name", scale_checks.__all__)
def test_every_slip_is_named_as_itself(name, monkeypatch):
    seen = {}
    real = scale_checks.judge
    monkeypatch.setattr(scale_checks, "judge", lambda *args, **more: seen.update(slips=args[4]) or real(*args, **more))
    check = getattr(scale_checks, name)
    assert check(lambda *arguments: ...).status == "not attempted yet"
    for slip, (function, _) in seen["slips"].items():
        assert check(function).slip == slip, (name, slip)
    assert len(inspect.signature(check).parameters) == 1 and np.size(list(seen["slips"])) >= 4
