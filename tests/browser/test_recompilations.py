"""The page Recompilations in a real browser: from a cause to the root, to a fold opened, to the graph and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import Browser, served
from tests.kept_graphs import build_explained_run
from tests.synthetic import graph_hash


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard over a run whose graphs were kept, and a hostile one."""
    root: Path = tmp_path_factory.mktemp("runs")
    build_explained_run(root / "kept", steps=40)
    build_explained_run(root / "hostile", hostile=True)
    with served(root) as address:
        yield address


def row_count(page: Browser) -> int:
    return len(page.driver.find_elements(By.CSS_SELECTOR, ".listing .row"))


def test_from_a_cause_to_the_root_to_the_graph_and_back(page: Browser) -> None:
    page.open("/recompilations?run=kept")
    page.find(".row-root")
    page.until(lambda: page.find("h1.verdict").text, "the sentence")
    assert "cause=" not in page.address(), "what is shown without a choice is not a choice"
    cell = '.ag-row[row-id="first_graph@train.py:40"] .ag-cell[col-id="cause"]'
    page.find(f"#recompilations-grid {cell}").click()
    page.until(lambda: "cause=first_graph%40train.py%3A40" in page.address(), "the cause in the address")
    page.shows("There is no earlier graph of the same kind")
    page.find('#recompilations-grid .ag-row[row-id="input_shape@train.py:40"] .ag-cell[col-id="cause"]').click()
    root = page.find(".row-root")
    assert "s64[4,12]" in root.text and "s64[4,16]" in root.text
    page.find('#recompilations-grid .ag-row[row-id="baked_value@train.py:40"] .ag-cell[col-id="cause"]').click()
    page.until(lambda: "constant(1.7)" in page.find(".row-root").text, "the root of the other cause")
    assert page.find('#recompilations-members .ag-row[row-id="0"]').is_displayed()
    page.until(lambda: "Close" not in page.text() and page.find(".facts a"), "the link to the graph")
    page.find(".facts a").click()
    page.until(lambda: f"graph={graph_hash('C')}" in page.address(), "the graph in the address")
    page.shows("Text of the graph")
    page.shows("Compiled: baked value")
    page.driver.find_element(By.PARTIAL_LINK_TEXT, "Now and before").click()
    page.until(lambda: "constant(1.7)" in page.find(".row-root").text, "the root again")
    assert page.errors() == []


def test_a_fold_opens_where_it_stands(page: Browser) -> None:
    page.open(f"/recompilations?run=kept&graph={graph_hash('B')}")
    page.find(".row-root")
    before = row_count(page)
    page.driver.find_elements(By.CSS_SELECTOR, ".fold-button")[-1].click()
    page.until(lambda: row_count(page) >= before + 200, "opened rows")
    shown = "document.querySelectorAll('.row:not(.row-head) > .row-number')"
    numbers = page.script(f"return Array.from({shown}, one => Number(one.textContent))")
    assert len(numbers) > 200 and numbers == sorted(numbers)
    assert page.errors() == []


def test_what_surrounds_the_root_is_drawn_in_either_scheme(page: Browser) -> None:
    for scheme in ("light", "dark"):
        page.screen(scheme=scheme)
        page.open(f"/recompilations?run=kept&graph={graph_hash('B')}")
        page.find(".around .shapelayer path")
        assert "parameter" in str(page.find(".around").get_attribute("textContent"))
    assert page.errors() == []


def test_the_text_of_a_graph_is_searched(page: Browser) -> None:
    page.open(f"/graphs?run=kept&graph={graph_hash('A')}")
    page.shows("by line of code")
    page.find("#graphs-search").send_keys("parameter s64[4,12]", Keys.ENTER)
    page.shows("1 of 467 instructions fit")
    assert "s64[4,12] parameter(6)" in page.find(".outline-line").text
    assert page.errors() == []


@pytest.mark.parametrize("path", ["/recompilations?run=kept", "/recompilations?run=hostile"])
def test_a_phone_shows_one_column(page: Browser, path: str) -> None:
    page.screen(width=390, height=844)
    page.open(path)
    page.find(".row-root")
    assert page.script("return document.documentElement.scrollWidth") <= 390
    assert page.script("return document.querySelectorAll('#body img, #body script, #body b').length") == 0
    assert page.errors() == []
