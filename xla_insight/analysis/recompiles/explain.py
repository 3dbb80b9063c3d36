"""Explains every compile: finds its nearest earlier relative, compares the two, and asks the rules.

Owns the walk through the compiles in time and what is remembered on the way. Leaves families to ``history``, causes to
``rules`` and what shows only in hindsight to ``series``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xla_insight.analysis.recompiles.evidence import (
    OTHER_ROOTS,
    SAME_COMPUTATION,
    SAME_ROOTS,
    SAME_SIMPLIFIED,
    Evidence,
    Explanation,
)
from xla_insight.analysis.recompiles.happenings import Happenings
from xla_insight.analysis.recompiles.history import Compile, FamilyKey, History, executions_of
from xla_insight.analysis.recompiles.library import GraphLibrary
from xla_insight.analysis.recompiles.repeats import Repeats
from xla_insight.analysis.recompiles.rules import explanation_of
from xla_insight.analysis.tables import RunTables
from xla_insight.graph.diff import compare
from xla_insight.graph.model import Graph, Shape
from xla_insight.graph.nearest import RelativeIndex, Signature

RELATED_SHARE = 0.3
"""Share of operations that two graphs of one family must have in common to be relatives."""
ALIKE_SHARE = 0.8
"""The same for graphs of different families."""
UNRELATED_SIZE = 8
"""A graph this many times as large does another job."""
MAX_GRAPHS = 6
_ROOTS = re.compile(r"^Root Hashes: \((.*)\)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Explained:
    """A compile with its cause and the earlier graph it was compared with."""

    compile: Compile
    explanation: Explanation
    against: str | None


def explain_compiles(history: History, tables: RunTables, library: GraphLibrary) -> tuple[Explained, ...]:
    """The cause of each compile, in the order of ``history``."""
    walk = _Walk(history, tables, library)
    return tuple(walk.explain(compile_) for compile_ in history.compiles)


class _Walk:
    def __init__(self, history: History, tables: RunTables, library: GraphLibrary) -> None:
        self._history = history
        self._library = library
        self._text = tables.ir
        self._repeats = Repeats(library.content)
        self._happenings = Happenings(tables)
        self._executed = executions_of(tables["ran"])
        self._families: dict[FamilyKey, RelativeIndex] = defaultdict(RelativeIndex)
        self._processes: dict[int, RelativeIndex] = defaultdict(RelativeIndex)
        self._orders: dict[FamilyKey, dict[str, int]] = defaultdict(dict)
        self._taking: dict[tuple[FamilyKey, Shape], dict[str, None]] = defaultdict(dict)
        """The graphs of a family that have an input of a type, in order."""
        self._cut: tuple[int, int] | None = None
        self._same_cut: list[tuple[Compile, Signature, frozenset[Shape]]] = []
        """Graphs of the cut that is looked at: parts of one pass, none of them an earlier relative of another."""

    def explain(self, compile_: Compile) -> Explained:
        """The next compile."""
        self._begin_cut(compile_)
        short = self._short_cut(compile_)
        if short is not None:
            self._remember(compile_, None)
            return Explained(compile_, short[1], short[0])
        signature = None if compile_.seen_before or compile_.eager else self._library.signature(compile_.graph)
        against = self._relative(compile_, signature)
        evidence = self._evidence(compile_, against)
        explanation = explanation_of(evidence)
        if explanation.cause == "input_shape" and signature is not None:
            against, explanation = self._with_these_inputs(evidence, signature) or (against, explanation)
        if explanation.note in (SAME_COMPUTATION, SAME_SIMPLIFIED):
            explanation = replace(explanation, note=self._which_layer(explanation.note, compile_.graph, against))
        if against is not None:
            self._repeats.compared(compile_, explanation, against)
        self._remember(compile_, signature)
        return Explained(compile_, explanation, against)

    def _with_these_inputs(self, evidence: Evidence, wanted: Signature) -> tuple[str, Explanation] | None:
        """The relative that had inputs of these very sizes, and what differs from it: then the sizes are no cause.
        Unless that one only lacked the state that the nearest relative has: with one size none would come after that.
        """
        assert evidence.difference is not None
        changed = [c.after for c in evidence.difference.changed_parameters]
        batch = [parameter for parameter in changed if evidence.find_upload(parameter, recent=True)]
        sizes = {parameter.shape for parameter in batch or changed}
        taking = [self._taking[evidence.compile.family, shape] for shape in sizes]
        rarest = min(taking, key=len, default={})
        for graph in [name for name in reversed(rarest) if all(name in graphs for graphs in taking)][:MAX_GRAPHS]:
            signature = self._library.signature(graph)
            if graph != evidence.against and signature is not None and _alike(wanted, signature):
                explanation = explanation_of(self._evidence(evidence.compile, graph))
                if explanation.cause not in ("input_shape", "unknown", "warm_up"):
                    return graph, explanation
        return None

    def _short_cut(self, compile_: Compile) -> tuple[str, Explanation] | None:
        return None if compile_.seen_before or compile_.eager else self._repeats.explained(compile_)

    def _which_layer(self, note: str, graph: str | None, against: str | None) -> str:
        """Which part of the key moved, when the framework's own text was recorded: it has the hashes of the roots."""
        roots = [_roots(self._text(name)) if name else None for name in (graph, against)]
        if None in roots:
            return note
        return SAME_ROOTS if roots[0] == roots[1] else OTHER_ROOTS

    def _relative(self, compile_: Compile, wanted: Signature | None) -> str | None:
        if wanted is None:
            return None
        found = self._near(self._families[compile_.family], wanted, RELATED_SHARE)
        if found is None and not compile_.is_read:
            found = self._near(self._processes[compile_.process], wanted, ALIKE_SHARE)
        return found

    def _near(self, index: RelativeIndex, wanted: Signature, share: float) -> str | None:
        near = index.nearest(wanted)
        if near is None or near.similarity < share:
            return None
        other = self._library.signature(str(near.key))
        if other is None:
            return None
        sizes = sorted((wanted.instructions, other.instructions))
        return None if sizes[1] >= UNRELATED_SIZE * max(1, sizes[0]) else str(near.key)

    def _evidence(self, compile_: Compile, against: str | None) -> Evidence:
        before, after = self._library.prepared(against), None
        if against is not None or not compile_.seen_before:
            after = self._library.prepared(compile_.graph)
        order = self._order(compile_)
        if before is None or after is None:
            return Evidence(compile_, order, against, after=after.graph if after else None)
        cut_ns = compile_.time_ns if compile_.cut_ns is None else compile_.cut_ns
        end_ns = compile_.time_ns + (compile_.compile_ns or 0)
        since = self._happenings.since_last_sync(compile_.process, cut_ns, end_ns)
        return Evidence(
            compile_,
            order,
            against,
            compare(before, after),
            before.graph,
            after.graph,
            since,
            lambda: self._happenings.earlier_uploads(compile_.process, cut_ns),
            self._graphs(since.previous),
            self._graphs(since.read_graphs),
            self._ran(compile_, compile_.graph),
            self._ran(compile_, against),
        )

    def _graphs(self, names: Sequence[str]) -> tuple[Graph, ...]:
        """The graphs of these names that were kept; of many, the first few."""
        prepared = [self._library.prepared(name) for name in names[:MAX_GRAPHS]]
        return tuple(found.graph for found in prepared if found is not None)

    def _ran(self, compile_: Compile, graph: str | None) -> int:
        return self._executed.get((compile_.process, graph), -1) if graph else -1

    def _order(self, compile_: Compile) -> int:
        """How many other graphs the family had before this compile."""
        known = self._orders[compile_.family]
        return known.get(compile_.graph or "", len(known))

    def _remember(self, compile_: Compile, signature: Signature | None) -> None:
        known = self._orders[compile_.family]
        known.setdefault(compile_.graph or f"unnamed {len(known)}", len(known))
        if signature is not None and compile_.graph is not None:
            prepared = self._library.prepared(compile_.graph)
            shapes = frozenset(p.shape for p in prepared.graph.parameters if p.shape.dims) if prepared else frozenset()
            self._same_cut.append((compile_, signature, shapes))

    def _begin_cut(self, compile_: Compile) -> None:
        """Graphs of earlier cuts may be relatives from now on."""
        cut = None if compile_.cut_ns is None else (compile_.process, compile_.cut_ns)
        if cut is not None and cut == self._cut:
            return
        self._cut = cut
        for earlier, signature, shapes in self._same_cut:
            assert earlier.graph is not None
            self._families[earlier.family].add(earlier.graph, signature)
            for shape in shapes:
                self._taking[earlier.family, shape][earlier.graph] = None
            if not earlier.is_read:
                self._processes[earlier.process].add(earlier.graph, signature)
        self._same_cut.clear()


def _alike(one: Signature, other: Signature) -> bool:
    """Whether two graphs have most of their operations in common."""
    ours, theirs = one.common(other)
    return int(np.minimum(ours, theirs).sum()) >= ALIKE_SHARE * max(int(ours.sum()), int(theirs.sum()))


def _roots(text: str | None) -> tuple[str, ...] | None:
    """The hashes of a graph's roots in its text; None when it has none."""
    match = _ROOTS.search(text or "")
    return tuple(match[1].split(", ")) if match else None
