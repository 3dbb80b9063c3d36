"""The framework's metric samples: what is new since the last look, in monotonic time.

Owns counting and the ring (the framework keeps the last 1,024 samples of a metric; what it overwrote before we looked
is counted as lost). Pure given a function that reads a metric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MetricData = tuple[int, float, tuple[tuple[float, float], ...]]
ReadMetric = Callable[[str], MetricData | None]


class Sample(NamedTuple):
    """One sample: wall-clock end in ns since the epoch, and its value (ns for times, bytes for sizes)."""

    wall_end_ns: int
    value: int


class News(NamedTuple):
    """What one poll of a metric brought: new samples by end, how many there were, how many the ring had lost."""

    samples: list[Sample]
    total: int
    lost: int
    reset: bool


class Poller:
    """Reads metrics as differences from the moment ``start`` was called for them."""

    def __init__(self, read: ReadMetric) -> None:
        self._read = read
        self._counts: dict[str, int] = {}

    def start(self, names: tuple[str, ...]) -> None:
        """Take the present counts as zero."""
        for name in names:
            data = self._read(name)
            self._counts[name] = data[0] if data else 0

    def poll(self, name: str) -> News:
        """News of ``name``. ``reset``: the user cleared the metrics since the last poll."""
        data = self._read(name)
        known = self._counts.get(name, 0)
        if data is None:
            self._counts[name] = 0
            return News([], 0, 0, known > 0)
        total, _, ring = data
        reset = total < known
        count = total if reset else total - known
        self._counts[name] = total
        fresh = ring[-count:] if 0 < count <= len(ring) else (ring if count else ())
        samples = [Sample(round(end * 1e9), round(value)) for end, value in fresh]
        return News(samples, count, count - len(samples), reset)
