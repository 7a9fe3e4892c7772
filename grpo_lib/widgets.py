"""Sliders over the plain functions of `explore`: the bandit explorer.

Every lesson also works without a front end, by calling `explore_bandit`, `explore_bandit_step` and `compare_bandits`.
"""

from html import escape

import ipywidgets as widgets

from grpo_lib.controls import (
    NO_CLIP,
    action_buttons,
    arrange,
    check_on_controls,
    compare_toggle,
    run_controls,
    setting_controls,
)
from grpo_lib.explore import (
    compare_bandits,
    explore_bandit,
    explore_bandit_step,
    explore_both,
    explore_run,
    explore_step,
)
from grpo_lib.named_controls import closing_on_error
from grpo_lib.plot_style import alt_text
from grpo_lib.redrawing import RedrawnPanel, show_figure

__all__ = ["BanditExplorer", "compare_bandits", "explore_bandit", "explore_bandit_step"]


class BanditExplorer(RedrawnPanel):
    """Controls for every setting of the bandit; one step at a time, a whole run, or two settings side by side.

    Put it on a cell's last line, or call `show()`. Moving a slider trains anew from the same seed and redraws what is
    in sight: the run, or the iteration that *One step* has reached. *Compare* keeps the present settings as A and draws
    the ones to come beside them as B; pressed again, it forgets A.

    Attributes:
        beta, learning_rate, num_samples, updates_per_rollout, normalise, baseline, kl_direction, clip, num_iterations,
            seed: the controls; set their `.value` from code (of clip: a number, a pair or "none", out of its menu).
            A value outside a control's range is moved to the end of the range, as ipywidgets does.
        compare: the toggle of *Compare*.
        figure: the figure of the present settings.
        run: their trained `BanditGRPO`.
        error: the exception of the last redraw, or None; it also stands in red under the controls.

    Args:
        beta, learning_rate, num_samples, normalise, num_iterations, seed, updates_per_rollout, baseline, kl_direction,
            clip: where the controls start.
        options: further settings of `BanditGRPO`, without a control: vocab, reward, sample_seed.

    >>> explorer = BanditExplorer(num_iterations=5)
    >>> explorer.beta.value = 2.0
    >>> explorer.run.beta, len(explorer.figure.data[0].y)
    (2.0, 6)
    """

    @closing_on_error()
    def __init__(
        self,
        beta=0.5,
        learning_rate=0.01,
        num_samples=20,
        normalise=True,
        *,
        num_iterations=50,
        seed=42,
        updates_per_rollout=1,
        baseline="mean",
        kl_direction="reverse",
        clip=0.2,
        **options,
    ):
        super().__init__()
        self._options, self._step, self._shown, self._kept = options, 0, None, None  # step 0: the whole run is in sight
        settings = setting_controls(
            beta=beta,
            learning_rate=learning_rate,
            num_samples=num_samples,
            updates_per_rollout=updates_per_rollout,
            normalise=normalise,
            baseline=baseline,
            kl_direction=kl_direction,
            clip=clip,
        )
        others = run_controls(num_iterations=num_iterations, seed=seed)
        self._controls, compare = {**settings, **others}, compare_toggle()
        check_on_controls(
            self._controls,
            dict(beta=beta, learning_rate=learning_rate, num_samples=num_samples, num_iterations=num_iterations)
            | dict(updates_per_rollout=updates_per_rollout, seed=seed),
        )
        self._start = {name: control.value for name, control in self._controls.items()}
        self.expose_controls({**self._controls, "compare": compare})
        for control in self._controls.values():
            control.observe(self._changed, "value")
        self.compare.observe(self._keep, "value")
        one_step, run, reset = action_buttons(self.one_step, self.whole_run, self.reset)
        self.table, self.out = widgets.HTML(), widgets.Output()
        self.out.layout.min_height = "395px"  # so that the page does not jump between two figures
        buttons = [one_step, run, self.compare, reset]
        self.box = arrange(settings, others, buttons, self.message, self.out, self.table)

    @property
    def figure(self):
        self._current()
        return self._shown.figure

    @property
    def run(self):
        self._current()
        return self._shown.run

    def one_step(self):
        """Go one iteration on and show it taken apart."""
        self._step += 1
        self._changed()

    def whole_run(self):
        """Show the whole run."""
        self._step = 0
        self._changed()

    def _keep(self, change):
        """Keep the present settings as A, or forget them, and show whole runs."""
        self._kept = self._arguments() if change["new"] else None
        self.whole_run()

    def reset(self):
        """Put every control back to where it started, forget A, and show the whole run."""
        self._step, self._held, self.compare.value = 0, True, False
        for name, value in self._start.items():
            self._controls[name].value = value
        self._held = False
        self._changed()

    def _draw(self):
        self._shown = self._explore()
        self.table.value = self._shown.html
        show_figure(self.out, self._shown.figure_dict)

    def _static_html(self):
        return f"<p>{escape(alt_text(self._shown.figure_dict))}</p>{self._shown.html}"

    def _arguments(self):
        """The present settings as the arguments of `explore_run`."""
        value = {name: control.value for name, control in self._controls.items()}
        num_samples, num_iterations = value.pop("num_samples"), value.pop("num_iterations")
        value["clip"] = None if value["clip"] == NO_CLIP else value["clip"]
        return {**value, **self._options}, num_samples, num_iterations

    def _explore(self):
        settings, num_samples, num_iterations = self._arguments()
        if self._step:
            return explore_step(settings, num_samples, self._step)
        if self._kept:
            return explore_both(self._kept, (settings, num_samples, num_iterations))
        return explore_run(settings, num_samples, num_iterations)
