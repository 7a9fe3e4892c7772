"""GSM8K, grade-school word problems, from the hub or from a file."""

import json
from itertools import islice

from grpo_lib.answers import extract_gsm8k_answer

__all__ = ["SYSTEM_PROMPT", "load_gsm8k"]

SYSTEM_PROMPT = """Work the problem out, then answer with a number alone, in exactly this form:
<reasoning>
...
</reasoning>
<answer>
...
</answer>"""


def load_gsm8k(split, *, limit=None, path=None):
    """Load GSM8K, grade-school word problems, as training samples with the four tags in the system prompt.

    Source: Cobbe et al. 2021 (arXiv:2110.14168); `openai/gsm8k` on the hub, MIT licence, 7,473 train and
    1,319 test problems.  The gold answer is the number after `####`.

    Args:
        split: "train" or "test".
        limit: take only the first `limit` rows; None takes all.
        path: a JSON-lines file with "question" and "answer" in each row, read instead of the hub
            (`split` then only names what the file is).
    Returns:
        A list of `{"prompt": [system message, user message], "answer": str}`.
    Raises:
        ValueError: for another split, a limit below 1, or rows without a gold number (the text counts them).
        ImportError: if `datasets` is not installed and no path is given.
        ConnectionError: if the hub cannot be reached and the data is not in the local cache.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', got {split!r}")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"limit must be a whole number of at least 1, or None for all rows, got {limit!r}")
    rows = list(islice(_gsm8k_from_hub(split) if path is None else _read_json_lines(path), limit))
    golds = [extract_gsm8k_answer(row["answer"]) for row in rows]
    missing = [number for number, gold in enumerate(golds, 1) if gold is None]
    if not rows:
        raise ValueError(f"there are no rows in {path or split}")
    if missing:
        raise ValueError(
            f"every row needs a gold number after '####', and {len(missing)} of {len(rows)} rows have none "
            f"(row {missing[0]} first): leave them out or correct them"
        )
    return [{"prompt": _gsm8k_prompt(row["question"]), "answer": gold} for row, gold in zip(rows, golds, strict=True)]


def _gsm8k_prompt(question):
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question}]


def _gsm8k_from_hub(split):
    other_way = "pass path= a JSON-lines file with 'question' and 'answer', or use load_addition, which needs neither"
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ImportError(f"load_gsm8k needs the `datasets` package (pip install datasets); or {other_way}") from error
    try:
        return load_dataset("openai/gsm8k", "main", split=split)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"load_gsm8k could not get openai/gsm8k ({type(error).__name__}: {error}); the first call needs a network: "
            f"{other_way}"
        ) from error


def _read_json_lines(path):
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = None
            if not isinstance(row, dict) or not {"question", "answer"} <= row.keys():
                raise ValueError(
                    f"each line of {path} must be a JSON object with 'question' and 'answer'; line {number} is not"
                )
            yield row
