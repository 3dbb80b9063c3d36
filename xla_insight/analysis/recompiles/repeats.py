"""Short cuts for families of very many graphs: what differs like dozens before it differs for their reason.

Owns the cases in which a graph is not compared in full, and marks what it says then. Enough graphs of the family had
the same cause, none a cause of which nothing may be taken over, and one of these holds:

- it differs from one of the latest in the sizes of exactly the inputs that vary in the family;
- it is written like one of the latest up to instructions that differed for that reason before, of the same kinds;
- its inputs are the same and the latest cause is another one (a branch, a loop): then only every so many is compared,
  and fewer the more were alike in a row.

Everything else is compared, so a new cause in such a family is still found.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xla_insight.analysis.recompiles.evidence import Explanation
from xla_insight.analysis.recompiles.history import Compile, FamilyKey
from xla_insight.graph.input_shapes import input_shapes
from xla_insight.graph.model import Shape
from xla_insight.graph.parts import Parts, differing, parts_of, same_opcodes

ENOUGH = 24
"""Graphs of one family that are compared in full before any is not."""
GROWTH = 1.5
"""Of graphs that can only be taken for the same, one is compared each time so many times as many were alike."""
ANCHORS = 4
"""Graphs of a family, the latest, that a new one is looked at beside."""
MAX_POSITIONS = 2_000
"""Instructions in which a repeated value may show; where more differ, the graph is compared in full."""
_INPUTS = "input_shape"
_VALUES = frozenset({"baked_value", "python_shape", "data_dependent_shape"})
_ALIKE = frozenset({"control_flow", "live_outputs", "unknown", "special_scalar", "shared_scalar"})
Shapes = tuple[Shape, ...]


class _Latest(NamedTuple):
    """A graph seen last, with what a short look needs of it."""

    graph: str
    shapes: Shapes | None
    parts: Parts | None


@dataclass
class _Known:
    """What is known of one cause. ``explanation`` is that of the graph which was compared last."""

    explanation: Explanation
    alike: int = 0
    """Graphs compared with this cause, or taken for it."""
    next_full: float = 0.0
    inputs: set[tuple[int, int]] = field(default_factory=set)
    """(input, dimension) that varied."""
    positions: set[int] = field(default_factory=set)
    """Instructions that differed."""


@dataclass
class _Family:
    """What is known of one family: its causes, and the graphs seen last, the latest first."""

    causes: dict[Hashable, _Known] = field(default_factory=dict)
    last: Hashable = None
    latest: deque[_Latest] = field(default_factory=lambda: deque(maxlen=ANCHORS))


class Repeats:
    """Remembers what varies in each family; ``hlo`` gives the serialized module of a graph, None when it has none."""

    def __init__(self, hlo: Callable[[str], bytes | None]) -> None:
        self._hlo = hlo
        self._families: dict[FamilyKey, _Family] = defaultdict(_Family)

    def compared(self, compile_: Compile, explanation: Explanation, against: str) -> None:
        """A graph was compared in full with ``against``."""
        cause = _what_repeats(explanation)
        before = None if cause is None else self._look(against)
        now = None if before is None or compile_.graph is None else self._look(compile_.graph)
        if cause is None or before is None or now is None:
            self._families.pop(compile_.family, None)
            return
        family = self._families[compile_.family]
        known = family.causes.setdefault(cause, _Known(explanation))
        if cause != family.last and cause[0] in _ALIKE:
            known.alike = 0  # one branch in a row tells more than one now and then
        known.alike += 1
        known.next_full = known.alike * GROWTH
        known.explanation = explanation
        known.inputs |= _moved(before.shapes, now.shapes) or set()
        if cause[0] in _VALUES:
            known.positions |= set(differing(before.parts or (), now.parts or ()) or ())
        family.last = cause
        family.latest.appendleft(now)

    def explained(self, compile_: Compile) -> tuple[str, Explanation] | None:
        """The graph it differs from and why, when that can be told without comparing it in full."""
        family = self._families.get(compile_.family)
        if family is None or compile_.graph is None or all(k.alike < ENOUGH for k in family.causes.values()):
            return None
        now = self._look(compile_.graph)
        if now is None:
            return None
        # The same instructions under another name: what differs is not in them.
        twin = any(before.parts == now.parts for before in family.latest)
        for before in family.latest:
            for cause, known in family.causes.items():
                if known.alike < ENOUGH or (twin and known.explanation.cause in _VALUES):
                    continue
                found = _told(known, before, now, cause == family.last)
                if found is not None:
                    known.alike += 1
                    family.last = cause
                    family.latest.appendleft(now)
                    return before.graph, found
        return None

    def _look(self, graph: str) -> _Latest | None:
        content = self._hlo(graph)
        return None if content is None else _Latest(graph, input_shapes(content), parts_of(content))


def _what_repeats(explanation: Explanation) -> tuple[str, Hashable] | None:
    """What graphs must have in common; None when nothing may be taken from one for another."""
    if explanation.cause == _INPUTS:
        return _INPUTS, None
    return (explanation.cause, explanation.group) if explanation.cause in _VALUES | _ALIKE else None


def _told(known: _Known, before: _Latest, now: _Latest, in_a_row: bool) -> Explanation | None:
    """Why ``now`` differs from ``before`` when that is what is ``known``."""
    example = known.explanation
    if example.cause == _INPUTS:
        return _by_inputs(known, before.shapes, now.shapes)
    if example.cause in _VALUES:
        return _by_positions(known, before.parts, now.parts)
    same_inputs = before.shapes is not None and before.shapes == now.shapes
    return _repeated(example) if in_a_row and same_inputs and known.alike + 1 < known.next_full else None


def _by_inputs(known: _Known, before: Shapes | None, now: Shapes | None) -> Explanation | None:
    moved, example = _moved(before, now), known.explanation
    if not moved or not moved <= known.inputs or before is None or now is None:
        return None
    number, _ = min(moved)
    dimensions = {d for _, d in moved}
    dims = tuple((name, d) for name, d in example.dims if d in dimensions) or example.dims
    return replace(_repeated(example), before=str(before[number]), now=str(now[number]), dims=dims)


def _by_positions(known: _Known, before: Parts | None, now: Parts | None) -> Explanation | None:
    if not before or now is None or len(known.positions) > MAX_POSITIONS:
        return None
    found = differing(before, now)
    alike = found and set(found) <= known.positions and same_opcodes(before, now, found)
    return _repeated(known.explanation) if alike else None


def _repeated(example: Explanation) -> Explanation:
    return replace(example, before="", now="", follows=0, details=(), repeated=True)


def _moved(before: Shapes | None, now: Shapes | None) -> set[tuple[int, int]] | None:
    """(input, dimension) that differ; None when the inputs differ in more than sizes."""
    if before is None or now is None or len(before) != len(now):
        return None
    moved: set[tuple[int, int]] = set()
    for number, (x, y) in enumerate(zip(before, now, strict=True)):
        if x.dtype != y.dtype or len(x.dims) != len(y.dims):
            return None
        moved |= {(number, d) for d, (size, other) in enumerate(zip(x.dims, y.dims, strict=True)) if size != other}
    return moved
