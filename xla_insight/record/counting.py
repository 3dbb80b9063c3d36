"""Counters and metric samples as events: totals as increases, samples as spans on the monotonic clock.

Owns the totals of the recording (the facts of the report) and what was lost from the framework's rings. Works on the
drain thread only; leaves reading counters at the right moment to ``recorder``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from xla_insight.facts.events import Event, Kind
from xla_insight.record.clock import Clock
from xla_insight.record.framework import Framework
from xla_insight.record.pairing import Span
from xla_insight.record.samples import Poller

RING = 1024
"""Samples that the framework keeps of a metric."""


class Polled(NamedTuple):
    """Samples of one poll that ``matching`` joins to graphs."""

    executes: list[Span]
    compiles: list[Span]


class Counting:
    """Turns what the framework counts into events handed to ``emit``."""

    def __init__(self, framework: Framework, clock: Clock, emit: Callable[[Event], None]) -> None:
        self.names: tuple[str, ...] = ()
        self.totals: dict[str, int] = {}
        self._framework = framework
        self._clock = clock
        self._emit = emit
        self._poller = Poller(framework.metric)
        self._values: dict[str, int] = {}
        self._tracing: tuple[int, float] = (0, 0.0)
        self._last_poll_ns = time.perf_counter_ns()
        self._fullest = 0

    def start(self) -> None:
        """Take the present counters and samples as zero."""
        framework = self._framework
        self._poller.start(framework.sample_metrics)
        self.refresh_names()
        self._values = {name: framework.counter(name) or 0 for name in self.names}
        tracing = framework.metric(framework.tracing_metric)
        self._tracing = (tracing[0], tracing[1]) if tracing else (0, 0.0)

    def cleared(self, counters: bool) -> None:
        """The user cleared the counters, or else the metrics: they count from zero now."""
        if counters:
            self._values = {}
        else:
            self._tracing = (0, 0.0)

    def refresh_names(self) -> None:
        """Counters appear as they are first used."""
        ignored = self._framework.ignored_counters
        names = [name for name in self._framework.counter_names() if not name.startswith(ignored)]
        self.names = tuple(sorted({*names, *self._framework.fact_counters}))

    def count(self, now: int, values: dict[str, int | None]) -> None:
        """Emit the increase of each counter since it was last seen."""
        for name, value in values.items():
            new = value or 0
            increase = new - self._values.get(name, 0)
            if increase <= 0:  # less than before: read earlier on another thread, counted already
                continue
            self._values[name] = new
            self._emit(Event(now, None, Kind.COUNTER, name=name, value=float(increase)))
            fact = self._framework.fact_counters.get(name)
            if fact is not None:
                self._fact(now, fact, increase)

    def count_tracing(self, now: int, count: int, total_ns: float) -> None:
        """Emit the time spent in tracing since the last call."""
        old_count, old_total = self._tracing
        if count <= old_count:
            return
        self._tracing = (count, total_ns)
        duration, name = round(total_ns - old_total), self._framework.tracing_metric
        self._emit(Event(now, duration, Kind.COUNTER, name=name, value=float(count - old_count)))

    def _fact(self, now: int, name: str, increase: int) -> None:
        self.totals[name] = self.totals.get(name, 0) + increase
        self._emit(Event(now, None, Kind.COUNTER, name=name, value=float(increase)))

    def poll(self) -> Polled:
        """Read all metrics; emit what stands alone, return what must be joined to graphs."""
        self._fullest = 0
        executes = self._followed("executions", self._framework.execute_metrics)
        compiles = self._followed("compiles", self._framework.compile_metrics)
        self._poll_transfers()
        waits, _ = self._spans(self._framework.wait_metric)
        for span in waits:
            self._emit(Event(span.start_ns, span.duration_ns, Kind.DEVICE_WAIT, name="lock"))
        return Polled(executes, compiles)

    def next_poll_s(self, usual_s: float, least_s: float) -> float:
        """When to poll again so that no ring is more than half full by then."""
        now = time.perf_counter_ns()
        since_s, self._last_poll_ns = (now - self._last_poll_ns) / 1e9, now
        rate = self._fullest / max(since_s, 1e-3)
        return max(least_s, min(usual_s, 0.5 * RING / rate)) if rate else usual_s

    def _followed(self, fact: str, metrics: tuple[str, ...]) -> list[Span]:
        found: list[Span] = []
        total = 0
        for metric in metrics:
            spans, count = self._spans(metric)
            found += spans
            total += count
        if total:
            self._fact(time.perf_counter_ns(), fact, total)
        return found

    def _spans(self, metric: str) -> tuple[list[Span], int]:
        news = self._poller.poll(metric)
        if news.lost:
            now = time.perf_counter_ns()
            self._emit(Event(now, None, Kind.LOST, name="samples", value=float(news.lost), detail=metric))
        self._fullest = max(self._fullest, news.total)
        to_mono = self._clock.to_mono_ns
        return [Span(to_mono(s.wall_end_ns) - s.value, s.value) for s in news.samples], news.total

    def _poll_transfers(self) -> None:
        for direction, metric in self._framework.transfer_metrics.items():
            spans, count = self._spans(metric)
            sizes = self._poller.poll(self._framework.bytes_metrics[direction])
            # One size a transfer; when the counts differ it is not known which belongs to which.
            known = sizes.total == count == len(spans)
            values = [float(s.value) for s in sizes.samples] if known else [None] * len(spans)
            for span, value in zip(spans, values, strict=True):
                self._emit(Event(span.start_ns, span.duration_ns, Kind.TRANSFER, name=direction, value=value))
