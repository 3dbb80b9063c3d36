"""Ranks & devices in a real browser: figures are drawn, tables filled, and a link leads to the timeline of a rank."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.by import By

from tests.app.recordings import write_run
from tests.app.test_ranks import write_spmd_run
from tests.browser.conftest import Browser, served
from tests.synthetic import build_run


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard over a run of one rank, one of four that part, and one on several devices."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "usual", 20)
    write_spmd_run(root / "spmd", name="a.very.long.name." * 6)
    build_run(root / "parted", steps=30, ranks=4, diverges_at=12, hostile=True)
    with served(root) as address:
        yield address


def test_ranks_that_part(page: Browser) -> None:
    page.open("/ranks?run=parted")
    page.shows("run different graphs from sync 12")
    page.until(lambda: "ranks part here" in page.text(), "the mark in the figure")
    page.until(
        lambda: len(page.driver.find_elements(By.CSS_SELECTOR, "#ranks-body .heatmaplayer image")) == 2, "figures"
    )
    page.driver.find_element(By.LINK_TEXT, "rank 2").click()
    page.until(lambda: page.address().startswith("/timeline") and "process=" in page.address(), "the timeline")
    assert not page.errors()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_devices_of_one_process(page: Browser, scheme: str) -> None:
    page.screen(1200, 900, scheme)
    page.open("/ranks?run=spmd")
    page.shows("One rank with 4 devices, arranged as fsdp=4, model=1.")
    for grid, text in (("ranks-collectives", "4 along fsdp"), ("ranks-shardings", "{devices=[4,1]0,1,2,3}")):
        page.until(lambda grid=grid, text=text: text in page.find(f"#{grid}").text, text)  # type: ignore[misc]
    assert page.script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert not page.errors()


def test_one_rank_on_one_device(page: Browser) -> None:
    page.open("/ranks?run=usual")
    page.shows("This run has one rank")
    page.shows("did not use several devices")
    assert not page.find("#ranks-tables").is_displayed()
    assert not page.errors()
