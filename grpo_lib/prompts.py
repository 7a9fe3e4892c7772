"""What a run is given, checked: samples into columns, prompts into token ids."""

from collections.abc import Mapping

from grpo_lib.reward_checks import short

__all__ = ["encode_prompts", "sample_columns"]

_RESERVED = {"prompts", "completions", "reward_function"}


def sample_columns(samples):
    """Turn P samples into columns of P entries, and check them.

    Args:
        samples: dicts with "prompt", "answer" and any further keys, the same for all; or (prompt, answer) pairs.
    Returns:
        a dict from each key to a list of P entries.
    Raises:
        ValueError: on no sample, one of another form, a prompt without text, keys that differ, or a key under which
            nothing can be passed to a reward function (no string, "prompts", "completions"); the error names the row.
            A prompt without text is one that is blank, or whose last message is: a model would be asked nothing.

    >>> sample_columns([("1+1=", "2"), ("2+2=", "4")])
    {'prompt': ['1+1=', '2+2='], 'answer': ['2', '4']}
    """
    listed = all(hasattr(samples, name) for name in ("__len__", "__getitem__"))  # no set, no dict.items()
    if isinstance(samples, (str, bytes, Mapping)) or not listed or len(samples) == 0:
        raise ValueError(f"samples must be a list of at least one sample, got {short(samples)}")
    rows = []
    for row, sample in enumerate(samples):
        if isinstance(sample, (list, tuple)) and len(sample) == 2:
            sample = dict(zip(("prompt", "answer"), sample, strict=True))
        if not isinstance(sample, Mapping) or not {"prompt", "answer"} <= set(sample):
            raise ValueError(
                f'sample {row} must be a dict with "prompt" and "answer", or a (prompt, answer) pair, '
                f"got {short(sample)}"
            )
        _check_prompt(row, sample["prompt"])
        rows.append(sample)
    names = set(rows[0])
    taken = sorted(map(str, names & _RESERVED)) + [repr(name) for name in names if not isinstance(name, str)]
    if taken:
        raise ValueError(
            f"keys must be strings, since each goes to the reward function by its name, and none of "
            f"{sorted(_RESERVED)}, which are taken; sample 0 has {', '.join(taken)}: rename or drop it"
        )
    for row, sample in enumerate(rows):
        if set(sample) != names:
            raise ValueError(
                f"all samples need the same keys: sample 0 has {sorted(names)}, sample {row} {sorted(sample, key=str)}"
            )
    return {name: [sample[name] for sample in rows] for name in rows[0]}


def encode_prompts(tokenizer, prompts, *, max_prompt_length=None):
    """Turn prompts into token ids, each with at most one BOS token in front.

    A string is encoded with the tokenizer's own special tokens. A list of messages goes through the chat template with
    the assistant's header added; the template writes the special tokens itself, so none is added on top.

    Returns:
        a list of lists of ints, without padding.
    Raises:
        TypeError: if a prompt is neither a string nor a list of messages.
        ValueError: on no prompt, a prompt of no token, or one longer than `max_prompt_length`.

    >>> from grpo_lib import load_tiny_policy
    >>> _, tokenizer = load_tiny_policy()
    >>> [len(ids) for ids in encode_prompts(tokenizer, [[{"role": "user", "content": "47+38=?"}], "47+38=?"])]
    [15, 7]
    """
    if isinstance(prompts, (str, Mapping)) or not hasattr(prompts, "__len__") or len(prompts) == 0:
        raise ValueError(f"prompts must be a list of at least one prompt, got {short(prompts)}")
    encoded = []
    for row, prompt in enumerate(prompts):
        ids = _encode(tokenizer, prompt, row)
        if not ids:
            raise ValueError(f"prompt {row} has no token: {short(prompt)}; a model needs at least one to start from")
        if max_prompt_length is not None and len(ids) > max_prompt_length:
            raise ValueError(
                f"prompt {row} has {len(ids)} tokens, more than max_prompt_length = {max_prompt_length}. It is not "
                "cut: that would lose the question or the assistant's header; shorten or leave out such prompts"
            )
        encoded.append(ids)
    return encoded


def _encode(tokenizer, prompt, row):
    if isinstance(prompt, str):
        _check_text(f"prompt {row}", prompt)
        ids = list(tokenizer(prompt)["input_ids"])
        bos, eos = getattr(tokenizer, "bos_token_id", None), getattr(tokenizer, "eos_token_id", None)
        if bos is not None and ids[:2] == [bos, bos]:  # a rendered template held one already
            ids = ids[1:]
        if eos is not None and ids[-1:] == [eos] and not prompt.rstrip().endswith(tokenizer.decode([eos])):
            ids = ids[:-1]  # a tokenizer that ends its texts would end the prompt
        return ids
    messages = isinstance(prompt, (list, tuple)) and len(prompt) > 0
    if not messages or not all(isinstance(m, Mapping) and {"role", "content"} <= set(m) for m in prompt):
        rule = "must be a string or a list of messages with role and content"
        raise TypeError(f"prompt {row} {rule}, got {short(prompt)}")
    if getattr(tokenizer, "chat_template", None) is None:
        raise ValueError(
            f"prompt {row} is a list of messages, but this tokenizer has no chat template: "
            "give plain strings, or set tokenizer.chat_template"
        )
    try:
        text = tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, tokenize=False)
    except Exception as error:  # a template may refuse in its own words: "roles must alternate"
        raise ValueError(f"prompt {row}: the chat template cannot write {short(prompt)}: {error}") from error
    _check_text(f"prompt {row}", text)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _check_prompt(row, prompt):
    messages = isinstance(prompt, (list, tuple)) and all(
        isinstance(message, Mapping) and {"role", "content"} <= set(message) for message in prompt
    )
    contents = [message["content"] for message in prompt] if messages else [prompt]
    last = contents[-1] if contents else None
    text = last.strip() if isinstance(last, str) else messages and isinstance(last, (list, tuple)) and last
    if not text:  # content may also be a list of parts
        raise ValueError(
            f"sample {row}: a prompt must be a string or a list of messages with role and content, and hold a text "
            f"(the last message too), got {short(prompt)}; leave such rows out, or look at how they are made"
        )
    for content in contents:
        _check_text(f"sample {row}", content)


def _check_text(where, text):
    """Refuse a string that holds half of a character, which JSON can spell and no tokenizer can read."""
    try:
        isinstance(text, str) and text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: character {error.start} is half of one ({text[error.start]!r}, a lone surrogate), which no "
            'tokenizer reads; mend the data, or drop it: text.encode("utf-8", "ignore").decode()'
        ) from None
