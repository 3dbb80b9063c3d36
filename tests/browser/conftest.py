"""One Chromium for all browser tests, and the dashboard served as users run it: in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WAIT_S = 45
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
)  # fmt: skip


class Browser:
    """The driver with the few moves that tests make. Every wait is for something to be true, never for a time."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.url = ""

    def open(self, path: str = "/") -> None:
        """Load a page of the dashboard under test."""
        self.driver.get(self.url.rstrip("/") + path)

    def until(self, check: Callable[[], Any], what: str) -> Any:
        """Wait until ``check`` is true and return what it gave; a page being redrawn meanwhile does not matter."""
        wait = WebDriverWait(self.driver, WAIT_S, poll_frequency=0.1, ignored_exceptions=[Exception])
        try:
            return wait.until(lambda _driver: check())
        except TimeoutException as error:
            raise AssertionError(f"waited in vain for {what}; the page says: {self.text()[:400]}") from error

    def text(self) -> str:
        """What the page shows, in the words of the browser: those of the driver take seconds on a page of many rows."""
        return str(self.script("return document.body.innerText")).replace("\u00a0", " ").replace("\t", " ")

    def shows(self, text: str) -> None:
        """Wait until the page shows a text, wherever its lines break."""
        words = " ".join(text.split())
        self.until(lambda: words in " ".join(self.text().split()), repr(text))

    def settles(self) -> None:
        """Wait until nothing that the page asked for is on its way any more, what follows from answers included."""
        self.until(lambda: not self.script("return window.store.getState().isLoading"), "the end of all requests")

    def find(self, selector: str) -> WebElement:
        """Wait for an element."""
        found: WebElement = self.until(lambda: self.driver.find_element(By.CSS_SELECTOR, selector), selector)
        return found

    def script(self, code: str) -> Any:
        """Run a script in the page."""
        return self.driver.execute_script(code)

    def cells(self) -> int:
        """How many cells the strip has; 0 while it is not drawn."""
        number = self.script(
            "const plot = document.querySelector('.js-plotly-plot');"
            "return plot && plot.calcdata && plot.data[0] && plot.data[0].name === 'graph'"
            " ? plot.calcdata[0][0].z[0].length : 0"
        )
        return int(number)

    def wait_for_cells(self, number: int) -> None:
        """Wait until the strip has exactly so many cells."""
        self.until(lambda: self.cells() == number, f"{number} cells")

    def address(self) -> str:
        """The path and query of the page."""
        return self.driver.current_url.removeprefix(self.url.rstrip("/"))

    def errors(self) -> list[str]:
        """What the console complained about since the last call."""
        log: list[dict[str, str]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]

    def screen(self, width: int = 1440, height: int = 900, scheme: str = "light") -> None:
        """Set the size of the window and the scheme that the system prefers."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def chromium_options(binary: str, profile: Path | str) -> Options:
    """A Chromium without a window that keeps what it remembers in a folder and its console for the driver."""
    options = Options()
    options.binary_location = binary
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return options


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium without a window. Missing: the tests are skipped, except in CI, where they fail."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((path for name in names if (path := shutil.which(name))), None)
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        reason = "Chromium and chromedriver are needed for the browser tests"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = chromium_options(chromium, tmp_path_factory.mktemp("chromium"))
    started = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield started
    started.quit()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The dashboard over a folder, in a process of its own; gives its address."""
    code = f"from pathlib import Path; from xla_insight_app.server import serve; serve(Path({str(folder)!r}), port=0)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert url is not None
        try:
            yield url[0]
        finally:
            process.terminate()  # SIGINT is ignored by what a shell started in the background
            process.wait(timeout=30)


@pytest.fixture
def browser(driver: webdriver.Chrome) -> Iterator[Browser]:
    """The shared browser as if fresh: light, wide, nothing remembered."""
    page = Browser(driver)
    page.screen()
    yield page
    driver.execute_script("try { localStorage.clear(); } catch (refused) {}")
    driver.get("about:blank")
    page.errors()


@pytest.fixture
def page(browser: Browser, url: str) -> Browser:
    """The browser, pointed at the dashboard of the module's fixture ``url``."""
    browser.url = url
    return browser
