"""Reading a part that is still a stream: every complete batch of it, however it ends.

Owns the difference between a torn tail (a kill, or a write going on: no problem) and damage (named). Leaves finding the
file to ``loading``.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from xla_insight.store.schema import EVENT_SCHEMA, PART_KEY

_CONTINUATION = b"\xff\xff\xff\xff"
_MAX_METADATA = 1 << 20
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, MemoryError)


def read_stream(data: bytes) -> tuple[int, list[pa.Table], str | None]:
    """(number of the part, its complete batches, what is damaged or None). Number 0 when even that is not readable."""
    source = pa.BufferReader(data)
    tables: list[pa.Table] = []
    part, good = 0, 0
    try:
        with pa.ipc.open_stream(source) as reader:
            part = _part(reader.schema)
            good = source.tell()
            while True:
                batch = reader.read_next_batch()
                batch.validate(full=True)
                tables.append(conform(pa.Table.from_batches([batch])))
                good = source.tell()
    except StopIteration:
        return part, tables, None
    except _UNREADABLE as error:
        if _is_torn(data[good:]):
            return part, tables, None
        return part, tables, f"is damaged after {sum(map(len, tables))} events ({_first_line(error)})"


def conform(table: pa.Table) -> pa.Table:
    """The columns of the log in their order and types. Raises KeyError or ArrowException when they are not there."""
    columns = [table.column(field.name).cast(field.type) for field in EVENT_SCHEMA]
    conformed = pa.table(columns, schema=EVENT_SCHEMA.remove_metadata())
    conformed.validate(full=True)
    return conformed


def _part(schema: pa.Schema) -> int:
    number = (schema.metadata or {}).get(PART_KEY, b"0")
    return int(number) if number.isdigit() and len(number) < 13 else 0


def _is_torn(rest: bytes) -> bool:
    """Whether what follows the last good batch is the beginning of a message that was not written to its end."""
    if len(rest) < 8:
        return _CONTINUATION.startswith(rest[:4])
    if rest[:4] != _CONTINUATION:
        return False
    (metadata_bytes,) = struct.unpack("<i", rest[4:8])
    if not 0 < metadata_bytes < _MAX_METADATA:
        return False
    if len(rest) < 8 + metadata_bytes:
        return True
    try:
        pa.ipc.read_message(rest)
    except _UNREADABLE as error:
        return "Expected to be able to read" in str(error)
    return False


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:120] or type(error).__name__
