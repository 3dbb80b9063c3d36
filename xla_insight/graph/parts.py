"""The instructions of a module as the bytes they were written in: milliseconds for a module of any size.

Owns the first look that needs no model: which instructions of two modules with equally many are not the same bytes.
The framework numbers the instructions of each module anew, so what two graphs have in common is written alike. Leaves
everything that has a meaning to ``hlo_proto``.
"""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from xla_insight.graph.schema import message_class

Parts = tuple[bytes, ...]


def parts_of(dump: bytes) -> Parts | None:
    """The instructions of a serialized ``HloProto``, computation by computation; None when it cannot be read."""
    try:
        module = message_class("HloPartsProto").FromString(dump).hlo_module
    except DecodeError:
        return None
    return tuple(part for computation in module.computations for part in computation.instructions)


def differing(before: Sequence[bytes], now: Sequence[bytes]) -> tuple[int, ...] | None:
    """Positions at which two modules differ; None when one has more instructions than the other."""
    if len(before) != len(now):
        return None
    return tuple(n for n, (x, y) in enumerate(zip(before, now, strict=True)) if x != y)


def same_opcodes(before: Sequence[bytes], now: Sequence[bytes], positions: Sequence[int]) -> bool:
    """Whether the instructions at these positions are of the same kind in both."""
    read = message_class("HloInstructionProto").FromString
    try:
        return all(read(before[n]).opcode == read(now[n]).opcode for n in positions)
    except DecodeError:
        return False
