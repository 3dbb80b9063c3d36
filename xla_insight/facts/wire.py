"""The wire format of protocol buffers by hand: the fields of one message, without a schema.

For a training process, which may have loaded any version of the protobuf library or none, and for reading a small part
of a large message. Owns the encoding only; field numbers belong to those who know the message.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(field number, value) of a message. Raises ValueError or IndexError where it is no message."""
    return ((number, value) for number, value, _ in parts(message))


def parts(message: memoryview) -> Iterator[tuple[int, int | memoryview, memoryview]]:
    """(field number, value, all bytes of the field) of a message; joined, the bytes are the message again. Raises
    ValueError or IndexError where it is no message.
    """
    position = 0
    while position < len(message):
        begin = position
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            number, position = _varint(message, position)
            yield key >> 3, number, message[begin:position]
            continue
        if kind == _BYTES:
            length, position = _varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("unknown wire type")
        if position + length > len(message):
            raise ValueError("torn message")
        yield key >> 3, message[position : position + length], message[begin : position + length]
        position += length


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that holds text, bytes or a message."""
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(value)) + value


def number_field(number: int, value: int) -> bytes:
    """A field that holds a whole number, 0 or more."""
    return _as_varint(number << 3 | _VARINT) + _as_varint(value)


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > 63:
            raise ValueError("overlong number")
