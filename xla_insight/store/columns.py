"""Columns of many events straight from the files of a run, for who reads millions of rows and few columns of them.

A query makes text of every name and sorts whole rows; here names stay codes of a dictionary from file to table, only
the row groups that can hold a kind are opened, and rows of different requests come from one pass over the files. Owns
the same rows on the same axis as the table ``events``. Leaves which files are whole to ``loading`` and what a row means
to who asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from xla_insight.facts.events import Kind
from xla_insight.store.process_facts import MAX_NS
from xla_insight.store.schema import DICTIONARY_COLUMNS, EVENT_SCHEMA

READERS = 2
"""Threads that decode files; decoding leaves Python's lock."""

_ALWAYS = ("kind", "time_ns")
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows of some kinds, and which columns of them: names of `EVENT_SCHEMA`, or `FIRST` for the first of ``dims``."""

    kinds: tuple[Kind, ...]
    columns: tuple[str, ...]
    own_thread: bool = False
    """Only rows of the training thread and those without a thread."""

    def read(self) -> list[str]:
        """The columns of a file that are needed."""
        columns = {"dims" if name == FIRST else name for name in (*_ALWAYS, *self.columns)}
        return sorted(columns | ({"thread"} if self.own_thread else set()))


FIRST = "first_of_dims"


@dataclass(frozen=True, slots=True)
class ProcessColumns:
    """Where the rows of one process are: whole files, and rows already decoded. ``offset_ns`` moves times to the axis
    of the run."""

    files: tuple[str, ...]
    tail: pa.Table
    offset_ns: int


def read_columns(processes: Sequence[ProcessColumns], wanted: Mapping[str, Wanted]) -> dict[str, pa.Table]:
    """For each request its rows in order of process and time, with the column ``process`` and text as dictionaries.

    Rows of one process and time keep the order in which they were recorded. Raises OSError and pa.ArrowException.
    """
    found: dict[str, list[pa.Table]] = {name: [] for name in wanted}
    with ThreadPoolExecutor(READERS) as pool:
        for index, process in enumerate(processes):
            pieces = list(pool.map(lambda path: _of_file(path, wanted), process.files))
            pieces.append({name: _by_time(_piece(process.tail, one)) for name, one in wanted.items()})
            for name in wanted:  # each piece goes as soon as it is part of a table
                merged = [_merged([piece.pop(name) for piece in pieces if name in piece])]
                found[name].append(_on_axis(merged.pop(), index, process.offset_ns, pool))
    tables = {
        name: pa.concat_tables(parts).unify_dictionaries() if parts else _nothing(wanted[name])
        for name, parts in found.items()
    }
    pa.default_memory_pool().release_unused()  # what the pieces took
    return tables


def _of_file(path: str, wanted: Mapping[str, Wanted]) -> dict[str, pa.Table]:
    found: dict[str, list[pa.Table]] = {name: [] for name in wanted}
    with pq.ParquetFile(path, read_dictionary=list(DICTIONARY_COLUMNS)) as file:
        # Row groups that the same requests want are read once, with the columns of all of them.
        readers: dict[tuple[str, ...], list[int]] = {}
        for number, (low, high) in enumerate(_kinds_of_groups(file.metadata)):
            names = tuple(name for name, one in wanted.items() if any(low <= kind <= high for kind in one.kinds))
            readers.setdefault(names, []).append(number)
        for names, groups in readers.items():
            columns = sorted({column for name in names for column in wanted[name].read()})
            if columns:
                rows = file.read_row_groups(groups, columns=columns, use_threads=False)
                for name in names:
                    found[name].append(_piece(rows, wanted[name]))
    # Files follow each other but for a few rows: sorted one by one, all of them are nearly sorted.
    return {name: _by_time(pa.concat_tables(pieces)) for name, pieces in found.items() if pieces}


def _kinds_of_groups(metadata: pq.FileMetaData) -> list[tuple[str, str]]:
    """The first and last kind of each row group; of one that does not say, all that there can be."""
    column = metadata.schema.names.index("kind")
    bounds = []
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(column).statistics
        known = statistics is not None and statistics.has_min_max
        bounds.append((str(statistics.min), str(statistics.max)) if known else ("", "\U0010ffff"))
    return bounds


def reach_of(paths: Sequence[str]) -> tuple[int, int] | None:
    """The first time and the last end (time and duration) of all rows of some files, on the clock of their process.

    What files say of their row groups tells which few of these need a look. None where a file does not say, where some
    row is none of a run's (no kind, a time no clock can show), and without rows. Raises OSError and pa.ArrowException.
    """
    groups: list[tuple[int, str, int]] = []
    first = last = None
    for path in paths:
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
        for number in range(metadata.num_row_groups):
            found = _times_of_group(metadata.row_group(number))
            if found is None:
                return None
            low, high, longest = found
            first = low if first is None else min(first, low)
            last = high if last is None else max(last, high)
            groups.append((high + longest, path, number))
    if first is None or last is None:
        return None
    for most, path, number in sorted(groups, reverse=True):
        if most <= last:
            break
        with pq.ParquetFile(path) as file:
            rows = file.read_row_group(number, columns=["time_ns", "duration_ns"], use_threads=False)
        ends = pc.add(rows["time_ns"], rows["duration_ns"].fill_null(0))
        last = max(last, pc.max(ends).as_py())
    return first, last


def _times_of_group(group: pq.RowGroupMetaData) -> tuple[int, int, int] | None:
    """First and last time of a row group, and its longest duration."""
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
    kind, times, durations = (columns[name].statistics for name in ("kind", "time_ns", "duration_ns"))
    if any(known is None or known.null_count != 0 for known in (kind, times)) or not times.has_min_max:
        return None
    longest = 0
    if durations is None or (durations.null_count or 0) < group.num_rows:
        if durations is None or not durations.has_min_max or durations.min < 0:
            return None
        longest = durations.max
    plausible = times.min >= -MAX_NS and times.max <= MAX_NS and longest <= MAX_NS
    return (times.min, times.max, longest) if plausible else None


def _piece(rows: pa.Table, one: Wanted) -> pa.Table:
    """The rows of a file that are wanted, by the columns that are."""
    kinds = _encoded(rows["kind"])
    keep = _among(kinds, one.kinds) & _within(rows["time_ns"])
    if one.own_thread:
        keep &= pc.equal(rows["thread"], 0).fill_null(True).to_numpy()
    rows = rows.select(one.read())
    if not keep.all():
        begin, end = int(keep.argmax()), len(keep) - int(keep[::-1].argmax())
        if keep[begin:end].all():  # rows are sorted by kind: most often it is one stretch of them
            rows = rows.slice(begin, end - begin if keep.any() else 0)
        else:
            rows = rows.filter(pa.array(keep))
    return pa.table({"time_ns": rows["time_ns"], **{name: _column(rows, name) for name in one.columns}})


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    if name == FIRST:
        return _first(rows["dims"])
    if name in DICTIONARY_COLUMNS:
        return _encoded(rows[name])
    return _plausible(rows[name]) if name == "duration_ns" else rows[name]


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _among(kinds: pa.ChunkedArray, wanted: tuple[Kind, ...]) -> Mask:
    names = set(wanted)
    parts = [np.zeros(0, np.bool_)]
    for chunk in kinds.chunks:
        # One more for rows without a kind, whose code is -1.
        table = np.array([value in names for value in chunk.dictionary.to_pylist()] + [False], np.bool_)
        parts.append(table[chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
    return np.concatenate(parts)


def _within(times: pa.ChunkedArray) -> Mask:
    """Which times a clock can show."""
    if times.null_count:
        times = times.fill_null(-(1 << 62))
    values = times.to_numpy()
    inside: Mask = (values >= -MAX_NS) & (values <= MAX_NS)
    return inside


def _plausible(durations: pa.ChunkedArray) -> pa.ChunkedArray:
    found = pc.min_max(durations).as_py()
    if found["min"] is None or (found["min"] >= 0 and found["max"] <= MAX_NS):
        return durations
    inside = pc.and_(pc.greater_equal(durations, 0), pc.less_equal(durations, MAX_NS))
    return pc.if_else(inside, durations, pa.scalar(None, pa.int64()))


def _first(dims: pa.ChunkedArray) -> pa.ChunkedArray:
    """The first number of each list; null where there is none."""
    return pa.chunked_array([_first_numbers(chunk) for chunk in dims.chunks], pa.int64())


def _first_numbers(lists: pa.ListArray) -> pa.Array:
    if lists.null_count == len(lists):
        return pa.nulls(len(lists), pa.int64())
    offsets = lists.offsets.to_numpy()
    some = offsets[1:] > offsets[:-1]
    if lists.null_count:
        some &= lists.is_valid().to_numpy(zero_copy_only=False)
    if not some.any():
        return pa.nulls(len(lists), pa.int64())
    return lists.values.take(pa.array(offsets[:-1].astype(np.int64), mask=None if some.all() else ~some))


def _by_time(rows: pa.Table) -> pa.Table:
    """Rows in order of time; those of one time stay in theirs."""
    times = rows["time_ns"].to_numpy()
    if not len(times) or (times[1:] >= times[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(times, kind="stable")))


def _merged(pieces: Sequence[pa.Table]) -> pa.Table:
    """All rows in order of time, from tables that each are; of one time in their order. Where tables do not reach into
    each other, nothing is moved."""
    found: list[pa.Table] = []
    last, times = pieces[0].slice(0, 0), np.zeros(0, np.int64)
    for piece in pieces:
        theirs = piece["time_ns"].to_numpy()
        if not len(theirs):
            continue
        if not len(times) or theirs[0] >= times[-1]:
            found.append(last)
            last, times = piece, theirs
            continue
        own = int(np.searchsorted(times, theirs[0], side="right"))
        other = int(np.searchsorted(theirs, times[-1], side="left"))
        found.append(last.slice(0, own))
        shared = pa.concat_tables([last.slice(own), piece.slice(0, other)]).unify_dictionaries()
        last = pa.concat_tables([_by_time(shared), piece.slice(other)])
        times = last["time_ns"].to_numpy()
    return pa.concat_tables([*found, last])


def _on_axis(rows: pa.Table, process: int, offset_ns: int, pool: ThreadPoolExecutor) -> pa.Table:
    """Rows of a process, in order of time, on the axis of the run; each column in one piece."""
    rows = rows.unify_dictionaries()
    columns = dict(zip(rows.column_names, pool.map(_in_one_piece, rows.itercolumns()), strict=True))
    if offset_ns:
        columns["time_ns"] = pa.array(columns["time_ns"].to_numpy() + offset_ns)
    return pa.table({"process": pa.array(np.full(rows.num_rows, process, np.int32)), **columns})


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _nothing(one: Wanted) -> pa.Table:
    empty = pa.table({name: pa.array([], EVENT_SCHEMA.field(name).type) for name in one.read()})
    with ThreadPoolExecutor(1) as pool:
        return _on_axis(_piece(empty, one), 0, 0, pool)
