"""Costs as functions of sizes, fitted to what was measured: robust, never negative, with a stated error.

The features are a constant, each size, and the products of sizes (attention grows with the square of a length); their
weights are not negative, so more padding never looks cheaper. Outliers lose weight (Huber). Where a shape was measured
often, its own median counts for more than the curve. Owns the fit, its error and the range it was fitted in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

_HUBER = 1.5
_ROUNDS = 8
_AS_GOOD_AS_THE_CURVE = 10.0
"""A shape measured so many times counts as much as the curve."""


@dataclass(frozen=True)
class CostModel:
    """Seconds as a function of sizes (one row a shape, one column an axis)."""

    weights: tuple[float, ...]
    """Of the features `_features` gives, in units of the scaled sizes."""
    scale: tuple[float, ...]
    """The largest fitted size of each axis."""
    smallest: tuple[float, ...]
    points: int
    """Distinct shapes it was fitted to."""
    samples: int
    error: float | None
    """Typical distance of a measured shape from the curve, as a share of the curve; None with too few shapes to say."""
    measured: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict)
    """Shape -> (its own median, how often it was measured)."""

    def seconds(self, sizes: Floats) -> Floats:
        """The cost of each shape."""
        sizes = sizes[:, : len(self.scale)]
        curve = self.curve(sizes)
        if not self.measured:
            return curve
        own = [self.measured.get(tuple(row), (0.0, 0.0)) for row in sizes.tolist()]
        value, count = np.array(own, np.float64).reshape(-1, 2).T
        trust = count / (count + _AS_GOOD_AS_THE_CURVE)
        return trust * value + (1 - trust) * curve

    def curve(self, sizes: Floats) -> Floats:
        """The fitted curve alone."""
        seconds: Floats = _features(sizes / np.array(self.scale), len(self.weights)) @ np.array(self.weights)
        return seconds

    def outside(self, sizes: Floats) -> Booleans:
        """Which shapes lie outside the sizes that were measured."""
        sizes = sizes[:, : len(self.scale)]
        beyond: Booleans = (sizes > np.array(self.scale)) | (sizes < np.array(self.smallest))
        return np.asarray(beyond.any(axis=1))


def fit(sizes: Floats, seconds: Floats, counts: Floats, *, own: bool = False) -> CostModel | None:
    """A model of ``seconds`` (one measured value a row, which stands for ``counts`` samples); None without any row.

    ``own``: let shapes that were measured often speak for themselves.
    """
    if not len(sizes):
        return None
    scale = np.maximum(sizes.max(axis=0), 1).astype(np.float64)
    shapes = len(np.unique(sizes, axis=0)) if sizes.shape[1] else 1
    wanted = _terms(sizes.shape[1], shapes)
    table = _features(sizes / scale, wanted)
    weights = _robust(table, seconds, np.sqrt(counts))
    curve = table @ weights
    error = None
    if shapes > np.count_nonzero(weights) and (curve > 0).all():
        error = float(np.average(np.abs(seconds - curve) / curve, weights=np.sqrt(counts)))
    measured = {}
    if own:
        rows = zip(sizes.tolist(), seconds.tolist(), counts.tolist(), strict=True)
        measured = {tuple(size): (value, count) for size, value, count in rows}
    return CostModel(
        tuple(float(weight) for weight in weights),
        tuple(scale.tolist()),
        tuple(float(size) for size in sizes.min(axis=0)),
        shapes,
        round(float(counts.sum())),
        error,
        measured,
    )


def _terms(axes: int, shapes: int) -> int:
    """How many features the number of shapes can bear: a constant, then the sizes, then their products."""
    if shapes <= axes + 1:
        return 1 if shapes == 1 else 1 + axes
    return 1 + axes + axes * (axes + 1) // 2 if shapes > 1 + axes + axes * (axes + 1) // 2 else 1 + axes


def _features(scaled: Floats, wanted: int) -> Floats:
    axes = range(scaled.shape[1])
    columns = [np.ones(len(scaled)), *(scaled[:, axis] for axis in axes)]
    columns += [scaled[:, one] * scaled[:, other] for one, other in combinations_with_replacement(axes, 2)]
    return np.stack(columns[:wanted], axis=1)


def _robust(table: Floats, target: Floats, weight: Floats) -> Floats:
    """Least squares without negative weights, repeated with less weight for rows that lie far off."""
    trust = np.ones(len(target))
    solution = _least_squares(table, target, weight)
    for _ in range(_ROUNDS):
        residual = np.abs(target - table @ solution)
        typical = 1.4826 * float(np.median(residual))
        if typical <= 1e-12:
            break
        trust = np.minimum(1.0, _HUBER * typical / np.maximum(residual, 1e-12))
        solution = _least_squares(table, target, weight * np.sqrt(trust))
    return solution


def _least_squares(table: Floats, target: Floats, weight: Floats) -> Floats:
    """The exact solution without negative weights: there are few features, so every choice of them is tried."""
    best, least = np.zeros(table.shape[1]), np.inf
    for count in range(1, table.shape[1] + 1):
        for chosen in map(list, combinations(range(table.shape[1]), count)):
            part = table[:, chosen] * weight[:, None]
            found = np.linalg.lstsq(part, target * weight, rcond=None)[0]
            loss = float(np.sum((part @ found - target * weight) ** 2))
            if (found >= 0).all() and loss < least * (1 - 1e-9):
                best, least = np.zeros(table.shape[1]), loss
                best[chosen] = found
    return best
