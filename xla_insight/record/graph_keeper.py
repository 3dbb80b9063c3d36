"""Keeps each captured graph once, compressed, up to a limit, and says what was left out.

Owns the account of what is kept. Works on the drain thread; leaves files to the writer and lines to ``sources``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from xla_insight.facts.events import Event, Kind
from xla_insight.record.framework import Writer
from xla_insight.record.modules import Module
from xla_insight.record.sources import Sources
from xla_insight.record.written_lines import WrittenLines
from xla_insight.store.graph_files import HLO, IR, OPTIMIZED

DEFAULT_LIMIT_BYTES = 256 << 20
"""Of compressed graphs per process: about 2,000 training steps of a large model."""


class GraphKeeper:
    """``keep`` stores a module under the id of its graph."""

    def __init__(self, writer: Writer, emit: Callable[[Event], None], sources: Sources, limit_bytes: int) -> None:
        self._writer = writer
        self._emit = emit
        self._sources = sources
        self._limit = limit_bytes
        self.written = WrittenLines()
        self._used = 0
        self._seen: set[str] = set()
        self.seen_bytes = 0
        """Size of all modules that were offered, uncompressed."""

    def keep(self, graph: str, module: Module) -> None:
        """Store the module, unless the graph has one already or the limit is reached."""
        if graph in self._seen:
            return
        self._seen.add(graph)
        self.seen_bytes += len(module.content)
        for file, line in (self.written.line_of(*place) for place in module.facts.lines):
            self._sources.want(os.path.abspath(file), line)
        self._write(graph, self.written.applied(module.content), HLO)
        if module.optimized is not None:
            self._write(graph, module.optimized, OPTIMIZED)

    def keep_text(self, graph: str, text: bytes) -> None:
        """Store the framework's own text of a graph."""
        self._write(graph, text, IR)

    def _write(self, graph: str, content: bytes, suffix: str) -> None:
        if self._used >= self._limit:
            self._lose(f"the limit for stored graphs ({self._limit / 1e6:.0f} MB, max_graph_bytes) was reached")
            return
        size = self._writer.write_graph(graph, content, suffix)
        if size is None:
            self._lose("its file could not be written")
            return
        self._used += size

    def _lose(self, why: str) -> None:
        self._emit(Event(time.perf_counter_ns(), None, Kind.LOST, name="graphs", value=1.0, detail=why))
