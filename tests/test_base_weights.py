"""An adapter meets the weights it was trained on, in any precision, and is refused by others."""

import copy
import json

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

pytest.importorskip("peft")

from grpo_lib.adapters import add_lora, load_adapter, trained_tensors  # noqa: E402
from grpo_lib.base_weights import describe_base  # noqa: E402
from grpo_lib.best_policy import save_best  # noqa: E402
from grpo_lib.training import GRPORun, GRPOSettings  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:step .*")
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def base(seed=0):
    torch.manual_seed(seed)
    model = tiny_model("qwen3", initializer_range=0.6).eval()
    with torch.no_grad():  # as a file in bfloat16 would hold it
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16().float())
    return model


def start(model):
    settings = GRPOSettings(batch_size=3, max_completion_length=6, learning_rate=2e-2, beta=0.0)
    return GRPORun(model, CountingTokenizer(), DATA, settings, reward_function=count_w5)


@pytest.fixture
def saved(tmp_path):
    run = start(add_lora(base(), 4))
    next(run)
    return run.save(tmp_path), run


def flat(model):
    return torch.cat([t.detach().flatten() for t in trained_tensors(model).values()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("saved_in", [torch.float32, torch.bfloat16, torch.float16])
def test_the_same_base_is_known_again_in_any_precision(dtype, saved_in, tmp_path):
    run = start(add_lora(base().to(saved_in), 4))
    path = run.save(tmp_path)
    other = start(add_lora(base().to(dtype), 4, seed=1))
    other.load(path)
    assert torch.equal(flat(other.model), flat(run.model))


@pytest.mark.parametrize("change", ["another seed", "one matrix"])
def test_another_base_is_refused_and_nothing_is_changed(saved, change):
    path, _ = saved
    model = base(seed=1) if change == "another seed" else base()
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight.mul_(1.02)  # a fine-tuned sibling: every number a little off
    other = start(add_lora(model, 4, seed=1))
    before, optimizer = flat(other.model).clone(), copy.deepcopy(other.optimizer.state_dict())
    with pytest.raises(RuntimeError, match=r"(?s)step-000001.*other weights.*'qwen3' model.*the run started from"):
        other.load(path)
    assert torch.equal(flat(other.model), before) and other.optimizer.state_dict() == optimizer
    assert other.history == []


def test_another_alpha_is_another_adapter(saved):
    path, _ = saved
    with pytest.raises(RuntimeError, match="its alpha is 8, the model's 4"):
        start(add_lora(base(), 4, alpha=4)).load(path)


def test_a_checkpoint_from_before_this_was_kept_still_loads(saved):
    path, run = saved
    state = json.loads((path / "state.json").read_text())
    assert state.pop("base")["kind"] == "qwen3"
    (path / "state.json").write_text(json.dumps(state))
    other = start(add_lora(base(seed=1), 4))
    other.load(path)
    assert torch.equal(flat(other.model), flat(run.model))


def test_a_run_that_trains_all_weights_brings_its_own(tmp_path):
    run = start(base())
    next(run)
    path = run.save(tmp_path)
    assert "base" not in json.loads((path / "state.json").read_text())
    other = start(base(seed=1))
    other.load(path)
    assert torch.equal(flat(other.model), flat(run.model))


def test_the_best_adapter_too_is_refused_by_another_base(saved, tmp_path):
    from dataclasses import replace

    _, run = saved
    run.history[-1] = replace(run.history[-1], evaluation={"accuracy": 0.5})
    assert save_best(tmp_path, run, "accuracy")
    assert torch.equal(flat(load_adapter(base(), tmp_path / "best")), flat(run.model))
    with pytest.raises(RuntimeError, match="best holds an adapter that was trained on other weights"):
        load_adapter(base(seed=1), tmp_path / "best")
    run.model.save_pretrained(tmp_path / "plain")  # peft's own folder says nothing of the base
    load_adapter(base(seed=1), tmp_path / "plain")


def test_training_does_not_change_what_is_described(saved):
    _, run = saved
    before = describe_base(run.model)
    next(run)
    assert describe_base(run.model) == before == describe_base(add_lora(base(), 4))


@pytest.mark.parametrize(("saved_in", "dtype"), [(torch.float16, torch.bfloat16), (torch.bfloat16, torch.float16)])
def test_a_base_kept_in_fp32_is_known_again_on_a_gpu_with_the_other_half_precision(saved_in, dtype, tmp_path):
    """fp32 numbers rounded to float16 and then to bfloat16 are not those rounded to bfloat16 at once."""

    def exact(seed=0):
        torch.manual_seed(seed)
        return tiny_model("qwen3", initializer_range=0.6).eval()

    run = start(add_lora(exact().to(saved_in), 4))
    next(run)
    path = run.save(tmp_path)
    here = describe_base(add_lora(exact().to(dtype), 4))["sha256"]
    assert not set(here.values()) & set(describe_base(run.model)["sha256"].values()), "the case that it is made for"
    other = start(add_lora(exact().to(dtype), 4, seed=1))
    other.load(path)
    assert torch.equal(flat(other.model), flat(run.model))
    with pytest.raises(RuntimeError, match="other weights"):
        start(add_lora(exact(seed=1).to(dtype), 4)).load(path)
    sibling = exact()
    with torch.no_grad():
        sibling.model.layers[0].mlp.up_proj.weight.mul_(1.02)
    with pytest.raises(RuntimeError, match="other weights"):
        start(add_lora(sibling.to(dtype), 4)).load(path)
