"""The account of one process, worked out once: over all its work, over each of its steps, and the gaps of its device.

Owns which stretch of time counts as work. Everything that is said about time starts here; leaves the rules to
``accounting`` and ``idle``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xla_insight.analysis.accounting import STATES, Account, Segments, both_sums, segments
from xla_insight.analysis.critical_path import on_device
from xla_insight.analysis.idle import NO_GAPS, Gaps, idle_gaps
from xla_insight.analysis.intervals import NO_SPANS, Nanoseconds, Spans, joined
from xla_insight.analysis.spans import activity, thread_spans
from xla_insight.analysis.tables import RunTables, integers
from xla_insight.facts.report import HostState

HIDEABLE = (HostState.TRACE, HostState.INPUT_WAIT)
"""Host work that can go on while the device is busy."""
OVERLAP_FROM_SHARE = 0.05
"""Overlap is the share of hideable work done while the device was busy; below this share of wall it is noise."""


@dataclass(frozen=True, slots=True)
class ProcessAccount:
    """``work`` is from the first to the last tensor work (None: there was none), ``whole`` its account; ``steps`` has a
    row a step, in the order of the table ``steps``. ``gaps`` are those within ``work``. ``path`` and ``step_paths`` are
    the same for the critical path: ``busy`` is the device's part of it, ``idle`` the host's."""

    work: tuple[int, int] | None
    whole: Account
    steps: Account
    gaps: Gaps
    path: Account
    step_paths: Account
    samples: NDArray[np.int8]
    """The host state at each row of the table ``samples``, a place in `STATES`; `NO_STATE` outside of all work."""


NO_STATE = -1
NOTHING = Account(np.zeros((0, len(STATES)), np.int64), None, None)


def process_account(tables: RunTables, process: int) -> ProcessAccount:
    """The account of a process; remembered with the tables."""
    key = ("account", process)
    if key not in tables.accounts:
        tables.accounts[key] = _build(tables, process)
    found: ProcessAccount = tables.accounts[key]
    return found


def process_segments(tables: RunTables, process: int) -> Segments | None:
    """The time of a process's steps and work, cut wherever something changes; None when it did nothing."""
    windows = joined((step_windows(tables, process), _work(activity(tables, process))))
    return segments(windows, thread_spans(tables, process)) if len(windows.starts) else None


def step_windows(tables: RunTables, process: int) -> Spans:
    """When the steps of a process begin and end."""
    steps = tables.of("steps", process)
    return Spans(integers(steps["start_ns"]), integers(steps["end_ns"]))


def overlap_pct(result: Account, row: int, wall_ns: int) -> float | None:
    """Percent of the hideable host work that ran while the device was busy; None when there is too little of it."""
    if result.idle is None:
        return None
    columns = [STATES.index(state) for state in HIDEABLE]
    work = int(result.host[row, columns].sum())
    if work < OVERLAP_FROM_SHARE * wall_ns or not work:
        return None
    return 100 * (work - int(result.idle[row, columns].sum())) / work


def _build(tables: RunTables, process: int) -> ProcessAccount:
    work, steps = activity(tables, process), step_windows(tables, process)
    windows = joined((steps, _work(work)))
    times = integers(tables.of("samples", process)["time_ns"])
    if not len(windows.starts):
        samples = np.full(len(times), NO_STATE, np.int8)
        return ProcessAccount(None, NOTHING, NOTHING, NO_GAPS, NOTHING, NOTHING, samples)
    parts = segments(windows, thread_spans(tables, process))
    samples = _states_at(parts, times)
    nothing = (NOTHING, NOTHING)
    held = on_device(parts)
    by_step, step_paths = both_sums(steps, parts, held) if len(steps.starts) else nothing
    if work is None:
        return ProcessAccount(None, NOTHING, by_step, NO_GAPS, NOTHING, step_paths, samples)
    begin, end = np.searchsorted(parts.starts, work)
    inside = slice(int(begin), int(end))
    busy = None if parts.busy is None else parts.busy[inside]
    working = Segments(parts.starts[inside], parts.lengths[inside], parts.states[inside], busy)
    whole, whole_path = both_sums(_work(work), working, None if held is None else held[inside])
    return ProcessAccount(work, whole, by_step, idle_gaps(working), whole_path, step_paths, samples)


def _states_at(parts: Segments, times: Nanoseconds) -> NDArray[np.int8]:
    row = np.searchsorted(parts.starts, times, side="right") - 1
    inside = (row >= 0) & (times < int(parts.starts[-1]) + int(parts.lengths[-1]))
    return np.where(inside, parts.states[np.maximum(row, 0)], NO_STATE).astype(np.int8)


def _work(work: tuple[int, int] | None) -> Spans:
    return NO_SPANS if work is None else Spans.of([work])
