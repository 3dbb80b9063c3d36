"""Which graph of one run became which graph of the other: by hash, by structure, and last by where it is cut.

A hash changes with every flag and every edit, so it only proves that two graphs are the same. Owns the order of
pairing and the sentence about the difference; leaves finding the difference to ``graph.diff``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xla_insight.analysis.compare.batch_changes import BatchChanges
from xla_insight.analysis.compare.graph_loading import KnownGraph, known_graphs
from xla_insight.analysis.tables import RunTables, load_tables
from xla_insight.facts import numbers
from xla_insight.facts.comparison import GraphChanges, GraphPair
from xla_insight.facts.report import Site
from xla_insight.graph.diff import compare
from xla_insight.graph.differences import Difference, DifferenceKind, GraphDiff
from xla_insight.graph.nearest import Signature
from xla_insight.graph.roots import site_of

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

LEAST_SIMILARITY = 0.5
"""Share of operations that two graphs must have in common to be versions of one graph."""
_ORDER = ("changed", "added", "gone", "renamed")
Known = dict[str, KnownGraph]


def graph_changes(before: Run, now: Run, tables: RunTables | None = None) -> GraphChanges:
    """What became of every graph of both runs, most telling first; ``tables``: those of ``now``, when loaded."""
    batches = BatchChanges(lambda: load_tables(now) if tables is None else tables)
    shared = set(before.table("graphs")["graph"]) & set(now.table("graphs")["graph"])
    old, new = known_graphs(before, shared), known_graphs(now, shared)
    pairs: list[GraphPair] = []
    for one, other in _equal_structures(old, new):
        pairs.append(_renamed(one, other))
    for one, other in _near_structures(old, new):
        pairs.append(_changed(one, other, (before, now), batches))
    for one, other in _equal_places(old, new):
        pairs.append(_moved(one, other))
    pairs += [_alone("added", None, graph) for graph in new.values()]
    pairs += [_alone("gone", graph, None) for graph in old.values()]
    pairs.sort(key=lambda p: (_ORDER.index(p.change), not p.line_known, -(p.executions or 0), -(p.compile_s or 0.0)))
    return GraphChanges(len(shared), tuple(pairs))


def _equal_structures(old: Known, new: Known) -> Iterable[tuple[KnownGraph, KnownGraph]]:
    """Equal computations under another key. Pairs are taken out of both."""
    by_hash: dict[int, list[str]] = defaultdict(list)
    for name, graph in old.items():
        if graph.fingerprints is not None:
            by_hash[graph.fingerprints.exact].append(name)
    for name, graph in list(new.items()):
        if graph.fingerprints is not None and by_hash[graph.fingerprints.exact]:
            yield old.pop(by_hash[graph.fingerprints.exact].pop(0)), new.pop(name)


def _near_structures(old: Known, new: Known) -> Iterable[tuple[KnownGraph, KnownGraph]]:
    """Versions of one graph, nearest pairs first. Pairs are taken out of both."""
    scored = []
    for place, (name, graph) in enumerate(old.items()):
        for other_place, (other_name, other) in enumerate(new.items()):
            if graph.signature is not None and other.signature is not None:
                score = _similarity(graph.signature, other.signature)
                # Of equally near ones: cut at the same place, then in the order of the program.
                order = (-score, graph.place != other.place, abs(place - other_place))
                scored.append((order, name, other_name))
    for order, name, other_name in sorted(scored):
        if -order[0] >= LEAST_SIMILARITY and name in old and other_name in new:
            yield old.pop(name), new.pop(other_name)


def _similarity(one: Signature, other: Signature) -> float:
    """Mean of the shares of operations and of exact instructions that both have; 0 when the operations differ more.

    Lines are left out: an edit moves all lines below it.
    """
    shares = []
    for ours, theirs in ((one.operations, other.operations), (one.exact, other.exact)):
        union = int(np.maximum(ours, theirs).sum())
        shares.append(int(np.minimum(ours, theirs).sum()) / union if union else 1.0)
    return sum(shares) / 2 if shares[0] >= LEAST_SIMILARITY else 0.0


def _equal_places(old: Known, new: Known) -> Iterable[tuple[KnownGraph, KnownGraph]]:
    """Graphs cut at the same place, in order; nothing is known of their content. Pairs are taken out of both."""
    by_place: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, graph in old.items():
        if graph.site is not None:
            by_place[graph.place].append(name)
    for name, graph in list(new.items()):
        candidates = [n for n in by_place.get(graph.place, ()) if old[n].parsed is None or graph.parsed is None]
        if candidates:
            by_place[graph.place].remove(candidates[0])
            yield old.pop(candidates[0]), new.pop(name)


def _renamed(before: KnownGraph, now: KnownGraph) -> GraphPair:
    summary = (
        f"The graph cut at {numbers.where(now.site, None)} computes the same under another key: compiler flags,"
        " versions, donated buffers or shared scalars differ."
    )
    return _pair("renamed", before, now, "structure", summary)


def _moved(before: KnownGraph, now: KnownGraph) -> GraphPair:
    summary = f"Another graph is cut at {numbers.where(now.site, None)}; its HLO was not kept in both runs."
    return _pair("changed", before, now, "place", summary)


def _alone(change: str, before: KnownGraph | None, now: KnownGraph | None) -> GraphPair:
    graph = now or before
    assert graph is not None
    which = "Only the second run" if now is not None else "Only the first run"
    ran = "" if graph.executions is None else f" and executed {numbers.plural(graph.executions, 'time')}"
    summary = f"{which} has this graph, cut at {numbers.where(graph.site, None)}{ran}."
    return _pair(change, before, now, "", summary)


def _changed(before: KnownGraph, now: KnownGraph, runs: tuple[Run, Run], batches: BatchChanges) -> GraphPair:
    assert before.prepared is not None and now.prepared is not None
    found = compare(before.prepared, now.prepared)
    batch = batches.explain(now.graph, before.prepared, now.prepared, found)
    if batch is not None:
        cause, sentence, place = batch
        return replace(_pair("changed", before, now, "structure", sentence, place), cause=cause)
    gone = found.root is not None and found.root.after is None
    line = _line_of(found.root, runs[0] if gone else runs[1])
    return _pair("changed", before, now, "structure", _sentence(found, line), line)


def _line_of(root: Difference | None, run: Run) -> Site | None:
    """The line of the program that makes the difference."""
    frame = site_of(root.stack) if root is not None else None
    if frame is None or not frame.line:
        return None
    known = dict(run.snippet(frame.file, frame.line))
    return Site(frame.file, frame.line, frame.function, known.get(frame.line, ""))


def _sentence(found: GraphDiff, line: Site | None) -> str:
    root = found.root
    if root is None:
        return "The graphs differ only in buffers that they donate, in sharding or in the order of their inputs."
    at = f"At {numbers.place(line.file, line.line)}: " if line is not None else ""
    operation = f"{root.op_type.replace('__', '::', 1)} " if root.op_type else ""
    before, now = root.before_text, root.after_text
    if root.kind in (DifferenceKind.INSERTED, DifferenceKind.PARAMETER_ADDED):
        what = f"{operation}{now or root.kind.value.replace('_', ' ')} is new"
    elif root.kind in (DifferenceKind.REMOVED, DifferenceKind.PARAMETER_REMOVED):
        what = f"{operation}{before or root.kind.value.replace('_', ' ')} is gone"
    else:
        kind = f"{root.kind.value.replace('_', ' ')}, " if root.kind is not DifferenceKind.LITERAL else ""
        what = f"{operation}{kind}now {now or 'n/a'}, before {before or 'n/a'}"
    more = len(found.roots) - 1
    beside = f"; {numbers.plural(more, 'more difference')} beside it" if more else ""
    text = f"{at}{what}{beside}."
    return text[0].upper() + text[1:] if not at else text


def _pair(
    change: str,
    before: KnownGraph | None,
    now: KnownGraph | None,
    matched_by: str,
    summary: str,
    line: Site | None = None,
) -> GraphPair:
    shown = now or before
    assert shown is not None
    return GraphPair(
        change=change,
        before=before.graph if before else None,
        now=now.graph if now else None,
        matched_by=matched_by,
        summary=summary,
        site=line or shown.site,
        line_known=line is not None,
        compile_s=shown.compile_s,
        executions=shown.executions,
    )
