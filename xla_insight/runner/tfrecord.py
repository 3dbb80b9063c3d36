"""TFRecord files of token ids: a writer and a reader of the public format, without TensorFlow.

A record is its length (8 bytes), a checksum of that, the data, and a checksum of the data; a checksum is CRC-32C,
rotated and shifted by a constant ("masked"). The data is a serialized ``tf.train.Example`` whose feature ``input_ids``
is a list of whole numbers. Owns these bytes. Leaves which files there are to ``shards``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, BinaryIO

from xla_insight.errors import TrainingDataError

FEATURE = "input_ids"
MAX_RECORD_BYTES = 1 << 26
"""Larger than any chunk by far: a longer record is damage, and is not read into memory."""

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_BITS = 0xFFFFFFFF

# Numbers of descriptor.proto.
_ONE, _SEVERAL = 1, 3
_MESSAGE = 11
_SCALARS = {"int64": 3, "string": 9}


def write_record(file: BinaryIO, ids: Sequence[int]) -> None:
    """Append one chunk. Raises OSError."""
    message = _example_class()()
    message.features.feature[FEATURE].int64_list.value.extend(ids)
    data = message.SerializeToString()
    length = _LENGTH.pack(len(data))
    file.write(length + _CHECKSUM.pack(masked_checksum(length)) + data + _CHECKSUM.pack(masked_checksum(data)))


def read_records(file: BinaryIO, name: str) -> Iterator[list[int]]:
    """Every chunk of a file, one at a time; ``name`` is for errors. Raises TrainingDataError at the first damage."""
    number = 0
    while head := file.read(_LENGTH.size):
        number += 1
        data = _data_of(file, head, f"{name}, record {number}")
        yield _ids_of(data, f"{name}, record {number}")


def masked_checksum(data: bytes) -> int:
    """The checksum that stands behind the length and behind the data."""
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & _BITS


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of ``data``."""
    table, value = _table(), _BITS
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ _BITS


@cache
def _table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        return value

    return tuple(entry(byte) for byte in range(256))


def _data_of(file: BinaryIO, head: bytes, where: str) -> bytes:
    """The data of the record whose length begins with ``head``."""
    head += file.read(_LENGTH.size - len(head))
    mark = file.read(_CHECKSUM.size)
    if len(head) < _LENGTH.size or len(mark) < _CHECKSUM.size:
        raise TrainingDataError(f"{where}: the file ends in the middle of a record")
    if _CHECKSUM.unpack(mark)[0] != masked_checksum(head):
        raise TrainingDataError(f"{where}: the checksum of the length is wrong; the file is damaged, or no TFRecord")
    length = _LENGTH.unpack(head)[0]
    if length > MAX_RECORD_BYTES:
        raise TrainingDataError(f"{where}: a record of {length} bytes is no chunk of tokens")
    data, mark = file.read(length), file.read(_CHECKSUM.size)
    if len(data) < length or len(mark) < _CHECKSUM.size:
        raise TrainingDataError(f"{where}: the file ends in the middle of a record")
    if _CHECKSUM.unpack(mark)[0] != masked_checksum(data):
        raise TrainingDataError(f"{where}: the checksum of the data is wrong; the file is damaged")
    return data


def _ids_of(data: bytes, where: str) -> list[int]:
    from google.protobuf.message import DecodeError

    try:
        features = _example_class().FromString(data).features.feature
    except DecodeError as error:
        raise TrainingDataError(f"{where}: holds no tf.train.Example: {error}") from error
    if FEATURE not in features or not features[FEATURE].int64_list.value:
        raise TrainingDataError(f"{where}: has no feature {FEATURE!r} of whole numbers")
    return list(features[FEATURE].int64_list.value)


@cache
def _example_class() -> Any:
    """``tf.train.Example`` as far as it is used here: the message class, from a description of its fields."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    package = "xla_insight.tfrecord"
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")

    def add_field(message: Any, name: str, number: int, kind: str, *, several: bool = False) -> None:
        field = message.field.add(name=name, number=number, label=_SEVERAL if several else _ONE)
        field.type = _SCALARS.get(kind, _MESSAGE)
        if kind not in _SCALARS:
            field.type_name = f".{package}.{kind}"

    add_field(file.message_type.add(name="Int64List"), "value", 1, "int64", several=True)
    add_field(file.message_type.add(name="Feature"), "int64_list", 3, "Int64List")
    features = file.message_type.add(name="Features")
    add_field(features, "feature", 1, "Features.FeatureEntry", several=True)
    entry = features.nested_type.add(name="FeatureEntry")
    add_field(entry, "key", 1, "string")
    add_field(entry, "value", 2, "Feature")
    entry.options.map_entry = True
    add_field(file.message_type.add(name="Example"), "features", 1, "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Example"))
