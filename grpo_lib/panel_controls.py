"""The controls of the live panel: a slider a setting, and the buttons; only what ipywidgets 7.7 and 8 both have."""

import sys

import ipywidgets as widgets

__all__ = ["KEYS", "arrange_panel", "close_tree", "panel_buttons", "panel_sliders"]

KEYS = (
    '<div style="opacity:.8;font-size:11px;line-height:1.4">A slider acts from the next step on. Keyboard: Tab to a '
    "slider, then Shift+← →, PageUp, PageDown, Home or End, or type into the number beside it, then Enter: so in "
    "JupyterLab and in Notebook 7. Plain ← → only in JupyterLab. A button: Space.</div>"
)
LOOKS = {
    "start": dict(description="Start", icon="play", button_style="primary", tooltip="Train on until paused"),
    "pause": dict(description="Pause", icon="pause", tooltip="Stop after the step that is being taken"),
    "one_step": dict(description="One step", icon="step-forward", tooltip="Pause, and take one step"),
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
    """The buttons start, pause, one_step and reset: name → widget; each action is called without arguments."""
    buttons = {}
    for name, look in LOOKS.items():
        buttons[name] = widgets.Button(layout={"width": "100px"}, **look)
        buttons[name].on_click(lambda _, action=actions[name]: action())
    return buttons


def arrange_panel(sliders, buttons, *shown):
    """Buttons over sliders in two columns that wrap on a narrow page; under them what is `shown`."""
    rows, wrap = list(sliders.values()), {"flex_flow": "row wrap", "align_items": "flex-start"}
    columns = [widgets.VBox(column, layout={"max_width": "100%"}) for column in (rows[:2], rows[2:])]
    buttons = widgets.HBox(list(buttons.values()), layout={"flex_flow": "row wrap"})
    controls = [buttons, widgets.HBox(columns, layout=wrap), widgets.HTML(KEYS)]
    if "google.colab" in sys.modules:
        controls.append(_heartbeat())
    return widgets.VBox([*controls, *shown])


def _heartbeat():
    """A Play widget: its ticks are messages, for a page that shows what was drawn only when one is handled."""
    hint = widgets.Label("If the curves stand still while it trains, press ▶ here, once.")
    return widgets.HBox([widgets.Play(min=0, max=10**6, interval=300), hint])


def close_tree(widget):
    """Close a widget, what it contains, and the layout and style of each: every one of them has a comm of its own."""
    for child in getattr(widget, "children", ()):
        close_tree(child)
    for part in (getattr(widget, "style", None), getattr(widget, "layout", None), widget):
        if isinstance(part, widgets.Widget):
            part.close()
