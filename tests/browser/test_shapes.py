"""The page Shapes in a real browser: what is tried answers at once, and stays in the address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import Browser, served
from tests.synthetic import build_run


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard over a run with three widths of batches, and a hostile one."""
    folder = tmp_path_factory.mktemp("runs")
    build_run(folder / "run", steps=140, step_ms=40, device_ms=25)
    build_run(folder / "hostile", hostile=True, steps=60)
    with served(folder) as address:
        yield address


def test_what_is_tried_answers_and_stays(browser: Browser, url: str) -> None:
    browser.url = url
    browser.open("/shapes?run=run")
    browser.shows("changes from batch to batch")
    browser.shows("BucketCollator(")
    browser.find("#shapes-own").send_keys("80, 96", Keys.TAB)
    browser.shows("your buckets")
    browser.until(lambda: "80%2C+96" in browser.address(), "the sizes in the address")
    browser.find("#shapes-horizon").send_keys("5000", Keys.TAB)
    browser.shows("5\u2009140 steps")
    browser.open(browser.address())
    browser.shows("your buckets")
    browser.shows("5\u2009140 steps")
    assert browser.errors() == []


def test_hostile_names_stay_text(browser: Browser, url: str) -> None:
    browser.url = url
    browser.open("/shapes?run=hostile")
    browser.shows("All plans")
    browser.until(lambda: browser.script("return document.querySelectorAll('.plans tr').length") > 3, "plans")
    assert browser.script("return window.hacked === undefined")
    assert browser.errors() == []
