"""What a process below ``xla-insight run`` loads at start-up: little, since most of them never use the framework.

Owns one import watch; the session is loaded only when the framework is.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from xla_insight.record.imports import ImportWatch


def arm() -> None:
    """Start recording once the framework is imported. Never raises."""
    name = os.environ.get("XLA_INSIGHT_FRAMEWORK")
    if name:
        ImportWatch().after(name, _start)


def _start(module: ModuleType) -> None:
    try:
        importlib.import_module("xla_insight.record.session").start_from_environment(module)
    except Exception as error:
        print(f"xla-insight: not recording: {type(error).__name__}: {error}", file=sys.stderr)
