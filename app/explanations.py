"""Explanations of compiles, made when a page shows them and kept for the next request.

Owns the cache: graphs are named by what they contain, so that two graphs compared once stay compared, also while a run
records. Leaves comparing to ``xla_insight.analysis``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from xla_insight.analysis.explain.explanation import Explanation, explain
from xla_insight.analysis.explain.targets import Target
from xla_insight.errors import GraphFormatError
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.model import Graph

from .data import RunView

KEPT = 8
_Key = tuple[str, float | None, str | None, str | None]


class Explanations:
    """Explained compiles and parsed graphs of the runs being looked at; safe to use from many threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, Explanation] = OrderedDict()
        self._graphs: OrderedDict[_Key, Graph] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, view: RunView, target: Target) -> Explanation:
        """The explanation of a compile of a run."""
        member = target.member
        key = (str(view.entry.path), view.entry.started_unix_s, member.graph, member.against)
        with self._lock:  # one at a time: comparing takes a processor, and the next request may want the same
            found = self._kept.get(key)
            if found is None:
                found = explain(target, view.hlo)
                if found.comparison is not None:
                    self._kept[key] = found
            else:
                self._kept.move_to_end(key)
            _bound(self._kept)
        return replace(found, target=target)

    def graph(self, view: RunView, name: str) -> Graph | None:
        """The HLO of a graph; None when it was not kept or cannot be read."""
        key = (str(view.entry.path), view.entry.started_unix_s, name, None)
        with self._lock:
            found = self._graphs.get(key)
            if found is None:
                data = view.hlo(name)
                try:
                    found = None if data is None else parse_hlo_proto(data)
                except GraphFormatError:
                    found = None
                if found is not None:
                    self._graphs[key] = found
            else:
                self._graphs.move_to_end(key)
            _bound(self._graphs)
        return found


def _bound(kept: OrderedDict[_Key, Explanation] | OrderedDict[_Key, Graph]) -> None:
    while len(kept) > KEPT:
        kept.popitem(last=False)
