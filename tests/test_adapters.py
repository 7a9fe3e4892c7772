"""LoRA: what learns, what it is compared with, and how little of it is saved."""

import copy
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

peft = pytest.importorskip("peft")

import grpo_lib  # noqa: E402
from grpo_lib.adapters import (  # noqa: E402
    adapter_is_fresh,
    add_lora,
    has_adapter,
    load_adapter,
    trainable_parameters,
    trained_tensors,
)
from grpo_lib.checkpoints import latest_checkpoint  # noqa: E402
from grpo_lib.modes import enable_checkpointing  # noqa: E402
from grpo_lib.reference import AdapterReference, make_reference, sync_reference  # noqa: E402
from grpo_lib.rollout import score_rollout  # noqa: E402
from grpo_lib.training import GRPORun, GRPOSettings  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:step .* every completion was cut"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]
FAST = {"batch_size": 3, "max_completion_length": 6, "learning_rate": 2e-2, "max_grad_norm": 1.0, "track_kl": True}


def count_w5(prompts, completions, answer, **kwargs):
    return [float(text.split().count("w5")) for text in completions]


def base(name="qwen3", **changes):
    torch.manual_seed(0)
    return tiny_model(name, **{"initializer_range": 0.6, **changes}).eval()


def fresh(**changes):
    return add_lora(base(**changes), 4)


def pretrained():
    """An adapter that has learned: neither of its halves is zero."""
    model = fresh()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trained_tensors(model).values():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def start(model, **settings):
    return GRPORun(model, CountingTokenizer(), DATA, GRPOSettings(**{**FAST, **settings}), reward_function=count_w5)


def take(run, steps):
    return list(itertools.islice(run, steps))


def flat(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def test_a_fresh_adapter_changes_nothing_and_alone_learns():
    plain, model = base(), fresh()
    ids = torch.tensor([[3, 4, 5, 6]])
    assert torch.equal(model(ids).logits, plain(ids).logits)
    assert all("lora_" in name for name in trained_tensors(model))
    assert {p.dtype for p in trainable_parameters(model)} == {torch.float32}
    assert adapter_is_fresh(model) and not adapter_is_fresh(pretrained())
    assert has_adapter(model) and not has_adapter(plain)
    assert not model.training


def test_the_scale_is_alpha_over_rank():
    model = add_lora(base(), 2, alpha=6)
    layer = model.get_base_model().model.layers[0].self_attn.q_proj
    x = torch.randn(1, 8)
    with torch.no_grad():
        layer.lora_B["default"].weight.normal_()
        expected = x @ layer.base_layer.weight.T
        expected += 3.0 * x @ layer.lora_A["default"].weight.T @ layer.lora_B["default"].weight.T
        torch.testing.assert_close(layer(x), expected)


def test_the_adapters_random_numbers_come_from_its_own_seed():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, two, other = add_lora(base(), 4, seed=1), add_lora(base(), 4, seed=1), add_lora(base(), 4, seed=2)
    assert torch.equal(flat(trained_tensors(one).values()), flat(trained_tensors(two).values()))
    assert not torch.equal(flat(trained_tensors(one).values()), flat(trained_tensors(other).values()))
    torch.manual_seed(3)
    add_lora(tiny_model("llama"), 4)
    torch.manual_seed(3)
    assert torch.rand(1) == expected


def test_an_adapter_on_a_half_precision_model_is_fp32():
    model = add_lora(base().half(), 4)
    assert {p.dtype for p in trainable_parameters(model)} == {torch.float32}
    assert next(model.get_base_model().model.layers[0].mlp.up_proj.base_layer.parameters()).dtype == torch.float16


@pytest.mark.parametrize("make", [base, fresh, pretrained], ids=["full", "fresh", "pretrained"])
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_kl_is_0_at_the_first_step_and_grows(make, autocast):
    records = take(start(make(), beta=0.01, autocast=autocast), 4)
    assert abs(records[0].kl) < 1e-7
    assert records[-1].kl > 1e-5


@pytest.mark.parametrize("make", [fresh, pretrained])
def test_the_reference_scores_as_a_full_copy_of_the_start_would(make):
    run = start(make(), beta=0.1)
    expected = copy.deepcopy(run.model).eval()
    take(run, 3)
    want = score_rollout(expected, run.rollout)
    assert torch.equal(score_rollout(run.reference, run.rollout), want)
    assert not torch.allclose(score_rollout(run.model, run.rollout), want, atol=1e-3)


def test_a_fresh_adapter_needs_no_copy_and_a_pretrained_one_only_its_own():
    assert make_reference(fresh()).frozen is None
    model = pretrained()
    frozen = make_reference(model).frozen
    assert frozen.keys() == trained_tensors(model).keys()
    assert not list(make_reference(model).parameters())


def test_half_a_product_that_is_not_zero_is_not_fresh_even_where_it_is_frozen():
    model = pretrained()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.get_base_model().lm_head.weight.requires_grad_(True)
    assert not adapter_is_fresh(model)


@pytest.mark.parametrize("make", [fresh, pretrained])
def test_scoring_the_reference_gives_weights_flags_and_modes_back_also_after_an_error(make):
    model = make()
    first = next(iter(trained_tensors(model).values()))
    first.requires_grad_(False)  # peft would switch it on again
    reference, before = make_reference(model), copy.deepcopy(model.state_dict())
    flags = [p.requires_grad for p in model.parameters()]
    model.train()
    assert not reference(torch.tensor([[3, 4]])).logits.requires_grad
    with pytest.raises(IndexError):
        reference(torch.tensor([[99]]))
    assert [p.requires_grad for p in model.parameters()] == flags
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_a_synced_reference_is_the_policy():
    run = start(fresh(), beta=1.0)
    take(run, 2)
    sync_reference(run.reference, run.model)
    torch.testing.assert_close(score_rollout(run.reference, run.rollout), score_rollout(run.model, run.rollout))
    assert max(record.kl for record in take(start(fresh(), beta=1.0, ref_sync_every=1), 4)) < 1e-7


@pytest.mark.parametrize("reading", ["eval", "train"])
def test_every_matrix_gets_a_gradient_under_checkpointing(reading):
    plain, saving = pretrained(), pretrained()
    enable_checkpointing(saving)
    getattr(saving, reading)()
    a, b = start(plain), start(saving)
    gradients = {}
    for name, parameter in trained_tensors(saving).items():
        parameter.register_hook(lambda g, name=name: gradients.__setitem__(name, g.abs().max().item()))
    passes = count_passes(saving)
    first, second = next(a), next(b)
    assert gradients.keys() == trained_tensors(saving).keys()
    assert min(gradients.values()) > 0
    assert second.grad_norm == pytest.approx(first.grad_norm, rel=1e-4)
    assert passes["with gradient"] == 2, "the layer was not computed again: checkpointing was off"


def count_passes(model):
    counts = {"with gradient": 0, "without": 0}
    layer = model.get_base_model().model.layers[0].mlp

    def count(*_):
        counts["with gradient" if torch.is_grad_enabled() else "without"] += 1

    layer.register_forward_pre_hook(count)
    return counts


def test_checkpointing_leaves_the_cache_of_sampling_on():
    model = enable_checkpointing(fresh().train())
    lengths = []
    layer = model.get_base_model().model.layers[0]
    layer.register_forward_pre_hook(lambda m, args, kwargs: lengths.append(args[0].shape[1]), with_kwargs=True)
    next(start(model))
    assert lengths.count(1) >= 4, "each new token is computed alone"


def test_a_run_with_an_adapter_is_taken_up_again_and_its_checkpoint_is_small(tmp_path):
    straight = start(pretrained(), beta=0.1)
    take(straight, 4)
    first = start(pretrained(), beta=0.1)
    take(first, 2)
    path = first.save(tmp_path)
    learns = sum(p.numel() for p in trained_tensors(first.model).values())
    assert (path / "policy.safetensors").stat().st_size < 4 * learns + 4000
    assert (path / "reference.safetensors").stat().st_size < 4 * learns + 4000
    second = start(fresh(), beta=0.1)  # its reference is the model without adapter, until the checkpoint says otherwise
    second.load(latest_checkpoint(tmp_path))
    take(second, 2)
    assert second.history == straight.history
    assert torch.equal(flat(second.model.parameters()), flat(straight.model.parameters()))


def test_a_fresh_run_taken_up_again_keeps_the_model_without_adapter_as_reference(tmp_path):
    run = start(fresh(), beta=0.1)
    take(run, 2)
    path = run.save(tmp_path)
    other = start(fresh(), beta=0.1)
    other.load(path)
    assert isinstance(other.reference, AdapterReference) and other.reference.frozen is None
    assert next(other) == next(run)


def test_another_adapter_is_refused(tmp_path):
    path = start(fresh()).save(tmp_path)
    other = start(add_lora(base(), 2))
    with pytest.raises((ValueError, RuntimeError), match="another adapter"):
        other.load(path)


def test_a_saved_adapter_is_loaded_ready_to_learn(tmp_path):
    model = pretrained()
    model.save_pretrained(tmp_path)
    again = load_adapter(base(), tmp_path)
    ids = torch.tensor([[3, 4, 5]])
    torch.testing.assert_close(again(ids).logits, model(ids).logits)
    assert not adapter_is_fresh(again)
    assert next(start(again, beta=0.1)).kl == pytest.approx(0, abs=1e-7)
    frozen = peft.PeftModel.from_pretrained(base(), tmp_path)
    with pytest.raises(ValueError, match="0 trainable parameters.*is_trainable=True"):
        start(frozen)


def test_a_second_adapter_and_a_missing_library_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="has an adapter already"):
        add_lora(fresh())
    with pytest.raises(ValueError, match="rank must be an integer >= 1, got 0"):
        add_lora(base(), 0)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match="pip install peft.*lora=None"):
        add_lora(base())


def test_only_safetensors_of_the_same_model_are_loaded_as_an_adapter(tmp_path):
    with pytest.raises(OSError, match="holds no adapter_config.json"):
        load_adapter(base(), tmp_path / "nowhere")
    model = pretrained()
    model.save_pretrained(tmp_path / "pickled", safe_serialization=False)
    with pytest.raises(OSError, match="holds no adapter_model.safetensors.*only safetensors"):
        load_adapter(base(), tmp_path / "pickled")
    model.save_pretrained(tmp_path / "cut")
    file = tmp_path / "cut" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(OSError, match="is damaged"):
        load_adapter(base(), tmp_path / "cut")


@pytest.mark.parametrize("drop", [True, False], ids=["too few", "too many"])
def test_an_adapter_that_fits_only_in_part_is_refused(tmp_path, drop):
    """peft alone would leave the rest out, or start it afresh."""
    from safetensors.torch import load_file, save_file

    pretrained().save_pretrained(tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if "q_proj.lora_B" in name)
    if drop:
        del tensors[name]
    else:
        tensors[name.replace("layers.0", "layers.7")] = tensors[name].clone()
    save_file(tensors, file)
    with pytest.raises(RuntimeError, match="an adapter of another model: 1 of its matrices.*q_proj.lora_B"):
        load_adapter(base(), tmp_path)


def test_an_old_torchao_beside_it_does_not_keep_peft_from_lora(tmp_path):  # as Colab ships it
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "__init__.py").write_text('__version__ = "0.10.0"')
    told = tmp_path / "torchao-0.10.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: torchao\nVersion: 0.10.0\n")
    code = (
        "from grpo_lib.adapters import add_lora, has_adapter\nfrom grpo_lib.models import load_tiny_policy\n"
        "print(has_adapter(add_lora(load_tiny_policy()[0], 2)))\nimport torchao\nprint(torchao.__name__)"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(grpo_lib.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "torchao"], done.stderr
