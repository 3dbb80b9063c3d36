"""The graphs of a run, parsed when they are asked for; few are held at a time.

Owns memory: the canonical forms of the graphs used last, and a signature of a few kilobytes for every graph.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from xla_insight.errors import GraphFormatError
from xla_insight.graph.diff import Prepared, prepare
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.nearest import Signature, signature

MAX_INSTRUCTIONS = 400_000
"""Instructions of all graphs held at a time; each takes about 1 kB."""


class GraphLibrary:
    """``hlo`` gives the serialized module of a graph, None when it was not kept."""

    def __init__(self, hlo: Callable[[str], bytes | None]) -> None:
        self._hlo = hlo
        self._held: OrderedDict[str, Prepared] = OrderedDict()
        self._size = 0
        self._signatures: dict[str, Signature] = {}
        self._missing: set[str] = set()

    def prepared(self, graph: str | None) -> Prepared | None:
        """A graph ready for comparison; None when it was not kept or cannot be read."""
        if graph is None or graph in self._missing:
            return None
        found = self._held.get(graph)
        if found is None:
            found = self._load(graph)
            if found is None:
                self._missing.add(graph)
                return None
            self._hold(graph, found)
        self._held.move_to_end(graph)
        return found

    def signature(self, graph: str | None) -> Signature | None:
        """The signature of a graph, or None as `prepared` says."""
        if graph is None:
            return None
        known = self._signatures.get(graph)
        if known is None:
            prepared = self.prepared(graph)
            if prepared is None:
                return None
            known = self._signatures[graph] = signature(prepared.graph)
        return known

    def content(self, graph: str) -> bytes | None:
        """The serialized module of a graph; None when it was not kept."""
        return self._hlo(graph)

    def _load(self, graph: str) -> Prepared | None:
        content = self._hlo(graph)
        if content is None:
            return None
        try:
            return prepare(parse_hlo_proto(content))
        except GraphFormatError:
            return None

    def _hold(self, graph: str, prepared: Prepared) -> None:
        self._held[graph] = prepared
        self._size += prepared.graph.instruction_count
        while self._size > MAX_INSTRUCTIONS and len(self._held) > 2:
            _, dropped = self._held.popitem(last=False)
            self._size -= dropped.graph.instruction_count
