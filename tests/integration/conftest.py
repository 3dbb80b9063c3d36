"""Recordings that several tests of this folder read: each is made once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from .programs import Done, recorded

WINDOW = "3-4"
"""Steps of the device window that each of them takes: what is tested on them holds with windows, too."""


class Recorded(NamedTuple):
    """A script under ``xla-insight run``: what it printed, and the run. Shared: never change it."""

    done: Done
    path: Path


@pytest.fixture(scope="session")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The tiny Trainer script."""
    path = tmp_path_factory.mktemp("tiny_trainer") / "run"
    return Recorded(recorded("tiny_trainer.py", path, XLA_INSIGHT_WINDOWS=WINDOW), path)


@pytest.fixture(scope="session")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The plain loop."""
    path = tmp_path_factory.mktemp("loop") / "run"
    return Recorded(recorded("loop.py", path, XLA_INSIGHT_WINDOWS=WINDOW), path)
