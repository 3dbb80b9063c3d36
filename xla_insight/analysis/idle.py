"""Why the device had nothing to run: each idle gap with what the host did in it, what emptied the device, and where.

Owns the gaps and their causes, as pure functions over segments and the training thread's spans. A gap has two answers:
the *cause* is the host state that takes most of it; what *opened* it is the cut that the training thread was blocked in
when the device ran out of work (a value read, a sync): had it not waited there, the next graph would have been queued.
Leaves segments to ``accounting`` and sentences about a whole run to findings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.analysis.accounting import CALLBACK_SLACK_NS, STATES, Segments, cell_sums
from xla_insight.analysis.intervals import Nanoseconds
from xla_insight.facts.report import HostState

NOT_OPENED = -1
OPENING_KINDS = ("read", "sync")
"""What may block the training thread until the device is done."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Stretches in which the device had nothing to run, in order of time. ``by_state`` has a column for each `STATES`.

    Rows of ``by_state`` sum to ``ends - starts``.
    """

    starts: Nanoseconds
    ends: Nanoseconds
    by_state: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Nanoseconds:
        """Ns of each gap."""
        lengths: Nanoseconds = self.ends - self.starts
        return lengths

    @property
    def causes(self) -> NDArray[np.int64]:
        """For each gap the index in `STATES` of the state that takes most of it; of equals the first."""
        causes: NDArray[np.int64] = self.by_state.argmax(axis=1)
        return causes

    def of(self, index: int) -> dict[HostState, int]:
        """Ns of each state of one gap, most first; states that do not occur are left out."""
        found = {state: int(ns) for state, ns in zip(STATES, self.by_state[index], strict=True) if ns}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def at(self, time_ns: int) -> int | None:
        """The gap that holds an instant, or None."""
        index = int(np.searchsorted(self.starts, time_ns, side="right")) - 1
        return index if index >= 0 and time_ns < self.ends[index] else None

    def longest_within(self, begin_ns: int, end_ns: int) -> int | None:
        """The longest of the gaps that share an instant with a stretch of time, or None."""
        inside = self.within(begin_ns, end_ns)
        return None if inside.start >= inside.stop else inside.start + int(np.argmax(self.lengths[inside]))

    def within(self, begin_ns: int, end_ns: int) -> slice:
        """The gaps that share an instant with a stretch of time."""
        first = int(np.searchsorted(self.ends, begin_ns, side="right"))
        return slice(first, max(first, int(np.searchsorted(self.starts, end_ns, side="left"))))


def longest(gaps: Gaps, count: int, stretch: tuple[int, int] | None = None) -> list[int]:
    """Numbers of the longest gaps, longest first; of equals the first. Of a stretch of time: those that share an
    instant with it, by the part that lies in it."""
    inside, lengths = slice(0, None), gaps.lengths
    if stretch is not None:
        inside = gaps.within(*stretch)
        lengths = np.minimum(gaps.ends[inside], stretch[1]) - np.maximum(gaps.starts[inside], stretch[0])
    near = np.arange(len(lengths))
    if len(lengths) > count:  # to sort all of them for a few takes longest
        near = np.flatnonzero(lengths >= np.partition(lengths, len(lengths) - count)[len(lengths) - count])
    order = near[np.argsort(-lengths[near], kind="stable")[:count]]
    return [inside.start + int(index) for index in order]


NO_GAPS = Gaps(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, len(STATES)), np.int64))


def idle_gaps(parts: Segments) -> Gaps:
    """The gaps of a stretch of time; none when no execution was observed."""
    if parts.busy is None or not len(parts.starts):
        return NO_GAPS
    idle = ~parts.busy
    begins = np.flatnonzero(idle & np.append(True, parts.busy[:-1]))
    lasts = np.flatnonzero(idle & np.append(parts.busy[1:], True))
    number = np.repeat(np.arange(len(begins), dtype=np.int32), lasts - begins + 1)
    states, lengths = parts.states[idle], parts.lengths[idle]
    # Column by column: states that never occur take no memory.
    by_state = np.zeros((len(begins), len(STATES)), np.int64, order="F")
    for state in np.unique(states):
        mine = states == state
        by_state[:, state] = cell_sums(number[mine], lengths[mine], len(begins))
    ends = parts.starts[lasts] + parts.lengths[lasts]
    return Gaps(parts.starts[begins], ends, by_state)


def opened_by(gaps: Gaps, cuts: pd.DataFrame) -> NDArray[np.int64]:
    """For each gap the position in ``cuts`` of what opened it, `NOT_OPENED` where nothing blocked the thread then.

    ``cuts``: the training thread's syncs and reads in order of time. A cut opened a gap when the gap begins inside it,
    or at most a late callback after it, and the cut began while the device was still at work.
    """
    found = np.full(len(gaps), NOT_OPENED, np.int64)
    if not len(gaps) or not len(cuts):
        return found
    starts = cuts["time_ns"].to_numpy(dtype=np.int64)
    ends = starts + cuts["duration_ns"].to_numpy(dtype=np.int64)
    index = np.searchsorted(starts, gaps.starts, side="left") - 1
    # The innermost cut begins last. An outer one (a sync that reads) may reach further.
    last = np.maximum(index, 0)
    reach = np.maximum.accumulate(ends)
    holds = (index >= 0) & (ends[last] + CALLBACK_SLACK_NS >= gaps.starts)
    outer = (index >= 0) & ~holds & (reach[last] >= gaps.starts)
    found[holds] = last[holds]
    if outer.any():
        found[outer] = np.searchsorted(reach, reach[last[outer]], side="left")
    return found


def busiest_row(rows: pd.DataFrame, begin_ns: int, end_ns: int) -> int | None:
    """The position of the row that covers most of a stretch of time, or None; the rows have a time and a duration."""
    starts = rows["time_ns"].to_numpy(dtype=np.int64)
    ends = starts + rows["duration_ns"].to_numpy(dtype=np.int64)
    shared = np.minimum(ends, end_ns) - np.maximum(starts, begin_ns)
    return int(shared.argmax()) if len(shared) and shared.max() > 0 else None
