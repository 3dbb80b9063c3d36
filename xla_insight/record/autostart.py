"""What a process below ``xla-insight run`` loads at start-up: little, since most of them never use the framework.

Owns one import watch; the session is loaded only when the framework is.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from types import ModuleType

from xla_insight.record.imports import ImportWatch

PLACES_VARIABLE = "XLA_INSIGHT_PLACES"
"""A file to which each process below ``xla-insight run`` adds the place it records to, a line each."""


def arm() -> None:
    """Start recording once the framework is imported. Never raises."""
    name = os.environ.get("XLA_INSIGHT_FRAMEWORK")
    if name:
        ImportWatch().after(name, _start)


def _start(module: ModuleType) -> None:
    try:
        place = importlib.import_module("xla_insight.record.session").start_from_environment(module)
    except Exception as error:
        print(f"xla-insight: not recording: {type(error).__name__}: {error}", file=sys.stderr)
        return
    if place is not None:
        _tell(place)


def _tell(place: str) -> None:
    """Let ``xla-insight run`` know: what it has to say at the end is where the recording is."""
    file = os.environ.get(PLACES_VARIABLE)
    if file:
        with contextlib.suppress(OSError), open(file, "a", encoding="utf-8") as places:
            places.write(f"{place}\n")
