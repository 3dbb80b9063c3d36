"""The in-memory compile cache over its size: a least-recently-used list, simulated from the recorded executions.

For one sequence, an execution finds its graph exactly when fewer other graphs ran since its last use than the cache
holds (Mattson's stack distance), so one pass gives the answer for every size. Each process has a cache of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

import pandas as pd

from xla_insight.analysis.tables import Process, RunTables
from xla_insight.facts.cache import HitRate, MemoryCache
from xla_insight.facts.events import CacheOutcome

SIZE_VARIABLE = "XLA_COMPILATION_CACHE_SIZE"
DEFAULT_SIZE = 2048
_SHOWN_SIZES = 200


def stack_distances(sequence: Iterable[Hashable]) -> tuple[Counter[int], int]:
    """(how often each distance occurs, number of first uses). The distance of a use is its place in the list of graphs
    by recent use, from 1: a cache of at least that size holds it.
    """
    recent: list[Hashable] = []
    known: set[Hashable] = set()
    distances: Counter[int] = Counter()
    for graph in sequence:
        if graph in known:
            place = recent.index(graph)
            distances[place + 1] += 1
            if place:
                del recent[place]
                recent.insert(0, graph)
        else:
            known.add(graph)
            recent.insert(0, graph)
    return distances, len(known)


def simulate(sequences: Iterable[Iterable[Hashable]], sizes: Iterable[int] | None = None) -> list[HitRate]:
    """Hits and compiles of every process together, at each size; without ``sizes`` at all that make a difference."""
    distances: Counter[int] = Counter()
    firsts = most = 0
    for sequence in sequences:
        found, new = stack_distances(sequence)
        distances += found
        firsts += new
        most = max(most, new)
    total = sum(distances.values()) + firsts
    rates, hits, place = [], 0, 0
    for size in sorted(_sizes(max([*distances, most, 1])) if sizes is None else set(sizes)):
        while place < size:
            place += 1
            hits += distances[place]
        rates.append(HitRate(size, hits, total - hits, total - hits - firsts))
    return rates


def memory_cache(tables: RunTables) -> MemoryCache:
    """The simulation for a run; executions of graphs without a known hash are left out."""
    sequences = _sequences(tables)
    rates = simulate(sequences)
    executions = sum(map(len, sequences))
    enough = next((rate.size for rate in rates if not rate.evicted_compiles), 1)
    outcomes = tables["executions"]["outcome"]
    return MemoryCache(
        executions=executions,
        distinct=len({graph for sequence in sequences for graph in sequence}),
        rates=tuple(rates),
        enough=enough,
        recorded_size=_recorded_size(tables.main_process()),
        recorded_compiles=int((outcomes == CacheOutcome.COMPILE).sum()),
    )


def _sequences(tables: RunTables) -> list[list[int]]:
    """The graphs that each process executed, in order, as small numbers: those compare faster than texts."""
    executions = tables["executions"]
    rows = executions[executions["graph"].notna()].sort_values("time_ns", kind="stable")
    codes, _ = pd.factorize(rows["graph"])
    processes = rows["process"].to_numpy()
    return [codes[processes == process.index].tolist() for process in tables.processes]


def _recorded_size(process: Process | None) -> int | None:
    if process is None:
        return None
    environment = process.facts.get("environment")
    text = str(environment.get(SIZE_VARIABLE, DEFAULT_SIZE)) if isinstance(environment, dict) else ""
    return int(text) if text.isdigit() else None


def _sizes(most: int) -> list[int]:
    """Every size up to the number of graphs; of many, about `_SHOWN_SIZES`, close together where they are small."""
    if most <= _SHOWN_SIZES:
        return list(range(1, most + 1))
    ratio = most ** (1 / _SHOWN_SIZES)
    return sorted({*(min(most, round(ratio**n)) for n in range(_SHOWN_SIZES + 1)), most})
