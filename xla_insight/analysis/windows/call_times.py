"""How long the custom calls of each graph took, in the device windows of a run.

Owns finding a call among the operations of a program again: by target and shapes. Leaves which calls a graph has to
``custom_calls``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
    """Device time of one graph in all windows, ns: of everything, and of its custom calls."""

    total_ns: int = 0
    calls_ns: Counter[CallKey] = field(default_factory=Counter)


def call_key(computation: Computation, call: Instruction) -> CallKey:
    """What tells custom calls apart."""
    target = (call.attributes.get("custom_call_target") or "").strip('"')
    operands = tuple(str(computation.instructions[position].shape) for position in call.operands)
    return target, operands, str(call.shape)


def call_times(tables: RunTables) -> dict[str, GraphTimes]:
    """The graphs that ran in windows."""
    found: dict[str, GraphTimes] = {}
    for process in tables.processes:
        programs: dict[int, bytes] = {}
        for session in device_sessions(tables, process.index):
            programs.update(session.programs)
        keys = {number: _keys(content) for number, content in programs.items()}
        table = operation_table(tables, (process,))
        for row in table[table["graph"].notna()].itertuples(index=False):
            graph = found.setdefault(str(row.graph), GraphTimes())
            graph.total_ns += int(row.device_ns)
            key = keys.get(int(row.program), {}).get(str(row.operation))
            if key is not None:
                graph.calls_ns[key] += int(row.device_ns)
    return found


def _keys(content: bytes) -> dict[str, CallKey]:
    """The custom calls of a program by the name of the instruction."""
    try:
        graph = parse_hlo_proto(content)
    except GraphFormatError:
        return {}
    return {
        instruction.name: call_key(computation, instruction)
        for computation in graph.computations
        for instruction in computation.instructions
        if instruction.opcode == "custom-call"
    }
