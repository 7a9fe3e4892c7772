"""The live panel in a real kernel: the stop button, and what is left in memory when its cell is run again."""

import time

SETUP = """
import asyncio, itertools, signal, time, warnings, weakref
from pathlib import Path
import torch; torch.set_num_threads(1)
from grpo_lib import GRPORun, GRPOSettings, LivePanel, addition_reward, live_run, load_addition, load_tiny_policy
warnings.simplefilter("ignore")
settings = GRPOSettings(batch_size=2, num_generations=2, max_completion_length=4, beta=0.0, learning_rate=1e-4,
                        track_kl=True)
hang = None
def reward(**columns):
    global hang
    if hang is not None:
        Path(hang).touch()
        hang = None
        time.sleep(30)
    return addition_reward(**columns)
models = []
def factory():
    model, tokenizer = load_tiny_policy()
    models.append(weakref.ref(model))
    return model, tokenizer
def make(**options):
    return LivePanel(factory, load_addition("train"), settings, reward_function=reward, **options)
def alone(steps):
    run = GRPORun(*load_tiny_policy(), load_addition("train"), settings, reward_function=addition_reward)
    return list(itertools.islice(run, steps))
def between():  # how SIGINT is handled while no cell runs
    found = []
    async def look():
        await asyncio.sleep(0.05)
        found.append(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
    task = asyncio.get_running_loop().create_task(look())
    return found, task
alive = lambda: sum(model() is not None for model in models)
"""


def test_the_stop_button_ends_a_hanging_step_and_the_run_goes_on_as_if_nothing_had_been(kernel, tmp_path):
    kernel.run(SETUP)
    kernel.run("panel = make(); panel.show(); panel.start()")
    kernel.wait("len(panel.history) > 2")
    kernel.run(f"hang = {str(tmp_path / 'hangs')!r}")
    while not (tmp_path / "hangs").exists():
        time.sleep(0.05)
    kernel.interrupt()
    assert kernel.run("print(panel.running, panel.error, ', paused' in panel._view.status.value)") == "False None True"
    taken = int(kernel.run("look, _ = between(); print(len(panel.history))"))
    kernel.wait("look == [True]")
    kernel.interrupt()  # nothing trains: nothing happens
    assert int(kernel.run("panel.start(); print(len(panel.history))")) == taken
    kernel.wait(f"len(panel.history) > {taken + 2}")
    assert kernel.run("panel.pause(); print(panel.history == alone(len(panel.history)))") == "True"


def test_the_stop_button_is_heard_between_two_steps_too(kernel):
    kernel.run(SETUP)
    kernel.run("live_run.GAP = 0.7; panel = make(); panel.start()")
    kernel.wait("len(panel.history) == 1")
    time.sleep(0.1)
    kernel.interrupt()
    time.sleep(1)
    assert kernel.run("print(panel.running, len(panel.history), panel.error)") == "False 1 None"
    kernel.run("live_run.GAP = 0.01; panel.start()")
    kernel.wait("len(panel.history) > 3")
    kernel.run("panel.close(); look, _ = between()")
    kernel.wait("look == [True]")


def test_a_cell_run_again_frees_the_models_it_made_even_those_that_out_keeps(kernel):
    kernel.run(SETUP)
    cell = "panel = make(); _ = panel.run(2)\npanel"
    for _ in range(4):
        kernel.run(cell)  # a front end that does not name its cells
    assert kernel.run("print(len(models), alive())") == "4 1"
    kernel.run("other = make(); _ = other.run(1)\nother")  # another cell: both live
    assert kernel.run("print(alive(), len(panel.model.state_dict()) > 0)") == "2 True"
    kernel.run("models.clear()")
    for beta in (0.1, 0.2, 0.3):  # named, and changed before it is run again
        kernel.run(f"third = make(); third.beta.value = {beta}; _ = third.run(1)\nthird", cellId="three")
        kernel.run(f"fourth = make(); fourth.beta.value = {beta}; _ = fourth.run(1)\nfourth", colab={"cell_id": "four"})
    assert kernel.run("print(len(models), alive())") == "6 2"
    kernel.run("old, kept = third, third.model")
    kernel.run("third = make()\nthird", cellId="three")
    said = "len(old.history), old.changes[0].new, old.running, len(old.figure().data[0].x), old.box.comm"
    assert kernel.run(f"print({said})") == "1 0.3 False 1 None"
    assert kernel.run("print(alive(), kept is models[-3]())") == "3 True"
    assert "model = panel.model" in kernel.run("try: old.model\nexcept RuntimeError as e: print(e)")


def test_an_error_does_not_keep_the_model_it_met(kernel):
    kernel.run(SETUP)
    cell = (
        "panel = make(on_step=lambda run, record: 1 / 0)\ntry: panel.run(1)\nexcept ZeroDivisionError as e: kept = e\n"
    )
    kernel.run(cell)
    kernel.run(cell)
    assert kernel.run("print(alive(), panel.error is kept)") == "1 True"
