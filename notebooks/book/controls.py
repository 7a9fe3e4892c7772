"""Which sliders stand where a control stood, read from the source of the notebook's cell."""

import ast
import hashlib
import json
from pathlib import Path

STAND_IN = "(The control appears here when the cell is run.)"
LIVE = "This is a grid of settings, computed beforehand. To choose freely, run the notebook in JupyterLab or on Colab."
SHIPPED = "Shown is the recorded rollout that ships with the library. "
STORED = "Shown are stored runs of 200 steps; they are not steered. "
LIBRARY = Path(__file__).resolve().parents[2] / "grpo_lib"
SHORT = dict(variants=("grpo",))


def control_html(source, before):
    """The HTML for the control of a cell, given the sources of the cells before it."""
    from book.figures import sliders_html

    name, settings, note = choose(source, before)
    return sliders_html(_kept(name, settings), note + LIVE)


def choose(source, before):
    """(function of `grpo_lib.slider_grids`, its arguments, a note): what stands for the control of a cell.

    Raises:
        ValueError: where the cell makes none of the course's controls.

    >>> choose("BanditExplorer(beta=2.0)", [])
    ('bandit_sliders', {'beta': 2.0}, '')
    """
    for control, name in (
        ("BanditExplorer", "bandit_sliders"),
        ("RolloutInspector", "rollout_sliders"),
    ):
        call = _call(source, control)
        if call is not None:
            own = name == "rollout_sliders" and bool(call.args)  # a rollout that only a running kernel has
            settings = {key.arg: ast.literal_eval(key.value) for key in call.keywords}
            return (
                name,
                {**settings, **(SHORT if own else {})},
                SHIPPED if own else "",
            )
    if _call(source, "inspect") is not None:
        return (
            "rollout_sliders",
            {"betas": (0.0,), "beta": 0.0, "variants": ("grpo", "dr_grpo")},
            SHIPPED,
        )
    if _call(source, "show") is not None or _call(source, "LivePanel") is not None:
        smol = any("plan_run(" in text for text in [*before, source])
        return ("smollm_sliders", {}, "Shown are stored runs. ") if smol else ("run_sliders", {}, STORED)
    raise ValueError(
        f"no sliders are known for the control of this cell: {source!r:.200}; see notebooks/book/controls.py"
    )


def _call(source, name):
    """The first call of a function or method of this name, or None."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and name in (
            getattr(node.func, "id", ""),
            getattr(node.func, "attr", ""),
        ):
            return node
    return None


def _kept(name, settings, folder=None):
    """The sliders' figure, from the cache where the library has not changed since (a grid takes up to a minute)."""
    folder = Path(__file__).resolve().parents[1] / "_build" / "sliders" if folder is None else folder
    path = folder / f"{hashlib.sha256(f'{name} {settings} {library_digest()}'.encode()).hexdigest()[:24]}.json"
    if not path.is_file():
        from grpo_lib import slider_grids

        path.parent.mkdir(parents=True, exist_ok=True)
        figure = getattr(slider_grids, name)(**settings)
        path.write_text(
            json.dumps(figure, separators=(",", ":"), ensure_ascii=False),
            encoding="utf-8",
        )
    return json.loads(path.read_text(encoding="utf-8"))


def library_digest():
    """A digest of the library and its data, on which every grid depends."""
    digest = hashlib.sha256()
    for path in sorted([*LIBRARY.glob("*.py"), *LIBRARY.glob("data/*.json")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
