"""An adapter is worth something only on the weights it was trained on: recognise them again, in any precision.

A saved adapter holds no weights of the model beneath it. Put on another one (the base model for the instruct model,
another size of the same shape), it would load without an error and answer nonsense.
"""

import hashlib

import torch

__all__ = ["check_base", "describe_base"]

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
TENSORS, NUMBERS, KEPT = 12, 1024, 32  # looked at: so many of the frozen tensors, numbers of each; and kept of these
HALVES = {"float16", "bfloat16"}
WHAT = {"r": "rank", "lora_alpha": "alpha"}


@torch.no_grad()
def describe_base(model):
    """Describe the frozen weights under an adapter in a few texts, cheaply: some numbers of some tensors.

        one SHA-256 a dtype, of the same numbers rounded to float32, float16 and bfloat16; and a few of the numbers

    So a base is recognised whether it is loaded in 32 or 16 bits. From float16 to bfloat16 and back (another GPU for
    the same run) rounding twice may differ from rounding once: there the numbers are compared, to a step of bfloat16.

    Args:
        model: a `peft.PeftModel`.
    Returns:
        a dict for JSON: "tensors", how many are frozen; "kind", the model's type; "dtype", of the base; "sha256", a
        dict from dtype to text; "numbers", a list; and "adapter", rank and alpha.
    """
    frozen = [p for name, p in model.named_parameters() if not p.requires_grad and "lora_" not in name]
    hashes, kept = {dtype: hashlib.sha256() for dtype in DTYPES}, []
    for parameter in frozen[:: -(-len(frozen) // TENSORS)] if frozen else []:
        flat = parameter.detach().flatten()
        numbers = flat[:: -(-len(flat) // NUMBERS)].float().cpu()
        kept += numbers[:: -(-len(numbers) // KEPT)].tolist()
        for dtype, found in hashes.items():
            found.update(str(tuple(parameter.shape)).encode())
            found.update(numbers.to(dtype).float().numpy().tobytes())
    config = model.peft_config[model.active_adapter]
    return {
        "kind": getattr(model.config, "model_type", ""),
        "tensors": len(frozen),
        "dtype": str(frozen[0].dtype).removeprefix("torch.") if frozen else "",
        "sha256": {str(dtype).removeprefix("torch."): found.hexdigest() for dtype, found in hashes.items()},
        "numbers": kept,
        "adapter": {name: getattr(config, name) for name in WHAT if hasattr(config, name)},
    }


def check_base(saved, model, where):
    """Refuse an adapter on other weights than those it was trained on.

    Args:
        saved: what `describe_base` said when it was saved, or None (saved before that was kept; then nothing is known).
        model: the `peft.PeftModel` that it is to go into. where: the file or folder, for the error.
    Raises:
        RuntimeError: if the model beneath differs, or the adapter's rank or alpha.
    """
    if saved is None:
        return
    now = describe_base(model)
    for name, value in saved["adapter"].items():
        if now["adapter"].get(name, value) != value:
            raise RuntimeError(
                f"{where} holds another adapter than the model's: its {WHAT.get(name, name)} is {value:g}, the model's "
                f"{now['adapter'][name]:g}; load the model as the run that saved did"
            )
    same = any(now["sha256"][dtype] == text for dtype, text in saved["sha256"].items() if dtype in now["sha256"])
    if not same and not _same_in_other_half(saved, now):
        raise RuntimeError(
            f"{where} holds an adapter that was trained on other weights: on a {saved['kind']!r} model with "
            f"{saved['tensors']} frozen tensors, and this is a {now['kind']!r} model with {now['tensors']} (and other "
            "numbers in them). An adapter is worth nothing on another base: load the model the run started from, by "
            "the same name and revision, or start a new run in an empty folder"
        )


def _same_in_other_half(saved, now):
    kept, numbers = (torch.tensor(told.get("numbers", []), dtype=torch.float64) for told in (saved, now))
    if {saved.get("dtype"), now["dtype"]} != HALVES or kept.shape != numbers.shape:
        return False
    return torch.allclose(kept, numbers, rtol=2.0**-7, atol=2.0**-24)  # a step of bfloat16; the least of float16
