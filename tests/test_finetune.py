"""Three sizes of machine, one path: each plan is taken through all of it on a CPU, with a small stand-in model."""

import itertools
import json
import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch
import transformers

from grpo_lib import finetune_data
from grpo_lib.adapters import has_adapter
from grpo_lib.devices import GB, MachineMemory, choose_precision
from grpo_lib.finetune import FinetunePlan, choose_size, plan_run, run_folder
from grpo_lib.finetune_data import TASKS, FinetuneData, first_number_match, load_task, tag_match
from grpo_lib.finetune_results import compare_looks, judge_while_training, look, look_once
from grpo_lib.keeping import keep_run, take_up
from grpo_lib.memory_estimate import check_memory
from grpo_lib.models import build_tiny_tokenizer, tiny_config
from grpo_lib.presets import PRESETS
from grpo_lib.reward_checks import completion_text
from grpo_lib.run import GRPORun

pytestmark = [
    pytest.mark.filterwarnings("ignore:step .*"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]
LAPTOP = MachineMemory("cpu", "CPU", int(12 * GB), int(16 * GB))
T4 = MachineMemory("cuda", "T4", int(15 * GB), int(15.8 * GB))
L4 = MachineMemory("cuda", "L4", int(23.5 * GB), int(24 * GB), native_bf16=True)
A100 = MachineMemory("cuda", "A100", int(84 * GB), int(85 * GB), native_bf16=True)


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A folder with a model of random weights, which writes any token at any time."""
    folder = tmp_path_factory.mktemp("stand-in")
    torch.manual_seed(0)
    transformers.Qwen3ForCausalLM(tiny_config()).save_pretrained(folder)
    build_tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """A folder with GSM8K's two files: 40 problems to train on, 12 to test with."""
    folder = tmp_path_factory.mktemp("gsm8k")
    for split, numbers in (("train", range(40)), ("test", range(100, 112))):
        rows = [{"question": f"{n} and {n}?", "answer": f"{n}+{n}\n#### {2 * n}"} for n in numbers]
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return str(folder)


def small_plan(size, stand_in, problems):
    """A plan of each size that a CPU can take in seconds: the stand-in for the model, few steps and problems."""
    few = {"num_steps": 4, "batch_size": 2, "num_generations": 4, "max_completion_length": 8}
    if size == "gpu":  # a T4's plan: LoRA on a half-precision base, scaled losses; on the CPU
        pytest.importorskip("peft")
        plan = plan_run(
            size, machine=T4, model=stand_in, device="cpu", data=problems, max_prompt_length=400, **few, warmup_steps=1
        )
    else:
        plan = plan_run(size, machine=LAPTOP, model=stand_in if size == "smollm2" else None, **few)
    return replace(plan, eval_every=2, checkpoint_every=2, num_picking=4, num_test=6)


def lively(reward):
    """The reward, and a hundredth for each digit: so that random weights have something to learn from."""

    def paid(prompts, completions, answer, **kwargs):
        digits = [sum(c.isdigit() for c in completion_text(text)) / 100 for text in completions]
        return [a + b for a, b in zip(reward(prompts, completions, answer), digits, strict=True)]

    return paid


@pytest.mark.parametrize("size", ["tiny", "smollm2", "gpu"])
def test_each_size_goes_the_whole_path(size, stand_in, problems, tmp_path):
    plan = small_plan(size, stand_in, problems)
    assert plan.size == size and size in str(plan)
    config = plan.load_config()
    assert str(plan.choose_precision(config)).startswith("cuda: float16" if size == "gpu" else "cpu: float32")
    estimate = plan.estimate(config)
    assert estimate.peak > 0 and "% of the" in check_memory(estimate, plan.machine)

    data = plan.load_data()
    assert (len(data.picking), len(data.test)) == (4, 6)
    model, tokenizer = plan.load()
    assert has_adapter(model) is (size == "gpu")
    before = look_once(tmp_path / "before.json", plan, model, tokenizer, data.test)
    assert set(before["greedy"].right) >= {"strict"} and before["greedy"].right["strict"].shape == (6, 1)

    keep = keep_run(
        tmp_path,
        evaluate=judge_while_training(plan, data.picking),
        eval_every=plan.eval_every,
        best_metric="strict",
        checkpoint_every=plan.checkpoint_every,
        keep_last=plan.keep_last,
    )

    def start():
        return GRPORun(*plan.load(), data.train, plan.settings, reward_function=lively(plan.task.reward))

    run = start()
    assert take_up(run, tmp_path, quiet=True) == 0
    for record in itertools.islice(run, 2):
        keep(run, record)
    unbroken = [next(run) for _ in range(2)]  # not saved: as if the machine were taken away
    again = start()
    assert take_up(again, tmp_path, quiet=True) == 2
    assert [next(again) for _ in range(2)] == unbroken, "a run taken up is the run that was not broken"
    keep(again, again.history[-1])
    assert set(again.history[-1].evaluation) == set(plan.task.judges)
    assert again.history[0].kl == pytest.approx(0, abs=1e-6) and again.history[-1].kl is not None

    best, tokenizer = plan.load_best(tmp_path)
    after = look(plan, best, tokenizer, data.test)
    assert len(compare_looks(before, after)) == 2 * len(plan.task.judges)
    saved = sum(f.stat().st_size for f in next(iter(sorted(tmp_path.glob("step-*")))).glob("*.safetensors"))
    assert saved == pytest.approx(plan.checkpoint_bytes(estimate), rel=0.05)


# ---- the size, the plan


@pytest.mark.parametrize(
    ("size", "machine", "expected"),
    [
        ("auto", LAPTOP, "tiny"),
        ("auto", T4, "gpu"),
        ("auto", replace(T4, free=int(4 * GB)), "tiny"),
        ("auto", MachineMemory("cuda", "small", int(11.5 * GB), int(12 * GB)), "tiny"),
        ("auto", MachineMemory("mps", "Apple GPU", int(64 * GB), int(64 * GB)), "tiny"),
        ("smollm2", T4, "smollm2"),
        ("tiny", A100, "tiny"),
    ],
)
def test_the_size_is_the_machines_or_the_asked_one(size, machine, expected):
    assert choose_size(size, machine) == expected


def test_a_size_that_cannot_be_is_refused_with_what_works():
    with pytest.raises(ValueError, match=r"needs a CUDA GPU.*size='smollm2'"):
        plan_run("gpu", machine=LAPTOP)
    with pytest.raises(ValueError, match="size must be one of"):
        plan_run("huge")
    with pytest.raises(ValueError, match="data is a folder of GSM8K's form"):
        plan_run("tiny", machine=LAPTOP, data="somewhere")
    with pytest.raises(TypeError, match="lerning_rate"):
        plan_run("tiny", machine=LAPTOP, lerning_rate=1)


@pytest.mark.parametrize(("machine", "name"), [(T4, "T4"), (L4, "L4"), (A100, "A100 80 GB")])
def test_a_gpus_plan_is_its_preset(machine, name):
    plan, preset = plan_run("gpu", machine=machine), PRESETS[name]
    assert {key: getattr(plan.settings, key) for key in preset.training} == preset.training
    assert {key: plan.loading[key] for key in preset.loading} == preset.loading
    assert plan.loading["device"] == "cuda" and plan.settings.track_kl
    lora = preset.loading["lora"] is not None
    assert plan.settings.learning_rate == (5e-5 if lora else 5e-6)
    assert plan.keep_last == (3 if lora else 1)


def test_lora_and_settings_can_be_asked_for():
    plan = plan_run("gpu", machine=L4, lora=8, beta=0.0, num_steps=30)
    assert (plan.loading["lora"], plan.loading["dtype"], plan.settings.learning_rate) == (8, "bfloat16", 5e-5)
    assert (plan.settings.beta, plan.num_steps, plan.eval_every) == (0.0, 30, 25)
    whole = plan_run("gpu", machine=L4, lora=None)
    assert (whole.loading["lora"], whole.loading["dtype"], whole.settings.learning_rate) == (None, "float32", 5e-6)
    assert "LoRA of rank 8 learns" in str(plan) and "all weights learn" in str(whole)


def test_all_weights_on_a_t4_are_its_preset_for_that():
    """Without checkpointing and with twice the micro-batch the estimate is 18.5 GB, on a GPU of 15.8."""
    plan, preset = plan_run("gpu", machine=T4, lora=None), PRESETS["T4, all weights"]
    assert plan.loading == {**preset.loading, "device": "cuda"}
    assert plan.settings.micro_batch_size == preset.training["micro_batch_size"] == 4


def test_a_small_gpu_with_native_bfloat16_is_planned_as_the_picker_chooses():
    small = MachineMemory("cuda", "16 GB", int(15.5 * GB), int(16.9 * GB), native_bf16=True)
    for lora in ("preset", 8, None):
        plan = plan_run("gpu", machine=small, lora=lora)
        choice = choose_precision(small, 494_000_000, lora=plan.loading["lora"] is not None)
        assert (plan.loading["dtype"], plan.settings.autocast) == (choice.dtype, choice.autocast), lora
    assert PRESETS["T4"].loading["dtype"] == "float16"


def test_a_base_is_half_precision_only_where_autocast_scales_the_loss():
    for size, machine in (("smollm2", T4), ("tiny", T4), ("smollm2", LAPTOP)):
        plan = plan_run(size, machine=machine, lora=8)
        assert (plan.loading["dtype"], plan.settings.autocast) == ("float32", None)
    with pytest.raises(ValueError, match="lora must be an integer >= 1, got 0, a rank; None"):
        plan_run("smollm2", machine=LAPTOP, lora=0)


def test_a_plan_can_be_changed():
    plan = replace(plan_run("tiny", machine=LAPTOP), num_test=50)
    assert isinstance(plan, FinetunePlan) and len(plan.load_data().test) == 50


# ---- data


def test_no_problem_stands_in_two_parts():
    data = plan_run("tiny", machine=LAPTOP).load_data()
    parts = [{str(sample["prompt"]) for sample in part} for part in (data.train, data.picking, data.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 8946 + 64 + 200


def test_what_would_stop_a_run_half_way_is_left_out_and_counted(problems):
    train, picking, test = load_task(TASKS["gpu"], problems, num_picking=4)
    long = {"prompt": [{"role": "user", "content": "x" * 500}], "answer": "1"}
    data = FinetuneData.fitting(build_tiny_tokenizer(), [*train, long, picking[0]], picking, test, limit=400)
    assert data.train == train
    assert str(data) == (
        "36 to train on, 4 to pick a checkpoint by, 12 to report on; left out of training: "
        "1 that also stand in the other parts, 1 with a prompt of more than 400 tokens"
    )
    with pytest.raises(ValueError, match="no problem is left to train on: of 1"):
        FinetuneData.fitting(build_tiny_tokenizer(), [long], picking, test, limit=400)


def test_what_stands_in_the_test_is_not_picked_by(problems):
    train, picking, test = load_task(TASKS["gpu"], problems, num_picking=4)
    data = FinetuneData.fitting(build_tiny_tokenizer(), train, [*picking, *test[:3]], test)
    assert data.picking == picking and "left out of picking: 3 of the test" in str(data)
    with pytest.raises(ValueError, match="all 3 problems to pick a checkpoint by stand in the test too"):
        FinetuneData.fitting(build_tiny_tokenizer(), train, test[:3], test)
    with pytest.raises(ValueError, match="num_picking must be an integer >= 2, got 0"):
        replace(plan_run("tiny", machine=LAPTOP), num_picking=0).load_data()


def test_too_few_problems_are_refused(problems):
    with pytest.raises(ValueError, match="holds 40 problems: 39 to pick by leave too few"):
        load_task(TASKS["gpu"], problems, num_picking=39)
    with pytest.raises(ValueError, match="num_test must be an integer >= 2, got 1, or None for all"):
        load_task(TASKS["gpu"], problems, num_test=1)


def test_the_strict_judge_reads_the_tag_alone():
    texts = ["<answer>70</answer>", "<answer> $70.0 </answer>", "70", "<answer>71</answer>", "<answer></answer> 70"]
    assert tag_match(["?"] * 5, texts, ["70"] * 5) == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_the_lenient_judge_of_words_takes_the_first_number():
    right = [" 13.", " thirteen, I think", " is thirteen", "Thirteen", " answer-13"]
    wrong = [" 3.", " three", " 13.5", " 1,300", " thirteenth", " 12 or 13", "", " 013", " -13", " \u221213."]
    assert first_number_match(["?"] * 5, right, [13] * 5) == [1.0] * 5
    assert first_number_match(["?"] * 10, wrong, ["13"] * 10) == [0.0] * 10


def test_tasks_are_those_of_the_sizes():
    assert TASKS.keys() == {"tiny", "smollm2", "gpu"}
    assert all(set(task.judges) == {"strict", "lenient"} for task in TASKS.values())
    assert finetune_data.TASKS["gpu"].reads_files


# ---- where it is kept


def test_a_tiny_run_is_kept_in_a_folder_of_its_own_and_others_beside_the_notebook():
    plan = plan_run("tiny", machine=LAPTOP)
    first, second = run_folder(plan), run_folder(plan)
    assert first != second and first.is_dir() and not list(first.iterdir())
    first.rmdir(), second.rmdir()
    assert run_folder(plan_run("gpu", machine=T4)).as_posix() == "runs/gpu"


def test_drive_is_mounted_where_there_is_one(monkeypatch):
    plan, mounted = plan_run("gpu", machine=T4), []
    with pytest.raises(ValueError, match="on_drive needs Colab"):
        run_folder(plan, on_drive=True)
    colab = ModuleType("google.colab")
    colab.drive = ModuleType("drive")
    colab.drive.mount = mounted.append
    monkeypatch.setitem(sys.modules, "google", ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    assert run_folder(plan, on_drive=True).as_posix() == "/content/drive/MyDrive/grpo-book/gpu"
    assert mounted == ["/content/drive"]
