"""``open_run``: a recorded run as tables, also while it is being recorded, after a crash, or damaged.

Owns `Run`: its state, its processes and the way from a query to a pandas frame. Leaves what is readable to ``loading``
and the tables to ``database`` and ``views``.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from xla_insight.errors import QueryError, RunFormatError
from xla_insight.facts import numbers
from xla_insight.store.columns import Wanted, read_columns
from xla_insight.store.database import Lifetime, build_database
from xla_insight.store.graph_files import FOLDER, HLO, IR, MAX_MODULE_BYTES, OPTIMIZED, decompress, graph_of, misfits
from xla_insight.store.loading import Loaded, ProcessLog, load
from xla_insight.store.run_files import RefusedError, RemoteFiles
from xla_insight.store.views import TABLES
from xla_insight.store.window_files import MAX_WINDOW_BYTES, window_file

LIVE_S = 15.0
"""A process that has not ended and wrote within this time is taken to be recording."""

_NAMED_PROBLEMS = 3
_BATCH_ROWS = 131_072
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One recorded process. Times are ns of the run; ``ended`` is how it ended, None when it did not say so."""

    index: int
    folder: str
    rank: int
    facts: Mapping[str, Any]
    ended: str | None
    start_ns: int
    end_ns: int
    live: bool


class Run:
    """One opened run: ``run.steps``, ``run.graphs``, ... for each name of `TABLES`, and ``run.sql(query)``.

    All times are ns since the earliest process of the run started. Safe to use from several threads. What was recorded
    after opening is not seen: open it again.
    """

    def __init__(self, path: str, loaded: Loaded) -> None:
        self.path = path
        self.info: dict[str, Any] = loaded.info
        self.skipped_parts = loaded.skipped_parts
        self.problems: list[str] = loaded.problems
        self._files = loaded.files
        self._unreadable: set[str] = set()
        try:
            self._database = build_database(loaded)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise RunFormatError(f"{path} cannot be opened: {_first_line(error)}") from error
        self._connection, lifetimes = self._database.connection, self._database.lifetimes
        self.offsets_ns = [life.offset_ns for life in lifetimes]
        self.steps_at = self._database.steps.steps_of
        logs = zip(loaded.processes, lifetimes, strict=True)
        self.processes = [_process_info(index, log, life) for index, (log, life) in enumerate(logs)]

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own to the database of the run, for DuckDB's API. It cannot open other files."""
        return self._connection.cursor()

    @cached_property
    def state(self) -> str:
        """`recording`, `ended`, `crashed` (not ended, and silent for a while) or `empty` (no process yet)."""
        if not self.processes:
            return "empty"
        if any(process.live for process in self.processes):
            return "recording"
        return "ended" if all(process.ended is not None for process in self.processes) else "crashed"

    def table(self, name: str) -> pd.DataFrame:
        """The table ``name`` of `TABLES`, in order of process and time. Raises QueryError for another name."""
        if name not in TABLES:
            raise QueryError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
        return self.sql(f"SELECT * FROM {name}{_ORDER.get(name, _BY_TIME)}")

    def sql(self, query: str, *, categories: bool = False) -> pd.DataFrame:
        """The rows of one query that reads. Raises QueryError with DuckDB's first line.

        ``categories``: text columns become pandas categories, which take a fraction of the memory of many rows.
        """
        return self._read(
            query, lambda relation: to_frame(_encoded(relation) if categories else relation.to_arrow_table())
        )

    def arrow(self, query: str) -> pa.Table:
        """The rows of one query that reads as Arrow, which keeps whole numbers beside missing values exact.

        Sums of whole numbers are int64 where they fit. Raises QueryError with the first line of the reason.
        """
        return self._read(query, lambda relation: _without_decimals(relation.to_arrow_table()))

    def columns(self, wanted: Mapping[str, Wanted]) -> dict[str, pa.Table]:
        """Rows of the log by kind, on the axis of the run: what ``events`` holds, without a query, for many rows.

        Raises QueryError.
        """
        try:
            return read_columns(self._database.columns(), wanted)
        except (OSError, duckdb.Error, pa.ArrowException) as error:
            raise QueryError(_first_line(error)) from error

    def _read(self, query: str, fetch: Callable[[duckdb.DuckDBPyRelation], Any]) -> Any:
        with contextlib.closing(self._connection.cursor()) as connection:
            try:
                statements = connection.extract_statements(query)
                if len(statements) != 1 or statements[0].type not in _READING:
                    raise QueryError("give one query that reads (SELECT …); a recorded run is never changed")
                return fetch(connection.sql(query))
            except (duckdb.Error, pa.ArrowException, ValueError, OverflowError) as error:
                raise QueryError(_first_line(error)) from error

    def batches(self, name: str, *, lists_as_text: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows of a table, like `table`, as Arrow batches: for tables larger than memory. Raises QueryError."""
        if name not in TABLES:
            raise QueryError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
        with contextlib.closing(self._connection.cursor()) as connection:
            try:
                texts = "* REPLACE (dims::VARCHAR AS dims)" if lists_as_text and name in _WITH_LISTS else "*"
                relation = connection.sql(f"SELECT {texts} FROM {name}{_ORDER.get(name, _BY_TIME)}")
                reader = relation.to_arrow_reader(_BATCH_ROWS)
                yield pa.RecordBatch.from_pylist([], schema=reader.schema)
                yield from reader
            except duckdb.Error as error:
                raise QueryError(_first_line(error)) from error

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name in TABLES:
            return self.table(name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @cached_property
    def _graph_files(self) -> dict[tuple[str, str], str]:
        """(graph, form) -> the file that holds it, of the first process that has it."""
        found: dict[tuple[str, str], str] = {}
        for process in self.processes:
            folder = f"{process.folder}/{FOLDER}"
            for name in self._files.names(folder):
                for suffix in (HLO, OPTIMIZED, IR):
                    graph = graph_of(name, suffix)
                    if graph is not None:
                        found.setdefault((graph, suffix), f"{folder}/{name}")
        return found

    def graph_hashes(self) -> frozenset[str]:
        """The graphs whose HLO was kept."""
        return frozenset(graph for graph, suffix in self._graph_files if suffix == HLO)

    def hlo(self, graph: str) -> bytes | None:
        """The HLO of a graph before optimization, as a serialized HloProto; None when not kept, or damaged."""
        return self._graph(graph, HLO)

    def optimized(self, graph: str) -> bytes | None:
        """The HLO of a graph after optimization, as a serialized HloProto; None when not kept, or damaged.

        Kept of graphs that run on several devices; where a recording began after the runtime, it is all there is.
        """
        if (graph, OPTIMIZED) not in self._graph_files:
            return self._graph(graph, HLO) if self._programs_only(graph) else None
        return self._graph(graph, OPTIMIZED)

    def programs(self) -> frozenset[str]:
        """The graphs that `optimized` has something of."""
        kept = self._graph_files
        return frozenset(graph for graph, form in kept if form == OPTIMIZED or self._programs_only(graph))

    def _programs_only(self, graph: str) -> bool:
        """Whether what was kept of a graph is already what the compiler made of it."""
        kept = self._graph_files.get((graph, HLO), "")
        owner = next((process for process in self.processes if kept.startswith(f"{process.folder}/")), None)
        capabilities = owner.facts.get("capabilities") if owner is not None else None
        return isinstance(capabilities, dict) and capabilities.get("graph_capture") == "programs"

    def ir(self, graph: str) -> str | None:
        """The framework's text of a graph with its hashes (level full only); None when not kept, or damaged."""
        content = self._graph(graph, IR)
        return None if content is None else content.decode("utf-8", "replace")

    def _graph(self, graph: str, suffix: str) -> bytes | None:
        name = self._graph_files.get((graph, suffix))
        return None if name is None else self._stored(name)

    def _stored(self, name: str) -> bytes | None:
        """The content of a file of a graph. One that cannot be read is remembered: see `graph_damage`."""
        try:
            content = decompress(self._files.read(name, MAX_MODULE_BYTES))
        except (OSError, RefusedError):
            content = None
        if content is None:
            self._unreadable.add(name)
        return content

    def log_damage(self) -> str:
        """What of the log could not be read, in one line; "" when all could be."""
        named = self.problems[:_NAMED_PROBLEMS]
        more = len(self.problems) - len(named)
        text = "; ".join(named) + (f"; and {more} more" if more else "")
        if not self.skipped_parts:
            return text
        return f"{numbers.plural(self.skipped_parts, 'part')} of the log could not be read: {text}"

    def graph_damage(self) -> str:
        """How many stored graphs are missing or damaged, as a sentence; "" when none is known to be.

        Told by the sizes of the files, and by what reading showed so far; no graph is read for it whose size is right.
        """
        broken = set(self._unreadable)
        for process in self.processes:
            folder = f"{process.folder}/{FOLDER}"
            known = {} if process.live else process.facts.get("graphs")
            sizes = self._files.sizes(folder)
            # A graph that was written again after the facts has another size and is whole.
            wrong = {f"{folder}/{name}" for name in misfits(known, sizes)} - broken
            broken |= {name for name in wrong if self._stored(name) is None}
        if not broken:
            return ""
        count = numbers.plural(len(broken), "stored graph")
        return (
            f"{count} cannot be read (missing or damaged, as {min(broken)}): what they hold was not compared, "
            "so that causes may be told as unknown."
        )

    def window(self, process: int, name: str) -> bytes | None:
        """The profiler session of a device window (table ``windows``) of a process; None when not kept, or damaged."""
        file = window_file(name)
        folders = [info.folder for info in self.processes if info.index == process]
        if file is None or not folders:
            return None
        try:
            return decompress(self._files.read(f"{folders[0]}/{file}", MAX_WINDOW_BYTES), MAX_WINDOW_BYTES)
        except (OSError, RefusedError):
            return None

    def snippet(self, file: str, line: int, around: int = 3) -> list[tuple[int, str]]:
        """(number, text) of the source lines around a place, as they were when recorded; empty when not recorded."""
        rows = self._connection.cursor().execute(
            "SELECT line, text FROM sources WHERE file = ? AND line BETWEEN ? AND ? ORDER BY line",
            [file, line - around, line + around],
        )
        return [(int(number), str(text)) for number, text in rows.fetchall()]

    def close(self) -> None:
        """Free the memory of the run, and its copies of remote files."""
        self._connection.close()
        if isinstance(self._files, RemoteFiles):
            self._files.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_WITH_LISTS = ("events", "inputs", "meshes", "shardings")
_BY_TIME = " ORDER BY process, time_ns, COLUMNS(* EXCLUDE (process, time_ns))"
"""In order of time; rows of one instant in the same order every time."""

_ORDER = {
    "processes": " ORDER BY process",
    "steps": " ORDER BY process, step",
    "sites": " ORDER BY process, site",
    "sources": " ORDER BY file, line",
    "threads": " ORDER BY process, thread",
    "graphs": "",
}


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a recorded run, a folder or an fsspec URL. Raises RunNotFoundError, RunFormatError."""
    location = os.fspath(path)
    return Run(location, load(location))


def _process_info(index: int, log: ProcessLog, life: Lifetime) -> ProcessInfo:
    ended = log.facts.get("ended")
    live = ended is None and time.time() - log.modified_unix_s < LIVE_S
    return ProcessInfo(index, log.folder, log.rank, log.facts, ended, life.start_ns, life.end_ns, live)


def _encoded(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """The rows with text as dictionaries, encoded while they arrive: the text itself is never in memory as a whole."""
    reader = relation.to_arrow_reader(_BATCH_ROWS)
    batches = []
    for batch in reader:
        columns = [_dictionary(column) if pa.types.is_string(column.type) else column for column in batch.columns]
        batches.append(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))
    empty = pa.RecordBatch.from_arrays(
        [pa.array([], _DICTIONARY if pa.types.is_string(field.type) else field.type) for field in reader.schema],
        names=reader.schema.names,
    )
    return pa.Table.from_batches(batches or [empty]).unify_dictionaries()


def _dictionary(column: pa.Array) -> pa.DictionaryArray:
    return column.dictionary_encode()


def to_frame(table: pa.Table) -> pd.DataFrame:
    """An Arrow table as pandas; the table is used up."""
    return _without_decimals(table).to_pandas(self_destruct=True)


def _without_decimals(table: pa.Table) -> pa.Table:
    for position, column in enumerate(table.schema):
        if pa.types.is_decimal(column.type):
            table = table.set_column(position, column.name, _plain_numbers(table.column(position)))
    return table


def _plain_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Sums of whole numbers come as decimals: as int64 where they fit, else as floats."""
    if column.type.scale == 0:
        try:
            return pc.cast(column, pa.int64())
        except pa.ArrowInvalid:
            return pc.cast(column, pa.float64())
    return pc.cast(column, pa.float64())


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
