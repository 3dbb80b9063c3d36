"""Why a run compiled what it could have loaded, and what a start with this cache would save.

Owns the reasons, tried from what the cache shows to what other runs show: the entry is there and could not be read; it
went to another folder; an earlier run had the same computation under another key (then the environment differs, and
which part); an earlier run had another version of the graph (then the line that differs); an earlier run built it and
kept nothing; nobody ever built it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from xla_insight.analysis.cache import Cache
from xla_insight.analysis.cache.usage import device_of, hash_number, started
from xla_insight.analysis.cache.use import used_folder
from xla_insight.analysis.compare.graph_pairs import graph_changes
from xla_insight.analysis.environment import Setting, key_differences
from xla_insight.analysis.tables import RunTables, load_tables
from xla_insight.analysis.totals import counted
from xla_insight.facts import numbers
from xla_insight.facts.cache import CacheExplanation, Layout, Miss, MissReason, State
from xla_insight.facts.comparison import EnvironmentDifference, GraphPair

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

_NAMED = 4
MOST_EARLIER = 3
"""Runs before this one that its graphs are compared with, the last one first."""


_Costs = list[tuple[str | None, float | None]]
"""(graph, seconds to compile it)."""


@dataclass(frozen=True)
class _Case:
    """All that a miss is judged by."""

    cache: Cache
    tables: RunTables
    present: frozenset[int]
    failures: int
    other_folder: str | None
    uses_cache: bool
    pairs: dict[str, Earlier]
    """Graph of this run -> what an earlier run had in its place."""
    name: str = ""
    started_unix_s: float = 0.0
    misses: int = 0
    """Graphs that the run looked for in its cache and did not find."""


@dataclass(frozen=True)
class Earlier:
    """What an earlier run had in place of a graph, and how it was started."""

    run: str
    pair: GraphPair
    environment: tuple[EnvironmentDifference, ...]


def explain_misses(cache: Cache, run: Run, earlier: Sequence[Run] = ()) -> CacheExplanation:
    """What ``run`` took from the cache and why it compiled the rest; ``earlier``: runs before it, latest first."""
    tables = load_tables(run)
    compiled = _compiled(run)
    case = _case(cache, run, tables, earlier)
    misses = tuple(_miss(case, graph, compile_s) for graph, compile_s in compiled)
    loads = counted(tables, "persistent_hits") or 0
    needed = [*compiled, *_loaded(cache, run, {graph for graph, _ in compiled})]
    here = {graph for graph, _ in needed if graph is not None and hash_number(graph) in case.present}
    saves = sum(seconds or 0.0 for graph, seconds in needed if graph in here)
    rest = [seconds for graph, seconds in needed if graph not in here]
    notes = [*cache.notes, *_foreign_notes(cache)]
    if _folder(tables)[1]:
        notes.append("The run opened its cache read only: what it compiled was not kept.")
    failures = case.failures or _failed_elsewhere(cache, tables)
    loadable = not failures
    if here and not loadable:
        failed = numbers.plural(failures, "entry", "entries")
        whose = "" if case.failures else " in other runs"
        notes.append(
            f"This backend could not load what it wrote ({failed} failed{whose}): a warm start saves nothing here."
        )
    return CacheExplanation(
        run=run.path,
        cache=cache.folder.path,
        loads=loads,
        misses=misses,
        graphs=len(needed),
        present=len(here),
        saves_s=saves if loadable else 0.0,
        would_compile=len(rest) if loadable else len(needed),
        would_compile_s=sum(seconds or 0.0 for seconds in rest) if loadable else sum(s or 0.0 for _, s in needed),
        summary=_summary(needed, len(compiled), here, rest, loadable),
        notes=tuple(notes),
    )


def _summary(needed: _Costs, compiled: int, here: set[str], rest: Sequence[float | None], loadable: bool) -> str:
    if not needed:
        return "This run compiled nothing."
    did = "compiled" if compiled == len(needed) else "compiled or loaded" if compiled else "loaded"
    cost = numbers.duration(sum(seconds or 0.0 for seconds in rest))
    if not here:
        graphs = "The graph" if len(needed) == 1 else f"None of the {numbers.plural(len(needed), 'graph')}"
        isnt = "is not" if len(needed) == 1 else "is"
        return f"{graphs} that this run {did} {isnt} in this cache: a start with it compiles everything ({cost})."
    have = f"Of {numbers.plural(len(needed), 'graph')} that this run {did}, {numbers.count(len(here))}"
    have += f" {'is' if len(here) == 1 else 'are'} in this cache"
    if not loadable:
        return f"{have}, but this backend cannot load them: a warm start would compile all of them again."
    known = [seconds for graph, seconds in needed if graph in here and seconds is not None]
    least = "at least " if len(known) < len(here) else ""
    compiles = f"{numbers.count(len(rest))} ({cost})" if rest else "nothing"
    return f"{have}: a warm start saves {least}{numbers.duration(sum(known))} and compiles {compiles}."


def _loaded(cache: Cache, run: Run, compiled: set[str | None]) -> _Costs:
    """(graph, seconds) of what the run took from a cache and did not compile; the seconds are those of other runs."""
    frame = run.sql("select distinct graph from executions where outcome = 'persistent_hit' and graph is not null")
    found = [str(graph) for graph in frame["graph"] if graph not in compiled]
    uses = cache.usage.graphs
    return [(graph, use.compile_s if (use := uses.get(hash_number(graph) or 0)) else None) for graph in found]


_FOREIGN = {
    Layout.JAX: "JAX names entries by a hash of its own over program, options and devices",
    Layout.NEURON: "Neuron names entries by a hash of the HLO and one of the compiler's flags",
}


def _foreign_notes(cache: Cache) -> list[str]:
    """That entries of JAX and Neuron are joined to no run, and why nothing could."""
    counts = {layout: sum(entry.layout is layout for entry in cache.listing.entries) for layout in _FOREIGN}
    return [
        f"{numbers.plural(count, 'entry', 'entries')} cannot be joined to recorded graphs: {_FOREIGN[layout]}, which no"
        " recording holds."
        for layout, count in counts.items()
        if count
    ]


def _case(cache: Cache, run: Run, tables: RunTables, earlier: Sequence[Run]) -> _Case:
    whole = (State.TORN, State.FAILED, State.LOCKED)
    present = frozenset(
        int(entry.name)
        for entry in cache.listing.entries
        if entry.layout is Layout.TORCH_XLA and entry.damage not in whole
    )
    used = {
        name: counted(tables, name) or 0 for name in ("persistent_hits", "persistent_misses", "persistent_failures")
    }
    return _Case(
        cache=cache,
        tables=tables,
        present=present,
        failures=used["persistent_failures"],
        other_folder=_other_folder(cache, tables),
        uses_cache=any(used.values()),
        pairs=_pairs(run, tables, earlier),
        name=os.path.basename(run.path.rstrip("/")),
        started_unix_s=started(run),
        misses=used["persistent_misses"],
    )


def _failed_elsewhere(cache: Cache, tables: RunTables) -> int:
    """Entries that other runs on this kind of device failed to load, when none ever loaded one."""
    main = tables.main_process()
    return 0 if main is None else cache.usage.failed_on(device_of(main.facts))


def _pairs(run: Run, tables: RunTables, earlier: Sequence[Run]) -> dict[str, Earlier]:
    """What the last runs had in place of each graph: the same under another key before another version of it."""
    pairs: dict[str, Earlier] = {}
    for previous in earlier[:MOST_EARLIER]:
        environment = key_differences(_setting(previous, load_tables(previous)), _setting(run, tables))
        name = os.path.basename(previous.path.rstrip("/"))
        for pair in graph_changes(previous, run).pairs:
            if pair.now is None or pair.change not in ("renamed", "changed"):
                continue
            known = pairs.get(pair.now)
            if known is None or (known.pair.change, pair.change) == ("changed", "renamed"):
                pairs[pair.now] = Earlier(name, pair, environment)
    return pairs


def _setting(run: Run, tables: RunTables) -> Setting:
    ranks = len({process.rank for process in tables.processes})
    return Setting(tables.main_process(), ranks, tuple(str(part) for part in run.info.get("command", ())))


def _folder(tables: RunTables) -> tuple[str | None, bool]:
    return used_folder(process.facts for process in tables.processes)


def _other_folder(cache: Cache, tables: RunTables) -> str | None:
    """The folder that the run kept its cache in, when that is known and another one."""
    found, _ = _folder(tables)
    if found is None:
        return None
    return None if _is_this(cache, found) else found


def _is_this(cache: Cache, folder: str) -> bool:
    """Whether a folder that a run used is this cache."""
    same = cache.folder.local is not None and os.path.realpath(folder) == cache.folder.local
    return same or folder.rstrip("/") == cache.folder.path.rstrip("/")


def _compiled(run: Run) -> _Costs:
    """(graph, seconds) of everything the run compiled, once each, most costly first."""
    frame = run.sql(
        "select graph, max(duration_ns) as ns from compiles where graph is not null group by graph"
        " union all select null, duration_ns from compiles where graph is null"
    ).sort_values("ns", ascending=False)
    return [
        (row.graph if isinstance(row.graph, str) else None, None if pd.isna(row.ns) else float(row.ns) / 1e9)
        for row in frame.itertuples(index=False)
    ]


def _miss(case: _Case, graph: str | None, compile_s: float | None) -> Miss:
    present = hash_number(graph) in case.present if graph is not None else False
    reason, sentence = _reason(case, graph, present)
    return Miss(graph, reason, sentence, compile_s, present)


def _reason(case: _Case, graph: str | None, present: bool) -> tuple[MissReason, str]:
    if not case.uses_cache and _folder(case.tables)[0] is None:
        return MissReason.NO_CACHE, "The run did not look into any persistent cache: call xr.initialize_cache(path)."
    if case.other_folder is not None:
        return MissReason.OTHER_FOLDER, f"The run used another folder: {case.other_folder}."
    if graph is None:
        return MissReason.NEVER_BUILT, "The graph's hash was not recorded, so it cannot be looked up."
    earlier = _earlier_builders(case, graph)
    keepers = [name for name in earlier if _kept_here(case.cache, name)]
    # Where no recorded run can have put it before, it was there only if the run found something for each graph.
    if present and case.failures and (keepers or not case.misses):
        return MissReason.UNREADABLE, "An entry is there, and this backend failed to load it (XLA:CPU never can)."
    before = case.pairs.get(graph)
    if before is not None and before.pair.change == "renamed":
        return MissReason.OTHER_ENVIRONMENT, f"Run {before.run} built the same computation under another key" + (
            f": {_parts(before.environment)}."
            if before.environment
            else "; nothing recorded of the environment differs."
        )
    if before is not None:
        return MissReason.OTHER_GRAPH, f"Run {before.run} built another version of it. {before.pair.summary}"
    return _reason_by_use(case, earlier, keepers, present)


def _earlier_builders(case: _Case, graph: str) -> list[str]:
    """Recorded runs before this one that had the very graph, in order of their start."""
    usage = case.cache.usage
    use = usage.graphs.get(hash_number(graph) or 0)
    runs = [] if use is None else use.runs
    if case.name in runs:
        return runs[: runs.index(case.name)]
    return [name for name in runs if usage.started.get(name, 0.0) < case.started_unix_s]


def _kept_here(cache: Cache, run: str) -> bool:
    """Whether a run can have left an entry in this cache, as far as is known."""
    folder = cache.usage.folders.get(run)
    return run not in cache.usage.read_only and (folder is None or _is_this(cache, folder))


def _reason_by_use(
    case: _Case, earlier: Sequence[str], keepers: Sequence[str], present: bool
) -> tuple[MissReason, str]:
    """Whether other runs had the very graph."""
    written = " It is there now, for the next run." if present else ""
    if not earlier:
        return MissReason.NEVER_BUILT, f"No earlier run is known to have built it.{written}"
    usage, last = case.cache.usage, earlier[-1]
    if keepers:
        where = "it was not there when this run looked" if present else "it is not in this cache"
        return MissReason.GONE, f"Run {keepers[-1]} has this graph, too, but {where}: deleted, or never kept.{written}"
    if last in usage.read_only:
        sentence = f"Run {last} built this graph with its cache read only, so it was not kept."
        return MissReason.READ_ONLY, sentence + written
    sentence = f"Run {last} built this graph and kept it in another folder: {usage.folders[last]}."
    return MissReason.OTHER_FOLDER, sentence + written


def _parts(environment: Sequence[EnvironmentDifference]) -> str:
    """What differs in the environment: which part, now and before."""
    texts = [
        f"{part.name} is now {part.now or 'not set'}, before {part.before or 'not set'}"
        for part in environment[:_NAMED]
    ]
    more = f" and {len(environment) - _NAMED} more" if len(environment) > _NAMED else ""
    return "; ".join(texts) + more
