"""Dimension tracking: which sizes moved, which of them moved together, and what a moved size explains.

Owns the arithmetic of "this follows from that". A sequence length appears in hundreds of shapes, in products with the
batch size, in slice limits and in the divisor of a mean: all of it is one move.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

from xla_insight.graph.model import Attributes, Literal, Shape

Move = tuple[int, int]

_INTEGER = re.compile(r"-?\d+")
_MAX_BASES = 8


def dimension_moves(before: Shape, after: Shape) -> list[tuple[int, Move]]:
    """(dimension, (size before, size after)) of two arrays of equal rank; empty when the ranks differ."""
    if len(before.dims) != len(after.dims):
        return []
    return [(d, (x, y)) for d, (x, y) in enumerate(zip(before.dims, after.dims, strict=True)) if x != y]


class Explainer:
    """Says whether a change of a number follows from base moves."""

    def __init__(self, bases: Iterable[Move]) -> None:
        self.bases: tuple[Move, ...] = tuple(dict.fromkeys(move for move in bases if move[0] != move[1]))[:_MAX_BASES]
        self._factors: list[Move] = [*self.bases]
        for x, y in combinations_with_replacement(self.bases, 2):
            product = (x[0] * y[0], x[1] * y[1])
            if product[0] != product[1]:
                self._factors.append(product)
        self._known: dict[tuple[float, float], bool] = {}

    def number(self, before: float, after: float) -> bool:
        """Whether a number moved as a multiple, a fraction or a small offset of a base does."""
        if before == after:
            return True
        key = (before, after)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = any(_follows(before, after, base) for base in self._factors)
        return found

    def numbers(self, before: Sequence[float], after: Sequence[float]) -> bool:
        """Whether all numbers of two equally long lists moved so."""
        return len(before) == len(after) and all(self.number(x, y) for x, y in zip(before, after, strict=True))

    def shapes(self, before: Shape, after: Shape) -> bool:
        """Whether the dimensions of two types moved so."""
        if before.dtype != after.dtype or len(before.parts) != len(after.parts):
            return False
        if before.is_tuple:
            return all(self.shapes(x, y) for x, y in zip(before.parts, after.parts, strict=True))
        return self.numbers(before.dims, after.dims)

    def literals(self, before: Literal | None, after: Literal | None) -> bool:
        """Whether a constant that holds a size, or an arange of that size, moved so."""
        if before is None or after is None or before.values is None or after.values is None:
            return False
        left, right = before.values, after.values
        if any(isinstance(value, complex) for value in (*left, *right)):
            return False
        if len(left) != len(right):
            short, long = sorted((left, right), key=len)
            return self.number(len(left), len(right)) and long[: len(short)] == short
        return self.numbers(left, right)  # type: ignore[arg-type]

    def attributes(self, before: Attributes, after: Attributes) -> bool:
        """Whether the numbers inside all differing attributes moved so."""
        if before.opaque != after.opaque or len(before.readable) != len(after.readable):
            return False
        for (name, left), (other, right) in zip(before.readable, after.readable, strict=True):
            if name != other or _INTEGER.sub("#", left) != _INTEGER.sub("#", right):
                return False
            if not self.numbers([*map(int, _INTEGER.findall(left))], [*map(int, _INTEGER.findall(right))]):
                return False
        return True


def _follows(before: float, after: float, base: Move) -> bool:
    x, y = base
    if before * y == after * x and before != 0:
        return True
    if 0 < abs(before) < 1 and abs(before * x - after * y) <= 1e-6 * abs(before * x):
        return True  # the reciprocal, as in a mean
    if before != int_of(before) or after != int_of(after):
        return False
    step, rest = divmod(int(after) - int(before), y - x)
    if rest or step == 0:
        return False
    # A multiple and a small offset: the next-token shift slices [0 : n - 1].
    return abs(int(before) - step * x) <= 2 * abs(step) <= 2 * abs(int(before))


def int_of(value: float) -> float:
    """The value cut to an integer, or NaN where there is none."""
    return float(int(value)) if abs(value) < 1e18 else float("nan")
