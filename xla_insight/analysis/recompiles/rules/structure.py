"""Rules about what the graph computes and returns: state created in the first pass, other outputs, another branch."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from xla_insight.analysis.recompiles.evidence import (
    SAME_COMPUTATION,
    SAME_SIMPLIFIED,
    Evidence,
    Explanation,
    in_optimizer,
    of_difference,
)
from xla_insight.analysis.recompiles.happenings import Upload
from xla_insight.graph.differences import Difference, DifferenceKind, GraphDiff, OpGroup
from xla_insight.graph.model import Frame, Graph
from xla_insight.graph.roots import in_framework, site_of

LEFTOVER_SHARE = 0.8
FEW_OPERATIONS = 6
"""What a scalar of state brings along at most."""
_NO_WORK = frozenset({"prim__Constant", "aten__expand", "aten__view", "aten__permute", "xla__device_data"})
"""Operations that hold or shape a value."""
_INITIAL = frozenset({"constant", "broadcast", "reshape", "convert", "iota", "parameter", "multiply", "add"})
"""What state that begins as zero leaves in the graph that creates it."""


def same_computation(evidence: Evidence) -> Explanation | None:
    """The graphs compute the same: buffers, sharding or the sharing of nodes differ."""
    difference = evidence.difference
    assert difference is not None
    if not difference.same_computation:
        return None
    if difference.donors_differ or difference.aliases_differ:
        numbers = (len(difference.donors_added), len(difference.donors_removed))
        return Explanation("donation", kind=str(DifferenceKind.DONATION), note=_donation(*numbers))
    if difference.sharding_differs:
        return _sharding(evidence, difference.shardings_removed, difference.shardings_added)
    if difference.outputs.before_count != difference.outputs.after_count:
        return _outputs(evidence)
    simplified = evidence.after is not None and evidence.after.is_optimized
    return Explanation("unknown", note=SAME_SIMPLIFIED if simplified else SAME_COMPUTATION)


def _donation(added: int, removed: int) -> str:
    parts = [f"{added} more" if added else "", f"{removed} fewer" if removed else ""]
    return " and ".join(part for part in parts if part) or "other"


def sharding_marks(evidence: Evidence) -> Explanation | None:
    """Nothing but sharding annotations was added or removed."""
    difference = evidence.difference
    assert difference is not None
    groups = [*difference.inserted, *difference.removed]
    if difference.changed_parameters or not (groups or difference.sharding_differs):
        return None
    if groups and all(_is_sharding_mark(group) for group in groups):
        return _sharding(evidence, difference.shardings_removed, difference.shardings_added)
    only = {root.kind for root in difference.roots} == {DifferenceKind.SHARDING}
    return _sharding(evidence, difference.shardings_removed, difference.shardings_added) if only else None


def _is_sharding_mark(group: OpGroup) -> bool:
    targets = {spot.instruction.attributes.get("custom_call_target") for spot in group.spots}
    calls = all(opcode == "custom-call" for opcode, _ in group.opcodes)
    return calls and all(target is not None and "Sharding" in target for target in targets)


def _sharding(evidence: Evidence, before: tuple[str, ...], now: tuple[str, ...]) -> Explanation:
    warm = evidence.order == 1
    root = next((r for r in (evidence.difference.roots if evidence.difference else ()) if r.stack), None)
    upload = None if warm or root is not None else _sharded_upload(evidence)
    site = (upload.place.user_site or upload.place.site) if upload is not None else None
    more: dict[str, Any] = {} if site is None else {"site": site, "group": (site.file, site.line)}
    return of_difference(
        "warm_up" if warm else "sharding",
        root,
        evidence,
        expected=warm,
        kind=str(DifferenceKind.SHARDING),
        before=", ".join(before)[:200],
        now=", ".join(now)[:200],
        note="sharding",
        inputs=(upload.name,) if upload is not None and upload.name else (),
        **more,
    )


def _sharded_upload(evidence: Evidence) -> Upload | None:
    """Where the first input entered the device whose sharding differs."""
    difference, before, after = evidence.difference, evidence.before, evidence.after
    if difference is None or before is None or after is None:
        return None
    known = ({p.number: p for p in before.parameters}, {p.number: p for p in after.parameters})
    for earlier, later in difference.parameter_pairs:
        one, other = known[0].get(earlier), known[1].get(later)
        if one is None or other is None or one.sharding == other.sharding:
            continue
        found = evidence.find_upload(other, recent=True) or evidence.find_upload(other, recent=False)
        if found:
            return found[0]
    return None


def live_outputs(evidence: Evidence) -> Explanation | None:
    """The same computations, and other tensors were alive at the cut."""
    difference = evidence.difference
    assert difference is not None
    if difference.outputs_only or (difference.contains_before and difference.contains_after):
        return _outputs(evidence)
    return None


def _outputs(evidence: Evidence) -> Explanation:
    difference = evidence.difference
    assert difference is not None
    outputs, graph = difference.outputs, evidence.after
    position = outputs.added[0] if outputs.added else None
    stack: tuple[Frame, ...] = ()
    if position is not None and graph is not None and position < len(graph.output_positions):
        stack = graph.instructions[graph.output_positions[position]].metadata.stack
    elif outputs.removed and evidence.before is not None:
        stack = evidence.before.instructions[evidence.before.output_positions[outputs.removed[0]]].metadata.stack
    return Explanation(
        "live_outputs",
        kind=str(DifferenceKind.OUTPUTS),
        stack=stack,
        before=f"{outputs.before_count} outputs",
        now=f"{outputs.after_count} outputs",
        note=", ".join(map(str, (outputs.added_shapes or outputs.removed_shapes)[:3])),
        group=site_of(stack),
    )


def leftover(evidence: Evidence) -> Explanation | None:
    """What is new was pending since a value was read: the read ran it and left it in the graph of the next sync."""
    difference = evidence.difference
    assert difference is not None
    if not difference.inserted or not evidence.read_graphs or evidence.compile.is_read:
        return None
    added = net_places(difference)
    known: Counter[tuple[str, Frame | None]] = Counter()
    for graph in evidence.read_graphs:
        known |= places_of(graph)
    named = {place: n for place, n in added.items() if place[1] is not None and n > 0}
    total = sum(named.values())
    if not total or sum(min(n, known[place]) for place, n in named.items()) < LEFTOVER_SHARE * total:
        return None
    return of_difference("live_outputs", _first(difference, DifferenceKind.INSERTED), evidence, note="leftover")


def net_places(difference: GraphDiff) -> dict[tuple[str, Frame | None], int]:
    """(framework operation, line) -> how many more instructions it has now. The compiler of an optimized graph makes
    other instructions of the same operation: one gone and one new is none.
    """
    found: dict[tuple[str, Frame | None], int] = defaultdict(int)
    for sign, groups in ((1, difference.inserted), (-1, difference.removed)):
        for group in groups:
            found[group.op_type, group.frame] += sign * group.count
    return {place: number for place, number in found.items() if number}


def places_of(graph: Graph) -> Counter[tuple[str, Frame | None]]:
    """How many instructions each (framework operation, line) of a graph has."""
    return Counter((i.metadata.op_type, site_of(i.metadata.stack)) for i in graph.instructions)


def state_by_position(evidence: Evidence) -> Explanation | None:
    """The second graph of its family, used from then on instead of the first, with more inputs or operations."""
    difference = evidence.difference
    assert difference is not None
    if evidence.order != 1 or evidence.against_ran != 1 or 0 <= evidence.ran < 2:
        return None
    if any(_is_weight(p.metadata.stack) for p in difference.added_parameters):
        return None
    if not (difference.contains_before or _only_initial_values_went(difference)) or _only_switches_on(difference):
        return None
    root = next((r for r in difference.roots if r.kind is DifferenceKind.PARAMETER_ADDED and r.stack), None)
    root = root or _first(difference, DifferenceKind.INSERTED)
    return of_difference("warm_up", root, evidence, expected=True, note="state")


def gradients_appeared(evidence: Evidence) -> Explanation | None:
    """Gradients that did not exist in the pass before are set to zero now, and nothing else is computed anew."""
    difference = evidence.difference
    assert difference is not None
    groups = [group for group in difference.inserted if group.frame is not None and not in_framework(group.frame)]
    zeroed = [group for group in groups if _sets_zero(group.stack)]
    others = [group for group in groups if not _sets_zero(group.stack) and not in_optimizer(group.stack)]
    computed = [g for g in difference.removed if g.frame and not in_framework(g.frame) and not in_optimizer(g.stack)]
    if not zeroed or others or computed or difference.added_parameters or difference.removed_parameters:
        return None
    root = next((r for r in difference.roots if r.kind is DifferenceKind.INSERTED and _sets_zero(r.stack)), None)
    return of_difference("warm_up", root, evidence, expected=True, note="gradients")


def _sets_zero(stack: tuple[Frame, ...]) -> bool:
    return any("zero_grad" in frame.function for frame in stack)


def _only_switches_on(difference: GraphDiff) -> bool:
    """No input but scalars is new, and much more is computed: an argument that was 0 before, or a branch. A scalar of
    state is added up.
    """
    added = difference.added_parameters
    return all(p.shape.is_scalar for p in added) and difference.inserted_count > FEW_OPERATIONS * len(added)


def _only_initial_values_went(difference: GraphDiff) -> bool:
    """State that began as zeros is an input now, and the zeros are gone."""
    if not difference.added_parameters or difference.changed_parameters:
        return False
    if any(not p.shape.is_scalar for p in difference.removed_parameters):
        return False
    return all(opcode in _INITIAL for group in difference.removed for opcode, _ in group.opcodes)


def _is_weight(stack: tuple[Frame, ...]) -> bool:
    """A weight that is in use for the first time is no state."""
    return any("torch/nn/modules" in frame.file for frame in stack)


def parameters_replaced(evidence: Evidence) -> Explanation | None:
    """A module got new parameters while the optimizer kept the old ones: their gradients and updates are gone."""
    difference, place = evidence.difference, evidence.since.replaced
    if difference is None or place is None or not (difference.inserted or difference.removed or difference.roots):
        return None
    site = place.user_site or place.site
    root = difference.root
    return Explanation(
        "parameters_replaced",
        kind=str(root.kind) if root is not None else "",
        follows=difference.follows,
        site=site,
        group=site,
        details=(("inserted", difference.inserted_count), ("removed", difference.removed_count)),
    )


def control_flow(evidence: Evidence) -> Explanation | None:
    """Operations were added, removed or replaced."""
    difference = evidence.difference
    assert difference is not None
    root = _branch(difference)
    root = root or _first(difference, DifferenceKind.INSERTED) or _first(difference, DifferenceKind.REMOVED)
    if root is None and not (difference.inserted or difference.removed or difference.roots):
        return None
    if root is None:
        root = difference.root
    return of_difference("control_flow", root, evidence, details=_counts(evidence, root))


def _branch(difference: GraphDiff) -> Difference | None:
    """The first computation that came, else went, outside the optimizer: what that does follows from the model."""
    net = net_places(difference)
    for kind in (DifferenceKind.INSERTED, DifferenceKind.REMOVED):
        for root in difference.roots:
            own = root.kind is kind and root.stack and not root.stack_inferred and not _in_framework(root)
            if own and _computes(root) and not in_optimizer(root.stack) and (root.op_type, site_of(root.stack)) in net:
                return root
    return None


def _first(difference: GraphDiff, kind: DifferenceKind) -> Difference | None:
    """The first difference of a kind whose line is known; a constant says less than what is computed."""
    roots = [root for root in difference.roots if root.kind is kind and root.stack]
    own = [r for r in roots if not r.stack_inferred and not _in_framework(r)]
    return next(iter([*filter(_computes, own), *own, *roots]), None)


def _computes(difference: Difference) -> bool:
    return difference.op_type not in _NO_WORK


def _is_size(difference: Difference) -> bool:
    own = bool(difference.stack) and not difference.stack_inferred and not _in_framework(difference)
    return own and difference.kind in (DifferenceKind.SHAPE, DifferenceKind.ATTRIBUTE, DifferenceKind.LITERAL)


def _in_framework(difference: Difference) -> bool:
    frame = site_of(difference.stack)
    return frame is None or in_framework(frame)


def _counts(evidence: Evidence, root: Difference | None) -> tuple[tuple[str, Any], ...]:
    """Numbers of added and removed operations; lines at which sizes or numbers differ too; of the root's operation and
    line, how often it is in either graph.
    """
    difference, graphs = evidence.difference, (evidence.before, evidence.after)
    assert difference is not None
    found: list[tuple[str, Any]] = [("inserted", difference.inserted_count), ("removed", difference.removed_count)]
    found.append(("sized", tuple(dict.fromkeys(site_of(r.stack) for r in difference.roots if _is_size(r)))))
    spot = (root.after or root.before) if root is not None else None
    if root is not None and spot is not None and all(graphs):
        frame, instruction = site_of(root.stack), spot.instruction
        for name, graph in zip(("runs_before", "runs_now"), graphs, strict=True):
            assert graph is not None
            found.append((name, sum(
                i.opcode == instruction.opcode and i.metadata.op_type == instruction.metadata.op_type
                and site_of(i.metadata.stack) == frame
                for i in graph.instructions
            )))  # fmt: skip
    return tuple(found)
