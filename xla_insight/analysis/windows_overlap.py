"""How far the inferred overlap is from the one that device windows show: both over the same measured time.

Owns the comparison. In a window the profiler says when the training thread was blocked and when the device was at work;
elsewhere both are inferred from dispatch and ready times. Leaves the busy share to ``windows``.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from xla_insight.analysis.accounting import STATES, Account, ThreadSpans, account
from xla_insight.analysis.intervals import NO_SPANS, Spans, joined
from xla_insight.analysis.spans import thread_spans
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.time_account import overlap_pct
from xla_insight.analysis.windows import DeviceSession, device_sessions, measured_time
from xla_insight.facts import numbers
from xla_insight.facts.report import MeasuredTime


def measured_facts(tables: RunTables, process: Process) -> MeasuredTime | None:
    """What the windows of a process measured, with both overlaps in percent where there is enough host work to hide;
    None without windows. Remembered with the tables."""
    key = ("measured with overlap", process.index)
    if key not in tables.accounts:
        tables.accounts[key] = _with_overlap(tables, process)
    found: MeasuredTime | None = tables.accounts[key]
    return found


def _with_overlap(tables: RunTables, process: Process) -> MeasuredTime | None:
    found = measured_time(tables, process)
    sessions = [one for one in device_sessions(tables, process.index) if one.measured and one.waits is not None]
    if found is None or not sessions:
        return found
    spans = thread_spans(tables, process.index)
    pairs = [_both(session, spans) for session in sessions]
    measured, inferred = (_total([pair[side] for pair in pairs]) for side in (0, 1))
    wall_ns = int(measured.host.sum())
    exact, said = overlap_pct(measured, 0, wall_ns), overlap_pct(inferred, 0, wall_ns)
    if exact is None or said is None:
        return found
    told = abs(said - exact) >= 1 and len(spans.not_yet_blocked.starts)
    corrected = ", which is allowed for outside of windows" if told else ""
    shown, guessed = numbers.percent(exact), numbers.percent(said, inferred=True)
    return replace(
        found,
        overlap_pct=exact,
        inferred_overlap_pct=said,
        overlap_error_points=abs(said - exact),
        summary=f"{found.summary} Of the host's own work {shown} was hidden behind the device;"
        f" inferred, {guessed} is, {abs(said - exact):.1f} points off{corrected}.",
    )


def _both(session: DeviceSession, spans: ThreadSpans) -> tuple[Account, Account]:
    """The account of a session's measured time by what it shows, and by what is inferred where there is none."""
    assert session.measured is not None and session.waits is not None
    stretch = Spans.of([session.measured])
    near = ThreadSpans(**{each.name: _near(getattr(spans, each.name), stretch) for each in fields(ThreadSpans)})
    shown = replace(
        near,
        device_wait=joined((near.device_wait, session.waits)),
        read_transfer=joined((near.read_transfer, session.reads)),
        cuts=NO_SPANS,  # where a cut blocked the thread is shown by its waits
        measured=stretch,
        busy=session.busy,
    )
    inferred = replace(near, measured=NO_SPANS, busy=NO_SPANS, not_yet_blocked=NO_SPANS)
    return account(stretch, shown), account(stretch, inferred)


def _near(spans: Spans, stretch: Spans) -> Spans:
    touches = (spans.starts < stretch.ends[0]) & (spans.ends > stretch.starts[0])
    return Spans(spans.starts[touches], spans.ends[touches])


def _total(accounts: list[Account]) -> Account:
    """One row over all windows; idle unknown where it is unknown in any."""
    host = np.concatenate([one.host for one in accounts]).sum(axis=0, keepdims=True)
    idle = [one.idle for one in accounts if one.idle is not None]
    if len(idle) < len(accounts):
        return Account(host, None, None)
    summed = np.concatenate(idle).reshape(-1, len(STATES)).sum(axis=0, keepdims=True)
    return Account(host, host.sum(axis=1) - summed.sum(axis=1), summed)
