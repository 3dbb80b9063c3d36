"""What one run had of its caches, in memory and on disk: counts, the folder, and the sentence that leads the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xla_insight.analysis.cache.memory import memory_cache
from xla_insight.analysis.tables import RunTables
from xla_insight.analysis.totals import counted, graph_facts
from xla_insight.facts import numbers
from xla_insight.facts.cache import CacheUse, MemoryCache
from xla_insight.facts.report import GraphFacts


def cache_use(tables: RunTables) -> CacheUse:
    """The caches of a run, over all its processes."""
    graphs, memory = graph_facts(tables), memory_cache(tables)
    misses = counted(tables, "persistent_misses") or 0
    failures = counted(tables, "persistent_failures") or 0
    folder, read_only = used_folder(process.facts for process in tables.processes)
    return CacheUse(
        compiles=graphs.compiles,
        compile_s=graphs.compile_s,
        hits=graphs.cache_hits,
        loads=graphs.persistent_hits,
        misses=misses,
        failures=failures,
        evictions=graphs.evictions,
        folder=folder,
        read_only=read_only,
        memory=memory,
        summary=_summary(graphs, misses, failures, memory, folder),
    )


def used_folder(processes: Iterable[Mapping[str, Any]]) -> tuple[str | None, bool]:
    """(folder of the persistent cache, whether it was read only) as far as the facts of a run's processes say."""
    for facts in processes:
        environment: Any = facts.get("environment")
        kept: Any = facts.get("persistent_cache")
        if isinstance(kept, dict) and isinstance(kept.get("path"), str) and kept["path"]:
            return kept["path"], kept.get("read_only") is True
        found = environment.get("XLA_PERSISTENT_CACHE_PATH") if isinstance(environment, dict) else None
        if isinstance(found, str) and found:
            return found, environment.get("XLA_PERSISTENT_CACHE_READ_ONLY") in ("1", "true")
    return None, False


def _summary(graphs: GraphFacts, misses: int, failures: int, memory: MemoryCache, folder: str | None) -> str:
    if not graphs.compiles and not graphs.persistent_hits:
        return "This run compiled nothing."
    compiled = f"{numbers.plural(graphs.compiles, 'compile')} ({numbers.duration(graphs.compile_s)})"
    if graphs.evictions and memory.recorded_size is not None:
        return (
            f"{numbers.count(graphs.evictions)} of {compiled} were of graphs that had been dropped from the cache in"
            f" memory: XLA_COMPILATION_CACHE_SIZE={memory.enough} keeps them."
        )
    if failures:
        entries = numbers.plural(failures, "entry", "entries")
        return f"The persistent cache gave nothing back: {entries} could not be loaded, so there were {compiled}."
    if graphs.persistent_hits:
        loads = numbers.plural(graphs.persistent_hits, "graph")
        return f"{loads} came from the persistent cache; beside them there were {compiled}."
    if misses or folder is not None:
        return f"Nothing was found in the persistent cache: {compiled}. The next start can load what this one built."
    return f"No persistent cache was used: {compiled} come back with every start."
