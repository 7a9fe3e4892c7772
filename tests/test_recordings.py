"""A recorded rollout holds what the live one held, survives JSON, and refuses what does not fit."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from grpo_lib.advantages import group_advantages
from grpo_lib.grpo import collect_rollout, rollout_loss, score_rollout
from grpo_lib.inspection import inspect_rollout
from grpo_lib.models import load_tiny_policy
from grpo_lib.recordings import (
    Recording,
    load_recorded_rollout,
    load_recording,
    record_rollout,
    record_training,
    save_recording,
)
from grpo_lib.records import GRPOSettings
from grpo_lib.tasks import addition_reward, load_addition

TINY = dict(
    tokens=[["a", "b"], ["c", "."]],
    rewards=[1.0, 0.0],
    advantages=[0.7, -0.7],
    mask=[[1, 1], [1, 0]],
    log_probs=[[-1.0, -2.0], [-0.5, float("nan")]],
)


def same(left, right):
    for field in fields(Recording):
        mine, other = getattr(left, field.name), getattr(right, field.name)
        equal = torch.equal(mine, other) if isinstance(mine, torch.Tensor) else mine == other
        assert equal and type(mine) is type(other), field.name
    return True


@pytest.fixture(scope="module")
def live():
    """A model that has moved, its tokenizer, and a rollout that it sampled before it moved, with a reference."""
    torch.manual_seed(0)
    model, tokenizer = load_tiny_policy()
    rollout = collect_rollout(model, tokenizer, load_addition("train")[:3], addition_reward, num_generations=4)
    log_probs = score_rollout(model, rollout)
    rollout = replace(rollout, old_log_probs=log_probs, ref_log_probs=log_probs - 0.1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.02)
    return model, tokenizer, rollout


def test_a_live_rollout_and_its_recording_have_the_same_loss(live, tmp_path):
    model, tokenizer, rollout = live
    recording = record_rollout(model, tokenizer, rollout, max_completion_length=32)
    loss, watch = rollout_loss(model, rollout, beta=0.1)
    assert recording.max_completion_length == 32 > recording.mask.shape[1]
    seen = inspect_rollout(recording, beta=0.1)
    assert abs(loss.item() - seen.loss) < 1e-6
    keep = rollout.completion_mask.bool()
    assert (watch["ratio"][keep] - 1).abs().max() > 0.1  # the policy did move
    torch.testing.assert_close(seen.ratio[keep].float(), watch["ratio"][keep], rtol=1e-4, atol=1e-4)
    assert torch.equal(seen.clipped, watch["clipped"])
    save_recording(recording, tmp_path / "rollout.json")
    again = load_recording(tmp_path / "rollout.json")
    assert same(recording, again)
    assert inspect_rollout(again, beta=0.1).loss == seen.loss


def test_a_recording_holds_the_tokens_texts_and_prompts(live):
    model, tokenizer, rollout = live
    recording = record_rollout(model, tokenizer, rollout)
    for tokens, text, mask in zip(recording.tokens, rollout.texts, rollout.completion_mask, strict=True):
        assert "".join(tokens[: mask.sum()]).removesuffix("<|im_end|>") == text
    assert recording.prompts == [prompt[-1]["content"] for prompt in rollout.prompts]
    assert recording.answers == rollout.answers and recording.texts == rollout.texts
    assert (len(recording), recording.num_groups, recording.group(2)) == (12, 3, slice(8, 12))


def test_without_old_log_probs_the_policy_itself_sampled(live):
    model, tokenizer, rollout = live
    recording = record_rollout(model, tokenizer, replace(rollout, old_log_probs=None, ref_log_probs=None))
    assert torch.equal(recording.old_log_probs, recording.log_probs) and recording.ref_log_probs is None
    assert (inspect_rollout(recording, beta=0.0).ratio[recording.mask.bool()] == 1).all()
    with pytest.raises(ValueError, match="beta = 0.1 needs ref_log_probs"):
        inspect_rollout(recording)


def test_defaults_of_a_recording_made_by_hand():
    recording = Recording(**TINY)
    assert recording.texts == ["ab", "c"] and recording.prompts == ["", ""]
    assert recording.truncated.tolist() == [True, False]
    assert (recording.num_generations, recording.max_completion_length) == (2, 2)
    assert recording.log_probs.tolist() == [[-1.0, -2.0], [-0.5, 0.0]]  # what is masked cannot matter


BAD = [
    (dict(tokens=[["a", "b"], ["c"]]), r"tokens must be B >= 1 rows of one length T >= 1, got lengths \[1, 2\]"),
    (dict(tokens=["ab", "cd"]), "tokens must be a list of rows, each a list of strings"),
    (dict(log_probs=None), "log_probs must be numbers of shape"),
    (dict(tokens=[["a", 1], ["c", "d"]]), r"tokens\[0\] must be 2 strings"),
    (dict(rewards=[1.0]), r"rewards must have shape \(2,\), got \(1,\)"),
    (dict(rewards=["x", "y"]), "rewards must be numbers of shape"),
    (dict(advantages=[1.0, float("inf")]), "advantages must be finite, got inf"),
    (dict(mask=[[1, 2], [1, 0]]), "mask must hold 0 and 1 only"),
    (dict(log_probs=[[-1.0, float("nan")], [-1.0, 0.0]]), "log_probs must be finite, got nan"),
    (dict(old_log_probs=[[-1.0, 2.0], [-1.0, 0.0]]), "old_log_probs must be logarithms of probabilities, at most 0"),
    (dict(ref_log_probs=[[-1.0], [-1.0]]), r"ref_log_probs must have shape \(2, 2\), got \(2, 1\)"),
    (dict(num_generations=3), "num_generations = 3 must divide the 2 completions"),
    (dict(max_completion_length=1), "max_completion_length must be an integer >= 2, got 1"),
    (dict(truncated=[True]), r"truncated must have shape \(2,\)"),
    (dict(prompts=["p"]), "prompts must be 2 strings, got 1 entries"),
    (dict(prompts="ab"), "prompts must be a list of 2 strings, got a str"),
    (dict(texts={"a": 1, "b": 2}), "texts must be a list of 2 strings, got a dict"),
    (dict(answers={"a", "b"}), "answers must be a list of 2 strings, got a set"),
    (dict(truncated=[2, 0]), "truncated must hold 0 and 1 only"),
    (dict(truncated=[1, float("nan")]), "truncated must hold 0 and 1 only"),
    (dict(rewards=[10**400, 0]), "rewards must be numbers of shape"),
]


@pytest.mark.parametrize("change, message", BAD)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        Recording(**{**TINY, **change})


def test_a_file_is_checked_when_it_is_read(tmp_path):
    path = tmp_path / "x.json"
    save_recording(Recording(**TINY), path)
    stored = json.loads(path.read_text())

    def reading(change, drop=()):
        path.write_text(json.dumps({k: v for k, v in {**stored, **change}.items() if k not in drop}))
        load_recording(path)

    reading({})
    with pytest.raises(ValueError, match=r"x\.json: rewards must have shape \(2,\), got \(3,\)"):
        reading({"rewards": [1, 2, 3]})
    with pytest.raises(ValueError, match=r"missing \['mask'\], unknown \['masks'\]"):
        reading({"masks": []}, drop=["mask"])
    with pytest.raises(ValueError, match='it needs "format": "grpo_lib recording 1"'):
        reading({"format": "other"})
    with pytest.raises(ValueError, match="tokens must be a list of rows"):
        reading({"tokens": None})
    with pytest.raises(ValueError, match=r"x\.json: prompts must be a list of 2 strings, got a str"):
        reading({"prompts": "ab"})
    for content in (b"no", b'{"format": "\xff"}', b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.json is not JSON: "):
            load_recording(path)


def test_the_shipped_recording_is_of_the_shipped_policy():
    """Its reference log-probs are those of the tiny policy, its advantages those of its rewards, its rewards right."""
    from dataclasses import dataclass

    recording = load_recorded_rollout()
    model, tokenizer = load_tiny_policy()
    ids = torch.tensor([tokenizer.convert_tokens_to_ids(row) for row in recording.tokens])
    prompts = [[{"role": "user", "content": prompt}] for prompt in recording.prompts]
    encoded = tokenizer.apply_chat_template(prompts, add_generation_prompt=True, return_tensors="pt", return_dict=True)

    @dataclass
    class Scored:
        prompt_ids: torch.Tensor
        prompt_mask: torch.Tensor
        completion_ids: torch.Tensor
        completion_mask: torch.Tensor
        temperature: float = 1.0

    rollout = Scored(encoded["input_ids"], encoded["attention_mask"], ids, recording.mask)
    keep = recording.mask.bool()
    expected = score_rollout(model, rollout)[keep]
    torch.testing.assert_close(recording.ref_log_probs[keep], expected, rtol=1e-4, atol=1e-4)
    assert addition_reward(prompts, recording.texts, recording.answers) == recording.rewards.tolist()
    torch.testing.assert_close(recording.advantages, group_advantages(recording.rewards, recording.num_generations))
    problems = {sample["prompt"][0]["content"]: sample["answer"] for sample in load_addition("train")}
    assert [problems[prompt] for prompt in recording.prompts] == recording.answers


def test_the_shipped_recording_shows_what_a_lesson_needs():
    recording = load_recorded_rollout()
    seen, keep = inspect_rollout(recording), recording.mask.bool()
    assert seen.ratio[keep].min() < 0.5 and seen.ratio[keep].max() > 1.25
    assert (seen.clipped & (seen.advantage > 0)).any() and (seen.clipped & (seen.advantage < 0)).any()
    assert seen.kl.max() > 1 and recording.truncated.any() and not recording.truncated.all()
    assert 1 in [int((recording.advantages[recording.group(i)] == 0).all()) for i in range(4)]  # a silent group


def test_recording_a_run_is_deterministic():
    assert same(*(record_training(1, batch_size=2, num_generations=2) for _ in range(2)))


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path):
    path = tmp_path / "x.json"
    save_recording(Recording(**TINY), path)
    before = path.read_bytes()
    with pytest.raises(
        ValueError, match=r"x\.json: a string of the recording holds '\\udc80', half of a surrogate pair"
    ):
        save_recording(Recording(**{**TINY, "texts": ["a\udc80", "b"]}), path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    other = Recording(**{**TINY, "texts": ["é", "⏎"]})
    save_recording(other, path)
    assert same(other, load_recording(path)) and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path, write = tmp_path / "x.json", Path.write_bytes
    save_recording(Recording(**TINY), path)

    def write_half(self, content):
        write(self, content[: len(content) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(OSError, match="no space left"):
        save_recording(Recording(**TINY), path)
    assert same(Recording(**TINY), load_recording(path)) and list(tmp_path.iterdir()) == [path]


def test_counts_are_kept_as_plain_integers(tmp_path):
    recording = Recording(**TINY, num_generations=np.int64(2), max_completion_length=np.int32(7))
    assert [type(n) for n in (recording.num_generations, recording.max_completion_length)] == [int, int]
    save_recording(recording, tmp_path / "x.json")
    assert same(recording, load_recording(tmp_path / "x.json"))


def test_a_run_that_leaves_cut_completions_out_is_shown_as_it_was_trained(live):
    model, tokenizer, rollout = live
    rollout = replace(rollout, truncated=torch.arange(12) % 5 == 1)
    recording = record_rollout(model, tokenizer, rollout)
    for loss_type in ("grpo", "dapo", "dr_grpo"):
        settings = GRPOSettings(loss_type=loss_type, mask_truncated_completions=True, max_completion_length=40)
        loss, watch = rollout_loss(model, rollout, **settings.loss_options)
        seen = inspect_rollout(recording, **settings.loss_options)
        assert abs(loss.item() - seen.loss) < 1e-6
        torch.testing.assert_close(seen.weight.float(), watch["weight"])
        assert not torch.equal(seen.weight, inspect_rollout(recording, loss_type=loss_type).weight)


@pytest.mark.parametrize("number", [3, -1, 1.0])
def test_a_group_that_is_not_there_is_refused(live, number):
    with pytest.raises(ValueError, match="group must be"):
        record_rollout(*live).group(number)
