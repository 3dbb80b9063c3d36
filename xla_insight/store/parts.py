"""Closed parts: batches of a stream compacted to one Parquet file that is written whole or not at all.

Rows are sorted by kind and a row group holds few kinds, so that a table of one kind reads only its own rows. Leaves
when a part is closed to ``writer``.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xla_insight.store.schema import DICTIONARY_COLUMNS, EVENT_SCHEMA
from xla_insight.store.stream import remove_quietly

GROUP_ROWS = 8192
"""A row group ends at the first change of kind after this many rows."""

_ENCODINGS = {"time_ns": "DELTA_BINARY_PACKED", "duration_ns": "DELTA_BINARY_PACKED"}
_DICTIONARY = [*DICTIONARY_COLUMNS, "step", "thread", "site", "value", "dims.list.element"]


class PartFacts(NamedTuple):
    """What is known of a closed part, kept in ``process.json``: a reader can tell a damaged or a missing one."""

    rows: int
    size: int
    crc32: int


def write_part(path: str, batches: Sequence[pa.RecordBatch]) -> PartFacts:
    """Write batches as one Parquet file. Raises OSError; then ``path`` does not exist."""
    content = compact(batches)
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        remove_quietly(temporary)
        raise
    return PartFacts(sum(batch.num_rows for batch in batches), len(content), zlib.crc32(content))


def compact(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """The bytes of a part."""
    table = pa.Table.from_batches(batches, EVENT_SCHEMA)
    # The position is the second key: rows of one kind and one time keep their order.
    rows = pa.py_buffer(array("q", range(table.num_rows)))
    position = pa.Array.from_buffers(pa.int64(), table.num_rows, [None, rows])
    order = table.select(["kind", "time_ns"]).append_column("position", position)
    keys = [("kind", "ascending"), ("time_ns", "ascending"), ("position", "ascending")]
    table = table.take(pc.sort_indices(order, sort_keys=keys)).combine_chunks()
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, EVENT_SCHEMA, compression="zstd", use_dictionary=_DICTIONARY, column_encoding=_ENCODINGS
    ) as writer:
        start = 0
        for rows in _group_lengths(table):
            writer.write_table(table.slice(start, rows), row_group_size=rows)
            start += rows
    return sink.getvalue()


def _group_lengths(table: pa.Table) -> list[int]:
    """Lengths of the row groups of a table sorted by kind."""
    lengths = [0]
    for run in pc.run_end_encode(table["kind"]).chunks:
        ends = run.run_ends.to_pylist()
        for begin, end in zip([0, *ends], ends, strict=False):
            if lengths[-1] >= GROUP_ROWS:
                lengths.append(0)
            lengths[-1] += end - begin
    return [length for length in lengths if length]
