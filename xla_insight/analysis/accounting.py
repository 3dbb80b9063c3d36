"""Where the time went: each instant of the training thread is in one host state, each of the device busy or idle.

Owns the order of states, the rule for waits that no span shows, and the clipping of executions. Input are the spans of
one process; the sums are exact integers. Leaves reading of tables to ``spans`` and steps to ``step_table``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xla_insight.analysis.intervals import NO_SPANS, Axis, Mask, Nanoseconds, Spans, index_inside, union
from xla_insight.facts.report import HostState

STATES = tuple(HostState)
_EXACT_IN_FLOAT = 1 << 53
"""Sums of whole numbers below this (104 days in ns) are exact in floating point, too, where they are faster."""
_WINDOWS_AT_ONCE = 1 << 15
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
    not_yet_blocked: Spans = NO_SPANS
    """Within them, when it is known not to be blocked yet."""
    executions: Spans = NO_SPANS
    """From dispatch to ready; empty when the device was not observed."""
    measured: Spans = NO_SPANS
    """Stretches (a `union`) in which what the device did is known: there ``busy`` counts, and not the executions."""
    busy: Spans = NO_SPANS
    """When it was busy in them."""


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
    layers = _layers(spans)
    axis = Axis(windows, list(layers.values()))
    numbers = {name: number for number, (name, layer) in enumerate(layers.items()) if any(len(p.starts) for p in layer)}

    def covered(name: str) -> Mask:
        number = numbers.get(name)
        return np.zeros(len(axis.lengths), np.bool_) if number is None else axis.covered(number)

    busy = covered("executions")
    if "measured" in numbers:
        busy = np.where(covered("measured"), covered("busy"), busy)
    states = _states(covered, busy)
    return Segments(axis.starts, axis.lengths, states, busy if len(spans.executions.starts) else None)


def _layers(spans: ThreadSpans) -> dict[str, tuple[Spans, ...]]:
    return {
        HostState.COMPILE: (spans.compile,),
        HostState.DEVICE_WAIT: (spans.device_wait,),
        "blocked": (blocked_in_cuts(spans.cuts, spans.executions),),
        "not yet blocked": (spans.not_yet_blocked,),
        HostState.INPUT_WAIT: (spans.input_wait,),
        HostState.TRANSFER: (spans.transfer,),
        HostState.CHECKPOINT: (spans.checkpoint,),
        HostState.GC: (spans.gc,),
        HostState.OUTSIDE: (spans.outside,),
        "reading": (spans.read_transfer, spans.plain_reads),
        "executions": (spans.executions,),
        "measured": (spans.measured,),
        "busy": (spans.busy,),
    }


def account(windows: Spans, spans: ThreadSpans) -> Account:
    """Account for every nanosecond of ``windows`` (disjoint, in order of time)."""
    if not len(windows.starts):
        return Account(np.zeros((0, len(STATES)), np.int64), None, None)
    return sums(windows, segments(windows, spans))


def sums(windows: Spans, parts: Segments) -> Account:
    """The account of ``windows`` (disjoint, in order of time) from segments that were cut at their edges."""
    return both_sums(windows, parts, None)[0]


def both_sums(windows: Spans, parts: Segments, held: Mask | None) -> tuple[Account, Account]:
    """The account of ``windows``, and the same with ``busy`` where ``held`` says, a part of the busy segments (the
    critical path); equal without it."""
    n_windows, n_states = len(windows.starts), len(STATES)
    edges = np.searchsorted(parts.starts, np.stack(windows, axis=1).ravel())
    # Column by column: states that never occur take no memory.
    host, idle, off_path = (np.zeros((n_windows, n_states), np.int64, order="F") for _ in range(3))
    busy, on_path = np.zeros(n_windows, np.int64), np.zeros(n_windows, np.int64)
    # A part at a time: bincount makes a number for each window and state, in memory several times.
    for first in range(0, n_windows, _WINDOWS_AT_ONCE):
        rows = slice(first, first + _WINDOWS_AT_ONCE)
        found = _window_sums(edges[2 * rows.start : 2 * rows.stop], parts, held)
        for state in np.flatnonzero(found.any(axis=(0, 1))):
            each = found[:, :, state]
            host[rows, state], idle[rows, state], off_path[rows, state] = (
                each.sum(axis=1),
                each[:, 2],
                each[:, 1:].sum(axis=1),
            )
        busy[rows], on_path[rows] = found[:, :2].sum(axis=(1, 2)), found[:, 0].sum(axis=1)
    if parts.busy is None:
        return Account(host, None, None), Account(host, None, None)
    return Account(host, busy, idle), Account(host, on_path, off_path)


def _window_sums(edges: NDArray[np.int64], parts: Segments, held: Mask | None) -> NDArray[np.int64]:
    """Per window and state: ns on the path, busy beside it, idle. ``edges``: first and last segment of each window."""
    n_windows, n_states = len(edges) // 2, len(STATES)
    inside = slice(int(edges[0]), int(edges[-1]))
    cell, lengths = parts.states[inside].astype(np.int64), parts.lengths[inside]
    if parts.busy is not None:
        idle = ~parts.busy[inside]
        layer = idle.astype(np.int8)
        layer += idle if held is None else ~held[inside]
        cell += layer * np.int64(n_states)
    if n_windows > 1:
        counts = np.diff(edges)
        cell += np.repeat(np.arange(len(counts)) // 2 * (3 * n_states), counts)
        if counts[1::2].any():  # what lies between two windows belongs to neither
            mine = np.repeat(np.arange(len(counts)) % 2 == 0, counts)
            cell, lengths = cell[mine], lengths[mine]
    return cell_sums(cell, lengths, 3 * n_windows * n_states).reshape(n_windows, 3, n_states)


def blocked_in_cuts(cuts: Spans, executions: Spans) -> Spans:
    """Where a cut blocked the training thread until its own execution was ready, which no span shows.

    A cut that ends about when the execution it dispatched becomes ready was waiting for it (donated buffers, a value
    that is read); one that ends earlier was not. Late callbacks allow 1 ms or 10 % of the execution.
    """
    if not len(cuts.starts) or not len(executions.starts):
        return NO_SPANS
    held, ends = held_by_cuts(cuts, executions)
    return Spans(executions.starts[held], ends[held])


def held_by_cuts(cuts: Spans, executions: Spans) -> tuple[Mask, Nanoseconds]:
    """Which executions (at least one) block the cut (there is one) that dispatched them, and until when."""
    outer = union(cuts)
    index = index_inside(executions.starts, outer)
    end = outer.ends[np.maximum(index, 0)]
    slack = np.maximum(CALLBACK_SLACK_NS, (executions.ends - executions.starts) // 10)
    held: Mask = (index >= 0) & (executions.ends <= end + slack)
    return held, np.minimum(executions.ends, end)


def clipped_executions(executions: Spans) -> Nanoseconds:
    """Ns of device time of each execution, in the given order: from its dispatch or the previous ready to its ready.

    Executions queue up behind each other; without the clip the time in the queue would count once for each of them.
    """
    order = np.lexsort((executions.ends, executions.starts))
    begins, ends = queued(Spans(executions.starts[order], executions.ends[order]))
    clipped = np.empty(len(order), np.int64)
    clipped[order] = ends - begins
    return clipped


def queued(executions: Spans) -> tuple[Nanoseconds, Nanoseconds]:
    """From when the device could begin each execution until it was ready; they are given in order of dispatch."""
    ready = np.maximum.accumulate(executions.ends)
    begins = np.maximum(executions.starts, np.append(executions.starts[:1], ready[:-1]))
    return begins, np.maximum(begins, executions.ends)


def _states(covered: Callable[[str], Mask], busy: Mask) -> NDArray[np.int8]:
    reading = covered("reading")
    tracing = ~covered(HostState.OUTSIDE)
    state = np.full(len(busy), STATES.index(HostState.OUTSIDE), np.int8)
    for number, name in reversed(list(enumerate(STATES[:-1]))):
        mine = tracing if name is HostState.TRACE else covered(name)
        if name is HostState.DEVICE_WAIT:
            mine |= (reading & busy) | (covered("blocked") & ~covered("not yet blocked"))
        elif name is HostState.TRANSFER:
            mine |= reading
        state[mine] = number
    return state


def cell_sums(cell: NDArray[np.signedinteger[Any]], lengths: Nanoseconds, n_cells: int) -> NDArray[np.int64]:
    """The sum of the lengths in each cell, exact."""
    if int(lengths.sum()) < _EXACT_IN_FLOAT:
        return np.bincount(cell, weights=lengths, minlength=n_cells).astype(np.int64)
    found = np.zeros(n_cells, np.int64)
    np.add.at(found, cell, lengths)
    return found
