"""What surrounds the root: its inputs and users within two steps, of both graphs in one picture.

Owns which neighbours are kept, and their places: one column a step along the data flow, differences first within a
column. Leaves drawing to ``report``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from xla_insight.analysis.explain.aligned import OWN, AlignedGraphs, Mark
from xla_insight.analysis.explain.notation import MAX_TYPE, operation_word, shortened
from xla_insight.graph.model import Frame, Instruction
from xla_insight.graph.roots import site_of

HOPS = 2
MAX_NODES = 25
_MAX_COLUMN = 6


@dataclass(frozen=True, slots=True)
class Node:
    """One instruction near the root. ``hop``: steps along the data flow, negative before the root; ``slot``: its place
    within that column. A type is empty where that graph does not have the instruction.
    """

    row: int
    hop: int
    slot: int
    mark: Mark
    opcode: str
    before: str
    after: str
    operation: str
    site: Frame | None


@dataclass(frozen=True, slots=True)
class Edge:
    """Data that flows from one node to another, in the earlier graph, the later one, or both."""

    source: int
    target: int
    in_before: bool
    in_after: bool


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Nodes and edges around the root; ``left_out`` counts neighbours beyond the limits."""

    root: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int


def neighbourhood(aligned: AlignedGraphs) -> Neighbourhood | None:
    """What surrounds the root within `HOPS` steps, at most `MAX_NODES` nodes; None when no row is the root."""
    root = aligned.root
    return None if root is None else _Walk(aligned, root).run()


class _Walk:
    def __init__(self, aligned: AlignedGraphs, root: int) -> None:
        self.aligned = aligned
        self.root = root
        self.hop_of = {root: 0}
        self.columns: dict[int, list[int]] = defaultdict(list, {0: [root]})
        self.left_out = 0
        self.users = _users(aligned)

    def run(self) -> Neighbourhood:
        for distance in range(1, HOPS + 1):
            for direction in (-1, 1):
                self._extend(direction * distance, direction)
        kept = sorted(self.hop_of)
        slots = {row: slot for column in self.columns.values() for slot, row in enumerate(sorted(column))}
        nodes = tuple(self._node(row, slots[row]) for row in kept)
        return Neighbourhood(self.root, nodes, tuple(self._edges(kept)), self.left_out)

    def _extend(self, hop: int, direction: int) -> None:
        """Add one column: the neighbours of the column before it, differences first."""
        found: dict[int, None] = {}
        for row in self.columns[hop - direction]:
            near = self._operands(row) if direction < 0 else self.users[row]
            found.update(dict.fromkeys(one for one in near if one not in self.hop_of))
        ranked = sorted(found, key=lambda row: (self._rank(row), row))
        room = min(_MAX_COLUMN, MAX_NODES - len(self.hop_of))
        for row in ranked[:room]:
            self.hop_of[row] = hop
            self.columns[hop].append(row)
        self.left_out += max(0, len(ranked) - room)

    def _rank(self, row: int) -> int:
        mark = self.aligned.mark(row)
        return 0 if mark in OWN else 1 if mark is Mark.FOLLOWS else 2

    def _operands(self, row: int) -> set[int]:
        return {one for side in (0, 1) for one in self.aligned.operands(row, side)}

    def _node(self, row: int, slot: int) -> Node:
        before, after = self.aligned.instructions(row)
        known = after or before
        assert known is not None
        stack = known.metadata.stack or (before.metadata.stack if before is not None else ())
        return Node(
            row, self.hop_of[row], slot, self.aligned.mark(row), known.opcode, _type(before), _type(after),
            operation_word(known), site_of(stack),
        )  # fmt: skip

    def _edges(self, kept: Iterable[int]) -> Iterable[Edge]:
        for target in kept:
            sides = [set(self.aligned.operands(target, side)) for side in (0, 1)]
            for source in sorted((sides[0] | sides[1]) & self.hop_of.keys()):
                yield Edge(source, target, source in sides[0], source in sides[1])


def _users(aligned: AlignedGraphs) -> dict[int, list[int]]:
    """The rows that use each row, in order."""
    users: dict[int, list[int]] = defaultdict(list)
    for row in range(len(aligned)):
        for operand in {one for side in (0, 1) for one in aligned.operands(row, side)}:
            users[operand].append(row)
    return users


def _type(instruction: Instruction | None) -> str:
    if instruction is None:
        return ""
    if instruction.literal is not None and instruction.shape.is_scalar:
        return f"{instruction.shape} {shortened(instruction.literal.text, 24)}"
    return shortened(str(instruction.shape), MAX_TYPE)
