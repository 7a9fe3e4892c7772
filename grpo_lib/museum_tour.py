"""A walk through the bug museum: every check by name, on every exhibit, with the bug and without."""

import textwrap
import warnings

from grpo_lib import museum_checks as models
from grpo_lib import museum_tensor_checks as tensors
from grpo_lib.museum_exhibits import EXHIBITS, find_exhibit

__all__ = ["CHECKS", "cross_check", "examine", "reveal"]


def _run_weights(parts):
    run = parts.run()
    return models.check_weights_move(run.model, run.settings.learning_rate)


# name -> what it finds in the parts of `grpo_lib.museum.course_parts`; in the order of the exhibits
CHECKS = {
    "check_empty_answer_earns_nothing": lambda parts: tensors.check_empty_answer_earns_nothing(parts.reward),
    "check_kl_is_a_cost": lambda parts: tensors.check_kl_is_a_cost(parts.loss),
    "check_each_reward_pushes_its_own": lambda parts: tensors.check_each_reward_pushes_its_own(parts.loss),
    "check_clip_is_pessimistic": lambda parts: tensors.check_clip_is_pessimistic(parts.loss),
    "check_weights_move": _run_weights,
    "check_reference_stays": lambda parts: models.check_reference_stays(parts.run()),
    "check_scores_repeat": lambda parts: models.check_scores_repeat(parts.score),
    "check_mask_keeps_first_eos": lambda parts: tensors.check_mask_keeps_first_eos(parts.mask),
    "check_mask_ignores_pad_id": lambda parts: tensors.check_mask_ignores_pad_id(parts.mask),
    "check_kl_has_gradient": lambda parts: tensors.check_kl_has_gradient(parts.loss),
    "check_advantages_stay_in_group": lambda parts: tensors.check_advantages_stay_in_group(parts.advantages),
    "check_no_token_is_cut": lambda parts: models.check_no_token_is_cut(parts.sample),
    "check_temperature_is_scored": lambda parts: models.check_temperature_is_scored(parts.sample, parts.score),
    "check_padding_changes_nothing": lambda parts: models.check_padding_changes_nothing(parts.score),
}


def examine(exhibit, check=None):
    """Run a check on an exhibit, broken and fixed.

    Args:
        exhibit: its number or name. check: a key of `CHECKS`; None takes the exhibit's own.
    Returns:
        (finding with the bug, finding without it).
    """
    exhibit = find_exhibit(exhibit)
    found = []
    for state in (exhibit.broken, exhibit.fixed):
        with warnings.catch_warnings(), state() as parts:
            warnings.simplefilter("ignore", UserWarning)
            found.append(CHECKS[check or exhibit.check](parts))
    return tuple(found)


def cross_check():
    """Run every check on every exhibit, broken and fixed.

    Returns:
        a dict from an exhibit's name to a dict from a check's name to the pair that `examine` returns.
    """
    return {name: {check: examine(name, check) for check in CHECKS} for name in EXHIBITS}


def reveal(number):
    """Say what an exhibit is: its name, the line that is wrong, what its check finds, the cause.

    Args:
        number: of the exhibit, or its name.
    Returns:
        text of a few lines.

    >>> print("\\n".join(reveal("sign of the KL").splitlines()[:4]))
    Exhibit 2: sign of the KL
    <BLANKLINE>
    - objective = surrogate - beta * kl
    + objective = surrogate + beta * kl
    """
    exhibit = find_exhibit(number)
    broken, fixed = examine(number)
    lines = [f"Exhibit {list(EXHIBITS).index(exhibit.name) + 1}: {exhibit.name}", ""]
    lines += [*exhibit.difference().splitlines(), "", f"broken  {broken}", f"fixed   {fixed}", "", exhibit.cause]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, 100, subsequent_indent="    ") or [""])
