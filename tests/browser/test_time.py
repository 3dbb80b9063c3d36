"""Timeline and Idle in a real browser: dragging looks closer, a click on an idle stretch says why, links lead on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from tests.app.recordings import write_run
from tests.browser.conftest import Browser, served
from tests.synthetic import build_large_run, build_run

MS = 1_000_000
FIGURE = "document.querySelector('#timeline-figure .js-plotly-plot')"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard over a usual run, a long one, and one with hostile names."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "usual", 40)
    build_large_run(root / "many", 100_000)
    build_run(root / "hostile", hostile=True, steps=14)
    with served(root) as address:
        yield address


def width_ns(page: Browser) -> float:
    """The length of the stretch that the timeline shows; 0 while it is not drawn."""
    code = f"const plot = {FIGURE}; const axis = plot && plot._fullLayout && plot._fullLayout.xaxis;"
    return float(
        page.script(f"{code} return axis && axis.range && plot.data.length ? axis.range[1] - axis.range[0] : 0")
    )


def at(page: Browser, row: str, time_ns: float) -> ActionChains:
    """A pointer over a row of the timeline at an instant."""
    area = page.find(f"#timeline-figure .nsewdrag[data-subplot='x{row}']")
    place = float(page.script(f"return {FIGURE}._fullLayout.xaxis.l2p({time_ns})"))
    return ActionChains(page.driver).move_to_element_with_offset(area, int(place - area.rect["width"] / 2), 0)


def drag(page: Browser, share: float) -> None:
    """Drag over the middle of the timeline, so much of its width."""
    area = page.find("#timeline-figure .nsewdrag[data-subplot='xy2']")
    half = int(area.rect["width"] * share / 2)
    moves = ActionChains(page.driver).move_to_element_with_offset(area, -half, 0).click_and_hold()
    moves.move_by_offset(2 * half, 0).release().perform()


def test_dragging_looks_closer_and_the_way_back_is_there(page: Browser) -> None:
    page.open("/timeline?run=usual")
    page.shows("Longest idle gaps in view")
    whole = page.until(lambda: width_ns(page), "a figure")
    drag(page, 0.25)
    page.until(lambda: 0 < width_ns(page) < 0.3 * whole, "a closer look")
    page.until(lambda: page.find("#steps-range").get_property("value"), "the steps of the stretch")
    page.settles()
    assert "time=" in page.address() and "steps=" in page.address()
    page.find("#timeline-out").click()
    page.until(lambda: width_ns(page) > 0.6 * whole, "a wider look")
    page.find("#timeline-whole").click()
    page.until(lambda: width_ns(page) == whole, "the whole run")
    assert "time=" not in page.address() and page.errors() == []


def test_a_click_on_an_idle_stretch_says_why(page: Browser) -> None:
    page.open("/timeline?run=usual&steps=20-23")
    page.until(lambda: width_ns(page), "a figure")
    begin = float(page.script(f"return {FIGURE}._fullLayout.xaxis.range[0]"))
    at(page, "y5", begin + 90 * MS).click().perform()
    page.shows("Emptied the device")
    page.shows("transformers/masking_utils.py:354")
    assert "gap=" in page.address()
    page.driver.find_element(By.LINK_TEXT, "Look closer").click()
    page.until(lambda: 0 < width_ns(page) < 60 * MS, "a closer look")
    assert page.errors() == []


def test_the_worst_step_leads_to_its_timeline(page: Browser) -> None:
    page.open("/idle?run=usual")
    page.shows("Worst steps")
    page.shows("What leaves the device idle")
    page.find(".plain a").click()
    page.until(lambda: page.address().startswith("/timeline"), "the timeline")
    page.shows("Longest idle gaps in view")
    assert "steps=" in page.address() and page.errors() == []


def test_a_long_run_can_be_looked_at_down_to_a_step(page: Browser) -> None:
    page.open("/timeline?run=many")
    page.until(lambda: width_ns(page), "a figure")
    for _ in range(4):
        before = width_ns(page)
        drag(page, 0.05)
        page.until(lambda before=before: 0 < width_ns(page) < 0.1 * before, "a closer look")  # type: ignore[misc]
    assert width_ns(page) < 100_000 * MS and page.errors() == []


@pytest.mark.parametrize("path", ["/timeline?run=hostile", "/idle?run=hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_recorded_names_are_shown_as_text_at_any_width(page: Browser, path: str, scheme: str) -> None:
    page.screen(420, 800, scheme)
    page.open(path)
    page.until(lambda: page.find("h1.verdict").text, "a sentence")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".js-plotly-plot .cartesianlayer"), "a figure")
    assert page.script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert page.script("return window.hacked === undefined") and page.errors() == []
