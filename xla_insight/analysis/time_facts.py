"""Where the wall time of a run went: the account of its main process over the time in which it did tensor work."""

from __future__ import annotations

from xla_insight.analysis.host_lines import host_lines
from xla_insight.analysis.idle_causes import worst_gaps
from xla_insight.analysis.periods import epochs, path_seconds, rank_periods, seconds, warm_up_and_steady
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.time_account import overlap_pct, process_account
from xla_insight.analysis.windows_overlap import measured_facts
from xla_insight.facts.report import Quality, TimeFacts

LISTED_GAPS = 10


def time_facts(tables: RunTables, process: Process | None) -> TimeFacts:
    """The account from the first to the last tensor work of ``process``, in seconds. No work: all zero or None."""
    if process is None:
        return TimeFacts(0.0, {}, None, {}, None, Quality.MEASURED)
    found = process_account(tables, process.index)
    if found.work is None:
        return TimeFacts(0.0, {}, None, {}, None, Quality.MEASURED)
    begin_ns, end_ns = found.work
    whole = found.whole
    busy_s = None if whole.busy is None else int(whole.busy[0]) / 1e9
    warm_up, steady = warm_up_and_steady(tables, process)
    return TimeFacts(
        wall_s=(end_ns - begin_ns) / 1e9,
        host=seconds(whole.host[0]),
        device_busy_s=busy_s,
        device_idle_by_host_state={} if whole.idle is None else seconds(whole.idle[0]),
        overlap_pct=overlap_pct(whole, 0, end_ns - begin_ns),
        critical_path=path_seconds(found.path, 0),
        quality=Quality.MEASURED if busy_s is None else Quality.INFERRED,
        setup_s=max(0, begin_ns - process.start_ns) / 1e9,
        warm_up=warm_up,
        steady=steady,
        ranks=rank_periods(tables),
        epochs=epochs(tables, process),
        worst_gaps=worst_gaps(tables, process.index, LISTED_GAPS),
        host_lines=host_lines(tables, process, steady),
        measured=measured_facts(tables, process),
    )
