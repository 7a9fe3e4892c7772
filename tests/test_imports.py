"""The light part of the library stays light, and every lazy name leads somewhere."""

import importlib
import subprocess
import sys

import pytest

import grpo_lib

HEAVY = ("torch", "transformers", "plotly", "ipywidgets", "IPython")


def heavy_modules_after(statement):
    """Which of HEAVY a new interpreter has loaded after the statement."""
    code = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_light_part_loads_nothing_heavy():
    assert heavy_modules_after("import grpo_lib, grpo_lib.bandit, grpo_lib.rewards") == []


def test_the_check_above_can_fail():
    assert heavy_modules_after("import grpo_lib.bandit, plotly") == ["plotly"]


def test_a_lazy_name_is_loaded_on_first_use():
    assert heavy_modules_after("import grpo_lib; grpo_lib.group_advantages") == ["torch"]


@pytest.mark.parametrize("name", grpo_lib._NAMES)
def test_each_name_comes_from_its_module(name):
    value = getattr(grpo_lib, name)
    assert callable(value) and value.__name__ == name
    assert value is getattr(importlib.import_module(f"grpo_lib.{grpo_lib._NAMES[name]}"), name)


@pytest.mark.parametrize("name", grpo_lib._MODULES)
def test_each_module_is_an_attribute(name):
    assert getattr(grpo_lib, name) is importlib.import_module(f"grpo_lib.{name}")


def test_dir_and_all_list_the_names():
    assert {*grpo_lib._NAMES, *grpo_lib._MODULES} <= set(dir(grpo_lib))
    assert set(grpo_lib._NAMES) < set(grpo_lib.__all__)


def test_an_unknown_name_is_an_attribute_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match="no attribute 'group_advantage'; it has: .*group_advantages"):
        grpo_lib.group_advantage  # noqa: B018
