"""What the program did between the last sync and a cut: uploads, reads, operations whose result has a size of its own.

Owns the lookup by time. Each table is sorted once; a lookup costs a binary search.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from xla_insight.analysis.tables import Place, RunTables, integers
from xla_insight.facts.events import Trigger
from xla_insight.facts.report import Site

NEVER_NS = -(1 << 62)
_PARTIAL = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)
"""Cuts that run a part of the pending graph."""
MAX_SCALARS = 64
MAX_LOOKBACK = 5_000
"""Uploads looked through for one that came long before its use."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A tensor on its way to the device. ``name`` is its key in the batch, empty when it came from no batch."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    place: Place
    maker: Place | None
    """The function that made the batch (the collator), when the tensor came from a loader."""


@dataclass(frozen=True, slots=True)
class Since:
    """What happened between the last sync and a cut. ``operations``: CPU operations with their count."""

    uploads: tuple[Upload, ...] = ()
    operations: Counter[str] | None = None
    scalars: frozenset[int] = frozenset()
    read_graphs: tuple[str, ...] = ()
    """Graphs that value reads executed."""
    previous: tuple[str, ...] = ()
    """The graphs executed since the last sync and by it, latest first."""
    asked: tuple[Site, ...] = ()
    """Where operations asked for a value themselves: they cut the graph, and none ran on the CPU."""
    replaced: Place | None = None
    """Where a module's parameters were replaced under an optimizer that still holds the old ones."""


class Happenings:
    """Looks up what happened before a cut of one process."""

    def __init__(self, tables: RunTables) -> None:
        self._tables = tables
        self._tracks: dict[tuple[str, int], _Track] = {}

    def since_last_sync(self, process: int, cut_ns: int, compiled_ns: int) -> Since:
        """What happened between the last sync that ran a graph and the cut at ``cut_ns``; its compile ended at
        ``compiled_ns``.
        """
        low = self._last_sync(process, cut_ns)
        # CPU operations are counted by the framework, and the counts are read at the end of a cut.
        end_ns = max(compiled_ns, self._end_of_cut(process, cut_ns))
        uploads = [self._upload(process, row) for row in self._rows("uploads", process, low, cut_ns)]
        operations: Counter[str] = Counter()
        for row in self._rows("data_operations", process, low, end_ns + 1):
            operations[str(row["name"])] += round(row["delta"])
        reads = list(self._rows("scalar_reads", process, low, cut_ns))[-MAX_SCALARS:]
        # By cut, not by execution: the device may begin later than the next cut.
        cuts = [row for row in self._rows("syncs", process, low, cut_ns) if isinstance(row["graph"], str)]
        ended = self._track("ended_syncs", process).last_before(cut_ns)
        last = [ended] if ended is not None and isinstance(ended["graph"], str) else []
        forced = [self._tables.place(process, row["site"]) for row in cuts if row["trigger"] == Trigger.FORCED]
        replaced = [self._tables.place(process, row["site"]) for row in self._rows("stale", process, low, cut_ns)]
        return Since(
            uploads=tuple(uploads),
            operations=operations,
            scalars=frozenset(number for row in reads if (number := _whole(row["scalar"])) is not None),
            read_graphs=tuple(dict.fromkeys(str(row["graph"]) for row in cuts if row["trigger"] in _PARTIAL)),
            previous=tuple(dict.fromkeys(str(row["graph"]) for row in (*reversed(cuts), *last))),
            asked=() if operations else tuple(place.site for place in forced if place.site is not None),
            replaced=replaced[0] if replaced else None,
        )

    def earlier_uploads(self, process: int, cut_ns: int, limit: int = 256) -> tuple[Upload, ...]:
        """The latest distinct uploads before a cut, newest first: a batch may wait for several steps."""
        track = self._track("uploads", process)
        seen: dict[tuple[object, ...], Upload] = {}
        for row in islice(track.backwards(cut_ns), MAX_LOOKBACK):
            key = (row["name"], row["dims"], row["dtype"], row["site"])
            if key not in seen:
                seen[key] = self._upload(process, row)
            if len(seen) >= limit:
                break
        return tuple(seen.values())

    def _last_sync(self, process: int, cut_ns: int) -> int:
        row = self._track("ended_syncs", process).last_before(cut_ns)
        return NEVER_NS if row is None else int(row["end_ns"])

    def _end_of_cut(self, process: int, cut_ns: int) -> int:
        for row in self._track("ended_syncs", process).between(cut_ns, cut_ns + 1):
            return int(row["end_ns"])
        return cut_ns

    def _upload(self, process: int, row: dict[str, Any]) -> Upload:
        maker = self._tables.place(process, row["maker"])
        return Upload(
            name=row["name"] if isinstance(row["name"], str) else "",
            dtype=str(row["dtype"]),
            dims=_dims(row["dims"]),
            place=self._tables.place(process, row["site"]),
            maker=maker if maker.site is not None else None,
        )

    def _rows(self, name: str, process: int, low: int, high: int) -> Iterator[dict[str, Any]]:
        return self._track(name, process).between(low, high)

    def _track(self, name: str, process: int) -> _Track:
        found = self._tracks.get((name, process))
        if found is None:
            found = self._tracks[name, process] = _Track(self._frame(name, process))
        return found

    def _frame(self, name: str, process: int) -> pd.DataFrame:
        if name != "ended_syncs":
            return self._tables.of(name, process)
        syncs = self._tables.of("syncs", process)
        ended = syncs[~syncs["trigger"].isin(_PARTIAL) & (syncs["executions"].fillna(0) > 0)]
        return ended.assign(end_ns=ended["time_ns"] + ended["duration_ns"].fillna(0).astype("int64"))


class _Track:
    """Rows of one table and process in order of time, as arrays: a row of a frame costs a hundred times as much."""

    def __init__(self, frame: pd.DataFrame) -> None:
        ordered = frame.sort_values("time_ns", kind="stable")
        self._times = integers(ordered["time_ns"])
        self._columns = {str(name): ordered[name].to_numpy(dtype=object) for name in ordered.columns}

    def between(self, low: int, high: int) -> Iterator[dict[str, Any]]:
        """Rows of the time [low, high)."""
        first, last = np.searchsorted(self._times, [low, high])
        for position in range(int(first), int(last)):
            yield self._row(position)

    def last_before(self, time_ns: int) -> dict[str, Any] | None:
        """The latest row before a time."""
        position = int(np.searchsorted(self._times, time_ns))
        return self._row(position - 1) if position else None

    def backwards(self, time_ns: int) -> Iterator[dict[str, Any]]:
        """Rows before a time, latest first."""
        for position in range(int(np.searchsorted(self._times, time_ns)) - 1, -1, -1):
            yield self._row(position)

    def _row(self, position: int) -> dict[str, Any]:
        return {name: values[position] for name, values in self._columns.items()}


def _dims(text: object) -> tuple[int, ...]:
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except ValueError:
        return ()
    return tuple(int(value) for value in found if isinstance(value, int))


def _whole(text: object) -> int | None:
    try:
        value = float(text) if isinstance(text, str) and text not in ("True", "False") else None
    except ValueError:
        return None
    return int(value) if value is not None and abs(value) < 1 << 53 and value.is_integer() else None
