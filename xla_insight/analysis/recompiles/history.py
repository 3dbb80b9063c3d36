"""What is known about each compile before anyone asks for its cause: its family, its relatives, how graphs were reused.

Owns families (cuts at the same place that do the same job) and the order of compiles in time. Leaves causes to
``rules``. A family lives in one process: each process has a cache of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from xla_insight.analysis.intervals import Nanoseconds
from xla_insight.analysis.tables import Place, RunTables, integers
from xla_insight.facts.events import Trigger
from xla_insight.graph.model import Frame
from xla_insight.graph.roots import in_framework

FamilyKey = tuple[object, ...]

UNRELATED_SIZE = 8
"""A graph this many times as large (inputs and outputs) does another job."""
_READ_LIKE = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)
"""Triggers that run part of the pending graph and leave the rest pending: several may fall between two syncs."""
UNNAMED = "hlo-"
"""Begin of the id of a graph that ran out of sight: it stands for one compile, and its executions are not known."""
MOST_BOUNDED = 4
"""So many variants, each of them used again, are a price paid once."""
_NEVER = 1 << 62
_SYNC = "sync"
_KIND_OF_TRIGGER = dict.fromkeys(
    (Trigger.SYNC, Trigger.STEP_TRACE, Trigger.OPTIMIZER, Trigger.LOADER, Trigger.WARM_UP_CACHE), _SYNC
)
"""Triggers that do the same job at the same place."""


@dataclass(frozen=True, slots=True)
class Compile:
    """One compile, and what is known of it before its cause.

    ``eager``: of a single operation; ``seen_before``: this process had compiled the same graph before, ``ran_before``:
    and executed it; ``earlier``: the latest compile of its family. ``inputs`` and ``outputs`` are counts, None when
    unknown. ``cut_ns`` is when the hook began in which it was compiled.
    """

    process: int
    time_ns: int
    step: int | None
    compile_ns: int | None
    graph: str | None
    trigger: str
    sentence: str
    place: Place
    family: FamilyKey
    inputs: int | None = None
    outputs: int | None = None
    eager: bool = False
    seen_before: bool = False
    ran_before: bool = False
    earlier: Compile | None = None
    cut_ns: int | None = None
    late: bool = False
    """Other graphs had run before the recording of this process began, so what is first here may not be."""

    @property
    def is_read(self) -> bool:
        """Whether it was cut by a read or by an operation that needed a value, and not by a sync."""
        return self.trigger in _READ_LIKE


@dataclass(slots=True)
class Family:
    """The distinct graphs of one family in order of their first compile, and how often each was executed."""

    graphs: list[str] = field(default_factory=list)
    executions: list[int] = field(default_factory=list)
    anonymous: int = 0
    """Compiles whose graph has no name: how often it ran is not known."""

    def bounded_and_reused(self, *, each_starts: bool = False) -> bool:
        """Few variants, each used again: a price paid once. The first graph may be a start-up variant used once;
        ``each_starts``: that of every variant, as when each size of batch has a first graph of its own.
        """
        if self.anonymous > 1:
            return False
        once = next((n for n, count in enumerate(self.executions) if count != 1), len(self.executions))
        counts = self.executions[once:]
        return once <= (len(counts) if each_starts else 1) and _few_reused(counts)


def _few_reused(counts: Sequence[int]) -> bool:
    return 0 < len(counts) <= MOST_BOUNDED and all(count >= 2 for count in counts)


@dataclass(frozen=True, slots=True)
class History:
    """All compiles in order of process and time, and their families."""

    compiles: tuple[Compile, ...]
    families: dict[FamilyKey, Family]


def build_history(tables: RunTables) -> History:
    """Everything known about the compiles of a run."""
    builder = _Builder(tables)
    for row in tables["compiles"].itertuples(index=False):
        builder.add(row)
    return History(tuple(builder.compiles), builder.families)


class _Builder:
    """Walks through compiles in order of process and time and remembers what came before."""

    def __init__(self, tables: RunTables) -> None:
        frame = tables["compiles"]
        self.compiles: list[Compile] = []
        self.families: dict[FamilyKey, Family] = defaultdict(Family)
        self._tables = tables
        self._counts = _graph_counts(tables["graphs"])
        self._ran = _first_runs(tables["ran"])
        self._executed = executions_of(tables["ran"])
        self._merged = _merged_keys(tables)
        self._ordinals = _cut_ordinals(tables, frame["cut_ns"])
        self._cut_sites = _cut_sites(tables["syncs"], frame["cut_ns"])
        self._eager = eager_processes(frame)
        self._late = {process.index for process in tables.processes if began_late(process.facts)}
        self._compiled: set[tuple[int, str]] = set()
        self._latest: dict[FamilyKey, Compile] = {}
        self._sizes: dict[FamilyKey, list[int]] = defaultdict(list)

    def add(self, row: Any) -> None:
        """The next compile."""
        process, cut = int(row.process), (row.process, row.cut_ns)
        place = self._tables.place(process, self._cut_sites.get(cut) if pd.isna(row.site) else row.site)
        graph = row.graph if isinstance(row.graph, str) else None
        inputs, outputs = self._counts.get(graph, (None, None))
        key = _family_key(process, str(row.trigger), place, self._ordinals.get(cut))
        key = self._same_size(self._merged.get(key, key), inputs, outputs)
        entry = Compile(
            process=process,
            time_ns=int(row.time_ns),
            step=None if pd.isna(row.step) else int(row.step),
            compile_ns=None if pd.isna(row.duration_ns) else int(row.duration_ns),
            graph=graph,
            trigger=str(row.trigger),
            sentence=row.sentence if isinstance(row.sentence, str) else "",
            place=place,
            family=key,
            inputs=inputs,
            outputs=outputs,
            eager=process in self._eager and graph is None,
            seen_before=(process, graph) in self._compiled,
            ran_before=graph is not None and self._ran.get((process, graph), _NEVER) < int(row.time_ns),
            earlier=self._latest.get(key),
            cut_ns=None if pd.isna(row.cut_ns) else int(row.cut_ns),
            late=process in self._late,
        )
        self._remember(entry)

    def _same_size(self, key: FamilyKey, inputs: int | None, outputs: int | None) -> FamilyKey:
        """``key`` and which size: what is cut before the first step has a few tensors and is no relative of a step."""
        if inputs is None or outputs is None:
            return (*key, 0)
        size, sizes = inputs + outputs + 1, self._sizes[key]
        near = (n for n, other in enumerate(sizes) if max(size, other) < UNRELATED_SIZE * min(size, other))
        number = next(near, None)
        if number is None:
            sizes.append(size)
            number = len(sizes) - 1
        return (*key, number)

    def _remember(self, entry: Compile) -> None:
        family = self.families[entry.family]
        if entry.graph is None or entry.graph.startswith(UNNAMED):
            family.anonymous += 1
        elif not entry.seen_before:
            family.graphs.append(entry.graph)
            family.executions.append(self._executed[entry.process, entry.graph])
            self._compiled.add((entry.process, entry.graph))
        self._latest[entry.family] = entry
        self.compiles.append(entry)


def eager_processes(compiles: pd.DataFrame) -> frozenset[int]:
    """Processes that compiled operations one by one and never a graph.

    Those of a backward pass are known by that only: the collector sees that it ran something, not what.
    """
    whole = compiles[compiles["graph"].notna() | ~compiles["trigger"].isin([Trigger.EAGER, Trigger.AUTOGRAD])]
    single = compiles[(compiles["trigger"] == Trigger.EAGER).to_numpy(dtype=np.bool_)]
    return frozenset(int(process) for process in set(single["process"]) - set(whole["process"]))


def frames_outside(stack: Iterable[tuple[str, int, str]]) -> tuple[tuple[str, int, str], ...]:
    """The frames outside the framework: what tells one cut of the program from another."""
    return tuple(frame for frame in stack if not in_framework(Frame(*frame)))


def executions_of(ran: pd.DataFrame) -> Counter[tuple[int, str]]:
    """How often each (process, graph) was executed; ``ran`` is the table of that name."""
    found: Counter[tuple[int, str]] = Counter()
    for row in ran.itertuples(index=False):
        found[int(row.process), str(row.graph)] += int(row.executions)
    return found


def _first_runs(ran: pd.DataFrame) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for row in ran.itertuples(index=False):
        key = (int(row.process), str(row.graph))
        found[key] = min(found.get(key, _NEVER), int(row.first_ns))
    return found


def _merged_keys(tables: RunTables) -> dict[FamilyKey, FamilyKey]:
    """Places that executed one and the same graph do one job: a Trainer cuts its step at two lines in turn."""
    leader: dict[FamilyKey, FamilyKey] = {}

    def find(key: FamilyKey) -> FamilyKey:
        while leader.get(key, key) != key:
            key = leader[key]
        return key

    first: dict[tuple[int, str], FamilyKey] = {}
    for row in tables["ran"].itertuples(index=False):
        process = int(row.process)
        key = _family_key(process, str(row.trigger), tables.place(process, row.site), None)
        if key[1] == _SYNC:
            known = first.setdefault((process, str(row.graph)), key)
            leader[find(key)] = find(known)
    return {key: find(key) for key in leader}


def _graph_counts(graphs: pd.DataFrame) -> dict[str | None, tuple[int | None, int | None]]:
    def known(value: float) -> int | None:
        return None if pd.isna(value) or value < 0 else int(value)

    return {row.graph: (known(row.inputs), known(row.outputs)) for row in graphs.itertuples(index=False)}


def _cut_ordinals(tables: RunTables, wanted: pd.Series[int]) -> dict[tuple[int, int], int]:
    """(process, time of a cut) -> how many cuts that leave the graph pending came before it in its step.

    Three reads in one line are three graphs of three jobs. A step begins with a sync that ran, or with a batch uploaded
    where one was uploaded already; where neither is seen, the ordinal would only count up and hide that each graph
    contains the one before, so there is none. Only cuts at ``wanted`` times are listed.
    """
    ordinals = {}
    for process in tables["syncs"]["process"].unique():
        rows = tables.of("syncs", int(process))
        partial = rows["trigger"].isin(_READ_LIKE).to_numpy()
        ended = ~partial & (rows["executions"].fillna(0) > 0).to_numpy()
        if not ended.any():
            continue
        kept = partial & rows["time_ns"].isin(wanted).to_numpy()
        if not kept.any():
            continue
        times = integers(rows["time_ns"])
        begins = np.union1d(times[ended], _repeated_uploads(tables.of("uploads", int(process)), times[ended]))
        before = np.searchsorted(times[partial], begins)
        base = np.concatenate([[0], before])[np.searchsorted(begins, times)]
        since = np.cumsum(partial) - 1 - base
        ordinals.update({(int(process), int(time)): int(n) for time, n in zip(times[kept], since[kept], strict=True)})
    return ordinals


def _repeated_uploads(uploads: pd.DataFrame, ended: Nanoseconds) -> Nanoseconds:
    """Times of uploads at a line that uploaded already since the last sync (``ended``: times of syncs that ran)."""
    times = integers(uploads["time_ns"])
    earlier = uploads.groupby("site")["time_ns"].shift().fillna(-1).to_numpy().astype(np.int64)
    last = np.concatenate([[-1], ended])[np.searchsorted(ended, times)]
    repeated: Nanoseconds = times[(earlier >= 0) & (earlier > last)]
    return repeated


def _cut_sites(syncs: pd.DataFrame, wanted: pd.Series[int]) -> dict[tuple[int, int], object]:
    """(process, time of a cut) -> its site: a graph that ran inside a backward pass has no frames of its own."""
    rows = syncs[syncs["time_ns"].isin(wanted)]
    return dict(zip(zip(rows["process"], rows["time_ns"], strict=True), rows["site"], strict=True))


def _family_key(process: int, trigger: str, place: Place, ordinal: int | None) -> FamilyKey:
    kind = _KIND_OF_TRIGGER.get(Trigger(trigger), trigger) if trigger in set(Trigger) else trigger
    return (process, kind, frames_outside(place.stack) or place.site, ordinal)


def began_late(facts: Mapping[str, Any]) -> bool:
    """Whether a process had run graphs before its recording began."""
    capabilities = facts.get("capabilities")
    return isinstance(capabilities, Mapping) and capabilities.get("phase") == "after_first_graph"
