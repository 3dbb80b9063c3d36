"""The dashboard in a real browser: over runs that ended, crashed, broke, or carry hostile names."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.app.recordings import Recording, graph_hash, write_run
from tests.browser.conftest import Browser, served
from tests.synthetic import HOSTILE_SCRIPT, build_large_run, build_run

MANY = 100_000
HOSTILE = {0: "<img src=x onerror=window.hacked=1>", 1: "<b>bold</b>", 2: "[x](javascript:window.hacked=1)"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of every kind."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "usual", 40)
    build_large_run(root / "many", MANY)
    write_run(root / "names", 30, odd_every=4, names=HOSTILE)
    build_run(root / "hostile", hostile=True, steps=14)
    crashed = Recording(root / "crashed")
    for _ in range(12):
        crashed.step()
    crashed.flush()
    for path in (root / "crashed").rglob("*"):
        os.utime(path, (time.time() - 60, time.time() - 60))
    (root / "broken").mkdir()
    (root / "broken" / "run.json").write_text("{not json")
    return root


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """The dashboard over those runs."""
    with served(folder) as address:
        yield address


def drag(page: Browser, start: float, end: float) -> None:
    """Drag over the strip from one share of its width to another."""
    area = page.find(".steps-figure .nsewdrag")
    width = area.rect["width"]
    move = ActionChains(page.driver).move_to_element_with_offset(area, int((start - 0.5) * width), 0)
    move.click_and_hold().move_by_offset(int((end - start) * width), 0).release().perform()


def test_overview_loads_without_errors_and_from_here_only(page: Browser) -> None:
    page.open("/?run=usual")
    page.shows("Compiling again takes")
    page.wait_for_cells(40)
    page.shows("What costs most")
    assert page.find("h1.verdict").is_displayed()
    loaded = page.script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded
    assert all(name.startswith((page.url, "data:")) for name in loaded)
    assert page.script("return [...document.fonts].filter((font) => font.status === 'loaded').length") >= 1
    assert page.errors() == []


def test_newest_run_is_shown_when_none_is_named(page: Browser) -> None:
    page.open("/")
    page.until(lambda: page.find("#run-picker").get_attribute("value"), "a run")
    assert page.find("h1.verdict").text


def test_dragging_selects_steps_on_every_page(page: Browser) -> None:
    page.open("/?run=usual")
    page.wait_for_cells(40)
    drag(page, 0.25, 0.5)
    page.until(lambda: "steps=" in page.address(), "steps in the address")
    page.until(lambda: 5 < page.cells() < 20, "fewer cells")
    cells, chosen = page.cells(), page.find("#steps-range").get_attribute("value")
    page.driver.find_element(By.LINK_TEXT, "Graphs").click()
    page.shows("All graphs")
    page.wait_for_cells(cells)
    assert page.find("#steps-range").get_attribute("value") == chosen
    page.find("#steps-reset").click()
    page.wait_for_cells(40)
    assert "steps=" not in page.address()
    assert page.errors() == []


def test_steps_can_be_typed(page: Browser) -> None:
    page.open("/?run=usual")
    page.wait_for_cells(40)
    page.find("#steps-range").send_keys("10-14", Keys.ENTER)
    page.wait_for_cells(5)
    assert "steps=10-14" in page.address()
    page.driver.back()
    page.wait_for_cells(40)


def test_scheme_follows_the_system_and_the_switch_is_remembered(page: Browser) -> None:
    page.screen(scheme="dark")
    page.open("/?run=usual")
    page.wait_for_cells(40)
    scheme = "return document.documentElement.getAttribute('data-mantine-color-scheme')"
    ink = "return document.querySelector('.js-plotly-plot').layout.font.color"
    assert page.script(scheme) == "dark"
    dark_ink = page.script(ink)
    page.find("#theme").click()
    page.until(lambda: page.script(scheme) == "light", "a light page")
    page.until(lambda: page.script(ink) != dark_ink, "a figure in light colours")
    page.driver.refresh()
    page.wait_for_cells(40)
    assert page.script(scheme) == "light"


@pytest.mark.parametrize("run", ["names", "hostile"])
def test_recorded_names_are_shown_as_text(page: Browser, run: str) -> None:
    for path in (f"/?run={run}", f"/graphs?run={run}"):
        page.open(path)
        page.until(lambda: page.cells() > 0, "the strip")
        area = page.find(".steps-figure .nsewdrag")
        ActionChains(page.driver).move_to_element_with_offset(area, -40, 0).perform()
        page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".hoverlayer text"), "a hover label")
        assert page.script("return window.hacked") is None
        assert page.script("return document.querySelectorAll('#body img, #body script, #body b').length") == 0
    assert page.errors() == []


def test_hostile_graphs_in_table_and_detail(page: Browser) -> None:
    page.open("/graphs?run=names&graph=%3Cb%3Ebold%3C%2Fb%3E")
    page.shows("<b>bold</b>")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".ag-row"), "rows")
    assert "<img s" in page.find(".ag-center-cols-container, .ag-pinned-left-cols-container").text + page.text()
    assert page.script("return window.hacked") is None


def test_hostile_texts_of_the_report(page: Browser) -> None:
    page.open("/?run=hostile")
    page.until(lambda: page.find("h1.verdict").text, "the verdict")
    assert HOSTILE_SCRIPT not in page.driver.page_source
    assert page.errors() == []


def test_a_hundred_thousand_steps(page: Browser) -> None:
    page.open("/?run=many")
    page.until(lambda: page.cells() > 100, "the strip")
    assert page.cells() <= 1440
    assert page.script("return document.querySelectorAll('#body *').length") < 2_000
    drag(page, 0.5, 0.52)
    page.until(lambda: "steps=" in page.address(), "steps in the address")
    page.until(lambda: 0 < page.cells() <= 1440 and page.find("#steps-range").get_attribute("value"), "a zoomed strip")
    page.open("/?run=many&steps=50000-50099")
    page.wait_for_cells(100)
    assert page.errors() == []


def test_broken_crashed_and_unknown_runs_say_so(page: Browser) -> None:
    page.open("/?run=broken")
    page.shows("This run cannot be opened")
    page.shows("record again")
    page.open("/?run=crashed")
    page.shows("it was killed or crashed")
    page.wait_for_cells(12)
    page.open("/?run=..%2F..%2Fetc")
    page.shows("This run is not there")
    assert page.errors() == []


def test_another_run_can_be_picked_with_the_keyboard(page: Browser) -> None:
    page.open("/?run=usual&steps=3-9")
    page.wait_for_cells(7)
    picker = page.find("#run-picker")
    picker.click()
    picker.send_keys(Keys.CONTROL, "a")
    picker.send_keys("crashed", Keys.ARROW_DOWN, Keys.ENTER)
    page.wait_for_cells(12)
    assert page.address() == "/?run=crashed"


def test_table_keeps_its_state_in_the_address(page: Browser) -> None:
    page.open("/graphs?run=usual")
    page.until(
        lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".ag-center-cols-container .ag-row")) == 4, "rows"
    )
    page.find('.ag-header-cell[col-id="executions"] .ag-header-cell-label').click()
    page.until(lambda: "sort=executions%3Aasc" in page.address(), "the order in the address")
    page.driver.refresh()
    page.until(
        lambda: page.find('.ag-header-cell[col-id="executions"]').get_attribute("aria-sort") == "ascending", "order"
    )
    assert page.errors() == []


def test_a_graph_is_chosen_with_the_keyboard(page: Browser) -> None:
    page.open("/graphs?run=usual&sort=first_step:desc")
    page.until(lambda: page.find('.ag-row[row-index="3"]'), "rows")
    page.find('.ag-pinned-left-cols-container .ag-row[row-index="0"] .ag-cell').click()
    page.until(lambda: f"graph={graph_hash(3)}" in page.address(), "the graph in the address")
    ActionChains(page.driver).send_keys(Keys.ARROW_DOWN, Keys.SPACE).perform()
    page.until(lambda: f"graph={graph_hash(2)}" in page.address(), "the next graph in the address")
    page.shows("loss = step(batch)")
    page.find(".legend-item.chosen")
    page.driver.find_element(By.LINK_TEXT, "Overview").click()
    page.shows("What costs most")
    assert graph_hash(2) in page.address()
    page.driver.back()
    page.find("#graphs-clear").click()
    page.until(lambda: "graph=" not in page.address(), "no graph in the address")


def test_table_is_exported_as_numbers(page: Browser, tmp_path: Path) -> None:
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.open("/graphs?run=usual")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".ag-row"), "rows")
    page.find("#graphs-export").click()
    page.until((tmp_path / "graphs.csv").exists, "the file")
    lines = (tmp_path / "graphs.csv").read_text(encoding="utf-8-sig").splitlines()
    assert len(lines) == 5
    assert '"compile_s"' in lines[0]
    assert '"0.5"' in lines[1]


@pytest.mark.parametrize("path", ["/?run=usual", "/graphs?run=usual", "/?run=hostile", "/graphs?run=hostile"])
def test_a_phone_shows_one_column(page: Browser, path: str) -> None:
    page.screen(width=390, height=844)
    page.open(path)
    page.until(lambda: page.cells() > 0, "the strip")
    assert page.script("return document.documentElement.scrollWidth") <= 390


def test_a_deleted_run_says_so(page: Browser, folder: Path) -> None:
    write_run(folder / "short-lived", 6)
    page.open("/?run=short-lived")
    page.wait_for_cells(6)
    shutil.rmtree(folder / "short-lived")
    page.find("#steps-range").send_keys("2-3", Keys.ENTER)
    page.shows("This run is not there")
    assert page.errors() == []
