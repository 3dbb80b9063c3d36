"""An instruction as text, like HLO but without names: operands are numbers of rows, so that what is equal reads equal.

Owns the notation and which parts of it differ between two instructions. Leaves the order of rows to ``aligned``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_insight.graph.model import Computation, Graph, Instruction

MAX_OPERANDS = 8
MAX_TYPE, MAX_VALUE = 72, 120
_SHORT_CALLED = 4
_FEW_EXTRAS, _SHORT_EXTRA = 2, 36


class Part(NamedTuple):
    """A piece of the text of an instruction; ``differs``: the other version says something else here."""

    text: str
    differs: bool = False


class Told(NamedTuple):
    """The pieces an instruction is told with: type, opcode, operands, and whatever else belongs to it by name."""

    shape: str
    opcode: str
    operands: str
    extras: tuple[tuple[str, str], ...]


def tell(graph: Graph, instruction: Instruction, operands: Sequence[int]) -> Told:
    """The pieces of one instruction of a graph; ``operands`` are the rows of its operands."""
    extras = [(name, f"{name}={shortened(value, MAX_VALUE)}") for name, value in instruction.attributes.readable]
    if instruction.attributes.opaque:
        extras.append(("opaque", f"({len(instruction.attributes.opaque)} bytes of unreadable attributes)"))
    if instruction.called:
        names = ", ".join(called_word(graph.computations[number]) for number in instruction.called[:MAX_OPERANDS])
        extras.append(("calls", f"calls={names}"))
    if instruction.sharding:
        extras.append(("sharding", f"sharding={shortened(instruction.sharding, MAX_VALUE)}"))
    return Told(shortened(str(instruction.shape), MAX_TYPE), instruction.opcode, _inside(instruction, operands),
                tuple(extras))  # fmt: skip


def parts(told: Told, other: Told | None, *, everything: bool = False) -> tuple[Part, ...]:
    """The text of an instruction beside its partner's; attributes that both have are left out unless ``everything``.

    Without a partner the first few attributes are told, or ``everything``.
    """
    if other is None:
        few = told.extras if everything else told.extras[:_FEW_EXTRAS]
        rest = [Part(f", {text if everything else shortened(text, _SHORT_EXTRA)}") for _, text in few]
        rest += [Part(", …")] if len(few) < len(told.extras) else []
        return (Part(told.shape), Part(" "), Part(told.opcode), Part(f"({told.operands})"), *rest)
    shared = set(told.extras) & set(other.extras)
    kept = [extra for extra in told.extras if everything or extra not in shared]
    rest = [part for extra in kept for part in (Part(", "), Part(extra[1], extra not in shared))]
    return (
        Part(told.shape, told.shape != other.shape),
        Part(" "),
        Part(told.opcode, told.opcode != other.opcode),
        Part(f"({told.operands})", told.operands != other.operands),
        *rest,
    )


def plain(pieces: Sequence[Part]) -> str:
    """The text of an instruction in one piece."""
    return "".join(piece.text for piece in pieces)


def operation_word(instruction: Instruction) -> str:
    """The framework's operation as its users write it: ``aten::slice``."""
    return instruction.metadata.op_type.replace("__", "::", 1)


def called_word(computation: Computation) -> str:
    """A called computation in one word: what it does when it is short, else how long it is."""
    instructions = computation.instructions
    if len(instructions) <= _SHORT_CALLED:
        return instructions[computation.root].opcode
    return f"{{{len(instructions)} instructions}}"


def shortened(text: str, limit: int) -> str:
    """A text cut in the middle."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def _inside(instruction: Instruction, operands: Sequence[int]) -> str:
    """What stands between the parentheses."""
    if instruction.opcode == "parameter":
        return str(instruction.number)
    if instruction.literal is not None:
        return shortened(instruction.literal.text, MAX_VALUE)
    shown = ", ".join(f"%{row}" for row in operands[:MAX_OPERANDS])
    more = len(operands) - MAX_OPERANDS
    return f"{shown}, … {more} more" if more > 0 else shown
