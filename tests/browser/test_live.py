"""The dashboard in a real browser while something is being recorded."""

from __future__ import annotations

from pathlib import Path

from tests.app.recordings import Recording
from tests.browser.conftest import Browser, served


def test_a_run_is_followed_from_nothing_to_its_end(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as url:
        browser.url = url
        browser.open("/")
        browser.shows("Nothing recorded yet")
        browser.shows("xla-insight run")
        recording = Recording(tmp_path / "run")
        recording.flush()
        browser.shows("Recording has begun")
        for _ in range(4):
            recording.step()
        recording.flush()
        browser.wait_for_cells(4)
        browser.shows("recording")
        browser.shows("updated ")
        for _ in range(5):
            recording.step(1)
        recording.flush()
        browser.wait_for_cells(9)
        browser.shows("9 steps")
        recording.end()
        browser.shows("ended")
        browser.until(lambda: "updated " not in browser.text(), "no age of an ended run")
        assert browser.errors() == []


def test_a_range_stays_selected_while_a_run_grows(browser: Browser, tmp_path: Path) -> None:
    recording = Recording(tmp_path / "run")
    for _ in range(6):
        recording.step()
    recording.flush()
    with served(tmp_path) as url:
        browser.url = url
        browser.open("/?run=run&steps=1-3")
        browser.wait_for_cells(3)
        recording.step()
        recording.flush()
        browser.shows("7 steps")
        assert browser.cells() == 3
        assert "steps=1-3" in browser.address()
    recording.end()
