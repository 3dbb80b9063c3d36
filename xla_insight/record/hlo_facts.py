"""The few facts of a serialized HLO module that recording needs: how many inputs and outputs, and which source lines.

Reads the wire format of protocol buffers by hand, because a training process may have loaded any version of the
protobuf library, or none. Owns the field numbers of ``HloProto`` and its parts used here (they are public and never
change meaning); the reading side parses the whole module in ``graph``. Tolerates any bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_MODULE = 1
_PROGRAM_SHAPE, _STACKS = 4, 17
_PARAMETERS, _RESULT = 1, 2
_TUPLE_SHAPES = 4
_FILE_NAMES, _LOCATIONS = 1, 3
_LOCATION_FILE, _LOCATION_LINE = 1, 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class HloFacts(NamedTuple):
    """``inputs`` and ``outputs`` are counts, -1 when unknown; ``lines`` the distinct (file, line) of all its stacks."""

    inputs: int
    outputs: int
    lines: tuple[tuple[str, int], ...]


def read_hlo_facts(dump: bytes) -> HloFacts:
    """Facts of a dumped module (a serialized ``HloProto``). Never raises: a damaged one has no counts and no lines."""
    try:
        modules = [v for f, v in fields(memoryview(dump)) if f == _MODULE and isinstance(v, memoryview)]
        return _module_facts(modules[0])
    except (ValueError, IndexError):
        return HloFacts(-1, -1, ())


def _module_facts(module: memoryview) -> HloFacts:
    inputs = outputs = -1
    lines: tuple[tuple[str, int], ...] = ()
    for field, value in fields(module):
        if field == _PROGRAM_SHAPE and isinstance(value, memoryview):
            inputs, outputs = _counts(value)
        elif field == _STACKS and isinstance(value, memoryview):
            lines = _lines(value)
    return HloFacts(inputs, outputs, lines)


def _counts(program: memoryview) -> tuple[int, int]:
    parameters: list[memoryview] = []
    outputs = -1
    for field, value in fields(program):
        if field == _PARAMETERS and isinstance(value, memoryview):
            parameters.append(value)
        elif field == _RESULT and isinstance(value, memoryview):
            outputs = _parts(value)
    # Very many inputs are handed over as one tuple.
    inputs = _parts(parameters[0]) if len(parameters) == 1 else len(parameters)
    return inputs, outputs


def _parts(shape: memoryview) -> int:
    return sum(field == _TUPLE_SHAPES for field, _ in fields(shape)) or 1


def _lines(stacks: memoryview) -> tuple[tuple[str, int], ...]:
    files: list[str] = []
    found: dict[tuple[int, int], None] = {}
    for field, value in fields(stacks):
        if not isinstance(value, memoryview):
            continue
        if field == _FILE_NAMES:
            files.append(bytes(value).decode("utf-8", "replace"))
        elif field == _LOCATIONS:
            numbers = {f: v for f, v in fields(value) if isinstance(v, int)}
            found[numbers.get(_LOCATION_FILE, 0), numbers.get(_LOCATION_LINE, 0)] = None
    return tuple((files[file - 1], line) for file, line in found if 0 < file <= len(files) and line > 0)


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(field number, value) of a message. Raises ValueError or IndexError where it is no message."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            number, position = _varint(message, position)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            length, position = _varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("unknown wire type")
        if position + length > len(message):
            raise ValueError("torn message")
        yield key >> 3, message[position : position + length]
        position += length


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
