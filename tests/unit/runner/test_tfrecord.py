"""TFRecord: the public format to the byte, there and back, and one clear error for every kind of damage."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_insight.errors import TrainingDataError
from xla_insight.runner.tfrecord import MAX_RECORD_BYTES, crc32c, masked_checksum, read_records, write_record

CHUNKS = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40), max_size=8)
# A tf.train.Example with the feature input_ids = [1, 300], as its public description lays it out.
EXAMPLE = bytes.fromhex("0a160a14") + b"\x0a\x09input_ids" + bytes.fromhex("1207" + "1a05" + "0a03" + "01ac02")


def written(chunks: list[list[int]]) -> bytes:
    file = io.BytesIO()
    for ids in chunks:
        write_record(file, ids)
    return file.getvalue()


def read(content: bytes) -> list[list[int]]:
    return list(read_records(io.BytesIO(content), "a.tfrecord"))


def read_until_damage(content: bytes) -> tuple[list[list[int]], str]:
    """The chunks before the first damage, and what is said of it."""
    found: list[list[int]] = []
    try:
        found.extend(read_records(io.BytesIO(content), "a.tfrecord"))
    except TrainingDataError as error:
        return found, str(error)
    return found, ""


def record(data: bytes, length: int | None = None) -> bytes:
    head = struct.pack("<Q", len(data) if length is None else length)
    marks = [struct.pack("<I", masked_checksum(part)) for part in (head, data)]
    return head + marks[0] + data + marks[1]


def test_the_checksum_is_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert masked_checksum(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_the_bytes_are_those_of_the_public_format() -> None:
    assert written([[1, 300]]) == record(EXAMPLE)


@given(CHUNKS)
def test_there_and_back(chunks: list[list[int]]) -> None:
    assert read(written(chunks)) == chunks


@given(CHUNKS.filter(bool), st.data())
def test_a_torn_file_gives_whole_records_and_one_error(chunks: list[list[int]], data: st.DataObject) -> None:
    content = written(chunks)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    found, said = read_until_damage(cut)
    assert found == chunks[: len(found)]
    if len(found) < len(chunks) and said:
        assert said.startswith(f"a.tfrecord, record {len(found) + 1}: the file ends in the middle")
    else:
        assert cut == written(found)


@given(CHUNKS.filter(bool), st.data())
def test_a_changed_bit_is_noticed(chunks: list[list[int]], data: st.DataObject) -> None:
    content = bytearray(written(chunks))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(TrainingDataError, match="checksum"):
        read(bytes(content))


@given(st.binary(max_size=200))
def test_any_bytes_give_chunks_or_one_error(content: bytes) -> None:
    _, said = read_until_damage(content)
    assert "\n" not in said


@given(st.binary(max_size=60))
def test_any_data_in_a_sound_record_gives_a_chunk_or_one_error(data: bytes) -> None:
    try:
        (ids,) = read(record(data))
        assert ids
    except TrainingDataError:
        pass


def test_a_hostile_length_is_never_read() -> None:
    class Watched(io.BytesIO):
        largest = 0

        def read(self, size: int | None = -1) -> bytes:
            self.largest = max(self.largest, size or 0)
            return super().read(size)

    for length in (MAX_RECORD_BYTES + 1, 2**64 - 1):
        file = Watched(record(b"", length))
        with pytest.raises(TrainingDataError, match="is no chunk of tokens"):
            list(read_records(file, "a.tfrecord"))
        assert file.largest <= 8


@pytest.mark.parametrize("data", [b"", bytes.fromhex("0a00"), EXAMPLE.replace(b"input_ids", b"other_ids")])
def test_an_example_without_ids_is_an_error(data: bytes) -> None:
    with pytest.raises(TrainingDataError, match="no feature 'input_ids'"):
        read(record(data))
