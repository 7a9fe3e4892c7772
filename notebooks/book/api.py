"""Sphinx extension: the reference of grpo_lib, one page a group of modules, written before the build from the modules.

A module that no group names stands on the page "More modules", so that none is left out.
"""

from pathlib import Path

from book.docstrings import to_rst

# A name belongs to the first group that names it; else to the first whose pattern it fits.
GROUPS = {
    "The bandit": """softmax_policy resting_points kl_estimators clipping bandit_step bandit bandit_runs explore
        bandit_plots step_plot""",
    "Rewards and tasks": """units answers rewards reward_checks reward_attacks tasks word_tasks gsm8k finetune_data""",
    "The loss": """advantages masks logprobs loss_weights surrogates losses loss_formulas rollout grpo""",
    "Sampling and scoring": """modes prompts padding generation""",
    "Training": """clock streams records run_warnings update run training schedule checkpoints keeping best_policy
        weight_files record_files""",
    "Models, devices, memory": """models policies smollm base_weights adapters reference devices hardware precision
        presets memory_meter live_memory memory_estimate memory_table pretrain""",
    "Evaluation": """intervals comparison published_claims sample_size pass_at_k evaluation problem_results finetune
        finetune_results""",
    "Runs and rollouts that ship": """stored_runs reward_runs control_runs smollm_runs recorded recordings inspection
        token_stories inspect_view""",
    "TRL, several processes": """trl_* scale_* step_time published_steps processes two_processes""",
    "The bug museum": """museum_bugs museum museum_exhibits museum_tensor_checks museum_checks museum_tour museum_runs
        museum_plots""",
    "Exercise checks": """verdicts *_checks *_exercises checks""",
    "Figures": """plot_style *_plots *_tables plots course_map slider_figures slider_grids""",
    "Controls": """controls live_cells named_controls redrawing widgets inspector_controls rollout_inspector live_*
        steered_run interrupts panel_controls panel_view held_run panel""",
    "Setup": """classroom _arguments""",
}
MORE = "More modules"
INTRO = """\
API reference
=============

What the library's docstrings say, module by module; each function links to its source. The lessons open the important
ones up step by step.

.. toctree::
   :maxdepth: 1

"""


def pages(names):
    """{file name: text} of the reference's pages for these modules.

    >>> sorted(pages(["bandit", "classroom", "unheard_of"]))
    ['index', 'more_modules', 'setup', 'the_bandit']
    """
    groups = {title: [name for name in text.split() if name in names] for title, text in GROUPS.items()}
    groups[MORE] = sorted(set(names) - {name for group in groups.values() for name in group})
    groups = {title: group for title, group in groups.items() if group}
    written = {_file(title): _page(title, group) for title, group in groups.items()}
    return {
        "index": INTRO + "".join(f"   {name}\n" for name in written),
        **written,
    }


def _file(title):
    return title.lower().replace(",", "").replace(" ", "_").replace("-", "_")


def _page(title, modules):
    text = f"{title}\n{'=' * len(title)}\n\n"
    for name in modules:
        heading = name.replace("_", "\\_")
        text += f"{heading}\n{'-' * len(heading)}\n\n.. automodule:: grpo_lib.{name}\n"
        text += "   :members:\n   :ignore-module-all:\n\n"
    return text


def modules():
    """The library's modules, by the files that are there."""
    folder = Path(__file__).resolve().parents[2] / "grpo_lib"
    return [path.stem for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]


def write_pages(app):
    """Event `builder-inited`, before Sphinx looks for pages: write what has changed, drop what is no longer there."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    written = pages(modules())
    for path in folder.glob("*.rst"):
        if path.stem not in written:
            path.unlink()
    for name, text in written.items():
        path = folder / f"{name}.rst"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def rewrite(app, what, name, obj, options, lines):
    """Event `autodoc-process-docstring`."""
    lines[:] = to_rst(lines)


def setup(app):
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
