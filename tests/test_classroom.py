import random
import subprocess
import sys
import types

import numpy as np
import torch

from grpo_lib import classroom
from grpo_lib.modes import evaluation_mode


def test_setup_seeds_everything_and_says_what_the_machine_is(capsys):
    draws = []
    for _ in range(2):
        machine = classroom.setup(seed=4)
        draws.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert draws[0] == draws[1]
    line = capsys.readouterr().out.splitlines()[0]
    assert machine.device in line and f"torch {torch.__version__}" in line and "1 thread(s)" in line
    assert (machine.threads, machine.dtype, machine.colab) == (1, "float32", False)


def test_numpy_only_setup_does_not_load_torch():
    code = "from grpo_lib import classroom; classroom.setup(torch=False); import sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_colab_is_recognised(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    assert classroom.on_colab()
    assert "Colab" in str(classroom.setup(quiet=True))


def test_evaluation_mode_gives_every_module_its_own_mode_back():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Sequential(torch.nn.Dropout(0.5)))
    model[1].eval()
    before = [m.training for m in model.modules()]
    try:
        with evaluation_mode(model):
            assert not any(m.training for m in model.modules())
            raise RuntimeError
    except RuntimeError:
        pass
    assert [m.training for m in model.modules()] == before == [True, True, False, False]
