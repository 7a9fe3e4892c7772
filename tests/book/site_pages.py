"""A page of the site in a browser: what it asks for, what it draws, what its sliders do."""

import json
import time
from pathlib import Path

ALL_DRAWN = """() => window.bookFigures === undefined ? document.querySelectorAll('.plotly-figure').length === 0
  : bookFigures.boxes.every(box => box.drawn && box.querySelector('.main-svg'))"""
EMPTY = """() => Array.from(document.querySelectorAll('.plotly-figure'), box => [
  box.getAttribute('aria-label'),
  box.querySelectorAll('.trace, .hm, .heatmaplayer image, .barlayer .point, .shapelayer path, .annotation').length,
]).filter(([, drawn]) => !drawn)"""
CURVES = """box => box.data.map(trace => ({ x: trace.x, y: trace.y, z: trace.z, name: trace.name }))"""

CONTRAST = """() => {
  const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
    .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const page = light(getComputedStyle(document.body).backgroundColor);
  const texts = document.querySelectorAll('.plotly-figure :is(.xtick text, .ytick text, .gtitle, .legendtext)');
  return Math.min(21, ...Array.from(texts, text => { const ink = light(getComputedStyle(text).fill);
    return (Math.max(page, ink) + 0.05) / (Math.min(page, ink) + 0.05); }));
}"""
# A figure is one picture with one label to a screen reader; axe-core would look at each of its thousands of marks.
PLAIN_BOXES = ".plain-boxes .plotly-figure .cartesianlayer { display: none; }"
OVERFLOW = """() => document.documentElement.scrollWidth <= innerWidth + 1 ? [] :
  Array.from(document.querySelectorAll('main *')).filter(part => part.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 5).map(part => part.outerHTML.slice(0, 160))"""


class Visit:
    """One page, opened; `page` is playwright's."""

    def __init__(self, browser, address, name, *, width=1280, height=900, dark=False, settle=True):
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(viewport=dict(width=width, height=height), color_scheme=scheme)
        self.page, self.faults = self.context.new_page(), []
        self.page.set_default_timeout(120_000)
        self.context.route("**/*", lambda route: self._only_here(route, address))
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.faults.append(m.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("requestfailed", lambda request: self.faults.append(f"failed: {request.url}"))
        self.page.on("response", lambda r: r.status >= 400 and self.faults.append(f"{r.status}: {r.url}"))
        self.page.goto(f"{address}/{name}")
        if settle:
            self.settle()

    def _only_here(self, route, address):
        url = route.request.url
        if url.startswith((address, "data:", "blob:")):
            return route.continue_()
        self.faults.append(f"asked the network: {url}")
        return route.abort()

    def settle(self):
        """Wait until every figure is drawn and every formula set."""
        self.page.wait_for_function(ALL_DRAWN)
        self.page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise")

    def empty_figures(self):
        """The descriptions of figures in which nothing is drawn."""
        return self.page.evaluate(EMPTY)

    def unset_formulas(self):
        """How many formulas MathJax has not set."""
        return self.page.locator(".math:not(:has(mjx-container svg))").count()

    def labels(self):
        """What a screen reader says for each figure."""
        return self.page.eval_on_selector_all(".plotly-figure", "all => all.map(x => x.getAttribute('aria-label'))")

    def contrast(self):
        """The least contrast of the figures' text with the page, as WCAG counts it; 21 without figures."""
        return self.page.evaluate(CONTRAST)

    def turn_dark(self):
        """Choose the dark theme, and wait until the figures' text can be read on it."""
        self.page.evaluate("() => { document.documentElement.dataset.theme = 'dark' }")
        self.page.wait_for_function(f"() => ({CONTRAST})() >= 4.5", timeout=30_000)
        self.page.wait_for_timeout(500)  # the theme's colours change gradually

    def barriers(self, *rules):
        """What axe-core calls serious or critical: {rule: some of the places}; by all its rules, or only by these."""
        import axe_playwright_python

        if not self.page.evaluate("() => 'axe' in window"):
            axe = Path(axe_playwright_python.__file__).parent / "axe.min.js"
            self.page.add_script_tag(content=axe.read_text("utf-8"))
            self.page.add_style_tag(content=PLAIN_BOXES)
        kinds = ["violations", "incomplete"]
        options = {"resultTypes": kinds, "preload": False, **({"runOnly": rules} if rules else {})}
        self.page.evaluate("() => document.body.classList.add('plain-boxes')")
        found = self.page.evaluate("options => axe.run(document, options)", options)
        self.page.evaluate("() => document.body.classList.remove('plain-boxes')")
        grave = [(one["id"], one["nodes"]) for one in found["violations"] if one["impact"] in ("serious", "critical")]
        grave += [(f"{one['id']}, as good as none", self._invisible(one["nodes"])) for one in found["incomplete"]]
        return {name: [f"{n['html'][:160]} | {n['target'][0]}" for n in nodes[:5]] for name, nodes in grave if nodes}

    @staticmethod
    def _invisible(nodes):
        """Texts that have the colour of their background; axe-core leaves these for people to look at."""
        return [node for node in nodes if any((c["data"] or {}).get("messageKey") == "equalRatio" for c in node["any"])]

    def overflow(self, width, height):
        """At this size of the window, what makes the whole page wider than it."""
        self.page.set_viewport_size(dict(width=width, height=height))
        self.page.wait_for_timeout(700)  # plotly.js draws anew after a moment
        return self.page.evaluate(OVERFLOW)

    def sliders(self):
        """The figures with sliders, as element handles."""
        return self.page.query_selector_all(".slider-figure .plotly-figure")

    def curves(self, box):
        return json.dumps(box.evaluate(CURVES))

    def curves_other_than(self, box, before):
        """The figure's curves as soon as they are others; after five seconds an error."""
        for _ in range(50):
            now = self.curves(box)
            if now != before:
                return now
            time.sleep(0.1)
        raise AssertionError("the slider was moved and the curves stayed")

    def close(self):
        self.context.close()
