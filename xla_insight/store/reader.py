"""``open_run``: a recorded run as tables, also while it is being recorded, after a crash, or damaged.

Owns the DuckDB connection over the loaded events and the state of a run. Leaves reading bytes to ``loading``.
"""

from __future__ import annotations

import os
import threading
import time
from functools import cached_property
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from xla_insight.errors import QueryError
from xla_insight.facts.events import Kind
from xla_insight.store import steps
from xla_insight.store.loading import Loaded, ProcessLog, load
from xla_insight.store.schema import DICTIONARY_COLUMNS, EVENT_SCHEMA
from xla_insight.store.views import TABLES, create_views

LIVE_S = 15.0
"""A process that has not ended and wrote within this time is taken to be recording."""

ProcessInfo = ProcessLog


class Run:
    """One opened run. ``run.table(name)`` or ``run.NAME`` for each name of ``TABLES``; ``run.sql(query)``."""

    def __init__(self, path: str, loaded: Loaded) -> None:
        self.path = path
        self.info: dict[str, Any] = loaded.info
        self.processes: list[ProcessLog] = loaded.processes
        self.skipped_parts = loaded.skipped_parts
        self.problems = loaded.problems
        self._connection = duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"})
        self._lock = threading.Lock()
        self._register(loaded)
        self._cache: dict[str, pd.DataFrame] = {}

    def _register(self, loaded: Loaded) -> None:
        connection = self._connection
        bounds = steps.step_bounds(loaded)
        connection.register("steps", pa.Table.from_pandas(bounds, preserve_index=False))
        connection.register("processes", self._process_table(loaded))
        for kind in Kind:
            table = loaded.kinds.get(kind)
            table = _empty() if table is None else table
            connection.register(f"raw_{kind.value}", table.append_column("step", steps.assign(table, bounds)))
        create_views(connection)
        # Queries come from users and, through pages, from anywhere: they see the run and nothing else.
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")

    def _process_table(self, loaded: Loaded) -> pa.Table:
        rows = [
            {
                "process": process.index,
                "rank": process.rank,
                "folder": process.folder,
                "pid": _integer(process.facts.get("pid")),
                "host": _text(process.facts.get("host")),
                "device": _text(process.facts.get("device")),
                "world_size": _integer(process.facts.get("world_size")),
                "level": _text(process.facts.get("level")),
                "start_ns": process.start_ns,
                "end_ns": process.end_ns,
                "offset_ns": process.offset_ns,
                "ended": process.ended,
            }
            for process in loaded.processes
        ]
        text, number = pa.string(), pa.int64()
        schema = pa.schema(
            [("process", number), ("rank", number), ("folder", text), ("pid", number), ("host", text), ("device", text)]
            + [("world_size", number), ("level", text), ("start_ns", number), ("end_ns", number), ("offset_ns", number)]
            + [("ended", text)]
        )
        return pa.Table.from_pylist(rows, schema=schema)

    def _query(self, query: str) -> pd.DataFrame:
        # One query at a time: the events are registered with this connection only, and it is not thread-safe.
        with self._lock:
            return self._connection.execute(query).df()

    @cached_property
    def state(self) -> str:
        """`recording`, `ended`, `crashed` (not ended, and silent for a while) or `empty` (no process yet)."""
        if not self.processes:
            return "empty"
        open_ones = [process for process in self.processes if process.ended is None]
        if any(is_live(process) for process in open_ones):
            return "recording"
        return "crashed" if open_ones else "ended"

    def table(self, name: str) -> pd.DataFrame:
        """The table ``name`` of ``TABLES``. Raises QueryError for another name."""
        if name not in TABLES:
            raise QueryError(f"no table {name!r}; there are: {', '.join(TABLES)}")
        frame = self._cache.get(name)
        if frame is None:
            frame = self._cache[name] = self._query(f"SELECT * FROM {name}")
        return frame.copy(deep=False)

    def sql(self, query: str) -> pd.DataFrame:
        """Result of an SQL query over the tables. Raises QueryError with DuckDB's first line."""
        try:
            return self._query(query)
        except duckdb.Error as error:
            raise QueryError(str(error).strip().split("\n")[0]) from error

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name in TABLES:
            return self.table(name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def close(self) -> None:
        """Free the memory of the run."""
        self._connection.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def is_live(process: ProcessLog) -> bool:
    """Whether the process has not ended and wrote a short while ago."""
    return process.ended is None and time.time() - process.modified_unix_s < LIVE_S


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a recorded run, a folder or an fsspec URL. Raises RunNotFoundError, RunFormatError."""
    location = os.fspath(path)
    return Run(location, load(location))


def _empty() -> pa.Table:
    columns: list[tuple[str, pa.DataType]] = [("process", pa.int32()), ("rank", pa.int32())]
    for column in EVENT_SCHEMA:
        if column.name in ("kind", "step"):
            continue
        kind = pa.dictionary(pa.int32(), pa.string()) if column.name in DICTIONARY_COLUMNS else column.type
        columns.append((column.name, kind))
    return pa.schema(columns).empty_table()


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and abs(value) < 1 << 62 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
