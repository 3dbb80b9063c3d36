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
from xla_insight.analysis.intervals import Mask, Spans, index_inside, joined, union
from xla_insight.analysis.tables import RunTables, integers, spans_of
from xla_insight.analysis.windows import measured_busy, not_yet_at_work, not_yet_blocked, stops

_HOLDERS = ("sync", "read", "backward")
"""Spans of the training thread inside which transfers and waits without a thread are its own."""


def thread_spans(tables: RunTables, process: int) -> ThreadSpans:
    """The training thread's spans and the device's executions of one process."""
    frame = tables.of("spans", process)
    frame = frame if frame["duration_ns"].notna().all() else frame[frame["duration_ns"].notna()]
    rows, kinds = spans_of(frame), _Kinds(frame["kind"])
    thread = frame["thread"].to_numpy(dtype=np.float64, na_value=np.nan)
    mine = thread == 0
    holders = union(_chosen(rows, mine & kinds.among(*_HOLDERS)))
    loose = np.flatnonzero(np.isnan(thread))
    # The middle decides: samples and hooks are aligned to a few microseconds only.
    middle = rows.starts[loose] + (rows.ends[loose] - rows.starts[loose]) // 2
    mine[loose] = kinds.among("compile")[loose] | (index_inside(middle, holders) >= 0)
    transfer = mine & kinds.among("transfer")
    from_device = transfer & (frame["name"] == "from_device").to_numpy(dtype=np.bool_)

    def of(*names: str) -> Spans:
        return _chosen(rows, mine & kinds.among(*names))

    cuts = of("sync", "read")
    measured, busy = measured_busy(tables, process)
    late = not_yet_at_work(tables, process)
    known = union(joined((measured, late))) if len(late.starts) else measured
    return ThreadSpans(
        compile=of("compile"),
        device_wait=of("device_wait"),
        input_wait=of("input_wait"),
        transfer=_chosen(rows, transfer & ~from_device),
        read_transfer=_chosen(rows, from_device),
        plain_reads=_plain_reads(tables, process),
        checkpoint=of("checkpoint"),
        gc=of("gc"),
        cuts=cuts,
        not_yet_blocked=not_yet_blocked(tables, process, cuts),
        outside=stops(tables, process),
        executions=spans_of(tables.of("executions", process)),
        measured=known,
        busy=busy,
    )


class _Kinds:
    """Which rows are of some kinds, without a look at any text."""

    def __init__(self, column: pd.Series[str]) -> None:
        found = column.astype("category") if not isinstance(column.dtype, pd.CategoricalDtype) else column
        self._codes = found.cat.codes.to_numpy()
        self._numbers = {str(word): number for number, word in enumerate(found.cat.categories)}

    def among(self, *names: str) -> Mask:
        found = np.zeros(len(self._codes), np.bool_)
        for number in (self._numbers[name] for name in names if name in self._numbers):
            found |= self._codes == number
        return found


def _chosen(rows: Spans, mask: Mask) -> Spans:
    return Spans(rows.starts[mask], rows.ends[mask])


def _plain_reads(tables: RunTables, process: int) -> Spans:
    reads = tables.of("reads", process)
    own = (reads["thread"] == 0).to_numpy(dtype=np.bool_) & (reads["executions"] == 0).to_numpy(dtype=np.bool_)
    return spans_of(reads[own])


def activity(tables: RunTables, process: int) -> tuple[int, int] | None:
    """From the first to the last sign of tensor work of a process, in ns; None when there is none.

    What a script does before it (imports, reading data) is not part of its training and has no state of its own.
    """
    frame = tables.of("spans", process)
    spans = spans_of(frame)
    kept = ~_Kinds(frame["kind"][frame["duration_ns"].notna()]).among("gc")
    executions, inputs = tables.of("executions", process), tables.of("inputs", process)
    starts = [spans.starts[kept], integers(executions["time_ns"]), integers(inputs["first_ns"])]
    ends = [spans.ends[kept], spans_of(executions).ends, integers(inputs["last_ns"]), *starts]
    if not any(map(len, starts)):
        return None
    return min(int(times.min()) for times in starts if len(times)), max(int(t.max()) for t in ends if len(t))
