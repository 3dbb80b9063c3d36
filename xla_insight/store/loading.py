"""Reads the log of every process of a run into Arrow tables, one a kind of event, taking what is readable.

Owns tolerance: torn tails, damaged parts, missing or hostile ``process.json``. What could not be read is counted and
named. All times leave here on one axis: ns since the earliest process of the run began.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xla_insight.errors import RunFormatError, RunNotFoundError
from xla_insight.facts.events import SCHEMA_VERSION, Kind
from xla_insight.store import layout
from xla_insight.store.schema import DICTIONARY_COLUMNS, EVENT_SCHEMA

MAX_JSON_BYTES = 4 << 20


@dataclass
class ProcessLog:
    """One recorded process. ``offset_ns`` added to its monotonic time gives time since the run's start."""

    index: int
    folder: str
    rank: int
    facts: dict[str, Any]
    offset_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    ended: str | None = None
    modified_unix_s: float = 0.0


@dataclass
class Loaded:
    """Everything read. ``kinds``: kind of event -> its rows, with the columns process, rank and time on the run's axis."""

    info: dict[str, Any]
    processes: list[ProcessLog]
    kinds: dict[str, pa.Table] = field(default_factory=dict)
    skipped_parts: int = 0
    problems: list[str] = field(default_factory=list)


class RunFiles:
    """The files of one run folder through fsspec; no name leads outside of it."""

    def __init__(self, run: str) -> None:
        self.filesystem, self.path = fsspec.core.url_to_fs(run)

    def exists(self) -> bool:
        """Whether the folder is there."""
        return bool(self.filesystem.isdir(self.path))

    def names(self, folder: str = "") -> list[str]:
        """Names of the entries of a folder; empty when it is not there."""
        try:
            entries = self.filesystem.ls(self._join(folder), detail=False)
        except (OSError, ValueError):
            return []
        return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in entries)

    def _join(self, name: str) -> str:
        return f"{self.path}/{name}" if name else str(self.path)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Content of a file. Raises OSError; ValueError when it is larger than ``limit``."""
        with self.filesystem.open(self._join(name), "rb") as stream:
            data: bytes = stream.read() if limit is None else stream.read(limit + 1)
        if limit is not None and len(data) > limit:
            raise ValueError(f"larger than {limit} bytes")
        return data

    def modified(self, name: str) -> float:
        """When the file was last written, seconds since the epoch; 0.0 when unknown."""
        try:
            when = self.filesystem.modified(self._join(name))
        except (OSError, NotImplementedError, KeyError):
            return 0.0
        return float(when.timestamp())

    def json(self, name: str) -> dict[str, Any]:
        """A small JSON object. Raises OSError, ValueError."""
        content = json.loads(self.read(name, MAX_JSON_BYTES))
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
        return content


def load(run: str) -> Loaded:
    """Read the run at ``run`` (folder or URL). Raises RunNotFoundError, RunFormatError."""
    files = RunFiles(run)
    if not files.exists():
        raise RunNotFoundError(f"there is no run at {run}")
    names = files.names()
    folders = [name for name in names if layout.PROCESS_PATTERN.fullmatch(name)]
    if layout.RUN_FILE not in names and not folders:
        raise RunNotFoundError(f"{run} is not a run: it has no {layout.RUN_FILE}")
    loaded = Loaded(_run_info(files, run, names), [])
    for folder in folders:
        loaded.processes.append(_process(files, folder, loaded.problems))
    loaded.processes.sort(key=lambda process: (process.facts["wall_anchor_ns"], process.folder))
    origin = min((process.facts["wall_anchor_ns"] for process in loaded.processes), default=0)
    pieces: dict[str, list[pa.Table]] = {}
    for index, process in enumerate(loaded.processes):
        process.index = index
        process.offset_ns = process.facts["wall_anchor_ns"] - process.facts["start_mono_ns"] - origin
        for table in _read_parts(files, process, loaded):
            _split(table, process, pieces)
    for kind, tables in pieces.items():
        loaded.kinds[kind] = pa.concat_tables(tables).unify_dictionaries()
    _lifetimes(loaded)
    return loaded


def _run_info(files: RunFiles, run: str, names: list[str]) -> dict[str, Any]:
    if layout.RUN_FILE not in names:
        return {}
    try:
        info = files.json(layout.RUN_FILE)
    except (OSError, ValueError) as error:
        raise RunFormatError(f"{run}/{layout.RUN_FILE} cannot be read ({error}); is this a run?") from error
    version = info.get("schema")
    if not isinstance(version, int):
        raise RunFormatError(f"{run}/{layout.RUN_FILE} names no schema version; is this a run?")
    if version > SCHEMA_VERSION:
        raise RunFormatError(
            f"{run} was recorded by a newer xla-insight (schema {version}, this one reads {SCHEMA_VERSION}); update it"
        )
    return info


def _process(files: RunFiles, folder: str, problems: list[str]) -> ProcessLog:
    try:
        facts = files.json(f"{folder}/{layout.PROCESS_FILE}")
    except (OSError, ValueError) as error:
        problems.append(f"{folder}/{layout.PROCESS_FILE}: {error}")
        facts = {}
    for key in ("wall_anchor_ns", "start_mono_ns"):
        value = facts.get(key)
        facts[key] = value if isinstance(value, int) and 0 <= value < 1 << 62 else 0
    rank = facts.get("rank")
    if not isinstance(rank, int) or not 0 <= rank < 1 << 31:
        rank = int(folder.split("-")[1][:9])
    ended = facts.get("ended")
    log = ProcessLog(0, folder, rank, facts, ended=ended if isinstance(ended, str) else None)
    log.modified_unix_s = max(files.modified(f"{folder}/{name}") for name in (layout.PROCESS_FILE, layout.OPEN_FILE))
    return log


def _read_parts(files: RunFiles, process: ProcessLog, loaded: Loaded) -> list[pa.Table]:
    tables = []
    numbers = set()
    for name in files.names(process.folder):
        match = layout.PART_PATTERN.fullmatch(name)
        if match is None:
            continue
        numbers.add(int(match[1]))
        path = f"{process.folder}/{name}"
        try:
            raw = io.BytesIO(files.read(path))
            tables.append(_conform(pq.read_table(raw, read_dictionary=list(DICTIONARY_COLUMNS))))
        except (OSError, ValueError, pa.ArrowException, KeyError) as error:
            loaded.skipped_parts += 1
            loaded.problems.append(f"{path}: {_first_line(error)}")
    stream = f"{process.folder}/{layout.OPEN_FILE}"
    try:
        data = files.read(stream)
    except OSError:
        return tables
    part, batches, problem = read_stream(data)
    if problem:
        loaded.skipped_parts += 1
        loaded.problems.append(f"{stream}: {problem}")
    if part not in numbers and batches:
        tables.append(_conform(pa.Table.from_batches(batches)))
    return tables


def read_stream(data: bytes) -> tuple[int, list[pa.RecordBatch], str | None]:
    """(part number, complete batches, what is wrong or None) of a stream; a torn tail is no problem."""
    batches: list[pa.RecordBatch] = []
    part = 0
    if not data:
        return part, batches, None
    try:
        with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
            metadata = reader.schema.metadata or {}
            part = int(metadata.get(layout.PART_KEY, b"0"))
            if set(EVENT_SCHEMA.names) - set(reader.schema.names):
                return part, [], "its columns are not those of a log"
            while True:
                batch = reader.read_next_batch()
                batch.validate(full=True)
                batches.append(batch)
    except StopIteration:
        return part, batches, None
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        # Arrow raises the same for a tail that a kill cut off and for damage; what came before it is good.
        torn = isinstance(error, (pa.ArrowInvalid, OSError)) and ("Expected" in str(error) or "EOF" in str(error))
        return part, batches, None if torn or not batches and len(data) < 4096 else _first_line(error)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200] or type(error).__name__


def _conform(table: pa.Table) -> pa.Table:
    """Columns of the log in their order and types, text columns dictionary-encoded. Raises ArrowException, KeyError."""
    columns = []
    for column in EVENT_SCHEMA:
        data = table.column(column.name)
        if column.name in DICTIONARY_COLUMNS:
            if not pa.types.is_dictionary(data.type):
                data = data.cast(pa.string()).dictionary_encode()
            data = data.cast(pa.dictionary(pa.int32(), pa.string()))
        else:
            data = data.cast(column.type)
        columns.append(data)
    return pa.table(columns, names=EVENT_SCHEMA.names)


def _split(table: pa.Table, process: ProcessLog, pieces: dict[str, list[pa.Table]]) -> None:
    """Add the rows of ``table`` to ``pieces`` by kind, on the run's time axis."""
    table = table.filter(pc.and_(pc.is_valid(table["time_ns"]), pc.is_valid(table["kind"])))
    time = pc.add(table["time_ns"], process.offset_ns)
    table = table.set_column(0, "time_ns", time)
    known = {str(kind) for kind in Kind}
    for kind in pc.unique(table["kind"]).to_pylist():
        if kind not in known:  # written by a later version: fields are added, never renamed
            continue
        rows = table.filter(pc.equal(table["kind"], kind)).drop_columns(["kind", "step"])
        for name, value in (("rank", process.rank), ("process", process.index)):
            rows = rows.add_column(0, name, pa.repeat(pa.scalar(value, pa.int32()), rows.num_rows))
        pieces.setdefault(kind, []).append(rows)


def _lifetimes(loaded: Loaded) -> None:
    """Begin and end of each process from its events; its facts say where it began when there are none."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for table in loaded.kinds.values():
        ends = pc.add(table["time_ns"], pc.fill_null(table["duration_ns"], 0))
        group = pa.table({"process": table["process"], "low": table["time_ns"], "high": ends})
        for row in group.group_by("process").aggregate([("low", "min"), ("high", "max")]).to_pylist():
            index = row["process"]
            low[index] = min(low.get(index, row["low_min"]), row["low_min"])
            high[index] = max(high.get(index, row["high_max"]), row["high_max"])
    marks = loaded.kinds.get(Kind.MARK)
    starts: dict[int, int] = {}
    if marks is not None:
        for row in marks.select(["process", "name", "time_ns"]).to_pylist():
            if row["name"] == "start":
                starts.setdefault(row["process"], row["time_ns"])
    for process in loaded.processes:
        begin = process.facts["start_mono_ns"] + process.offset_ns
        process.start_ns = starts.get(process.index, low.get(process.index, begin))
        process.end_ns = max(high.get(process.index, process.start_ns), process.start_ns)
