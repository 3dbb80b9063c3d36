"""The device's time by operation and by line of code: what ran in the windows, named through the programs that ran.

Owns which graph a program is (by when it ran: the windows show programs by number, the log shows graphs by hash) and
which line an operation comes from: that of its instruction in the optimized program; of a fusion that has none, that of
what was fused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from xla_insight.analysis.intervals import Spans, index_inside
from xla_insight.analysis.tables import Process, RunTables, integers, spans_of
from xla_insight.analysis.windows.sessions import DeviceSession, device_sessions
from xla_insight.errors import GraphFormatError
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.model import Frame, Graph, Instruction
from xla_insight.graph.roots import site_of

COLUMNS = (
    "process", "rank", "graph", "program", "operation", "opcode", "framework_operation", "file", "line", "function",
    "count", "device_ns", "share",
)  # fmt: skip
_NUMBER = re.compile(r"\.\d+$")
_MOSTLY = 0.5
"""A program is a graph when it did at least this share of its work while that graph was executed."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of an operation: its kind in the program, the framework's name for it, and its line."""

    opcode: str | None = None
    framework_operation: str | None = None
    frame: Frame | None = None


def operation_table(tables: RunTables, processes: Sequence[Process] | None = None) -> pd.DataFrame:
    """One row an operation of a program of a process (all processes unless said), the longest of each process first.

    ``device_ns`` leaves out operations that ran inside it; ``share`` is of all device time in the process's windows.
    """
    chosen = tables.processes if processes is None else processes
    parts = [_operations(tables, process.index, process.rank) for process in chosen]
    full = [part for part in parts if not part.empty]
    return pd.concat(full, ignore_index=True) if full else pd.DataFrame({name: [] for name in COLUMNS})


def _operations(tables: RunTables, process: int, rank: int) -> pd.DataFrame:
    sessions = [session for session in device_sessions(tables, process) if not session.work.empty]
    if not sessions:
        return pd.DataFrame()
    work = pd.concat([session.work for session in sessions], ignore_index=True)
    groups = work.groupby(["program", "operation"], sort=False)
    sums = groups.agg(count=("self_ns", "size"), device_ns=("self_ns", "sum"))
    rows = sums.reset_index().sort_values("device_ns", ascending=False, kind="stable", ignore_index=True)
    graphs = program_graphs(tables, process, work)
    origin_of = origins_of(sessions)
    origins = [origin_of(program, name) for program, name in zip(rows["program"], rows["operation"], strict=True)]
    frames = [origin.frame for origin in origins]
    table = pd.DataFrame(
        {
            "process": np.full(len(rows), process, np.int64),
            "rank": np.full(len(rows), rank, np.int64),
            "graph": pd.Series([graphs.get(int(program)) for program in rows["program"]], dtype=object),
            "program": rows["program"],
            "operation": rows["operation"],
            "opcode": pd.Series([origin.opcode for origin in origins], dtype=object),
            "framework_operation": pd.Series([origin.framework_operation for origin in origins], dtype=object),
            "file": pd.Series([frame.file if frame else None for frame in frames], dtype=object),
            "line": pd.array([frame.line if frame else None for frame in frames], dtype="Int64"),
            "function": pd.Series([frame.function if frame else None for frame in frames], dtype=object),
            "count": rows["count"],
            "device_ns": rows["device_ns"],
        }
    )
    table["share"] = table["device_ns"] / max(1, int(table["device_ns"].sum()))
    return table


def program_graphs(tables: RunTables, process: int, work: pd.DataFrame) -> dict[int, str]:
    """Number of a program -> the hash of the graph that was executed while it did most of its work."""
    executions = tables.of("executions", process)
    known = executions[executions["duration_ns"].notna() & executions["graph"].notna()]
    known = known.sort_values(["time_ns", "duration_ns"])
    if known.empty:
        return {}
    raw = spans_of(known)
    ready = np.maximum.accumulate(raw.ends)
    begins = np.maximum(raw.starts, np.append(raw.starts[:1], ready[:-1]))
    kept = ready > begins
    middles = integers(work["time_ns"]) + integers(work["duration_ns"]) // 2
    index = index_inside(middles, Spans(begins[kept], ready[kept]))
    names = known["graph"].astype(object).to_numpy()[kept]
    found = pd.DataFrame(
        {
            "program": work["program"],
            "graph": np.where(index >= 0, names[np.maximum(index, 0)], None) if len(names) else None,
            "ns": work["self_ns"].clip(lower=1),
        }
    )
    whole = found.groupby("program")["ns"].sum()
    best = found.dropna().groupby(["program", "graph"])["ns"].sum().sort_values().reset_index()
    best = best.groupby("program").tail(1)
    return {
        int(row.program): str(row.graph)
        for row in best.itertuples(index=False)
        if row.ns >= _MOSTLY * whole[row.program]
    }


def origins_of(sessions: Sequence[DeviceSession]) -> Callable[[int, str], Origin]:
    """Looks up an operation of a program by name; programs are parsed when first asked for."""
    programs = {number: content for session in sessions for number, content in session.programs.items()}
    parsed: dict[int, dict[str, Origin]] = {}

    def origin_of(program: int, name: str) -> Origin:
        if program not in parsed:
            parsed[program] = _instructions(programs.get(program))
        return parsed[program].get(name, Origin())

    return origin_of


def _instructions(content: bytes | None) -> dict[str, Origin]:
    if content is None:
        return {}
    try:
        graph = parse_hlo_proto(content)
    except GraphFormatError:
        return {}
    return {
        instruction.name: _origin(graph, instruction)
        for computation in graph.computations
        for instruction in computation.instructions
    }


def _origin(graph: Graph, instruction: Instruction) -> Origin:
    """Where an instruction comes from. A fusion's own note is that of its root, which may be none."""
    metadata = instruction.metadata
    if not metadata.stack:
        fused = (
            inner.metadata
            for called in instruction.called
            for inner in reversed(graph.computations[called].instructions)
            if inner.metadata.stack
        )
        metadata = next(fused, metadata)
    return Origin(instruction.opcode, metadata.op_type or _plain(metadata.op_name), site_of(metadata.stack))


def _plain(name: str) -> str | None:
    """The operation in a display name: its last part without its number. What the compiler expands keeps no other."""
    return _NUMBER.sub("", name.rpartition("/")[2]) or None
