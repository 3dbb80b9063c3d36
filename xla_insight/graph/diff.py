"""The difference of two graphs, and the earliest instruction that makes it.

Owns the order of the comparison: equal by hash, else paired node by node (in order when the structure is the same, by
alignment otherwise), judged, and collapsed to roots. Never says why a program did it: that is ``analysis``.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from xla_insight.graph.align import UNPAIRED, Alignment, align, align_in_order, same_structure
from xla_insight.graph.boundary import (
    aliases_differ,
    changed_parameters,
    compare_donors,
    compare_outputs,
    compare_shardings,
    parameter_of,
    reordered_parameters,
    unpaired_parameters,
)
from xla_insight.graph.canonical import Canonicalizer, Form, equal_forms
from xla_insight.graph.differences import Difference, DifferenceKind, DimensionMove, GraphDiff, Sizes, Spot
from xla_insight.graph.judge import Candidate, Judgement, judge
from xla_insight.graph.model import Graph, Parameter
from xla_insight.graph.moves import dimension_moves
from xla_insight.graph.parameters import pair_by_number, pair_parameters
from xla_insight.graph.roots import Describer, choose_bases, first_of_groups, group_operations, is_derived, spot
from xla_insight.graph.scalars import scalar_changes, scalar_stack, special_constants
from xla_insight.graph.tokens import Erase

MAX_MOVES = 100
MAX_ROOTS = 200


class Prepared:
    """A graph with its canonical form, made once and compared many times."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.canonicalizer = Canonicalizer(graph)
        self.merged = self.canonicalizer.form()

    @cached_property
    def lined(self) -> int:
        """How many instructions know the line they come from."""
        return sum(bool(instruction.metadata.stack) for instruction in self.graph.instructions)

    @cached_property
    def plain(self) -> Form:
        """The form in which equal instructions stay apart."""
        return self.canonicalizer.form(merge=False)

    @cached_property
    def without_lines(self) -> Form:
        """The form in which equal constants are one whatever their lines, for graphs whose partner knows no lines."""
        return self.canonicalizer.form(lines=False)


def prepare(graph: Graph) -> Prepared:
    """Canonical form of a graph, for ``compare``."""
    return Prepared(graph)


def diff(before: Graph, after: Graph) -> GraphDiff:
    """Compare an earlier graph with a later one. Never raises for graphs that a parser of this package made."""
    return compare(prepare(before), prepare(after))


def compare(before: Prepared, after: Prepared) -> GraphDiff:
    """As ``diff``, for graphs that are already in canonical form."""
    return _Comparison(before, after).result()


def _pair(
    before: Prepared, after: Prepared, *, same: bool
) -> tuple[tuple[Form, Form], list[tuple[int, int]], Alignment]:
    """The forms to compare, pairs of parameter nodes, and the alignment: in order when possible."""
    merged = (before.merged, after.merged)
    if before.graph.has_stacks != after.graph.has_stacks:
        merged = (before.without_lines, after.without_lines)
    if same_structure(*merged):
        return merged, pair_by_number(*merged), align_in_order(*merged)
    # Lines can be off for a part of a trace: constants of one value are then one in one graph and several in the other.
    if before.canonicalizer.live_count == after.canonicalizer.live_count and before.lined != after.lined:
        unlined = (before.without_lines, after.without_lines)
        if same_structure(*unlined):
            return unlined, pair_by_number(*unlined), align_in_order(*unlined)
    parameters = pair_by_number(*merged) if same else pair_parameters(*merged)
    in_place = len(parameters) == len(before.graph.parameters) == len(after.graph.parameters) and all(
        merged[0].instruction(x).number == merged[1].instruction(y).number for x, y in parameters
    )
    # Equal constants of one line are one node: when "2 became 3" beside another 3, only the plain forms stay alike.
    if in_place and not same and before.canonicalizer.live_count == after.canonicalizer.live_count:
        plain = (before.plain, after.plain)
        if same_structure(*plain):
            return plain, pair_by_number(*plain), align_in_order(*plain)
    return merged, parameters, align(*merged, parameters)


class _Comparison:
    def __init__(self, before: Prepared, after: Prepared) -> None:
        self.graphs = (before.graph, after.graph)
        self.merged = (before.merged, after.merged)
        self.same = equal_forms(*self.merged)
        self.forms, nodes, self.alignment = _pair(before, after, same=self.same)
        found = [(parameter_of(self.forms[0], x), parameter_of(self.forms[1], y)) for x, y in nodes]
        self.parameters = sorted(found, key=lambda pair: pair[1].number)
        self.added = unpaired_parameters(self.forms[1], self.alignment.to_before)
        self.removed = unpaired_parameters(self.forms[0], self.alignment.to_after)
        self.reordered = reordered_parameters(self.parameters)
        self.outputs = compare_outputs(*self.forms, self.alignment)
        self.judgement = Judgement() if self.same else judge(*self.forms, self.alignment)
        self.explained = choose_bases(self.judgement.candidates)
        self.own = [c for c in self.judgement.candidates if not is_derived(c, self.explained)]
        self.same_scalars = not self.same and equal_forms(*self.merged, Erase.SCALARS)
        numbers = {(x.number, y.number) for x, y in self.parameters}
        self.scalars = scalar_changes(*self.merged, numbers) if self.same_scalars else ()

    def result(self) -> GraphDiff:
        roots = self._roots()
        kinds = {root.kinds for root in roots}
        structure = self.same or self.alignment.same_structure
        donors = compare_donors(self.graphs, self.parameters)
        shardings = compare_shardings(self.graphs, self.forms, self.alignment, self.parameters)
        contains = self._contains()
        return GraphDiff(
            same_computation=self.same,
            same_structure=structure,
            same_but_shapes=structure and bool(kinds) and all(map(_is_shape_only, kinds)),
            same_but_constants=structure and kinds == {(DifferenceKind.LITERAL,)},
            same_but_attributes=structure and kinds == {(DifferenceKind.ATTRIBUTE,)},
            same_but_scalars=self.same_scalars,
            changed_parameters=changed_parameters(self.parameters),
            added_parameters=self.added,
            removed_parameters=self.removed,
            parameter_pairs=tuple((x.number, y.number) for x, y in self.parameters),
            reordered_parameters=self.reordered,
            root=_choose(roots),
            roots=tuple(roots[:MAX_ROOTS]),
            follows=self.judgement.follows + len(self.judgement.candidates) - len(self.own),
            moves=self._moves(),
            inserted=group_operations(self.judgement.inserted),
            removed=group_operations(self.judgement.removed),
            scalar_changes=self.scalars,
            contains_before=contains[0],
            contains_after=contains[1],
            outputs=self.outputs,
            donors_added=donors[0],
            donors_removed=donors[1],
            aliases_differ=aliases_differ(self.graphs, self.parameters),
            shardings_added=shardings[0],
            shardings_removed=shardings[1],
            special_constants_before=special_constants(self.merged[0]),
            special_constants_after=special_constants(self.merged[1]),
            sizes=self._sizes(),
            pairs=self._positions(),
        )

    def _roots(self) -> list[Difference]:
        """Differences that nothing explains: scalars, pairs, instructions and inputs without partner, the boundary."""
        describer = Describer()
        forms = self.forms
        candidates = list(self.own)
        for side, kind, nodes in (
            (1, DifferenceKind.INSERTED, self.judgement.inserted),
            (0, DifferenceKind.REMOVED, self.judgement.removed),
        ):
            for form, node, order in first_of_groups(nodes):
                ends = (None if side else node, node if side else None)
                candidates.append(Candidate(order, (kind,), (form, form), ends[0], ends[1], inputs_equal=True))
        candidates.sort(key=lambda candidate: candidate.order)
        roots = [describer.describe(candidate) for candidate in candidates[:MAX_ROOTS]]
        if any(not change.is_literal_change for change in self.scalars):
            first = self.scalars[0]
            scalar = (DifferenceKind.SCALAR,)
            stack = scalar_stack(first)
            roots.insert(0, Difference(scalar, None, first.consumer, first.before, first.after, stack))
        for side, kind, parameters in (
            (1, DifferenceKind.PARAMETER_ADDED, self.added),
            (0, DifferenceKind.PARAMETER_REMOVED, self.removed),
        ):
            roots += [_of_parameter(kind, side, forms[side], parameter) for parameter in parameters]
        if self.reordered:
            orders = [", ".join(str(pair[side]) for pair in self.reordered) for side in (0, 1)]
            roots.append(Difference((DifferenceKind.PARAMETER_ORDER,), None, None, orders[0], orders[1]))
        if self.outputs.added or self.outputs.removed or self.outputs.reordered:
            counts = [f"{count} outputs" for count in (self.outputs.before_count, self.outputs.after_count)]
            results = (spot(forms[0], forms[0].root), spot(forms[1], forms[1].root))
            roots.append(Difference((DifferenceKind.OUTPUTS,), *results, counts[0], counts[1]))
        return roots

    def _moves(self) -> tuple[DimensionMove, ...]:
        """Moved dimensions: base moves first, then by how many instructions show them."""
        places: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for x, y in self.parameters:
            for dimension, move in dimension_moves(x.shape, y.shape):
                places.setdefault(move, []).append((x.number, y.number, dimension))
        if self.same:
            return ()
        counts = self._move_counts()
        found = [
            DimensionMove(*move, tuple(places.get(move, ())), count, move not in self.explained.explainer.bases
                          and move not in places and self.explained.explainer.number(*move))
            for move, count in counts.items()
        ]  # fmt: skip
        return tuple(
            sorted(found, key=lambda m: (m.derived, not m.parameters, -m.count, m.before, m.after))[:MAX_MOVES]
        )

    def _move_counts(self) -> Counter[tuple[int, int]]:
        left, right = self.forms
        pairs = Counter((left.kinds[x], right.kinds[y]) for x, y in enumerate(self.alignment.to_after) if y != UNPAIRED)
        counts: Counter[tuple[int, int]] = Counter()
        for (x, y), count in pairs.items():
            before, after = left.kind_table[x].shape, right.kind_table[y].shape
            for move in {move for _, move in dimension_moves(before, after)}:
                counts[move] += count
        return counts

    def _contains(self) -> tuple[bool, bool]:
        """Whether each graph's computations (its result tuple apart) are all in the other one too."""
        exact = self.alignment.exact
        images = {self.alignment.to_after[node] for node in exact}
        result = []
        for form, found in ((self.forms[0], exact), (self.forms[1], images)):
            result.append(len(found) >= len(form) - 1 and all(
                node in found or (node == form.root and form.instruction(node).opcode == "tuple")
                for node in range(len(form))
            ))  # fmt: skip
        return result[0], result[1]

    def _sizes(self) -> Sizes:
        before, after = self.merged
        operations = [
            Counter(zip((f.kind_table[k].opcode for k in f.kinds), f.places, strict=True)) for f in (before, after)
        ]
        paired = sum(partner != UNPAIRED for partner in self.alignment.to_after)
        shared = (operations[0] & operations[1]).total()
        return Sizes(len(before), len(after), paired, len(self.alignment.exact), shared)

    def _positions(self) -> tuple[tuple[int, int], ...]:
        left, right = self.forms
        return tuple(
            (left.positions[x], right.positions[y]) for y, x in enumerate(self.alignment.to_before) if x != UNPAIRED
        )


def _is_shape_only(kinds: tuple[DifferenceKind, ...]) -> bool:
    return DifferenceKind.SHAPE in kinds and DifferenceKind.DTYPE not in kinds


def _of_parameter(kind: DifferenceKind, side: int, form: Form, parameter: Parameter) -> Difference:
    place = Spot(form.computation.name, parameter.position, form.computation.instructions[parameter.position])
    text = str(parameter.shape)
    if side:
        return Difference((kind,), None, place, "", text, parameter.metadata.stack)
    return Difference((kind,), place, None, text, "", parameter.metadata.stack)


def _choose(roots: list[Difference]) -> Difference | None:
    """The root: a scalar or a changed input, else the first telling difference with a line, else the first at all."""
    for wanted in (_is_input_change, _has_line, _is_telling):
        for root in roots:
            if wanted(root):
                return root
    return roots[0] if roots else None


def _is_input_change(root: Difference) -> bool:
    spot = root.after or root.before
    paired = root.before is not None and root.after is not None
    return root.kind is DifferenceKind.SCALAR or (
        paired and spot is not None and spot.instruction.opcode == "parameter"
    )


def _is_telling(root: Difference) -> bool:
    spot = root.after or root.before
    alone = root.kind in (DifferenceKind.INSERTED, DifferenceKind.REMOVED)
    return spot is not None and not (alone and spot.instruction.opcode in ("constant", "parameter"))


def _has_line(root: Difference) -> bool:
    return _is_telling(root) and bool(root.stack) and root.kind not in (
        DifferenceKind.PARAMETER_ADDED, DifferenceKind.PARAMETER_REMOVED, DifferenceKind.OUTPUTS
    )  # fmt: skip
