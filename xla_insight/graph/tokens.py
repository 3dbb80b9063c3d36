"""What one instruction is, as an integer: exact, or with shapes, constants, scalars or attributes left out.

Owns which facts of an instruction belong to its identity. Names, numbers and running suffixes never do; the stack does
only where it is asked for. Integers are stable: equal instructions of two graphs, two processes or two runs get equal
ones.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from xla_insight.graph.model import Attributes, Frame, Instruction, Literal, Metadata, Shape

_SHAPE_ATTRIBUTES = frozenset({"slice", "dynamic_slice_sizes", "slice_sizes", "padding", "window", "fft_length", "k"})
_SPECIAL_VALUES = (0, 1, -1)
SIDE_EFFECTS = frozenset({"outfeed", "infeed", "send", "send-done", "recv", "recv-done"})


class Erase:
    """What a token or a hash leaves out: a sum of bits (plain integers, because they are tested a million times).

    SHAPES: sizes of dimensions, and attributes that hold sizes (element type and rank stay). CONSTANTS: values of
    constants. ATTRIBUTES: all attributes. SCALARS: whether a scalar is a parameter or a constant 0, 1 or -1 (torch_xla
    turns a scalar input of such a value into a constant): both become one token.
    """

    NOTHING = 0
    SHAPES = 1
    CONSTANTS = 2
    ATTRIBUTES = 4
    SCALARS = 8
    STRUCTURE = SHAPES | CONSTANTS | ATTRIBUTES


class Kind(NamedTuple):
    """Everything of an instruction that belongs to its identity; ``called`` are classes of equal computations."""

    opcode: str
    shape: Shape
    attributes: Attributes
    literal: Literal | None
    called: tuple[int, ...]
    number: int


def stable(*parts: object) -> int:
    """A 63-bit integer that identifies these plain values (by their ``repr``) in every process."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1


SCALAR_TOKEN = stable("any scalar input")


def is_special_scalar(literal: Literal | None, shape: Shape) -> bool:
    """Whether a constant is a scalar 0, 1 or -1, as torch_xla makes of inputs with these values."""
    return (
        literal is not None and shape.is_scalar and literal.values is not None and literal.values[:1] != ()
        and literal.values[0] in _SPECIAL_VALUES
    )  # fmt: skip


def kind_token(kind: Kind, erase: int, called: tuple[int, ...]) -> int:
    """Token of one kind of instruction. ``called`` are hashes of the computations it calls, erased alike."""
    shape = kind.shape
    if (
        erase & Erase.SCALARS
        and shape.is_scalar
        and (kind.opcode == "parameter" or is_special_scalar(kind.literal, shape))
    ):
        return SCALAR_TOKEN
    digest = b"" if kind.literal is None or erase & Erase.CONSTANTS else kind.literal.digest
    parts = (_word(kind.opcode), shape_token(shape, erase), _attributes_token(kind.attributes, erase))
    return hash((*parts, int.from_bytes(digest, "little"), called, kind.number))


@lru_cache(maxsize=65536)
def shape_token(shape: Shape, erase: int) -> int:
    """Token of a type: exact, or element type and rank only."""
    parts = tuple(shape_token(part, erase) for part in shape.parts)
    if erase & Erase.SHAPES:
        return stable(shape.dtype, len(shape.dims), parts)
    return stable(shape.dtype, shape.dims, parts, shape.layout, shape.dynamic)


@lru_cache(maxsize=16384)
def _attributes_token(attributes: Attributes, erase: int) -> int:
    if erase & Erase.ATTRIBUTES:
        return 0
    if erase & Erase.SHAPES:
        kept = tuple(pair for pair in attributes.readable if pair[0] not in _SHAPE_ATTRIBUTES)
        return stable(kept, attributes.opaque)
    return stable(attributes.readable, attributes.opaque)


@lru_cache(maxsize=65536)
def stack_token(stack: tuple[Frame, ...]) -> int:
    """Token of a stack without frames of torch_xla itself (its wrappers come and go); 0 when nothing is left."""
    frames = tuple(frame for frame in stack if "/torch_xla/" not in frame.file)
    return stable(*frames) if frames else 0


def origin_token(metadata: Metadata) -> int:
    """Token of where an instruction comes from: framework operation and stack."""
    return stable(metadata.op_type, stack_token(metadata.stack))


def place_token(metadata: Metadata) -> int:
    """Token of framework operation and innermost line: the same step called from another line has the same."""
    frame = next((frame for frame in metadata.stack if "/torch_xla/" not in frame.file), None)
    return stable(metadata.op_type, frame)


@lru_cache(maxsize=65536)
def local_token(opcode: str, dtype: str, origin: int) -> int:
    """Token for alignment: opcode, element type and origin; shapes, literals and operands left out."""
    return stable(opcode, dtype, origin)


def exact_token(instruction: Instruction) -> int:
    """Token of everything but operands, called computations and origin."""
    digest = instruction.literal.digest if instruction.literal else b""
    parts = (_word(instruction.opcode), shape_token(instruction.shape, Erase.NOTHING), int.from_bytes(digest, "little"))
    return hash((*parts, _attributes_token(instruction.attributes, Erase.NOTHING)))


@lru_cache(maxsize=4096)
def _word(text: str) -> int:
    return stable(text)


def has_side_effect(kind: Kind) -> bool:
    """Whether an instruction matters although nothing uses its value."""
    return kind.opcode in SIDE_EFFECTS or kind.attributes.get("custom_call_has_side_effect") == "true"
