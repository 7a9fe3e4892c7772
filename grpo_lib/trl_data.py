"""Our samples and reward functions in TRL: a `datasets.Dataset` with the same columns, and rewards checked as ours are.

A reward function of this library goes into `GRPOTrainer` as it is. TRL calls it by keyword with prompts, completions,
every further column, and names of its own (completion_ids, trainer_state, log_extra, log_metric).
"""

import copy
import functools
import inspect
from collections.abc import Mapping

from grpo_lib.prompts import encode_prompts, sample_columns
from grpo_lib.reward_checks import check_rewards, score_completions, short

__all__ = ["checked_reward", "trl_dataset"]

# what TRL passes to a reward function beside the columns, and the columns that it takes for something else
_TRL_KEYWORDS = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
_TAKEN = (*_TRL_KEYWORDS, "completion", "image", "images", "environment")


def trl_dataset(train_data, *, tokenizer=None, max_prompt_length=None):
    """Turn samples into the data set that `GRPOTrainer` takes; every key becomes a column and a keyword of the rewards.

    Args:
        train_data: dicts with "prompt", "answer" and any further keys, or (prompt, answer) pairs; prompts are all
            strings or all lists of messages.
        tokenizer, max_prompt_length: refuse prompts of more tokens (TRL has no such limit); both or neither.
    Returns:
        a `datasets.Dataset`.
    Raises:
        ImportError: without datasets, which TRL brings.
        ValueError: on samples that our own loop refuses too (see `sample_columns`), prompts of both kinds, a name that
            TRL takes for itself, a prompt that is too long, or a column that the data set cannot hold unchanged.

    >>> trl_dataset([{"prompt": "1+1=", "answer": "2", "image": "one.png"}])
    Traceback (most recent call last):
    ValueError: TRL takes the name image for itself, as a column it would be lost: rename it
    """
    columns = sample_columns(train_data)
    taken = sorted(set(columns) & set(_TAKEN))
    if taken:
        raise ValueError(f"TRL takes the name {', '.join(taken)} for itself, as a column it would be lost: rename it")
    kinds = {isinstance(prompt, str) for prompt in columns["prompt"]}
    if len(kinds) > 1:
        raise ValueError("TRL looks at the first prompt only: make all prompts strings, or all lists of messages")
    if (tokenizer is None) != (max_prompt_length is None):
        raise ValueError("tokenizer and max_prompt_length go together: give both or neither")
    if tokenizer is not None:
        encode_prompts(tokenizer, columns["prompt"], max_prompt_length=max_prompt_length)
    try:
        from datasets import Dataset
    except ImportError as error:
        raise ImportError('this needs datasets, which TRL brings: pip install "trl==1.16.0"') from error
    return Dataset.from_dict({name: _held(Dataset, name, values) for name, values in columns.items()})


def checked_reward(reward_function, *, allow_none=False):
    """Wrap a reward function for TRL so that what it returns is checked as in our own loop.

    TRL itself checks the number of rewards. It takes NaN for None, "does not apply", adds such a reward up as 0, and
    gives a completion without any reward, or with an infinite one, the advantage 0, without an error. Here each of
    these stops the run and names the function and the row. TRL's own keywords are passed on only to a function that
    takes them, so that one without `**kwargs` works too; the arguments are copies.

    Args:
        reward_function: a function or an async function of `prompts=, completions=` and the columns.
        allow_none: let None through, for one of several functions that does not apply to every row.
    Returns:
        a function (async where that is) of the same `__name__`, under which TRL logs it.
    Raises:
        TypeError: if it cannot be called. When called: the errors of `score_completions`.

    >>> reward = checked_reward(lambda completions, **columns: [float("nan") for _ in completions])
    >>> reward(prompts=["1+1="], completions=["2"])
    Traceback (most recent call last):
    ValueError: <lambda> must return one finite number per completion, 1 in all; got nan in row 0
    """
    if not callable(reward_function):
        raise TypeError(f"a reward function must be callable, got {short(reward_function)}")
    name = _name(reward_function)
    takes = _keywords(reward_function)

    def bound(keywords):
        """The function with TRL's own keywords filled in (no copies: some lead back to the trainer), and the rest."""
        own = {key: keywords.pop(key) for key in _TRL_KEYWORDS if key in keywords}
        inner = functools.partial(reward_function, **{key: value for key, value in own.items() if takes(key)})
        return named(inner), keywords

    def named(function):
        function.__name__ = name
        return function

    if _is_async(reward_function):

        async def checked(prompts, completions, **keywords):
            inner, columns = bound(keywords)
            try:
                rewards = await inner(**copy.deepcopy(dict(prompts=prompts, completions=completions, **columns)))
            except Exception as error:
                raise RuntimeError(f"{name} raised {type(error).__name__} on the batch: {error}") from error
            return _checked(rewards, len(completions), name, allow_none)

    else:

        def checked(prompts, completions, **keywords):
            inner, columns = bound(keywords)
            if allow_none:
                rewards = inner(**copy.deepcopy(dict(prompts=prompts, completions=completions, **columns)))
                return _checked(rewards, len(completions), name, allow_none)
            return score_completions(inner, prompts, completions, **columns)

    checked.__doc__, checked.__wrapped__ = reward_function.__doc__, reward_function
    return named(checked)


def _checked(rewards, count, name, allow_none):
    if not allow_none or not isinstance(rewards, list | tuple):
        return check_rewards(rewards, count, name)
    numbers = check_rewards([0.0 if reward is None else reward for reward in rewards], count, name)
    return [None if given is None else number for given, number in zip(rewards, numbers, strict=True)]


def _name(function):
    """What TRL calls a reward function in its logs: its name, that of what a `partial` holds, or of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def _keywords(function):
    """Which keywords a function takes, as a function of the name."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return lambda name: True
    return {p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY}.__contains__


def _is_async(function):
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _held(dataset_class, name, values):
    """The column, once it is sure that it comes out of the data set as it went in."""
    rule = "a column holds values of one type, messages with the same keys"
    try:
        back = dataset_class.from_dict({name: values})[name][:]
    except Exception as error:  # Arrow's own errors name neither column nor rule
        raise ValueError(f"column {name!r} does not fit into a data set ({rule}): {error}") from error
    for row, (given, found) in enumerate(zip(values, back, strict=True)):
        if not _same(given, found):
            raise ValueError(
                f"column {name!r} would change in row {row}, from {short(given)} to {short(found)}: {rule}; "
                "make them so, or write what differs as a string"
            )
    return values


def _same(given, found):
    """Equal, of one type but for tuples and other mappings, also inside lists and messages."""
    if isinstance(given, Mapping):
        return (
            isinstance(found, Mapping)
            and given.keys() == found.keys()
            and all(_same(given[k], found[k]) for k in given)
        )
    if isinstance(given, list | tuple):
        return isinstance(found, list) and len(given) == len(found) and all(map(_same, given, found))
    return type(given) is type(found) and (given == found or given != given)
