"""The tables that the analysis needs, loaded once from a run: only the columns and rows that some rule looks at.

Owns the queries against the views of ``store`` and the choice of the process that speaks for the run. Every rule works
on the plain frames of `RunTables`, so that a rule can be tested on frames made by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from xla_insight.analysis.event_frames import event_frames
from xla_insight.analysis.intervals import Nanoseconds, Spans
from xla_insight.facts.report import Site

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

QUERIES = {
    "steps": "select process, step, start_ns, end_ns, duration_ns, source, inferred from steps order by process, step",
    "compiles": "select process, step, time_ns, duration_ns, thread, graph, trigger, sentence, cut_ns, site"
    " from compiles order by process, time_ns",
    "graphs": "select graph, inputs, outputs, executions, input_bytes, output_bytes, aliased_bytes, temporary_bytes"
    " from graphs",
    "stale": "select process, step, time_ns, optimizer, parameters, site from stale_optimizers"
    " order by process, time_ns",
    "sites": "select process, site, file, line, function, user_file, user_line, user_function, source, user_source,"
    " stack from sites",
    "loader_errors": "select process, step, time_ns, exception, message, site from loader_errors"
    " order by process, time_ns",
    "meshes": "select process, dims::varchar as dims, detail from meshes order by process, time_ns",
    "shardings": "select process, parameter, dims::varchar as dims, bytes, sharding from shardings"
    " order by process, time_ns",
    "faults": "select process, what, count from faults",
    "windows": "select process, time_ns, duration_ns, name, stop_ns, first_step, last_step, wall_ns, note from windows"
    " where wall_ns is not null order by process, time_ns",
    "epochs": "select process, time_ns, detail as source from marks where name = 'epoch' order by process, time_ns",
    "endings": "select process, detail from marks where name = 'exception' and detail is not null"
    " order by process, time_ns",
    "losses": "select process, what, count, why from losses",
}


@dataclass(frozen=True, slots=True)
class Process:
    """One recorded process, with its times on the run's axis (ns)."""

    index: int
    rank: int
    start_ns: int
    end_ns: int
    ended: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something happened: the innermost frame outside the framework, the user's own, and the whole stack."""

    site: Site | None = None
    user_site: Site | None = None
    stack: tuple[tuple[str, int, str], ...] = ()
    """(file, line, function), innermost first, as recorded."""


NOWHERE = Place()


@dataclass(frozen=True)
class RunTables:
    """Frames named as in `QUERIES`; ``spans`` holds the training thread's rows and those without a thread."""

    frames: Mapping[str, pd.DataFrame]
    processes: tuple[Process, ...]
    places: Mapping[tuple[int, int], Place] = field(default_factory=dict)
    hlo: Callable[[str], bytes | None] = lambda graph: None
    """The serialized module of a graph, None when it was not kept."""
    ir: Callable[[str], str | None] = lambda graph: None
    """The framework's text of a graph, None when it was not recorded."""
    optimized: Callable[[str], bytes | None] = lambda graph: None
    """The serialized module of a graph after optimization, None when it was not kept."""
    programs: frozenset[str] = frozenset()
    """Graphs of which that was kept."""
    snippet: Callable[[str, int], list[tuple[int, str]]] = lambda file, line: []
    """Source lines around a place, as recorded."""
    window: Callable[[int, str], bytes | None] = lambda process, name: None
    """The session of a device window of a process, None when it was not kept."""
    accounts: dict[tuple[str, int], Any] = field(default_factory=dict, compare=False, repr=False)
    """What has been worked out once, by what and process: several tables and rules start from it."""

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.frames[name]

    def of(self, name: str, process: int) -> pd.DataFrame:
        """The rows of one process."""
        key = (f"rows of {name}", process)
        if key not in self.accounts:
            frame = self.frames[name]
            mine = (frame["process"] == process).to_numpy(dtype=np.bool_)
            self.accounts[key] = frame if mine.all() else frame[mine]  # most runs have one process: nothing to copy
        rows: pd.DataFrame = self.accounts[key].copy(deep=False)
        return rows

    def place(self, process: int, site: object) -> Place:
        """The place behind a site id; `NOWHERE` when the id is missing or unknown."""
        if not isinstance(site, int | float | np.integer | np.floating) or pd.isna(site):
            return NOWHERE
        return self.places.get((int(process), int(site)), NOWHERE)

    def files(self) -> set[str]:
        """Every file on a recorded call stack."""
        sites = {site.file for place in self.places.values() for site in (place.site, place.user_site) if site}
        return sites | {file for place in self.places.values() for file, _, _ in place.stack}

    def parts_of(self, process: Process) -> list[Process]:
        """What the same operating-system process recorded to this run, as a Trainer does that trains several times."""

        def identity(other: Process) -> tuple[object, ...]:
            return other.rank, other.facts.get("host"), other.facts.get("pid")

        if not isinstance(process.facts.get("pid"), int):
            return [process]
        return [other for other in self.processes if identity(other) == identity(process)]

    def main_process(self) -> Process | None:
        """The process that speaks for the run: the lowest rank; of several, the one that executed most."""
        if not self.processes:
            return None
        executed = self.frames["executions"]["process"].value_counts()
        return min(self.processes, key=lambda p: (p.rank, -int(executed.get(p.index, 0)), p.index))


def load_tables(run: Run) -> RunTables:
    """Load what the analysis needs from an open run."""
    with ThreadPoolExecutor(1) as beside:
        events = beside.submit(event_frames, run)
        frames = {name: run.sql(query, categories=True) for name, query in QUERIES.items()}
        frames.update(events.result())
    processes = tuple(Process(p.index, p.rank, p.start_ns, p.end_ns, p.ended, p.facts) for p in run.processes)
    return RunTables(
        frames,
        processes,
        _places(frames["sites"]),
        run.hlo,
        run.ir,
        run.optimized,
        run.programs(),
        run.snippet,
        run.window,
    )


def spans_of(frame: pd.DataFrame) -> Spans:
    """The intervals of rows with ``time_ns`` and ``duration_ns``; rows of unknown duration are left out."""
    starts, durations = frame["time_ns"], frame["duration_ns"]
    known = durations.notna().to_numpy()
    if not known.all():
        starts, durations = starts[known], durations[known]
    begins = integers(starts)
    return Spans(begins, begins + integers(durations))


def integers(column: pd.Series[Any]) -> Nanoseconds:
    """A column without missing values as int64."""
    values: Nanoseconds = column.to_numpy(dtype=np.int64)
    return values


def _places(sites: pd.DataFrame) -> dict[tuple[int, int], Place]:
    places = {}
    for row in sites.itertuples(index=False):
        site = _site(row.file, row.line, row.function, row.source)
        user_site = _site(row.user_file, row.user_line, row.user_function, row.user_source)
        places[int(row.process), int(row.site)] = Place(site, user_site, _stack(row.stack))
    return places


def _site(file: object, line: object, function: object, source: object) -> Site | None:
    if not isinstance(file, str):
        return None
    number = 0 if pd.isna(line) else int(line)  # type: ignore[call-overload]
    return Site(file, number, _text(function), _text(source))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _stack(value: object) -> tuple[tuple[str, int, str], ...]:
    frames = json.loads(value) if isinstance(value, str) else []
    triples = (frame for frame in frames if isinstance(frame, list) and len(frame) == 3 and isinstance(frame[1], int))
    return tuple((str(file), line, str(function)) for file, line, function in triples)
