"""Two clocks and the way between them: our hooks stamp monotonic time, the framework's samples wall time.

Owns anchors and the conversion. An anchor is the narrowest of a few (monotonic, wall, monotonic) readings, so its
error is the width of that reading (about 0.1 us).
"""

from __future__ import annotations

import time
from typing import NamedTuple

STEP_NS = 1_000_000
"""A change of the offset by more than this between two anchors is a step of the wall clock, not drift."""


class Anchor(NamedTuple):
    """The same instant on both clocks, in ns."""

    mono_ns: int
    wall_ns: int

    @property
    def offset_ns(self) -> int:
        """Wall minus monotonic time."""
        return self.wall_ns - self.mono_ns


def take_anchor(readings: int = 8) -> Anchor:
    """The narrowest of ``readings`` attempts to read both clocks at once."""
    best: tuple[int, Anchor] | None = None
    for _ in range(readings):
        before = time.perf_counter_ns()
        wall_ns = time.time_ns()
        after = time.perf_counter_ns()
        width = after - before
        if best is None or width < best[0]:
            best = (width, Anchor((before + after) // 2, wall_ns))
    assert best is not None
    return best[1]


class Clock:
    """Converts wall time of samples to monotonic time with the two latest anchors."""

    def __init__(self) -> None:
        self.latest = take_anchor(30)
        self.previous = self.latest
        self.steps = 0

    def tick(self) -> bool:
        """Take a new anchor. True when the wall clock stepped since the last one (times between are doubtful)."""
        self.previous, self.latest = self.latest, take_anchor()
        stepped = abs(self.latest.offset_ns - self.previous.offset_ns) > STEP_NS
        self.steps += stepped
        return stepped

    def to_mono_ns(self, wall_ns: int) -> int:
        """Monotonic ns of a wall-clock instant; drift between the last two anchors is interpolated."""
        old, new = self.previous, self.latest
        if wall_ns >= new.wall_ns or new.wall_ns <= old.wall_ns or wall_ns <= old.wall_ns:
            return wall_ns - (old if wall_ns <= old.wall_ns else new).offset_ns
        share = (wall_ns - old.wall_ns) / (new.wall_ns - old.wall_ns)
        # The offset itself is too large for a float: only its small change is scaled.
        return wall_ns - old.offset_ns - round(share * (new.offset_ns - old.offset_ns))
