"""A short cut for families of very many graphs: what differs like dozens before it differs for their reason.

Owns the cases in which a graph is not compared in full: enough graphs of its family were, all of the latest because of
the sizes of batch inputs, and it differs from one of them in the types of exactly such inputs. Everything else is
compared, so a new cause in such a family is still found.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from xla_insight.analysis.recompiles.evidence import Explanation
from xla_insight.analysis.recompiles.history import Compile, FamilyKey
from xla_insight.graph.model import Shape

ENOUGH = 48
"""Graphs of one family that are compared in full before any is not."""
_CAUSE = "input_shape"


class Repeats:
    """Remembers which inputs vary in each family."""

    def __init__(self) -> None:
        self._in_a_row: dict[FamilyKey, int] = defaultdict(int)
        self._varying: dict[FamilyKey, set[tuple[int, int]]] = defaultdict(set)
        self._latest: dict[FamilyKey, tuple[str, tuple[Shape, ...], Explanation]] = {}

    def compared(
        self, compile_: Compile, explanation: Explanation, shapes: tuple[tuple[Shape, ...], tuple[Shape, ...]] | None
    ) -> None:
        """A graph was compared in full; ``shapes``: the types of inputs before and now, when both are known."""
        family, varying = compile_.family, self._varying[compile_.family]
        moved = None if shapes is None else _moved(*shapes)
        if explanation.cause != _CAUSE or moved is None or shapes is None or compile_.graph is None:
            self._in_a_row[family] = 0
            return
        self._in_a_row[family] += 1
        varying |= moved
        self._latest[family] = (compile_.graph, shapes[1], explanation)

    def is_likely(self, compile_: Compile) -> bool:
        """Whether it is worth to look at the inputs of a graph alone."""
        return self._in_a_row[compile_.family] >= ENOUGH and compile_.graph is not None

    def explained(self, compile_: Compile, now: tuple[Shape, ...]) -> tuple[str, Explanation] | None:
        """The graph it differs from and why, when its inputs say so; ``now``: types of its inputs."""
        graph, before, example = self._latest[compile_.family]
        moved = _moved(before, now)
        if not moved or not moved <= self._varying[compile_.family]:
            return None
        number, _ = min(moved)
        dimensions = {d for _, d in moved}
        dims = tuple((name, d) for name, d in example.dims if d in dimensions) or example.dims
        return graph, replace(
            example, before=str(before[number]), now=str(now[number]), dims=dims, follows=0, by_inputs=True
        )


def _moved(before: tuple[Shape, ...], now: tuple[Shape, ...]) -> set[tuple[int, int]] | None:
    """(input, dimension) that differ; None when the inputs differ in more than sizes."""
    if len(before) != len(now):
        return None
    moved: set[tuple[int, int]] = set()
    for number, (x, y) in enumerate(zip(before, now, strict=True)):
        if x.dtype != y.dtype or len(x.dims) != len(y.dims):
            return None
        moved |= {(number, d) for d, (size, other) in enumerate(zip(x.dims, y.dims, strict=True)) if size != other}
    return moved
