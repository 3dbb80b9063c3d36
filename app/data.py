"""The one door from pages to recorded runs: opens, analyses and keeps what pages need, shared between requests.

Owns the cache (by run and the state of its files), its bound and its locks. Leaves which runs exist to ``runs``, and
all concluding to ``xla_insight.analysis``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

import pandas as pd

from xla_insight.analysis import analyze, graph_table, load_tables, step_table
from xla_insight.analysis.host_lines import host_lines
from xla_insight.analysis.idle_causes import Opener, openers, worst_gaps
from xla_insight.analysis.periods import epochs, warm_up_and_steady
from xla_insight.analysis.shapes import Problem, shape_problem
from xla_insight.analysis.tables import RunTables
from xla_insight.analysis.timeline import Timeline
from xla_insight.analysis.windows_overlap import measured_facts
from xla_insight.errors import InsightError, RunFormatError, RunNotFoundError
from xla_insight.facts.report import HostLine, IdleGap, MeasuredTime, Period, Report
from xla_insight.report.figures_bins import StepBins, bin_steps, rank_graphs
from xla_insight.store.reader import Run, open_run

from .runs import RUN_FILE, RunEntry, RunState, find_run, list_runs

Result = TypeVar("Result")
KEPT_RUNS = 4
KEPT_RESULTS = 16
LIVE_RESULT_S = 10.0
"""While a run records, what was concluded about it is renewed at most this often."""
_PATIENCE = 3.0
"""While a run records, it is read again after this many times the time that reading it took."""


_SOURCES = """
select distinct file, line, source from sites where file is not null and line is not null and source is not null
union select distinct user_file, user_line, user_source from sites
where user_file is not null and user_line is not null and user_source is not null
union select file, line, text from sources
"""
SNIPPET_LINES = 3
"""Lines shown before and behind a line of code."""


@dataclass(frozen=True, slots=True)
class ProcessLabel:
    """A recorded process as a person tells it apart from the others."""

    index: int
    label: str


def _no_hlo(_graph: str) -> bytes | None:
    return None


class Timelines:
    """Time of each process: its timeline and what is idle in it, worked out when it is first looked at."""

    def __init__(self, tables: RunTables) -> None:
        self.tables = tables
        self._built: dict[int, Timeline] = {}
        self._openers: dict[int, tuple[Opener, ...]] = {}
        # At once: sessions and lines of code can be read only while the run is open.
        self._measured = {process.index: measured_facts(tables, process) for process in tables.processes}
        self._lock = threading.Lock()

    def of(self, process: int) -> Timeline:
        """The timeline of a process."""
        with self._lock:
            if process not in self._built:
                self._built[process] = Timeline(self.tables, process)
            return self._built[process]

    def periods(self, process: int) -> tuple[Period | None, Period | None]:
        """Warm-up and steady state of a process."""
        found = next(entry for entry in self.tables.processes if entry.index == process)
        return warm_up_and_steady(self.tables, found)

    def epochs(self, process: int) -> tuple[Period, ...]:
        """The passes of a process over the data; none where their ends were not seen."""
        found = next(entry for entry in self.tables.processes if entry.index == process)
        return epochs(self.tables, found)

    def host_lines(self, process: int) -> tuple[HostLine, ...]:
        """Where the training thread of a process ran Python after warm-up."""
        found = next(entry for entry in self.tables.processes if entry.index == process)
        return host_lines(self.tables, found, self.periods(process)[1])

    def openers(self, process: int) -> tuple[Opener, ...]:
        """What leaves the device of a process idle, most first."""
        with self._lock:
            if process not in self._openers:
                self._openers[process] = openers(self.tables, process)
            return self._openers[process]

    def measured(self, process: int) -> MeasuredTime | None:
        """What device windows of a process measured; None when it has none."""
        return self._measured.get(process)

    def worst_gaps(self, process: int, count: int) -> tuple[IdleGap, ...]:
        """The longest idle gaps of a process."""
        return worst_gaps(self.tables, process, count)


@dataclass(frozen=True, slots=True)
class RunView:
    """What pages know about one run, at one moment. Frames are shared between requests and must not be changed."""

    entry: RunEntry
    report: Report
    steps: dict[int, pd.DataFrame]
    """The step table of each process that has steps, by process index."""
    graphs: pd.DataFrame
    executed: pd.DataFrame
    """Distinct (process, step, graph) of all executions."""
    sources: dict[tuple[str, int], str]
    """The text of lines of code as they were when recorded, by file and line."""
    processes: tuple[ProcessLabel, ...]
    """Those that have steps."""
    names: tuple[str, ...]
    """Graph hashes by number of steps, most first."""
    problems: tuple[str, ...]
    exceptions: tuple[str, ...]
    """What ended the training, as type and message, where an exception did."""
    timelines: Timelines
    damage: str = ""
    """What could not be read of the log, in one line."""
    kept: frozenset[str] = frozenset()
    """Graphs whose HLO was kept."""
    hlo: Callable[[str], bytes | None] = _no_hlo
    """Fetches the HLO of a graph."""

    def snippet(self, file: str, line: int) -> list[tuple[int, str]]:
        """(number, text) of a line and those around it, as far as they were recorded."""
        around = range(line - SNIPPET_LINES, line + SNIPPET_LINES + 1)
        return [(number, text) for number in around if (text := self.sources.get((file, number))) is not None]

    def process(self, wanted: int | None) -> int | None:
        """The process to show: the wanted one when it has steps, else the first that has; None when none has."""
        return wanted if wanted in self.steps else min(self.steps, default=None)

    def steps_of_graph(self, process: int, graph: str) -> set[int]:
        """Steps in which that process executed the graph."""
        hit = self.executed[(self.executed["process"] == process) & (self.executed["graph"] == graph)]
        return {int(step) for step in hit["step"]}

    def graphs_within(self, process: int, steps: tuple[int, int]) -> set[str]:
        """Graphs that the process executed in those steps."""
        rows = self.executed[(self.executed["process"] == process) & self.executed["step"].between(*steps)]
        return set(rows["graph"].astype(str))

    def shown(self, process: int, steps: tuple[int, int] | None) -> pd.DataFrame:
        """The step table of a process within a range of steps; all of it when the range holds none of its steps."""
        rows = self.steps[process]
        within = rows if steps is None else rows[rows["step"].between(*steps)]
        return within if len(within) else rows

    def bins(self, process: int, columns: int, steps: tuple[int, int] | None, lit: set[int] | None) -> StepBins:
        """The steps of a process, thinned to so many columns; ``lit`` are steps to point at."""
        return bin_steps(self.shown(process, steps), self.names, columns=columns, lit=lit)


@dataclass(slots=True)
class _Slot:
    """One kept run. The lock makes simultaneous requests read it once."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    view: RunView | None = None
    loaded_at: float = 0.0
    took_s: float = 0.0

    def serves(self, entry: RunEntry) -> bool:
        """Whether the kept view may be shown for the run as it is now."""
        if self.view is None:
            return False
        if self.view.entry.revision == entry.revision:
            return True
        still_recording = entry.state == RunState.RECORDING == self.view.entry.state
        return still_recording and time.monotonic() - self.loaded_at < _PATIENCE * self.took_s


@dataclass(frozen=True, slots=True)
class _Derived:
    """One kept conclusion about some runs, as their files were."""

    revisions: tuple[str, ...]
    result: object
    loaded_at: float
    took_s: float

    def serves(self, entries: Sequence[RunEntry]) -> bool:
        """Whether it may be shown for the runs as they are now: of a live run, something a little old will do."""
        if self.revisions == tuple(entry.revision for entry in entries):
            return True
        live = any(entry.state == RunState.RECORDING for entry in entries)
        return live and time.monotonic() - self.loaded_at < max(LIVE_RESULT_S, _PATIENCE * self.took_s)


class Library:
    """All runs of one folder. Safe to use from many threads; keeps the last `KEPT_RUNS` runs."""

    def __init__(
        self, folder: Path, read: Callable[[RunEntry], RunView] | None = None, caches: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.caches = tuple(caches)
        """Compile caches to show: folders or URLs that whoever started the app named."""
        self._read = read or read_run
        self._derived: OrderedDict[tuple[object, ...], _Derived] = OrderedDict()
        self._deriving = threading.Lock()
        self._slots: OrderedDict[Path, _Slot] = OrderedDict()
        self._lock = threading.Lock()
        self._shapes: OrderedDict[tuple[Path, str], Problem | None] = OrderedDict()
        self._shapes_lock = threading.Lock()

    def entries(self) -> list[RunEntry]:
        """All runs, newest first. Raises RunNotFoundError when the folder is gone."""
        return list_runs(self.folder)

    def entry(self, run_id: str) -> RunEntry:
        """One run by its name. Raises RunNotFoundError."""
        return find_run(self.folder, run_id)

    def view(self, run_id: str) -> RunView:
        """What pages show of a run. Raises RunNotFoundError, or RunFormatError when it is too damaged to open."""
        entry = self.entry(run_id)
        if entry.problem:
            raise RunFormatError(f"The run {run_id} cannot be opened: {entry.problem}")
        slot = self._slot(entry.path)
        with slot.lock:
            if not slot.serves(entry):
                begin = time.monotonic()
                slot.view = _read_or_explain(self._read, entry)
                slot.loaded_at = time.monotonic()
                slot.took_s = slot.loaded_at - begin
            assert slot.view is not None
            return slot.view

    def shapes(self, view: RunView) -> Problem | None:
        """What is known about the shapes of a run; None when there is nothing to plan. Raises as `view` does."""
        key = (view.entry.path, view.entry.revision)
        with self._shapes_lock:
            if key not in self._shapes:
                with open_run(str(view.entry.path)) as run:
                    self._shapes[key] = shape_problem(run)
                while len(self._shapes) > KEPT_RUNS:
                    self._shapes.popitem(last=False)
            return self._shapes[key]

    def derived(self, name: Hashable, run_ids: Sequence[str], make: Callable[[list[Run]], Result]) -> Result:
        """What ``make`` concludes from open runs; kept, under ``name``, while the files of these runs stay as they are.

        Raises as `view` does, and what ``make`` raises.
        """
        entries = [self.entry(run_id) for run_id in run_ids]
        for entry in entries:
            if entry.problem:
                raise RunFormatError(f"The run {entry.id} cannot be opened: {entry.problem}")
        key = (name, *(entry.path for entry in entries))
        with self._deriving:
            kept = self._derived.get(key)
            if kept is None or not kept.serves(entries):
                begin = time.monotonic()
                with contextlib.ExitStack() as stack:
                    result = make([stack.enter_context(open_run(str(entry.path))) for entry in entries])
                now = time.monotonic()
                kept = self._derived[key] = _Derived(tuple(e.revision for e in entries), result, now, now - begin)
            self._derived.move_to_end(key)
            while len(self._derived) > KEPT_RESULTS:
                self._derived.popitem(last=False)
            return cast("Result", kept.result)

    def _slot(self, path: Path) -> _Slot:
        with self._lock:
            slot = self._slots.setdefault(path, _Slot())
            self._slots.move_to_end(path)
            while len(self._slots) > KEPT_RUNS:
                self._slots.popitem(last=False)
            return slot


def _read_or_explain(read: Callable[[RunEntry], RunView], entry: RunEntry) -> RunView:
    """Read a run; whatever damaged files may raise becomes one sentence, unless the run vanished meanwhile."""
    try:
        return read(entry)
    except InsightError:
        raise
    except Exception as error:
        if not (entry.path / RUN_FILE).is_file():
            raise RunNotFoundError(f"The run {entry.id} was moved or deleted. Choose another run above.") from error
        raise RunFormatError(
            f"The run {entry.id} cannot be opened ({type(error).__name__}: {error}). "
            f"Try xla-insight report {entry.path} for more."
        ) from error


def read_run(entry: RunEntry) -> RunView:
    """Open and analyse a run."""
    with open_run(str(entry.path)) as run, ThreadPoolExecutor(1) as beside:
        # Queries leave Python's lock: they run while tables are worked on.
        queried = beside.submit(lambda: (graph_table(run), run.sql(_SOURCES)))
        tables = load_tables(run)
        steps = step_table(run, tables)
        by_process = {
            int(str(process)): rows.sort_values("step", ignore_index=True) for process, rows in steps.groupby("process")
        }
        report = analyze(run, tables)
        graphs, sources = queried.result()
        return RunView(
            entry=entry,
            report=report,
            steps=by_process,
            graphs=graphs,
            executed=tables["executions"][["process", "step", "graph"]].dropna().drop_duplicates(ignore_index=True),
            sources=_sources(sources, {str(process.facts.get("cwd") or "") for process in run.processes}),
            processes=tuple(
                ProcessLabel(process.index, f"rank {process.rank} · process {process.index}")
                for process in run.processes
                if process.index in by_process
            ),
            names=rank_graphs(steps),
            problems=(*run.problems, *filter(None, [run.graph_damage()])),
            exceptions=report.run.exceptions,
            timelines=Timelines(tables),
            damage=run.log_damage(),
            kept=run.graph_hashes(),
            hlo=run.hlo,
        )


def _sources(lines: pd.DataFrame, folders: set[str]) -> dict[tuple[str, int], str]:
    """The text of each recorded line of code; of files below the working folder also by their relative name, which is
    how a graph names a script that was started by such a name."""
    found = {(str(row.file), int(row.line)): str(row.source) for row in lines.itertuples()}
    for folder in filter(None, folders):
        prefix = folder.rstrip("/") + "/"
        for (file, line), text in list(found.items()):
            if file.startswith(prefix):
                found.setdefault((file.removeprefix(prefix), line), text)
    return found
