"""Rules about values that were made in an earlier graph and enter this one as inputs.

Owns the case in which the earlier graph itself is the proof: it returned what is an input now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from xla_insight.analysis.recompiles.evidence import Evidence, Explanation, of_difference
from xla_insight.graph.differences import DifferenceKind, OpGroup
from xla_insight.graph.model import Graph, Shape

_CARRIES = frozenset({"constant", "broadcast", "reshape", "convert", "iota", "parameter", "transpose", "copy"})
"""Operations that hold or shape a value: a scalar that changes moves some of them too."""
_TAKES_PART = frozenset({"slice", "dynamic-slice"})
"""Operations that read a part of a table."""


def pending_values(evidence: Evidence) -> Explanation | None:
    """Tensors that were made from nothing but numbers (``arange`` before the loop) were still pending in the earlier
    graph, which returned them; now they are inputs. Of another size when they were made anew meanwhile, as the tables
    of positions are that a module makes for the longest sequence so far.
    """
    difference, before = evidence.difference, evidence.before
    assert difference is not None
    added = [p for p in difference.added_parameters if not p.shape.is_scalar]
    if not added or before is None or difference.changed_parameters:
        return None
    if any(not p.shape.is_scalar for p in difference.removed_parameters):
        return None
    made = made_from_numbers(before)
    returned = [before.instructions[n] for n in before.output_positions if n in made]
    returned = [i for i in returned if i.opcode != "parameter"]
    same = not Counter(_type(p.shape) for p in added) - Counter(_type(i.shape) for i in returned)
    if not same and Counter(_rank(p.shape) for p in added) - Counter(_rank(i.shape) for i in returned):
        return None
    reads = _CARRIES if same else _CARRIES | _TAKES_PART
    if not _only(difference.removed, before, made) or not _only(difference.inserted, None, frozenset(), reads):
        return None
    root = next((r for r in difference.roots if r.kind is DifferenceKind.PARAMETER_ADDED), difference.root)
    kind = _type if same else _rank
    origin = next(i for i in returned if kind(i.shape) == kind(added[0].shape))
    stack = origin.metadata.stack or (root.stack if root is not None else ())
    if same:
        return of_difference("warm_up", root, evidence, expected=True, note="state", stack=stack)
    sizes = {"before": str(origin.shape), "now": str(added[0].shape)}
    return of_difference("warm_up", root, evidence, expected=True, note="table", stack=stack, **sizes)


def _type(shape: Shape) -> tuple[str, tuple[int, ...]]:
    return shape.dtype, shape.dims


def _rank(shape: Shape) -> tuple[str, int]:
    return shape.dtype, len(shape.dims)


def made_from_numbers(graph: Graph) -> frozenset[int]:
    """Positions in the entry computation of values that depend on no input but scalars."""
    made: set[int] = set()
    for position, instruction in enumerate(graph.instructions):
        if instruction.opcode == "parameter":
            own = instruction.shape.is_scalar
        else:
            own = all(operand in made for operand in instruction.operands)
        if own:
            made.add(position)
    return frozenset(made)


def _only(
    groups: Iterable[OpGroup], graph: Graph | None, made: frozenset[int], carries: frozenset[str] = _CARRIES
) -> bool:
    """Whether the instructions merely carry values, or (of ``graph``) belong to the making of such values."""
    for group in groups:
        if all(opcode in carries for opcode, _ in group.opcodes):
            continue
        if graph is None or group.count > len(group.spots):
            return False
        if any(s.computation == graph.entry.name and s.position not in made for s in group.spots):
            return False
    return True
