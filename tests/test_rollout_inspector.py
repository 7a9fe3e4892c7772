"""The inspector is a thin layer: what it shows is what `explore_rollout` gives, and nothing gets lost on the way."""

import asyncio
import sys
import time
import types
from dataclasses import replace

import ipywidgets
import pytest
from widget_trees import walk

from grpo_lib import redrawing, rollout_inspector
from grpo_lib.inspect_view import explore_rollout
from grpo_lib.inspection import inspect_rollout
from grpo_lib.recordings import Recording, load_recorded_rollout
from grpo_lib.records import GRPOSettings
from grpo_lib.rollout_inspector import RolloutInspector

ROWS = ("tokens", "rewards", "advantages", "mask", "log_probs", "old_log_probs", "ref_log_probs", "truncated")
ROWS += ("prompts", "texts", "answers")
MIME = "application/vnd.plotly.v1+json"


def pictures(figure):
    """What distinguishes two figures: the heat maps' numbers and the words of the title, however they are broken."""
    maps = [[list(row) for row in trace.z] for trace in figure.data if trace.type == "heatmap"]
    return maps, figure.layout.title.text.replace("<br>", " ")


def shown(inspector):
    [output] = inspector.out.outputs
    figure = output["data"][MIME]
    maps = [trace["z"] for trace in figure["data"] if trace["type"] == "heatmap"]
    return maps, figure["layout"]["title"]["text"].replace("<br>", " ")


@pytest.fixture
def displayed(monkeypatch):
    seen = []
    monkeypatch.setattr(redrawing, "display", lambda data, **options: seen.append((data, options)))
    monkeypatch.setattr(redrawing, "clear_output", lambda wait: seen.append(("cleared", wait)))
    return seen


@pytest.fixture
def counted(monkeypatch):
    calls, explore = [], rollout_inspector.explore_rollout

    def count(recording, **settings):
        calls.append(settings)
        return explore(recording, **settings)

    monkeypatch.setattr(rollout_inspector, "explore_rollout", count)
    return calls


CONTROLS = [
    ("loss_type", "cispo", "cispo"),
    ("importance_sampling_level", "sequence", "sequence"),
    ("beta", 0.5, 0.5),
    ("epsilon", 0.05, 0.05),
    ("epsilon_high", 0.4, 0.4),
    ("delta", 1.5, 1.5),
    ("bias_correction_kl", True, True),
]


@pytest.mark.parametrize("name, value, setting", CONTROLS)
def test_moving_each_control_gives_the_plain_functions_view(displayed, name, value, setting):
    start = dict(group=3, completion=3, token=0)
    inspector = RolloutInspector(**start)
    inspector.show()
    before = shown(inspector)
    getattr(inspector, name).value = value
    view = explore_rollout(**start, **{name: setting})
    assert shown(inspector) == pictures(view.figure)
    assert shown(inspector)[1] != before[1]
    assert inspector.view.changes == view.changes and view.changes in inspector.changes.value
    assert inspector.story.value == view.story_html and inspector.table.value == view.table


def test_the_pickers_lead_to_the_token_in_sight(displayed):
    inspector = RolloutInspector()
    inspector.show()
    inspector.group.value, inspector.completion.value, inspector.token.value = 3, 5, 2
    view = explore_rollout(group=3, completion=5, token=2)
    assert inspector.story.value == view.story_html and inspector.table.value == view.table
    assert inspector.figure == view.figure
    recording = load_recorded_rollout()
    assert inspector.completion.label.startswith("5: <think>8+6=14")
    assert [label for label, _ in inspector.group.options] == [f"{i}: {recording.prompts[6 * i]}" for i in range(4)]
    inspector.group.value = 0  # the texts of the completion menu follow
    assert inspector.completion.label == f"5: {recording.texts[5][:33]}…"
    assert inspector.completion.value == 5


def test_it_starts_at_the_token_that_is_pushed_hardest():
    inspector = RolloutInspector(group=3, completion=3, loss_type="dapo")
    assert (
        inspector.token.value == explore_rollout(group=3, completion=3, loss_type="dapo").token == inspector.view.token
    )


def test_the_setting_before_can_be_compared_with(displayed):
    inspector = RolloutInspector()
    inspector.compare.value = "before"
    assert inspector.view.changes == ""
    inspector.loss_type.value = "dapo"
    place = dict(token=inspector.token.value)
    assert inspector.figure == explore_rollout(**place, loss_type="dapo").figure  # before it: plain GRPO
    inspector.loss_type.value = "luspo"
    present = dict(**place, loss_type="luspo")
    assert inspector.figure == explore_rollout(**present, compare_with=dict(loss_type="dapo")).figure
    inspector.group.value = 3  # a picker is no setting: still the one before
    assert inspector.view.before.options["loss_type"] == "dapo"
    inspector.compare.value = "plain"
    assert inspector.figure == explore_rollout(group=3, **present).figure


def test_what_a_variant_does_not_use_is_greyed_out_and_delta_left_out():
    inspector = RolloutInspector(delta=2.0)
    names = ("importance_sampling_level", "epsilon", "epsilon_high", "delta")

    def greyed():
        return [name for name in names if getattr(inspector, name).disabled]

    inspector.figure  # noqa: B018
    assert greyed() == []
    for loss_type, expected in [
        ("cispo", ["delta"]),
        ("sapo", ["epsilon", "epsilon_high", "delta"]),
        ("vespo", list(names)),
        ("luspo", []),
    ]:
        inspector.loss_type.value = loss_type
        assert inspector.view.inspection.options["delta"] == (2.0 if loss_type == "luspo" else None)
        assert greyed() == expected


def test_settings_without_a_control_are_kept():
    inspector = RolloutInspector(loss_type="vespo", vespo_gammas=((1.0, 1.0), (1.0, 1.0)))
    assert inspector.view.inspection.options["vespo_gammas"] == ((1.0, 1.0), (1.0, 1.0))
    inspector.beta.value = 0.0
    assert inspector.view.inspection.options["vespo_gammas"] == ((1.0, 1.0), (1.0, 1.0))


def test_values_off_the_menus_and_sliders_are_taken_not_moved():
    inspector = RolloutInspector(beta=3.0, epsilon=0.333, epsilon_high=0.27, delta=3.5)
    options = inspector.view.inspection.options
    assert [options[name] for name in ("beta", "epsilon", "epsilon_high", "delta")] == [3.0, 0.333, 0.27, 3.5]


def test_another_recording_can_be_put_in(displayed):
    inspector = RolloutInspector(group=3, completion=5, token=19)
    inspector.show()
    small = Recording([["a", "b"]] * 2, [1, 0], [1, -1], [[1, 1]] * 2, [[-1.0, -2.0]] * 2, None, [[-1.0, -1.0]] * 2)
    inspector.recording = small
    assert (inspector.group.value, inspector.completion.value, inspector.token.value) == (0, 0, 1)
    assert shown(inspector) == pictures(explore_rollout(small, token=1).figure)


def test_bad_input_is_refused_at_once():
    with pytest.raises(TypeError, match="of a live rollout make one with record_rollout"):
        RolloutInspector(object())
    with pytest.raises(ValueError, match="group must be below 4, got 7"):
        RolloutInspector(group=7)
    with pytest.raises(TypeError, match="unknown loss option"):
        RolloutInspector(gamma=1)
    with pytest.raises(TypeError, match="compare_with is no setting of the loss: set the menu"):
        RolloutInspector(compare_with=dict(loss_type="dapo"))
    alone = replace(load_recorded_rollout(), ref_log_probs=None)
    with pytest.raises(ValueError, match="beta = 0.1 needs ref_log_probs"):
        RolloutInspector(alone)


def test_an_error_in_a_callback_is_seen_and_goes_when_repaired():
    inspector = RolloutInspector(replace(load_recorded_rollout(), ref_log_probs=None), beta=0.0)
    inspector.beta.value = 0.3
    assert "beta = 0.3 needs ref_log_probs" in inspector.message.value and "color:#d32f2f" in inspector.message.value
    with pytest.raises(ValueError, match="needs ref_log_probs"):
        _ = inspector.figure
    inspector.beta.value = 0.0
    assert inspector.message.value == "" and inspector.error is None and inspector.figure


def test_a_setting_that_failed_is_not_the_one_before():
    inspector = RolloutInspector(replace(load_recorded_rollout(), ref_log_probs=None), beta=0.0)
    inspector.compare.value = "before"
    inspector.loss_type.value = "dapo"
    shown = inspector.figure
    inspector.beta.value = 0.3
    with pytest.raises(ValueError, match="beta = 0.3 needs ref_log_probs"):
        _ = inspector.figure
    inspector.beta.value = 0.0
    assert inspector.figure == shown  # dapo, still against grpo
    assert inspector.view.before.options["loss_type"] == "grpo" and inspector.message.value == ""


def test_settings_before_another_recording_are_forgotten():
    inspector = RolloutInspector()
    inspector.compare.value = "before"
    inspector.beta.value = 0.0
    assert inspector.view.before.options["beta"] == 0.1
    inspector.recording = replace(load_recorded_rollout(), ref_log_probs=None)  # beta 0.1 cannot be had here
    assert inspector.view.changes == "" and inspector.error is None


def test_the_pickers_of_another_recording_are_there_in_the_same_cell(displayed):
    base = load_recorded_rollout()
    small = replace(
        base, **{name: getattr(base, name)[:6] for name in ROWS if getattr(base, name) is not None}, num_generations=3
    )

    async def cell():
        inspector = RolloutInspector(small, group=1)
        inspector.show()
        inspector.recording = base
        inspector.group.value, inspector.completion.value, inspector.token.value = 3, 5, 15
        inspector.recording = inspector.recording  # what is there stays as it is
        return inspector, inspector.figure

    inspector, figure = asyncio.run(cell())
    assert (inspector.group.value, inspector.completion.value, inspector.token.value) == (3, 5, 15)
    assert figure == explore_rollout(base, group=3, completion=5, token=15).figure


def test_what_is_no_recording_is_refused_and_the_one_in_sight_stays():
    inspector = RolloutInspector()
    before = inspector.recording
    with pytest.raises(TypeError, match="a Recording is needed, got a dict; of a live rollout make one"):
        inspector.recording = {}
    assert inspector.recording is before and inspector.figure


def test_vespo_leaves_the_level_free_where_it_weighs_the_kl():
    inspector = RolloutInspector(loss_type="vespo", beta=0.5)
    inspector.figure  # noqa: B018
    assert inspector.importance_sampling_level.disabled
    inspector.bias_correction_kl.value = True
    assert not inspector.importance_sampling_level.disabled
    by_token = inspector.view.inspection.loss, inspector.figure.layout.title.text
    inspector.importance_sampling_level.value = "sequence"
    assert inspector.view.inspection.loss != by_token[0]
    assert "sequence level" in inspector.figure.layout.title.text and "token level" in by_token[1]
    inspector.beta.value = 0.0
    assert inspector.importance_sampling_level.disabled


def test_a_run_s_settings_can_be_handed_over_whole():
    options = GRPOSettings(loss_type="dapo", mask_truncated_completions=True, max_completion_length=20).loss_options
    inspector = RolloutInspector(**options)
    place = dict(token=inspector.token.value)
    assert inspector.view.inspection.loss == inspect_rollout(load_recorded_rollout(), **options).loss
    assert inspector.figure == explore_rollout(**place, **options).figure
    assert inspector.figure.layout.title.text.endswith("cut completions left out")


def test_a_burst_of_events_in_a_kernel_leads_to_few_redraws(displayed, counted):
    async def kernel():
        inspector = RolloutInspector()
        inspector.show()
        counted.clear()
        for i in range(30):
            inspector.beta.value = i / 100
            await asyncio.sleep(0)
        deadline = time.monotonic() + 30
        while (not counted or counted[-1]["beta"] != 0.29) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return inspector

    inspector = asyncio.run(kernel())
    assert 1 <= len(counted) <= 5 and counted[-1]["beta"] == 0.29
    assert shown(inspector) == pictures(explore_rollout(token=inspector.token.value, beta=0.29).figure)


def test_a_menu_that_follows_another_does_not_redraw_again(counted):
    inspector = RolloutInspector(completion=5)
    inspector.figure  # noqa: B018
    counted.clear()
    inspector.group.value = 3
    assert [call["group"] for call in counted] == [3]


def test_code_that_reads_the_figure_never_sees_an_old_one(displayed):
    async def cell():
        inspector = RolloutInspector()
        inspector.show()
        inspector.loss_type.value = "luspo"  # its redraw waits for the cell's end ...
        return inspector.figure, inspector.token.value  # ... but not this one

    figure, token = asyncio.run(cell())
    assert figure == explore_rollout(token=token, loss_type="luspo").figure


def test_one_message_carries_the_view_and_what_stands_in_for_it(displayed):
    inspector = RolloutInspector()
    inspector.show()
    [(data, options)] = displayed
    assert options == {"raw": True}
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == inspector.box.model_id
    assert inspector.view.table in data["text/html"] and inspector.view.story_html in data["text/html"]
    assert data["text/plain"] == "RolloutInspector()"


def test_on_colab_each_redraw_loads_plotly_by_itself(displayed, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    inspector = RolloutInspector()
    inspector.show()
    inspector.loss_type.value = "dapo"
    assert displayed[0] == (inspector.box, {})
    pages = [item.data for item, _ in displayed if hasattr(item, "data")]
    assert len(pages) == 2 and all(page.index("cdn.plot.ly/plotly") < page.index("Plotly.newPlot") for page in pages)
    assert inspector.out.outputs == ()


def test_only_core_widgets_are_used_and_sliders_redraw_when_let_go():
    inspector = RolloutInspector()
    found = list(walk(inspector.box))
    assert len(found) > 15
    for widget in found:
        assert widget._model_module in ("@jupyter-widgets/controls", "@jupyter-widgets/base", "@jupyter-widgets/output")
    for slider in (inspector.token, inspector.beta, inspector.epsilon):
        assert slider.continuous_update is False and slider.readout is True
    texts = [child.value for child in inspector.box.children if isinstance(child, ipywidgets.HTML)]
    assert any("Shift+" in text and "PageUp" in text and "number" in text and "Enter" in text for text in texts)
