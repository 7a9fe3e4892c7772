"""Models to train: the tiny policy that ships with the library, and any causal model of the hub.

The tiny policy is a `Qwen3ForCausalLM` of 102,592 parameters that reads and writes single characters.
`python -m grpo_lib.pretrain` builds it; nothing here downloads anything unless a hub model is asked for.
"""

from importlib import resources

import torch
from safetensors import SafetensorError
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from grpo_lib.modes import no_progress_bar

__all__ = ["build_tiny_tokenizer", "load_hub_model", "load_tiny_policy", "no_progress_bar", "tiny_config"]

PAD, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
ROLES = ("user", "assistant", "system")
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
UNKNOWN = "\ufffd"  # what a character outside the alphabet becomes: visible in the decoded text
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz\n +-*=?.,:'!()" + UNKNOWN
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def build_tiny_tokenizer():
    """Build the tiny policy's tokenizer: one token a character, and whole tokens for roles and tags.

    The tags and roles are ordinary added tokens, not special ones: `decode(..., skip_special_tokens=True)`
    has to keep them, or a reward would never see them.  A character outside the alphabet becomes U+FFFD.

    Returns:
        A `PreTrainedTokenizerFast` with 61 tokens and a ChatML template; pad `<|endoftext|>`, eos `<|im_end|>`.

    >>> tokenizer = build_tiny_tokenizer()
    >>> text = tokenizer.apply_chat_template(
    ...     [{"role": "user", "content": "47+38=?"}], add_generation_prompt=True, tokenize=False)
    >>> text
    '<|im_start|>user\\n47+38=?<|im_end|>\\n<|im_start|>assistant\\n'
    >>> len(tokenizer(text, add_special_tokens=False)["input_ids"])
    15
    """
    special = (PAD, IM_START, IM_END)
    tokens = [*special, *ROLES, *TAGS, *ALPHABET]
    backend = Tokenizer(WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    backend.add_tokens([AddedToken(token, special=False, normalized=False) for token in (*ROLES, *TAGS)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=IM_END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=128,
        padding_side="left",
    )


def tiny_config():
    """Return the tiny policy's architecture as a `Qwen3Config`.

    61·64 embeddings (tied to the output) + 2 layers of 49,312 + the last norm's 64 = 102,592 parameters.

    Source: the block is Qwen3's (Yang et al. 2025, arXiv:2505.09388), only smaller.

    >>> config = tiny_config()
    >>> config.hidden_size, config.num_hidden_layers, config.vocab_size, config.tie_word_embeddings
    (64, 2, 61, True)
    """
    return Qwen3Config(
        vocab_size=61,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )


def load_tiny_policy(device="cpu"):
    """Load the pretrained tiny policy from the installed package: fp32, evaluation mode, no network.

    Args:
        device: where the weights go, a name or a `torch.device`.
    Returns:
        (model, tokenizer): a fresh `Qwen3ForCausalLM` at each call, and its tokenizer.
    Raises:
        FileNotFoundError: if the package was installed without its data folder.

    >>> model, tokenizer = load_tiny_policy()
    >>> sum(p.numel() for p in model.parameters()), model.training, next(model.parameters()).dtype
    (102592, False, torch.float32)
    """
    with resources.as_file(resources.files("grpo_lib") / "data" / "tiny_policy") as folder:
        if not (folder / "model.safetensors").is_file():
            raise FileNotFoundError(
                f"the tiny policy's files ship with grpo_lib, but {folder} has no model.safetensors; "
                "install the package again, or rebuild it: python -m grpo_lib.pretrain --out FOLDER"
            )
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        with no_progress_bar():
            model = Qwen3ForCausalLM.from_pretrained(folder, use_safetensors=True, dtype=torch.float32)
    return model.to(device).eval(), tokenizer


def load_hub_model(name, *, device=None, dtype=torch.float32, local_files_only=False):
    """Load a causal language model and its tokenizer from the hub, or from a folder.

    The weights are fp32 unless asked otherwise, whatever the file holds: a bfloat16 number has 8 significant
    bits, so an update under about 1/256 of a weight is rounded away, and at a learning rate of 1e-6 to 1e-5
    nearly every one is.  Only safetensors are read and no code of the checkpoint is run.  A tokenizer without
    a pad token pads with its eos token; nothing else is changed.

    Args:
        name: a hub name such as "Qwen/Qwen2.5-0.5B-Instruct", or a folder.
        device: where the weights go; None takes a CUDA device if there is one, else the CPU.
        dtype: dtype of the weights.
        local_files_only: use the local cache and do not go to the network.
    Returns:
        (model, tokenizer), the model in evaluation mode.
    Raises:
        OSError: if the files cannot be had (no network, no such name, no safetensors), are damaged, or hold less than
            the whole model; the text says what to do.
        ValueError: if the tokenizer has neither a pad nor an eos token, or the model brings code of its own.
    """
    options = {"local_files_only": local_files_only, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
        model, told = AutoModelForCausalLM.from_pretrained(
            name, use_safetensors=True, dtype=dtype, output_loading_info=True, **options
        )
        _check_whole(name, model, tokenizer, told["missing_keys"])
    except (SafetensorError, ValueError, RuntimeError) as error:
        if "trust_remote_code" in str(error) or (isinstance(error, RuntimeError) and "mismatch" not in str(error)):
            raise
        raise OSError(f"the files of {str(name)!r} are damaged, or do not fit together: {error}") from error
    except OSError as error:
        raise OSError(
            f"load_hub_model could not get {str(name)!r} as safetensors "
            f"(local_files_only={local_files_only}): {error}\n"
            "A hub model needs a network, or a copy in the local cache or in a folder; "
            "load_tiny_policy() needs neither and works now."
        ) from error
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise ValueError(
                f"a batch needs a pad token, and the tokenizer of {str(name)!r} has neither a pad nor an eos token "
                "to stand in for it: add one to its files"
            )
        tokenizer.pad_token = tokenizer.eos_token
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval(), tokenizer


def _check_whole(name, model, tokenizer, missing):
    """transformers fills what a file does not hold with random numbers, and makes an empty tokenizer of no file."""
    state = model.state_dict()
    there = {tensor.data_ptr() for key, tensor in state.items() if key not in missing}
    missing = [key for key in missing if key in state and state[key].data_ptr() not in there]  # but for tied ones
    if missing:
        raise ValueError(
            f"{len(missing)} tensors are missing and would be random numbers, such as {missing[0]} (is it a causal "
            "language model?)"
        )
    if not tokenizer("a 1", add_special_tokens=False)["input_ids"]:
        raise ValueError("there are no files of a tokenizer")
