"""What recorded runs say about the graphs of a cache: who used them, what a load saves, in which environment.

Owns the join of cache entries with runs by graph hash. Leaves listing to ``layouts``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from xla_insight.analysis.cache.use import used_folder
from xla_insight.errors import InsightError, RunNotFoundError
from xla_insight.facts.cache import Entry, JoinedEntry, Layout, State
from xla_insight.store.reader import open_run
from xla_insight.store.schema import RUN_FILE

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

MAX_RUNS = 200
"""Runs of a folder that are read: the newest ones."""
_PER_GRAPH = """
select graph, min(step) as first_step, sum(compile_ns) as compile_ns, sum(compiles) as compiles,
       sum(executions) as executions, sum(loads) as loads
from (
    select graph, step, duration_ns as compile_ns, 1 as compiles, 0 as executions, 0 as loads from compiles
    union all
    select graph, step, null, 0, 1, (outcome = 'persistent_hit')::integer from executions
) where graph is not null group by graph
"""


@dataclass
class GraphUse:
    """What all runs together say of one graph."""

    runs: list[str] = field(default_factory=list)
    command: str = ""
    first_step: int | None = None
    compile_s: float | None = None
    """The longest of its compiles: what a load saves at most."""
    executions: int = 0
    loads: int = 0
    loaded_unix_s: float | None = None
    """When the last run started that took it from a cache."""
    versions: set[str] = field(default_factory=set)


@dataclass
class Usage:
    """Graphs by hash as a number. ``versions``: framework version of the newest run; ``skipped``: unreadable runs."""

    graphs: dict[int, GraphUse] = field(default_factory=dict)
    runs: int = 0
    newest_version: str | None = None
    skipped: list[str] = field(default_factory=list)
    read_only: set[str] = field(default_factory=set)
    """Runs that were not allowed to keep what they built."""
    started: dict[str, float] = field(default_factory=dict)
    """Run -> when it started."""
    folders: dict[str, str] = field(default_factory=dict)
    """Run -> the folder of its persistent cache, where that is known."""
    failures: Counter[str] = field(default_factory=Counter)
    """Kind of device -> entries that could not be loaded there."""
    loading: set[str] = field(default_factory=set)
    """Kinds of devices on which entries were loaded."""

    def failed_on(self, device: str | None) -> int:
        """How many entries runs on a kind of device failed to load, when none ever loaded one; else 0."""
        return 0 if device is None or device in self.loading else self.failures[device]

    def add(self, run: Run) -> None:
        """Add what one open run says. Runs come in order of their start."""
        self.runs += 1
        facts = run.processes[0].facts if run.processes else {}
        version = _version(facts)
        self.newest_version = version or self.newest_version
        command = " ".join(str(part) for part in run.info.get("command", ()))
        name = os.path.basename(run.path.rstrip("/"))
        self.started[name] = started(run)
        folder, read_only = used_folder(process.facts for process in run.processes)
        if folder is not None:
            self.folders[name] = folder
        if read_only:
            self.read_only.add(name)
        self._count(run, device_of(facts))
        for row in run.sql(_PER_GRAPH).itertuples(index=False):
            number = hash_number(row.graph)
            if number is not None:
                self._merge(self.graphs.setdefault(number, GraphUse()), row, name, command, version)

    def _count(self, run: Run, device: str | None) -> None:
        """Whether entries can be loaded on this kind of device."""
        found = run.sql("select name, sum(delta) as total from counters where name like 'persistent_%' group by name")
        totals = {str(row.name): float(row.total) for row in found.itertuples(index=False)}
        if device is not None:
            self.failures[device] += round(totals.get("persistent_failures", 0))
            if totals.get("persistent_hits"):
                self.loading.add(device)

    def _merge(self, use: GraphUse, row: Any, name: str, command: str, version: str | None) -> None:
        use.runs.append(name)
        use.command = command
        if use.first_step is None and not pd.isna(row.first_step):
            use.first_step = int(row.first_step)
        if row.compiles and not pd.isna(row.compile_ns):
            use.compile_s = max(use.compile_s or 0.0, float(row.compile_ns) / 1e9 / int(row.compiles))
        use.executions += int(row.executions)
        use.loads += int(row.loads)
        if row.loads:
            use.loaded_unix_s = max(use.loaded_unix_s or 0.0, self.started[name])
        if version is not None:
            use.versions.add(version)


def hash_number(graph: object) -> int | None:
    """A graph's hash as a number; None for names that are no hash (graphs that ran without a known one)."""
    try:
        return int(graph, 16) if isinstance(graph, str) else None
    except ValueError:
        return None


def read_usage(places: Iterable[str]) -> Usage:
    """The usage of all runs at the given places: runs, or local folders of runs. Unreadable ones are named."""
    opened: list[Run] = []
    usage = Usage()
    for place in places:
        for path in run_paths(place):
            try:
                opened.append(open_run(path))
            except InsightError as error:
                usage.skipped.append(f"{path}: {error}")
    for run in sorted(opened, key=started):
        usage.add(run)
        run.close()
    return usage


def run_paths(place: str) -> list[str]:
    """The run at a place, or the newest runs directly below a folder. Raises RunNotFoundError when there is neither."""
    if "://" in place or os.path.isfile(os.path.join(place, RUN_FILE)):
        return [place]
    try:
        below = [os.path.join(place, name) for name in os.listdir(place)]
    except OSError as error:
        raise RunNotFoundError(f"no folder of runs at {place} ({error.strerror})") from error
    runs = [path for path in below if os.path.isfile(os.path.join(path, RUN_FILE))]
    return sorted(runs, key=os.path.getmtime)[-MAX_RUNS:]


def started(run: Run) -> float:
    """When a run started; 0 when it does not say."""
    value = run.info.get("started_unix_ns")
    return value / 1e9 if isinstance(value, int) else 0.0


def device_of(facts: Any) -> str | None:
    """The kind of device of a process, as CPU or TPU."""
    device = facts.get("device")
    return device if isinstance(device, str) else None


def _version(facts: Any) -> str | None:
    versions = facts.get("versions")
    version = versions.get("torch_xla") if isinstance(versions, dict) else None
    return version if isinstance(version, str) else None


def join(entries: Iterable[Entry], usage: Usage, newest: str | None = None) -> Iterable[JoinedEntry]:
    """Every entry with its state. ``newest``: the newest compiler version among Neuron entries ."""
    known, torch_xla = usage.graphs, Layout.TORCH_XLA
    rest = ((), "", None, None, 0, 0, None)
    unknown, new = State.ORPHAN if usage.runs else State.UNJOINED, tuple.__new__
    for entry in entries:
        own = entry.layout is torch_xla
        use = known.get(int(entry.name)) if own and known else None
        if use is None:
            plain = own and entry.damage is None
            yield new(JoinedEntry, (entry, unknown if plain else _state(entry, None, usage, newest), *rest))
        else:
            yield JoinedEntry(
                entry, _state(entry, use, usage, newest), tuple(use.runs), use.command, use.first_step,
                use.compile_s, use.executions, use.loads, use.loaded_unix_s,
            )  # fmt: skip


def _state(entry: Entry, use: GraphUse | None, usage: Usage, newest: str | None) -> State:
    if entry.damage is not None:
        return entry.damage
    if entry.layout is Layout.NEURON and entry.version is not None and entry.version != newest:
        return State.OTHER_ENVIRONMENT
    if entry.layout is not Layout.TORCH_XLA or not usage.runs:
        return State.UNJOINED
    if use is None:
        return State.ORPHAN
    other = use.versions and usage.newest_version is not None and usage.newest_version not in use.versions
    return State.OTHER_ENVIRONMENT if other else State.USED


def newest_version(entries: Iterable[Entry]) -> str | None:
    """The newest compiler version of Neuron entries, compared part by part."""
    versions = {entry.version for entry in entries if entry.version is not None}
    return max(versions, key=_parts, default=None)


def _parts(version: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in version.replace("+", ".").split(".")]


def earlier_runs(run: Run, places: Iterable[str], most: int) -> list[Run]:
    """The last runs at these places that started before ``run``, open, the latest first. The caller closes them."""
    found: list[Run] = []
    for place in places:
        for path in run_paths(place):
            try:
                other = open_run(path)
            except InsightError:
                continue
            if started(other) < started(run) and os.path.realpath(path) != os.path.realpath(run.path):
                found.append(other)
            else:
                other.close()
    found.sort(key=started, reverse=True)
    for other in found[most:]:
        other.close()
    return found[:most]
