"""The framework's profiler, of which one session can be open at a time: shared by all of ours, and given to the user.

Owns whether a session of ours is open. A program that opens a session of its own gets it: ours is ended first, and
while theirs is open we do without. Leaves when a session is worth its cost to ``windows`` and ``sessions``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Session(Protocol):
    """An open session."""

    def stop(self) -> Any:
        """End it; what was recorded, as something that ``bytes`` takes. Holds the interpreter all the while."""


class Profiler:
    """``open`` begins a session and raises RuntimeError when one is open already."""

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open_session = open_session
        self._session: Session | None = None
        self._lock = threading.RLock()
        self.last_stop_s: float | None = None
        """How long ending the last session took: the longer, the more programs are alive."""

    @property
    def is_open(self) -> bool:
        """Whether a session of ours is open."""
        return self._session is not None

    def open(self) -> bool:
        """Begin a session; False when somebody else's is open. Call `close` for a session that ``open`` began."""
        with self._lock:
            if self._session is not None:
                return False
            try:
                self._session = self._open_session()
            except RuntimeError:
                return False
            return True

    def close(self) -> bytes:
        """End the session; what it holds, empty when none is open."""
        with self._lock:
            session, self._session = self._session, None
            if session is None:
                return b""
            begin = time.perf_counter()
            content = bytes(session.stop())
            self.last_stop_s = time.perf_counter() - begin
            return content

    def take(self) -> bytes | None:
        """A session opened and closed at once, which holds the live programs; None while any is open."""
        with self._lock:
            return self.close() if self.open() else None

    def hold(self) -> AbstractContextManager[Any]:
        """Within it no session of ours begins or ends on another thread."""
        return self._lock
