"""A run on TRL in two processes of this machine, started from a notebook; or, without TRL, what such a run once said.

    python -m grpo_lib.two_processes      # store it again; needs TRL

It takes half a minute on two free cores.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from functools import lru_cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

__all__ = ["TWO_COMMAND", "run_command", "two_processes"]

TWO_COMMAND = (
    "torchrun --nproc_per_node 2 -m grpo_lib.scale_out --model tiny --out runs/two --steps 5 --batch-size 4 "
    "--num-generations 8 --log-every 1"
)
KEPT = ("step", "reward_mean", "completion_length", "loss", "grad_norm")


def run_command(command, folder, *, timeout=300):
    """Run one of the commands of this course's pages in a folder, with the Python that runs this.

    Args:
        command: as a page shows it; `torchrun` and `python` stand for this Python's own.
        folder: where it runs, and where its `runs` come to lie. timeout: seconds.
    Returns:
        what it printed, without warnings.
    Raises:
        RuntimeError: if it fails, with the end of what it said.
    """
    name, *arguments = command.split()
    start = {"torchrun": ["-m", "torch.distributed.run"], "python": []}
    if name not in start:
        raise ValueError(f"a command begins with torchrun or python, got {name!r}")
    root = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, *start[name], *arguments],
        cwd=folder,
        env=_environment(root),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(f"{command!r} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def two_processes(folder=None):
    """Train the tiny policy for five steps in two processes of this machine; without TRL, tell what was stored.

    Args:
        folder: where to run; None takes a folder that is removed afterwards.
    Returns:
        a dict with "source" ("live" or "stored"), "output" (what the command printed), "processes" (one dict each:
        rank, pid, device, world_size, rows: completions a step that its reward function saw, weights: their SHA-256)
        and "steps" (records: step, reward_mean, completion_length, loss, grad_norm).
    """
    if find_spec("trl") is None:
        return {"source": "stored", **_stored()}
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return two_processes(temporary)
    from grpo_lib.record_files import load_records

    output = run_command(TWO_COMMAND, folder)
    run = Path(folder) / "runs" / "two"
    processes = json.loads((run / "processes.json").read_text(encoding="utf-8"))
    steps = [{name: asdict(record)[name] for name in KEPT} for record in load_records(run)]
    return {"source": "live", "output": output, "processes": processes, "steps": steps}


@lru_cache
def _stored():
    return json.loads((resources.files("grpo_lib") / "data" / "two_processes.json").read_text(encoding="utf-8"))


def _environment(root):
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


if __name__ == "__main__":
    found = two_processes()
    del found["source"]
    for process in found["processes"]:
        process["host"] = "one machine"
    path = Path(__file__).parent / "data" / "two_processes.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(found["output"])
