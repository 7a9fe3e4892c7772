"""The variants of the loss, and the small batch, on which ours and TRL's are compared."""

import torch

from grpo_lib.losses import LEVELS, LOSS_TYPES
from grpo_lib.records import GRPOSettings

__all__ = ["parity_batch", "parity_variants"]


def parity_variants():
    """The variants that are compared: {name: (settings, whether old log-probs are given)}.

    Every loss type at both levels of the ratio, with no KL, with k3 and with ratio · k3; clip ranges and delta; the
    other temperatures and gammas; on-policy; completions that were cut left out.

    >>> len(parity_variants()), list(parity_variants())[:3]
    (57, ['grpo, token, no KL', 'grpo, token, k3', 'grpo, token, ratio·k3'])
    """
    kls = {"no KL": {"beta": 0.0}, "k3": {"beta": 0.1}, "ratio·k3": {"beta": 0.1, "bias_correction_kl": True}}
    found = {}
    for loss_type in LOSS_TYPES:
        for level in LEVELS:
            for name, kl in kls.items():
                options = {"loss_type": loss_type, "importance_sampling_level": level, **kl}
                found[f"{loss_type}, {level}, {name}"] = _settings(**options), True
    more = {
        "grpo, clip 0.2 below, 0.28 above": {"epsilon_high": 0.28},
        "dapo, clip 0.2 below, 0.28 above": {"loss_type": "dapo", "epsilon_high": 0.28},
        "cispo, cap 1.4": {"loss_type": "cispo", "epsilon_high": 0.4},
        "grpo, delta 1.5": {"delta": 1.5},
        "dapo, delta 1.1, inside the clip": {"loss_type": "dapo", "epsilon_high": 0.28, "delta": 1.1},
        "sapo, temperatures 0.5 and 2": {"loss_type": "sapo", "sapo_temperatures": (0.5, 2.0)},
        "vespo, other gammas": {"loss_type": "vespo", "vespo_gammas": ((1.0, 2.0), (2.0, 1.0))},
        "dapo, ratio·k3, cut completions left out": {"loss_type": "dapo", "mask_truncated_completions": True}
        | kls["ratio·k3"],
    }
    found |= {name: (_settings(**options), True) for name, options in more.items()}
    found["grpo, ratio·k3, on-policy"] = _settings(**kls["ratio·k3"]), False
    return found


def parity_batch():
    """The batch: log-probs under π, π_old and π_ref, advantages, mask, and which completions were cut.

    Six completions of one to five tokens, sines in place of random numbers, in float64. The ratios run from 0.6 to
    1.6, and every clip range and cap of the variants cuts some of them off.

    >>> batch = parity_batch()
    >>> {name: tuple(tensor.shape) for name, tensor in batch.items()}["old_log_probs"]
    (6, 5)
    """
    index = torch.arange(30, dtype=torch.float64).view(6, 5)
    lengths = torch.tensor([5, 3, 1, 5, 2, 4])
    new = -1.5 + torch.sin(1.7 * index)
    return {
        "log_probs": new,
        "old_log_probs": new + 0.5 * torch.sin(2.2 * index + 3.7),
        "ref_log_probs": new + 0.4 * torch.cos(1.1 * index),
        "advantages": torch.tensor([1.2, -0.7, -0.5, 0.9, -1.1, 0.2], dtype=torch.float64),
        "mask": (torch.arange(5) < lengths[:, None]).long(),
        "truncated": torch.tensor([True, False, False, False, False, False]),
    }


def _settings(**options):
    return GRPOSettings(max_completion_length=6, **{"beta": 0.0, **options})
