"""Which step an instant belongs to, as a function that the tables call for whole columns of times.

A join by time sorts both of its sides, with every column that comes along; at ten million events that takes most of the
time and memory of a report. A search in the sorted ends of the steps needs neither. Leaves where steps begin and end to
``views``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

FUNCTION = "step_at"
_NEVER = -(1 << 62)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The steps of one process, in order; they follow each other without gaps."""

    begin_ns: int
    ends_ns: NDArray[np.int64]
    numbers: NDArray[np.int32]


class StepIndex:
    """The steps of all processes of a run."""

    def __init__(self, steps: pa.Table) -> None:
        """``steps`` has the columns process, step, start_ns and end_ns, in order of process and end."""
        process = steps["process"].to_numpy()
        starts, ends, numbers = (steps[name].to_numpy() for name in ("start_ns", "end_ns", "step"))
        first = np.flatnonzero(np.diff(process, prepend=-1))
        self._bounds = {
            int(process[low]): _Bounds(int(starts[low]), ends[low:high], numbers[low:high].astype(np.int32))
            for low, high in zip(first, [*first[1:], len(process)], strict=False)
        }

    def step_at(self, process: pa.Array, time_ns: pa.Array) -> pa.Array:
        """The step of each instant; null before the first step and after the last mark."""
        owner, times = np.asarray(process), np.asarray(time_ns.fill_null(_NEVER))
        if not len(owner) or (owner[0] == owner[-1] and (owner == owner[0]).all()):
            steps, outside = self.steps_of(int(owner[0]) if len(owner) else -1, times)
            return pa.array(steps, mask=outside)
        steps, outside = np.zeros(len(times), np.int32), np.ones(len(times), np.bool_)
        for index in np.unique(owner):
            mine = owner == index
            steps[mine], outside[mine] = self.steps_of(int(index), times[mine])
        return pa.array(steps, mask=outside)

    def steps_of(self, process: int, times_ns: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """The step of each instant of a process, and which instants are in none (their step means nothing)."""
        bounds = self._bounds.get(process)
        if bounds is None:
            return np.zeros(len(times_ns), np.int32), np.ones(len(times_ns), np.bool_)
        found = _places(bounds.ends_ns, times_ns)
        outside = found == len(bounds.ends_ns)
        found[outside] = 0
        outside |= times_ns < bounds.begin_ns
        return bounds.numbers[found], outside

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make it the function `FUNCTION` of a database."""
        types: list[Any] = ["INTEGER", "BIGINT"]
        connection.create_function(FUNCTION, self.step_at, types, "INTEGER", type="arrow", null_handling="special")


def _places(edges: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of ``edges`` (rising) are before each time."""
    if len(times) > 2 * len(edges) and (times[1:] >= times[:-1]).all():  # to look up the edges takes fewer searches
        counts = np.diff(np.searchsorted(times, edges, side="right"), prepend=0, append=len(times))
        return np.repeat(np.arange(len(edges) + 1), counts)
    return np.searchsorted(edges, times)
