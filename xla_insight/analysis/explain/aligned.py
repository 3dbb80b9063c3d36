"""Two graphs side by side: one row for each pair of instructions, in the later graph's order, equal stretches folded.

Owns the order and the marks of rows, folding, and its limits: rows are made only when they are asked for, so that
graphs of 50,000 instructions cost what is shown of them. Instructions that repeat another one, or that nothing uses,
are no rows (they are merged before graphs are compared); how many is said. Leaves the text of a row to ``notation``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from xla_insight.analysis.explain.notation import Part, operation_word, parts, tell
from xla_insight.graph.canonical import Form
from xla_insight.graph.diff import Prepared
from xla_insight.graph.differences import Difference, GraphDiff
from xla_insight.graph.model import Frame, Graph, Instruction
from xla_insight.graph.roots import site_of

CONTEXT_ROWS, ROOT_CONTEXT_ROWS = 2, 4
MAX_SHOWN_ROWS = 120
"""Rows shown unfolded at first; differences beyond stay in folds, which can be opened."""
MAX_OPENED_ROWS = 200
_MAX_STRETCH, _STRETCH_TAIL = 12, 2
_LEAST_FOLD = 3
_ABSENT = -1


class Mark(StrEnum):
    """What a row is in the difference. `follows`: it differs only because an earlier one does."""

    ROOT = "root"
    CHANGED = "changed"
    INSERTED = "inserted"
    REMOVED = "removed"
    FOLLOWS = "follows"
    EQUAL = "equal"


OWN = (Mark.ROOT, Mark.CHANGED, Mark.INSERTED, Mark.REMOVED)
"""Marks of rows that nothing before them explains."""


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction in both graphs; ``before`` or ``after`` is empty where only the other one has it.

    ``inferred``: the line is that of the partner in the other graph, because this one holds no lines. ``inside`` names
    the called computation in which the difference lies, when it is not the instruction's own.
    """

    number: int
    mark: Mark
    before: tuple[Part, ...]
    after: tuple[Part, ...]
    operation: str
    site: Frame | None
    inferred: bool = False
    inside: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows ``start`` to ``stop`` (exclusive) that are not shown, counted by mark."""

    start: int
    stop: int
    counts: tuple[tuple[Mark, int], ...]

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    @property
    def holds_differences(self) -> bool:
        """Whether rows are folded here that nothing before them explains."""
        return any(mark in OWN for mark, _ in self.counts)


Block = Row | Fold


class AlignedGraphs:
    """Two graphs as rows. ``merged`` counts instructions of each graph that are no row."""

    def __init__(self, before: Prepared, after: Prepared, diff: GraphDiff) -> None:
        self.graphs = (before.graph, after.graph)
        positions = _Positions(before, after, diff)
        self._order = positions.order
        self.merged = positions.merged
        self._rows = _row_numbers(self._order, positions)
        self._inside: dict[int, str] = {}
        self._marks = self._mark(diff)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def root(self) -> int | None:
        """The row of the root; None when it is no instruction (as when only the order of inputs differs)."""
        return next((row for row, mark in enumerate(self._marks) if mark is Mark.ROOT), None)

    def mark(self, row: int) -> Mark:
        """The mark of one row."""
        return self._marks[row]

    def counts(self) -> Counter[Mark]:
        """Number of rows by mark."""
        return Counter(self._marks)

    def instructions(self, row: int) -> tuple[Instruction | None, Instruction | None]:
        """The instructions of a row in the earlier and the later graph."""
        before, after = self._order[row]
        return (
            None if before == _ABSENT else self.graphs[0].instructions[before],
            None if after == _ABSENT else self.graphs[1].instructions[after],
        )

    def operands(self, row: int, side: int) -> list[int]:
        """The rows of an instruction's operands in the earlier (0) or later (1) graph; empty where it is absent."""
        position = self._order[row][side]
        if position == _ABSENT:
            return []
        rows = self._rows[side]
        return [rows[operand] for operand in self.graphs[side].instructions[position].operands]

    def row(self, number: int) -> Row:
        """One row, in words."""
        ends = self.instructions(number)
        told = [
            None if one is None else tell(graph, one, self.operands(number, side))
            for side, (graph, one) in enumerate(zip(self.graphs, ends, strict=True))
        ]
        mark = self._marks[number]
        everything = mark in (Mark.ROOT, Mark.CHANGED)
        before, after = (
            () if own is None else parts(own, other, everything=everything)
            for own, other in (told, reversed(told))
        )  # fmt: skip
        site, inferred = _site(*ends)
        known = ends[1] or ends[0]
        operation = operation_word(known) if known is not None else ""
        return Row(number, mark, before, after, operation, site, inferred, self._inside.get(number, ""))

    def blocks(self, limit: int = MAX_SHOWN_ROWS) -> tuple[Block, ...]:
        """All rows, with everything away from a difference folded; at most ``limit`` rows unfolded."""
        return tuple(self._folded(0, len(self), self._shown(limit)))

    def expand(self, start: int, stop: int, limit: int = MAX_OPENED_ROWS) -> tuple[Block, ...]:
        """The rows of a fold: the first ``limit`` of them, the rest folded again. Bounds beyond the graph are cut."""
        start, stop = max(0, start), min(stop, len(self))
        end = min(stop, start + limit)
        rest = [self._fold(end, stop)] if end < stop else []
        return (*map(self.row, range(start, end)), *rest)

    def _shown(self, limit: int) -> set[int]:
        """Rows to show: around the root first, then around the other differences in order, until the limit."""
        shown: set[int] = set()
        root = self.root
        if root is not None:
            shown.update(_around(root, ROOT_CONTEXT_ROWS, len(self)))
        for row in _without_middles([row for row, mark in enumerate(self._marks) if mark in OWN]):
            wanted = set(_around(row, CONTEXT_ROWS, len(self))) - shown
            if len(shown) + len(wanted) > limit:
                break
            shown |= wanted
        return shown

    def _folded(self, start: int, stop: int, shown: set[int]) -> Iterator[Block]:
        edges = [start - 1, *sorted(shown), stop]
        for left, right in pairwise(edges):
            if right - left > _LEAST_FOLD:
                yield self._fold(left + 1, right)
            else:
                yield from map(self.row, range(left + 1, right))
            if right < stop:
                yield self.row(right)

    def _fold(self, start: int, stop: int) -> Fold:
        counts = Counter(self._marks[start:stop])
        return Fold(start, stop, tuple((mark, counts[mark]) for mark in Mark if counts[mark]))

    def _mark(self, diff: GraphDiff) -> list[Mark]:
        marks = [self._plain_mark(row) for row in range(len(self))]
        for difference in diff.roots:
            row = self._row_of(difference)
            if row is not None and marks[row] in (Mark.EQUAL, Mark.FOLLOWS):
                marks[row] = Mark.CHANGED
        row = None if diff.root is None else self._row_of(diff.root)
        if row is not None:
            marks[row] = Mark.ROOT
        return marks

    def _plain_mark(self, row: int) -> Mark:
        before, after = self.instructions(row)
        if before is None or after is None:
            return Mark.INSERTED if before is None else Mark.REMOVED
        if (
            before.shape != after.shape
            or before.attributes != after.attributes
            or (before.literal.digest if before.literal else b"") != (after.literal.digest if after.literal else b"")
            or self.operands(row, 0) != self.operands(row, 1)
        ):
            return Mark.FOLLOWS
        return Mark.EQUAL

    def _row_of(self, difference: Difference) -> int | None:
        """The row of a difference; for one inside a called computation, the row of the first instruction calling it."""
        for side, spot in ((1, difference.after), (0, difference.before)):
            if spot is None:
                continue
            graph = self.graphs[side]
            if spot.computation == graph.entry.name:
                row = self._rows[side][spot.position]
            else:
                position = _caller(graph, spot.computation)
                row = _ABSENT if position is None else self._rows[side][position]
                if row != _ABSENT:
                    self._inside.setdefault(row, spot.computation)
            if row != _ABSENT:
                return row
        return None


class _Positions:
    """Which instructions are rows, in which order, and which stand for others."""

    def __init__(self, before: Prepared, after: Prepared, diff: GraphDiff) -> None:
        lines_known = before.graph.has_stacks == after.graph.has_stacks
        self.forms = [one.merged if lines_known else one.without_lines for one in (before, after)]
        paired = ({x for x, _ in diff.pairs}, {y for _, y in diff.pairs})
        partner = {y: x for x, y in diff.pairs}
        alone = [_unpaired(form, found) for form, found in zip(self.forms, paired, strict=True)]
        self.order = _merge(partner, alone[0], alone[1])
        rows = len(paired[0]), len(paired[1])
        self.merged = tuple(
            len(form.computation.instructions) - count - len(own)
            for form, count, own in zip(self.forms, rows, alone, strict=True)
        )


def _unpaired(form: Form, paired: set[int]) -> list[int]:
    """Positions that stand for a node and have no partner, ascending."""
    return [position for position in form.positions if position not in paired]


def _merge(partner: dict[int, int], removed: Sequence[int], inserted: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) of each row: in the later graph's order, removed ones behind the one they stood behind."""
    place_of = {before: after for after, before in partner.items()}
    keyed = [((after, 0, 0), (before, after)) for after, before in partner.items()]
    keyed += [((after, 0, 0), (_ABSENT, after)) for after in inserted]
    last, gone = _ABSENT, set(removed)
    for position in sorted({*place_of, *gone}):
        if position in gone:
            keyed.append(((last, 1, position), (position, _ABSENT)))
        else:
            last = place_of[position]
    return [row for _, row in sorted(keyed)]


def _row_numbers(order: Sequence[tuple[int, int]], positions: _Positions) -> tuple[list[int], list[int]]:
    """For each graph the row of every instruction; one that is no row has that of the one that stands for it."""
    found = []
    for side, form in enumerate(positions.forms):
        rows = [_ABSENT] * len(form.computation.instructions)
        for number, pair in enumerate(order):
            if pair[side] != _ABSENT:
                rows[pair[side]] = number
        for position, node in enumerate(form.node_of):
            if rows[position] == _ABSENT and node >= 0:
                rows[position] = rows[form.positions[node]]
        found.append(rows)
    return found[0], found[1]


def _around(row: int, context: int, count: int) -> range:
    return range(max(0, row - context), min(count, row + context + 1))


def _without_middles(rows: Sequence[int]) -> Iterator[int]:
    """Of each long stretch of neighbouring rows only its beginning and its end."""
    start = 0
    for index, row in enumerate(rows):
        last = index + 1 == len(rows) or rows[index + 1] != row + 1
        if last:
            stretch = rows[start : index + 1]
            if len(stretch) > _MAX_STRETCH:
                stretch = [*stretch[: _MAX_STRETCH - _STRETCH_TAIL], *stretch[-_STRETCH_TAIL:]]
            yield from stretch
            start = index + 1


def _site(before: Instruction | None, after: Instruction | None) -> tuple[Frame | None, bool]:
    """The line of a row: the later instruction's own, else (inferred) its partner's."""
    for one in (after, before):
        if one is not None and one.metadata.stack:
            return site_of(one.metadata.stack), one is before and after is not None
    return None, False


def _caller(graph: Graph, name: str) -> int | None:
    """The first instruction of the entry computation that calls a computation, be it through others."""
    wanted = {number for number, computation in enumerate(graph.computations) if computation.name == name}
    for number, computation in enumerate(graph.computations[:-1]):  # callees come first
        if any(wanted.intersection(instruction.called) for instruction in computation.instructions):
            wanted.add(number)
    return next((p for p, i in enumerate(graph.instructions) if wanted.intersection(i.called)), None)
