"""Group Relative Policy Optimization (GRPO), small enough to read.

Every public name can be taken from here, `from grpo_lib import group_advantages`; the module that defines it is loaded
when it is first used, so that `import grpo_lib` alone loads neither torch nor transformers nor plotly (PEP 562).
"""

import importlib

__version__ = "0.1.0"

# name -> the module that defines it, in the order of the course
_NAMES = {
    "BanditGRPO": "bandit",
    "resting_point": "bandit",
    "critical_beta": "bandit",
    "extract_answer": "rewards",
    "completion_text": "rewards",
    "correctness_reward": "rewards",
    "format_reward": "rewards",
    "combined_reward": "rewards",
    "group_advantages": "advantages",
    "zero_variance_groups": "advantages",
    "create_completion_mask": "masks",
    "truncated_completions": "masks",
    "position_ids_from_mask": "masks",
    "selective_log_softmax": "logprobs",
    "compute_log_probs": "logprobs",
    "kl_estimate": "losses",
    "policy_loss": "losses",
    "generate_completions": "generation",
    "Rollout": "grpo",
    "collect_rollout": "grpo",
    "rollout_loss": "grpo",
    "grpo_loss": "grpo",
    "GRPOSettings": "records",
    "GRPORun": "run",
    "train_with_grpo": "training",
    "trl_config": "trl_settings",
    "settings_without_counterpart": "trl_settings",
    "trl_callbacks": "trl_schedule",
    "sampled_as_scored": "trl_sampling",
    "trl_dataset": "trl_data",
    "checked_reward": "trl_data",
    "trl_loss": "trl_parity",
    "compare_losses": "trl_parity",
    "train_with_trl": "trl_run",
    "load_records": "record_files",
    "load_tiny_policy": "models",
    "load_hub_model": "models",
    "load_policy": "policies",
    "estimate_memory": "memory_estimate",
    "load_addition": "tasks",
    "addition_reward": "tasks",
    "load_gsm8k": "tasks",
    "BanditExplorer": "widgets",
    "record_rollout": "recordings",
    "load_recorded_rollout": "recordings",
    "RolloutInspector": "rollout_inspector",
    "LivePanel": "panel",
    "setup": "classroom",
}
_MODULES = (*dict.fromkeys(_NAMES.values()), "plots", "checks")

__all__ = ["__version__", *_NAMES]


def __getattr__(name):
    if name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has: {', '.join(__all__)}")
    globals()[name] = value  # the next use finds it at once
    return value


def __dir__():
    return sorted({*globals(), *_NAMES, *_MODULES})
