"""Shards: nothing lost from text to batch, every format there and back, memory bounded, damage in one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from xla_insight.errors import TrainingDataError
from xla_insight.runner import shards
from xla_insight.runner.tokens import chunks

END = 2
FORMATS: tuple[shards.Format, ...] = ("tfrecord", "parquet", "arrow")
DOCUMENTS = st.lists(st.lists(st.integers(5, 3999), max_size=30), max_size=20)


def numbered(count: int, size: int = 4) -> list[list[int]]:
    return [[number * size + place for place in range(size)] for number in range(count)]


@given(DOCUMENTS, st.integers(1, 50))
def test_no_token_is_lost_and_none_is_padding(documents: list[list[int]], size: int) -> None:
    row = [token for document in documents for token in (*document, END)]
    found = list(chunks(iter(documents), size, END))
    assert [len(chunk) for chunk in found] == [size] * -(-len(row) // size)
    joined = [token for chunk in found for token in chunk]
    assert joined[: len(row)] == row
    added = joined[len(row) :]
    assert added == (row * (size + 1))[: len(added)]


def test_chunks_come_while_the_text_is_read() -> None:
    read = 0

    def documents() -> object:
        nonlocal read
        for read in range(1, 1001):  # noqa: B007 - counts what was taken
            yield [7, 7, 7]

    next(chunks(documents(), 8, END))  # type: ignore[arg-type]
    assert read == 2


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_there_and_back(form: shards.Format, tmp_path: Path) -> None:
    index = shards.write_shards(str(tmp_path), numbered(23), form, 4, 10)
    assert shards.read_index(str(tmp_path)) == index
    assert index.files == {f"chunks-0000{number}.{form}": count for number, count in ((0, 10), (1, 10), (2, 3))}
    assert index.chunks == 23
    in_order = [ids for name in index.files for ids in shards.read_shard(str(tmp_path), name, index)]
    assert in_order == numbered(23)


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 30), st.integers(0, 5))
def test_shuffling_gives_each_chunk_once(count: int, each: int, buffer: int, seed: int) -> None:
    place = "memory://shuffled"
    index = shards.write_shards(place, numbered(count), "arrow", 4, each)
    found = list(shards.shuffled(place, index, seed, buffer))
    assert sorted(found) == numbered(count)
    assert found == list(shards.shuffled(place, index, seed, buffer))


def test_shuffling_holds_no_more_than_the_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = shards.write_shards(str(tmp_path), numbered(500), "tfrecord", 4, 50)
    read = 0

    def counted(*arguments: object) -> object:
        nonlocal read
        for ids in original(*arguments):  # type: ignore[arg-type]
            read += 1
            yield ids

    original = shards.read_shard
    monkeypatch.setattr(shards, "read_shard", counted)
    orders = []
    for given_out, ids in enumerate(shards.shuffled(str(tmp_path), index, 1, 60), start=1):
        assert read - given_out <= 60
        orders.append(ids)
    assert orders != numbered(500)
    assert orders != list(shards.shuffled(str(tmp_path), index, 2, 60))


def test_a_url_is_a_place(tmp_path: Path) -> None:
    index = shards.write_shards("memory://bucket/text", numbered(5), "parquet", 4, 2)
    assert sorted(
        shards.shuffled("memory://bucket/text/", shards.read_index("memory://bucket/text"), 1, 3)
    ) == numbered(5)
    assert len(index.files) == 3
    assert not list(tmp_path.iterdir())
    with pytest.raises(TrainingDataError, match="nosuch"):
        shards.read_index("nosuch://bucket/text")


@pytest.mark.parametrize("form", FORMATS)
def test_a_torn_shard_is_one_error(form: shards.Format, tmp_path: Path) -> None:
    index = shards.write_shards(str(tmp_path), numbered(40), form, 4, 40)
    (name,) = index.files
    whole = (tmp_path / name).read_bytes()
    for content in (whole[: len(whole) * 2 // 3], b"", whole[:3], b"not a shard at all" * 9):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TrainingDataError) as caught:
            list(shards.shuffled(str(tmp_path), index, 1, 10))
        assert name in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / name).unlink()
    with pytest.raises(TrainingDataError, match=name):
        list(shards.shuffled(str(tmp_path), index, 1, 10))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2]),
        pa.array(["a", "b"]),
        pa.array([[1, 2, 3, 4], None]),
        pa.array([[1.5] * 4] * 2),
        pa.array([[1], [2]]),
    ],
)
def test_another_table_is_one_error(column: pa.Array, tmp_path: Path) -> None:
    index = shards.write_shards(str(tmp_path), numbered(2), "parquet", 4, 2)
    (name,) = index.files
    for title in ("input_ids", "other"):
        parquet.write_table(pa.table({title: column}), tmp_path / name)
        with pytest.raises(TrainingDataError, match=name):
            list(shards.read_shard(str(tmp_path), name, index))


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": "csv", "size": 4, "files": {"a": 1}}', '{"format": "arrow", "size": 4, "files": []}',
     '{"format": "arrow", "size": 4, "files": {}}', '{"format": "arrow", "size": "x", "files": {"a": 1}}'],
)  # fmt: skip
def test_a_damaged_index_is_one_error(content: str, tmp_path: Path) -> None:
    (tmp_path / shards.INDEX).write_text(content)
    with pytest.raises(TrainingDataError, match=r"shards\.json"):
        shards.read_index(str(tmp_path))


def test_an_index_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / shards.INDEX).write_text(json.dumps({"format": "arrow", "size": 4, "files": {"../secret.arrow": 1}}))
    with pytest.raises(TrainingDataError, match="describes no shards"):
        shards.read_index(str(tmp_path))


def test_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    index = shards.write_shards(str(tmp_path), numbered(4), "arrow", 4, 2)
    (gone, *_) = index.files
    (tmp_path / gone).unlink()
    with pytest.raises(TrainingDataError, match=rf"there is no file .*{gone}$"):
        list(shards.read_shard(str(tmp_path), gone, index))


def test_nothing_to_write_or_to_read_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError, match="no text"):
        shards.write_shards(str(tmp_path), [], "arrow", 4, 2)
    with pytest.raises(TrainingDataError, match="no shards at"):
        shards.read_index(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingDataError):
        shards.write_shards(str(tmp_path / "file" / "below"), numbered(2), "arrow", 4, 2)
