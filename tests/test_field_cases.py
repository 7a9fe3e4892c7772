"""Faults that people reported and no other test stands for, with their siblings; case_map.json says what is where."""

import itertools
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import tomllib
import torch
from packaging.requirements import Requirement
from tiny_architectures import tiny_architecture
from tiny_models import CountingTokenizer
from transformers import Qwen2Config

from grpo_lib.adapters import trainable_parameters
from grpo_lib.clock import PhaseClock
from grpo_lib.generation import encode_prompts, generate_completions
from grpo_lib.losses import policy_loss
from grpo_lib.masks import create_completion_mask, truncated_completions
from grpo_lib.memory_estimate import _logit_bytes
from grpo_lib.models import load_tiny_policy
from grpo_lib.padding import pad_left
from grpo_lib.prompts import sample_columns
from grpo_lib.records import GRPOSettings
from grpo_lib.rewards import combined_reward
from grpo_lib.rollout import collect_rollout, score_rollout
from grpo_lib.run import GRPORun
from grpo_lib.training import train_with_grpo
from grpo_lib.update import update_policy

ROOT = Path(__file__).parents[1]
TOKENIZER = CountingTokenizer()
SAMPLE = {"prompt": "w3 w4", "answer": "5"}
FAST = {"max_completion_length": 4, "beta": 0.0, "learning_rate": 1e-3}
cut_is_fine = pytest.mark.filterwarnings("ignore:step")


def spread_rewards(prompts, completions, answer):
    return [float(i % 2) for i in range(len(completions))]


def start(data, reward=spread_rewards, **settings):
    model = tiny_architecture("qwen3")
    return GRPORun(model, TOKENIZER, data, GRPOSettings(**{**FAST, **settings}), reward_function=reward)


# ---------------------------------------------------------------- masks and losses


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("ends", [[1, 151_645], (1, 151_645), {1, 151_645}, torch.tensor([1, 151_645])], ids=str)
def test_an_end_token_that_no_row_can_hold_ends_nothing(dtype, ends):
    ids = torch.tensor([[5, 1, 7], [5, 6, 7]], dtype=dtype)
    assert create_completion_mask(ids, ends).tolist() == [[1, 1, 0], [1, 1, 1]]
    assert truncated_completions(ids, ends).tolist() == [False, True]
    assert create_completion_mask(ids, [1, 2**63, -(2**70)]).tolist() == [[1, 1, 0], [1, 1, 1]]


def test_a_mask_is_no_row_of_ids():
    with pytest.raises(TypeError, match="token ids .integers., got dtype torch.bool"):
        create_completion_mask(torch.tensor([[True, False]]), 1)


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo", "cispo", "sapo", "vespo", "luspo"])
@pytest.mark.parametrize("ids", [[[2, 0, 0], [5, 6, 2]], [[2, 0], [2, 0]], [[2], [5]]], ids=["one", "all", "T=1"])
def test_completions_of_one_token_give_a_finite_loss_and_gradient(loss_type, ids):  # M08
    mask = create_completion_mask(torch.tensor(ids), 2)
    log_probs = torch.full(mask.shape, -1.0).requires_grad_()
    options = {"loss_type": loss_type, "beta": 0.1, "max_completion_length": mask.shape[1]}
    loss, _ = policy_loss(log_probs, None, log_probs.detach() - 0.5, torch.tensor([-0.7, 0.7]), mask, **options)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(log_probs.grad).all()
    assert (log_probs.grad[mask == 0] == 0).all() and (log_probs.grad[mask == 1] != 0).all()
    assert combined_reward(["?"], [""], ["5"]) == [0.0]


@pytest.mark.parametrize(
    "options",
    [{}, {"bias_correction_kl": True}, {"loss_type": "dapo"}, {"importance_sampling_level": "sequence"}],
    ids=str,
)
@pytest.mark.parametrize("gap", [200.0, 1e4])
def test_a_policy_far_from_its_reference_stops_a_run_before_its_step(options, gap):  # S11
    run = start([SAMPLE], batch_size=1, **{**options, "beta": 0.04})
    rollout = collect_rollout(run.model, TOKENIZER, [SAMPLE], spread_rewards, max_completion_length=4)
    log_probs = score_rollout(run.model, rollout)
    before = [p.clone() for p in run.model.parameters()]
    clock = PhaseClock(run.device)
    for far in (log_probs + gap, torch.full_like(log_probs, float("nan"))):
        with pytest.raises(FloatingPointError, match="stopped before the optimizer step.*Lower the learning rate"):
            update_policy(run.model, run.optimizer, replace(rollout, ref_log_probs=far), run.settings, 1e-3, clock)
        assert all(torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True))
    near = replace(rollout, ref_log_probs=log_probs + 5.0)
    loss, norm, _ = update_policy(run.model, run.optimizer, near, run.settings, 1e-3, clock)
    assert abs(loss) < 1e3 and 0 < norm < 1e6


@pytest.mark.parametrize(
    ("batch_size", "num_generations", "rows"), [(1, 4, 4), (3, 4, 12), (5, 2, 10), (1, 2, 2), (2, 3, 6)]
)
@cut_is_fine
def test_a_batch_is_counted_in_prompts_whatever_their_groups(batch_size, num_generations, rows):  # T01
    data = [{"prompt": f"w{i}", "answer": "5"} for i in range(2, 9)]
    run = start(data, batch_size=batch_size, num_generations=num_generations)
    next(run)
    assert len(run.rollout) == rows and len(set(run.rollout.prompts)) == batch_size


# ---------------------------------------------------------------- data sets


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "samples must be a list of at least one sample, got None"),
        (7, "samples must be a list of at least one sample, got 7"),
        (iter([SAMPLE]), "samples must be a list of at least one sample"),
        (b"ab", "samples must be a list of at least one sample"),
        ({("w3", "5")}, "samples must be a list of at least one sample"),
        ({"w3": "5"}.items(), "samples must be a list of at least one sample, got dict_items"),
        ([{**SAMPLE, "prompts": "w3"}], "keys must be strings.* none of .* sample 0 has prompts: rename"),
        ([{**SAMPLE, "completions": "w3"}], "keys must be strings.* sample 0 has completions: rename"),
        ([{**SAMPLE, 1: "w3"}], "keys must be strings.* sample 0 has 1: rename"),
        ([SAMPLE, {**SAMPLE, 1: "w3"}], r"same keys: sample 0 has \['answer', 'prompt'\], sample 1 \[1, 'answer'"),
        ([SAMPLE, {**SAMPLE, "prompt": "w3 \ud83d"}], "sample 1: character 3 is half of one .*lone surrogate"),
        (
            [SAMPLE, {**SAMPLE, "prompt": [{"role": "user", "content": "\udfff"}]}],
            "sample 1: character 0 is half of one",
        ),
        (
            [SAMPLE, {**SAMPLE, "prompt": [{"role": "user"}, {"role": "user", "content": "w3"}]}],
            "sample 1: a prompt must",
        ),
        ([SAMPLE, {**SAMPLE, "prompt": ["w2", {"role": "user", "content": "w3"}]}], "sample 1: a prompt must"),
        ([SAMPLE, None], "sample 1 must be a dict .* got None"),
        ([SAMPLE, b"ab"], "sample 1 must be a dict .* got b'ab'"),
        ([SAMPLE, {"w3", "w4"}], "sample 1 must be a dict"),
        ([SAMPLE, 5], "sample 1 must be a dict"),
        ([SAMPLE, {"question": "w3", "answer": "5"}], "sample 1 must be a dict .* got {'question'"),
        ([SAMPLE, {"prompt": "w3", "Answer": "5"}], "sample 1 must be a dict"),
        ([SAMPLE, {**SAMPLE, "prompt": ""}], "sample 1: a prompt must .* hold a text"),
        ([SAMPLE, {**SAMPLE, "prompt": " \n"}], "sample 1: a prompt must"),
        ([SAMPLE, {**SAMPLE, "prompt": None}], "sample 1: a prompt must .* got None"),
        ([SAMPLE, {**SAMPLE, "prompt": 5}], "sample 1: a prompt must"),
        ([SAMPLE, {**SAMPLE, "prompt": []}], "sample 1: a prompt must"),
        ([SAMPLE, {**SAMPLE, "prompt": ["w3"]}], "sample 1: a prompt must"),
        ([SAMPLE, {**SAMPLE, "prompt": [{"role": "user", "content": ""}]}], "sample 1: a prompt must .* last message"),
        ([SAMPLE, {**SAMPLE, "prompt": [{"role": "user", "content": None}]}], "sample 1: a prompt must"),
        ([SAMPLE, {**SAMPLE, "prompt": [{"from": "human", "value": "w3"}]}], "messages with role and content"),
        ([SAMPLE, {**SAMPLE, "prompt": [{"content": "w3"}]}], "messages with role and content"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named_before_the_run_starts(data, message):
    with pytest.raises(ValueError, match=message):
        start(data)
    with pytest.raises(ValueError, match=message):
        sample_columns(data)


def test_messages_without_a_role_are_refused_by_the_template_not_written_without_one():
    _, tokenizer = load_tiny_policy()
    for prompt in ([{"content": "1+1=?"}], []):
        with pytest.raises(TypeError, match="prompt 0 must be a string or a list of messages with role and content"):
            encode_prompts(tokenizer, [prompt])


@pytest.mark.parametrize("content", ["\ud83d", 5, None, [{"type": "image"}]], ids=str)
def test_what_a_tokenizer_or_its_template_cannot_write_is_named(content):
    _, tokenizer = load_tiny_policy()
    with pytest.raises(ValueError, match="prompt 1: (character|the chat template cannot write)"):
        encode_prompts(tokenizer, ["1+1=?", [{"role": "user", "content": content}]])
    for prompts in (None, (text for text in ["1+1=?"])):
        with pytest.raises(ValueError, match="prompts must be a list of at least one prompt"):
            encode_prompts(tokenizer, prompts)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (1e8, 1e8 + 1, r"rewards of group 0 differ by 1 about 1e\+08, which is lost"),
        (-1e16, -1e16 + 4, "rewards of group 0 differ by 4"),
        (0.0, 1e39, r"the reward 1e\+39 in row 1 is too large"),
        (0.0, -1e200, r"the reward -1e\+200 in row 1 is too large"),
        (0.3, 0.1 + 0.2, None),
        (1e7, 1e7 + 1, None),
        (0.0, 1e30, None),
    ],
)
def test_rewards_that_float32_cannot_tell_apart_are_refused(low, high, message):
    run = start([SAMPLE], batch_size=1, reward=lambda completions, **batch: [low, high] * (len(completions) // 2))
    if message:
        with pytest.raises(ValueError, match=message):
            next(run)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert next(run).zero_variance == (high - low < 1e-9)


@cut_is_fine
def test_a_prompt_that_comes_twice_has_two_groups():
    texts = ["w2", "w2", "w9"]
    run = start([{"prompt": text, "answer": "5"} for text in texts], batch_size=3, reward=different_each_time())
    next(run)
    assert sorted(run.rollout.prompts) == sorted(text for text in texts for _ in range(4))
    groups = run.rollout.advantages.view(3, 4)
    torch.testing.assert_close(groups.mean(dim=1), torch.zeros(3))
    assert not torch.equal(groups[0], groups[1])


def different_each_time():
    values = itertools.cycle([0.0, 3.0, 1.0, 1.0, 2.0, 7.0, 5.0])
    return lambda prompts, completions, answer: list(itertools.islice(values, len(completions)))


@cut_is_fine
def test_one_prompt_is_enough_and_said_to_repeat_where_it_must():
    next(start([SAMPLE], batch_size=1))
    with pytest.warns(UserWarning, match=r"holds 1 sample\(s\) and batch_size is 4: prompts repeat"):
        run = start([SAMPLE], batch_size=4)
    next(run)
    assert run.rollout.prompts == [SAMPLE["prompt"]] * 16


# ---------------------------------------------------------------- what a run says aloud


def warned(run, steps):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = [next(run) for _ in range(steps)]
    return [str(warning.message) for warning in caught], records


def constant(value):
    return lambda prompts, completions, answer: [value] * len(completions)


def by_group(prompts, completions, answer):
    return [float(prompt == "w2") for prompt in prompts]


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        (
            constant(0.0),
            ["every completion was cut at max_completion_length = 1", "step 1: within every", "steps 1 to 10"],
        ),
        (by_group, ["every completion was cut at max_completion_length = 1", "step 1: within every", "steps 1 to 10"]),
        (spread_rewards, ["every completion was cut at max_completion_length = 1"]),
    ],
    ids=["all equal", "equal within groups", "spread"],
)
def test_what_teaches_nothing_is_said_once_and_not_on_every_step(reward, says):  # R30, S20
    data = [{"prompt": "w2", "answer": "5"}, {"prompt": "w3", "answer": "5"}]
    run = start(data, reward, batch_size=2, max_completion_length=1)
    run.model.lm_head.register_forward_hook(lambda m, i, out: out - 1e4 * (torch.arange(11) == 1))  # it never ends
    messages, records = warned(run, 14)
    assert len(messages) == len(says) and all(text in message for text, message in zip(says, messages, strict=True))
    if len(says) == 3:
        assert all(record.zero_variance == 1.0 for record in records)
        assert "share of zero-variance groups 1.0" in messages[1]
        assert "share of zero-variance groups 1.00" in messages[2]


@pytest.mark.parametrize(("flat", "said"), [(6, False), (8, True), (10, True)])
def test_the_share_of_groups_that_teach_nothing_is_counted_over_ten_steps(flat, said):
    steps = itertools.count()

    def reward(prompts, completions, answer):
        return [float(i % 2) * (next(steps) // len(completions) >= flat) for i in range(len(completions))]

    messages, _ = warned(start([SAMPLE], reward, batch_size=1), 12)
    found = [message for message in messages if message.startswith("steps ")]
    assert len(found) == said and (not said or f"zero-variance groups {flat / 10:.2f}" in found[0])


def test_nothing_trainable_is_said_with_what_to_do():
    model = tiny_architecture("qwen3").requires_grad_(False)
    with pytest.raises(ValueError, match="0 trainable parameters, so nothing would be learned: set requires_grad"):
        trainable_parameters(model)


def test_a_model_on_two_devices_is_refused():  # T14
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, device="meta"))
    with pytest.raises(ValueError, match="the model lies on cpu, meta; a run uses one device.*device_map"):
        trainable_parameters(model)


@pytest.mark.parametrize("name", ["gpt2", "opt", "qwen3", "mamba"])
@pytest.mark.parametrize("token", [11, -1])
def test_a_token_of_another_models_tokenizer_is_refused(name, token):
    with pytest.raises(
        ValueError, match=f"prompt 1 holds the token id {token}, and the model knows ids from 0 to 10: is"
    ):
        generate_completions(tiny_architecture(name), TOKENIZER, ["w3", f"w4 w{token}"], 2, 4)


@pytest.mark.parametrize("name", ["gpt2", "gptj", "opt", "bart", "gpt_neo", "qwen3", "bloom", "mamba"])
@pytest.mark.parametrize(("words", "length"), [(30, 3), (1, 32), (33, 1)])
@pytest.mark.filterwarnings("ignore:.*reads a prompt differently")
def test_only_positions_in_a_table_run_out_and_that_is_said(name, words, length):
    model, prompts = tiny_architecture(name), ["w3", " ".join(["w3"] * words)]
    if name in ("gpt2", "gptj", "opt", "bart", "gpt_neo"):
        rule = "together more than the 32 positions of the model: lower max_completion_length"
        with pytest.raises(
            ValueError, match=f"has {max(words, 1)} tokens and its completion may have {length}, {rule}"
        ):
            generate_completions(model, TOKENIZER, prompts, 2, length)
        prompts = [" ".join(["w10"] * (32 - 3))]
    ids, _, completions, _ = generate_completions(model, TOKENIZER, prompts, 2, 3)
    assert ids.shape[1] + completions.shape[1] > 3


def test_rows_are_padded_by_place_whatever_ids_they_hold():
    ids, mask = pad_left([[0, 0], [0, 5, 0]], 0)
    assert ids.tolist() == [[0, 0, 0], [0, 5, 0]] and mask.tolist() == [[0, 1, 1], [1, 1, 1]]


# ---------------------------------------------------------------- memory, trackers, samples


@pytest.mark.parametrize(("half", "bytes_each"), [(None, 4), ("bfloat16", 2)])
def test_the_logits_of_a_large_vocabulary_are_counted_before_training(half, bytes_each):  # T12
    settings = GRPOSettings(batch_size=2, num_generations=4, max_completion_length=400, autocast=half)
    got = _logit_bytes(Qwen2Config(vocab_size=151_936), settings, "float32")
    assert got == 8 * (400 + 1) * 151_936 * bytes_each  # one position more than is scored: the last is dropped
    smaller = GRPOSettings(batch_size=2, max_completion_length=400, micro_batch_size=2, autocast=half)
    assert _logit_bytes(Qwen2Config(vocab_size=151_936), smaller, "float32") == got // 4


TRACKERS = ("wandb", "mlflow", "comet_ml", "tensorboard", "neptune", "clearml", "swanlab", "trackio")
TRAINS = """
import sys
sys.path.insert(0, sys.argv[1])
from grpo_lib import addition_reward, load_addition, load_tiny_policy, train_with_grpo
steps = []
settings = dict(reward_function=addition_reward, history=steps)
train_with_grpo(*load_tiny_policy(), load_addition("train"), 1, 1, 2, 8, 0.0, **settings)
sys.exit(len(steps) != 1)
"""


def test_a_run_asks_no_tracker_and_waits_for_no_login(tmp_path):  # T15
    for name in TRACKERS:
        (tmp_path / f"{name}.py").write_text("print('asked for a tracker')\ninput('key: ')\n")
    done = subprocess.run(
        [sys.executable, "-c", TRAINS, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        env={name: value for name, value in os.environ.items() if not name.startswith("WANDB")},
    )
    assert done.returncode == 0, done.stderr
    assert "tracker" not in done.stdout + done.stderr


@cut_is_fine
def test_every_record_keeps_samples_and_a_run_can_be_left_at_any_step():  # T17
    seen = []
    for record in start([SAMPLE], batch_size=1):
        seen += [sample["completion"] for sample in record.samples]
        assert {"prompt", "completion", "reward"} <= set(record.samples[0])
        if record.step == 3:
            break
    assert len(seen) == 12 and all(isinstance(text, str) for text in seen)
    assert "No run stops early by" in train_with_grpo.__doc__


# ---------------------------------------------------------------- notebooks and packages


def code_cells():
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                yield path.name, cell.source


def sources():
    for path in sorted((ROOT / "grpo_lib").glob("*.py")):
        yield path.name, path.read_text(encoding="utf-8")
    yield from code_cells()


def colab_imports(text):
    """Lines that import google.colab without having asked whether it is there, or being ready that it is not."""
    lines = ["", *text.splitlines()]
    pairs = zip(lines, lines[1:], strict=False)
    found = [line for before, line in pairs if before.strip() != "try:"]
    return [line for line in found if re.match(r"\s*(from|import)\s+google\b", line)]


def test_nothing_needs_google_colab():  # W17
    assert colab_imports("x = 1\nfrom google.colab import output") and not colab_imports(
        '"google.colab" in sys.modules\ntry:\n    from google.colab import drive\nexcept ImportError:\n    pass'
    )
    assert {name: found for name, text in sources() if (found := colab_imports(text))} == {}


def test_figures_are_plain_and_never_widgets():  # W02
    assert [name for name, text in sources() if "FigureWidget" in text] == []


def test_the_install_cell_swaps_nothing_that_is_installed():  # W14
    lines = [line.strip() for _, text in code_cells() for line in text.splitlines()]
    installs = [line for line in lines if re.match(r"[%!]\s*pip install", line)]
    assert installs and all("--no-deps" in line for line in installs)


def test_what_draws_a_figure_is_a_dependency():  # W06
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = {bound.name: bound.specifier for bound in map(Requirement, project["dependencies"])}
    assert "nbformat" in bounds and "4.1" not in bounds["nbformat"]


def test_a_page_made_as_the_troubleshooting_says_has_its_figures(tmp_path):  # W09, W10
    page = (ROOT / "notebooks" / "troubleshooting.md").read_text(encoding="utf-8")
    command = re.search(r"PLOTLY_RENDERER=(\w+) jupyter (nbconvert --execute --to html) \S+", page)
    cells = [
        "import plotly.graph_objects as go\ngo.Figure(go.Scatter(y=[1.0, 2.125]))",
        "import ipywidgets\nipywidgets.Tab()",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(book, tmp_path / "a.ipynb")
    subprocess.run(
        [sys.executable, "-m", *command[2].split(), "a.ipynb"],
        cwd=tmp_path,
        env={**os.environ, "PLOTLY_RENDERER": command[1]},
        check=True,
        capture_output=True,
        timeout=300,
    )
    html = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert -1 < html.find("plotly.js v") < html.find("Plotly.newPlot(") and "2.125" in html
    assert "model not found" not in html
