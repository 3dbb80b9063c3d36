"""What the windows of a process measured, and how far from it the inferred times are, for the report.

Owns the comparison: both say when the device was busy from the first to the last operation of a window, beyond which a
session does not know what ran. The difference in points is the error of the inferred busy share elsewhere.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from xla_insight.analysis.intervals import Cover, union
from xla_insight.analysis.tables import Process, RunTables, spans_of
from xla_insight.analysis.windows.before_work import not_yet_at_work
from xla_insight.analysis.windows.operations import operation_table
from xla_insight.analysis.windows.sessions import DeviceSession, device_sessions
from xla_insight.facts import numbers
from xla_insight.facts.report import DeviceLine, DeviceOperation, DeviceWindow, HostSpan, MeasuredTime, Site

LISTED = 20
LEAST_COMPARED_NS = 1_000_000
"""In less measured time than this the edges of executions, off by some 0.1 ms, are all of the difference."""
_LISTED_OPERATIONS = 3
_NAMED_WINDOWS = 3


def measured_time(tables: RunTables, process: Process) -> MeasuredTime | None:
    """The windows of a process, None when it has none."""
    sessions = device_sessions(tables, process.index)
    if not sessions:
        return None
    executed = Cover(union(spans_of(tables.of("executions", process.index))))
    windows = tuple(_window(session, executed) for session in sessions)
    known = [window for window in windows if window.measured_s is not None]
    own = operation_table(tables, (process,))
    measured_s = sum(window.measured_s or 0.0 for window in known)
    compared = [w for w in known if w.error_points is not None and w.measured_s is not None]
    weight = sum(w.measured_s or 0.0 for w in compared)
    error = sum(abs(w.error_points or 0.0) * (w.measured_s or 0.0) for w in compared) / weight if compared else None
    lines = _lines(tables, own)
    return MeasuredTime(
        summary=_sentence(windows, lines, error, corrected=len(not_yet_at_work(tables, process.index).starts) > 0),
        windows=windows,
        measured_s=measured_s,
        busy_s=sum(window.busy_s or 0.0 for window in known) if known else None,
        inferred_busy_s=sum(window.inferred_busy_s or 0.0 for window in known) if known else None,
        error_points=error,
        stop_s=sum(window.stop_s for window in windows),
        lines=lines,
        operations=tuple(_operation(tables, row) for row in own.head(LISTED).itertuples(index=False)),
        host_spans=_host_spans(sessions),
    )


def _window(session: DeviceSession, executed: Cover) -> DeviceWindow:
    measured_s = busy_s = inferred_s = error = None
    if session.measured is not None:
        begin, end = session.measured
        inferred_ns = int(executed.between(np.array([begin, end], np.int64))[0]) if len(executed) else 0
        busy_ns = int((session.busy.ends - session.busy.starts).sum())
        measured_s, busy_s, inferred_s = (ns / 1e9 for ns in (end - begin, busy_ns, inferred_ns))
        if end - begin >= LEAST_COMPARED_NS:
            error = 100 * (inferred_ns - busy_ns) / (end - begin)
    return DeviceWindow(
        first_step=session.first_step,
        last_step=session.last_step,
        start_s=session.begin_ns / 1e9,
        length_s=(session.end_ns - session.begin_ns) / 1e9,
        stop_s=session.stop_ns / 1e9,
        measured_s=measured_s,
        busy_s=busy_s,
        inferred_busy_s=inferred_s,
        error_points=error,
        note=session.problem or session.note,
    )


def _lines(tables: RunTables, operations: pd.DataFrame) -> tuple[DeviceLine, ...]:
    """Device time by line of code, most first; what comes from no known line is one entry without a site."""
    sums = operations.groupby(["file", "line", "function"], dropna=False, sort=False)
    found = []
    for (file, line, function), rows in sums:
        site = None if pd.isna(file) else _site(tables, str(file), int(line), str(function))
        names = rows["framework_operation"].fillna(rows["opcode"]).dropna()
        by_name = rows["device_ns"].groupby(names).sum().sort_values(ascending=False)
        found.append(
            DeviceLine(
                site=site,
                operations=tuple(str(name) for name in by_name.index[:_LISTED_OPERATIONS]),
                count=int(rows["count"].sum()),
                device_s=int(rows["device_ns"].sum()) / 1e9,
                share=float(rows["share"].sum()),
            )
        )
    return tuple(sorted(found, key=lambda entry: -entry.device_s)[:LISTED])


def _operation(tables: RunTables, row: object) -> DeviceOperation:
    values = row._asdict()  # type: ignore[attr-defined]
    texts = {name: None if pd.isna(values[name]) else str(values[name]) for name in ("graph", "opcode", "file")}
    site = None
    if texts["file"] is not None:
        site = _site(tables, texts["file"], int(values["line"]), str(values["function"]))
    framework = values["framework_operation"]
    return DeviceOperation(
        operation=str(values["operation"]),
        opcode=texts["opcode"],
        framework_operation=None if pd.isna(framework) else str(framework),
        graph=texts["graph"],
        site=site,
        count=int(values["count"]),
        device_s=int(values["device_ns"]) / 1e9,
        share=float(values["share"]),
    )


def _site(tables: RunTables, file: str, line: int, function: str) -> Site:
    source = next((text for number, text in tables.snippet(file, line) if number == line), "")
    return Site(file, line, function, source)


def _host_spans(sessions: tuple[DeviceSession, ...]) -> tuple[HostSpan, ...]:
    """What the host's threads did in the windows, by the framework's own names, longest first; spans may nest."""
    counts: Counter[tuple[str, str]] = Counter()
    spent: Counter[tuple[str, str]] = Counter()
    for session in sessions:
        for key, (count, ns) in session.host.items():
            # Threads of a pool are numbered: what they do is one thing.
            named = (key[0].split("/")[0], key[1])
            counts[named] += count
            spent[named] += ns
    return tuple(HostSpan(*key, counts[key], ns / 1e9) for key, ns in spent.most_common(LISTED))


def _sentence(
    windows: tuple[DeviceWindow, ...], lines: tuple[DeviceLine, ...], error: float | None, corrected: bool
) -> str:
    known = [window for window in windows if window.measured_s is not None]
    if not known:
        why = next((window.note for window in windows if window.note), "")
        return f"{numbers.plural(len(windows), 'device window')} measured nothing{f': {why}' if why else ''}."
    measured_s = sum(window.measured_s or 0.0 for window in known)
    busy = numbers.share(sum(window.busy_s or 0.0 for window in known), measured_s)
    text = f"Measured for {numbers.duration(measured_s)} in {_steps(known)}: the device was busy {busy} of it"
    if error is not None:
        inferred = numbers.share(sum(window.inferred_busy_s or 0.0 for window in known), measured_s, inferred=True)
        allowed = ", which is allowed for outside of windows" if corrected else ""
        text = f"{text}; dispatch and ready times say {inferred}, {error:.1f} points off{allowed}"
    text = f"{text}."
    first = next((line for line in lines if line.site is not None), None)
    if first is None:
        return text
    part = f"comes from {numbers.where(first.site, None)}: {numbers.share(first.share, 1)}."
    if lines[0] is first:
        return f"{text} The largest part of device time {part}"
    names = "".join(f" ({name}{', …' if len(lines[0].operations) > 1 else ''})" for name in lines[0].operations[:1])
    unknown = f"{numbers.share(lines[0].share, 1)} of device time has no line{names}"
    return f"{text} {unknown}; the largest part of the rest {part}"


def _steps(windows: list[DeviceWindow]) -> str:
    if len(windows) > _NAMED_WINDOWS:
        return f"{numbers.count(len(windows))} device windows"
    ranges = [
        numbers.count(w.first_step)
        if w.first_step == w.last_step
        else f"{numbers.count(w.first_step)} to {numbers.count(w.last_step)}"
        for w in windows
    ]
    return f"steps {numbers.listed(ranges)}"
