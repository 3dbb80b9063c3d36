"""How long the custom calls of each graph took, in the device windows of a run.

Owns finding a call among the operations of a program again: by target and shapes, or, where the compiler put
instructions of its own in its place, by the framework's name that they keep. Leaves which calls a graph has to
``custom_calls``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from xla_insight.analysis.tables import RunTables
from xla_insight.analysis.windows.operations import operation_table
from xla_insight.analysis.windows.sessions import device_sessions
from xla_insight.errors import GraphFormatError
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.model import Computation, Instruction

CallKey = tuple[str, tuple[str, ...], str]
"""Target, shapes of the operands, shape of the result."""


@dataclass(slots=True)
class GraphTimes:
    """Device time of one graph in all windows, ns: of everything, of its custom calls, and by the framework's names.

    ``kept`` are the custom calls that the compiled program still has.
    """

    total_ns: int = 0
    calls_ns: Counter[CallKey] = field(default_factory=Counter)
    named_ns: Counter[str] = field(default_factory=Counter)
    kept: set[CallKey] = field(default_factory=set)


def call_key(computation: Computation, call: Instruction) -> CallKey:
    """What tells custom calls apart."""
    target = (call.attributes.get("custom_call_target") or "").strip('"')
    operands = tuple(str(computation.instructions[position].shape) for position in call.operands)
    return target, operands, str(call.shape)


def framework_name(instruction: Instruction) -> str:
    """The framework's word for what an instruction does; empty when it has none."""
    return instruction.metadata.op_type or instruction.metadata.op_name


def call_times(tables: RunTables) -> dict[str, GraphTimes]:
    """The graphs that ran in windows."""
    found: dict[str, GraphTimes] = {}
    for process in tables.processes:
        contents: dict[int, bytes] = {}
        for session in device_sessions(tables, process.index):
            contents.update(session.programs)
        programs = {number: _program(content) for number, content in contents.items()}
        table = operation_table(tables, (process,))
        for row in table[table["graph"].notna()].itertuples(index=False):
            graph = found.setdefault(str(row.graph), GraphTimes())
            graph.total_ns += int(row.device_ns)
            program = programs.get(int(row.program), _Program({}, {}))
            graph.kept.update(program.keys.values())
            key, name = program.keys.get(str(row.operation)), program.names.get(str(row.operation))
            if key is not None:
                graph.calls_ns[key] += int(row.device_ns)
            if name:
                graph.named_ns[name] += int(row.device_ns)
    return found


class _Program(NamedTuple):
    """The custom calls of a compiled program, and the framework's names, both by the name of the instruction."""

    keys: dict[str, CallKey]
    names: dict[str, str]


def _program(content: bytes) -> _Program:
    """An instruction without a name of the framework has that of the loop or call in which it stands."""
    found = _Program({}, {})
    try:
        graph = parse_hlo_proto(content)
    except GraphFormatError:
        return found
    outer: dict[int, str] = {}
    for position in reversed(range(len(graph.computations))):  # callers before what they call
        computation = graph.computations[position]
        for instruction in computation.instructions:
            name = framework_name(instruction) or outer.get(position, "")
            found.names[instruction.name] = name
            for called in instruction.called:
                outer.setdefault(called, name)
            if instruction.opcode == "custom-call":
                found.keys[instruction.name] = call_key(computation, instruction)
    return found
