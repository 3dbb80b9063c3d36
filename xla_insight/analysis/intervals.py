"""Exact integer arithmetic over sets of time intervals, vectorised.

Owns union, containment and the cutting of a time axis into elementary segments. Knows nothing of what an interval
means; that is ``accounting``. All times are integer nanoseconds, intervals are half open: ``[start, end)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Nanoseconds = NDArray[np.int64]
Mask = NDArray[np.bool_]
_CODE_BITS = 5
_CODE_MASK = (1 << _CODE_BITS) - 1


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
    if len(listed) < 2:
        return listed[0] if listed else NO_SPANS
    return Spans(np.concatenate([p.starts for p in listed]), np.concatenate([p.ends for p in listed]))


def union(spans: Spans) -> Spans:
    """The same instants as disjoint intervals in order of time. Intervals that only touch stay apart."""
    if not len(spans.starts):
        return NO_SPANS
    starts, ends = spans
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    first = np.ones(len(starts), np.bool_)
    first[1:] = starts[1:] >= reach[:-1]
    if first.all():
        return Spans(starts, ends)
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


def _edges(cuts: Spans, layers: Sequence[Sequence[Spans]]) -> Iterator[Nanoseconds]:
    """The begins and the ends of the cuts, then all edges of each layer, made when they are asked for."""
    yield from cuts
    for layer in layers:
        yield np.stack(union(joined(layer)), axis=1).ravel()


class Axis:
    """A stretch of time cut at some edges, and where layers begin or end, so that each covers a segment or does not.

    ``lengths`` are the ns of the segments, ``starts`` where each begins; both have one entry a segment. ``layers`` are
    sets of intervals, named by their place, at most `MAX_LAYERS`; what lies outside of the stretch is cut off.
    """

    MAX_LAYERS = _CODE_MASK - 1

    def __init__(self, cuts: Spans, layers: Sequence[Sequence[Spans]]) -> None:
        """The stretch is from the first to the last edge of ``cuts``, of which there must be one."""
        begin, end = int(cuts.starts.min()), int(cuts.ends.max())
        # An edge is sorted together with the number of its layer, as one number: looking edges up in the result would
        # take far longer. They come as a few sorted runs, which a stable sort merges.
        most = 2 * (len(cuts.starts) + sum(len(part.starts) for layer in layers for part in layer))
        packed, filled = np.empty(most, np.int64), 0
        for number, edges in enumerate(_edges(cuts, layers)):
            place = packed[filled : filled + len(edges)]
            np.clip(edges, begin, end, out=place)
            place -= begin
            place <<= _CODE_BITS
            place |= max(0, number - 1)  # both edges of the cuts are of no layer
            filled += len(edges)
        packed = packed[:filled]
        packed.sort(kind="stable")
        self._layers = (packed & _CODE_MASK).astype(np.uint8)
        packed >>= _CODE_BITS
        first = np.append(True, packed[1:] != packed[:-1])
        points = packed[first] + begin
        del packed
        self._segment = np.cumsum(first, dtype=np.int32)
        self._segment -= 1
        self.starts = points[:-1]
        self.lengths = np.diff(points)

    def covered(self, layer: int) -> Mask:
        """Which segments lie inside at least one interval of a layer."""
        edges = self._segment[self._layers == layer + 1]
        inside = np.zeros(len(edges) + 1, np.bool_)
        inside[1::2] = True
        return np.repeat(inside, np.diff(edges, prepend=0, append=len(self.lengths)))


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
