"""A page of the site in a browser: what it asks for, what it draws, what its sliders do."""

import json
import time

ALL_DRAWN = """() => window.bookFigures === undefined ? document.querySelectorAll('.plotly-figure').length === 0
  : bookFigures.boxes.every(box => box.drawn && box.querySelector('.main-svg'))"""
EMPTY = """() => Array.from(document.querySelectorAll('.plotly-figure'), box => [
  box.getAttribute('aria-label'),
  box.querySelectorAll('.trace, .hm, .heatmaplayer image, .barlayer .point, .shapelayer path, .annotation').length,
]).filter(([, drawn]) => !drawn)"""
CURVES = """box => box.data.map(trace => ({ x: trace.x, y: trace.y, z: trace.z, name: trace.name }))"""


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
