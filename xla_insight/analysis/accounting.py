"""Where the time went: each instant of the training thread is in one host state, each of the device busy or idle.

Owns the order of states, the rule for waits that no span shows, and the clipping of executions. Input are the spans of
one process; the sums are exact integers. Leaves reading of tables to ``spans`` and steps to ``step_table``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xla_insight.analysis.intervals import NO_SPANS, Axis, Mask, Nanoseconds, Spans, index_inside, joined, union
from xla_insight.facts.report import HostState

STATES = tuple(HostState)
CALLBACK_SLACK_NS = 1_000_000
"""How late a device's "ready" may be reported and still count as what the host was blocked on."""


@dataclass(frozen=True, slots=True)
class ThreadSpans:
    """What is known of one process: spans of its training thread by what they are, and the executions of its device."""

    compile: Spans = NO_SPANS
    device_wait: Spans = NO_SPANS
    input_wait: Spans = NO_SPANS
    transfer: Spans = NO_SPANS
    """Moves to the device, and other transfers that never wait for it."""
    read_transfer: Spans = NO_SPANS
    """Moves from the device: they wait while it is busy, and move after that."""
    plain_reads: Spans = NO_SPANS
    """Value reads that ran no graph: they wait while the device is busy, and move the value after that."""
    checkpoint: Spans = NO_SPANS
    gc: Spans = NO_SPANS
    outside: Spans = NO_SPANS
    cuts: Spans = NO_SPANS
    """Syncs and reads, in which an execution may block the thread."""
    executions: Spans = NO_SPANS
    """From dispatch to ready; empty when the device was not observed."""
    measured: Spans = NO_SPANS
    """Stretches (a `union`) in which the device was measured: there ``busy`` counts, and not the executions."""
    busy: Spans = NO_SPANS
    """When it was busy in them."""

    def all(self) -> tuple[Spans, ...]:
        """Every set whose edges matter to the account."""
        return (
            self.compile,
            self.device_wait,
            self.input_wait,
            self.transfer,
            self.read_transfer,
            self.plain_reads,
            self.checkpoint,
            self.gc,
            self.outside,
            self.executions,
            self.measured,
            self.busy,
        )


@dataclass(frozen=True, slots=True)
class Account:
    """Nanoseconds per window. ``host`` and ``idle`` have one column a state, in the order of `STATES`.

    Rows of ``host`` sum to the window's duration; ``busy`` plus the row of ``idle`` does too. ``busy`` and ``idle`` are
    None when no execution was observed.
    """

    host: NDArray[np.int64]
    busy: NDArray[np.int64] | None
    idle: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True)
class Segments:
    """Time cut wherever something changes: in each segment the host is in one state and the device busy or idle.

    Segments follow each other without gaps. ``states`` index `STATES`; ``busy`` is None when no execution was observed.
    """

    starts: Nanoseconds
    lengths: Nanoseconds
    states: NDArray[np.int8]
    busy: Mask | None


def segments(windows: Spans, spans: ThreadSpans) -> Segments:
    """Cut the time from the first to the last of ``windows`` (at least one) also at their edges."""
    blocked = blocked_in_cuts(spans.cuts, spans.executions)
    edges = [edge for part in (windows, blocked, *spans.all()) for edge in part]
    axis = Axis(int(windows.starts.min()), int(windows.ends.max()), edges)
    busy = axis.covered(spans.executions)
    if len(spans.measured.starts):
        busy = np.where(axis.covered(spans.measured), axis.covered(spans.busy), busy)
    states = _states(axis, spans, blocked, busy)
    return Segments(axis.starts, axis.lengths, states, busy if len(spans.executions.starts) else None)


def account(windows: Spans, spans: ThreadSpans) -> Account:
    """Account for every nanosecond of ``windows`` (disjoint, in order of time)."""
    if not len(windows.starts):
        return Account(np.zeros((0, len(STATES)), np.int64), None, None)
    return sums(windows, segments(windows, spans))


def sums(windows: Spans, parts: Segments) -> Account:
    """The account of ``windows`` from segments that were cut at their edges."""
    window = np.searchsorted(windows.starts, parts.starts, side="right") - 1
    inside = (window >= 0) & (parts.starts < windows.ends[window])
    host = _sums(len(windows.starts), window, parts, inside)
    if parts.busy is None:
        return Account(host, None, None)
    idle = _sums(len(windows.starts), window, parts, inside & ~parts.busy)
    return Account(host, host.sum(axis=1) - idle.sum(axis=1), idle)


def blocked_in_cuts(cuts: Spans, executions: Spans) -> Spans:
    """Where a cut blocked the training thread until its own execution was ready, which no span shows.

    A cut that ends about when the execution it dispatched becomes ready was waiting for it (donated buffers, a value
    that is read); one that ends earlier was not. Late callbacks allow 1 ms or 10 % of the execution.
    """
    if not len(cuts.starts) or not len(executions.starts):
        return NO_SPANS
    outer = union(cuts)
    index = index_inside(executions.starts, outer)
    end = outer.ends[np.maximum(index, 0)]
    slack = np.maximum(CALLBACK_SLACK_NS, (executions.ends - executions.starts) // 10)
    blocked = (index >= 0) & (executions.ends <= end + slack)
    return Spans(executions.starts[blocked], np.minimum(executions.ends, end)[blocked])


def clipped_executions(executions: Spans) -> Nanoseconds:
    """Ns of device time of each execution, in the given order: from its dispatch or the previous ready to its ready.

    Executions queue up behind each other; without the clip the time in the queue would count once for each of them.
    """
    order = np.lexsort((executions.ends, executions.starts))
    starts, ends = executions.starts[order], executions.ends[order]
    earlier = np.maximum.accumulate(ends)
    begin = starts.copy()
    begin[1:] = np.maximum(starts[1:], earlier[:-1])
    clipped = np.empty(len(order), np.int64)
    clipped[order] = np.maximum(0, ends - begin)
    return clipped


def _states(axis: Axis, spans: ThreadSpans, blocked: Spans, busy: Mask) -> NDArray[np.int8]:
    reading = axis.covered(joined((spans.read_transfer, spans.plain_reads)))
    layers = {
        HostState.COMPILE: axis.covered(spans.compile),
        HostState.DEVICE_WAIT: axis.covered(joined((spans.device_wait, blocked))) | (reading & busy),
        HostState.INPUT_WAIT: axis.covered(spans.input_wait),
        HostState.TRANSFER: axis.covered(spans.transfer) | reading,
        HostState.CHECKPOINT: axis.covered(spans.checkpoint),
        HostState.GC: axis.covered(spans.gc),
        HostState.TRACE: ~axis.covered(spans.outside),
        HostState.OUTSIDE: np.ones(len(axis.lengths), np.bool_),
    }
    state = np.zeros(len(axis.lengths), np.int8)
    for number, name in reversed(list(enumerate(STATES))):
        state[layers[name]] = number
    return state


def _sums(n_windows: int, window: NDArray[np.int64], parts: Segments, kept: Mask) -> NDArray[np.int64]:
    flat = np.zeros(n_windows * len(STATES), np.int64)
    np.add.at(flat, window[kept] * len(STATES) + parts.states[kept], parts.lengths[kept])
    return flat.reshape(n_windows, len(STATES))
