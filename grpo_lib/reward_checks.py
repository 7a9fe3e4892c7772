"""Check what goes into a reward function and what comes out: texts in, one finite float a completion out.

An error at this edge names the function, the row and the counts. One value is never spread over the batch, None and NaN
are never taken for 0, and a function that fails stops the run instead of teaching a silent 0.
"""

import copy
import math

__all__ = ["check_batch", "check_rewards", "completion_text", "score_completions", "short"]


def completion_text(completion):
    """Return the text of a completion: a string as it is, or what the assistant says in a list of messages.

    Messages without a role count as the assistant's; other roles (a tool's output, say) are not the policy's words and
    earn nothing. Several messages are joined by a new line; a message that only calls a tool has content None.

    Args:
        completion: a string or a list of messages `[{"role": "assistant", "content": "text"}]`.
    Returns:
        str.
    Raises:
        TypeError: if it is anything else, or no message is the assistant's.

    >>> completion_text([{"role": "assistant", "content": "<answer>4</answer>"}])
    '<answer>4</answer>'
    """
    if isinstance(completion, str):
        return completion
    rule = "a completion must be a string or a list of messages [{'content': 'text'}]"
    if not isinstance(completion, list | tuple) or not all(isinstance(message, dict) for message in completion):
        raise TypeError(f"{rule}, got {short(completion)} of type {type(completion).__name__}")
    contents = [m.get("content") for m in completion if m.get("role", "assistant") == "assistant"]
    if not contents or not all(content is None or isinstance(content, str) for content in contents):
        raise TypeError(f"{rule} with text from the assistant, got {short(completion)}")
    return "\n".join(content for content in contents if content is not None)


def check_batch(name, prompts, completions, answer):
    """Return the B texts, after checking that prompts, completions and gold answers are lists of one length.

    Args:
        name: the reward function's name, for the error.
        prompts, completions, answer: B of each.
    Returns:
        B strings, `completion_text` of each completion.
    Raises:
        TypeError: if one of the three is no list, or a completion is neither a string nor a list of messages.
        ValueError: if the lengths differ, with the counts.

    >>> check_batch("my_reward", ["1+1?"], [[{"content": "2"}]], ["2"])
    ['2']
    """
    for label, rows in (("prompts", prompts), ("completions", completions), ("answer", answer)):
        if isinstance(rows, str) or not hasattr(rows, "__len__"):
            raise TypeError(f"{name}: {label} must be a list with one entry per completion, got {short(rows)}")
    if not len(prompts) == len(completions) == len(answer):
        counts = f"{len(prompts)} prompts, {len(completions)} completions and {len(answer)} answers"
        raise ValueError(f"{name} needs one prompt and one gold answer per completion, got {counts}")
    texts = []
    for row, completion in enumerate(completions):
        try:
            texts.append(completion_text(completion))
        except TypeError as error:
            raise TypeError(f"{name}: row {row} of {len(completions)}: {error}") from None
    return texts


def check_rewards(rewards, num_completions, name):
    """Check a reward function's result where it enters: one finite float a completion.

    Args:
        rewards: a list, tuple or 1-D array of numbers (bool, int, numpy and torch scalars are taken as floats).
        num_completions: how many completions were scored, B.
        name: the reward function's name, for the error.
    Returns:
        B floats.
    Raises:
        ValueError: naming the function, the row and the counts, if there are not B values (one value is never spread
            over the batch) or if one is None, a string, NaN, infinite or not a single number.

    >>> check_rewards([1, True, 0.5], 3, "my_reward")
    [1.0, 1.0, 0.5]
    """
    rule = f"{name} must return one finite number per completion, {num_completions} in all"
    try:
        if isinstance(rewards, str | bytes | dict | set):
            raise TypeError
        rewards = list(rewards)
    except TypeError:
        raise ValueError(f"{rule}; got {short(rewards)} of type {type(rewards).__name__}") from None
    if len(rewards) != num_completions:
        raise ValueError(f"{rule}; got {len(rewards)} rewards for {num_completions} completions")
    return [_check_reward(rule, row, reward) for row, reward in enumerate(rewards)]


def score_completions(reward_function, prompts, completions, **columns):
    """Call a reward function as trainers do, by keyword, and check what it returns.

    It gets copies: what it does to its arguments changes neither the data nor the rollout. A function that fails
    stops the run (a silent 0 would be learnt from), with an error that can be acted on: after a failure the rows are
    tried one by one to find the first that fails.

    Args:
        reward_function: any function of `prompts=, completions=` and further keyword arguments such as `answer=`.
        prompts, completions: B of each.
        **columns: passed on, the data set's columns first of all; lists of B are cut with the rows.
    Returns:
        B floats.
    Raises:
        RuntimeError: from the function's own error, naming the function, the row and the start of its text.
        ValueError: as in `check_rewards`.

    >>> score_completions(lambda completions, **columns: [len(text) for text in completions], ["?"], ["four"])
    [4.0]
    """
    name = getattr(reward_function, "__name__", None) or repr(reward_function)
    batch = dict(prompts=prompts, completions=completions, **columns)
    try:
        rewards = reward_function(**copy.deepcopy(batch))
    except Exception as error:
        row = _first_failing_row(reward_function, batch, len(completions))
        where = "on the batch" if row is None else f"on row {row} of {len(completions)}, {short(completions[row])}"
        raise RuntimeError(f"{name} raised {type(error).__name__} {where}: {error}") from error
    return check_rewards(rewards, len(completions), name)


def short(value):
    """Return the start of a value's repr, at most 80 characters, for an error message.

    >>> short("x" * 1000)[-3:]
    'xxx'
    """
    return repr(value)[:80]


def _check_reward(rule, row, reward):
    try:
        if isinstance(reward, str | bytes) or getattr(reward, "shape", ()) != ():
            raise TypeError
        value = float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{rule}; got {short(reward)} in row {row}")
    return value


def _first_failing_row(reward_function, batch, num_completions):
    for row in range(num_completions):
        cut = {
            key: rows[row : row + 1] if isinstance(rows, list | tuple) and len(rows) == num_completions else rows
            for key, rows in batch.items()
        }
        try:
            reward_function(**copy.deepcopy(cut))
        except Exception:
            return row
    return None
