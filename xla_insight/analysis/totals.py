"""Totals over the graphs and steps of a run.

Owns which source each total comes from: the framework's own counters where they were recorded, the events where not.
Leaves causes to ``recompiles``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.analysis.tables import Process, RunTables
from xla_insight.facts.events import CacheOutcome
from xla_insight.facts.report import GraphFacts, StepFacts

_DIGITS_MS = 6


def graph_facts(tables: RunTables) -> GraphFacts:
    """Totals over all processes of the run."""
    compiles = tables["compiles"]
    known = {
        graph for name in ("compiles", "executions", "graphs") for graph in tables[name]["graph"].dropna().unique()
    }
    totals = dict.fromkeys(("compiles", "executions", "cache_hits", "persistent_hits"), 0)
    for process in tables.processes:
        for name in totals:
            totals[name] += _total(tables, process.index, name)
    return GraphFacts(
        # A graph that was compiled and not named is a graph of its own.
        distinct=len(known) + int(compiles["graph"].isna().sum()),
        syncs=len(tables["syncs"]),
        executions=totals["executions"],
        compiles=totals["compiles"],
        cache_hits=totals["cache_hits"],
        persistent_hits=totals["persistent_hits"],
        evictions=evictions(compiles),
        compile_s=float(compiles["duration_ns"].sum()) / 1e9,
    )


def counted(tables: RunTables, name: str, process: int | None = None) -> int | None:
    """The summed increase of a counter, of one process or of all; None when it never moved or was not recorded."""
    frame = tables["counters"] if process is None else tables.of("counters", process)
    rows = frame[(frame["name"] == name).to_numpy(dtype=np.bool_)]
    return None if rows.empty else round(float(rows["delta"].sum()))


def evictions(compiles: pd.DataFrame) -> int:
    """Compiles of a graph that the same process had compiled before."""
    named = compiles[compiles["graph"].notna()]
    return int(named.duplicated(["process", "graph"]).sum())


def step_facts(tables: RunTables, process: Process | None) -> StepFacts:
    """Steps of the process that speaks for the run, over all the parts it recorded one after the other."""
    if process is None:
        return StepFacts(0)
    steps = pd.concat([tables.of("steps", part.index) for part in tables.parts_of(process)])
    if steps.empty:
        return StepFacts(0)
    milliseconds = steps["duration_ns"].to_numpy(dtype=np.float64) / 1e6
    return StepFacts(
        count=len(steps),
        median_ms=round(float(np.median(milliseconds)), _DIGITS_MS),
        p95_ms=round(float(np.percentile(milliseconds, 95)), _DIGITS_MS),
        source=str(steps["source"].iloc[0]),
        inferred=bool(steps["inferred"].iloc[0]),
    )


def _total(tables: RunTables, process: int, name: str) -> int:
    from_counter = counted(tables, name, process)
    from_events = _events(tables, process, name)
    if name == "compiles":  # an event is proof, also when the last counters were lost
        return max(from_counter or 0, from_events)
    has_counters = any(counted(tables, other, process) is not None for other in ("compiles", "executions"))
    return (from_counter or 0) if has_counters else from_events


def _events(tables: RunTables, process: int, name: str) -> int:
    if name == "compiles":
        return len(tables.of("compiles", process))
    executions = tables.of("executions", process)
    outcomes = {"cache_hits": CacheOutcome.HIT, "persistent_hits": CacheOutcome.PERSISTENT_HIT}
    if name in outcomes:
        return int((executions["outcome"] == outcomes[name]).sum())
    return len(executions)
