"""Chunks of tokens in files of bounded size (shards), and streamed back in random order with bounded memory.

Formats: ``tfrecord`` (see ``tfrecord``), ``parquet`` and ``arrow`` (IPC stream), each with one column ``input_ids``.
The place is a folder or any URL that fsspec knows. Owns the names of the files and their index, ``shards.json``, which
is written last: a place without it is not complete. Leaves tokens to ``tokens``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, BinaryIO, Literal

from xla_insight.errors import InsightError, TrainingDataError
from xla_insight.runner import tfrecord

Format = Literal["tfrecord", "parquet", "arrow"]
INDEX = "shards.json"
COLUMN = tfrecord.FEATURE
_ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Index:
    """What ``shards.json`` says: the format, the size of each chunk in tokens, and the chunks in each file."""

    format: Format
    size: int
    files: dict[str, int]

    @property
    def chunks(self) -> int:
        """Chunks of all files."""
        return sum(self.files.values())


def write_shards(place: str, chunks: Iterable[Sequence[int]], form: Format, size: int, each: int) -> Index:
    """Write ``chunks`` of ``size`` tokens to files of at most ``each`` chunks. Raises TrainingDataError.

    What is at ``place`` already is not looked at; files of the same names are replaced.
    """
    remaining = iter(chunks)
    files: dict[str, int] = {}
    with _place(place) as (filesystem, root):
        filesystem.makedirs(root, exist_ok=True)
        while first := list(islice(remaining, 1)):
            name = f"chunks-{len(files):05d}.{form}"
            with filesystem.open(f"{root}/{name}", "wb") as file:
                files[name] = _write(file, first + list(islice(remaining, each - 1)), form)
        if not files:
            raise TrainingDataError(f"no shards for {place}: there is no text")
        index = Index(form, size, files)
        with filesystem.open(f"{root}/{INDEX}", "wb") as file:
            file.write(json.dumps(asdict(index), indent=1).encode())
    return index


def read_index(place: str) -> Index:
    """The index of the shards at ``place``. Raises TrainingDataError."""
    with _place(place) as (filesystem, root):
        try:
            found = json.loads(filesystem.cat_file(f"{root}/{INDEX}"))
            index = Index(found["format"], int(found["size"]), {str(key): int(n) for key, n in found["files"].items()})
        except FileNotFoundError as error:
            raise TrainingDataError(f"no shards at {place}: there is no {INDEX}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TrainingDataError(f"the index of the shards, {place}/{INDEX}, cannot be read: {error}") from error
    plain_names = all(name and "/" not in name and "\\" not in name for name in index.files)
    if index.format not in ("tfrecord", "parquet", "arrow") or index.size < 1 or index.chunks < 1 or not plain_names:
        raise TrainingDataError(f"the index of the shards, {place}/{INDEX}, describes no shards")
    return index


def read_shard(place: str, name: str, index: Index) -> Iterator[list[int]]:
    """The chunks of one file in order, some hundred in memory at once. Raises TrainingDataError for damage."""
    where, count = f"{place.rstrip('/')}/{name}", 0
    with _place(place) as (filesystem, root), filesystem.open(f"{root}/{name}", "rb") as file:
        for ids in _read(file, where, index.format):
            if len(ids) != index.size:
                raise TrainingDataError(f"{where}: chunk {count + 1} has {len(ids)} tokens, not {index.size}")
            count += 1
            yield ids
    if count != index.files[name]:
        raise TrainingDataError(f"{where} holds {count} chunks where its index says {index.files[name]}: it is torn")


def shuffled(place: str, index: Index, seed: int, buffer: int) -> Iterator[list[int]]:
    """Every chunk once, in random order: files in random order, and each next one of ``buffer`` at random.

    At most ``buffer`` chunks, and some hundred of the open file, are in memory.
    """
    chance = random.Random(seed)
    names = sorted(index.files)
    chance.shuffle(names)
    held: list[list[int]] = []
    for name in names:
        for ids in read_shard(place, name, index):
            if len(held) < buffer:
                held.append(ids)
                continue
            drawn = chance.randrange(buffer)
            yield held[drawn]
            held[drawn] = ids
    chance.shuffle(held)
    yield from held


def _write(file: BinaryIO, chunks: list[Sequence[int]], form: Format) -> int:
    if form == "tfrecord":
        for ids in chunks:
            tfrecord.write_record(file, ids)
        return len(chunks)
    import pyarrow as pa

    table = pa.table({COLUMN: pa.array([list(ids) for ids in chunks], pa.list_(pa.int32()))})
    if form == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, file, compression="zstd")
    else:
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, _ROWS_AT_ONCE)
    return len(chunks)


def _read(file: BinaryIO, where: str, form: Format) -> Iterator[list[int]]:
    if form == "tfrecord":
        yield from tfrecord.read_records(file, where)
        return
    import pyarrow as pa

    try:
        for batch in _batches(file, form):
            column = batch.column(COLUMN)
            if not (pa.types.is_list(column.type) and pa.types.is_integer(column.type.value_type)) or column.null_count:
                raise TypeError(f"its column {COLUMN} holds {column.type}, not lists of whole numbers")
            yield from column.to_pylist()
    except (pa.ArrowException, KeyError, OSError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise TrainingDataError(f"{where} cannot be read: {reason}") from error


def _batches(file: BinaryIO, form: Format) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    if form == "parquet":
        yield from parquet.ParquetFile(file).iter_batches(_ROWS_AT_ONCE, columns=[COLUMN])
    else:
        with pa.ipc.open_stream(file) as reader:
            yield from reader


@contextmanager
def _place(place: str) -> Iterator[tuple[Any, str]]:
    """The file system of a folder or URL, and the path in it. Its failures become TrainingDataError."""
    import fsspec

    try:
        filesystem, root = fsspec.core.url_to_fs(place)
        yield filesystem, root.rstrip("/")
    except InsightError:
        raise
    except FileNotFoundError as error:
        raise TrainingDataError(f"shards at {place}: there is no file {error.filename or error}") from error
    except (ImportError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise TrainingDataError(f"shards at {place}: {reason}") from error
