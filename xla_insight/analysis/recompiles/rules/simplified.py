"""Rules about graphs that the compiler had simplified before they were recorded (recording began after the runtime).

Owns what simplification hides: a factor of 1 or a term of 0 leaves no operation, so that it looks like a branch.
"""

from __future__ import annotations

from typing import Any

from xla_insight.analysis.recompiles.evidence import Evidence, Explanation, of_difference
from xla_insight.analysis.recompiles.rules.structure import net_places
from xla_insight.graph.model import Frame, Graph
from xla_insight.graph.roots import in_framework, site_of

_ARITHMETIC = frozenset({"aten__mul", "aten__div", "aten__add", "aten__sub", "aten__rsub"})
_NUMBERS = frozenset({"prim__Constant", "xla__device_data", "aten__expand"})


def simplified_scalar(evidence: Evidence) -> Explanation | None:
    """All that came or went is arithmetic with a number, in one line that both graphs run: a factor became 1, or a term
    0, and the compiler left it out.
    """
    difference, graphs = evidence.difference, (evidence.before, evidence.after)
    assert difference is not None
    if not all(graph is not None and graph.is_optimized for graph in graphs):
        return None
    if any(not p.shape.is_scalar for p in (*difference.added_parameters, *difference.removed_parameters)):
        return None
    moved = [place for place in net_places(difference) if place[1] is not None and not in_framework(place[1])]
    lines = {frame for operation, frame in moved if operation not in _NUMBERS} or {frame for _, frame in moved}
    if len(lines) != 1 or not {operation for operation, _ in moved} <= _ARITHMETIC | _NUMBERS:
        return None
    if {operation for operation, _ in moved}.isdisjoint(_ARITHMETIC | {"prim__Constant"}):
        return None  # uploads and fills alone: the compiler only arranged them otherwise
    (line,) = lines
    assert line is not None
    if not all(graph is not None and _runs_otherwise(graph, line) for graph in graphs):
        return None
    roots = [root for root in difference.roots if site_of(root.stack) == line]
    root = next((root for root in roots if root.op_type in _ARITHMETIC), next(iter(roots), None))
    more: dict[str, Any] = {"note": "simplified", "before": "", "now": "", "operation": "", "group": line}
    return of_difference("special_scalar", root, evidence, **more)


def _runs_otherwise(graph: Graph, line: Frame) -> bool:
    """Whether a graph has a value of this line that is no number: the line runs, with the arithmetic or without."""
    return any(
        not instruction.shape.is_scalar and instruction.opcode not in ("constant", "broadcast")
        for computation in graph.computations
        for instruction in computation.instructions
        if site_of(instruction.metadata.stack) == line
    )
