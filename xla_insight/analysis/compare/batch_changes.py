"""Whether two versions of a graph, of two runs, differ because the batch does: then the place is where it enters.

A batch of another size changes the shape of everything that is computed from it, so the earliest line with another
shape is only the first to use it. Owns looking up what the later run uploaded before it compiled the graph, and asks
the rule that finds the inputs of recompiles within one run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from xla_insight.analysis.recompiles import Explained
from xla_insight.analysis.recompiles.entries import absolute
from xla_insight.analysis.recompiles.evidence import Evidence
from xla_insight.analysis.recompiles.happenings import Happenings
from xla_insight.analysis.recompiles.history import Compile, build_history
from xla_insight.analysis.recompiles.rules.inputs import changed_inputs
from xla_insight.analysis.recompiles.wording import summary
from xla_insight.analysis.tables import RunTables
from xla_insight.facts.report import Site
from xla_insight.graph.diff import Prepared
from xla_insight.graph.differences import ChangedParameter, GraphDiff


class BatchChanges:
    """Explains changed graphs by their inputs; ``tables`` are those of the later run, loaded when needed."""

    def __init__(self, tables: Callable[[], RunTables]) -> None:
        self._load = tables

    def explain(
        self, graph: str, before: Prepared, now: Prepared, difference: GraphDiff
    ) -> tuple[str, str, Site | None] | None:
        """(cause, sentence, place) of a graph whose inputs of the batch have another size or type; else None."""
        changed = difference.changed_parameters or _replaced(difference)
        compile_ = self._compiles.get(graph) if changed else None
        if compile_ is None:
            return None
        own = difference
        if not own.changed_parameters:
            difference = replace(own, changed_parameters=changed)
        cut_ns = compile_.time_ns if compile_.cut_ns is None else compile_.cut_ns
        since = self._happenings.since_last_sync(compile_.process, cut_ns, cut_ns + (compile_.compile_ns or 0))
        evidence = Evidence(
            compile_, 1, None, difference, before.graph, now.graph, since,
            lambda: self._happenings.earlier_uploads(compile_.process, cut_ns),
        )  # fmt: skip
        found = changed_inputs(evidence)
        if found is None or not (difference is own or found.inputs):
            return None
        frame = found.frame
        site = None
        if frame is not None:
            file = absolute(frame.file, compile_.process, self._tables)
            source = dict(self._tables.snippet(file, frame.line)).get(frame.line, "").strip()
            site = Site(file, frame.line, frame.function, source)
        return found.cause, summary([Explained(compile_, found, None)]), site

    @cached_property
    def _tables(self) -> RunTables:
        return self._load()

    @cached_property
    def _happenings(self) -> Happenings:
        return Happenings(self._tables)

    @cached_property
    def _compiles(self) -> dict[str, Compile]:
        """The first compile of each graph."""
        found: dict[str, Compile] = {}
        for compile_ in build_history(self._tables).compiles:
            if compile_.graph is not None:
                found.setdefault(compile_.graph, compile_)
        return found


def _replaced(difference: GraphDiff) -> tuple[ChangedParameter, ...]:
    """Inputs of one graph for which the other has one of the same rank: graphs of two programs differ by more than a
    size, and then such inputs are no pair to the comparison.
    """
    left = [parameter for parameter in difference.removed_parameters if parameter.shape.dims]
    pairs = []
    for after in difference.added_parameters:
        alike = [p for p in left if len(p.shape.dims) == len(after.shape.dims) and p.shape.dtype == after.shape.dtype]
        if after.shape.dims and alike:
            before = alike[0]
            left.remove(before)
            sizes = zip(before.shape.dims, after.shape.dims, strict=True)
            pairs.append(ChangedParameter(before, after, tuple(n for n, (old, new) in enumerate(sizes) if old != new)))
    return tuple(pairs)
