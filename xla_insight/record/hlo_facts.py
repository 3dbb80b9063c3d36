"""The few facts of a serialized HLO module that recording needs: how many inputs and outputs, which source lines, and
whether it runs on several devices.

Owns the field numbers of ``HloProto`` and its parts used here (they are public and never change meaning); the reading
side parses the whole module in ``graph``. Tolerates any bytes: what cannot be read is unknown.
"""

from __future__ import annotations

from typing import NamedTuple

from xla_insight.facts.wire import fields

_MODULE = 1
_PROGRAM_SHAPE, _PARAMETER_SHARDINGS, _STACKS = 4, 14, 17
_PARAMETERS, _RESULT = 1, 2
_TUPLE_SHAPES = 4
_FILE_NAMES, _LOCATIONS = 1, 3
_LOCATION_FILE, _LOCATION_LINE = 1, 3
_EXCHANGES = (b"all-reduce", b"all-gather", b"all-to-all", b"reduce-scatter", b"collective-")
"""Begins of the opcodes by which devices exchange values; a module holds its opcodes as plain text."""


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


def spans_devices(dump: bytes) -> bool:
    """Whether a dumped module is for several devices: it was partitioned, or they exchange values. Never raises."""
    if any(word in dump for word in _EXCHANGES):
        return True
    try:
        modules = [v for f, v in fields(memoryview(dump)) if f == _MODULE and isinstance(v, memoryview)]
        return any(field == _PARAMETER_SHARDINGS for field, _ in fields(modules[0]))
    except (ValueError, IndexError):
        return False


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
