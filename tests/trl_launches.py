"""Real launches: two processes on this CPU, each run once however many tests look at it."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
HERE = TESTS / "on_trl"
COMMAND = (
    *("--model", "tiny", "--steps", "6", "--checkpoint-every", "2", "--log-every", "1", "--batch-size", "2"),
    *("--num-generations", "4", "--reward", "rank_rewards:rank_reward"),
)


def launch(launcher, *arguments, timeout=240, **environ):
    """Run a launcher's command; returns (exit status, all that was written)."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "MASTER_")) and k != "WORLD_SIZE"}
    paths = os.pathsep.join([*map(str, (TESTS.parent, TESTS, HERE)), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", *launcher, *map(str, arguments)],
        env=clean | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environ},
        cwd=tempfile.gettempdir(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,  # a run that hangs is a failure, not a long test
    )
    return done.returncode, done.stdout


TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2")


@functools.cache
def two_ranks():
    """Everything that tests ask of two healthy ranks, in one launch (`two_ranks.py`): its folder."""
    folder = Path(tempfile.mkdtemp(prefix="grpo-two-"))
    status, text = launch(TORCHRUN, HERE / "two_ranks.py", folder)
    assert status == 0, text
    (folder / "output.txt").write_text(text)
    return folder


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))
