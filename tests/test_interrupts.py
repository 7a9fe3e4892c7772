"""The stop button: an interrupt the kernel would ignore ends a block once; whoever else listens keeps listening."""

import signal
import threading
from types import SimpleNamespace

import pytest
import torch
from tiny_models import CountingTokenizer, tiny_model

import grpo_lib.update
from grpo_lib import GRPORun, GRPOSettings
from grpo_lib.interrupts import ignore_again, interruptible

DATA = [{"prompt": f"w{i} w{j}", "answer": "w5"} for i in range(2, 6) for j in range(2, 5)]


def count_w5(prompts, completions, answer):
    return [float(text.split().count("w5")) for text in completions]


@pytest.fixture
def ignored():
    """SIGINT as ipykernel leaves it between two cells; afterwards as it was."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    ignore_again()
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_block_once_and_is_heard_in_the_gaps(ignored):
    heard, reached = [], []
    signal.raise_signal(signal.SIGINT)  # nobody listens
    with pytest.raises(KeyboardInterrupt):
        with interruptible(lambda: heard.append("in")):
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)  # a second press while it clears up
                reached.append(True)
    assert heard == ["in", "in"] and reached == [True]
    signal.raise_signal(signal.SIGINT)
    assert len(heard) == 3
    with interruptible(lambda: heard.append("again")):
        pass
    signal.raise_signal(signal.SIGINT)
    assert heard[3:] == ["again"]
    ignore_again()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.raise_signal(signal.SIGINT)
    assert len(heard) == 4


def test_an_interrupt_that_was_swallowed_can_be_repeated(ignored, monkeypatch):
    clock = iter([100.0, 100.5, 101.5])
    monkeypatch.setattr("grpo_lib.interrupts.time.monotonic", lambda: next(clock))
    tries = 0
    with pytest.raises(KeyboardInterrupt):
        with interruptible(lambda: None):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                tries += 1  # a reward function that tries on whatever happens
            signal.raise_signal(signal.SIGINT)  # half a second later: may be the same press
            tries += 1
            signal.raise_signal(signal.SIGINT)
            tries += 1
    assert tries == 2


@pytest.mark.parametrize("other", [signal.default_int_handler, signal.SIG_DFL, lambda *_: None])
def test_who_else_listens_is_left_in_place(ignored, other):
    signal.signal(signal.SIGINT, other)
    with interruptible(lambda: None):
        assert signal.getsignal(signal.SIGINT) is other
    ignore_again()
    assert signal.getsignal(signal.SIGINT) is other


def test_in_another_thread_the_block_just_runs(ignored):
    done = []

    def work():
        with interruptible(lambda: None):
            done.append(signal.getsignal(signal.SIGINT))
        ignore_again()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.SIG_IGN]


# --- a run of GRPO that is cut in the middle of a step


def start(**settings):
    torch.manual_seed(0)
    model = tiny_model("qwen3", initializer_range=0.6).eval()
    settings = dict(batch_size=2, max_completion_length=4, learning_rate=1e-3, max_grad_norm=1.0) | settings
    return GRPORun(model, CountingTokenizer(), DATA, GRPOSettings(**settings), reward_function=count_w5)


@pytest.mark.filterwarnings("ignore:step .* every completion was cut")
@pytest.mark.parametrize("autocast", [None, "bfloat16", "float16"])
@pytest.mark.parametrize(
    "place", ["torch.Tensor.backward", "torch.nn.utils.clip_grad_norm_", "torch.optim.AdamW.step", "reward"]
)
def test_a_step_that_is_cut_is_taken_again_as_if_nothing_had_been(place, autocast, monkeypatch):
    run, whole = start(autocast=autocast), start(autocast=autocast)
    next(run), next(whole)
    with monkeypatch.context() as patch:

        def cut(*args, **kwargs):
            raise KeyboardInterrupt

        patch.setattr(*((run, "reward_function", cut) if place == "reward" else (place, cut)))
        with pytest.raises(KeyboardInterrupt):
            next(run)
    assert [record.step for record in run.history] == [1]
    assert next(run) == next(whole), "the same prompts, draws, loss and gradient as if nothing had been cut"
    assert next(run) == next(whole)


@pytest.mark.filterwarnings("ignore:step .* every completion was cut")
def test_after_a_loss_that_is_not_finite_a_float16_run_can_be_taken_up(monkeypatch):
    run = start(autocast="float16")
    with monkeypatch.context() as patch:
        patch.setattr(grpo_lib.update, "math", SimpleNamespace(inf=float("inf"), isfinite=lambda _: False))
        with pytest.raises(FloatingPointError, match="before the optimizer step"):
            next(run)
    assert next(run).step == 1
