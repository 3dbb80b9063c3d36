"""Frames made by hand: a run whose tables are empty but for the rows a test gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pytest

from xla_insight.analysis.findings import Context
from xla_insight.analysis.tables import Place, Process, RunTables
from xla_insight.analysis.time_facts import time_facts
from xla_insight.analysis.totals import graph_facts, step_facts
from xla_insight.facts.report import Site

COLUMNS = {
    "steps": ["process", "step", "start_ns", "end_ns", "duration_ns", "source", "inferred"],
    "syncs": [
        "process",
        "step",
        "time_ns",
        "duration_ns",
        "thread",
        "trigger",
        "executions",
        "compiles",
        "graph",
        "site",
    ],
    "compiles": [
        "process",
        "step",
        "time_ns",
        "duration_ns",
        "thread",
        "graph",
        "trigger",
        "sentence",
        "cut_ns",
        "site",
    ],
    "executions": ["process", "step", "time_ns", "duration_ns", "graph", "trigger", "outcome", "cut_ns", "site"],
    "reads": ["process", "step", "time_ns", "duration_ns", "thread", "method", "executions", "compiles", "site"],
    "spans": ["process", "step", "time_ns", "duration_ns", "thread", "kind", "name", "site"],
    "waits": ["process", "step", "time_ns", "duration_ns", "kind", "site"],
    "counters": ["process", "name", "delta", "duration_ns", "steps"],
    "inputs": ["process", "first_ns", "last_ns"],
    "graphs": ["graph", "inputs", "outputs", "executions"],
    "uploads": ["process", "time_ns", "name", "dims", "dtype", "site", "maker"],
    "samples": ["process", "step", "time_ns", "site"],
    "stale": ["process", "step", "time_ns", "optimizer", "parameters", "site"],
    "scalar_reads": ["process", "time_ns", "scalar"],
    "data_operations": ["process", "time_ns", "name", "delta"],
    "sites": ["process", "site"],
    "loader_errors": ["process", "step", "time_ns", "exception", "message", "site"],
    "meshes": ["process", "dims", "detail"],
    "shardings": ["process", "parameter", "dims", "bytes", "sharding"],
    "saves": ["process", "time_ns", "duration_ns", "thread", "name"],
    "faults": ["process", "what", "count"],
    "epochs": ["process", "time_ns", "source"],
    "endings": ["process", "detail"],
    "losses": ["process", "what", "count", "why"],
    "windows": [
        "process",
        "time_ns",
        "duration_ns",
        "name",
        "stop_ns",
        "first_step",
        "last_step",
        "wall_ns",
        "note",
    ],
}
Rows = Sequence[dict[str, Any]]
MS = 1_000_000


def make_tables(
    processes: Sequence[Process] = (Process(0, 0, 0, 10_000 * MS),),
    places: dict[int, Place] | None = None,
    hlo: Callable[[str], bytes | None] = lambda graph: None,
    window: Callable[[int, str], bytes | None] = lambda process, name: None,
    **rows: Rows,
) -> RunTables:
    """Tables with the given rows (``process`` 0 unless said); ``places`` maps site ids of every process; ``hlo`` and
    ``window`` give graphs and sessions of device windows."""
    frames = {}
    for name, columns in COLUMNS.items():
        given = [{"process": 0, **row} for row in rows.pop(name, ())]
        frames[name] = pd.DataFrame(given, columns=columns)
    assert not rows, f"no such tables: {sorted(rows)}"
    frames["ran"] = _ran(frames["executions"])
    known = {(p.index, site): place for p in processes for site, place in (places or {}).items()}
    return RunTables(frames, tuple(processes), known, hlo, window=window)


def _ran(executions: pd.DataFrame) -> pd.DataFrame:
    """Executions by process, graph, trigger and site, as the query of that name counts them."""
    keys = ["process", "graph", "trigger", "site"]
    named = executions[executions["graph"].notna()].reindex(columns=[*keys, "time_ns"])
    counted = named.groupby(keys, dropna=False)["time_ns"].agg(executions="size", first_ns="min")
    return counted.reset_index().sort_values(["process", "first_ns"])


def make_context(tables: RunTables) -> Context:
    """The context of finding rules over these tables."""
    main = tables.main_process()
    return Context(tables, graph_facts(tables), step_facts(tables, main), time_facts(tables, main), main)


def user_place(line: int, function: str = "<module>", file: str = "/home/me/train.py") -> Place:
    """A place in the user's own file."""
    site = Site(file, line, function, "code")
    return Place(site, site, ((file, line, function),))


@pytest.fixture
def tables() -> Callable[..., RunTables]:
    """The factory `make_tables`."""
    return make_tables


@pytest.fixture
def context() -> Callable[..., Context]:
    """`make_context` over `make_tables` of the same arguments."""
    return lambda **rows: make_context(make_tables(**rows))


@pytest.fixture
def at_line() -> Callable[..., Place]:
    """The factory `user_place`."""
    return user_place


@pytest.fixture
def stepped() -> Callable[[int, int], list[dict[str, Any]]]:
    """Rows of ``steps``: ``count`` steps of ``length_ns`` each from 0 on."""
    return lambda count, length_ns: [
        {
            "step": n,
            "start_ns": n * length_ns,
            "end_ns": (n + 1) * length_ns,
            "duration_ns": length_ns,
            "source": "prof.step",
            "inferred": False,
        }
        for n in range(count)
    ]
