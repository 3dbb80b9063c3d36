"""Rules about sizes and types of what enters the graph: batch inputs, sizes that come from values, state that grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xla_insight.analysis.recompiles.evidence import (
    Evidence,
    Explanation,
    in_optimizer,
    of_difference,
    operation,
)
from xla_insight.analysis.recompiles.happenings import Upload
from xla_insight.analysis.tables import Place
from xla_insight.facts.report import Site
from xla_insight.graph.differences import ChangedParameter, Difference, DifferenceKind
from xla_insight.graph.model import Frame, Graph, Shape
from xla_insight.graph.roots import in_framework, site_of

DATA_DEPENDENT = ("nonzero", "masked_select", "repeat_interleave", "unique", "bincount", "argwhere")
"""CPU operations whose result has a size that depends on values."""
_SMALLEST_READ = 2
"""Smaller numbers are read and used everywhere: equality proves nothing."""


def changed_inputs(evidence: Evidence) -> Explanation | None:
    """A batch input has other dimensions or another element type."""
    difference = evidence.difference
    assert difference is not None
    found = [(c, uploads) for c in difference.changed_parameters if (uploads := _uploads(evidence, c))]
    if not found:
        return None
    order = {upload: n for n, upload in reversed(list(enumerate(evidence.since.uploads)))}
    found.sort(key=lambda pair: min(order.get(upload, len(order)) for upload in pair[1]))
    others = [(c, uploads) for c, uploads in found if not c.dtype_changed]
    if others:
        return _input_explanation(evidence, "input_shape", others)
    return _input_explanation(evidence, "input_dtype", found)


def data_dependent_shape(evidence: Evidence) -> Explanation | None:
    """A size came from the values of a tensor: an operation on the CPU said how large its result is."""
    difference = evidence.difference
    assert difference is not None
    operations = _data_operations(evidence)
    changed = [c for c in difference.changed_parameters if c.shape_changed]
    if operations and changed:
        changed.sort(key=lambda c: not c.stack)
        return _parameter_explanation("data_dependent_shape", changed[0], evidence, note=operations[0])
    root = difference.root
    computed = root is not None and root.after is not None and root.after.instruction.opcode != "parameter"
    sized = root is not None and computed and DifferenceKind.SHAPE in root.kinds
    if root is not None and sized and (_read_sizes(evidence, root) or _asked(evidence, root)):
        return of_difference("data_dependent_shape", root, evidence, note="read")
    if operations and not difference.same_structure and _appeared(evidence):
        return of_difference("data_dependent_shape", root, evidence, note=operations[0])
    return None


def is_updated(evidence: Evidence, changed: ChangedParameter) -> bool:
    """Whether both graphs give the tensor another value in place, as a step does with weights: none of a batch, and
    none that grew, since in place it keeps its size.
    """
    before, after = evidence.before, evidence.after
    if before is None or after is None or not changed.shape_changed:
        return False
    return changed.before.number in before.donors and changed.after.number in after.donors


def other_weights(evidence: Evidence) -> Explanation | None:
    """Weights of another size take part: Python used another module (one of several heads or experts)."""
    difference = evidence.difference
    assert difference is not None
    updated = [c for c in difference.changed_parameters if is_updated(evidence, c) and not in_optimizer(c.stack)]
    shown = next((c for c in updated if (frame := site_of(c.stack)) is not None and not in_framework(frame)), None)
    if shown is None:
        return None
    return _parameter_explanation("control_flow", shown, evidence, note="weights")


def state_shape(evidence: Evidence) -> Explanation | None:
    """A tensor that lives on the device has another size or element type: the graph before this one made it so."""
    difference = evidence.difference
    assert difference is not None
    changed = [c for c in difference.changed_parameters if c.shape_changed]
    if not changed:
        return _state_dtype(evidence)
    first = changed[0]
    made = _maker(evidence, first.after.shape)
    if made is not None:
        stack, name = made
        return _parameter_explanation("python_shape", first, evidence, stack=stack, operation=name, note="state")
    return _parameter_explanation("python_shape", first, evidence, note="state")


# ---- batch inputs ----------------------------------------------------------------------------------------------------


def _uploads(evidence: Evidence, changed: ChangedParameter) -> tuple[Upload, ...]:
    """The uploads that a changed input came from; one of its own when it was uploaded where nobody looked."""
    after = changed.after
    if after.shape.is_scalar or is_updated(evidence, changed):
        return ()
    recent = evidence.find_upload(after, recent=True)
    if recent:
        return recent
    if _data_operations(evidence) or evidence.was_output(after.shape):
        return ()
    earlier = evidence.find_upload(after, recent=False)
    if earlier:
        return earlier[:1]
    # Data that no graph returned and no operation on the CPU made: `torch.tensor(..., device=...)` and the like.
    if after.metadata.op_type == "xla__device_data" and changed.stack and evidence.previous:
        frame = site_of(changed.stack)
        if frame is not None and not in_optimizer(changed.stack):
            return (_unseen_upload(frame, after.shape),)
    return ()


def _unseen_upload(frame: Frame, shape: Shape) -> Upload:
    site = Site(frame.file, frame.line, frame.function)
    return Upload("", shape.dtype, shape.dims, Place(site, site), None)


def _input_explanation(
    evidence: Evidence, cause: str, found: Sequence[tuple[ChangedParameter, tuple[Upload, ...]]]
) -> Explanation:
    changed, uploads = found[0]
    named = _names(uploads for _, uploads in found)
    place = next((u.maker for u in uploads if u.maker is not None), None) or uploads[0].place
    site = place.user_site or place.site if uploads[0].maker is None else place.site
    dims = tuple((name, d) for c, own in found for name in (_names([own])[:1] or ("",)) for d in c.dims)
    difference = evidence.difference
    assert difference is not None
    return Explanation(
        cause,
        kind=str(DifferenceKind.DTYPE if cause == "input_dtype" else DifferenceKind.SHAPE),
        stack=changed.stack,
        operation=operation(changed.after.metadata.op_type),
        opcode="parameter",
        before=str(changed.before.shape),
        now=str(changed.after.shape),
        inputs=named,
        dims=tuple(dict.fromkeys(dims)),
        follows=difference.follows,
        site=site,
        group=named or (site.file, site.line) if site else named,
        note="loader" if uploads[0].maker is not None else "",
    )


def _names(groups: Iterable[Sequence[Upload]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(upload.name for uploads in groups for upload in uploads if upload.name))


# ---- sizes from values -----------------------------------------------------------------------------------------------


def _data_operations(evidence: Evidence) -> list[str]:
    """Operations since the last sync whose result has a size of its own."""
    found = []
    for name in evidence.since.operations or ():
        plain = name.removeprefix("aten::").lstrip("_")
        if plain.startswith(DATA_DEPENDENT):
            found.append(plain)
    return found


def _read_sizes(evidence: Evidence, root: Difference) -> bool:
    """Whether a size that is new here is a number that Python had read from a tensor."""
    difference = evidence.difference
    assert difference is not None
    sizes = {move.after for move in difference.moves if not move.derived}
    spot = root.after
    if spot is not None:
        sizes |= set(spot.instruction.shape.dims)
    if root.before is not None:
        sizes -= set(root.before.instruction.shape.dims)
    return any(size >= _SMALLEST_READ and size in evidence.since.scalars for size in sizes)


def _asked(evidence: Evidence, root: Difference) -> bool:
    """Whether an operation of this line asked for a value before it made the size."""
    frame = site_of(root.stack)
    return frame is not None and any(
        site.line == frame.line and site.file.endswith(frame.file) for site in evidence.since.asked
    )


def _appeared(evidence: Evidence) -> bool:
    """Whether an input without an upload appeared or went: a selection that was empty, or no longer is."""
    difference = evidence.difference
    assert difference is not None
    inputs = [*difference.added_parameters, *difference.removed_parameters]
    return any(p.shape.dims and not in_optimizer(p.metadata.stack) for p in inputs)


# ---- state -----------------------------------------------------------------------------------------------------------


def _state_dtype(evidence: Evidence) -> Explanation | None:
    """Tensors that live on the device were cast: a module moved to another dtype."""
    difference = evidence.difference
    assert difference is not None
    changed = sorted(difference.changed_parameters, key=lambda c: not c.stack)
    if changed:
        found = _parameter_explanation("input_dtype", changed[0], evidence, note="state")
        return replace(found, kind=str(DifferenceKind.DTYPE))
    return _cast_before(evidence)


def _cast_before(evidence: Evidence) -> Explanation | None:
    """The graph before this one cast the tensors that enter now: other lines use them, so they look like new ones."""
    difference = evidence.difference
    assert difference is not None
    added = [p for p in difference.added_parameters if not p.shape.is_scalar]
    removed = [p for p in difference.removed_parameters if not p.shape.is_scalar]
    sizes = [sorted(p.shape.dims for p in inputs) for inputs in (added, removed)]
    types = {p.shape.dtype for p in added} & {p.shape.dtype for p in removed}
    if not added or sizes[0] != sizes[1] or types:
        return None
    now = next((p for p in added if p.metadata.stack), added[0])
    before = next(p for p in removed if p.shape.dims == now.shape.dims)
    return Explanation(
        "input_dtype",
        kind=str(DifferenceKind.DTYPE),
        stack=now.metadata.stack,
        operation=operation(now.metadata.op_type),
        opcode="parameter",
        before=str(before.shape),
        now=str(now.shape),
        follows=difference.follows,
        group=site_of(now.metadata.stack),
        note="state",
    )


def _maker(evidence: Evidence, shape: Shape) -> tuple[tuple[Frame, ...], str] | None:
    """(stack, operation) of what returned a value of this type in a graph executed just before."""
    for graph in (*evidence.previous, *([evidence.before] if evidence.before is not None else [])):
        found = _output_maker(graph, shape)
        if found is not None:
            return found
    return None


def _output_maker(graph: Graph, shape: Shape) -> tuple[tuple[Frame, ...], str] | None:
    outputs = [graph.instructions[position] for position in graph.output_positions]
    made = [i for i in outputs if i.shape[:2] == shape[:2] and i.metadata.stack and i.opcode != "parameter"]
    # A weight may have the same size by chance, and an optimizer never changes the size of one.
    made.sort(key=lambda instruction: in_optimizer(instruction.metadata.stack))
    return (made[0].metadata.stack, operation(made[0].metadata.op_type)) if made else None


def _parameter_explanation(
    cause: str, changed: ChangedParameter, evidence: Evidence, *, note: str, **more: object
) -> Explanation:
    difference = evidence.difference
    assert difference is not None
    stack = more.get("stack", changed.stack)
    assert isinstance(stack, tuple)
    name = more.get("operation", operation(changed.after.metadata.op_type))
    return Explanation(
        cause,
        kind=str(DifferenceKind.SHAPE),
        stack=stack,
        operation=str(name),
        opcode="parameter",
        before=str(changed.before.shape),
        now=str(changed.after.shape),
        dims=tuple(("", d) for d in changed.dims),
        follows=difference.follows,
        group=site_of(stack),
        note=note,
    )
