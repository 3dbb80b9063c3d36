"""From tables to the spans of a process's training thread: which recorded rows belong to it and what they say.

Owns the assignment of samples that carry no thread. A transfer or a wait counts for the training thread only when it
lies inside something that this thread is known to have been doing (a loader thread moves batches too); a compile always
does: it happens where a graph is cut, on this thread or in a backward pass it waits for. Leaves the order of states to
``accounting``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import ThreadSpans
from xla_insight.analysis.intervals import NO_SPANS, Mask, Spans, index_inside, joined, union
from xla_insight.analysis.tables import RunTables, integers, spans_of
from xla_insight.analysis.windows import measured_busy, stops

_HOLDERS = ("sync", "read", "backward")
"""Spans of the training thread inside which transfers and waits without a thread are its own."""


def thread_spans(tables: RunTables, process: int) -> ThreadSpans:
    """The training thread's spans and the device's executions of one process."""
    frame = tables.of("spans", process)
    own = frame[frame["thread"] == 0]
    kind = own["kind"].to_numpy()
    holders = union(spans_of(own[np.isin(kind, _HOLDERS)]))
    unassigned = frame["thread"].isna().to_numpy()
    always = (frame["kind"] == "compile").to_numpy(dtype=np.bool_)
    loose = frame[unassigned & (always | _inside(frame, holders))]
    mine = pd.concat([own, loose]) if len(loose) else own
    by_kind = {str(name): rows for name, rows in mine.groupby("kind", observed=True)}
    transfers = by_kind.get("transfer", mine.iloc[:0])
    from_device = (transfers["name"] == "from_device").to_numpy(dtype=np.bool_)
    measured, busy = measured_busy(tables, process)
    return ThreadSpans(
        compile=_of(by_kind, "compile"),
        device_wait=_of(by_kind, "device_wait"),
        input_wait=_of(by_kind, "input_wait"),
        transfer=spans_of(transfers[~from_device]),
        read_transfer=spans_of(transfers[from_device]),
        plain_reads=_plain_reads(tables, process),
        checkpoint=_of(by_kind, "checkpoint"),
        gc=_of(by_kind, "gc"),
        cuts=joined((_of(by_kind, "sync"), _of(by_kind, "read"))),
        outside=stops(tables, process),
        executions=spans_of(tables.of("executions", process)),
        measured=measured,
        busy=busy,
    )


def _plain_reads(tables: RunTables, process: int) -> Spans:
    reads = tables.of("reads", process)
    own = (reads["thread"] == 0).to_numpy(dtype=np.bool_) & (reads["executions"] == 0).to_numpy(dtype=np.bool_)
    return spans_of(reads[own])


def activity(tables: RunTables, process: int) -> tuple[int, int] | None:
    """From the first to the last sign of tensor work of a process, in ns; None when there is none.

    What a script does before it (imports, reading data) is not part of its training and has no state of its own.
    """
    frame = tables.of("spans", process)
    spans = spans_of(frame[(frame["kind"] != "gc").to_numpy(dtype=np.bool_)])
    executions = tables.of("executions", process)
    inputs = tables.of("inputs", process)
    starts = np.concatenate([spans.starts, integers(executions["time_ns"]), integers(inputs["first_ns"])])
    if not len(starts):
        return None
    ends = np.concatenate([spans.ends, spans_of(executions).ends, integers(inputs["last_ns"]), starts])
    return int(starts.min()), int(ends.max())


def _of(by_kind: dict[str, pd.DataFrame], kind: str) -> Spans:
    return spans_of(by_kind[kind]) if kind in by_kind else NO_SPANS


def _inside(frame: pd.DataFrame, holders: Spans) -> Mask:
    """Whether the middle of each row lies in a holder: samples and hooks are aligned to a few microseconds only."""
    middle = integers(frame["time_ns"]) + integers(frame["duration_ns"]) // 2
    inside: Mask = index_inside(middle, holders) >= 0
    return inside
