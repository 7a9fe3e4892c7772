"""The formulae of the loss family with one token's numbers filled in, line by line."""

import math

import torch

from grpo_lib.losses import LOSS_TYPES
from grpo_lib.surrogates import sequence_log_ratio

__all__ = ["clip_range", "formula_lines", "level_matters", "token_numbers"]

_LONGEST = 88  # characters of a line


def clip_range(options):
    """The smallest and the largest ratio that the clip leaves alone.

    >>> clip_range({"epsilon": 0.2, "epsilon_high": None})
    (0.8, 1.2)
    """
    high = options["epsilon"] if options["epsilon_high"] is None else options["epsilon_high"]
    return 1 - options["epsilon"], 1 + high


def level_matters(options):
    """Whether the level of the ratio is a setting of this loss: VESPO asks for it only to weigh the KL by the ratio.

    >>> level_matters({"loss_type": "vespo", "beta": 0.1, "bias_correction_kl": False})
    False
    """
    return LOSS_TYPES[options["loss_type"]][0] != "vespo" or bool(options["beta"] and options["bias_correction_kl"])


def token_numbers(inspection, row, token):
    """Every number of one token's part of the loss, unrounded, by name.

    "own_ratio" is the token's, "ratio" the one in force; "log_ratios" (of the whole completion) sums the log ratios,
    "log_w" is that sum as VESPO keeps it within limits.
    """
    options, keep = inspection.options, inspection.mask[row].bool()
    names = ("log_probs", "old_log_probs", "ref_log_probs", "ratio", "advantage", "surrogate", "kl", "weight")
    names += ("clipped", "contribution", "policy_gradient", "kl_gradient", "gradient")
    tables = {name: getattr(inspection, name) for name in names}
    numbers = {name: table[row, token].item() for name, table in tables.items() if table is not None}
    log_ratios = (inspection.log_probs - inspection.old_log_probs)[row][keep]
    numbers["own_ratio"] = _exp(numbers["log_probs"] - numbers["old_log_probs"])
    numbers["log_w"] = sequence_log_ratio(log_ratios[None], torch.ones_like(log_ratios)[None]).item()
    numbers["log_ratios"], numbers["length"] = log_ratios.sum().item(), int(keep.sum())
    numbers["rows"], numbers["all_tokens"] = len(inspection.mask), int(inspection.mask.sum())
    pull = numbers.get("kl", 0.0) * (numbers["ratio"] if options["bias_correction_kl"] else 1.0)
    numbers["objective"] = numbers["surrogate"] - options["beta"] * pull
    return numbers


def formula_lines(inspection, numbers):
    """The lines that lead from the log-probs to a token's part of the loss, and to its push.

    Args:
        inspection: an `Inspection`. numbers: of one token that counts, from `token_numbers`.
    Returns:
        a tuple of strings; numbers are printed with five significant digits.
    """
    options = inspection.options
    surrogate = LOSS_TYPES[options["loss_type"]][0]
    lines = [*_ratio(options, numbers, surrogate), *_SURROGATES[surrogate](options, numbers)]
    lines += _kl(options, numbers)
    lines.append(_line("weight", *_weight(options, numbers), numbers["weight"]))
    formula = "surrogate" if not options["beta"] else f"(surrogate - beta · {_kl_name(options)})"
    filled = _n(numbers["surrogate"])
    if options["beta"]:
        weighed = f"{_n(numbers['ratio'])} · " if options["bias_correction_kl"] else ""
        filled = f"({filled} - {_n(options['beta'])} · {weighed}{_n(numbers['kl'])})"
    filled = f"-{_n(numbers['weight'])} · {_bracket(filled)}"
    lines.append(_line("loss part", f"-weight · {formula}", filled, numbers["contribution"]))
    parts = f"policy {_n(-numbers['policy_gradient'])} + KL {_n(-numbers['kl_gradient'])}"
    lines.append(_line("push", "-d loss / d log π", parts, -numbers["gradient"]))
    return tuple(lines)


def _ratio(options, numbers, surrogate):
    new, old = _log(numbers["log_probs"]), _bracket(_log(numbers["old_log_probs"]))
    own = _line("ratio", "exp(log π - log π_old)", f"exp({new} - {old})", numbers["own_ratio"])
    total, length = _n(numbers["log_ratios"]), numbers["length"]
    lines = [own]
    if options["importance_sampling_level"] == "sequence" and level_matters(options):
        formula, filled = "exp(sum log ratio / |o|)", f"exp({total} / {length})"
        whole = _line("ratio", formula, filled, numbers["ratio"]) + "  (the completion's)"
        lines = [own + "  (the token's own)", whole]
    if surrogate == "vespo":
        log_w, formula = numbers["log_w"], "Π ratio = exp(sum log ratio)"
        if abs(log_w - numbers["log_ratios"]) > 1e-9:  # so far that the loss keeps it within limits
            formula = "Π ratio, kept in [1e-8, e^20], each ratio in [e^-20, e^20]"
        lines.append(_line("W", formula, f"exp({_n(log_w)})  (all {length} tokens)", math.exp(log_w)))
    return lines


def _clip(options, numbers):
    (low, high), ratio, advantage = clip_range(options), numbers["ratio"], numbers["advantage"]
    delta = options["delta"]
    free, bound = ratio if delta is None else min(ratio, delta), min(max(ratio, low), high)
    a = _bracket(_n(advantage))
    formula = (
        f"min({'ratio' if delta is None else f'min(ratio, {_n(delta)})'} · A, clip(ratio, {_n(low)}, {_n(high)}) · A)"
    )
    filled = f"min({_n(free)} · {a}, {_n(bound)} · {a})"
    lines = [f"A         = {_n(advantage)}", _line("surrogate", formula, filled, numbers["surrogate"])]
    return [lines[0], lines[1] + ("  (clipped: no push)" if numbers["clipped"] else "")]


def _cispo(options, numbers):
    high = clip_range(options)[1]
    weight = _n(min(numbers["ratio"], high))
    capped = "  (capped)" if numbers["clipped"] else ""
    formula = f"sg(min(ratio, {_n(high)})) · A · log π"
    filled = f"{weight} · {_bracket(_n(numbers['advantage']))} · {_bracket(_n(numbers['log_probs']))}"
    return [
        f"A         = {_n(numbers['advantage'])}",
        _line("surrogate", formula, filled, numbers["surrogate"]) + capped,
    ]


def _sapo(options, numbers):
    advantage = numbers["advantage"]
    tau = options["sapo_temperatures"][0 if advantage > 0 else 1]
    filled = f"4 / {_n(tau)} · sigmoid({_n(tau)} · ({_n(numbers['ratio'])} - 1)) · {_bracket(_n(advantage))}"
    formula = "4/τ · sigmoid(τ (ratio - 1)) · A"
    return [f"A         = {_n(advantage)}", _line("surrogate", formula, filled, numbers["surrogate"])]


def _vespo(options, numbers):
    advantage = numbers["advantage"]
    k, rate = options["vespo_gammas"][0 if advantage >= 0 else 1]
    log_w = numbers["log_w"]
    phi = _exp(k * log_w + rate * (1 - math.exp(log_w)))
    w = _n(math.exp(log_w))
    filled = f"{_n(phi)} · {_bracket(_n(advantage))} · {_bracket(_n(numbers['log_probs']))}"
    return [
        _line("φ(W)", "W^k · exp(λ (1 - W))", f"{w}^{_n(k)} · exp({_n(rate)} · (1 - {w}))", phi),
        f"A         = {_n(advantage)}",
        _line("surrogate", "sg(φ(W)) · A · log π", filled, numbers["surrogate"]),
    ]


_SURROGATES = {"clip": _clip, "cispo": _cispo, "sapo": _sapo, "vespo": _vespo}


def _kl(options, numbers):
    if not options["beta"]:
        return []
    d = numbers["ref_log_probs"] - numbers["log_probs"]
    filled = f"{_log(numbers['ref_log_probs'])} - {_bracket(_log(numbers['log_probs']))}"
    return [
        _line("d", "log π_ref - log π", filled, d),
        _line("KL", "exp(d) - d - 1", f"exp({_n(d)}) - {_bracket(_n(d))} - 1", numbers["kl"]),
    ]


def _kl_name(options):
    return "ratio · KL" if options["bias_correction_kl"] else "KL"


def _weight(options, numbers):
    """The denominator of the variant's average, in symbols and in numbers."""
    rows, length, weighting = numbers["rows"], numbers["length"], LOSS_TYPES[options["loss_type"]][1]
    if weighting == "completion mean":
        return "1 / (B · |o|)", f"1 / ({rows} · {length})"
    if weighting == "completion sum":
        return "1 / B", f"1 / {rows}"
    if weighting == "constant length":
        return "1 / (B · L_max)", f"1 / ({rows} · {options['max_completion_length']})"
    given = None if options["loss_type"] == "bnpo" else options["num_items_in_batch"]
    return "1 / (all tokens)", f"1 / {_n(numbers['all_tokens'] if given is None else given)}"


def _line(name, formula, filled, value):
    line = f"{name:<9} = {formula} = {filled} = {_n(value)}"
    return line if len(line) <= _LONGEST else line.replace(f"{formula} = ", f"{formula}\n{'':<9} = ", 1)


def _exp(value):
    """exp, and infinity where that is too large for a float."""
    return math.exp(value) if value < 709 else math.inf


def _n(value):
    return f"{value + 0.0:.5g}"


def _log(value):
    """A log-prob with six decimals: small differences of two must not be lost."""
    return f"{value + 0.0:.6f}"


def _bracket(text):
    return f"({text})" if text.startswith("-") else text
