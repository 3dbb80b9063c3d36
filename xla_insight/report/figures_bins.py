"""Steps thinned to what a screen can show: one column a step, or one column for several when there are too many.

Owns the choice of columns and what stands for a column: the mean of every time, the longest and shortest step, and the
*rarest* graph, so that a single odd step among thousands is never averaged away. Leaves drawing to ``figures``, and the
table it starts from (one row a step) to ``analysis``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.facts.report import HostState

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

NO_GRAPH = -1
"""The rank of a column in which no graph ran."""


@dataclass(frozen=True, slots=True)
class StepBins:
    """Columns of a step figure, all arrays of one length. Times are ns; ``host`` and ``busy`` are means per step.

    ``graph`` holds ranks by number of steps in the whole run (0 = most frequent); ``busy`` is NaN where not known.
    ``lit`` marks columns with a step to point at; None: nothing is pointed at. ``per_column`` is the number of steps
    that share a column; ``first`` and ``last`` are the step numbers a column covers.
    """

    first: IntArray
    last: IntArray
    graph: IntArray
    graphs: IntArray
    compiles: IntArray
    compile_ns: FloatArray
    longest_ns: FloatArray
    shortest_ns: FloatArray
    mean_ns: FloatArray
    host: dict[HostState, FloatArray]
    busy: FloatArray
    lit: BoolArray | None
    per_column: int
    names: tuple[str, ...]
    """Graph hashes by rank."""

    def __len__(self) -> int:
        return len(self.first)


def rank_graphs(steps: pd.DataFrame) -> tuple[str, ...]:
    """Graph hashes of a step table by number of steps, most first; among equals the one seen first."""
    counted = steps.groupby("graph", sort=False, observed=True)["step"].agg(["size", "min"])
    ordered = counted.sort_values(["size", "min"], ascending=[False, True])
    return tuple(str(name) for name in ordered.index)


def bin_steps(
    steps: pd.DataFrame,
    names: Sequence[str],
    *,
    columns: int,
    lit: set[int] | None = None,
) -> StepBins:
    """Columns for the steps of ONE process (rows of the step table, ordered by step).

    ``names``: graph hashes by rank, from `rank_graphs`. ``columns``: the most columns wanted. ``lit``: steps to point
    at.
    """
    numbers = steps["step"].to_numpy(dtype=np.int64)
    per_column = max(1, -(-len(numbers) // max(1, columns)))
    starts, counts = _columns(numbers, per_column)
    mean = _Mean(steps, starts, counts)
    durations = _floats(steps, "duration_ns")
    return StepBins(
        first=numbers[starts],
        last=numbers[starts + counts - 1] if len(starts) else numbers[:0],
        graph=_reduce(np.maximum, _ranks(steps, names), starts),
        graphs=_reduce(np.maximum, _ints(steps, "graphs"), starts),
        compiles=_reduce(np.add, _ints(steps, "compiles"), starts),
        compile_ns=_reduce(np.add, _floats(steps, "compile_ns"), starts),
        longest_ns=_reduce(np.fmax, durations, starts),
        shortest_ns=_reduce(np.fmin, durations, starts),
        mean_ns=mean.of("duration_ns"),
        host={state: mean.of(f"host_{state.value}_ns") for state in HostState},
        busy=mean.of("device_busy_ns", missing=np.nan),
        lit=None if lit is None else _reduce(np.logical_or, np.isin(numbers, list(lit)), starts),
        per_column=per_column,
        names=tuple(names),
    )


@dataclass(frozen=True, slots=True)
class StepColumns:
    """Columns of steps as in `StepBins`, with the sums of some columns of the step table; NaN where one is unknown."""

    first: IntArray
    last: IntArray
    steps: IntArray
    sums: dict[str, FloatArray]


def sum_steps(steps: pd.DataFrame, names: Sequence[str], *, columns: int) -> StepColumns:
    """Columns for the steps of ONE process, with the sums of ``names``."""
    numbers = steps["step"].to_numpy(dtype=np.int64)
    starts, counts = _columns(numbers, max(1, -(-len(numbers) // max(1, columns))))
    return StepColumns(
        first=numbers[starts],
        last=numbers[starts + counts - 1] if len(starts) else numbers[:0],
        steps=counts,
        sums={name: _reduce(np.add, _floats(steps, name), starts) for name in names},
    )


def _columns(numbers: IntArray, per_column: int) -> tuple[IntArray, IntArray]:
    """Index of each column's first row, and its number of rows. Columns begin at multiples of ``per_column`` so that
    they stay the same when a run grows or the view moves."""
    if len(numbers) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, starts, counts = np.unique(numbers // per_column, return_index=True, return_counts=True)
    return starts.astype(np.int64), counts.astype(np.int64)


def _reduce(operation: np.ufunc, values: NDArray[Any], starts: IntArray) -> NDArray[Any]:
    reduced: NDArray[Any] = operation.reduceat(values, starts) if len(starts) else values[:0]
    return reduced


def _ranks(steps: pd.DataFrame, names: Sequence[str]) -> IntArray:
    rank_of = pd.Series(np.arange(len(names)), index=pd.Index(names, dtype=object))
    ranks: IntArray = steps["graph"].astype(object).map(rank_of).fillna(NO_GRAPH).to_numpy(dtype=np.int64)
    return ranks


def _floats(steps: pd.DataFrame, column: str) -> FloatArray:
    values: FloatArray = pd.to_numeric(steps[column]).to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _ints(steps: pd.DataFrame, column: str) -> IntArray:
    return np.nan_to_num(_floats(steps, column)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Mean:
    """Means over columns; unknown values count as ``missing``, so that one unknown step leaves its column unknown."""

    steps: pd.DataFrame
    starts: IntArray
    counts: IntArray

    def of(self, column: str, missing: float = 0.0) -> FloatArray:
        values = np.nan_to_num(_floats(self.steps, column), nan=missing)
        return np.asarray(_reduce(np.add, values, self.starts) / self.counts, dtype=np.float64)
