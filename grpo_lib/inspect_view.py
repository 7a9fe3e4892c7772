"""What the rollout inspector shows, as a plain function: a recording and settings in, a figure and a table out."""

from dataclasses import dataclass
from functools import lru_cache
from html import escape

from grpo_lib.inspection import DEFAULTS, Inspection, inspect_rollout, setting_text
from grpo_lib.inspection_plots import push_figure
from grpo_lib.inspection_tables import group_table, token_rows
from grpo_lib.recorded import check_place
from grpo_lib.recordings import load_recorded_rollout
from grpo_lib.token_stories import TokenStory, describe_changes, token_story

__all__ = ["RolloutView", "explore_rollout"]

PLAIN = {
    name: DEFAULTS[name] for name in ("loss_type", "importance_sampling_level", "epsilon", "epsilon_high", "delta")
}


@dataclass(frozen=True, eq=False)
class RolloutView:
    """One group of a rollout under one loss; as a cell's last line it shows its table and its figure.

    Attributes:
        figure: `go.Figure` of `push_figure`.
        table, story_html: HTML: the group's completions, and the picked token's numbers.
        story: the picked token's `TokenStory`. group, completion, token: which one that is.
        changes: which tokens the setting compared with moves otherwise, a sentence; "" where the settings are the same.
            It says so where there is nothing to compare with, as that loss is not finite; before is inspection then.
        inspection, before: the `Inspection` shown, and the one compared with.
    """

    figure: object
    table: str
    story: TokenStory
    group: int
    completion: int
    token: int
    changes: str
    inspection: Inspection
    before: Inspection

    @property
    def story_html(self):
        lines = escape("\n".join(self.story.lines))
        token = f'<code style="unicode-bidi:isolate">{escape(repr(self.story.token)[1:-1])}</code>'
        name = f"Completion {self.completion}, token {self.token}: {token}"
        formulae = (
            f'<pre style="line-height:1.35;margin:4px 0;white-space:pre;overflow-x:auto">{lines}</pre>' if lines else ""
        )
        return f"<div><b>{name}</b>{formulae}<div>{escape(self.story.words)}</div></div>"

    @property
    def rows_html(self):
        """The figure's first panel in HTML."""
        return token_rows(self.inspection, self.group, token=self.token)

    @property
    def html(self):
        """Everything but the figure, which is there as text, folded up."""
        changes = f"<div>{escape(self.changes)}</div>" if self.changes else ""
        rows = f"<details><summary>The figure's tokens as text</summary>{self.rows_html}</details>"
        return f"{self.table}{changes}{self.story_html}{rows}"

    def _ipython_display_(self):
        from IPython.display import HTML, display

        display(HTML(self.html))
        display(self.figure)


def explore_rollout(
    recording=None,
    *,
    group=0,
    completion=0,
    token=None,
    compare_with=None,
    loss_type="grpo",
    importance_sampling_level="token",
    beta=0.1,
    epsilon=0.2,
    epsilon_high=None,
    delta=None,
    bias_correction_kl=False,
    **options,
):
    """Look at one group of a recorded rollout: what the next update does to each token, and why.

    Args:
        recording: a `Recording`; None takes the one that ships.
        group: which group, from 0. completion: which of its completions, from 0. token: a position in it; None takes
            the one that is pushed hardest.
        compare_with: a dict of settings to draw the change against; what it leaves out is as here. None compares with
            plain GRPO: token level, clip 0.2, the same beta.
        loss_type, importance_sampling_level, beta, epsilon, epsilon_high, delta, bias_correction_kl, options: of
            `grpo_lib.losses.policy_loss`; also mask_truncated_completions, see `grpo_lib.grpo.rollout_loss`.
    Returns:
        a `RolloutView`.
    Raises:
        ValueError, TypeError: on a bad setting, or a group, completion or token that is not there. FloatingPointError:
        where the loss is not finite.

    >>> view = explore_rollout(loss_type="dapo", group=1)
    >>> view.figure.layout.title.text
    'What the next update does to each token: dapo, token level, beta 0.1, clip 0.2'
    """
    recording = _shipped() if recording is None else recording
    settings = dict(loss_type=loss_type, importance_sampling_level=importance_sampling_level, beta=beta)
    settings |= dict(epsilon=epsilon, epsilon_high=epsilon_high, delta=delta, bias_correction_kl=bias_correction_kl)
    settings |= options
    inspection = inspect_rollout(recording, **settings)
    other = {**settings, **(_plain(settings) if compare_with is None else compare_with)}
    try:
        before, unknown = inspect_rollout(recording, **other), ""
    except FloatingPointError as error:
        before, unknown = inspection, f"There is nothing to compare with: {error}."
    check_place("group", group, recording.num_groups)
    check_place("completion", completion, recording.num_generations)
    row = group * recording.num_generations + completion
    token = int(inspection.push[row].abs().argmax()) if token is None else token
    check_place("token", token, inspection.mask.shape[1])
    texts = [setting_text(x.options) for x in (inspection, before)]
    same = inspection.options == before.options
    changes = "" if same else describe_changes(inspection, before, recording.group(group))[0]
    changes = unknown or (changes and f"Against {texts[1]}. {changes}")
    figure = push_figure(
        inspection,
        group,
        picked=(completion, token),
        before=None if same else before,
        title=f"What the next update does to each token: {texts[0]}",
        change_title=f"What changed against {texts[1]}",
    )
    return RolloutView(
        figure=figure,
        table=group_table(inspection, group, completion),
        story=token_story(inspection, row, token),
        group=group,
        completion=completion,
        token=token,
        changes=changes,
        inspection=inspection,
        before=before,
    )


def _plain(settings):
    return {**PLAIN, "bias_correction_kl": False, "mask_truncated_completions": False, "beta": settings["beta"]}


@lru_cache(maxsize=1)
def _shipped():
    return load_recorded_rollout()
