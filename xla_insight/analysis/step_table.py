"""One row a step: what it cut, compiled, executed and read, and where its time went.

Owns the joining of events to steps. Leaves the boundaries of steps to ``store`` and the account of time to
``accounting``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import STATES, clipped_executions
from xla_insight.analysis.intervals import index_inside
from xla_insight.analysis.tables import RunTables, integers, spans_of
from xla_insight.analysis.time_account import process_account
from xla_insight.analysis.windows import measured_busy
from xla_insight.facts.report import Quality

KEYS = ["process", "step"]
HOST_COLUMNS = tuple(f"host_{state}_ns" for state in STATES)
IDLE_COLUMNS = tuple(f"idle_{state}_ns" for state in STATES)
PATH_COLUMNS = ("critical_device_ns", *(f"critical_{state}_ns" for state in STATES))


def build_step_table(tables: RunTables, ranks: dict[int, int] | None = None) -> pd.DataFrame:
    """One row a step, ordered by process and step; times in ns, ``host_*_ns`` sums to ``duration_ns`` exactly.

    ``device_busy_ns`` is measured or inferred (``device_quality``), missing where no execution was observed; with the
    ``idle_*_ns`` (the device had nothing to run while the host was in that state) it sums to ``duration_ns`` too. So do
    the ``critical_*_ns``: the parts of device and host states that the end of the step depended on.
    """
    steps = tables["steps"]
    parts = [_with_time(tables, rows.copy(), int(process)) for process, rows in steps.groupby("process")]
    table = pd.concat(parts, ignore_index=True) if parts else _with_time(tables, steps.copy(), -1)
    ranks = {p.index: p.rank for p in tables.processes} if ranks is None else ranks
    table.insert(1, "rank", table["process"].map(ranks).fillna(0).astype(np.int64))
    return _with_counts(tables, table)


def _with_time(tables: RunTables, steps: pd.DataFrame, process: int) -> pd.DataFrame:
    found = process_account(tables, process)
    result, path = found.steps, found.step_paths
    for number, column in enumerate(HOST_COLUMNS):
        steps[column] = result.host[:, number]
    steps["device_busy_ns"] = pd.array([None] * len(steps) if result.busy is None else result.busy, dtype="Int64")
    steps["device_quality"] = _quality(tables, steps, process, result.busy is not None)
    for number, column in enumerate(IDLE_COLUMNS):
        idle = [None] * len(steps) if result.idle is None else result.idle[:, number]
        steps[column] = pd.array(idle, dtype="Int64")
    for number, column in enumerate(PATH_COLUMNS):
        values = (
            None if path.busy is None or path.idle is None else path.busy if not number else path.idle[:, number - 1]
        )
        steps[column] = pd.array([None] * len(steps) if values is None else values, dtype="Int64")
    return steps


def _quality(tables: RunTables, steps: pd.DataFrame, process: int, observed: bool) -> pd.Series[str]:
    """`measured` for steps that lie within a device window, else `inferred`; missing where nothing was observed."""
    stretches, _ = measured_busy(tables, process)
    words = pd.Series(str(Quality.INFERRED) if observed else None, index=steps.index, dtype=object)
    if observed and len(stretches.starts) and len(steps):
        index = index_inside(integers(steps["start_ns"]), stretches)
        within = (index >= 0) & (integers(steps["end_ns"]) <= stretches.ends[np.maximum(index, 0)])
        words[within] = str(Quality.MEASURED)
    return words


def _with_counts(tables: RunTables, table: pd.DataFrame) -> pd.DataFrame:
    counts = {
        "compiles": tables["compiles"].groupby(KEYS).size(),
        "compile_ns": tables["compiles"].groupby(KEYS)["duration_ns"].sum(),
        "executions": tables["executions"].groupby(KEYS).size(),
        "reads": tables["reads"].groupby(KEYS).size(),
        "read_ns": tables["reads"].groupby(KEYS)["duration_ns"].sum(),
        "graphs": tables["executions"].groupby(KEYS)["graph"].nunique(),
    }
    keys = pd.MultiIndex.from_frame(table[KEYS])
    for name, series in counts.items():
        table[name] = series.reindex(keys).fillna(0).to_numpy().astype(np.int64)
    table["graph"] = main_graphs(tables["executions"]).reindex(keys).to_numpy()
    return table


def main_graphs(executions: pd.DataFrame) -> pd.Series[str]:
    """The graph of each (process, step) that held the device longest; the last one where no time was measured."""
    timed = executions[executions["duration_ns"].notna()]
    device_ns = pd.Series(0, index=executions.index)
    for _, rows in timed.groupby("process"):
        device_ns.loc[rows.index] = clipped_executions(spans_of(rows))
    known = executions.assign(device_ns=device_ns)[executions["graph"].notna() & executions["step"].notna()]
    sums = known.groupby([*KEYS, "graph"], observed=True).agg(ns=("device_ns", "sum"), last=("time_ns", "max"))
    best = sums.reset_index().sort_values(["ns", "last"]).groupby(KEYS).tail(1)
    return best.set_index(KEYS)["graph"]
