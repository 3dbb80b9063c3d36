"""How long a person waits for the Timeline of a long run: from asking for the page, and from letting go of the mouse.

Real Chromium, the real app in a process of its own, a synthetic run of ten events a step. A page counts as open when
its figure is drawn and takes the mouse; a zoom lasts from the end of the drag to the next picture. ``first`` is an app
and a browser that have just been started, ``known`` an app that has read the run and a browser that knows the page.

    python benchmarks/pages.py [--steps 100000] [--rounds 3] [--run RUN]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.browser.conftest import Browser, chromium_options, served
from tests.browser.test_time import FIGURE, drag, width_ns
from tests.synthetic import build_large_run

_DRAWN_AT = f"""
const plot = {FIGURE};
const ready = plot && plot.data && plot.data.length && plot.querySelector('.nsewdrag');
if (ready && !window.drawnAt) window.drawnAt = performance.now();
if (ready && !window.watched) {{
  window.watched = true;
  document.addEventListener('mouseup', () => {{ window.letGo = performance.now(); window.redrawn = 0; }}, true);
  plot.on('plotly_afterplot', () => {{
    // The drag itself moves the axis at once; the picture is new when its columns are.
    if (plot.data[0].x !== window.columns) {{ window.columns = plot.data[0].x; window.redrawn = performance.now(); }}
  }});
  window.columns = plot.data[0].x;
}}
"""
_WATCH = f"setInterval(() => {{ try {{ {_DRAWN_AT} }} catch (early) {{}} }}, 5);"


@contextmanager
def fresh_browser() -> Iterator[Browser]:
    """A Chromium that has never seen the page."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        raise SystemExit("needs Chromium and chromedriver: make browser")
    with tempfile.TemporaryDirectory() as profile:
        driver = webdriver.Chrome(options=chromium_options(chromium, profile), service=Service(chromedriver))
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        try:
            yield Browser(driver)
        finally:
            driver.quit()


def opened(page: Browser, run: str) -> float:
    """Milliseconds from asking for the page to its figure."""
    page.screen()
    page.open(f"/timeline?run={run}")
    return float(page.until(lambda: page.script("return window.drawnAt"), "a figure"))


def zooms(page: Browser, number: int) -> list[float]:
    """Milliseconds of each drag, one inside the other."""
    page.settles()
    took: list[float] = []
    for _ in range(number):
        wanted = 0.5 * width_ns(page)
        page.script("window.letGo = window.redrawn = 0")
        drag(page, 0.1)
        page.until(partial(_narrower, page, wanted), "a zoom")
        took.append(float(page.script("return window.redrawn - window.letGo")))
        page.settles()
    return took


def _narrower(page: Browser, wanted: float) -> bool:
    return 0 < width_ns(page) < wanted and bool(page.script("return window.redrawn"))


def measure(folder: Path, run: str, rounds: int) -> None:
    """Open and zoom, with everything new and with everything known."""
    first, known_app, known, first_zoom, later_zooms = [], [], [], [], []
    for _ in range(rounds):
        with served(folder) as url:
            with fresh_browser() as page:
                page.url = url
                first.append(opened(page, run))
            with fresh_browser() as page:
                page.url = url
                known_app.append(opened(page, run))
                took = zooms(page, 5)
                first_zoom.append(took[0])
                later_zooms += took[1:]
                known += [opened(page, run) for _ in range(2)]
    print(f"{'':44}{'median':>10}{'most':>10}")
    for name, values in (
        ("open, app and browser just started", first),
        ("open, app has read the run, new browser", known_app),
        ("open, app and browser know the page", known),
        ("first zoom in a new browser", first_zoom),
        ("later zooms", later_zooms),
    ):
        print(f"{name:44}{statistics.median(values):7.0f} ms{max(values):7.0f} ms")


def main() -> None:
    """Build the run and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", help="a recorded run instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = Path(options.run).resolve() if options.run else build_large_run(Path(name) / "run", options.steps)
        measure(path.parent, path.name, options.rounds)


if __name__ == "__main__":
    main()
