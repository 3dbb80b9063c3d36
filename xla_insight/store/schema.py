"""The columns of the log, the names of its files, and the step from events to Arrow.

Owns the form of a row. Leaves files to ``writer`` and ``reader`` and the meaning of a row to ``facts.events``. Arrays
are built from plain buffers, because ``pyarrow.array`` imports pandas on its first call, and this runs inside a
training process.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from xla_insight.facts.events import SCHEMA_VERSION, Event, Kind

RUN_FILE = "run.json"
PROCESS_FILE = "process.json"
OPEN_FILE = "open.arrows"
RESERVE_FILE = "reserve"
"""Room on the disk for the last facts of a process: given back when it ends."""
PROCESS_PREFIX = "rank-"
PART_PREFIX = "part-"
PARQUET_SUFFIX = ".parquet"
STREAM_SUFFIX = ".arrows"
PART_KEY = b"xla_insight_part"
"""Metadata of a stream: the number of the part that it becomes, so that a part and its stream never count twice."""

_PART_NAME = re.compile(r"part-([0-9]{6,12})\.(?:parquet|arrows)")

EVENT_SCHEMA = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("duration_ns", pa.int64()),
        ("kind", pa.string()),
        ("step", pa.int32()),
        ("thread", pa.int32()),
        ("graph", pa.string()),
        ("site", pa.int32()),
        ("name", pa.string()),
        ("value", pa.float64()),
        ("dims", pa.list_(pa.int64())),
        ("detail", pa.string()),
    ],
    metadata={"xla_insight_schema": str(SCHEMA_VERSION)},
)

DICTIONARY_COLUMNS = ("kind", "graph", "name", "detail")
"""Text columns: few distinct values, many rows."""

DEFINITIONS = frozenset({Kind.SITE, Kind.THREAD, Kind.GRAPH, Kind.CLOCK})
"""Kinds that other rows refer to: written again when the files that held them are gone."""


def part_name(number: int, suffix: str = PARQUET_SUFFIX) -> str:
    """File name of a closed part: ``part-000001.parquet``."""
    return f"{PART_PREFIX}{number:06d}{suffix}"


def part_number(name: str) -> int | None:
    """The number in a part's file name; None when it is not a part."""
    match = _PART_NAME.fullmatch(name)
    return None if match is None else int(match[1])


def to_batch(events: Sequence[Event]) -> tuple[pa.RecordBatch, int]:
    """A record batch in `EVENT_SCHEMA`, and how many events had values that no column can hold and were left out.

    10,000 events take a few ms. Text that is not valid Unicode keeps its readable part.
    """
    try:
        return _batch(events), 0
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        kept = [cleaned for event in events if (cleaned := _cleaned(event)) is not None]
        return _batch(kept), len(events) - len(kept)


def _batch(events: Sequence[Event]) -> pa.RecordBatch:
    columns = list(zip(*events, strict=True)) or [()] * len(EVENT_SCHEMA)
    arrays = [
        _array(column, field.type, build) for column, field, build in zip(columns, EVENT_SCHEMA, _BUILDERS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)


def _array(column: Sequence[Any], data_type: pa.DataType, build: _Build) -> pa.Array:
    # By identity: comparing with None calls into every value, which costs more than all the rest.
    present = bytes([value is not None for value in column])
    missing = present.count(0)
    if missing == len(column):
        return pa.nulls(missing, data_type)
    return build(column, _bitmap(present) if missing else None)


def _cleaned(event: Event) -> Event | None:
    """The event with text made valid; None when it still does not fit."""
    try:
        cleaned = Event(*(_clean_text(value) for value in event))
        _batch([cleaned])
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return None
    return cleaned


def _clean_text(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _bitmap(flags: bytes) -> pa.Buffer:
    """The validity bitmap of one byte (0 or 1) a value."""
    values = pa.Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(flags)])
    bitmap: pa.Buffer = values.cast(pa.bool_()).buffers()[1]
    return bitmap


def _numbers(data_type: pa.DataType, code: str) -> _Build:
    def build(column: Sequence[Any], valid: pa.Buffer | None) -> pa.Array:
        values = array(code, column if valid is None else [0 if value is None else value for value in column])
        return pa.Array.from_buffers(data_type, len(column), [valid, pa.py_buffer(values)])

    return build


def _strings(column: Sequence[Any], valid: pa.Buffer | None) -> pa.Array:
    present = column if valid is None else ["" if value is None else value for value in column]
    text = "".join(present)
    data = text.encode()
    pieces: Sequence[str | bytes] = present if len(data) == len(text) else [value.encode() for value in present]
    offsets = array("i", accumulate(map(len, pieces), initial=0))
    return pa.Array.from_buffers(pa.string(), len(column), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def _lists(column: Sequence[Any], valid: pa.Buffer | None) -> pa.Array:
    present = column if valid is None else [() if value is None else value for value in column]
    offsets = array("i", accumulate(map(len, present), initial=0))
    values = array("q", chain.from_iterable(present))
    inner = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
    return pa.Array.from_buffers(pa.list_(pa.int64()), len(column), [valid, pa.py_buffer(offsets)], children=[inner])


_Build = Callable[[Sequence[Any], pa.Buffer | None], pa.Array]
_BUILD: dict[pa.DataType, _Build] = {
    pa.int64(): _numbers(pa.int64(), "q"),
    pa.int32(): _numbers(pa.int32(), "i"),
    pa.float64(): _numbers(pa.float64(), "d"),
    pa.string(): _strings,
    pa.list_(pa.int64()): _lists,
}
_BUILDERS = [_BUILD[field.type] for field in EVENT_SCHEMA]
