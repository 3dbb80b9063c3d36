"""Recordings that several tests of this folder read: each is made once, for all processes that run tests."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import made_once

from .programs import EXECUTION, Done, recorded, script

WINDOW = "3-4"
"""Steps of the device window that each of them takes: what is tested on them holds with windows, too."""


class Recorded(NamedTuple):
    """A script under ``xla-insight run``: what it printed, and the run. Shared: never change it."""

    done: Done
    path: Path


class Bare(NamedTuple):
    """A script on its own, with the framework's debug file."""

    done: Done
    debug: str
    """What the file says."""

    @property
    def hashes(self) -> list[str]:
        """The graph of each execution."""
        return EXECUTION.findall(self.debug)


def _recorded(temporary: pytest.TempPathFactory, name: str) -> Recorded:
    folder, done = made_once(
        temporary, f"recorded_{name}", lambda folder: recorded(name, folder / "run", XLA_INSIGHT_WINDOWS=WINDOW)
    )
    return Recorded(Done(*done), folder / "run")


def _bare(temporary: pytest.TempPathFactory, name: str) -> Bare:
    def make(folder: Path) -> Done:
        return script(name, PT_XLA_DEBUG_LEVEL="2", PT_XLA_DEBUG_FILE=str(folder / "debug.txt"))

    folder, done = made_once(temporary, f"bare_{name}", make)
    return Bare(Done(*done), (folder / "debug.txt").read_text())


@pytest.fixture(scope="session")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The tiny Trainer script."""
    return _recorded(tmp_path_factory, "tiny_trainer.py")


@pytest.fixture(scope="session")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The plain loop."""
    return _recorded(tmp_path_factory, "loop.py")


@pytest.fixture(scope="session")
def bare_trainer(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """The tiny Trainer script without any recording."""
    return _bare(tmp_path_factory, "tiny_trainer.py")


@pytest.fixture(scope="session")
def bare_loop(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """The plain loop without any recording."""
    return _bare(tmp_path_factory, "loop.py")
