"""How long a cut goes on working after it dispatched its graph, before it blocks the training thread.

Dispatch and ready times do not show it: outside of windows the whole time until ready would count as waiting, and host
work that was hidden behind the device as none. Device windows show for each graph when its cut was blocked; what is
usual there is taken for its cuts elsewhere. Owns that. Leaves which cuts block to ``accounting``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import held_by_cuts
from xla_insight.analysis.intervals import NO_SPANS, Nanoseconds, Spans, joined, union
from xla_insight.analysis.tables import RunTables, spans_of
from xla_insight.analysis.windows.sessions import device_sessions


def not_yet_blocked(tables: RunTables, process: int, cuts: Spans) -> Spans:
    """From the dispatch of each graph that blocks its cut until it does; empty without windows that show it."""
    sessions = [each for each in device_sessions(tables, process) if each.measured and each.waits is not None]
    if not sessions or not len(cuts.starts):
        return NO_SPANS
    frame = tables.of("executions", process)
    frame = frame[frame["duration_ns"].notna() & frame["graph"].notna()]
    executions = spans_of(frame)
    held, ends = held_by_cuts(cuts, executions)
    graph = pd.Categorical(frame["graph"]).codes
    shown = np.full(len(held), -1, np.int64)
    for session in sessions:
        assert session.measured is not None and session.waits is not None
        begin, end = session.measured
        mine = np.flatnonzero(held & (executions.starts >= begin) & (executions.ends <= end))
        blocked = union(joined((session.waits, session.reads)))
        shown[mine] = _until_blocked(executions.starts[mine], ends[mine], blocked)
    known = shown >= 0
    if not known.any():
        return NO_SPANS
    usual = pd.Series(shown[known]).groupby(graph[known]).median()
    lead = pd.Series(graph).map(usual).fillna(0).to_numpy().astype(np.int64)
    lead[known] = shown[known]
    rows = held & (lead > 0)
    return Spans(executions.starts[rows], np.minimum(executions.starts + lead, ends)[rows])


def _until_blocked(dispatched: Nanoseconds, ready: Nanoseconds, blocked: Spans) -> Nanoseconds:
    """Ns from each dispatch to the first instant at which the thread was blocked; until ready where it never was."""
    if not len(blocked.starts):
        return ready - dispatched
    next_one = np.searchsorted(blocked.ends, dispatched, side="right")
    begins = np.append(blocked.starts, np.iinfo(np.int64).max)[next_one]
    found: Nanoseconds = np.clip(begins, dispatched, ready) - dispatched
    return found
