"""The controls of the bandit explorer: one ipywidgets slider, menu or box a setting, and where they stand."""

import ipywidgets as widgets

NO_CLIP = "none"  # a menu's value cannot be None
CLIPS = {"0.05": 0.05, "0.1": 0.1, "0.2": 0.2, "0.2 down, 0.28 up": (0.2, 0.28), "0.5": 0.5, "no clip": NO_CLIP}
BASELINES = {"mean of the group": "mean", "mean of the others": "loo"}
KL_DIRECTIONS = {"KL(π‖ref), reverse": "reverse", "KL(ref‖π), forward": "forward"}
SLIDER_KEYS = (
    "Tab to a slider, then Shift+← →, PageUp, PageDown, Home or End, or type into the number beside it, then Enter: so "
    "in JupyterLab and in Notebook 7. Plain ← → only in JupyterLab."
)
MENU_KEYS = "A menu: Space opens it, ↑ ↓ and Enter choose."
BUTTON_KEYS = "A button or a box to tick: Space."


def setting_controls(*, beta, learning_rate, num_samples, updates_per_rollout, normalise, baseline, kl_direction, clip):
    """One control a setting of the bandit, in the order of the arguments: name → widget.

    >>> controls = setting_controls(beta=0.5, learning_rate=0.01, num_samples=20, updates_per_rollout=1,
    ...                             normalise=True, baseline="mean", kl_direction="reverse", clip=None)
    >>> controls["beta"].max, controls["clip"].value
    (5.0, 'none')
    """

    def look(description):  # a slider redraws when its handle is let go
        style, layout = {"description_width": "130px"}, {"width": "380px", "max_width": "99%"}
        return dict(description=description, style=style, layout=layout, continuous_update=False)

    def menu(value, choices, description):
        style, layout = {"description_width": "70px"}, {"width": "280px", "max_width": "99%"}
        return widgets.Dropdown(
            options=list(choices.items()), value=value, description=description, style=style, layout=layout
        )

    clip = NO_CLIP if clip is None else tuple(clip) if isinstance(clip, list) else clip
    own = {} if clip in CLIPS.values() else {f"{clip}": clip}
    rate = dict(min=-4, max=0, step=0.1, readout_format=".3g")
    return dict(
        beta=widgets.FloatSlider(beta, min=0, max=5, step=0.05, **look("beta")),
        learning_rate=widgets.FloatLogSlider(learning_rate, **rate, **look("learning rate")),
        num_samples=widgets.IntSlider(num_samples, min=2, max=100, **look("group size")),
        updates_per_rollout=widgets.IntSlider(updates_per_rollout, min=1, max=8, **look("updates per rollout")),
        normalise=widgets.Checkbox(
            normalise, description="divide advantages by std", indent=False, layout={"margin": "2px 2px 2px 10px"}
        ),
        baseline=menu(baseline, BASELINES, "baseline"),
        kl_direction=menu(kl_direction, KL_DIRECTIONS, "KL"),
        clip=menu(clip, {**CLIPS, **own}, "clip"),
    )


def run_controls(*, num_iterations, seed):
    """The two number boxes of a run: name → widget."""
    small = dict(style={"description_width": "70px"}, layout={"width": "155px"})
    return dict(
        num_iterations=widgets.BoundedIntText(num_iterations, min=1, max=2000, description="iterations", **small),
        seed=widgets.BoundedIntText(seed, min=0, max=2**31 - 1, description="seed", **small),
    )


def check_on_controls(controls, values, *, instead="explore_bandit takes any value"):
    """Raise ValueError where a control could not take its value: ipywidgets would move it to the nearest end."""
    for name, value in values.items():
        control = controls[name]
        if value is None or abs(control.value - value) > 1e-9 * abs(control.value):
            low, high = (
                (10.0**control.min, 10.0**control.max) if hasattr(control, "base") else (control.min, control.max)
            )
            raise ValueError(f"{name} must lie on its control, from {low:g} to {high:g}, got {value!r}; {instead}")


def keys_line(*before):
    """The line under the controls that says which keys work; sentences of one's own come before it."""
    text = " ".join([*before, "Keyboard:", SLIDER_KEYS, MENU_KEYS, BUTTON_KEYS])
    return widgets.HTML(f'<div style="opacity:.8;font-size:11px;line-height:1.4">{text}</div>')


def action_buttons(one_step, whole_run, reset):
    """The three buttons; each argument is called without arguments when its button is pressed."""
    looks = [
        dict(description="One step", icon="step-forward", tooltip="Take one iteration and look inside it"),
        dict(description="Run", icon="play", button_style="primary", tooltip="Draw the whole run"),
        dict(description="Reset", icon="undo", tooltip="Back to the first settings"),
    ]
    buttons = [widgets.Button(layout={"width": "100px"}, **look) for look in looks]
    for button, action in zip(buttons, (one_step, whole_run, reset), strict=True):
        button.on_click(lambda _, action=action: action())
    return buttons


def compare_toggle():
    """The button that keeps the present settings as A and draws them beside the ones to come."""
    tip = "Keep these settings as A; what you set from now on is B, beside it"
    return widgets.ToggleButton(False, description="Compare", icon="columns", tooltip=tip, layout={"width": "100px"})


def arrange(settings, others, buttons, *shown):
    """Settings in two columns that wrap on a narrow page, boxes and buttons in a row below, then what is `shown`."""
    rows = list(settings.values())
    wrap = {"flex_flow": "row wrap", "align_items": "flex-start"}
    columns = widgets.HBox(
        [widgets.VBox(column, layout={"max_width": "100%"}) for column in (rows[:4], rows[4:])], layout=wrap
    )
    below = widgets.HBox([*others.values(), widgets.HBox(buttons, layout={"flex_flow": "row wrap"})], layout=wrap)
    return widgets.VBox([columns, below, keys_line(), *shown])
