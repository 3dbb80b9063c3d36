"""One recording of one process: a bounded buffer the hooks append to, and a thread that turns it into a log.

Owns the buffer, the drain thread and their order of work. Leaves what is hooked to ``torch_xla``, ``torch_hooks`` and
``transformers_hooks``, the joining of signals to ``matching`` and the bytes to ``store.writer``.

On the training thread a hook costs two clock reads, two counters, one ``stat`` and an append; everything else happens
on the drain thread, five times a second.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from xla_insight.facts.events import Event, Kind, StepSource, Trigger
from xla_insight.record.clock import Clock
from xla_insight.record.debug_file import DebugFile, Position
from xla_insight.record.faults import Faults
from xla_insight.record.matching import Checkpoint, HookEnd, Matcher, Span
from xla_insight.record.samples import Poller, ReadMetric
from xla_insight.record.stacks import Stacks

TICK_S = 0.2
MAX_BUFFER = 400_000
FLUSH_EVERY_S = 0.4
RING = 1024
MIN_TICK_S = 0.02
LATE_SAMPLES_S = 10.0
"""How long the end of a recording waits for executions that are still running."""

ANCHOR_EVERY_NS = 10_000_000_000
COUNTERS_EVERY_NS = 1_000_000
TRACING_EVERY_NS = 50_000_000
"""Reading the total of the tracing time costs 50 us: it is read at step marks that are at least this far apart."""

class Writer(Protocol):
    """What the recorder needs of ``store.writer.RunWriter``; none of it raises OSError."""

    lost: dict[str, int]

    def append(self, events: list[Event]) -> None:
        """Add events to the part being filled."""

    def flush(self) -> None:
        """Write what was appended to disk."""

    def close(self, **facts: Any) -> None:
        """Close the part and write the final facts of the process."""


@dataclass(frozen=True)
class Framework:
    """What the recorder reads from the framework, and under which names. No call may cut a graph.

    Metrics hold one sample an event: ``*_metrics`` are times in ns, ``bytes_metrics`` sizes, by direction of transfer.
    """

    metric: ReadMetric
    counter: Callable[[str], int | None]
    counter_names: Callable[[], list[str]]
    eager: Callable[[], bool]
    """Whether operations run one by one now, instead of being collected into graphs."""
    hit_counter: str
    miss_counter: str
    fact_counters: Mapping[str, str]
    """Counter of the framework -> one of ``facts.events.FACT_COUNTERS``."""
    execute_metrics: tuple[str, ...]
    compile_metrics: tuple[str, ...]
    wait_metric: str
    tracing_metric: str
    transfer_metrics: Mapping[str, str]
    bytes_metrics: Mapping[str, str]
    ignored_counters: tuple[str, ...]
    """Prefixes of counters that move with every operation and say nothing here."""

    @property
    def sample_metrics(self) -> tuple[str, ...]:
        """All metrics whose samples are followed."""
        sizes = tuple(self.bytes_metrics.values())
        times = tuple(self.transfer_metrics.values())
        return (*self.execute_metrics, *self.compile_metrics, *times, *sizes, self.wait_metric)


@dataclass
class _Counters:
    names: tuple[str, ...] = ()
    values: dict[str, int] = field(default_factory=dict)


class Recorder:
    """Hooks call ``begin``, ``end``, ``span`` and ``mark_step``; ``start`` and ``stop`` frame the recording."""

    def __init__(self, framework: Framework, debug_file: DebugFile | None, writer: Writer, faults: Faults) -> None:
        self.framework = framework
        self.debug_file = debug_file
        self.writer = writer
        self.faults = faults
        self._hit, self._miss = framework.hit_counter, framework.miss_counter
        self.active = False
        self.dropped = 0
        self.stacks = Stacks()
        self.clock = Clock()
        self.before_first_graph: Callable[[], None] | None = None
        self.after_first_graph: Callable[[bool], None] | None = None
        self._raw: deque[tuple[Any, ...]] = deque()
        self._events: list[Event] = []
        self._poller = Poller(framework.metric)
        self._matcher = Matcher(self._events.append, self.stacks.intern_places)
        self._threads: dict[int, int] = {}
        self._counters = _Counters()
        self._tracing: tuple[int, float] = (0, 0.0)
        self._last_tracing_ns = 0
        self._last_anchor_ns = 0
        self._last_counters_ns = 0
        self._step: int | None = None
        self._step_counts: dict[str, int] = {}
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last_flush_s = 0.0
        self._tick_s = TICK_S
        self._since_poll_s = TICK_S
        self._last_poll_ns = time.perf_counter_ns()
        self._totals: dict[str, int] = {}
        self._stopped = False

    # ---- on the user's threads -------------------------------------------------------------------------------------

    def _look(self) -> tuple[int, int, Position]:
        counter = self.framework.counter
        position = self.debug_file.position() if self.debug_file is not None else None
        return counter(self._hit) or 0, counter(self._miss) or 0, position

    def _push(self, item: tuple[Any, ...]) -> None:
        if len(self._raw) < MAX_BUFFER:
            self._raw.append(item)
        else:
            self.dropped += 1

    def begin(self, kind: str, site: int | None) -> int:
        """A hook that may run graphs begins. Returns its begin time, which ``end`` wants back."""
        if self.before_first_graph is not None:
            self.before_first_graph()
        hits, misses, position = self._look()
        now = time.perf_counter_ns()
        self._push(("look", now, threading.get_ident(), hits, misses, position, kind, site, None))
        return now

    def end(self, kind: str, begin_ns: int, name: str, site: int | None, detail: str | None = None) -> None:
        """The hook that began at ``begin_ns`` ends."""
        now = time.perf_counter_ns()
        hits, misses, position = self._look()
        thread = threading.get_ident()
        self._push(("look", now, thread, hits, misses, position, kind, site, (begin_ns, name, detail)))
        if self.after_first_graph is not None:
            callback, ran = self.after_first_graph, bool(hits or misses)
            if ran:
                self.before_first_graph = self.after_first_graph = None
            callback(ran)

    def span(self, event: Event) -> None:
        """A measured event that runs no graph; ``thread`` is filled here."""
        self._push(("event", event, threading.get_ident(), self._step))

    def read_counters(self) -> None:
        """Counters (0.4 us each) and, when due, the tracing total, so that their increase falls into the right step."""
        now = self.push_counters()
        if now - self._last_tracing_ns > TRACING_EVERY_NS:
            self._last_tracing_ns = now
            data = self.framework.metric(self.framework.tracing_metric)
            if data is not None:
                self._push(("tracing", now, data[0], data[1]))

    def read_counters_if_due(self) -> None:
        """As ``read_counters``, but not more often than loops without step marks need it."""
        if time.perf_counter_ns() - self._last_counters_ns > COUNTERS_EVERY_NS:
            self.read_counters()

    def push_counters(self) -> int:
        """Take the counters now; returns when that was."""
        now = self._last_counters_ns = time.perf_counter_ns()
        counter = self.framework.counter
        names = self._counters.names
        self._push(("counters", now, names, [counter(name) for name in names]))
        return now

    def mark_step(self, source: StepSource) -> None:
        """The end of a step, said by ``source``."""
        self.read_counters()
        number = self._step_counts.get(source, 0)
        self._step_counts[source] = number + 1
        now = time.perf_counter_ns()
        self.span(Event(now, None, Kind.STEP, name=source, value=float(number)))
        if source in (StepSource.PROF_STEP, StepSource.CALLBACK):
            self._step = number + 1

    # ---- start and end ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take the present counters as zero and start the drain thread. The calling thread gets index 0."""
        self._thread_index(threading.get_ident(), threading.current_thread().name)
        anchor = self.clock.latest
        self._events.append(Event(anchor.mono_ns, None, Kind.CLOCK, dims=(anchor.wall_ns,)))
        if self.debug_file is not None:
            self.debug_file.start()
        self._poller.start(self.framework.sample_metrics)
        self._refresh_names()
        self._counters.values = {name: self.framework.counter(name) or 0 for name in self._counters.names}
        tracing = self.framework.metric(self.framework.tracing_metric)
        self._tracing = (tracing[0], tracing[1]) if tracing else (0, 0.0)
        hits, misses, _ = self._look()
        now = time.perf_counter_ns()
        self._matcher.begin_recording(Checkpoint(now, 0, hits, misses, Kind.MARK, None, None))
        self._events.append(Event(now, None, Kind.MARK, thread=0, name="start"))
        self.active = True
        self._thread = threading.Thread(target=self._run, name="xla-insight", daemon=True)
        self._thread.start()

    def stop(self, facts: dict[str, Any]) -> None:
        """End the recording: wait (bounded) for executions still running, write what is left, close the log."""
        if self._stopped:
            return
        self._stopped = True
        self.active = False
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout=5.0)
        self.faults.guard("stop")(self._last_ticks)()
        self.faults.guard("stop")(self._finish)()
        closing = {"dropped": self.dropped, "faults": self.faults.counts, "fault_messages": self.faults.messages}
        self.writer.close(**closing, counters=self._totals, end_mono_ns=time.perf_counter_ns(), **facts)

    def _last_ticks(self) -> None:
        deadline = time.monotonic() + LATE_SAMPLES_S
        self._tick()
        while self._matcher.waiting and time.monotonic() < deadline:
            before = self._matcher.waiting
            time.sleep(0.005)
            self._tick()
            if not self._matcher.waiting or self._matcher.waiting < before:
                deadline = max(deadline, time.monotonic() + 1.0)

    def _finish(self) -> None:
        with self._lock:
            if self.debug_file is not None:
                self.debug_file.poll()
                hits, misses, _ = self._look()
                now = time.perf_counter_ns()
                rest = self.debug_file.take_all()
                self._matcher.checkpoint(Checkpoint(now, 0, hits, misses, Kind.MARK, None, None), rest)
            self._matcher.finish()
            self._events.append(Event(time.perf_counter_ns(), None, Kind.MARK, thread=0, name="end"))
            self._flush(force=True)

    # ---- on the drain thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self.active:
            self._wake.wait(self._tick_s)
            self.faults.guard("drain")(self._tick)()

    def before_clear(self) -> None:
        """Read metrics and counters at once: the user is about to clear them."""
        self.faults.guard("drain")(self._tick)()

    def after_clear(self) -> None:
        """The user cleared metrics and counters: they count from zero now."""
        self._push(("cleared",))

    def _tick(self) -> None:
        with self._lock:
            stepped = self.clock.tick()
            anchor = self.clock.latest
            if stepped or anchor.mono_ns - self._last_anchor_ns > ANCHOR_EVERY_NS:
                self._last_anchor_ns = anchor.mono_ns
                self._events.append(Event(anchor.mono_ns, None, Kind.CLOCK, dims=(anchor.wall_ns,)))
            if stepped:
                self._events.append(Event(anchor.mono_ns, None, Kind.LOST, name="clock", value=1.0, detail="wall clock stepped"))
            self.push_counters()
            raw = [self._raw.popleft() for _ in range(len(self._raw))]
            # Each part alone: what one part cannot digest must not take the rest with it.
            guard = self.faults.guard
            if self.debug_file is not None:
                guard("debug_file")(self.debug_file.poll)()
            guard("metrics")(self._poll_metrics)()
            self._matcher.default_trigger = Trigger.EAGER if self.framework.eager() else Trigger.UNKNOWN
            digest = guard("digest")(self._digest)
            for item in raw:
                digest(item)
            guard("matching")(self._matcher.pair)()
            self._refresh_names()
            self._collect_definitions()
            self._flush(force=any(event.kind == Kind.COMPILE for event in self._events))

    def _digest(self, item: tuple[Any, ...]) -> None:
        tag = item[0]
        if tag == "look":
            _, now, thread, hits, misses, position, kind, site, end = item
            written = self.debug_file.take(position) if self.debug_file is not None else []
            hook_end = HookEnd(*end) if end is not None else None
            index = self._thread_index(thread)
            self._matcher.checkpoint(Checkpoint(now, index, hits, misses, kind, site, hook_end), written)
        elif tag == "event":
            _, event, thread, step = item
            self._events.append(event._replace(thread=self._thread_index(thread), step=step))
        elif tag == "counters":
            self._count(item[1], dict(zip(item[2], item[3], strict=True)))
        elif tag == "tracing":
            self._count_tracing(item[1], item[2], item[3])
        elif tag == "cleared":
            self._counters.values = {}
            self._tracing = (0, 0.0)
            self._matcher.counters_cleared()

    def _count(self, now: int, values: dict[str, int | None]) -> None:
        for name, value in values.items():
            old = self._counters.values.get(name, 0)
            new = value or 0
            increase = new - old
            if increase > 0:  # less than before: read earlier on another thread, counted already
                self._counters.values[name] = new
                self._events.append(Event(now, None, Kind.COUNTER, name=name, value=float(increase)))
                fact = self.framework.fact_counters.get(name)
                if fact is not None:
                    self._fact(now, fact, increase)

    def _count_tracing(self, now: int, count: int, total_ns: float) -> None:
        old_count, old_total = self._tracing
        if count > old_count:
            self._tracing = (count, total_ns)
            duration = round(total_ns - old_total)
            name = self.framework.tracing_metric
            self._events.append(Event(now, duration, Kind.COUNTER, name=name, value=float(count - old_count)))

    def _fact(self, now: int, name: str, increase: int) -> None:
        self._totals[name] = self._totals.get(name, 0) + increase
        self._events.append(Event(now, None, Kind.COUNTER, name=name, value=float(increase)))

    def _spans(self, name: str) -> tuple[list[Span], int]:
        news = self._poller.poll(name)
        if news.lost:
            now = time.perf_counter_ns()
            self._events.append(Event(now, None, Kind.LOST, name="samples", value=float(news.lost), detail=name))
        spans = [
            Span(self.clock.to_mono_ns(sample.wall_end_ns) - sample.value, sample.value) for sample in news.samples
        ]
        if news.count:
            rate = news.count / max(self._since_poll_s, 1e-3)
            self._tick_s = min(self._tick_s, max(MIN_TICK_S, 0.5 * RING / rate))
        return spans, news.count

    def _poll_metrics(self) -> None:
        now = time.perf_counter_ns()
        self._since_poll_s, self._last_poll_ns = (now - self._last_poll_ns) / 1e9, now
        self._tick_s = TICK_S
        found: dict[str, list[Span]] = {}
        pairs = (("executions", self.framework.execute_metrics), ("compiles", self.framework.compile_metrics))
        for fact, names in pairs:
            total = 0
            for name in names:
                spans, count = self._spans(name)
                found.setdefault(fact, []).extend(spans)
                total += count
            if total:
                self._fact(now, fact, total)
        self._matcher.add_samples(found["executions"], found["compiles"])
        self._poll_transfers()
        waits, _ = self._spans(self.framework.wait_metric)
        self._events.extend(Event(s.start_ns, s.duration_ns, Kind.DEVICE_WAIT, name="lock") for s in waits)

    def _poll_transfers(self) -> None:
        for direction, metric in self.framework.transfer_metrics.items():
            spans, count = self._spans(metric)
            sizes = self._poller.poll(self.framework.bytes_metrics[direction])
            # One size a transfer; when the counts differ it is not known which belongs to which.
            values = [float(s.value) for s in sizes.samples] if sizes.count == count == len(spans) else [None] * len(spans)
            self._events.extend(
                Event(span.start_ns, span.duration_ns, Kind.TRANSFER, name=direction, value=value)
                for span, value in zip(spans, values, strict=True)
            )

    def _refresh_names(self) -> None:
        noisy = self.framework.ignored_counters
        names = [name for name in self.framework.counter_names() if not name.startswith(noisy)]
        self._counters.names = tuple(sorted({*names, *self.framework.fact_counters}))

    def _thread_index(self, ident: int, name: str | None = None) -> int:
        index = self._threads.get(ident)
        if index is None:
            index = self._threads[ident] = len(self._threads)
            if name is None:
                name = next((t.name for t in threading.enumerate() if t.ident == ident), f"thread-{ident}")
            self._events.append(Event(time.perf_counter_ns(), None, Kind.THREAD, thread=index, name=name))
        return index

    def _collect_definitions(self) -> None:
        now = time.perf_counter_ns()
        for identity, text in self.stacks.new_sites():
            self._events.append(Event(now, None, Kind.SITE, site=identity, name=text))
        for where, count, message in self.faults.unreported():
            self._events.append(Event(now, None, Kind.FAULT, name=where, value=float(count), detail=message))

    def _flush(self, force: bool) -> None:
        now = time.monotonic()
        if not self._events or (not force and now - self._last_flush_s < FLUSH_EVERY_S):
            return
        self._collect_definitions()
        self._last_flush_s = now
        self.writer.append(list(self._events))
        self._events.clear()  # the matcher holds this very list
        self.writer.flush()
