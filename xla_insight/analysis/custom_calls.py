"""Custom calls of graphs: which code that XLA did not make itself runs in a graph, on which shapes, how much of it.

Owns the list. Single instructions are timed in device windows only; without one, the share of a call is that of the
bytes that go in and out, beside those of all instructions. Leaves parsing to ``graph``, times to ``windows`` and the
table to ``report``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import pandas as pd

from xla_insight.analysis.tables import load_tables
from xla_insight.analysis.windows.call_times import CallKey, GraphTimes, call_key, call_times, framework_name
from xla_insight.errors import GraphFormatError
from xla_insight.facts.report import Site
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.model import Computation, Graph, Instruction, Shape
from xla_insight.graph.roots import site_of
from xla_insight.store.reader import Run

_WITHOUT_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
_OTHER_BITS = {"pred": 8}


@dataclass(frozen=True, slots=True)
class CustomCall:
    """Calls of one target with the same shapes in one graph. ``bytes_pct``: of the bytes of all its instructions.

    ``device_pct``: of the device's time on this graph, measured in device windows; None without any. ``replaced``: the
    compiled program has instructions of the compiler's in its place; their time is meant then, if it can be told.
    """

    target: str
    operands: tuple[str, ...]
    result: str
    count: int
    bytes_pct: float
    site: Site | None
    own_name: str | None = None
    """The framework's word for this call, where no other instruction of the graph has it."""
    device_pct: float | None = None
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class GraphCalls:
    """A graph with its custom calls, most bytes first. ``executions`` and ``device_s`` are None outside a recording."""

    graph: str
    instructions: int
    executions: int | None
    device_s: float | None
    calls: tuple[CustomCall, ...]


def custom_calls_of(
    name: str, graph: Graph, executions: int | None = None, device_s: float | None = None
) -> GraphCalls:
    """The custom calls of a parsed graph; calls of a computation count once, however often it runs."""
    found: dict[CallKey, list[tuple[Instruction, int]]] = {}
    bearers: dict[str, set[CallKey | None]] = {}
    total = 0
    for computation, instruction, moved in _instructions(graph):
        total += moved
        key = call_key(computation, instruction) if instruction.opcode == "custom-call" else None
        if key is not None:
            found.setdefault(key, []).append((instruction, moved))
        bearers.setdefault(framework_name(instruction), set()).add(key)
    calls = []
    for key, same in found.items():
        share = 100 * sum(moved for _, moved in same) / max(1, total)
        names = {framework_name(instruction) for instruction, _ in same}
        own = len(names) == 1 and bearers[min(names)] == {key}
        calls.append(CustomCall(*key, len(same), share, _site(same[0][0]), (min(names) or None) if own else None))
    calls.sort(key=lambda call: (-call.bytes_pct, call.target, call.operands))
    return GraphCalls(name, graph.instruction_count, executions, device_s, tuple(calls))


def custom_calls_of_file(file: str) -> GraphCalls:
    """The custom calls of a file with one module, HLO text or proto. Raises GraphFormatError."""
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise GraphFormatError(f"cannot read {file}: {error.strerror or error}") from error
    try:
        is_text = content.lstrip().startswith(b"HloModule")
        parsed = parse_hlo_text(content.decode("utf-8", "replace")) if is_text else parse_hlo_proto(content)
    except GraphFormatError as error:
        raise GraphFormatError(f"{file} is no HLO module: {error}") from error
    return custom_calls_of(file, parsed)


def custom_calls(run: Run) -> tuple[tuple[GraphCalls, ...], int]:
    """The graphs of a run that hold custom calls, longest on the device first, and how many graphs could be read."""
    facts = run.table("graphs").set_index("graph")
    found, readable = [], 0
    for graph in sorted(run.graph_hashes()):
        content = run.hlo(graph)
        if content is None:
            continue
        try:
            parsed = parse_hlo_proto(content)
        except GraphFormatError:
            continue
        readable += 1
        row = facts.loc[graph] if graph in facts.index else None
        executions = None if row is None else int(row["executions"])
        device_s = None if row is None or pd.isna(row["device_ns"]) else float(row["device_ns"]) / 1e9
        calls = custom_calls_of(graph, parsed, executions, device_s)
        if calls.calls:
            found.append(calls)
    times = call_times(load_tables(run)) if found else {}
    found = [timed(calls, times[calls.graph]) if calls.graph in times else calls for calls in found]
    return tuple(sorted(found, key=lambda calls: -(calls.device_s or 0.0))), readable


def timed(graph: GraphCalls, times: GraphTimes) -> GraphCalls:
    """The calls with their share of the device's time, longest first."""
    calls = [_timed(call, times) for call in graph.calls]
    return replace(graph, calls=tuple(sorted(calls, key=lambda call: -(call.device_pct or 0.0))))


def _timed(call: CustomCall, times: GraphTimes) -> CustomCall:
    key = (call.target, call.operands, call.result)
    if key in times.kept:
        return replace(call, device_pct=100 * times.calls_ns[key] / max(1, times.total_ns))
    spent_ns = None if call.own_name is None else times.named_ns.get(call.own_name)
    share = None if spent_ns is None else 100 * spent_ns / max(1, times.total_ns)
    return replace(call, device_pct=share, replaced=True)


def _instructions(graph: Graph) -> Iterator[tuple[Computation, Instruction, int]]:
    """Each instruction that works, with its computation and the bytes of operands and result."""
    for computation in graph.computations:
        for instruction in computation.instructions:
            if instruction.opcode not in _WITHOUT_WORK:
                operands = _operands(computation, instruction)
                yield computation, instruction, sum(map(_bytes, operands)) + _bytes(instruction.shape)


def _operands(computation: Computation, instruction: Instruction) -> list[Shape]:
    return [computation.instructions[position].shape for position in instruction.operands]


def _bytes(shape: Shape) -> int:
    if shape.is_tuple:
        return sum(map(_bytes, shape.parts))
    width = re.search(r"\d+", shape.dtype)  # f32, bf16, f8e4m3fn
    return prod(shape.dims) * (int(width[0]) if width else _OTHER_BITS.get(shape.dtype, 0)) // 8


def _site(instruction: Instruction) -> Site | None:
    frame = site_of(instruction.metadata.stack)
    return None if frame is None else Site(frame.file, frame.line, frame.function)
