"""The page Shapes in a real browser: what is tried answers at once, and stays in the address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.action_chains import ActionChains
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


def test_what_is_tried_answers_and_stays(page: Browser) -> None:
    page.open("/shapes?run=run")
    page.shows("changes from batch to batch")
    page.shows("BucketCollator(")
    page.find("#shapes-own").send_keys("80, 96", Keys.TAB)
    page.shows("your buckets")
    page.until(lambda: "80%2C+96" in page.address(), "the sizes in the address")
    page.find("#shapes-horizon").send_keys("5000", Keys.TAB)
    page.shows("5\u2009140 steps")
    page.open(page.address())
    page.shows("your buckets")
    page.shows("5\u2009140 steps")
    assert page.errors() == []


_LINES = """
const plot = document.querySelector('#shapes-figures .js-plotly-plot');
if (!plot || !plot._fullLayout || !plot.layout.shapes) return [];
const axis = plot._fullLayout.xaxis, box = plot.getBoundingClientRect(), area = plot._fullLayout._size;
return plot.layout.shapes.filter(shape => shape.editable).map(shape =>
    [shape.x0, axis._offset + axis.d2p(shape.x0) - box.width / 2, area.t + area.h / 4 - box.height / 2,
     axis.d2p(shape.x0 + 1) - axis.d2p(shape.x0)]);
"""
"""Bucket ends of the first figure: size, place from the middle of the figure (px), and px of one size."""


def test_the_end_of_a_bucket_is_dragged_with_the_mouse(page: Browser) -> None:
    page.open("/shapes?run=run")
    page.find("#shapes-own").send_keys("80, 96", Keys.TAB)
    page.shows("your buckets")
    page.until(lambda: [line[0] for line in page.script(_LINES)] == [96, 80], "two lines")
    page.settles()
    page.script("document.querySelector('#shapes-figures').scrollIntoView({block: 'center'})")
    _, right, down, pixels = page.script(_LINES)[1]
    plot = page.find("#shapes-figures .js-plotly-plot")
    mouse = ActionChains(page.driver).move_to_element_with_offset(plot, round(right), round(down)).click_and_hold()
    for _ in range(8):
        mouse = mouse.move_by_offset(round(pixels), 0)
    mouse.release().perform()
    page.until(lambda: page.find("#shapes-own").get_property("value") == "88, 96", "the sizes after the move")
    page.shows("[88, 96]")
    page.until(lambda: "88%2C+96" in page.address(), "the sizes in the address")
    assert page.errors() == []


def test_hostile_names_stay_text(page: Browser) -> None:
    page.open("/shapes?run=hostile")
    page.shows("All plans")
    page.until(lambda: page.script("return document.querySelectorAll('.plans tr').length") > 3, "plans")
    assert page.script("return window.hacked === undefined")
    assert page.errors() == []
