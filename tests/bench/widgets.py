"""How long the widgets take: in the kernel, and from a key press to the redrawn page. A benchmark, not a test.

    python tests/bench/widgets.py             # all, about a minute; the page needs Chromium (or CHROMIUM)
    python tests/bench/widgets.py --kernel    # without a browser

Prints the median and the 95th percentile in milliseconds, with the number of measurements.
"""

# ruff: noqa: E402
import argparse
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parents[2])]

import torch
from conftest import BROWSERS
from jupyter_pages import FLAGS, PLOT, open_plot, readout, serve, slider

from grpo_lib import (
    BanditExplorer,
    GRPOSettings,
    LivePanel,
    RolloutInspector,
    addition_reward,
    load_addition,
    load_tiny_policy,
)

CELL = """from grpo_lib import BanditExplorer
explorer = BanditExplorer(num_samples=20, num_iterations=50)
explorer.show()"""
WATCH = f"""() => {{
  const curve = () => {{
    const plot = document.querySelector({PLOT!r});
    return plot?.querySelector('.scatterlayer .js-line')?.getAttribute('d') && JSON.stringify(plot.data[0].y);
  }};
  let before = curve();
  window.pressed = 0; window.drawn = [];
  addEventListener('keydown', () => {{ window.pressed = performance.now(); }}, true);
  const look = () => {{
    const now = curve();
    if (now && now !== before) {{ before = now; window.drawn.push(performance.now() - window.pressed); }}
    requestAnimationFrame(look);
  }};
  look();
}}"""


def report(name, seconds, cpu=None):
    """One line of the report; CPU time tells a slow step from a busy machine."""
    texts = []
    for times in filter(None, (seconds, cpu)):
        ms = sorted(1000 * s for s in times)
        texts.append(f"median {statistics.median(ms):6.1f}   p95 {ms[math.ceil(0.95 * len(ms)) - 1]:6.1f} ms")
    print(f"{name:52s} {' | CPU '.join(texts)}   (n = {len(seconds)})", flush=True)


def timed(action, arguments):
    """Seconds of each call, after one that is not counted: (by the wall clock, of this process's CPU time)."""
    action(arguments[0])
    wall, cpu = [], []
    for argument in arguments[1:]:
        start, cpu_start = time.perf_counter(), time.process_time()
        action(argument)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    return wall, cpu


def bench_kernel(times):
    """A callback from the slider's new value to the message that is sent to the page."""
    betas = [0.05 + 4.9 * i / times for i in range(times + 1)]
    explorer = BanditExplorer(num_samples=20, num_iterations=50)
    report("explorer, 50 iterations of 20 samples: one callback", *timed(lambda x: set_value(explorer.beta, x), betas))
    inspector = RolloutInspector()
    report("inspector, shipped recording: one callback", *timed(lambda x: set_value(inspector.beta, x / 5), betas))
    settings = GRPOSettings(batch_size=2, max_completion_length=16, beta=0.0, learning_rate=1e-4)
    panel = LivePanel(load_tiny_policy, load_addition("train"), settings, reward_function=addition_reward)
    panel.run(20)
    panel.training.history += panel.history * 9  # as long as a lesson's run
    report("panel, 200 steps: one redraw", *timed(lambda _: panel._live.redraw(), betas))
    report("panel: a slider moved, its line redrawn", *timed(lambda x: set_value(panel.beta, x), betas))


def set_value(control, value):
    control.value = value


def bench_page(times):
    """From a key press on the beta slider to the changed curve in the page, in JupyterLab."""
    from playwright.sync_api import sync_playwright

    named = [os.environ["CHROMIUM"]] if "CHROMIUM" in os.environ else BROWSERS
    path = next(filter(None, map(shutil.which, named)), None)
    if path is None:
        sys.exit("no Chromium or Chrome found: set CHROMIUM, or use --kernel")
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder), CELL) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = open_plot(browser, address, "lab")
        page.wait_for_timeout(2000)
        page.evaluate(WATCH)
        slider(page, "beta")[0].focus()
        for i in range(times + 1):
            before = readout(page, "beta")
            page.keyboard.press("Shift+ArrowRight")
            page.wait_for_function(f"window.drawn.length > {i}")
            page.wait_for_timeout(150)
            assert readout(page, "beta") != before
        report("explorer in JupyterLab: key press to changed curve", [ms / 1000 for ms in page.evaluate("drawn")[1:]])
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kernel", action="store_true", help="only what needs no browser")
    parser.add_argument("--times", type=int, default=40, help="measurements each (40)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    bench_kernel(options.times)
    if not options.kernel:
        bench_page(options.times)


if __name__ == "__main__":
    main()
