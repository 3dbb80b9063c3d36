"""Rules about numbers that Python puts into the graph, and about state that the optimizer creates."""

from __future__ import annotations

from xla_insight.analysis.recompiles.evidence import Evidence, Explanation, of_difference, operation
from xla_insight.graph.differences import Difference, DifferenceKind, GraphDiff, ScalarChange
from xla_insight.graph.model import Parameter
from xla_insight.graph.roots import in_framework, site_of
from xla_insight.graph.scalars import scalar_stack

_INDEXING = frozenset({
    "slice", "dynamic-slice", "dynamic-update-slice", "pad", "gather", "scatter", "power", "iota", "broadcast",
    "concatenate", "reshape",
})  # fmt: skip
"""Operations in which a number is a position, a length or an exponent, and not a factor."""
_POSITIONS = ("pow", "slice", "select", "pad", "index", "gather", "scatter", "roll", "arange", "narrow", "update")
_OWN = (DifferenceKind.LITERAL, DifferenceKind.ATTRIBUTE, DifferenceKind.SHAPE)
_SHAPING = frozenset({"broadcast", "reshape", "convert"})
FEW_OPERATIONS = 6
FEW_SHARE = 0.02


def optimizer_state(evidence: Evidence) -> Explanation | None:
    """The optimizer created its state in the first step; now it is an input. So are averaged weights of torch."""
    difference = evidence.difference
    assert difference is not None
    added = [p for p in difference.added_parameters if not p.shape.is_scalar]
    removed = [p for p in difference.removed_parameters if not p.shape.is_scalar]
    state = [p for p in added if _is_optimizers(p)]
    if not state or 2 * len(state) < len(added) or 4 * len(removed) > len(added):
        return None
    frame = site_of(state[0].metadata.stack)
    averages = any(f.file.endswith("/swa_utils.py") for f in state[0].metadata.stack)
    return Explanation(
        "warm_up",
        expected=True,
        kind=str(DifferenceKind.PARAMETER_ADDED),
        stack=state[0].metadata.stack,
        operation=operation(state[0].metadata.op_type),
        opcode="parameter",
        now=f"{len(state)} more inputs",
        follows=difference.follows,
        group=frame,
        note="averages" if averages else "optimizer",
    )


def _is_optimizers(parameter: Parameter) -> bool:
    return any("/optim/" in frame.file or "/optimizer" in frame.file for frame in parameter.metadata.stack)


def scalars(evidence: Evidence) -> Explanation | None:
    """Equal once scalars are taken for one: two became equal, or one became 0, 1 or -1."""
    difference = evidence.difference
    assert difference is not None
    if not difference.same_but_scalars:
        return None
    to_constant = [c for c in difference.scalar_changes if "constant" in (c.before + c.after)]
    change = next(iter([*to_constant, *difference.scalar_changes]), None)
    if not to_constant and difference.special_constants_before == difference.special_constants_after:
        alone = _only_scalar(difference)
        if alone is not None:
            return _shared_explanation(alone, evidence)
        return _scalar_explanation("shared_scalar", change, evidence)
    if change is not None and change.is_literal_change and _is_part_of_operation(change):
        return _scalar_explanation("baked_value", change, evidence)
    if evidence.order == 1 and change is not None and _is_accumulator(change):
        return _scalar_explanation("warm_up", change, evidence, note="accumulator")
    return _scalar_explanation("special_scalar", change, evidence)


def _is_part_of_operation(change: ScalarChange) -> bool:
    """Whether a number is a position, a length or an exponent; one that is merely spread out is a factor or a fill."""
    consumer = change.consumer.instruction
    if consumer.opcode not in _SHAPING:
        return consumer.opcode in _INDEXING
    return any(word in consumer.metadata.op_type for word in _POSITIONS)


def _only_scalar(difference: GraphDiff) -> Parameter | None:
    """The one scalar input that came or went while everything else is as it was: it has a twin."""
    inputs = [*difference.added_parameters, *difference.removed_parameters]
    scalar = len(inputs) == 1 and inputs[0].shape.is_scalar and bool(inputs[0].metadata.stack)
    return inputs[0] if scalar else None


def _shared_explanation(scalar: Parameter, evidence: Evidence) -> Explanation:
    difference = evidence.difference
    assert difference is not None
    stack = scalar.metadata.stack
    return Explanation(
        "shared_scalar",
        kind=str(DifferenceKind.SCALAR),
        stack=stack,
        opcode="parameter",
        follows=difference.follows,
        group=site_of(stack),
    )


def _is_accumulator(change: ScalarChange) -> bool:
    """A constant of the first graph that is an input now and was made elsewhere than it is used: it began as zero."""
    if not change.before.startswith("constant") or not change.after.startswith("parameter"):
        return False
    return site_of(change.before_stack) != site_of(change.after_stack)


def _scalar_explanation(cause: str, change: ScalarChange | None, evidence: Evidence, note: str = "") -> Explanation:
    difference = evidence.difference
    assert difference is not None
    expected = cause == "warm_up"
    if change is None:
        return of_difference(cause, difference.root, evidence, expected=expected, note=note)
    stack = scalar_stack(change)
    return Explanation(
        cause,
        expected=expected,
        kind=str(DifferenceKind.SCALAR),
        stack=stack,
        operation=operation(change.consumer.instruction.metadata.op_type),
        opcode=change.consumer.instruction.opcode,
        before=_scalar(change.before),
        now=_scalar(change.after),
        follows=difference.follows,
        group=site_of(stack),
        note=note,
    )


def _scalar(text: str) -> str:
    """ "constant 1" -> "the constant 1"; "parameter 3" -> "an input"."""
    kind, _, value = text.partition(" ")
    return f"the constant {value}" if kind == "constant" else "an input"


def same_structure(evidence: Evidence) -> Explanation | None:
    """The same operations in the same order: a size or a number in one of them differs."""
    difference = evidence.difference
    assert difference is not None
    if not difference.same_structure:
        return None
    root = _best_root(difference.roots) or difference.root
    if root is None:
        return None
    return _of_root(root, evidence)


def nearly_same_structure(evidence: Evidence) -> Explanation | None:
    """A size or a number differs, and a few operations come or go with it: a slice from 0 needs no padding."""
    difference = evidence.difference
    assert difference is not None
    moved = difference.inserted_count + difference.removed_count
    few = max(FEW_OPERATIONS, FEW_SHARE * max(difference.sizes.before, difference.sizes.after))
    elsewhere = [g for g in (*difference.inserted, *difference.removed) if g.frame and not in_framework(g.frame)]
    # What only the framework's own lines made (the backward pass of the operation that differs) follows from it.
    if (moved > few and elsewhere) or difference.added_parameters or difference.removed_parameters:
        return None
    root = next((r for r in difference.roots if r.kind in _OWN and _has_own_line(r)), None)
    return _of_root(root, evidence) if root is not None else None


def _of_root(root: Difference, evidence: Evidence) -> Explanation | None:
    if DifferenceKind.SHAPE in root.kinds:
        sizes = root.after.instruction.shape.dims if root.after else ()
        details = (("sizes", sizes), ("reads", tuple(sorted(evidence.since.scalars))))
        return of_difference("python_shape", root, evidence, details=details)
    if root.kinds[0] in (DifferenceKind.LITERAL, DifferenceKind.ATTRIBUTE, DifferenceKind.SCALAR):
        return of_difference("baked_value", root, evidence, **_made_for(root, evidence))
    return None


def _made_for(root: Difference, evidence: Evidence) -> dict[str, str]:
    """A constant is a part of the operation that uses it: ``pow``, not ``prim::Constant``."""
    spot = root.after
    if spot is None or spot.instruction.opcode != "constant" or evidence.after is None:
        return {}
    wanted = {spot.position}
    for position, instruction in enumerate(evidence.after.instructions):
        if wanted & set(instruction.operands):
            if instruction.metadata.op_type.startswith("aten__") and instruction.opcode not in _SHAPING:
                return {"operation": operation(instruction.metadata.op_type), "opcode": instruction.opcode}
            wanted.add(position)  # shaped for its use
    return {}


def _has_own_line(root: Difference) -> bool:
    frame = site_of(root.stack)
    return frame is not None and not in_framework(frame) and not root.stack_inferred


def _best_root(roots: tuple[Difference, ...]) -> Difference | None:
    """The first difference whose line is known: operations of the backward pass have none."""
    return next(filter(_has_own_line, roots), None) or next((root for root in roots if root.stack), None)
