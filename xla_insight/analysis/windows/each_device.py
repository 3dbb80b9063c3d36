"""When each single device of a process ran a program, in a device window of a process that has several (SPMD).

XLA:CPU writes no device into its spans. But an execution gives the program to one thread for each device, in the order
of the devices, and the session says which thread took which piece of work. Owns that conclusion. An execution whose
pieces were not all seen counts for no device.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from xla_insight.facts.xspace import Handoff, Space, Span

_EXECUTE, _BEGIN = "PjRtCpuExecutable::Execute", "PjRtCpuExecutable::ExecuteHelper"
"""Of the thread that executes for all devices, and of a thread that runs the program of one."""
_RUN = "ThunkExecutor::Execute"
"""Begins the names of the spans in which such a thread runs the program, or waits for the threads that help it."""

Stretch = tuple[int, int]


def device_runs(space: Space, handoffs: Sequence[Handoff], devices: int) -> tuple[tuple[Stretch, ...], ...]:
    """For each device the (begin, end) of every program that it ran, in ns since the session started.

    Empty where the session does not tell devices apart.
    """
    work = _Work(space, handoffs)
    runs: list[list[Stretch]] = [[] for _ in range(devices)]
    for giver, thread in enumerate(space.threads):
        for span in thread.spans:
            if span.name != _EXECUTE:
                continue
            pieces = work.given(giver, span)
            found = [work.run(piece) for piece in pieces] if len(pieces) == devices else []
            whole = [run for run in found if run is not None]
            if found and len(whole) == devices:
                for device, run in enumerate(whole):
                    runs[device].append(run)
    return tuple(map(tuple, runs)) if all(runs) else ()


class _Work:
    """Which piece of work became which spans."""

    def __init__(self, space: Space, handoffs: Sequence[Handoff]) -> None:
        self._spans = [sorted(thread.spans, key=lambda span: span.start_ns) for thread in space.threads]
        self._starts = [[span.start_ns for span in spans] for spans in self._spans]
        self._given: list[list[Handoff]] = [[] for _ in space.threads]
        self._taken: list[list[int]] = [[] for _ in space.threads]
        for one in handoffs:
            self._given[one.giver].append(one)
            self._taken[one.taker].append(one.taken_ns)
        for taken in self._taken:
            taken.sort()

    def given(self, thread: int, span: Span) -> list[Handoff]:
        """What a thread gave away during a span, in order."""
        return [one for one in self._given[thread] if span.start_ns <= one.given_ns <= span.end_ns]

    def run(self, piece: Handoff) -> Stretch | None:
        """The program of one device: begun by the thread that took the piece, which leaves running it for later, to
        itself or another."""
        begin = next((span for span in self._spans_of(piece) if span.name == _BEGIN), None)
        if begin is None:
            return None
        left = [piece, *self.given(piece.taker, begin)]
        ends = [span.end_ns for one in left for span in self._spans_of(one) if span.name.startswith(_RUN)]
        return (begin.start_ns, max(ends)) if ends else None

    def _spans_of(self, piece: Handoff) -> list[Span]:
        """What a thread did from the moment it took a piece of work until it took the next."""
        taken, starts = self._taken[piece.taker], self._starts[piece.taker]
        following = bisect_right(taken, piece.taken_ns)
        until = bisect_left(starts, taken[following]) if following < len(taken) else len(starts)
        return self._spans[piece.taker][bisect_left(starts, piece.taken_ns) : until]
