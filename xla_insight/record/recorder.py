"""One recording of one process: a bounded buffer the hooks append to, and a thread that turns it into a log.

Owns the buffer, the drain thread and their order of work. Leaves what is hooked to ``torch_xla``, ``torch_hooks`` and
``transformers_hooks``, counting to ``counting``, the joining of signals to ``matching`` and the bytes to the writer.

On the training thread a hook costs two clock reads, two counters, one ``stat`` and an append; everything else happens
on the drain thread, five times a second; ten times a second it looks where the training thread is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from xla_insight.facts.events import EpochSource, Event, Kind, StepSource, Trigger
from xla_insight.record.capture import GraphCapture, Ways
from xla_insight.record.clock import Clock
from xla_insight.record.counting import Counting
from xla_insight.record.debug_file import DebugFile, Position
from xla_insight.record.faults import Faults
from xla_insight.record.framework import Framework, Writer
from xla_insight.record.matching import Checkpoint, HookEnd, Matcher
from xla_insight.record.sampling import Sampler
from xla_insight.record.stacks import Stacks, named_places
from xla_insight.record.window_keeper import WindowKeeper
from xla_insight.record.windows import Window, Windows

TICK_S = 0.2
MIN_TICK_S = 0.02
FLUSH_EVERY_S = 0.3
"""Less than two ticks, so that every second tick writes: with the tick, well within the second that a kill may cost."""
MAX_BUFFER = 400_000
LATE_SAMPLES_S = 10.0
"""How long the end of a recording waits for executions that are still running, since the last one that came."""
ANCHOR_EVERY_NS = 10_000_000_000
COUNTERS_EVERY_NS = 1_000_000
TRACING_EVERY_NS = 50_000_000
"""Reading the total of the tracing time costs 50 us: it is read at step marks that are at least this far apart."""


class Look(NamedTuple):
    """The framework as a hook sees it: compile counters, place in the debug file, modules dumped since."""

    hits: int
    misses: int
    position: Position
    modules: tuple[str, ...]


class Recorder:
    """Hooks call ``begin``, ``end``, ``span`` and ``mark_step``; ``start`` and ``stop`` frame the recording."""

    def __init__(
        self, framework: Framework, debug_file: DebugFile | None, ways: Ways, writer: Writer, faults: Faults
    ) -> None:
        """``ways``: how graphs are had, and which device windows are taken."""
        self.faults = faults
        self.active = False
        self.dropped = 0
        self.stacks = Stacks()
        self.before_first_graph: Callable[[], None] | None = None
        self.after_first_graph: Callable[[bool], None] | None = None
        self._framework = framework
        self._counter = framework.counter
        self._hit, self._miss = framework.hit_counter, framework.miss_counter
        self._debug_file = debug_file
        self._writer = writer
        self._clock = Clock()
        self._raw: deque[tuple[Any, ...]] = deque()
        self._events: list[Event] = []
        self._counting = Counting(framework, self._clock, self._events.append)
        self._graphs = GraphCapture(ways, framework, writer, self._events.append, faults)
        self._matcher = Matcher(
            self._events.append, self.stacks.intern_places, self._graphs.keep, self._graphs.compiled
        )
        self.windows = Windows(ways.windows, self._graphs.profiler, self._window_ended, lambda: self._graphs.seen_bytes)
        self._window_keeper = WindowKeeper(writer, self._events.append)
        self._threads: dict[int, int] = {}
        self._last_tracing_ns = self._last_counters_ns = self._last_anchor_ns = 0
        self._step: int | None = None
        self._step_counts: dict[str, int] = {}
        self._sampler = Sampler(self.stacks)
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last_flush_s = 0.0
        self._tick_s = TICK_S
        self._stopped = False

    # ---- on the user's threads -------------------------------------------------------------------------------------

    def _look(self) -> Look:
        counter = self._counter
        position = self._debug_file.position() if self._debug_file is not None else None
        misses = counter(self._miss) or 0
        return Look(counter(self._hit) or 0, misses, position, self._graphs.news(misses))

    def _push(self, item: tuple[Any, ...]) -> None:
        if len(self._raw) < MAX_BUFFER:
            self._raw.append(item)
        else:
            self.dropped += 1

    def begin(self, kind: str, site: int | None) -> int:
        """A hook that may run graphs begins. Returns its begin time, which ``end`` wants back."""
        if self.before_first_graph is not None:
            self.before_first_graph()
        look = self._look()
        now = time.perf_counter_ns()
        self._push(("look", now, threading.get_ident(), look, kind, site, None))
        return now

    def end(self, kind: str, begin_ns: int, name: str, site: int | None, detail: str | None = None) -> None:
        """The hook that began at ``begin_ns`` ends."""
        now = time.perf_counter_ns()
        look = self._look()
        self._push(("look", now, threading.get_ident(), look, kind, site, (begin_ns, name, detail)))
        self._graphs.cut(look.misses)
        if self.after_first_graph is not None:
            callback, ran = self.after_first_graph, bool(look.hits or look.misses)
            if ran:
                self.before_first_graph = self.after_first_graph = None
            callback(ran)

    def span(self, event: Event) -> None:
        """A measured event that runs no graph; ``thread`` and ``step`` are filled here."""
        self._push(("event", event, threading.get_ident(), self._step))

    def read_counters(self) -> None:
        """Counters (0.4 us each) and, when due, the tracing total, so that their increase falls into the right step."""
        now = self._push_counters()
        if now - self._last_tracing_ns > TRACING_EVERY_NS:
            self._last_tracing_ns = now
            data = self._framework.metric(self._framework.tracing_metric)
            if data is not None:
                self._push(("tracing", now, data[0], data[1]))

    def read_counters_if_due(self) -> None:
        """As ``read_counters``, but not more often than loops without step marks need it."""
        if time.perf_counter_ns() - self._last_counters_ns > COUNTERS_EVERY_NS:
            self.read_counters()

    def _push_counters(self) -> int:
        now = self._last_counters_ns = time.perf_counter_ns()
        counter, names = self._counter, self._counting.names
        self._push(("counters", now, names, [counter(name) for name in names]))
        return now

    def mark_step(self, source: StepSource) -> None:
        """The end of a step, said by ``source``."""
        self.read_counters()
        number = self._step_counts.get(source, 0)
        self._step_counts[source] = number + 1
        self.span(Event(time.perf_counter_ns(), None, Kind.STEP, name=source, value=float(number)))
        if source in (StepSource.PROF_STEP, StepSource.CALLBACK):
            self._step = number + 1
        self.windows.step_ended(source, number, self._counter(self._miss) or 0)

    def mark_epoch(self, source: EpochSource) -> None:
        """The end of a pass over the data, said by ``source``."""
        self.span(Event(time.perf_counter_ns(), None, Kind.MARK, name="epoch", detail=source))

    def asked_cut(self, site: int) -> None:
        """A cut that the program asked for at ``site`` is over."""
        self.windows.cut(site, self._counter(self._miss) or 0)

    def generated(self, module: Any) -> None:
        """Dynamo is about to run a graph module of torch.fx, to compile what it does."""
        self.faults.guard("generated")(self._graphs.learn_lines)(module)

    def give_way(self) -> None:
        """The program is about to open a profiler session of its own."""
        self.faults.guard("windows")(self.windows.close)("closed because the program opened a profiler session")

    def _window_ended(self, window: Window, content: bytes) -> None:
        self._raw.append(("window", window, content))

    def before_clear(self) -> None:
        """Read metrics and counters at once: the user is about to clear them."""
        self.faults.guard("drain")(self._tick)()

    def after_clear(self, counters: bool) -> None:
        """The user cleared the counters, or else the metrics: they count from zero now."""
        self._push(("cleared", counters))

    @property
    def blocks_seen(self) -> int:
        """Graph descriptions read from the framework so far."""
        return self._matcher.blocks_seen

    @property
    def executions(self) -> int:
        """Executions counted by the framework so far."""
        return self._counting.totals.get("executions", 0)

    # ---- start and end ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take the present counters as zero and start the drain thread. The calling thread gets index 0."""
        self._thread_index(threading.get_ident(), threading.current_thread().name)
        self._sampler.ident = threading.get_ident()
        self._add_anchor()
        if self._debug_file is not None:
            self._debug_file.start()
        self._counting.start()
        look = self._look()
        now = time.perf_counter_ns()
        self._matcher.begin_recording(Checkpoint(now, 0, look.hits, look.misses, Kind.MARK, None, None))
        self._graphs.start()
        self.faults.guard("windows")(self.windows.start)()
        self._events.append(Event(now, None, Kind.MARK, thread=0, name="start"))
        self.active = True
        self._thread = threading.Thread(target=self._run, name="xla-insight", daemon=True)
        self._thread.start()

    def stop(self, final_facts: Callable[[], dict[str, Any]], say: Callable[[str], None]) -> None:
        """End the recording: wait (bounded) for executions still running, write what is left, close the log.

        ``final_facts`` is asked when nothing more comes; ``say`` tells the user what could not be written.
        """
        if self._stopped:
            return
        self._stopped = True
        self.active = False
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout=5.0)
        guard = self.faults.guard("stop")
        guard(self._graphs.stop)()
        guard(self.windows.stop)()
        guard(self._last_ticks)()
        guard(self._finish)()
        facts = {"dropped": self.dropped, "counters": self._counting.totals, **(guard(final_facts)() or {})}
        facts["windows"] = self.windows.facts()
        faults = {"faults": self.faults.counts, "fault_messages": self.faults.messages}
        self._writer.close(**facts, **faults, end_mono_ns=time.perf_counter_ns())
        if self._writer.lost:
            what = " and ".join(f"{count:,} {name}" for name, count in self._writer.lost.items())
            say(f"{what} could not be written and are missing from the recording: {self._writer.last_error}")

    def _last_ticks(self) -> None:
        self._tick()
        waiting = self._matcher.waiting
        deadline = time.monotonic() + LATE_SAMPLES_S
        while waiting and time.monotonic() < deadline:
            time.sleep(0.005)
            self._tick()
            if self._matcher.waiting < waiting:
                deadline = time.monotonic() + LATE_SAMPLES_S
            waiting = self._matcher.waiting

    def _finish(self) -> None:
        with self._lock:
            if self._debug_file is not None:
                self._debug_file.poll()
                look = self._look()
                last = Checkpoint(time.perf_counter_ns(), 0, look.hits, look.misses, Kind.MARK, None, None)
                self._matcher.checkpoint(last, self._debug_file.take_all(), self._graphs.modules(look.modules))
            self._matcher.finish()
            self._graphs.tick(final=True)
            now = time.perf_counter_ns()
            if self.dropped:
                why = "the drain thread fell behind"
                self._events.append(Event(now, None, Kind.LOST, name="events", value=float(self.dropped), detail=why))
            self._events.append(Event(now, None, Kind.MARK, thread=0, name="end"))
            self._flush(force=True)

    # ---- on the drain thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        tick, sample = self.faults.guard("drain")(self._tick), self.faults.guard("sampling")(self._sample)
        tick_s = sample_s = time.monotonic()
        while self.active:
            self._wake.wait(max(0.0, min(tick_s, sample_s) - time.monotonic()))
            if time.monotonic() >= sample_s:
                sample()
                sample_s = time.monotonic() + self._sampler.pause_s()
            if time.monotonic() >= tick_s:
                tick()
                tick_s = time.monotonic() + self._tick_s

    def _sample(self) -> None:
        event = self._sampler.look()
        if event is not None:
            self._push(("event", event, self._sampler.ident, self._step))

    def _tick(self) -> None:
        with self._lock:
            self._tick_clock()
            self._push_counters()
            raw = [self._raw.popleft() for _ in range(len(self._raw))]
            # Each part alone: what one part cannot digest must not take the rest with it.
            guard = self.faults.guard
            if self._debug_file is not None:
                guard("debug_file")(self._poll_debug_file)(self._debug_file)
            polled = guard("metrics")(self._counting.poll)()
            if polled is not None:
                self._matcher.add_samples(polled.executes, polled.compiles)
            self._matcher.default_trigger = Trigger.EAGER if self._framework.eager() else Trigger.UNKNOWN
            digest = guard("digest")(self._digest)
            for item in raw:
                digest(item)
            guard("matching")(self._matcher.pair)()
            guard("windows")(self.windows.tick)()
            self._graphs.tick()
            self._counting.refresh_names()
            self._tick_s = self._counting.next_poll_s(TICK_S, MIN_TICK_S)
            self._flush(force=any(event.kind == Kind.COMPILE for event in self._events))

    def _poll_debug_file(self, file: DebugFile) -> None:
        before = file.recreated
        file.poll()
        if file.recreated > before:
            why = "the folder of the framework's debug file was deleted; some graphs have no name"
            now = time.perf_counter_ns()
            self._events.append(Event(now, None, Kind.LOST, name="blocks", value=1.0, detail=why))

    def _tick_clock(self) -> None:
        stepped = self._clock.tick()
        now = self._clock.latest.mono_ns
        if stepped or now - self._last_anchor_ns > ANCHOR_EVERY_NS:
            self._add_anchor()
        if stepped:
            why = "the wall clock stepped: times of samples around it are off by the step"
            self._events.append(Event(now, None, Kind.LOST, name="clock", value=1.0, detail=why))

    def _add_anchor(self) -> None:
        anchor = self._clock.latest
        self._last_anchor_ns = anchor.mono_ns
        self._events.append(Event(anchor.mono_ns, None, Kind.CLOCK, dims=(anchor.wall_ns,)))

    def _digest(self, item: tuple[Any, ...]) -> None:
        tag = item[0]
        if tag == "look":
            _, now, thread, look, kind, site, end = item
            written = self._debug_file.take(look.position) if self._debug_file is not None else []
            hook_end = HookEnd(*end) if end is not None else None
            checkpoint = Checkpoint(now, self._thread_index(thread), look.hits, look.misses, kind, site, hook_end)
            self._matcher.checkpoint(checkpoint, written, self._graphs.modules(look.modules))
        elif tag == "event":
            _, event, thread, step = item
            self._events.append(event._replace(thread=self._thread_index(thread), step=step))
        elif tag == "counters":
            self._counting.count(item[1], dict(zip(item[2], item[3], strict=True)))
        elif tag == "tracing":
            self._counting.count_tracing(item[1], item[2], item[3])
        elif tag == "cleared":
            self._counting.cleared(counters=item[1])
            if item[1]:
                self._matcher.counters_cleared()
        elif tag == "window":
            self._window_keeper.keep(item[1], item[2])

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
            for file, line in named_places(text):
                self._graphs.sources.want(file, line)
        self._events.extend(self._graphs.sources.events(now))
        for where, count, message in self.faults.unreported():
            self._events.append(Event(now, None, Kind.FAULT, name=where, value=float(count), detail=message))

    def _flush(self, force: bool) -> None:
        now = time.monotonic()
        if not force and now - self._last_flush_s < FLUSH_EVERY_S:
            return
        self._last_flush_s = now
        self._collect_definitions()
        if not self._events:
            self._writer.touch()
            return
        self._writer.append(list(self._events))
        self._events.clear()  # the matcher and the counting hold this very list
        self._writer.flush()
