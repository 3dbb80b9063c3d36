"""Which steps a recording looks at with the profiler, as the user says it: ``auto``, ``none``, or ``10-12,100``.

Owns the notation and its limits. Leaves when a window is opened to ``windows``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from xla_insight.errors import UsageError

AUTO, NONE = "auto", "none"
WINDOW_STEPS = 3
"""Length of a window that we choose: one whole step between two whose edges are cut."""
EVERY_STEPS = 50
"""At level full a window begins every so many steps."""
MOST_STEPS = 100
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

Asked = str | Iterable[int | tuple[int, int]]
"""``"auto"``, ``"none"``, ``"10-12,100"``; or steps and (first, last) pairs."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """``steps``: (first, last) of each window, rising and apart. ``automatic``: when a window is cheap; ``every``: a
    window begins every so many steps, whatever it costs (0: not)."""

    steps: tuple[tuple[int, int], ...] = ()
    automatic: bool = False
    every: int = 0

    @property
    def wanted(self) -> bool:
        """Whether there is any window to take."""
        return bool(self.steps) or self.automatic or self.every > 0

    def __str__(self) -> str:
        if self.steps:
            return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.steps)
        if self.every:
            return f"{WINDOW_STEPS} steps in {self.every}"
        return AUTO if self.automatic else NONE


NO_WINDOWS = WindowPlan()


def parse_windows(asked: Asked | None, level: str = "light") -> WindowPlan:
    """The plan behind what was asked for; None is `AUTO`. Raises UsageError for what is none."""
    if asked is not None and not isinstance(asked, str):
        asked = ",".join(part if isinstance(part, str) else _written(part) for part in asked) or NONE
    text = (asked or AUTO).strip().lower()
    if text == NONE:
        return NO_WINDOWS
    if text == AUTO:
        return WindowPlan(every=EVERY_STEPS) if level == "full" else WindowPlan(automatic=True)
    return WindowPlan(tuple(sorted(_ranges(text))))


def _written(part: int | tuple[int, int]) -> str:
    return "-".join(map(str, part)) if isinstance(part, tuple) else str(part)


def _ranges(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"no steps in {part.strip()!r}: give steps from 0 as in 10-12,100, or {AUTO}, or {NONE}")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first or last - first >= MOST_STEPS:
            raise UsageError(f"a window of steps {part.strip()} is not possible: 1 to {MOST_STEPS} steps are")
        if any(first <= other_last and other_first <= last for other_first, other_last in found):
            raise UsageError(f"the windows of steps {text} overlap")
        found.append((first, last))
    return found
