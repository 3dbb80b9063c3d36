"""The device windows of a process on the run's axis: device operations, busy intervals, and the host's own spans.

Owns the way from a session's clock to the run's and what counts as busy. A session that cannot be read, or in which the
device did nothing that it shows, measures nothing: the time it covers stays inferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from xla_insight.analysis.intervals import NO_SPANS, Spans, joined, union
from xla_insight.analysis.tables import RunTables, integers
from xla_insight.analysis.windows.each_device import device_runs
from xla_insight.facts.xspace import Space, Span, read_handoffs, read_space

_AT_WORK = "ThunkExecutor::Execute"
"""Begins the names of the host spans in which XLA:CPU runs a program: between two operations it is at work, too."""
_CUTS = ("StepMarker", "SyncTensorsGraph")
"""Host spans of a thread that cuts graphs."""
_WAITS = ("Wait for donation holds", "TensorCollectionBarrier")
"""Host spans in which such a thread is blocked until the device is done."""
_READS = ("PjRtComputationClient::TransferFromDevice",)
_WORK = ("time_ns", "duration_ns", "self_ns", "program")
NO_WORK = pd.DataFrame({name: np.zeros(0, np.int64) for name in _WORK}).assign(operation=pd.Series(dtype=object))


@dataclass(frozen=True)
class DeviceSession:
    """One window. Times are ns of the run; ``begin_ns`` to ``end_ns`` the session was open, then ``stop_ns`` it took to
    end it. ``measured``: from the first to the last operation that was seen, None when none was.

    ``work`` has a row a device operation: time_ns, duration_ns, self_ns (without operations inside it), program,
    operation. ``host`` counts the host's spans: (thread, name) -> (spans, ns). ``problem`` says why nothing was read.
    ``waits``: when a thread that cuts graphs was blocked by the device (None: no such thread was seen); ``reads``: when
    it moved values from it.
    """

    name: str
    begin_ns: int
    end_ns: int
    stop_ns: int
    first_step: int
    last_step: int
    note: str
    measured: tuple[int, int] | None
    busy: Spans
    work: pd.DataFrame
    host: dict[tuple[str, str], tuple[int, int]]
    programs: dict[int, bytes]
    problem: str = ""
    waits: Spans | None = None
    reads: Spans = NO_SPANS
    devices: tuple[Spans, ...] = ()
    """When each single device of several ran a program; empty where the session does not tell."""


def device_sessions(tables: RunTables, process: int) -> tuple[DeviceSession, ...]:
    """The windows of a process in order of time; remembered with the tables."""
    key = ("windows", process)
    if key not in tables.accounts:
        rows = tables.of("windows", process).sort_values("time_ns")
        tables.accounts[key] = tuple(_session(tables, process, row) for row in rows.itertuples(index=False))
    found: tuple[DeviceSession, ...] = tables.accounts[key]
    return found


def measured_busy(tables: RunTables, process: int) -> tuple[Spans, Spans]:
    """The stretches of time in which a process's device was measured, and when it was busy in them; both a `union`."""
    known = [session for session in device_sessions(tables, process) if session.measured is not None]
    if not known:
        return NO_SPANS, NO_SPANS
    stretches = union(Spans.of([session.measured for session in known if session.measured is not None]))
    return stretches, union(joined(session.busy for session in known))


def stops(tables: RunTables, process: int) -> Spans:
    """When a process's training thread was held up by the end of a window."""
    rows = tables.of("windows", process)
    begins = integers(rows["time_ns"]) + integers(rows["duration_ns"])
    return Spans(begins, begins + integers(rows["stop_ns"].fillna(0)))


def _session(tables: RunTables, process: int, row: object) -> DeviceSession:
    begin_ns = int(row.time_ns)  # type: ignore[attr-defined]
    end_ns = begin_ns + int(row.duration_ns)  # type: ignore[attr-defined]
    space, problem = _space(tables, process, str(row.name))  # type: ignore[attr-defined]
    work, busy, host = NO_WORK, NO_SPANS, Counter[tuple[str, str]]()
    spent: Counter[tuple[str, str]] = Counter()
    waits, reads = None, NO_SPANS
    devices: tuple[Spans, ...] = ()
    if space is not None and space.start_wall_ns is not None:
        offset = begin_ns + space.start_wall_ns - _whole(row.wall_ns)  # type: ignore[attr-defined]
        work, busy = _device(space, offset, (begin_ns, end_ns))
        waits, reads = _cutting(space, offset)
        devices = _devices(tables, process, str(row.name), space, offset)  # type: ignore[attr-defined]
        for thread in space.threads:
            for span in thread.spans:
                if span.operation is None and span.end_ns > span.start_ns:
                    host[thread.name, span.name] += 1
                    spent[thread.name, span.name] += span.end_ns - span.start_ns
    if not problem and work.empty:
        problem = "it shows no operation of the device"
    return DeviceSession(
        name=str(row.name),  # type: ignore[attr-defined]
        begin_ns=begin_ns,
        end_ns=end_ns,
        stop_ns=_whole(row.stop_ns),  # type: ignore[attr-defined]
        first_step=_whole(row.first_step),  # type: ignore[attr-defined]
        last_step=_whole(row.last_step),  # type: ignore[attr-defined]
        note=row.note if isinstance(row.note, str) else "",  # type: ignore[attr-defined]
        measured=None if work.empty else (int(busy.starts[0]), int(busy.ends[-1])),
        busy=busy,
        work=work,
        host={key: (count, spent[key]) for key, count in host.items()},
        programs={} if space is None else space.programs,
        problem=problem,
        waits=waits,
        reads=reads,
        devices=devices,
    )


def _devices(tables: RunTables, process: int, name: str, space: Space, offset: int) -> tuple[Spans, ...]:
    """When each device of a process that has several ran a program."""
    listed = next(one.facts.get("devices") for one in tables.processes if one.index == process)
    content = tables.window(process, name)
    if not isinstance(listed, list | tuple) or len(listed) < 2 or content is None:
        return ()
    runs = device_runs(space, read_handoffs(content), len(listed))
    return tuple(Spans.of([(begin + offset, end + offset) for begin, end in own]) for own in runs)


def _cutting(space: Space, offset: int) -> tuple[Spans | None, Spans]:
    """When the threads that cut graphs were blocked, and when they moved values from the device."""
    spans = [
        span for thread in space.threads if any(one.name in _CUTS for one in thread.spans) for span in thread.spans
    ]
    if not spans:
        return None, NO_SPANS
    waits, reads = (
        Spans.of([(span.start_ns + offset, span.end_ns + offset) for span in spans if span.name in names])
        for names in (_WAITS, _READS)
    )
    return waits, reads


def _whole(value: object) -> int:
    return 0 if value is None or pd.isna(value) else int(value)  # type: ignore[call-overload]


def _space(tables: RunTables, process: int, name: str) -> tuple[Space | None, str]:
    content = tables.window(process, name)
    if content is None:
        return None, "its session was not kept, or is damaged"
    try:
        return read_space(content), ""
    except ValueError as error:
        return None, f"its session cannot be read ({error})"


def _device(space: Space, offset: int, stretch: tuple[int, int]) -> tuple[pd.DataFrame, Spans]:
    """Device operations and when the device was at work, within the time that the session was open."""
    begin, end = stretch
    rows: list[tuple[int, int, int, int, str]] = []
    at_work: list[tuple[int, int]] = []
    for thread in space.threads:
        operations = [span for span in thread.spans if span.operation is not None]
        for span, own_ns in _with_self_time(operations):
            start = span.start_ns + offset
            if begin <= start < end:
                program = -1 if span.program is None else span.program
                rows.append((start, min(end, span.end_ns + offset) - start, own_ns, program, span.operation or ""))
        at_work += [
            (max(begin, span.start_ns + offset), min(end, span.end_ns + offset))
            for span in thread.spans
            if span.name.startswith(_AT_WORK) and span.start_ns + offset < end and span.end_ns + offset > begin
        ]
    if not rows:
        return NO_WORK, NO_SPANS
    work = pd.DataFrame(rows, columns=[*_WORK, "operation"])
    starts = integers(work["time_ns"])
    return work, union(joined((Spans(starts, starts + integers(work["duration_ns"])), Spans.of(at_work))))


def _with_self_time(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Each span of one thread with its ns less those of the spans directly inside it (a loop and its body)."""
    open_spans: list[tuple[Span, list[int]]] = []
    for span in sorted(spans, key=lambda one: (one.start_ns, -one.end_ns)):
        while open_spans and open_spans[-1][0].end_ns <= span.start_ns:
            done, inner = open_spans.pop()
            yield done, done.end_ns - done.start_ns - inner[0]
        if open_spans and span.end_ns <= open_spans[-1][0].end_ns:
            open_spans[-1][1][0] += span.end_ns - span.start_ns
        open_spans.append((span, [0]))
    for done, inner in open_spans:
        yield done, done.end_ns - done.start_ns - inner[0]
