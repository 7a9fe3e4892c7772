"""The controls of the rollout inspector: pickers of a token, and one slider or menu a setting of the loss."""

import ipywidgets as widgets

from grpo_lib.inspection import DEFAULTS
from grpo_lib.loss_formulas import level_matters
from grpo_lib.losses import LEVELS, LOSS_TYPES
from grpo_lib.token_plots import readable

__all__ = ["KEYS", "NONE", "arrange", "compare_menu", "loss_controls", "match_variant", "place_controls", "point_at"]

NONE = "none"  # a menu's value cannot be None
UPPER = {"as below": NONE, "0.28": 0.28, "0.4": 0.4, "1": 1.0, "4": 4.0}
DELTA = {"none": NONE, "1.5": 1.5, "2": 2.0, "4": 4.0}
COMPARE = {"with plain GRPO": "plain", "with the setting before": "before"}
KEYS = (
    '<div style="opacity:.75;font-size:11px;line-height:1.4">Keyboard: Tab to a menu, then Space, ↑ ↓ and Enter; Tab '
    "to a slider, then Shift+← →, PageUp, PageDown, Home or End, or type into the number beside it.</div>"
)


def _look(description, width="278px", **more):
    layout = {"width": width, "max_width": "99%"}
    return dict(description=description, style={"description_width": "80px"}, layout=layout, **more)


def _menu(description, choices, value, width="278px"):
    """A menu; a value of one's own is added to the choices."""
    choices = choices if value in choices.values() else {**choices, f"{value}": value}
    return widgets.Dropdown(options=list(choices.items()), value=value, **_look(description, width))


def place_controls():
    """Pickers of the group, the completion and the token, still without a recording: name → widget."""
    return dict(
        group=widgets.Dropdown(**_look("group")),
        completion=widgets.Dropdown(**_look("completion")),
        token=widgets.IntSlider(0, min=0, max=0, **_look("token", continuous_update=False)),
    )


def loss_controls(settings):
    """One control a setting: name → widget.

    Args:
        settings: a dict from names of `policy_loss`'s arguments to values; what is left out is at its default.

    >>> controls = loss_controls({"loss_type": "dapo", "epsilon_high": 0.28})
    >>> controls["loss_type"].value, controls["epsilon_high"].value, controls["delta"].value
    ('dapo', 0.28, 'none')
    """
    value = {name: NONE if x is None else x for name, x in {**DEFAULTS, **settings}.items()}
    small = dict(step=0.01, continuous_update=False, readout_format=".3g")
    return dict(
        loss_type=_menu("loss", {name: name for name in LOSS_TYPES}, value["loss_type"]),
        importance_sampling_level=_menu("ratio of a", {x: x for x in LEVELS}, value["importance_sampling_level"]),
        beta=widgets.FloatSlider(value["beta"], min=0, max=max(1.0, value["beta"]), **_look("beta", **small)),
        epsilon=widgets.FloatSlider(
            value["epsilon"], min=0, max=max(0.99, value["epsilon"]), **_look("clip (ε)", **small)
        ),
        epsilon_high=_menu("clip above", UPPER, value["epsilon_high"]),
        delta=_menu("delta", DELTA, value["delta"]),
        bias_correction_kl=widgets.Checkbox(
            value["bias_correction_kl"],
            description="weigh the KL by the ratio",
            indent=False,
            layout={"margin": "2px 2px 2px 84px", "width": "auto"},
        ),
    )


def compare_menu():
    """What the second panel compares with."""
    return _menu("compare", COMPARE, "plain")


def match_variant(controls):
    """Grey out what the chosen loss type does not use."""
    surrogate = LOSS_TYPES[controls["loss_type"].value][0]
    controls["importance_sampling_level"].disabled = not level_matters({n: c.value for n, c in controls.items()})
    controls["epsilon"].disabled = surrogate in ("sapo", "vespo")
    controls["epsilon_high"].disabled = surrogate in ("sapo", "vespo")
    controls["delta"].disabled = surrogate != "clip"
    controls["bias_correction_kl"].disabled = controls["beta"].value == 0


def point_at(controls, recording):
    """Let the pickers offer what a recording holds; they stay where they are if that is there, else go to the start."""
    groups, size, width = recording.num_groups, recording.num_generations, recording.mask.shape[1]
    prompts = [recording.prompts[i * size] for i in range(groups)]
    _offer(controls["group"], [f"{i}: {_short(prompt)}" if prompt else f"{i}" for i, prompt in enumerate(prompts)])
    texts = recording.texts[recording.group(controls["group"].value)]
    _offer(controls["completion"], [f"{i}: {_short(text)}" for i, text in enumerate(texts)])
    controls["token"].max = width - 1


def _offer(menu, names):
    value = menu.value if menu.value is not None and menu.value < len(names) else 0
    options = [(name, i) for i, name in enumerate(names)]
    if list(menu.options) != options:
        menu.options = options
        menu.value = value


def _short(text, longest=34):
    text = readable(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def arrange(place, loss, compare):
    """Three columns that wrap on a narrow page, and the line about the keys."""
    columns = [
        [*place.values(), compare],
        [loss[name] for name in ("loss_type", "importance_sampling_level", "beta", "bias_correction_kl")],
        [loss[name] for name in ("epsilon", "epsilon_high", "delta")],
    ]
    wrap = {"flex_flow": "row wrap", "align_items": "flex-start"}
    boxes = [widgets.VBox(column, layout={"max_width": "100%"}) for column in columns]
    return widgets.VBox([widgets.HBox(boxes, layout=wrap), widgets.HTML(KEYS)])
