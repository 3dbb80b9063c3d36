"""A process as tracks of slices and counters, for tools that show traces: what happened, named and linked.

Owns which tracks there are, what a slice is called and what goes with it. Leaves the bytes of a trace file to
``report``. Times are ns of the run.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.idle import NOT_OPENED
from xla_insight.analysis.idle_causes import gap_places
from xla_insight.analysis.intervals import Nanoseconds
from xla_insight.analysis.step_table import build_step_table
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.time_account import process_segments
from xla_insight.analysis.windows.operations import origins_of, program_graphs
from xla_insight.analysis.windows.sessions import NO_WORK, device_sessions
from xla_insight.facts import numbers

_FLOW_STRIDE = 1 << 40
"""Flows are numbered from here on in each process: their numbers are shared by the whole trace."""
_OWN_SPANS = {"sync": "cut", "read": "value read", "backward": "backward"}


@dataclass(frozen=True)
class Slices:
    """Slices of one track, disjoint or properly nested. ``arguments`` are columns; None: not said for that slice.

    ``flows_out`` and ``flows_in`` are flow numbers for each slice; a flow links a slice to a later one.
    """

    names: Sequence[str]
    starts: Nanoseconds
    ends: Nanoseconds
    arguments: dict[str, Sequence[Any]] = field(default_factory=dict)
    flows_out: Sequence[tuple[int, ...]] = ()
    flows_in: Sequence[tuple[int, ...]] = ()

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, begin_ns: int, end_ns: int) -> Slices:
        """The slices that share an instant with a stretch of time."""
        kept = np.flatnonzero((self.ends >= begin_ns) & (self.starts < end_ns))
        return self if len(kept) == len(self) else self.picked(kept.tolist())

    def picked(self, kept: list[int]) -> Slices:
        """Some of the slices."""
        return Slices(
            [self.names[i] for i in kept],
            self.starts[kept],
            self.ends[kept],
            {name: [values[i] for i in kept] for name, values in self.arguments.items()},
            [self.flows_out[i] for i in kept] if self.flows_out else (),
            [self.flows_in[i] for i in kept] if self.flows_in else (),
        )


@dataclass(frozen=True)
class Counter:
    """A number over time: ``values[i]`` holds from ``times[i]`` on."""

    times: Nanoseconds
    values: NDArray[np.float64]
    unit: str = ""

    def within(self, begin_ns: int, end_ns: int) -> Counter:
        """The part in a stretch of time, with the value that holds at its begin."""
        first = max(0, int(np.searchsorted(self.times, begin_ns, side="right")) - 1)
        last = int(np.searchsorted(self.times, end_ns))
        return Counter(np.maximum(self.times[first:last], begin_ns), self.values[first:last], self.unit)


@dataclass(frozen=True)
class TraceTrack:
    """A named track of a process."""

    name: str
    content: Slices | Counter


def trace_tracks(tables: RunTables, process: Process, stretch: tuple[int, int] | None = None) -> Iterator[TraceTrack]:
    """The tracks of a process in the order to show them; only what happened within ``stretch``, when given."""
    for track in _all_tracks(tables, process):
        part = track.content if stretch is None else track.content.within(*stretch)
        if len(part.starts if isinstance(part, Slices) else part.times):
            yield TraceTrack(track.name, part)


def _all_tracks(tables: RunTables, process: Process) -> Iterator[TraceTrack]:
    steps = build_step_table(_only(tables, process))
    executions = tables.of("executions", process.index)
    executions = executions[executions["duration_ns"].notna()].sort_values(["time_ns", "duration_ns"])
    flows = _flows(executions, process)
    yield TraceTrack("steps", _steps(steps))
    yield TraceTrack("host state (training thread)", _host_states(tables, process.index))
    yield TraceTrack("cuts and value reads", _own_spans(tables, process.index, executions, flows))
    yield TraceTrack("device, by graph", _device(tables, process.index, executions, flows))
    yield TraceTrack("device idle, by cause", _idle(tables, process.index))
    for number, lane in enumerate(_lanes(_device_operations(tables, process.index))):
        yield TraceTrack(f"device operations{f' ({number + 1})' if number else ''}, measured", lane)
    for kind, word in (("compile", "compiles"), ("transfer", "transfers"), ("input_wait", "input waits")):
        for number, lane in enumerate(_lanes(_of_kind(tables, process.index, kind))):
            yield TraceTrack(word if not number else f"{word} ({number + 1})", lane)
    for kind, word in (("checkpoint", "checkpoints"), ("gc", "garbage collection")):
        yield from (TraceTrack(word, lane) for lane in _lanes(_of_kind(tables, process.index, kind)))
    yield TraceTrack("executions in flight", _in_flight(executions))
    yield TraceTrack("step time", Counter(_ns(steps, "start_ns"), _ns(steps, "duration_ns") / 1e6, "ms"))
    yield TraceTrack("overlap of host work with the device", _overlap(steps))


def _only(tables: RunTables, process: Process) -> RunTables:
    """The same tables, with the steps of one process."""
    frames = {**tables.frames, "steps": tables.of("steps", process.index)}
    return replace(tables, frames=frames)


def _ns(frame: pd.DataFrame, column: str) -> Nanoseconds:
    values: Nanoseconds = frame[column].to_numpy(dtype=np.int64)
    return values


def _steps(steps: pd.DataFrame) -> Slices:
    graphs = [value if isinstance(value, str) else None for value in steps["graph"]]
    counted = {name: steps[name].tolist() for name in ("compiles", "executions", "reads")}
    names = [f"step {step}" for step in steps["step"]]
    return Slices(names, _ns(steps, "start_ns"), _ns(steps, "end_ns"), {"graph": graphs, **counted})


def _host_states(tables: RunTables, process: int) -> Slices:
    parts = process_segments(tables, process)
    if parts is None or not len(parts.starts):
        return Slices((), np.zeros(0, np.int64), np.zeros(0, np.int64))
    first = np.flatnonzero(np.append(True, parts.states[1:] != parts.states[:-1]))
    ends = parts.starts + parts.lengths
    last = np.append(first[1:] - 1, len(ends) - 1)
    words = [str(state).replace("_", " ") for state in STATES]
    return Slices([words[state] for state in parts.states[first]], parts.starts[first], ends[last])


def _flows(executions: pd.DataFrame, process: Process) -> list[tuple[int, ...]]:
    """One flow for each execution whose cut is known."""
    base = (process.index + 1) * _FLOW_STRIDE
    known = executions["cut_ns"].notna()
    return [(base + number,) if has else () for number, has in enumerate(known)]


def _own_spans(tables: RunTables, process: int, executions: pd.DataFrame, flows: Sequence[tuple[int, ...]]) -> Slices:
    frame = tables.of("spans", process)
    kinds = frame["kind"].isin(list(_OWN_SPANS)).to_numpy(dtype=np.bool_)
    rows = frame[kinds & (frame["thread"] == 0).to_numpy(dtype=np.bool_)]
    starts = _ns(rows, "time_ns")
    begun: dict[int, list[int]] = {}
    for cut_ns, flow in zip(executions["cut_ns"], flows, strict=True):
        if flow:
            begun.setdefault(int(cut_ns), []).append(flow[0])
    names = [f"{_OWN_SPANS[str(kind)]}: {name}" for kind, name in zip(rows["kind"], rows["name"], strict=True)]
    out = [tuple(begun.get(int(start), ())) for start in starts]
    return Slices(names, starts, starts + _ns(rows, "duration_ns"), _places(tables, process, rows["site"]), out)


def _places(tables: RunTables, process: int, sites: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """The place of each slice as arguments; None where there is none."""
    texts: dict[Any, tuple[str | None, str | None]] = {}
    for site in set(sites):
        place = tables.place(process, site)
        texts[site] = tuple(
            f"{at.file}:{at.line} in {at.function}" if at else None for at in (place.site, place.user_site)
        )  # type: ignore[assignment]
    pairs = [texts.get(site, (None, None)) for site in sites]
    return {"site": [site for site, _ in pairs], "user_site": [user for _, user in pairs]}


def _device(tables: RunTables, process: int, executions: pd.DataFrame, flows: Sequence[tuple[int, ...]]) -> Slices:
    """Executions one after the other: each from its dispatch, or from when the one before it was ready."""
    starts = _ns(executions, "time_ns")
    ends = starts + _ns(executions, "duration_ns")
    ready = np.maximum.accumulate(ends) if len(ends) else ends
    begins = np.maximum(starts, np.append(starts[:1], ready[:-1]))
    graphs = [graph if isinstance(graph, str) else None for graph in executions["graph"]]
    arguments: dict[str, Sequence[Any]] = {
        "graph": graphs,
        "trigger": [str(value) for value in executions["trigger"]],
        "outcome": [value if isinstance(value, str) else None for value in executions["outcome"]],
        "queued_ns": (begins - starts).tolist(),
        **_places(tables, process, executions["site"]),
    }
    names = [f"graph {numbers.short_hash(graph)}" for graph in graphs]
    return Slices(names, begins, np.maximum(begins, ends), arguments, (), flows)


def _device_operations(tables: RunTables, process: int) -> Slices:
    """Each operation that a device window saw, with its graph and the line of code that it comes from."""
    sessions = device_sessions(tables, process)
    work = pd.concat([NO_WORK, *(session.work for session in sessions)], ignore_index=True)
    work = work.sort_values(["time_ns", "duration_ns"], ascending=[True, False], kind="stable")
    graphs, origin_of = program_graphs(tables, process, work), origins_of(sessions)
    origins = [origin_of(int(program), name) for program, name in zip(work["program"], work["operation"], strict=True)]
    frames = [origin.frame for origin in origins]
    arguments: dict[str, Sequence[Any]] = {
        "graph": [graphs.get(int(program)) for program in work["program"]],
        "framework_operation": [origin.framework_operation or None for origin in origins],
        "site": [f"{frame.file}:{frame.line} in {frame.function}" if frame else None for frame in frames],
        "self_ns": work["self_ns"].tolist(),
    }
    starts = _ns(work, "time_ns")
    return Slices([str(name) for name in work["operation"]], starts, starts + _ns(work, "duration_ns"), arguments)


def _idle(tables: RunTables, process: int) -> Slices:
    places = gap_places(tables, process)
    gaps = places.gaps
    words = [str(state).replace("_", " ") for state in STATES]
    kinds = places.cuts["kind"].astype(str).tolist()
    sites = places.cuts["site"].tolist()
    held = [int(index) for index in places.opened]
    arguments: dict[str, Sequence[Any]] = {
        "opened_by": [None if index == NOT_OPENED else kinds[index] for index in held],
        **{
            f"opened_{name}": values
            for name, values in _places(
                tables, process, [None if index == NOT_OPENED else sites[index] for index in held]
            ).items()
        },
    }
    for number, word in enumerate(words):
        arguments[f"{word} ns"] = [int(ns) or None for ns in gaps.by_state[:, number]]
    return Slices([f"idle: {words[cause]}" for cause in gaps.causes], gaps.starts, gaps.ends, arguments)


def _of_kind(tables: RunTables, process: int, kind: str) -> Slices:
    frame = tables.of("spans", process)
    rows = frame[(frame["kind"] == kind).to_numpy(dtype=np.bool_)].sort_values("time_ns", kind="stable")
    starts = _ns(rows, "time_ns")
    names = [str(name) if isinstance(name, str) else kind.replace("_", " ") for name in rows["name"]]
    return Slices(names, starts, starts + _ns(rows, "duration_ns"), _places(tables, process, rows["site"]))


def _lanes(slices: Slices) -> list[Slices]:
    """The same slices on as many tracks as it takes for none to overlap another (threads work side by side)."""
    free: list[tuple[int, int]] = []
    lanes: list[list[int]] = []
    for index, (start, end) in enumerate(zip(slices.starts.tolist(), slices.ends.tolist(), strict=True)):
        if free and free[0][0] <= start:
            _, lane = heapq.heappop(free)
        else:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(index)
        heapq.heappush(free, (end, lane))
    return [slices.picked(kept) for kept in lanes]


def _in_flight(executions: pd.DataFrame) -> Counter:
    starts = _ns(executions, "time_ns")
    ends = starts + _ns(executions, "duration_ns")
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    change = np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])
    return Counter(times[order], np.cumsum(change[order]))


def _overlap(steps: pd.DataFrame) -> Counter:
    """Per step, where the device was observed and there was host work to hide."""
    work = steps["host_trace_ns"] + steps["host_input_wait_ns"]
    open_ns = steps["idle_trace_ns"] + steps["idle_input_wait_ns"]
    known = (open_ns.notna() & (work > 0)).to_numpy(dtype=np.bool_)
    share = 100 * (1 - open_ns[known].to_numpy(dtype=np.float64) / work[known].to_numpy(dtype=np.float64))
    return Counter(_ns(steps, "start_ns")[known], share, "%")
