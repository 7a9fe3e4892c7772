"""The step records of a run as a file, `steps.jsonl`: one a line, added as the run goes, read back as they were."""

import json
from dataclasses import asdict
from pathlib import Path

from grpo_lib.records import StepRecord

__all__ = ["FILE", "append_record", "load_records", "write_records"]

FILE = "steps.jsonl"


def load_records(path):
    """Read the step records of a run.

    Args:
        path: the run's folder, or its `steps.jsonl`.
    Returns:
        a list of `StepRecord`. A last line without an end, of a run that was killed while it wrote, is left out.
    Raises:
        FileNotFoundError: if there is no such file. ValueError: naming the line that is no record.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: a run writes it with its first step")
    *lines, unfinished = path.read_text(encoding="utf-8").split("\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(StepRecord(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is no step record ({error}): {line[:80]!r}") from error
    return records


def append_record(folder, record):
    """Add one step's record to the file of a run."""
    with open(Path(folder) / FILE, "a", encoding="utf-8") as file:
        file.write(_line(record))


def write_records(folder, records):
    """Write the records of a run anew, in place of those that are there."""
    draft = Path(folder) / f".{FILE}.draft"
    draft.write_text("".join(map(_line, records)), encoding="utf-8")
    draft.replace(Path(folder) / FILE)


def _line(record):
    return json.dumps(asdict(record), ensure_ascii=False, separators=(",", ":")) + "\n"
