"""A file of weights is looked at before anything changes, and a full disk is told as one."""

import copy
import sys

import pytest
import torch
from tiny_models import DECODER, CountingTokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

from grpo_lib.checkpoints import latest_checkpoint, list_checkpoints
from grpo_lib.training import GRPORun, GRPOSettings
from grpo_lib.weight_files import check_fits, load_weights, save_weights

pytestmark = pytest.mark.filterwarnings("ignore:step .*")
DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]


def model(**changes):
    torch.manual_seed(0)
    shape = {**DECODER, "head_dim": 4, "tie_word_embeddings": False, "initializer_range": 0.6, "eos_token_id": 1}
    return Qwen3ForCausalLM(Qwen3Config(**{**shape, **changes})).eval()


def start(model):
    def count_w5(prompts, completions, answer):
        return [float(text.split().count("w5")) for text in completions]

    settings = GRPOSettings(batch_size=3, max_completion_length=6, learning_rate=1e-2, beta=0.1)
    return GRPORun(model, CountingTokenizer(), DATA, settings, reward_function=count_w5)


@pytest.mark.parametrize(
    "changes", [{"vocab_size": 20}, {"hidden_size": 16}, {"num_hidden_layers": 2}, {"intermediate_size": 48}]
)
def test_a_checkpoint_of_another_shape_changes_neither_weights_nor_optimizer(tmp_path, changes):
    run = start(model())
    next(run)
    path, other = run.save(tmp_path), start(model(**changes))
    before = copy.deepcopy((other.model.state_dict(), other.reference.state_dict(), other.optimizer.state_dict()))
    with pytest.raises(RuntimeError, match="policy.safetensors holds another model than the run's: .* such as"):
        other.load(path)
    after = (other.model.state_dict(), other.reference.state_dict())
    for old, new in zip(before[:2], after, strict=True):
        assert all(torch.equal(old[name], tensor) for name, tensor in new.items())
    assert before[2] == other.optimizer.state_dict() and other.history == []
    next(other)


def test_a_file_of_tied_weights_fits_a_tied_model_alone(tmp_path):
    tied, loose = model(tie_word_embeddings=True), model()
    save_weights(tied, tmp_path / "tied.safetensors")
    check_fits(tied, tmp_path / "tied.safetensors")
    with pytest.raises(RuntimeError, match=r"1 tensors differ, such as (lm_head|model.embed_tokens).weight"):
        check_fits(loose, tmp_path / "tied.safetensors")
    again = model(tie_word_embeddings=True)
    load_weights(again, tmp_path / "tied.safetensors")
    assert torch.equal(again.lm_head.weight, tied.lm_head.weight)


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of a file there")
def test_a_disk_that_fills_up_is_told_and_leaves_the_last_good_checkpoint(tmp_path):
    import resource
    import signal

    run = start(model(intermediate_size=2000))
    next(run)
    path = run.save(tmp_path)
    next(run)
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"cannot be written \(.*saved there before is whole.*take the run up again"):
            run.save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert list_checkpoints(tmp_path) == [path] == list(tmp_path.iterdir())
    start(model(intermediate_size=2000)).load(latest_checkpoint(tmp_path))


def test_a_state_that_lacks_what_it_must_hold_is_named(tmp_path):
    run = start(model())
    path = run.save(tmp_path)
    (path / "state.json").write_text("{}")
    with pytest.raises(ValueError, match="state.json is damaged .it lacks numpy_rng, optimizer, python_rng.*delete"):
        run.load(path)
