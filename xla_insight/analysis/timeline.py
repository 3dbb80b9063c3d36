"""One process over time, ready to be looked at from the whole run down to nanoseconds.

Owns what is in a view: shares of each stretch by host state and by graph, and what a stretch means in words. A view
costs binary searches and not a look at every event, so that a long run is as quick to move through as a short one.
Leaves the account to ``accounting`` and drawing to ``report``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.analysis.accounting import STATES, Segments, queued
from xla_insight.analysis.idle import Gaps, longest
from xla_insight.analysis.idle_causes import WORDS, GapPlaces, describe_gap, gap_places
from xla_insight.analysis.intervals import Cover, Mask, Nanoseconds, Spans, refined, union
from xla_insight.analysis.tables import RunTables, spans_of
from xla_insight.analysis.time_account import process_segments
from xla_insight.analysis.windows import measured_busy, not_yet_at_work
from xla_insight.facts import numbers
from xla_insight.facts.report import HostState, IdleGap

_Key = TypeVar("_Key")
Shares = NDArray[np.float64]
BUSY_SHARE = 0.9
MOST_GRAPHS = 64
OTHER_GRAPHS = ""
"""Stands for graphs beyond the `MOST_GRAPHS` that held the device longest, and for those without a name."""
ROWS = ("read", "compile", "transfer")


@dataclass(frozen=True, slots=True)
class TimelineView:
    """A stretch of time in columns. ``edges`` (ns of the run) has one more entry than there are columns.

    ``host``, ``device`` and ``rows`` hold for each column the share (0 to 1) of it that a state, a graph or a kind of
    event takes; ``counts`` how many events of a kind began in it. What occurs nowhere is left out. ``exact``: each
    change has an edge of its own, so that shares of host and device are 0 or 1.
    """

    edges: Nanoseconds
    host: dict[HostState, Shares]
    device: dict[str, Shares]
    rows: dict[str, Shares]
    counts: dict[str, NDArray[np.int64]]
    steps: tuple[tuple[int, int], ...]
    """(number, begin in ns) of each step that begins in the stretch; empty when there are too many to tell apart."""
    exact: bool

    def coarser(self) -> TimelineView:
        """The same stretch in half as many columns."""
        first = np.arange(0, len(self.edges) - 1, 2)
        edges = np.append(self.edges[first], self.edges[-1])
        lengths, ours = np.diff(self.edges), np.diff(edges)

        def shares(parts: dict[_Key, Shares]) -> dict[_Key, Shares]:
            return {name: np.add.reduceat(share * lengths, first) / ours for name, share in parts.items()}

        counts = {kind: np.add.reduceat(number, first) for kind, number in self.counts.items()}
        host, device, rows = shares(self.host), shares(self.device), shares(self.rows)
        return replace(self, edges=edges, host=host, device=device, rows=rows, counts=counts)

    @property
    def begin_ns(self) -> int:
        """First instant."""
        return int(self.edges[0])

    @property
    def end_ns(self) -> int:
        """First instant after it."""
        return int(self.edges[-1])


@dataclass(frozen=True, slots=True)
class Totals:
    """Ns of a stretch of time: all of it, by host state, and idle of the device by host state (None: not observed)."""

    whole: int
    host: dict[HostState, int]
    idle: dict[HostState, int] | None

    @property
    def busy(self) -> int | None:
        """Ns in which the device was busy; None when it was not observed."""
        return None if self.idle is None else self.whole - sum(self.idle.values())

    def sentence(self) -> str:
        """What limits this stretch, as a person would say it."""
        if self.idle is None or self.busy is None:
            return "When the device was busy is not known: no execution times were recorded."
        length = numbers.nanoseconds(self.whole)
        if self.busy >= BUSY_SHARE * self.whole:
            share = numbers.share(self.busy, self.whole, inferred=True)
            return f"The device is busy {share} of these {length}: it is the limit, as it should be."
        share = numbers.share(sum(self.idle.values()), self.whole, inferred=True)
        state, ns = max(self.idle.items(), key=lambda item: item[1])
        most = numbers.share(ns, self.whole, inferred=True)
        return f"The device has nothing to run for {share} of these {length}; for {most}, {WORDS[state]}."


class Timeline:
    """The timeline of a process. Safe to share between threads: nothing in it changes after it was built."""

    def __init__(self, tables: RunTables, process: int) -> None:
        self._tables, self._process = tables, process
        parts = process_segments(tables, process)
        self._edges = np.zeros(0, np.int64) if parts is None else parts.starts
        self.begin_ns = 0 if parts is None else int(parts.starts[0])
        self.end_ns = 1 if parts is None else int(parts.starts[-1] + parts.lengths[-1])
        self._host = {} if parts is None else _state_covers(parts, np.ones(len(parts.starts), np.bool_))
        self._idle = {} if parts is None or parts.busy is None else _state_covers(parts, ~parts.busy)
        self.observed = parts is not None and parts.busy is not None
        """Whether it is known when the device was busy."""
        late = not_yet_at_work(tables, process)
        self._device = _device_covers(tables.of("executions", process), late, *measured_busy(tables, process))
        frame = tables.of("spans", process)
        own = (frame["thread"] == 0) | (frame["kind"] != "read")
        self._rows = {kind: _events(frame[own & (frame["kind"] == kind)]) for kind in ROWS}
        self._places: GapPlaces = gap_places(tables, process)
        steps = tables.of("steps", process)
        self._step_starts = steps["start_ns"].to_numpy(dtype=np.int64)
        self._step_ends = steps["end_ns"].to_numpy(dtype=np.int64)
        self._step_numbers = steps["step"].to_numpy(dtype=np.int64)

    @property
    def gaps(self) -> Gaps:
        """All idle gaps."""
        return self._places.gaps

    def gap(self, index: int) -> IdleGap:
        """One idle gap in words."""
        return describe_gap(self._tables, self._process, self._places, index)

    def longest_gaps(self, begin_ns: int, end_ns: int, count: int) -> list[int]:
        """Numbers of the gaps with the longest parts in a stretch of time, longest first."""
        return longest(self.gaps, count, (begin_ns, end_ns))

    def opener_stack(self, index: int) -> tuple[tuple[str, int, str], ...]:
        """(file, line, function), innermost first, of the cut that opened a gap; empty when none did."""
        opened = int(self._places.opened[index])
        if opened < 0:
            return ()
        return self._tables.place(self._process, self._places.cuts.iloc[opened]["site"]).stack

    def stretch_of_steps(self, first: int, last: int) -> tuple[int, int] | None:
        """When the steps ``first`` to ``last`` begin and end; None when there are none of them."""
        chosen = np.flatnonzero((self._step_numbers >= first) & (self._step_numbers <= last))
        return None if not len(chosen) else (int(self._step_starts[chosen[0]]), int(self._step_ends[chosen[-1]]))

    def steps_within(self, begin_ns: int, end_ns: int) -> tuple[int, int] | None:
        """The first and last step that share an instant with a stretch of time; None when there is none."""
        low = int(np.searchsorted(self._step_ends, begin_ns, side="right"))
        high = int(np.searchsorted(self._step_starts, end_ns, side="left")) - 1
        return (int(self._step_numbers[low]), int(self._step_numbers[high])) if low <= high else None

    def totals(self, begin_ns: int, end_ns: int) -> Totals:
        """What a stretch of time was spent on."""
        ends = np.array([begin_ns, end_ns])
        host, idle = (_sums(covers, ends) for covers in (self._host, self._idle))
        return Totals(end_ns - begin_ns, host, idle if self.observed else None)

    def view(self, begin_ns: int, end_ns: int, columns: int, most_steps: int = 40) -> TimelineView:
        """The stretch from ``begin_ns`` to ``end_ns`` in at least ``columns`` columns, or fewer when it is shorter."""
        begin = min(max(begin_ns, self.begin_ns), self.end_ns - 1)
        end = max(begin + 1, min(end_ns, self.end_ns))
        edges = np.unique(np.linspace(begin, end, min(columns, end - begin) + 1).astype(np.int64))
        inside = self._edges[slice(*np.searchsorted(self._edges, (begin, end)))]
        exact = len(inside) <= columns
        if exact:
            edges = np.unique(np.concatenate([edges, inside, np.array([begin, end])]))
        lengths = np.diff(edges)
        return TimelineView(
            edges=edges,
            host=_shares(self._host, edges, lengths),
            device=_shares(self._device, edges, lengths),
            rows=_shares({kind: cover for kind, (cover, _) in self._rows.items()}, edges, lengths),
            counts={kind: np.diff(np.searchsorted(starts, edges)) for kind, (_, starts) in self._rows.items()},
            steps=self._steps(begin, end, most_steps),
            exact=exact,
        )

    def _steps(self, begin: int, end: int, most: int) -> tuple[tuple[int, int], ...]:
        first, last = np.searchsorted(self._step_starts, (begin, end))
        if last - first > most:
            return ()
        return tuple(
            (int(number), int(start))
            for number, start in zip(self._step_numbers[first:last], self._step_starts[first:last], strict=True)
        )


def _state_covers(parts: Segments, kept: Mask) -> dict[HostState, Cover]:
    """When the host was in each state, within the kept segments."""
    ends = parts.starts + parts.lengths
    covers = {}
    for number, state in enumerate(STATES):
        mine = kept & (parts.states == number)
        if mine.any():
            first = mine & np.append(True, ~mine[:-1])
            last = mine & np.append(~mine[1:], True)
            covers[state] = Cover(Spans(parts.starts[first], ends[last]))
    return covers


def _device_covers(executions: pd.DataFrame, late: Spans, measured: Spans, busy: Spans) -> dict[str, Cover]:
    """When each graph held the device: from its dispatch, or from when the one before it was ready, or from the end of
    the span of ``late`` that begins there; where the device was ``measured`` only while it was ``busy``."""
    known = executions[executions["duration_ns"].notna()]
    if known.empty:
        return {}
    raw = spans_of(known)
    in_order = bool((raw.starts[1:] > raw.starts[:-1]).all())
    order = np.arange(len(raw.starts)) if in_order else np.lexsort((raw.ends, raw.starts))
    raw = Spans(raw.starts[order], raw.ends[order])
    begins, ends = queued(raw)
    if len(late.starts):
        place = np.minimum(np.searchsorted(late.starts, begins), len(late.starts) - 1)
        begins = np.where(late.starts[place] == begins, late.ends[place], begins)
    begins, ends, origin = refined(Spans(begins, ends), measured, busy)
    graph = known["graph"].astype("category").cat
    words, codes = [str(word) for word in graph.categories], graph.codes.to_numpy()[order][origin].astype(np.int64)
    named = codes >= 0
    held = np.bincount(codes[named], weights=(ends - begins)[named], minlength=len(words))
    ran = np.unique(codes[named]).tolist()
    ranked = sorted((code for code in ran if words[code] != OTHER_GRAPHS), key=lambda code: (-held[code], words[code]))
    listed = ranked[:MOST_GRAPHS]
    row = np.full(len(words) + 1, len(listed), np.int64)  # the last is for those without a name
    row[listed] = np.arange(len(listed))
    rows = row[codes]
    covers = {}
    for number, name in enumerate([*(words[code] for code in listed), OTHER_GRAPHS]):
        mine = (rows == number) & (ends > begins)
        if mine.any():
            covers[name] = Cover(Spans(begins[mine], ends[mine]))
    return covers


def _sums(covers: dict[HostState, Cover], ends: Nanoseconds) -> dict[HostState, int]:
    """Ns of each state between two instants, most first; states that do not occur are left out."""
    found = {state: int(cover.between(ends)[0]) for state, cover in covers.items()}
    return dict(sorted(((state, ns) for state, ns in found.items() if ns), key=lambda item: -item[1]))


def _events(rows: pd.DataFrame) -> tuple[Cover, Nanoseconds]:
    spans = spans_of(rows)
    return Cover(union(spans)), np.sort(spans.starts)


def _shares(covers: dict[_Key, Cover], edges: Nanoseconds, lengths: Nanoseconds) -> dict[_Key, Shares]:
    found = {key: cover.between(edges) / lengths for key, cover in covers.items()}
    return {key: shares for key, shares in found.items() if shares.any()}
