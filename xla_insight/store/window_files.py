"""The stored device windows of a process: ``windows/000001.xspace.zst``, one profiler session each, written once.

Owns their names. The log says when each was open; what a session holds is read in ``facts.xspace``.
"""

from __future__ import annotations

import re

FOLDER = "windows"
_SUFFIX = ".xspace.zst"
_NAME = re.compile(r"[0-9]{1,12}")
MAX_WINDOW_BYTES = 1 << 28
"""A file that unpacks to more than this is not opened."""


def window_name(number: int) -> str:
    """The name of a window, as the log gives it."""
    return f"{number:06d}"


def window_file(name: str) -> str | None:
    """The file of a window, relative to the folder of its process; None for a name that no window has."""
    return f"{FOLDER}/{name}{_SUFFIX}" if _NAME.fullmatch(name) else None
