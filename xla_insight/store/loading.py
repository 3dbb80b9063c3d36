"""Finds what is readable of each process of a run: whole parts, the rows of the part being filled, facts, clocks.

Owns tolerance: a part is used when its checksum holds, or when all of it could be decoded; what could not be read is
counted and named. Nothing here depends on how many events a part has, except that parts without a checksum are decoded
at once. Leaves opening files to ``run_files`` and tables to ``database``.
"""

from __future__ import annotations

import functools
import io
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xla_insight.errors import RunFormatError, RunNotFoundError
from xla_insight.store.process_facts import anchor, checked, part_facts
from xla_insight.store.run_files import RefusedError, RunFiles, open_files, read_json
from xla_insight.store.schema import (
    EVENT_SCHEMA,
    OPEN_FILE,
    PARQUET_SUFFIX,
    PROCESS_FILE,
    RUN_FILE,
    part_name,
    part_number,
)
from xla_insight.store.stream_reader import conform, read_stream

_PROCESS_FOLDER = re.compile(r"rank-([0-9]{5,9})-.+")


@dataclass
class ProcessLog:
    """What is readable of one process: ``files`` are whole Parquet parts, ``tables`` rows already decoded."""

    folder: str
    rank: int
    facts: dict[str, Any]
    modified_unix_s: float
    files: list[str] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    anchor: tuple[int, int] | None = None
    """(monotonic ns, wall clock ns) of one instant."""


LISTED_RUNS, MOST_LISTED = 8, 1000
"""Of a folder that holds runs: so many are named, and so many names are looked at."""


@dataclass
class Loaded:
    """A run as found. ``problems`` name what is missing or damaged; ``skipped_parts`` counts unreadable parts."""

    files: RunFiles
    info: dict[str, Any]
    processes: list[ProcessLog] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped_parts: int = 0


def _no_run(run: str, files: RunFiles, names: list[str]) -> str:
    """What is there instead: usually the folder that the runs lie in."""
    below = [name for name in names[:MOST_LISTED] if RUN_FILE in files.names(name)]
    if not below:
        return f"there is no run at {run}: it has no {RUN_FILE}"
    below.sort(key=lambda name: files.modified_unix_s(f"{name}/{RUN_FILE}"), reverse=True)
    places = ", ".join(f"{run.rstrip('/')}/{name}" for name in below[:LISTED_RUNS])
    more = f" and {len(below) - LISTED_RUNS} more" if len(below) > LISTED_RUNS else ""
    return f"{run} is no run but holds some, the newest first: {places}{more}; name one"


def load(run: str) -> Loaded:
    """Look through the run at ``run`` (a folder or URL). Raises RunNotFoundError, RunFormatError."""
    files = open_files(run)
    names = files.names()
    folders = [name for name in names if _PROCESS_FOLDER.fullmatch(name)]
    if RUN_FILE not in names and not folders:
        raise RunNotFoundError(_no_run(run, files, names))
    loaded = Loaded(files, {})
    if RUN_FILE in names:
        try:
            loaded.info = checked(read_json(files, RUN_FILE))
        except RunFormatError as error:
            raise RunFormatError(f"{run}: {RUN_FILE} {error}") from error
    else:
        loaded.problems.append(f"{RUN_FILE} is missing")
    for folder in folders:
        _load_process(loaded, folder)
    loaded.processes.sort(key=lambda process: (process.rank, process.anchor or (0, 0), process.folder))
    return loaded


def _load_process(loaded: Loaded, folder: str) -> None:
    # In this order the reader of a growing run sees a part as stream, as file, or as both, but never as none.
    stream = _read_open_part(loaded, folder)
    names = loaded.files.names(folder)
    facts: dict[str, Any] = {}
    try:
        facts = checked(read_json(loaded.files, f"{folder}/{PROCESS_FILE}"))
    except RunFormatError as error:
        loaded.problems.append(f"{folder}/{PROCESS_FILE} {error}")
        if "newer" in str(error):
            loaded.skipped_parts += sum(part_number(name) is not None for name in names)
            return
    match = _PROCESS_FOLDER.fullmatch(folder)
    rank = facts.get("rank", int(match[1]) if match else 0)
    written = [loaded.files.modified_unix_s(f"{folder}/{name}") for name in (PROCESS_FILE, OPEN_FILE)]
    process = ProcessLog(folder, rank, facts, max(written), anchor=anchor(facts))
    known = part_facts(facts)
    whole = {
        number
        for name in names
        if (number := part_number(name)) is not None and _add_part(loaded, process, name, known.get(name))
    }
    if stream is not None and stream.part not in whole:
        process.tables.extend(stream.tables)
    _name_missing(loaded, folder, set(names), known)
    loaded.processes.append(process)


@dataclass(frozen=True)
class _Stream:
    part: int
    tables: list[pa.Table]


def _read_open_part(loaded: Loaded, folder: str) -> _Stream | None:
    name = f"{folder}/{OPEN_FILE}"
    try:
        data = loaded.files.read(name)
    except FileNotFoundError:
        return None
    except (OSError, RefusedError) as error:
        _skip(loaded, name, error)
        return None
    part, tables, problem = read_stream(data)
    if problem is not None:
        _skip(loaded, name, problem)
    return _Stream(part, tables)


def _add_part(loaded: Loaded, process: ProcessLog, name: str, known: tuple[int, int, int] | None) -> bool:
    """Add a closed part; False when it is not readable."""
    path = f"{process.folder}/{name}"
    try:
        if not name.endswith(PARQUET_SUFFIX):
            _, tables, problem = read_stream(loaded.files.read(path))
            process.tables.extend(tables)
            if problem is not None:
                _skip(loaded, path, problem)
            return True
        if known is not None:
            local = loaded.files.local_path(path)
            if not _intact(local, loaded.files.modified_unix_s(path), known[1], known[2]):
                _skip(loaded, path, "is damaged (its checksum does not hold)")
                return False
            process.files.append(local)
            return True
        # Closed just now or found without its facts: only decoding all of it shows that it is whole.
        process.tables.append(conform(pq.read_table(io.BytesIO(loaded.files.read(path)))))
    except FileNotFoundError:
        _skip(loaded, path, "is gone")
    except (OSError, ValueError, KeyError, MemoryError, RefusedError, pa.ArrowException) as error:
        _skip(loaded, path, error)
    else:
        return True
    return False


@functools.lru_cache(maxsize=65_536)
def _intact(path: str, _modified_unix_s: float, size: int, crc32: int) -> bool:
    """Whether a part is as it was written, and of this schema. Remembered: a live run is opened again and again."""
    with open(path, "rb") as file:
        content = file.read(size + 1)
    if len(content) != size or zlib.crc32(content) != crc32:
        return False
    found = pq.read_schema(pa.BufferReader(content))
    return all(field.name in found.names and found.field(field.name).type == field.type for field in EVENT_SCHEMA)


def _name_missing(loaded: Loaded, folder: str, names: set[str], known: dict[str, tuple[int, int, int]]) -> None:
    numbers = {number for name in names if (number := part_number(name)) is not None}
    expected = {number: rows for name, (rows, _, _) in known.items() if (number := part_number(name)) is not None}
    gaps = set(range(1, max(numbers, default=0))) - numbers
    for number in sorted((set(expected) | gaps) - numbers)[:1000]:
        rows = expected.get(number)
        count = "" if rows is None else f" ({rows} events)"
        _skip(loaded, f"{folder}/{part_name(number)}", f"is missing{count}")


def _skip(loaded: Loaded, name: str, why: object) -> None:
    loaded.skipped_parts += 1
    if isinstance(why, OSError):
        why = why.strerror or why
    text = str(why).strip().split("\n")[0][:200] or type(why).__name__
    loaded.problems.append(f"{name} {text}" if not isinstance(why, Exception) else f"{name}: {text}")
