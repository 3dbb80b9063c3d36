"""Why a run compiled what it could have loaded, and what a start with this cache would save.

Owns the reasons, tried from what the cache shows to what other runs show: the entry is there and could not be read; it
went to another folder; an earlier run had the same computation under another key (then the environment differs, and
which part); an earlier run had another version of the graph (then the line that differs); nobody ever built it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from xla_insight.analysis.cache import Cache
from xla_insight.analysis.cache.usage import hash_number
from xla_insight.analysis.cache.use import used_folder
from xla_insight.analysis.compare.environment import Setting, environment_differences
from xla_insight.analysis.compare.graph_pairs import graph_changes
from xla_insight.analysis.tables import RunTables, load_tables
from xla_insight.analysis.totals import counted
from xla_insight.facts import numbers
from xla_insight.facts.cache import CacheExplanation, Layout, Miss, MissReason, State
from xla_insight.facts.comparison import EnvironmentDifference, GraphPair

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

_KEY_PARTS = ("version of", "device", "spmd", "number of devices", "world size", "XLA_FLAGS", "LIBTPU", "TPU_",
              "XLA_USE_", "XLA_IR_DEBUG", "XLA_HLO_DEBUG", "NEURON_", "CPU_NUM_DEVICES")  # fmt: skip
"""Beginnings of what is, or may be, part of a key."""
_NAMED = 4


@dataclass(frozen=True)
class _Case:
    """All that a miss is judged by."""

    cache: Cache
    tables: RunTables
    present: frozenset[int]
    failures: int
    other_folder: str | None
    uses_cache: bool
    pairs: dict[str, GraphPair]
    environment: tuple[EnvironmentDifference, ...]
    previous: str


def explain_misses(cache: Cache, run: Run, previous: Run | None = None) -> CacheExplanation:
    """What ``run`` took from the cache and why it compiled the rest; ``previous`` is a run to compare it with."""
    tables = load_tables(run)
    case = _case(cache, run, tables, previous)
    compiled = _compiled(run)
    misses = tuple(
        _miss(case, graph, compile_s) for graph, compile_s in compiled
    )  # fmt: skip
    loads = counted(tables, "persistent_hits") or 0
    named = {graph: seconds for graph, seconds in compiled if graph is not None}
    here = {graph for graph in named if hash_number(graph) in case.present}
    saves = sum(named[graph] or 0.0 for graph in here)
    rest = [seconds for graph, seconds in compiled if graph not in here]
    notes = list(cache.notes)
    others = sum(entry.layout is not Layout.TORCH_XLA for entry in cache.listing.entries)
    if others:
        notes.append(f"{numbers.plural(others, 'entry', 'entries')} of JAX or Neuron cannot be told by a graph's hash.")
    if used_folder(tables)[1]:
        notes.append("The run opened its cache read only: what it compiled was not kept.")
    loadable = not case.failures
    if not loadable:
        notes.append(
            "This backend could not load what it wrote"
            f" ({numbers.plural(case.failures, 'entry', 'entries')} failed): a warm start saves nothing here."
        )
    return CacheExplanation(
        run=run.path,
        cache=cache.folder.path,
        loads=loads,
        misses=misses,
        graphs=len(compiled),
        present=len(here),
        saves_s=saves if loadable else 0.0,
        would_compile=len(rest) if loadable else len(compiled),
        would_compile_s=sum(seconds or 0.0 for seconds in rest) if loadable else sum(s or 0.0 for _, s in compiled),
        summary=_summary(len(compiled), len(here), saves, rest, loadable),
        notes=tuple(notes),
    )


def _summary(graphs: int, present: int, saves: float, rest: Sequence[float | None], loadable: bool) -> str:
    if not graphs:
        return "This run compiled nothing."
    have = f"Of {numbers.plural(graphs, 'graph')} that this run compiled, {numbers.count(present)}"
    have += f" {'is' if present == 1 else 'are'} in this cache"
    if not loadable:
        return f"{have}, but this backend cannot load them: a warm start would compile all of them again."
    cost = numbers.duration(sum(seconds or 0.0 for seconds in rest))
    return f"{have}: a warm start saves {numbers.duration(saves)} and compiles {numbers.count(len(rest))} ({cost})."


def _case(cache: Cache, run: Run, tables: RunTables, previous: Run | None) -> _Case:
    whole = (State.TORN, State.FAILED, State.LOCKED)
    present = frozenset(
        int(entry.name)
        for entry in cache.listing.entries
        if entry.layout is Layout.TORCH_XLA and entry.damage not in whole
    )
    pairs: dict[str, GraphPair] = {}
    environment: tuple[EnvironmentDifference, ...] = ()
    if previous is not None:
        pairs = {pair.now: pair for pair in graph_changes(previous, run).pairs if pair.now is not None}
        found = environment_differences(_setting(previous, load_tables(previous)), _setting(run, tables))
        environment = tuple(part for part in found if part.name.startswith(_KEY_PARTS))
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
        pairs=pairs,
        environment=environment,
        previous="" if previous is None else os.path.basename(previous.path.rstrip("/")),
    )


def _setting(run: Run, tables: RunTables) -> Setting:
    ranks = len({process.rank for process in tables.processes})
    return Setting(tables.main_process(), ranks, tuple(str(part) for part in run.info.get("command", ())))


def _other_folder(cache: Cache, tables: RunTables) -> str | None:
    """The folder that the run kept its cache in, when that is known and another one."""
    found, _ = used_folder(tables)
    if found is None:
        return None
    same = cache.folder.local is not None and os.path.realpath(found) == cache.folder.local
    return None if same or found.rstrip("/") == cache.folder.path.rstrip("/") else found


def _compiled(run: Run) -> list[tuple[str | None, float | None]]:
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
    if not case.uses_cache and used_folder(case.tables)[0] is None:
        return MissReason.NO_CACHE, "The run did not look into any persistent cache: call xr.initialize_cache(path)."
    if case.other_folder is not None:
        return MissReason.OTHER_FOLDER, f"The run used another folder: {case.other_folder}."
    if graph is None:
        return MissReason.NEVER_BUILT, "The graph's hash was not recorded, so it cannot be looked up."
    if present and case.failures:
        return MissReason.UNREADABLE, "An entry is there, and this backend failed to load it (XLA:CPU never can)."
    use = case.cache.usage.graphs.get(hash_number(graph) or 0)
    pair = case.pairs.get(graph)
    if pair is not None and pair.change == "renamed":
        return MissReason.OTHER_ENVIRONMENT, f"Run {case.previous} built the same computation under another key" + (
            f": {_parts(case.environment)}." if case.environment else "; nothing recorded of the environment differs."
        )
    if pair is not None and pair.change == "changed":
        return MissReason.OTHER_GRAPH, f"Run {case.previous} built another version of it. {pair.summary}"
    if use is not None and len(use.runs) > 1 and not present:
        first = use.runs[0]
        return MissReason.GONE, f"Run {first} has this graph, too, but it is not in this cache: deleted, or read-only."
    written = " It is there now, for the next run." if present else ""
    return MissReason.NEVER_BUILT, f"No earlier run is known to have built it.{written}"


def _parts(environment: Sequence[EnvironmentDifference]) -> str:
    """What differs in the environment: which part, now and before."""
    texts = [
        f"{part.name} is now {part.now or 'not set'}, before {part.before or 'not set'}"
        for part in environment[:_NAMED]
    ]
    more = f" and {len(environment) - _NAMED} more" if len(environment) > _NAMED else ""
    return "; ".join(texts) + more
