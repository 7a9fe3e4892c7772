"""How many processes of a run there really are, where they compute, and what the others say when one of them stops.

torchrun and `accelerate launch` start the processes, and accelerate joins them; here they are only counted and named.
"""

import json
import os
import re
import signal
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "OwnError",
    "ProcessStopped",
    "describe_processes",
    "launched_processes",
    "list_processes",
    "process_rank",
    "stop_clearly",
    "visible_gpus",
    "write_processes",
]

TWO = "torchrun --nproc_per_node 2 -m grpo_lib.scale_out …"
PEER = re.compile(  # what gloo and NCCL say to a process whose neighbour is gone
    r"closed by peer|reset by peer|broken pipe|remote (?:process|error)|socket (?:timeout|closed|error)|"
    r"timed out waiting|recv.* timeout|NCCL (?:error|communicator was aborted)|collective operation timeout",
    re.IGNORECASE,
)


class ProcessStopped(RuntimeError):
    """This process has to stop because another one did, or because the launcher says so."""


class OwnError(RuntimeError):
    """A failure of the run's own code, whatever its words: no sign that another process is gone."""


class _ToldToStop(BaseException):
    """SIGTERM arrived. No Exception: a reward function, or what calls it, must not take it for a failure of its own."""


def launched_processes(environ=os.environ, gpus=0):
    """Tell how many processes the launcher started, and refuse a launch that would not do what it was asked for.

    Args:
        environ: the environment variables, in which torchrun and accelerate leave their numbers.
        gpus: how many GPUs this process sees.
    Returns:
        the number of processes of the run, 1 without a launcher.
    Raises:
        RuntimeError: if `accelerate launch` was asked for several processes and started one (it does with --cpu), or
            if one process alone sees several GPUs.

    >>> launched_processes({}), launched_processes({"WORLD_SIZE": "2"})
    (1, 2)
    >>> launched_processes({"ACCELERATE_USE_CPU": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})
    Traceback (most recent call last):
    RuntimeError: accelerate launch was asked for several processes, but started this one alone: ...
    """
    world = int(environ.get("WORLD_SIZE", 1))
    mpi = any(int(environ.get(name, 1)) > 1 for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"))
    # its launcher for one process gives these two an address when it was asked for more, and no process a WORLD_SIZE
    alone = "WORLD_SIZE" not in environ and not mpi
    if alone and "ACCELERATE_USE_CPU" in environ and "MASTER_ADDR" in environ:
        raise RuntimeError(
            "accelerate launch was asked for several processes, but started this one alone: with --cpu it always does, "
            f"without a word. Start them with {TWO} (or, if one process is what you want, take away --num_processes "
            "and the environment variable MASTER_ADDR)"
        )
    if alone and gpus > 1:
        raise RuntimeError(
            f"{gpus} GPUs are visible, but one process runs, which would use one of them: start one process a GPU "
            f"with torchrun --nproc_per_node {gpus} -m grpo_lib.scale_out …, or show it one GPU with "
            "CUDA_VISIBLE_DEVICES=0"
        )
    return world


def visible_gpus(options):
    """Count the GPUs that this process may use: none where the options say `use_cpu`.

    >>> visible_gpus({"use_cpu": True})
    0
    """
    import torch

    return 0 if options.get("use_cpu") else torch.cuda.device_count()


def process_rank(environ=os.environ):
    """This process's number, 0 without a launcher.

    >>> process_rank({}), process_rank({"RANK": "1"})
    (0, 1)
    """
    return int(environ.get("RANK", 0))


def list_processes(**facts):
    """Gather one dict a process, in the order of their ranks: rank, world_size, pid, host, device, and `facts`.

    Every process of the run must call this at the same place; each gets the whole list.
    """
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState()
    own = {"rank": state.process_index, "world_size": state.num_processes, "pid": os.getpid()}
    own |= {"host": socket.gethostname(), "device": str(state.device), "backend": state.backend}
    return gather_object([own | facts])


def write_processes(folder, processes):
    """Write `processes.json` into a run's folder, in one go."""
    draft = Path(folder) / ".processes.draft"
    draft.write_text(json.dumps(processes, indent=1), encoding="utf-8")
    draft.replace(Path(folder) / "processes.json")


def describe_processes(processes):
    """Say in one line how many processes run, where, and how they speak with each other.

    >>> describe_processes([{"pid": 7, "device": "cpu", "backend": None}])
    '1 process: pid 7 on cpu'
    >>> describe_processes([{"pid": p, "device": f"cuda:{i}", "backend": "nccl"} for i, p in enumerate((7, 8))])
    '2 processes over nccl: pid 7 on cuda:0, pid 8 on cuda:1'
    """
    several = len(processes) > 1
    head = f"{len(processes)} processes over {processes[0]['backend']}" if several else "1 process"
    return f"{head}: " + ", ".join(f"pid {one['pid']} on {one['device']}" for one in processes)


@contextmanager
def stop_clearly(advice):
    """Turn what a process meets when another one is gone into one error that says so.

    Args:
        advice: a function without arguments: how far the run came, and how to take it up.
    Raises:
        ProcessStopped: in place of gloo's or NCCL's own error, or when the launcher ends this process (SIGTERM).
    """

    def told_to_stop(number, frame):
        raise _ToldToStop

    catches = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, told_to_stop) if catches else None
    try:
        yield
    except _ToldToStop:
        raise ProcessStopped(
            f"process {process_rank()} was told to stop (SIGTERM): another process of the run has failed, or the "
            f"machine takes the run away. {advice()}"
        ) from None
    except RuntimeError as error:
        alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
        if alone or isinstance(error, ProcessStopped | OwnError) or not _peer_is_gone(error):
            raise
        raise ProcessStopped(
            f"process {process_rank()} has lost another process of the run, and stops too: that one was killed (out of "
            f"memory?) or failed, then its own message stands beside this one. {advice()}"
        ) from error
    finally:
        if catches:
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _peer_is_gone(error):
    import torch.distributed as dist

    return isinstance(error, getattr(dist, "DistError", ())) or bool(PEER.search(str(error)))
