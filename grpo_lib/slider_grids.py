"""The course's three controls as figures with sliders: the bandit explorer, the rollout inspector, the live panel.

Each state is what the control's plain function draws: `explore_bandit`, `explore_rollout`, `training_curves`.
"""

import json

from grpo_lib.bandit_runs import EPSILON
from grpo_lib.explore import explore_run
from grpo_lib.inspect_view import explore_rollout
from grpo_lib.losses import LOSS_TYPES
from grpo_lib.plots import training_curves
from grpo_lib.slider_figures import slider_figure
from grpo_lib.smollm_runs import ARMS, load_smollm_runs
from grpo_lib.stored_runs import STORED, load_stored_runs

__all__ = ["bandit_sliders", "rollout_sliders", "run_sliders", "smollm_sliders"]

BETAS, RATES, YES_NO = (0.0, 0.5, 0.8, 1.0, 2.0, 5.0), (0.01, 0.1, 0.25, 1.0), {"yes": True, "no": False}
GROUP_SIZES, UPDATES = (2, 20), (1, 2, 4, 8)
CLIPS = {"0.2": 0.2, "no clip": None}
RUN_COLUMNS = ("reward_mean", "completion_length", "entropy", "kl", "zero_variance")
BASE_NAME = "the base run: beta 0, lr 1e-4, G 8"


def bandit_sliders(
    beta=0.5, learning_rate=0.01, num_samples=20, normalise=True, *, num_iterations=50, updates_per_rollout=1, **options
):
    """The bandit explorer with sliders: beta, learning rate, normalisation, and group size or, where a rollout is used
    several times, updates per rollout and clip.

    Args:
        beta, learning_rate, num_samples, normalise, updates_per_rollout: where the sliders start; a value that is not
            on its axis is added to it.
        num_iterations, options: the same in all states, see `explore_bandit`.
    Returns:
        see `slider_figure`; each state has the curves, title and alt text of `explore_bandit` at that setting.
    Raises:
        ValueError: on a bad setting.

    >>> figure = bandit_sliders(beta=1.0, num_iterations=2)
    >>> [axis["name"] for axis in figure["grid"]["axes"]]
    ['beta', 'learning rate', 'divide by std', 'group size']
    >>> figure["layout"]["title"]["text"][:40]
    'beta 1, learning rate 0.01, 20 samples, '
    """
    several = updates_per_rollout > 1
    axes = {
        "beta": _with(beta, BETAS[::2] if several else BETAS),
        "learning rate": _with(learning_rate, RATES[::2] if several else RATES),
        "divide by std": YES_NO,
    }
    start = {"beta": beta, "learning rate": learning_rate, "divide by std": normalise}
    if several:
        axes |= {"updates per rollout": _with(updates_per_rollout, UPDATES), "clip": CLIPS}
        start |= {"updates per rollout": updates_per_rollout, "clip": options.pop("clip", 0.2)}
    else:
        axes["group size"], start["group size"] = _with(num_samples, GROUP_SIZES), num_samples
    fixed = dict(seed=42, epsilon=EPSILON) | options

    def draw(**value):
        settings = dict(beta=value["beta"], learning_rate=value["learning rate"], normalise=value["divide by std"])
        if several:
            settings |= dict(updates_per_rollout=value["updates per rollout"], clip=value["clip"])
        return explore_run(fixed | settings, value.get("group size", num_samples), num_iterations).figure_dict

    return slider_figure(draw, axes, **start)


def rollout_sliders(recording=None, *, group=0, completion=0, token=None, variants=None, betas=(0.0, 0.1), **start):
    """The rollout inspector with sliders: loss, beta, group and completion; the token is the one pushed hardest.

    Args:
        recording: a `Recording`; None takes the one that ships.
        group, completion: where the sliders start. token: shown in place of the hardest one at the start's completion.
        variants: loss types; None takes all of `LOSS_TYPES`. betas: the KL weights.
        start: loss_type and beta at the start, and settings that are the same in all states, see `explore_rollout`.
    Returns:
        see `slider_figure`; the "html" of a state is the picked token's story, and what changed against plain GRPO.
    Raises:
        ValueError: on a bad setting.

    >>> figure = rollout_sliders(variants=("grpo",), betas=(0.1,), completion=1)
    >>> [axis["name"] for axis in figure["grid"]["axes"]], "token" in figure["html"]
    (['group', 'completion'], True)
    """
    from grpo_lib.recordings import load_recorded_rollout

    recording = load_recorded_rollout() if recording is None else recording
    loss, beta = start.pop("loss_type", "grpo"), start.pop("beta", 0.1)
    variants = LOSS_TYPES if variants is None else variants
    axes = {
        "loss": {name: name for name in dict.fromkeys([*variants, loss])},
        "beta": _with(beta, betas),
        "group": range(min(2, recording.num_groups) if len(variants) > 4 else recording.num_groups),
        "completion": range(recording.num_generations),
    }

    def draw(**value):
        picked = token if (value["group"], value["completion"]) == (group, completion) else None
        place = dict(group=value["group"], completion=value["completion"], token=picked)
        view = explore_rollout(recording, **place, loss_type=value["loss"], beta=value["beta"], **start)
        html = view.story_html + (f"<p>{view.changes}</p>" if view.changes else "")
        return {**_plain(view.figure), "html": html}

    return slider_figure(draw, axes, loss=loss, beta=beta, group=group, completion=completion)


def run_sliders():
    """Stored runs of the tiny policy with sliders: what one setting changed against the base run, and the seed.

    >>> figure = run_sliders()
    >>> [(axis["name"], len(axis["texts"])) for axis in figure["grid"]["axes"]]
    [('run', 11), ('seed', 3)]
    """
    runs = {name.replace(" = ", " "): load_stored_runs(name) for name in STORED}
    seeds = {str(run["seed"]): i for i, run in enumerate(next(iter(runs.values())))}
    axes = {"run": {name: name for name in runs}, "seed": seeds}

    def draw(run, seed):
        title = f"A stored run of the tiny policy: {BASE_NAME if run == 'base' else f'the base run with {run}'}"
        return _plain(training_curves(runs[run][seed]["steps"], columns=RUN_COLUMNS, smooth=10, title=title))

    return slider_figure(draw, axes)


def smollm_sliders():
    """Stored runs of SmolLM2-135M with sliders: the task, and the seed.

    >>> figure = smollm_sliders()
    >>> [axis["texts"] for axis in figure["grid"]["axes"]]
    [['addition', 'vowel'], ['0', '1', '2']]
    """
    runs = {arm: load_smollm_runs(arm) for arm in ARMS}
    axes = {"task": {arm: arm for arm in runs}, "seed": {str(run["seed"]): i for i, run in enumerate(runs["addition"])}}

    def draw(task, seed):
        title = f"A stored run of SmolLM2-135M: {task}"
        columns = ("reward_mean", "completion_length", "entropy", "zero_variance")
        return _plain(training_curves(runs[task][seed]["steps"], columns=columns, smooth=5, title=title))

    return slider_figure(draw, axes)


def _with(value, values):
    """The axis with the start on it, in order."""
    return sorted({*values, value})


def _plain(figure):
    return json.loads(figure.to_json())
