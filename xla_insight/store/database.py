"""A DuckDB database over the log of a run: the whole parts stay files, the rest is a small table.

Owns the joining of processes on one time axis and the closing of the database to everything but the run. Leaves which
files are whole to ``loading`` and the tables to ``views``.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from xla_insight.facts.events import Kind
from xla_insight.store import views
from xla_insight.store.columns import ProcessColumns, reach_of
from xla_insight.store.loading import Loaded, ProcessLog
from xla_insight.store.process_facts import MAX_NS, is_whole, plausible_anchor
from xla_insight.store.schema import EVENT_SCHEMA
from xla_insight.store.step_index import StepIndex
from xla_insight.store.steps import create_steps

_COLUMNS = ("kind", "thread", "graph", "site", "name", "value", "dims", "detail")
_TAIL = "tail"

SMALL_BYTES, SMALL_ROWS = 2 << 20, 100_000
"""The parts of a run that are not larger than this together are read once, when it is opened, and queries use one
thread; of a larger run each query reads the rows it needs. With few rows, opening the files again and sharing out the
work is most of what a query takes."""


@dataclass(frozen=True)
class Lifetime:
    """When a process recorded, in ns of the run; ``offset_ns`` added to its monotonic clock gives that time."""

    start_ns: int
    end_ns: int
    offset_ns: int


@dataclass(frozen=True)
class Database:
    """The database with all tables of `views.TABLES`; of each process its files and lifetime; and the steps of all."""

    connection: duckdb.DuckDBPyConnection
    files: list[tuple[str, ...]]
    lifetimes: list[Lifetime]
    steps: StepIndex

    def columns(self) -> list[ProcessColumns]:
        """Where the rows of each process are, for who reads them without a query."""
        return _columns(self.connection, self.files, [life.offset_ns for life in self.lifetimes])


def build_database(loaded: Loaded) -> Database:
    """Open the log of a run as tables. Raises duckdb.Error."""
    small = _is_small(loaded.processes)
    connection = duckdb.connect(":memory:", config={"threads": 1} if small else {})
    _configure(connection, loaded)
    _create_tail(connection, loaded.processes)
    offsets = _offsets(connection, loaded.processes)
    _create_log(connection, _log_query(loaded.processes, offsets), small)
    connection.execute(views.RARE)
    lifetimes = _lifetimes(connection, loaded.processes, offsets)
    _create_processes(connection, loaded.processes, lifetimes)
    connection.execute(views.SITES)
    files = [tuple(process.files) for process in loaded.processes]
    beginnings = [(log.rank, life.start_ns) for log, life in zip(loaded.processes, lifetimes, strict=True)]
    steps = StepIndex(create_steps(connection, _columns(connection, files, offsets), beginnings))
    steps.register(connection)
    for name, query in {**views.VIEWS, "graphs": views.GRAPHS}.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    connection.execute("SET lock_configuration = true")
    return Database(connection, files, lifetimes, steps)


def _columns(
    connection: duckdb.DuckDBPyConnection, files: list[tuple[str, ...]], offsets: list[int]
) -> list[ProcessColumns]:
    columns = ", ".join(EVENT_SCHEMA.names)
    found = []
    for process, (paths, offset_ns) in enumerate(zip(files, offsets, strict=True)):
        with contextlib.closing(connection.cursor()) as cursor:
            tail = cursor.sql(f"SELECT {columns} FROM {_TAIL} WHERE process = {process}").to_arrow_table()
        found.append(ProcessColumns(paths, tail, offset_ns))
    return found


def _configure(connection: duckdb.DuckDBPyConnection, loaded: Loaded) -> None:
    """Queries come from users and, through pages, from anywhere: they see the files of the run and nothing else."""
    files = [path for process in loaded.processes for path in process.files]
    allowed = sorted({text for path in files for text in (_literal(path), _pattern(path))})
    spill = os.path.join(tempfile.gettempdir(), f"xla-insight-duckdb-{os.getpid()}")
    for statement in (
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        f"SET temp_directory = {_literal(spill)}",
        f"SET allowed_paths = [{', '.join(allowed)}]",
        "SET enable_external_access = false",
    ):
        connection.execute(statement)


def _create_tail(connection: duckdb.DuckDBPyConnection, processes: list[ProcessLog]) -> None:
    """The rows that are not in a file that can be read in place."""
    tables = []
    for index, process in enumerate(processes):
        for table in process.tables:
            numbers = pa.repeat(pa.scalar(index, pa.int32()), table.num_rows)
            tables.append(table.append_column("process", numbers))
    schema = EVENT_SCHEMA.remove_metadata().append(pa.field("process", pa.int32()))
    arriving = pa.concat_tables([schema.empty_table(), *tables])
    connection.register("arriving", arriving)
    connection.execute(f"CREATE TABLE {_TAIL} AS SELECT * FROM arriving")
    connection.unregister("arriving")
    for process in processes:
        process.tables.clear()


def _sources(index: int, process: ProcessLog) -> list[str]:
    """FROM clauses of the rows of one process."""
    found = [f"{_TAIL} WHERE process = {index}"]
    if process.files:
        found.append(f"read_parquet([{', '.join(map(_pattern, process.files))}]) WHERE true")
    return found


def _offsets(connection: duckdb.DuckDBPyConnection, processes: list[ProcessLog]) -> list[int]:
    """What to add to the monotonic clock of each process to get ns since the earliest of them started."""
    anchors = [process.anchor or _recorded_anchor(connection, n, process) for n, process in enumerate(processes)]
    origin = min((wall for _, wall in filter(None, anchors)), default=0)
    offsets = []
    for index, (process, found) in enumerate(zip(processes, anchors, strict=True)):
        if found is not None:
            offsets.append(found[1] - origin - found[0])
        else:  # nothing says when: it is shown from the start of the run
            first = [
                connection.execute(f"SELECT min(time_ns) FROM {source} AND abs(time_ns) < {MAX_NS}").fetchone()
                for source in _sources(index, process)
            ]
            offsets.append(-min((row[0] for row in first if row and row[0] is not None), default=0))
    return offsets


def _recorded_anchor(connection: duckdb.DuckDBPyConnection, index: int, process: ProcessLog) -> tuple[int, int] | None:
    """The first clock event: it says the same as ``process.json``, which is missing or damaged."""
    for source in _sources(index, process):
        query = f"SELECT time_ns, dims[1] FROM {source} AND kind = '{Kind.CLOCK}' ORDER BY time_ns LIMIT 1"
        row = connection.execute(query).fetchone()
        if row is not None and (found := plausible_anchor(*row)) is not None:
            return found
    return None


def _is_small(processes: list[ProcessLog]) -> bool:
    files = [path for process in processes for path in process.files]
    try:
        if sum(map(os.path.getsize, files)) > SMALL_BYTES:
            return False
        return sum(int(pq.read_metadata(path).num_rows) for path in files) <= SMALL_ROWS
    except (OSError, pa.ArrowException):
        return False


def _create_log(connection: duckdb.DuckDBPyConnection, query: str, small: bool) -> None:
    """The rows of all processes as ``log``: a table where they are few, else a view of the files."""
    if small:
        try:
            connection.execute(f"CREATE TABLE log AS {query}")
            return
        except duckdb.Error:
            pass  # a query that needs what cannot be read says so, as in a large run
    connection.execute(f"CREATE VIEW log AS {query}")


def _log_query(processes: list[ProcessLog], offsets: list[int]) -> str:
    """All rows of all processes on one time axis. Times no clock can show are left out, such durations are unknown."""
    columns = ", ".join(_COLUMNS)
    parts = [
        f"SELECT {index}::INTEGER AS process, {process.rank}::INTEGER AS rank, {offset}::BIGINT AS offset_ns,"
        f" time_ns + ({offset})::BIGINT AS time_ns,"
        f" CASE WHEN duration_ns BETWEEN 0 AND {MAX_NS} THEN duration_ns END AS duration_ns, {columns}"
        f" FROM {source} AND time_ns BETWEEN -{MAX_NS} AND {MAX_NS} AND kind IS NOT NULL"
        for index, (process, offset) in enumerate(zip(processes, offsets, strict=True))
        for source in _sources(index, process)
    ]
    nothing = (
        f"SELECT 0 AS process, 0 AS rank, 0::BIGINT AS offset_ns, time_ns, duration_ns, {columns}"
        f" FROM {_TAIL} WHERE false"
    )
    return " UNION ALL ".join(parts or [nothing])


def _lifetimes(
    connection: duckdb.DuckDBPyConnection, processes: list[ProcessLog], offsets: list[int]
) -> list[Lifetime]:
    reaches = [_reach(connection, index, process) for index, process in enumerate(processes)]
    if None in reaches:  # all rows have to be looked at
        rows = connection.execute(
            "SELECT process, min(time_ns - offset_ns), max(time_ns - offset_ns + coalesce(duration_ns, 0))"
            " FROM log GROUP BY process"
        ).fetchall()
        found = {process: (begin, end) for process, begin, end in rows}
    else:
        found = {index: reach for index, reach in enumerate(reaches) if reach}
    starts = dict(
        connection.execute(
            f"SELECT process, min(time_ns - offset_ns) FROM rare WHERE kind = '{Kind.MARK}' AND name = 'start'"
            " GROUP BY process"
        ).fetchall()
    )
    lifetimes = []
    for index, (process, offset) in enumerate(zip(processes, offsets, strict=True)):
        begin = process.anchor[0] if process.anchor is not None else -offset
        first, end = found.get(index, (begin, begin))
        start = starts.get(index, first) + offset
        lifetimes.append(Lifetime(start, max(start, end + offset), offset))
    return lifetimes


def _reach(
    connection: duckdb.DuckDBPyConnection, index: int, process: ProcessLog
) -> tuple[int, int] | tuple[()] | None:
    """First time and last end of a process on its own clock; empty without rows, None where files do not tell."""
    try:
        known = reach_of(process.files) if process.files else ()
    except (OSError, pa.ArrowException):
        return None  # a query says what is wrong
    row = connection.execute(
        f"SELECT min(time_ns), max(time_ns + CASE WHEN duration_ns BETWEEN 0 AND {MAX_NS} THEN duration_ns ELSE 0 END)"
        f" FROM {_TAIL} WHERE process = {index} AND time_ns BETWEEN -{MAX_NS} AND {MAX_NS} AND kind IS NOT NULL"
    ).fetchone()
    if known is None or row is None or row[0] is None:
        return known
    first, end = row
    return (min(first, known[0]), max(end, known[1])) if known else (first, end)


def _create_processes(
    connection: duckdb.DuckDBPyConnection, processes: list[ProcessLog], lifetimes: list[Lifetime]
) -> None:
    connection.execute(
        """CREATE TABLE processes (process INTEGER, rank INTEGER, folder VARCHAR, pid BIGINT, host VARCHAR,
           device VARCHAR, world_size BIGINT, level VARCHAR, start_ns BIGINT, end_ns BIGINT, offset_ns BIGINT,
           ended VARCHAR)"""
    )
    for index, (process, life) in enumerate(zip(processes, lifetimes, strict=True)):
        facts = process.facts
        row = [index, process.rank, process.folder, _whole(facts.get("pid")), facts.get("host"), facts.get("device")]
        row += [_whole(facts.get("world_size")), facts.get("level"), life.start_ns, life.end_ns, life.offset_ns]
        connection.execute(f"INSERT INTO processes VALUES ({', '.join('?' * 12)})", [*row, facts.get("ended")])


def _whole(value: Any) -> int | None:
    return value if is_whole(value) else None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _pattern(path: str) -> str:
    """A path as a literal in which DuckDB sees no wildcard."""
    return _literal(re.sub(r"([*?\[])", r"[\1]", path))
