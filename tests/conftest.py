"""What the tests share: golden values, one torch thread, a browser, a kernel."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for torch and numpy, here and in every kernel and process of a test

DATA = Path(__file__).parent / "data"
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)


def _load_golden(name):
    path = DATA / f"{name}.json"
    if not path.exists():
        have = ", ".join(sorted(file.stem for file in DATA.glob("*.json")))
        raise FileNotFoundError(f"no golden values {name!r} in tests/data; there are: {have}")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def golden():
    """`golden(name)` loads tests/data/NAME.json."""
    return _load_golden


@pytest.fixture(autouse=True)
def one_torch_thread():
    """On tiny models more threads only get in each other's way. Loads torch for no test that does not use it."""
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)


@pytest.fixture(scope="session")
def chromium():
    """The path of a Chromium or Chrome: $CHROMIUM, or one that is installed. Skips where there is none."""
    named = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, [named] if named else BROWSERS)), None)
    if found is None:
        reason = (
            f"CHROMIUM={named} cannot be run" if named else "no Chromium or Chrome found; install one or set CHROMIUM"
        )
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    """A headless browser. Not longer than a module: while one is open, no test of the process can use asyncio.run."""
    for name in ("playwright.sync_api", "jupyterlab", "notebook"):
        pytest.importorskip(name, reason=f"{name} is not installed (pip install 'grpo_lib[dev]')")
    from jupyter_pages import FLAGS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def kernel():
    """A kernel of this interpreter, spoken to as a front end does (see `live_kernel.Kernel`)."""
    pytest.importorskip("jupyter_client", reason="jupyter_client is not installed (pip install 'grpo_lib[dev]')")
    from live_kernel import start_kernel

    with start_kernel() as kernel:
        yield kernel
