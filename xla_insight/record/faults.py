"""The one wrapper between our code and the user's training: whatever of ours fails is counted, never raised.

Owns the counting of faults. Leaves showing them to ``process.json`` and the report.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

DEBUG = bool(os.environ.get("XLA_INSIGHT_DEBUG"))
"""Print the tracebacks of our own faults, for those who work on the recorder."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Faults:
    """How often each part of the recorder failed, with the text of the last error per part."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.messages: dict[str, str] = {}
        self._lock = threading.Lock()
        self._reported: dict[str, int] = {}

    def add(self, where: str, error: BaseException) -> None:
        """Count one failure of ``where``."""
        with self._lock:
            self.counts[where] = self.counts.get(where, 0) + 1
            self.messages[where] = f"{type(error).__name__}: {error}"[:500]

    def unreported(self) -> list[tuple[str, int, str]]:
        """(where, failures since the last call, last message) of every part that failed since the last call."""
        with self._lock:
            news = []
            for where, count in self.counts.items():
                increase = count - self._reported.get(where, 0)
                if increase:
                    news.append((where, increase, self.messages[where]))
                    self._reported[where] = count
            return news

    def guard(self, where: str) -> Callable[[Function], Function]:
        """Decorator: an ``Exception`` inside the function is counted under ``where`` and the call returns None.

        ``KeyboardInterrupt`` and ``SystemExit`` pass: they belong to the user.
        """

        def decorate(function: Function) -> Function:
            @wraps(function)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                try:
                    return function(*args, **kwargs)
                except Exception as error:
                    self.add(where, error)
                    if DEBUG:
                        traceback.print_exc()
                    return None

            return guarded  # type: ignore[return-value]

        return decorate
