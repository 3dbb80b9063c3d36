"""What the devices of a program exchange: its collectives, their bytes and the groups of devices.

Owns which instructions are collectives and what counts as one: a pair of start and done is one, an instruction in a
computation counts once for each place that calls it, and in a loop once for each turn that the program says it takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from xla_insight.facts.wire import fields
from xla_insight.graph.model import Computation, Frame, Graph, Instruction, Shape
from xla_insight.graph.roots import site_of

KINDS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
MAX_COUNT = 1 << 62
"""Calls within calls multiply; a count beyond this is no program's."""
_BITS = re.compile(r"[a-z]+([0-9]+)")
_TRIPS = re.compile(r"known_trip_count[\\\"':{ ]+n[\\\"': ]+(\d+)")
_GROUP = re.compile(r"\{([\d, ]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_CONTINUES = ("async-update", "async-done")
_SOURCE_TARGET = 52
_MAX_DEVICES = 1 << 16


@dataclass(frozen=True, slots=True)
class Collective:
    """Collectives of one kind, size and grouping in a program, as each device runs them.

    ``count`` is how often they run in one execution of the graph, as far as the program says; ``looped`` that some
    stand in a loop whose number of turns it does not say, so that they run more often. ``payload_bytes`` is the larger
    of what one of them takes in and gives out, on one device. ``groups`` are the devices that exchange with each
    other; empty: all of them, or not said. ``site`` is the innermost line outside the framework: of two layers of a
    model with the same collectives each has its own.
    """

    kind: str
    payload_bytes: int
    shape: str
    groups: tuple[tuple[int, ...], ...]
    count: int
    looped: bool
    site: Frame | None = None


def collectives(graph: Graph) -> tuple[Collective, ...]:
    """All collectives of a program, most bytes first."""
    times, looped = _times(graph)
    found: dict[tuple[str, int, str, tuple[tuple[int, ...], ...], bool, Frame | None], int] = {}
    for place, computation in enumerate(graph.computations):
        if not times[place]:
            continue
        for instruction in computation.instructions:
            kind = kind_of(instruction.opcode)
            if kind is None:
                continue
            shape = _payload(kind, instruction, computation)
            site = site_of(instruction.metadata.stack)
            key = (kind, _bytes(shape), str(shape), _groups(instruction), looped[place], site)
            found[key] = min(MAX_COUNT, found.get(key, 0) + times[place])
    merged = [Collective(*key[:4], count, key[4], key[5]) for key, count in found.items()]
    return tuple(sorted(merged, key=lambda one: (-one.payload_bytes * one.count, one.kind, one.shape, one.groups)))


def kind_of(opcode: str) -> str | None:
    """The kind of collective that an opcode begins; None for any other, and for the end of one."""
    name = opcode.removesuffix("-start")
    return name if name in KINDS else None


def _times(graph: Graph) -> tuple[list[int], list[bool]]:
    """How often each computation runs, and whether that is a lower bound. Callers stand behind callees."""
    times = [0] * len(graph.computations)
    looped = [False] * len(graph.computations)
    times[-1] = 1
    for place in range(len(graph.computations) - 1, -1, -1):
        if not times[place]:
            continue
        for instruction in graph.computations[place].instructions:
            if instruction.opcode in _CONTINUES or not instruction.called:
                continue
            turns = _turns(instruction)
            for called in instruction.called:
                times[called] = min(MAX_COUNT, times[called] + times[place] * (turns or 1))
                looped[called] |= looped[place] or turns is None
    return times, looped


def _turns(instruction: Instruction) -> int | None:
    """How often a call runs what it calls; None for a loop that does not say."""
    if instruction.opcode != "while":
        return 1
    found = _TRIPS.search(" ".join(value for _, value in instruction.attributes.readable))
    found = found or _TRIPS.search(instruction.attributes.opaque.decode("latin-1"))
    return int(found[1]) if found else None


def _payload(kind: str, instruction: Instruction, computation: Computation) -> Shape:
    """The larger of all that goes in and all that comes out."""
    operands = [computation.instructions[operand].shape for operand in instruction.operands]
    taken = operands[0] if len(operands) == 1 else Shape("tuple", (), tuple(operands))
    given = instruction.shape
    if instruction.opcode.endswith("-start") and kind != "all-reduce" and given.is_tuple and len(given.parts) > 1:
        given = given.parts[1]  # the operands come first, then the result, then what only the compiler knows
    return taken if _bytes(taken) >= _bytes(given) else given


def _bytes(shape: Shape) -> int:
    if shape.is_tuple:
        return sum(_bytes(part) for part in shape.parts)
    return math.prod(shape.dims) * element_bytes(shape.dtype)


def element_bytes(dtype: str) -> int:
    """Bytes of an element as devices exchange it; 0 for what holds no data."""
    bits = _BITS.match(dtype)
    if dtype == "pred":
        return 1
    return max(1, int(bits[1]) // 8) if bits else 0


def _groups(instruction: Instruction) -> tuple[tuple[int, ...], ...]:
    attributes = instruction.attributes
    text = attributes.get("replica_groups") or attributes.get("source_target_pairs")
    return device_groups(text) if text else _pairs(attributes.opaque)


def _pairs(opaque: bytes) -> tuple[tuple[int, ...], ...]:
    """Pairs of source and target, which a proto holds in a field that has no readable form here."""
    try:
        messages = [v for f, v in fields(memoryview(opaque)) if f == _SOURCE_TARGET and isinstance(v, memoryview)]
        parts = [dict(fields(message)) for message in messages]
    except (ValueError, IndexError):
        return ()
    numbers = [(part.get(1, 0), part.get(2, 0)) for part in parts]
    return tuple((x, y) for x, y in numbers if isinstance(x, int) and isinstance(y, int))


def device_groups(text: str) -> tuple[tuple[int, ...], ...]:
    """Groups of devices as HLO text writes them: ``{{0,1},{2,3}}`` or ``[2,2]<=[4]``. Empty for anything else."""
    iota = _IOTA.match(text)
    if iota:
        return _iota_groups(*(_numbers(part or "") for part in iota.groups()))
    return tuple(numbers for part in _GROUP.findall(text.removeprefix("{")) if (numbers := _numbers(part)))


def _iota_groups(sizes: Sequence[int], reshape: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    ids = iota_order(reshape, order)
    if len(sizes) != 2 or math.prod(sizes) != len(ids):
        return ()
    return tuple(ids[row * sizes[1] : (row + 1) * sizes[1]] for row in range(sizes[0]))


def iota_order(sizes: Sequence[int], order: Sequence[int] = ()) -> tuple[int, ...]:
    """The numbers 0, 1, ... in an array of these sizes, read in row-major order after its axes were put in ``order``
    (none given: as they are). Empty for what no program holds."""
    order = order or range(len(sizes))
    if sorted(order) != list(range(len(sizes))) or not 0 < math.prod(sizes) <= _MAX_DEVICES:
        return ()
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    found = [0]
    for axis in order:
        found = [number + index * strides[axis] for number in found for index in range(sizes[axis])]
    return tuple(found)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.replace(" ", "").split(",") if word)
