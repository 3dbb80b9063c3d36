"""The syncs that every rank makes, side by side: which graph each rank cuts at the same sync, and where they part.

Owns which processes are compared and which cuts count: explicit ones that ran something. Leaves what it means to the
finding `rank_divergence` and to pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.analysis.tables import Place, Process, RunTables
from xla_insight.facts.events import Trigger

_PARTIAL = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)
SHOWN = 60
"""Syncs of a strip."""
_BEFORE = 12
"""Of those, how many stand before the first at which ranks part."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One sync of one rank."""

    graph: str
    place: Place
    step: int | None


class RankCuts:
    """The cuts of one process, in order."""

    def __init__(self, tables: RunTables, process: Process, lines: dict[tuple[str, int], int]) -> None:
        self.process = process
        self._tables = tables
        syncs = tables.of("syncs", process.index)
        self._rows = syncs[
            ~syncs["trigger"].isin(_PARTIAL) & (syncs["executions"].fillna(0) > 0) & syncs["graph"].notna()
        ]
        self.graphs: NDArray[np.object_] = self._rows["graph"].astype(object).to_numpy()
        numbers, sites = pd.factorize(self._rows["site"])
        codes = [*(self._code(site, lines) for site in sites), self._code(None, lines)]  # -1, the last: no site known
        self.lines: NDArray[np.int64] = np.array(codes, dtype=np.int64)[numbers]

    def _code(self, site: object, lines: dict[tuple[str, int], int]) -> int:
        place = self._tables.place(self.process.index, site)
        found = place.user_site or place.site
        return lines.setdefault((found.file, found.line) if found else ("", 0), len(lines))

    def __len__(self) -> int:
        return len(self._rows)

    def cut(self, index: int) -> Cut:
        """One of them."""
        row = self._rows.iloc[index]
        step = None if pd.isna(row["step"]) else int(row["step"])
        return Cut(str(row["graph"]), self._tables.place(self.process.index, row["site"]), step)

    def first_difference(self, other: RankCuts) -> int | None:
        """The first sync at one line with two graphs; None when there is none, or the ranks sync at other lines."""
        count = min(len(self), len(other))
        parted = np.flatnonzero(self.lines[:count] != other.lines[:count])
        until = int(parted[0]) if len(parted) else count
        differing = np.flatnonzero(self.graphs[:until] != other.graphs[:until])
        return int(differing[0]) if len(differing) else None


@dataclass(frozen=True, slots=True)
class SyncStrip:
    """Some syncs of all ranks. ``graphs`` has a row a rank and a column a sync, None where a rank made fewer.

    ``parts_at`` is the sync, counted from 0, at which ranks part first; None: they do not.
    """

    first: int
    ranks: tuple[Process, ...]
    graphs: tuple[tuple[str | None, ...], ...]
    steps: tuple[int | None, ...]
    parts_at: int | None
    syncs: int
    """Of the rank with the most."""


def compared_ranks(tables: RunTables) -> list[RankCuts]:
    """The cuts of one process of each rank: of those that lived at the same time as the first, or say that they belong
    to a job of as many (on a busy machine a rank may end before another begins to record)."""
    found: dict[int, Process] = {}
    for process in tables.processes:
        first = next(iter(found.values()), process)
        overlaps = process.start_ns < first.end_ns and first.start_ns < process.end_ns
        if process.rank not in found and (overlaps or _in_one_job(first, process)):
            found[process.rank] = process
    lines: dict[tuple[str, int], int] = {}
    return [RankCuts(tables, found[rank], lines) for rank in sorted(found)]


def _in_one_job(first: Process, process: Process) -> bool:
    sizes = {one.facts.get("world_size") for one in (first, process)}
    return len(sizes) == 1 and isinstance(size := sizes.pop(), int) and size > max(1, first.rank, process.rank)


def parting(ranks: Sequence[RankCuts]) -> tuple[int, RankCuts] | None:
    """(the first sync at which a rank cuts another graph than the first rank, that rank); None: they cut the same."""
    if len(ranks) < 2:
        return None
    parted = [(index, other) for other in ranks[1:] if (index := ranks[0].first_difference(other)) is not None]
    return min(parted, key=lambda found: found[0]) if parted else None


def sync_strip(tables: RunTables, shown: int = SHOWN) -> SyncStrip | None:
    """The syncs around the place where ranks part, else the first ones; None for a run of one rank."""
    ranks = compared_ranks(tables)
    if len(ranks) < 2:
        return None
    found = parting(ranks)
    at = None if found is None else found[0]
    longest = max(len(rank) for rank in ranks)
    first = max(0, min((at or 0) - _BEFORE, longest - shown))
    columns = range(first, min(longest, first + shown))
    graphs = tuple(tuple(str(rank.graphs[i]) if i < len(rank) else None for i in columns) for rank in ranks)
    steps = tuple(next((rank.cut(i).step for rank in ranks if i < len(rank)), None) for i in columns)
    return SyncStrip(first, tuple(rank.process for rank in ranks), graphs, steps, at, longest)
