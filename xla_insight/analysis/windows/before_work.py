"""How long the device goes on idling after a graph was dispatched to it and those before it are done.

Dispatch and ready times do not show it: a graph whose inputs are still being copied to the device counts as running.
Device windows show for each graph how long it really runs; where that is much less than it seems to, its executions
elsewhere are taken to run that long, up to their ready time. Owns that.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import queued
from xla_insight.analysis.intervals import NO_SPANS, Cover, Spans
from xla_insight.analysis.tables import RunTables, spans_of
from xla_insight.analysis.windows.sessions import device_sessions

_LEAST_NS = 1_000_000
_LEAST_SHARE = 0.25
"""What is usual between dispatch and the first operation is below both; more is no accident."""


def not_yet_at_work(tables: RunTables, process: int) -> Spans:
    """From when the device was free for each graph until it began; disjoint, in order of time; empty without windows
    that show it. Remembered with the tables."""
    key = ("not yet at work", process)
    if key not in tables.accounts:
        tables.accounts[key] = _late(tables, process)
    found: Spans = tables.accounts[key]
    return found


def _late(tables: RunTables, process: int) -> Spans:
    sessions = [session for session in device_sessions(tables, process) if len(session.busy.starts)]
    if not sessions:
        return NO_SPANS
    frame = tables.of("executions", process)
    frame = frame[frame["duration_ns"].notna()]
    raw = spans_of(frame)
    order = np.lexsort((raw.ends, raw.starts))
    graph = pd.Categorical(frame["graph"]).codes[order]
    begins, ends = queued(Spans(raw.starts[order], raw.ends[order]))
    ran = np.full(len(begins), -1, np.int64)
    for session in sessions:
        busy = Cover(session.busy)
        # Not from its first to its last operation: what waits at both ends is what this is about.
        mine = np.flatnonzero((begins >= session.begin_ns) & (ends <= session.end_ns) & (graph >= 0))
        ran[mine] = busy.until(ends[mine]) - busy.until(begins[mine])
    known = ran >= 0
    if not known.any():
        return NO_SPANS
    seemed = (ends - begins)[known]
    seen = pd.DataFrame({"graph": graph[known], "ran": ran[known], "seemed": seemed, "late": seemed - ran[known]})
    usual = seen.groupby("graph").median()
    # A graph of which a window shows nothing at all ran where it does not look.
    clear = (usual["late"] > _LEAST_NS) & (usual["late"] > _LEAST_SHARE * usual["seemed"])
    usual = usual[(usual["ran"] > 0) & clear]
    runs = pd.Series(graph).map(usual["ran"]).to_numpy()
    rows = ~np.isnan(runs)
    starts = begins[rows]
    until = np.maximum(starts, ends[rows] - runs[rows].astype(np.int64))
    some = until > starts
    return Spans(starts[some], until[some])
