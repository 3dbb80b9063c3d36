"""What the whole suite shares: paths, the way to run the command line, and recordings made once.

Recordings are made in child processes, so that no test process ever loads the framework by accident.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("pytester",)

REPOSITORY = Path(__file__).resolve().parent.parent
TINY = ("--steps", "6", "--layers", "1", "--width", "32", "--batch-size", "4")
"""Options of the demo's script: as few and as small steps as still recompile."""


def clean_environment() -> dict[str, str]:
    """The environment without settings of the recorder or the framework that the caller may have."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "PT_XLA_", "PJRT_"))}
    return {**kept, "PJRT_DEVICE": "CPU", "TOKENIZERS_PARALLELISM": "false", "PYTHONIOENCODING": "utf-8"}


@dataclass(frozen=True)
class Recording:
    """A recorded run and what its recording printed."""

    path: Path
    output: str
    errors: str


LONGEST = (
    "test_wheel", "test_train", "test_ways_to_record", "test_changes_nothing", "test_compare_and_cache",
    "test_many_devices", "test_recompilations", "test_never_hurts", "test_graph_capture", "test_notebooks",
    "test_limits", "test_pages", "test_demo", "test_padding", "test_kill", "test_time", "test_causes",
)  # fmt: skip
"""The files whose tests take longest, in this order."""


def made_once(temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], Any]) -> tuple[Path, Any]:
    """A folder ``name`` that all processes of this test session share, and what ``make`` gave when it filled it (JSON).

    The first process that asks makes it; others that ask meanwhile wait.
    """
    own = temporary.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"shared_{name}"
    made = folder / "made.json"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            made.write_text(json.dumps(make(folder)))
    return folder, json.loads(made.read_text())


CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


def _command_line(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xla_insight", *map(str, words)],
        cwd=cwd,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def command_line() -> CommandLine:
    """Runs ``xla-insight`` with the given words in a child process and returns what it printed and its status."""
    return _command_line


@pytest.fixture(scope="session")
def trainer_run(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A tiny Hugging Face Trainer run: the demo, recorded as ``xla-insight run`` does. Shared: never change it."""
    if importlib.util.find_spec("torch_xla") is None:
        pytest.skip("torch_xla is not installed")

    def make(folder: Path) -> list[str]:
        done = _command_line("demo", "--no-app", "--script-options", " ".join(TINY), cwd=folder)
        assert done.returncode == 0, done.stderr
        return [done.stdout, done.stderr]

    folder, printed = made_once(tmp_path_factory, "demo", make)
    return Recording(folder / "runs" / "demo", *printed)


def _has_browser() -> bool:
    browsers = ("chromium", "chromium-browser", "google-chrome")
    return shutil.which("chromedriver") is not None and any(shutil.which(name) for name in browsers)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that two workers end together; no browser tests where there is none, but in CI."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))
    if _has_browser() or os.environ.get("CI") == "true":
        return
    skip = pytest.mark.skip(reason="no Chromium with chromedriver on this machine")
    for item in items:
        if REPOSITORY / "tests" / "browser" in item.path.parents:
            item.add_marker(skip)
