"""Keeps the sessions of device windows, compressed, each program once, up to a limit, and says what was left out.

Owns the account of what is kept and the event of each window. Works on the drain thread; leaves files to the writer.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_insight.facts.events import Event, Kind
from xla_insight.facts.xspace import read_programs, without_programs
from xla_insight.record.framework import Writer
from xla_insight.record.windows import Window
from xla_insight.store.window_files import MAX_WINDOW_BYTES, window_name

LIMIT_BYTES = 64 << 20
"""Of compressed sessions per process: a hundred windows of a small model."""


class WindowKeeper:
    """``keep`` stores a session and says so in the log."""

    def __init__(self, writer: Writer, emit: Callable[[Event], None], limit_bytes: int = LIMIT_BYTES) -> None:
        self._writer = writer
        self._emit = emit
        self._limit = limit_bytes
        self._used = 0
        self._number = 0
        self._known: set[int] = set()

    def keep(self, window: Window, content: bytes) -> None:
        """Store the session of a window."""
        self._number += 1
        if len(content) > MAX_WINDOW_BYTES or self._used >= self._limit:
            self._lose(window, f"the limit for stored device windows ({self._limit / 1e6:.0f} MB) was reached")
            return
        name = window_name(self._number)
        programs = set(read_programs(content))
        size = self._writer.write_window(name, without_programs(content, self._known))
        if size is None:
            self._lose(window, "its file could not be written")
            return
        self._known |= programs
        self._used += size
        begin = window.begin
        self._emit(
            Event(
                begin.mono_ns,
                window.end_ns - begin.mono_ns,
                Kind.WINDOW,
                name=name,
                value=float(window.stop_ns),
                dims=(begin.wall_ns, window.first_step, window.last_step, size),
                detail=window.note or None,
            )
        )

    def _lose(self, window: Window, why: str) -> None:
        self._emit(Event(window.end_ns, None, Kind.LOST, name="windows", value=1.0, detail=why))
