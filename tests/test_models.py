"""The tiny policy that ships, the script that builds it, and the hub loader (without a network)."""

import json
import socket
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

import grpo_lib
from grpo_lib import pretrain as pretraining
from grpo_lib.models import build_tiny_tokenizer, load_hub_model, load_tiny_policy, tiny_config
from grpo_lib.tasks import addition_pairs, addition_prompt, careful_completion, load_addition

FOLDER = Path(grpo_lib.__file__).parent / "data" / "tiny_policy"
RECORDED_GREEDY = 0.245  # of the first 200 held-out problems


@pytest.fixture(scope="module")
def policy():
    return load_tiny_policy()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("this test has no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def chat(tokenizer, content):
    messages = [{"role": "user", "content": content}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


# --- the tokenizer ---


@pytest.mark.parametrize("which", ["built", "shipped"])
def test_the_prompt_is_15_tokens(which, policy):
    tokenizer = build_tiny_tokenizer() if which == "built" else policy[1]
    text = chat(tokenizer, "47+38=?")
    assert text == "<|im_start|>user\n47+38=?<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == [
        *("<|im_start|>", "user", "\n", "4", "7", "+", "3", "8", "=", "?", "<|im_end|>", "\n"),
        *("<|im_start|>", "assistant", "\n"),
    ]


def test_the_template_takes_a_whole_conversation():
    text = build_tiny_tokenizer().apply_chat_template(
        [{"role": r, "content": c} for r, c in (("system", "add"), ("user", "1+1=?"), ("assistant", "2"))],
        tokenize=False,
    )
    assert text == (
        "<|im_start|>system\nadd<|im_end|>\n<|im_start|>user\n1+1=?<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n"
    )


def test_task_text_survives_the_round_trip():
    tokenizer = build_tiny_tokenizer()
    texts = [careful_completion(a, b) for a, b in addition_pairs("test")]
    texts += [chat(tokenizer, addition_prompt(a, b)[0]["content"]) for a, b in addition_pairs("test")[:50]]
    texts += ["the user asks: (a*b) - c = 'd'!\n", "<answer>  85  </answer>", "a , b . c ? !"]
    for text in texts:
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


def test_tags_are_one_token_each_and_reach_the_reward():
    tokenizer = build_tiny_tokenizer()
    text = "<think>1</think><answer>2</answer>"
    ids = tokenizer(text + "<|im_end|><|endoftext|>", add_special_tokens=False)["input_ids"]
    assert len(ids) == 8
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_a_character_outside_the_alphabet_is_seen_to_be_lost():
    tokenizer = build_tiny_tokenizer()
    ids = tokenizer("47\u00d738", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == "47\ufffd38"


def test_special_tokens():
    tokenizer = build_tiny_tokenizer()
    assert len(tokenizer) == tiny_config().vocab_size == 61
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|endoftext|>", "<|im_end|>")
    assert tokenizer.pad_token_id == tiny_config().pad_token_id
    assert tokenizer.eos_token_id == tiny_config().eos_token_id
    assert (
        tokenizer.decode(range(10), skip_special_tokens=True) == "userassistantsystem<think></think><answer></answer>"
    )


# --- the shipped policy ---


def test_the_shipped_folder_is_small_and_complete():
    files = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}
    assert wanted <= files.keys() <= wanted | {"chat_template.jinja"}
    assert sum(files.values()) <= 500_000


def test_the_loader_gives_a_trainable_fp32_policy(no_network):
    model, _ = load_tiny_policy("cpu")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in model.parameters())
    assert not model.training
    assert sum(p.numel() for p in model.parameters()) == 102_592
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_each_load_is_a_model_of_its_own(policy):
    other, _ = load_tiny_policy()
    with torch.no_grad():
        other.model.norm.weight.add_(1.0)
    assert not torch.equal(other.model.norm.weight, policy[0].model.norm.weight)


def test_loading_prints_nothing_and_leaves_progress_bars_on(capfd):
    assert transformers.utils.logging.is_progress_bar_enabled()
    load_tiny_policy()
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.is_progress_bar_enabled()


def test_a_package_without_its_data_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("grpo_lib.models.resources.files", lambda name: tmp_path)
    with pytest.raises(FileNotFoundError, match="python -m grpo_lib.pretrain"):
        load_tiny_policy()


def test_the_generation_config_alters_no_sampling(policy):
    kept = json.loads((FOLDER / "generation_config.json").read_text())
    assert {key for key in kept if not key.startswith("_")} <= {"eos_token_id", "pad_token_id", "transformers_version"}
    assert (policy[0].generation_config.eos_token_id, policy[0].generation_config.pad_token_id) == (2, 0)


def test_the_shipped_files_load_through_the_auto_classes(no_network, policy):
    model, tokenizer = load_hub_model(FOLDER, device="cpu", local_files_only=True)
    text = chat(tokenizer, "12+34=?")
    assert text == chat(policy[1], "12+34=?")
    batch = tokenizer(text, return_tensors="pt", add_special_tokens=False)
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, policy[0](**batch).logits)


def test_base_accuracy_is_the_recorded_one(policy):
    shares = pretraining.measure(*policy, load_addition("test")[:200], num_generations=8)
    assert shares["greedy"] == pytest.approx(RECORDED_GREEDY, abs=0.015)
    assert 0.30 <= shares["sampled"] <= 0.45
    assert shares["pass_at_k"] >= 0.80
    assert 0.15 <= shares["reasoning"] <= 0.35
    assert shares["thinking"] >= 0.85 and shares["direct"] <= 0.25


def test_measure_leaves_the_global_generator_alone(policy):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = pretraining.measure(*policy, load_addition("test")[:4], 2)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    assert pretraining.measure(*policy, load_addition("test")[:4], 2) == first


# --- pretraining ---


def test_the_corpus_holds_no_held_out_pair_and_no_twin():
    corpus = pretraining.build_corpus(pretraining.NUM_STEPS * pretraining.BATCH_SIZE, pretraining.SEED)
    assert len(corpus) == 51_200
    asked = {messages[0]["content"] for messages, _ in corpus}
    held_out = set(addition_pairs("test")) | {(b, a) for a, b in addition_pairs("test")}
    assert not asked & {addition_prompt(a, b)[0]["content"] for a, b in held_out}
    assert len(asked) > 8_900  # nearly all of the 9,010 others are there


def test_the_corpus_is_fixed_by_its_seed():
    assert pretraining.build_corpus(100, 1) == pretraining.build_corpus(100, 1)
    assert pretraining.build_corpus(100, 1) != pretraining.build_corpus(100, 2)


def test_labels_cover_the_completion_and_its_end_alone():
    tokenizer = build_tiny_tokenizer()
    texts = ["<answer>75</answer>", "75"]
    input_ids, labels = pretraining.encode_batch(tokenizer, [(addition_prompt(47, 38), text) for text in texts])
    assert input_ids.shape == labels.shape == (2, 15 + 5)
    for row, text in enumerate(texts):
        counted = labels[row] != -100
        assert tokenizer.decode(input_ids[row][counted]) == text + "<|im_end|>"
        assert torch.equal(labels[row][counted], input_ids[row][counted])
        assert counted.nonzero()[0].item() == 15


def test_a_short_pretraining_lowers_the_loss_and_repeats_exactly():
    runs = [pretraining.pretrain(num_steps=40, batch_size=16, seed=1) for _ in range(2)]
    losses = runs[0][2]
    assert len(losses) == 40 and losses[0] == pytest.approx(4.11, abs=0.3)  # ln 61 = 4.11
    assert sum(losses[-5:]) / 5 < 0.5 * losses[0]
    assert losses == runs[1][2]
    for a, b in zip(runs[0][0].parameters(), runs[1][0].parameters(), strict=True):
        assert torch.equal(a, b)
    assert not runs[0][0].training


def test_pretraining_leaves_the_global_generator_alone():
    state = torch.get_rng_state()
    pretraining.pretrain(num_steps=1, batch_size=2)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_script_writes_a_folder_that_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pretrain", "--out", str(tmp_path / "new"), "--seed", "3", "--steps", "2"])
    monkeypatch.setattr(pretraining, "load_addition", lambda split: load_addition(split)[:2])
    pretraining.main()
    assert "greedy" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "new").iterdir()} == {path.name for path in FOLDER.iterdir()}
    weights, shipped = (load_file(folder / "model.safetensors") for folder in (tmp_path / "new", FOLDER))
    assert {k: (v.shape, v.dtype) for k, v in weights.items()} == {k: (v.shape, v.dtype) for k, v in shipped.items()}
    model, _ = load_hub_model(tmp_path / "new", local_files_only=True, device="cpu")
    assert sum(p.numel() for p in model.parameters()) == 102_592


def test_the_rest_of_the_shipped_files_is_what_the_script_writes(tmp_path, policy):
    pretraining.save_policy(policy[0], build_tiny_tokenizer(), tmp_path)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        new, shipped = (json.loads((folder / name).read_text(encoding="utf-8")) for folder in (tmp_path, FOLDER))
        for kept in (new, shipped):
            kept.pop("transformers_version", None)
        if name != "tokenizer_config.json":  # its bookkeeping differs between releases of transformers
            assert new == shipped, name
        else:
            assert (new["pad_token"], new["eos_token"]) == (shipped["pad_token"], shipped["eos_token"])


# --- hub models, from folders ---


@pytest.fixture
def saved(tmp_path):
    """Save a fresh tiny model with a tokenizer; returns its folder."""

    def save(name="model", dtype=torch.float32, **tokenizer_changes):
        torch.manual_seed(0)
        folder = tmp_path / name
        transformers.Qwen3ForCausalLM(tiny_config()).to(dtype).save_pretrained(folder)
        tokenizer = build_tiny_tokenizer()
        for key, value in tokenizer_changes.items():
            setattr(tokenizer, key, value)
        tokenizer.save_pretrained(folder)
        return folder

    return save


def test_weights_are_fp32_whatever_the_file_holds(saved, no_network):
    folder = saved(dtype=torch.bfloat16)
    model, _ = load_hub_model(folder, device="cpu")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert not model.training
    model, _ = load_hub_model(folder, device="cpu", dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_why_fp32_a_small_step_is_lost_in_bf16():
    step = torch.tensor(1e-3)
    assert torch.tensor(1.0).bfloat16() + step.bfloat16() == 1.0
    assert torch.tensor(1.0) + step > 1.0


def test_a_missing_pad_token_becomes_eos_and_nothing_else_changes(saved):
    folder = saved(pad_token=None, padding_side="right")
    plain = transformers.AutoTokenizer.from_pretrained(folder)
    assert plain.pad_token is None
    model, tokenizer = load_hub_model(folder, device="cpu")
    assert tokenizer.pad_token == tokenizer.eos_token == "<|im_end|>"
    assert len(tokenizer) == len(plain) and tokenizer.padding_side == plain.padding_side == "right"
    assert tokenizer.chat_template == plain.chat_template
    assert model.get_input_embeddings().weight.shape[0] == 61


def test_an_existing_pad_token_is_kept(saved):
    assert load_hub_model(saved(), device="cpu")[1].pad_token == "<|endoftext|>"


def test_neither_pad_nor_eos_is_an_error(saved):
    with pytest.raises(ValueError, match="neither a pad nor an eos token"):
        load_hub_model(saved(pad_token=None, eos_token=None), device="cpu")


def test_pickled_weights_are_refused(saved):
    folder = saved()
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="as safetensors"):
        load_hub_model(folder, device="cpu", local_files_only=True)


def test_code_of_a_checkpoint_is_not_run(saved):
    folder = saved()
    config = json.loads((folder / "config.json").read_text())
    config.update(model_type="own", auto_map={"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    with pytest.raises(ValueError, match="trust_remote_code"):
        load_hub_model(folder, device="cpu", local_files_only=True)
    assert not (folder / "ran").exists()


def test_without_a_network_the_error_says_which_way_works(no_network):
    with pytest.raises(OSError, match=r"(?s)'nobody/no-such-model'.*load_tiny_policy\(\)"):
        load_hub_model("nobody/no-such-model", local_files_only=True)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises((OSError, ValueError), match="nowhere"):
        load_hub_model(tmp_path / "nowhere", local_files_only=True)
