"""Short cuts for families of very many graphs: what differs like dozens before it differs for their reason.

Owns the cases in which a graph is not compared in full, and marks what it says then. Enough graphs of the family were
compared, the latest all for one cause, and one of these holds:

- it differs from one of them in the sizes of exactly the inputs that vary in the family;
- it is written like one of them up to instructions that differed for that reason before, of the same kinds;
- its inputs are the same and the cause is another one (a branch, a loop): then only every so many is compared, and
  fewer the more were alike.

Everything else is compared, so a new cause in such a family is still found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from xla_insight.analysis.recompiles.evidence import Explanation
from xla_insight.analysis.recompiles.history import Compile, FamilyKey
from xla_insight.graph.input_shapes import input_shapes
from xla_insight.graph.model import Shape
from xla_insight.graph.parts import Parts, differing, parts_of, same_opcodes

ENOUGH = 32
"""Graphs of one family that are compared in full before any is not."""
GROWTH = 1.5
"""Of graphs that can only be taken for the same, one is compared each time so many times as many were alike."""
MAX_POSITIONS = 2_000
"""Instructions in which a repeated value may show; where more differ, the graph is compared in full."""
_INPUTS = "input_shape"
_VALUES = frozenset({"baked_value", "python_shape", "data_dependent_shape"})
_ALIKE = frozenset({"control_flow", "graph_growth", "live_outputs", "unknown", "special_scalar", "shared_scalar"})
Shapes = tuple[Shape, ...]


@dataclass
class _Known:
    """What is known of one family. ``explanation`` is that of ``graph``, which was compared last."""

    cause: Hashable = None
    alike: int = 0
    """Graphs in a row with this cause, compared or taken for it."""
    next_full: float = 0.0
    graph: str = ""
    explanation: Explanation | None = None
    shapes: Shapes | None = None
    parts: Parts | None = None
    inputs: set[tuple[int, int]] = field(default_factory=set)
    """(input, dimension) that varied."""
    positions: set[int] = field(default_factory=set)
    """Instructions that differed."""


class Repeats:
    """Remembers what varies in each family; ``hlo`` gives the serialized module of a graph, None when it has none."""

    def __init__(self, hlo: Callable[[str], bytes | None]) -> None:
        self._hlo = hlo
        self._families: dict[FamilyKey, _Known] = defaultdict(_Known)

    def compared(self, compile_: Compile, explanation: Explanation, against: str) -> None:
        """A graph was compared in full with ``against``."""
        known, cause = self._families[compile_.family], _what_repeats(explanation)
        contents = [self._hlo(against), self._hlo(compile_.graph) if compile_.graph else None]
        if cause is None or cause != known.cause:
            known = self._families[compile_.family] = _Known(cause)
        if cause is None or contents[0] is None or contents[1] is None:
            return
        known.alike += 1
        known.next_full = known.alike * GROWTH
        known.graph, known.explanation = compile_.graph or "", explanation
        shapes = [input_shapes(content) for content in contents if content is not None]
        known.shapes = shapes[1]
        known.inputs |= _moved(*shapes) or set()
        if explanation.cause in _VALUES:
            parts = [parts_of(content) or () for content in contents if content is not None]
            known.parts = parts[1]
            known.positions |= set(differing(*parts) or ())

    def explained(self, compile_: Compile) -> tuple[str, Explanation] | None:
        """The graph it differs from and why, when that can be told without comparing it in full."""
        known = self._families.get(compile_.family)
        if known is None or known.explanation is None or known.alike < ENOUGH or compile_.graph is None:
            return None
        content = self._hlo(compile_.graph)
        if content is None:
            return None
        found = _by_kind(known, known.explanation, content)
        if found is not None:
            known.alike += 1
        return None if found is None else (known.graph, found)


def _what_repeats(explanation: Explanation) -> Hashable:
    """What graphs in a row must have in common; None when nothing may be taken from one for another."""
    if explanation.cause == _INPUTS:
        return _INPUTS
    return (explanation.cause, explanation.group) if explanation.cause in _VALUES | _ALIKE else None


def _by_kind(known: _Known, example: Explanation, content: bytes) -> Explanation | None:
    if example.cause == _INPUTS:
        return _by_inputs(known, example, input_shapes(content))
    if example.cause in _VALUES:
        return _by_positions(known, example, content)
    same_inputs = known.shapes is not None and known.shapes == input_shapes(content)
    return _repeated(example) if same_inputs and known.alike + 1 < known.next_full else None


def _by_inputs(known: _Known, example: Explanation, now: Shapes | None) -> Explanation | None:
    moved = _moved(known.shapes, now)
    if not moved or not moved <= known.inputs or known.shapes is None or now is None:
        return None
    number, _ = min(moved)
    dimensions = {d for _, d in moved}
    dims = tuple((name, d) for name, d in example.dims if d in dimensions) or example.dims
    return replace(_repeated(example), before=str(known.shapes[number]), now=str(now[number]), dims=dims)


def _by_positions(known: _Known, example: Explanation, content: bytes) -> Explanation | None:
    now = parts_of(content)
    if now is None or not known.parts or len(known.positions) > MAX_POSITIONS:
        return None
    found = differing(known.parts, now)
    alike = found and set(found) <= known.positions and same_opcodes(known.parts, now, found)
    return _repeated(example) if alike else None


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
