"""The built site in a real browser with the network cut: pages, figures, sliders, search, print, accessibility."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import set_address

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))]
PAGES = [
    "index",
    *NOTEBOOKS,
    *[path.stem for path in sorted((ROOT / "notebooks").glob("[a-z]*.md")) if path.stem != "index"],
]
PLOTLY = "application/vnd.plotly.v1+json"
OTHERS = ["api/index", "api/external_links", "api/the_bandit", "api/the_loss", "search", "genindex"]
WITH_SLIDERS = ["00_start_here", "01_bandit_grpo", "02_beta_and_learning_rate", "04_ratio_and_clipping"]
WITH_SLIDERS += ["09_the_grpo_loss", "10_train_a_tiny_llm", "12_finetune_an_llm"]


def stored_figures(name):
    """How many Plotly figures, and how many controls, a notebook holds."""
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    plots = sum(PLOTLY in data for data in outputs)
    return plots, sum("The control appears here" in str(data.get("text/plain", "")) for data in outputs)


@pytest.mark.parametrize("name", PAGES + OTHERS)
def test_a_page_without_a_network_on_a_laptop_light_then_dark_and_on_a_phone(visit, name):
    there = visit(f"{name}.html")
    wrong = {
        "empty figures": there.empty_figures(),
        "figures hardly described": [label for label in there.labels() if len(label) <= 20],
        "formulas not set": there.unset_formulas(),
        "pale figures": there.contrast() < 4.5,
        "axe-core": there.barriers(),
    }
    if name in NOTEBOOKS:
        plots, controls = stored_figures(name)
        assert there.page.locator(".plotly-figure").count() == plots + controls
        assert there.page.locator(".slider-figure").count() == controls
    there.turn_dark()
    wrong["axe-core, dark"] = there.barriers("color-contrast", "link-in-text-block")
    wrong["wider than a phone"] = there.overflow(390, 844)
    assert {what: found for what, found in wrong.items() if found} == {}
    assert there.faults == []


@pytest.mark.parametrize("name", WITH_SLIDERS)
def test_every_slider_can_be_moved_by_key_and_changes_the_curves(visit, name):
    there = visit(f"{name}.html")
    for box in there.sliders():
        for number in range(len(box.query_selector_all(".slider-group"))):
            curves = there.curves(box)
            knob = box.query_selector_all(".slider-group")[number]
            now = int(knob.get_attribute("aria-valuenow"))
            knob.focus()
            there.page.keyboard.press("ArrowRight" if now == 0 else "ArrowLeft")
            moved = there.curves_other_than(box, curves)
            knob = box.query_selector_all(".slider-group")[number]
            assert knob.get_attribute("aria-valuenow") == str(now + (1 if now == 0 else -1))
            assert knob.evaluate("it => document.activeElement === it"), "the focus stays on the slider"
            there.page.keyboard.press("ArrowLeft" if now == 0 else "ArrowRight")
            assert there.curves_other_than(box, moved) == curves
    assert there.faults == []


def test_a_slider_dragged_with_the_mouse_shows_what_explore_bandit_draws(visit):
    from grpo_lib.explore import explore_bandit

    there = visit("00_start_here.html")
    [box] = there.sliders()
    box.scroll_into_view_if_needed()
    for number in (0, 1):  # both to their ends, so that the states of two sliders are combined
        curves = there.curves(box)
        group = box.query_selector_all(".slider-group")[number]
        grip = group.query_selector(".slider-grip-rect").bounding_box()
        rail = group.query_selector(".slider-rail-rect").bounding_box()
        mouse = there.page.mouse
        mouse.move(grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
        mouse.down()
        mouse.move(rail["x"] + rail["width"] * 0.7, rail["y"], steps=4)
        mouse.move(rail["x"] + rail["width"] + 5, rail["y"], steps=4)
        mouse.up()
        there.curves_other_than(box, curves)
    there.page.wait_for_timeout(500)
    wanted = explore_bandit(5.0, 1.0)
    assert box.evaluate("it => it.layout.title.text") == wanted.layout.title.text
    assert box.evaluate("it => Array.from(it.data[0].y)") == list(wanted.data[0].y)
    assert box.get_attribute("aria-label") == wanted.layout.meta["alt"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_colab_button_leads_to_this_notebook(site, name):
    page = (site / f"{name}.html").read_text(encoding="utf-8")
    address = set_address.read_address(ROOT)
    wanted = f"https://colab.research.google.com/github/{address}/blob/main/notebooks/{name}.ipynb"
    assert set(re.findall(r'href="(https://colab[^"]+)"', page)) == {wanted}


def test_the_search_finds_a_lesson(visit):
    there = visit("search.html?q=resting+point")
    there.page.wait_for_selector("#search-results li a[href*='02_beta_and_learning_rate']", timeout=30_000)
    assert there.faults == []


def test_previous_and_next_lead_through_the_book(site):
    for before, after in zip(NOTEBOOKS, NOTEBOOKS[1:], strict=False):
        assert f'class="right-next"\n       href="{after}.html"' in (site / f"{before}.html").read_text(
            encoding="utf-8"
        )
        assert f'class="left-prev"\n       href="{before}.html"' in (site / f"{after}.html").read_text(encoding="utf-8")


def test_a_page_opened_dark_is_dark_with_its_figures(visit):
    there = visit("01_bandit_grpo.html", dark=True)
    assert there.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert there.contrast() >= 4.5
    assert there.barriers() == {}


def axis_titles(name):
    """How often each axis title stands in the figures of a notebook; titles of one line of plain text."""
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    layouts = [data[PLOTLY]["layout"] for data in outputs if PLOTLY in data]
    axes = [part for layout in layouts for key, part in layout.items() if re.fullmatch(r"[xy]axis\d*", key)]
    texts = [(axis.get("title") or {}).get("text") for axis in axes]
    return Counter(text for text in texts if text and "<" not in text)


@pytest.mark.parametrize("name", ["01_bandit_grpo", "03_kl_estimators"])
def test_a_printed_page_has_all_its_figures_black_on_white(visit, tmp_path, name):
    """Printed from a dark page at once after loading, while most figures are not drawn yet."""
    from pypdf import PdfReader

    there = visit(f"{name}.html", dark=True, settle=False)
    there.page.wait_for_function("() => window.bookFigures")
    there.page.pdf(path=tmp_path / "page.pdf", format="A4", print_background=True)
    text = " ".join(page.extract_text() for page in PdfReader(tmp_path / "page.pdf").pages)
    wanted = axis_titles(name)
    assert wanted and {title: text.count(title) for title in wanted if text.count(title) < wanted[title]} == {}
    assert there.page.evaluate("() => document.documentElement.dataset.theme") == "dark", "the screen is as before"
    assert there.faults == []


class Links(HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.sources, self.anchors = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        if tag in ("img", "script", "iframe", "source") and found.get("src"):
            self.sources.add(found["src"])
        if tag == "link" and found.get("href") and found.get("rel") in ("stylesheet", "preload", "icon"):
            self.sources.add(found["href"])


def test_every_internal_link_and_anchor_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    pages = {
        path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if "_static" not in path.parts
    }
    wrong = []
    for path, page in pages.items():
        for link in page.links | page.sources:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.sources and parts.scheme != "data":
                    wrong.append((path.name, link))
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if not target.exists():
                wrong.append((path.name, link))
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append((path.name, link))
    assert wrong == []


def test_every_page_is_reached_from_the_sidebar(site):
    linked = Links((site / "index.html").read_text(encoding="utf-8")).links
    assert [name for name in PAGES[1:] if f"{name}.html" not in linked] == []


def test_every_function_on_the_map_leads_to_the_reference(site):
    named = set(re.findall(r"`(grpo_lib[.\w]+)`", (ROOT / "notebooks" / "map.md").read_text(encoding="utf-8")))
    links = Links((site / "map.html").read_text(encoding="utf-8")).links
    assert len(named) > 10 and {link.partition("#")[2] for link in links if link.startswith("api/")} >= named
