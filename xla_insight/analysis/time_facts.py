"""Where the wall time of a run went: the account of its main process over the time in which it did tensor work."""

from __future__ import annotations

from xla_insight.analysis.accounting import STATES, Account, account
from xla_insight.analysis.intervals import Spans
from xla_insight.analysis.spans import activity, thread_spans
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.facts.report import HostState, Quality, TimeFacts

OVERLAP_FROM_SHARE = 0.05
"""Overlap is the share of tracing and input work hidden behind the device; below this share of wall it is noise."""
_HIDEABLE = (HostState.TRACE, HostState.INPUT_WAIT)


def time_facts(tables: RunTables, process: Process | None) -> TimeFacts:
    """The account from the first to the last tensor work of ``process``, in seconds. No work: all zero or None."""
    window = None if process is None else activity(tables, process.index)
    if process is None or window is None:
        return TimeFacts(0.0, {}, None, {}, None, Quality.MEASURED)
    begin_ns, end_ns = window
    result = account(Spans.of([window]), thread_spans(tables, process.index))
    busy_s = None if result.busy is None else int(result.busy[0]) / 1e9
    return TimeFacts(
        wall_s=(end_ns - begin_ns) / 1e9,
        host=_seconds(result.host[0]),
        device_busy_s=busy_s,
        device_idle_by_host_state={} if result.idle is None else _seconds(result.idle[0]),
        overlap_pct=_overlap_pct(result, end_ns - begin_ns),
        quality=Quality.MEASURED if busy_s is None else Quality.INFERRED,
        setup_s=max(0, begin_ns - process.start_ns) / 1e9,
    )


def _seconds(row: object) -> dict[str, float]:
    """State -> seconds. Time outside the framework is only listed where it could be told from tracing."""
    named = zip(STATES, row, strict=True)  # type: ignore[call-overload]
    return {str(state): int(ns) / 1e9 for state, ns in named if ns or state is not HostState.OUTSIDE}


def _overlap_pct(result: Account, wall_ns: int) -> float | None:
    if result.idle is None:
        return None
    columns = [STATES.index(state) for state in _HIDEABLE]
    work = int(result.host[0, columns].sum())
    if work < OVERLAP_FROM_SHARE * wall_ns or not work:
        return None
    return 100 * (work - int(result.idle[0, columns].sum())) / work
