"""Exact integer arithmetic over sets of time intervals, vectorised.

Owns union, containment and the cutting of a time axis into elementary segments. Knows nothing of what an interval
means; that is ``accounting``. All times are integer nanoseconds, intervals are half open: ``[start, end)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Nanoseconds = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Spans(NamedTuple):
    """A set of intervals, in any order, possibly nested or overlapping."""

    starts: Nanoseconds
    ends: Nanoseconds

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Spans:
        """Spans from (start, end) pairs."""
        table = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        return cls(table[:, 0].copy(), table[:, 1].copy())


NO_SPANS = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))


def joined(parts: Iterable[Spans]) -> Spans:
    """All intervals of ``parts`` in one set, unchanged."""
    listed = list(parts)
    if not listed:
        return NO_SPANS
    return Spans(np.concatenate([p.starts for p in listed]), np.concatenate([p.ends for p in listed]))


def union(spans: Spans) -> Spans:
    """The same instants as disjoint intervals in order of time. Intervals that only touch stay apart."""
    if not len(spans.starts):
        return NO_SPANS
    order = np.argsort(spans.starts, kind="stable")
    starts, ends = spans.starts[order], spans.ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.ones(len(starts), np.bool_)
    first[1:] = starts[1:] >= reach[:-1]
    last = np.flatnonzero(np.append(first[1:], True))
    return Spans(starts[first], reach[last])


def refined(spans: Spans, known: Spans, busy: Spans) -> tuple[Nanoseconds, Nanoseconds, NDArray[np.int64]]:
    """The instants of ``spans`` that are not in ``known``, or else in ``busy``, as starts, ends and the number of the
    span that each piece comes from. All three are disjoint and in order of time; few of ``known`` are expected."""
    first = np.searchsorted(known.ends, spans.starts, side="right")
    last = np.searchsorted(known.starts, spans.ends, side="left")
    touched = np.flatnonzero(first < last)
    whole = np.flatnonzero(first >= last)
    pieces: list[tuple[int, int, int]] = []
    for index in touched.tolist():
        at, end = int(spans.starts[index]), int(spans.ends[index])
        for number in range(int(first[index]), int(last[index])):
            begin, stop = max(at, int(known.starts[number])), min(end, int(known.ends[number]))
            pieces.append((at, begin, index))
            inner = slice(
                np.searchsorted(busy.ends, begin, side="right"), np.searchsorted(busy.starts, stop, side="left")
            )
            for low, high in zip(busy.starts[inner].tolist(), busy.ends[inner].tolist(), strict=True):
                pieces.append((max(low, begin), min(high, stop), index))
            at = stop
        pieces.append((at, end, index))
    cut = np.array([piece for piece in pieces if piece[0] < piece[1]], np.int64).reshape(-1, 3)
    rows = np.concatenate([np.stack([spans.starts[whole], spans.ends[whole], whole], axis=1), cut])
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return rows[:, 0], rows[:, 1], rows[:, 2]


def index_inside(points: Nanoseconds, containers: Spans) -> NDArray[np.int64]:
    """For each point the index of the container that holds it (ends included), else -1. Containers are a `union`."""
    if not len(containers.starts):
        return np.full(len(points), -1, np.int64)
    index = np.searchsorted(containers.starts, points, side="right") - 1
    held = (index >= 0) & (points <= containers.ends[np.maximum(index, 0)])
    return np.where(held, index, -1)


class Axis:
    """A stretch of time cut at every edge of the given sets, so that each set covers a segment wholly or not at all.

    ``lengths`` are the ns of the segments, ``starts`` where each begins; both have one entry a segment.
    """

    def __init__(self, begin: int, end: int, edges: Iterable[Nanoseconds]) -> None:
        points = np.concatenate([np.array([begin, end], np.int64), *edges])
        points = points[(points >= begin) & (points <= end)]
        points.sort(kind="stable")  # edges come as a few sorted runs, which this merges; np.unique is slower by far
        self._points = points[np.append(True, points[1:] != points[:-1])]
        self.starts = self._points[:-1]
        self.lengths = np.diff(self._points)

    def covered(self, spans: Spans) -> Mask:
        """Which segments lie inside at least one interval of ``spans`` (whose edges were given when cutting)."""
        n_segments = len(self.lengths)
        low, high = self._points[0], self._points[-1]
        begins = np.searchsorted(self._points, np.clip(spans.starts, low, high))
        ends = np.searchsorted(self._points, np.clip(spans.ends, low, high))
        steps = np.bincount(begins, minlength=n_segments + 1) - np.bincount(ends, minlength=n_segments + 1)
        covered: Mask = np.cumsum(steps[:-1]) > 0
        return covered


class Cover:
    """Disjoint intervals in order of time that say how much of any stretch they cover, without looking at each of them.

    A question takes a binary search, so that a view of a million intervals costs as much as one of ten.
    """

    def __init__(self, spans: Spans) -> None:
        """``spans`` must be disjoint and in order of time, as `union` gives them."""
        self.spans = spans
        self._before = np.concatenate([np.zeros(1, np.int64), np.cumsum(spans.ends - spans.starts)])

    def __len__(self) -> int:
        return len(self.spans.starts)

    def until(self, times: Nanoseconds) -> Nanoseconds:
        """Covered ns before each of ``times``."""
        if not len(self):
            return np.zeros(len(times), np.int64)
        index = np.searchsorted(self.spans.starts, times, side="right") - 1
        last = np.maximum(index, 0)
        inside = np.minimum(times, self.spans.ends[last]) - self.spans.starts[last]
        covered: Nanoseconds = np.where(index >= 0, self._before[last] + inside, 0)
        return covered

    def between(self, edges: Nanoseconds) -> Nanoseconds:
        """Covered ns between each two neighbours of ``edges`` (rising)."""
        return np.diff(self.until(edges))
