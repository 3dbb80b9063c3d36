"""Everything that a recording does to have the graphs themselves: dumped modules, live programs, text, source lines.

Owns which of the ways is used and when each is looked at. Leaves which module belongs to which compile to ``matching``
and ``sessions``, and the files to the writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from xla_insight.facts.events import Event, Kind
from xla_insight.record.blocks import Block
from xla_insight.record.faults import Faults
from xla_insight.record.framework import Framework, Writer
from xla_insight.record.graph_dump import GraphDump
from xla_insight.record.graph_keeper import DEFAULT_LIMIT_BYTES, GraphKeeper
from xla_insight.record.hlo_facts import spans_devices
from xla_insight.record.ir_file import IrFile
from xla_insight.record.lines import LineCapture
from xla_insight.record.modules import Module
from xla_insight.record.profiler import Profiler
from xla_insight.record.sessions import Sessions
from xla_insight.record.sources import Sources
from xla_insight.record.window_plan import NO_WINDOWS, WindowPlan


@dataclass(frozen=True)
class Ways:
    """Where graphs are dumped and written as text (None: nowhere), whether they are read from profiler sessions
    instead, whether source lines may be asked for (``always``: in steady state too), and which device windows are
    taken.
    """

    dump: GraphDump | None = None
    text: IrFile | None = None
    sessions: bool = False
    lines: bool = False
    always: bool = False
    max_graph_bytes: int = DEFAULT_LIMIT_BYTES
    windows: WindowPlan = NO_WINDOWS


class GraphCapture:
    """``emit`` takes what was lost; ``keep`` and ``compiled`` are for the matcher."""

    def __init__(
        self, ways: Ways, framework: Framework, writer: Writer, emit: Callable[[Event], None], faults: Faults
    ) -> None:
        self.profiler = Profiler(framework.session)
        self.sources = Sources()
        self._keeper = GraphKeeper(writer, emit, self.sources, ways.max_graph_bytes)
        self.keep = self._keeper.keep
        self.learn_lines = self._keeper.written.learn
        self._ways = ways
        self._framework = framework
        self._emit = emit
        self._faults = faults
        self._lines = LineCapture(framework.lines, ways.always) if ways.lines else None
        self._sessions = Sessions(self.profiler.take, self.keep) if ways.sessions else None
        self._dumped_misses = 0

    @property
    def seen_bytes(self) -> int:
        """Size of all graphs that were captured, uncompressed."""
        return self._keeper.seen_bytes

    def compiled(self, block: Block | None) -> None:
        """A graph was compiled; None when the framework did not describe it."""
        if self._sessions is not None:
            self._sessions.compiled(block)

    def start(self) -> None:
        """The recording begins."""
        if self._lines is not None:
            self._faults.guard("lines")(self._lines.start)()
        if self._sessions is not None:
            self._faults.guard("sessions")(self._sessions.start)()

    def stop(self) -> None:
        """The recording ends: trace as without us."""
        if self._lines is not None:
            self._faults.guard("lines")(self._lines.stop)()

    # ---- on the user's threads -------------------------------------------------------------------------------------

    def news(self, misses: int) -> tuple[str, ...]:
        """Names of modules dumped since the last call; ``misses``: compiles so far."""
        if self._ways.dump is None or misses == self._dumped_misses:
            return ()
        self._dumped_misses = misses
        return self._ways.dump.news()

    def cut(self, misses: int) -> None:
        """A cut of the graph is over."""
        if self._lines is not None:
            self._lines.look(misses)

    # ---- on the drain thread ---------------------------------------------------------------------------------------

    def modules(self, names: tuple[str, ...]) -> list[Module]:
        """The dumped modules of these names; the rest of what the compiler wrote is deleted."""
        dump = self._ways.dump
        if dump is None or not names:
            return []
        found = [module for name in names if (module := _taken(dump, name)) is not None]
        dump.sweep()
        return found

    def tick(self, final: bool = False) -> None:
        """Look at live programs and at text, when that is due."""
        if self._sessions is not None and not self._framework.eager() and not self.profiler.is_open:
            self._faults.guard("sessions")(self._look)(self._sessions, final)
        if self._ways.text is not None:
            for _ in range(2 if final else 1):  # renamed at one look, read at the next
                self._faults.guard("text")(self._keep_texts)(self._ways.text)

    def _look(self, sessions: Sessions, final: bool) -> None:
        sessions.look(final)
        if sessions.unmatched:
            now, count = time.perf_counter_ns(), float(sessions.unmatched)
            sessions.unmatched = 0
            why = "which of the compiler's live programs they are could not be told"
            self._emit(Event(now, None, Kind.LOST, name="graphs", value=count, detail=why))

    def _keep_texts(self, file: IrFile) -> None:
        for graph, text in file.poll():
            self._keeper.keep_text(graph, text)


def _taken(dump: GraphDump, name: str) -> Module | None:
    content, optimized = dump.take(name), dump.take_optimized(name)
    if content is None:
        return None
    return Module(content, optimized if optimized is not None and spans_devices(optimized) else None)
