"""Gives each execution its sample of dispatch and ready time, which arrives later and carries no name.

Owns the pairing. Executions are dispatched in order, so the n-th execution owns the n-th sample by start; the bounds
of the hook it ran in correct that when a sample is missing or belongs to nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from xla_insight.facts.events import CacheOutcome, Event, Kind, Trigger

SLACK_NS = 1_000_000
"""Tolerance between the two clocks and for the order of code around a sample."""


class Span(NamedTuple):
    """A measured time: start and duration, monotonic ns."""

    start_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        """First instant after it."""
        return self.start_ns + self.duration_ns


@dataclass(slots=True)
class Cut:
    """An execution that waits for its sample; dispatched after ``low_ns``, at the latest in the next one's hook."""

    graph: str | None
    trigger: Trigger
    site: int | None
    outcome: CacheOutcome | None
    cut_ns: int | None
    low_ns: int
    high_ns: int
    forced: bool
    thread: int


class Pairing:
    """Two queues, ``cuts`` and ``samples``, each in order; pairs leave as events handed to ``emit``."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.cuts: deque[Cut] = deque()
        self.samples: deque[Span] = deque()
        self.default_trigger = Trigger.UNKNOWN
        self._emit = emit

    def pair(self, final: bool = False) -> None:
        """Give waiting executions their samples. ``final``: no more will come, so a surplus of executions has none."""
        while self.samples and self.cuts:
            sample, cut = self.samples[0], self.cuts[0]
            if sample.start_ns < cut.low_ns - SLACK_NS:
                self.samples.popleft()
                self._emit_execution(None, sample)
            elif self._has_no_sample(cut, sample, final):
                self.cuts.popleft()
                self._emit_execution(cut, None)
            else:
                self.samples.popleft()
                self.cuts.popleft()
                self._emit_execution(cut, sample)

    def _has_no_sample(self, cut: Cut, sample: Span, final: bool) -> bool:
        # A dispatch may be late, but it comes before the hook of the next execution is over.
        if len(self.cuts) > 1 and sample.start_ns > self.cuts[1].high_ns + SLACK_NS:
            return True
        return final and len(self.cuts) > len(self.samples) and sample.start_ns > cut.high_ns + SLACK_NS

    def finish(self) -> None:
        """No more samples come: what waits is emitted without its other half."""
        self.pair(final=True)
        for sample in self.samples:
            self._emit_execution(None, sample)
        for cut in self.cuts:
            self._emit_execution(cut, None)
        self.samples.clear()
        self.cuts.clear()

    def _emit_execution(self, cut: Cut | None, sample: Span | None) -> None:
        start_ns = sample.start_ns if sample else (cut.low_ns if cut else 0)
        cut_ns = cut.cut_ns if cut else None
        if cut is not None and cut.forced:
            cut_ns = start_ns if cut_ns is None else cut_ns
            if cut.trigger is not Trigger.EAGER:  # an operation run alone is no cut of a lazy graph
                self._emit_forced(cut, cut_ns)
        self._emit(
            Event(
                start_ns,
                sample.duration_ns if sample else None,
                Kind.EXECUTION,
                graph=cut.graph if cut else None,
                site=cut.site if cut else None,
                name=cut.trigger if cut else self.default_trigger,
                dims=None if cut_ns is None else (cut_ns,),
                detail=cut.outcome if cut else None,
            )
        )

    def _emit_forced(self, cut: Cut, when_ns: int) -> None:
        compiled = int(cut.outcome is CacheOutcome.COMPILE)
        self._emit(
            Event(
                when_ns, None, Kind.SYNC, thread=cut.thread, graph=cut.graph, site=cut.site, name=cut.trigger,
                value=1.0, dims=(compiled,),
            )
        )  # fmt: skip
