"""The controls of the live panel: a slider a setting, and the buttons; only what ipywidgets 7.7 and 8 both have."""

import sys

import ipywidgets as widgets

from grpo_lib.controls import keys_line

__all__ = ["arrange_panel", "panel_buttons", "panel_sliders"]

LOOKS = {
    "start": dict(description="Start", icon="play", button_style="primary", tooltip="Train on until paused"),
    "pause": dict(description="Pause", icon="pause", tooltip="Stop after the step that is being taken"),
    "one_step": dict(description="One step", icon="step-forward", tooltip="Pause, and take one step"),
    "inspect": dict(description="Inspect", icon="search", tooltip="Open the newest step in the rollout inspector"),
    "reset": dict(description="Reset", icon="undo", tooltip="Back to the first weights and settings"),
}


def panel_sliders(*, beta, learning_rate, temperature, num_generations):
    """One slider a setting: name → widget.

    >>> sliders = panel_sliders(beta=0.0, learning_rate=1e-4, temperature=1.0, num_generations=8)
    >>> [type(slider).__name__ for slider in sliders.values()]
    ['FloatSlider', 'FloatLogSlider', 'FloatSlider', 'IntSlider']
    """

    def look(description):  # acts when its handle is let go: a drag is one change, not ten
        style, layout = {"description_width": "110px"}, {"width": "370px", "max_width": "99%"}
        return dict(description=description, style=style, layout=layout, continuous_update=False)

    rate = dict(min=-7, max=-1, step=0.1, readout_format=".2e")
    return dict(
        beta=widgets.FloatSlider(beta, min=0, max=5, step=0.05, **look("beta")),
        learning_rate=widgets.FloatLogSlider(learning_rate, **rate, **look("learning rate")),
        temperature=widgets.FloatSlider(temperature, min=0.1, max=2, step=0.05, **look("temperature")),
        num_generations=widgets.IntSlider(num_generations, min=2, max=32, **look("group size")),
    )


def panel_buttons(**actions):
    """The buttons of `LOOKS`: name → widget; each action is called without arguments.

    On Colab without *Inspect*: a figure that is drawn outside of a cell and a callback does not arrive there.
    """
    buttons = {}
    for name, look in LOOKS.items():
        if name == "inspect" and "google.colab" in sys.modules:
            continue
        buttons[name] = widgets.Button(layout={"width": "100px"}, **look)
        buttons[name].on_click(lambda _, action=actions[name]: action())
    return buttons


def arrange_panel(sliders, buttons, *shown):
    """Buttons over sliders in two columns that wrap on a narrow page; under them what is `shown`."""
    rows, wrap = list(sliders.values()), {"flex_flow": "row wrap", "align_items": "flex-start"}
    columns = [widgets.VBox(column, layout={"max_width": "100%"}) for column in (rows[:2], rows[2:])]
    buttons = widgets.HBox(list(buttons.values()), layout={"flex_flow": "row wrap"})
    controls = [buttons, widgets.HBox(columns, layout=wrap), keys_line("A slider acts from the next step on.")]
    if "google.colab" in sys.modules:
        controls.append(_heartbeat())
    return widgets.VBox([*controls, *shown])


def _heartbeat():
    """A Play widget: its ticks are messages, for a page that shows what was drawn only when one is handled."""
    hint = widgets.Label("If the curves stand still while it trains, press ▶ here, once.")
    return widgets.HBox([widgets.Play(min=0, max=10**6, interval=300), hint])
