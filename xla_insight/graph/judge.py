"""Judges aligned instructions: which pairs differ on their own account, which only follow, what has no partner.

Owns the walk in topological order and the comparison of two instructions. A pair is a candidate for the root when it
differs although its inputs have equal types (or when its values and attributes differ and nothing explains that);
everything behind it follows. Leaves choosing among candidates to ``diff``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from xla_insight.graph.align import UNPAIRED, Alignment, align, align_in_order, same_structure
from xla_insight.graph.canonical import Form
from xla_insight.graph.differences import DifferenceKind
from xla_insight.graph.model import Shape
from xla_insight.graph.parameters import pair_by_number
from xla_insight.graph.tokens import Erase, Kind

MAX_CALLED = 50
MAX_DEPTH = 8


class Candidate(NamedTuple):
    """A pair of nodes (or one without partner: None) that may be the root. ``order`` sorts by place in the later graph.

    ``inputs_equal``: its inputs have equal types in both graphs, so nothing before it explains a difference of types.
    """

    order: tuple[float, ...]
    kinds: tuple[DifferenceKind, ...]
    forms: tuple[Form, Form]
    before: int | None
    after: int | None
    inputs_equal: bool


@dataclass(slots=True)
class Judgement:
    """What the walk over one pair of computations found."""

    candidates: list[Candidate] = field(default_factory=list)
    follows: int = 0
    # (form, node, order) of instructions without partner.
    inserted: list[tuple[Form, int, tuple[float, ...]]] = field(default_factory=list)
    removed: list[tuple[Form, int, tuple[float, ...]]] = field(default_factory=list)


def judge(before: Form, after: Form, alignment: Alignment, place: tuple[float, ...] = (), depth: int = 0) -> Judgement:
    """Walk both computations; ``place`` is the order of the call they belong to."""
    return _Walk(before, after, alignment, place, depth).run()


class _Walk:
    def __init__(self, before: Form, after: Form, alignment: Alignment, place: tuple[float, ...], depth: int) -> None:
        self.before, self.after, self.alignment = before, after, alignment
        self.place, self.depth = place, depth
        self.found = Judgement()
        self.own: dict[tuple[int, int], tuple[DifferenceKind, ...]] = {}
        self.called_left = MAX_CALLED

    def run(self) -> Judgement:
        self._pairs()
        self._removed()
        return self.found

    def _pairs(self) -> None:
        before, after, found = self.before, self.after, self.found
        to_before, to_after = self.alignment.to_before, self.alignment.to_after
        dirty = [False] * len(after)
        for node, partner in enumerate(to_before):
            inputs = after.operands[node]
            if partner == UNPAIRED:
                dirty[node] = True
                if after.kind_table[after.kinds[node]].opcode != "parameter":
                    found.inserted.append((after, node, (*self.place, node)))
                continue
            own = self._own(partner, node)
            wired = [to_after[o] for o in before.operands[partner]] == list(inputs)
            if not own and wired:
                dirty[node] = True in [dirty[o] for o in inputs]
                found.follows += dirty[node]
                continue
            dirty[node] = True
            if node == after.root and after.kind_table[after.kinds[node]].opcode == "tuple":
                continue
            if not self._is_candidate(partner, node, own, wired=wired):
                found.follows += 1

    def _is_candidate(self, partner: int, node: int, own: tuple[DifferenceKind, ...], *, wired: bool) -> bool:
        """Add the pair to the candidates, or say that it only follows."""
        order = (*self.place, float(node))
        if not own:
            if self._touches_unpaired(partner, node):
                return False
            self._add(order, (DifferenceKind.OPERANDS,), partner, node, inputs_equal=True)
            return True
        is_parameter = self.after.kind_table[self.after.kinds[node]].opcode == "parameter"
        if is_parameter and self.depth:
            return False
        inputs_equal = self._inputs_equal(partner, node)
        if DifferenceKind.CALLED in own and self._descend(partner, node, order):
            own = tuple(kind for kind in own if kind is not DifferenceKind.CALLED)
        telling = [k for k in own if k in (DifferenceKind.ATTRIBUTE, DifferenceKind.LITERAL, DifferenceKind.CALLED)]
        if not own or not (inputs_equal or (wired and telling)):
            return False
        self._add(order, own, partner, node, inputs_equal=inputs_equal)
        return True

    def _add(
        self,
        order: tuple[float, ...],
        kinds: tuple[DifferenceKind, ...],
        partner: int,
        node: int,
        *,
        inputs_equal: bool,
    ) -> None:
        self.found.candidates.append(Candidate(order, kinds, (self.before, self.after), partner, node, inputs_equal))

    def _own(self, partner: int, node: int) -> tuple[DifferenceKind, ...]:
        key = (self.before.kinds[partner], self.after.kinds[node])
        found = self.own.get(key)
        if found is None:
            kinds = (self.before.kind_table[key[0]], self.after.kind_table[key[1]])
            found = self.own[key] = self._compare(*kinds)
        return found

    def _compare(self, before: Kind, after: Kind) -> tuple[DifferenceKind, ...]:
        differences: list[DifferenceKind] = []
        if (before.literal.digest if before.literal else b"") != (after.literal.digest if after.literal else b""):
            differences.append(DifferenceKind.LITERAL)
        if before.attributes != after.attributes:
            differences.append(DifferenceKind.ATTRIBUTE)
        if self._called_hashes(self.before, before) != self._called_hashes(self.after, after):
            differences.append(DifferenceKind.CALLED)
        left, right = before.shape, after.shape
        if left != right:
            if _dtypes(left) != _dtypes(right):
                differences.append(DifferenceKind.DTYPE)
            if _dims(left) != _dims(right):
                differences.append(DifferenceKind.SHAPE)
            elif left.dtype == right.dtype and left.layout != right.layout:
                differences.append(DifferenceKind.LAYOUT)
        return tuple(differences)

    def _called_hashes(self, form: Form, kind: Kind) -> tuple[int, ...]:
        return tuple(form.classes.hash_of(number, Erase.NOTHING) for number in kind.called)

    def _inputs_equal(self, partner: int, node: int) -> bool:
        """Whether inputs are as many and of the same types; layouts follow from values, so they do not count."""
        ours, theirs = self.before.operands[partner], self.after.operands[node]
        if len(ours) != len(theirs):
            return False
        for x, y in zip(ours, theirs, strict=True):
            left = self.before.kind_table[self.before.kinds[x]].shape
            right = self.after.kind_table[self.after.kinds[y]].shape
            if left is not right and left._replace(layout=()) != right._replace(layout=()):
                return False
        return True

    def _touches_unpaired(self, partner: int, node: int) -> bool:
        return any(self.alignment.to_after[o] == UNPAIRED for o in self.before.operands[partner]) or any(
            self.alignment.to_before[o] == UNPAIRED for o in self.after.operands[node]
        )

    def _descend(self, partner: int, node: int, order: tuple[float, ...]) -> bool:
        """Judge the computations that a pair calls; False when there are too many or they do not correspond."""
        ours = self.before.kind_table[self.before.kinds[partner]].called
        theirs = self.after.kind_table[self.after.kinds[node]].called
        if len(ours) != len(theirs) or self.depth >= MAX_DEPTH or self.called_left <= 0:
            return False
        self.called_left -= 1
        for number, (x, y) in enumerate(zip(ours, theirs, strict=True)):
            left, right = self.before.classes.forms[x], self.after.classes.forms[y]
            if left.fingerprint() == right.fingerprint():
                continue
            inner = judge(left, right, align_called(left, right), (*order, float(number)), self.depth + 1)
            self.found.candidates += inner.candidates
            self.found.follows += inner.follows
            self.found.inserted += inner.inserted
            self.found.removed += inner.removed
        return True

    def _removed(self) -> None:
        last = -1.0
        before = self.before
        for node, partner in enumerate(self.alignment.to_after):
            if partner != UNPAIRED:
                last = max(last, float(partner)) if node != before.root else last
            elif before.kind_table[before.kinds[node]].opcode != "parameter":
                self.found.removed.append((before, node, (*self.place, last + 0.5)))


def align_called(before: Form, after: Form) -> Alignment:
    """Align two called computations: their parameters correspond by number."""
    if same_structure(before, after):
        return align_in_order(before, after)
    return align(before, after, pair_by_number(before, after))


def _dtypes(shape: Shape) -> tuple[object, ...]:
    return (shape.dtype, *[_dtypes(part) for part in shape.parts])


def _dims(shape: Shape) -> tuple[object, ...]:
    return (shape.dims, shape.dynamic, *[_dims(part) for part in shape.parts])
