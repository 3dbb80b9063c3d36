"""Where each step begins and ends, and which step an instant belongs to.

Owns the choice of the step source: the first of ``StepSource`` that a process has, else the most frequent user sync
site (then the steps are inferred). A step covers (end of the one before, its own end]; step 0 begins with the
recording. After the last mark there is no step.
"""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from xla_insight.facts.events import Kind, StepSource
from xla_insight.store.loading import Loaded, ProcessLog

Times = npt.NDArray[np.int64]
COLUMNS = ("process", "rank", "step", "start_ns", "end_ns", "duration_ns", "source", "inferred")


def step_bounds(loaded: Loaded) -> pd.DataFrame:
    """One row a step with ``COLUMNS``, over all processes."""
    frames = [_of_process(loaded, process) for process in loaded.processes]
    filled = [frame for frame in frames if len(frame)]
    if filled:
        return pd.concat(filled, ignore_index=True)
    types = {"source": "object", "inferred": "bool"}
    return pd.DataFrame({name: pd.Series(dtype=types.get(name, "int64")) for name in COLUMNS})


def _of_process(loaded: Loaded, process: ProcessLog) -> pd.DataFrame:
    ends, source = _marked(loaded, process.index)
    inferred = source is None
    if inferred:
        ends = _by_sync_site(loaded, process.index)
        source = StepSource.SYNC_SITE
    ends = np.sort(ends[ends > process.start_ns])
    starts = np.concatenate([np.array([process.start_ns], dtype=np.int64), ends[:-1]]) if len(ends) else ends
    return pd.DataFrame(
        {
            "process": np.full(len(ends), process.index, dtype=np.int64),
            "rank": np.full(len(ends), process.rank, dtype=np.int64),
            "step": np.arange(len(ends), dtype=np.int64),
            "start_ns": starts,
            "end_ns": ends,
            "duration_ns": ends - starts,
            "source": str(source),
            "inferred": inferred,
        }
    )


def _rows(loaded: Loaded, kind: Kind, process: int) -> pa.Table | None:
    table = loaded.kinds.get(kind)
    return None if table is None else table.filter(pc.equal(table["process"], process))


def _marked(loaded: Loaded, process: int) -> tuple[Times, StepSource | None]:
    rows = _rows(loaded, Kind.STEP, process)
    if rows is not None and rows.num_rows:
        for source in StepSource:
            chosen = rows.filter(pc.equal(rows["name"], str(source)))
            if chosen.num_rows:
                return chosen["time_ns"].to_numpy(), source
    return np.empty(0, dtype=np.int64), None


def _by_sync_site(loaded: Loaded, process: int) -> Times:
    """Ends of the explicit syncs at the user line that syncs most often (the latest such line on a tie)."""
    rows = _rows(loaded, Kind.SYNC, process)
    sites = _rows(loaded, Kind.SITE, process)
    if rows is None or sites is None or not rows.num_rows:
        return np.empty(0, dtype=np.int64)
    rows = rows.filter(pc.and_(pc.is_valid(rows["site"]), pc.is_valid(rows["duration_ns"])))
    lines = dict(zip(sites["site"].to_pylist(), map(_user_line, sites["name"].to_pylist()), strict=True))
    frame = pd.DataFrame(
        {
            "end_ns": pc.add(rows["time_ns"], rows["duration_ns"]).to_numpy(),
            "line": [lines.get(site) for site in rows["site"].to_pylist()],
        }
    ).dropna()
    if frame.empty:
        return np.empty(0, dtype=np.int64)
    groups = frame.groupby("line")["end_ns"].agg(["count", "max"])
    best = groups.sort_values(["count", "max"]).index[-1]
    found: Times = frame.loc[frame["line"] == best, "end_ns"].to_numpy(dtype=np.int64)
    return found


def _user_line(text: str | None) -> str | None:
    try:
        place = json.loads(text or "")["user_site"]
        return f"{place[0]}:{place[1]}"
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def assign(table: pa.Table, bounds: pd.DataFrame) -> pa.Array:
    """Step of each row of ``table`` by its time and process; null outside of any step."""
    times = table["time_ns"].to_numpy()
    processes = table["process"].to_numpy()
    steps = np.full(len(times), -1, dtype=np.int64)
    for process, group in bounds.groupby("process", sort=False):
        mine = np.flatnonzero(processes == process)
        ends = group["end_ns"].to_numpy()
        found = np.searchsorted(ends, times[mine], side="left")
        inside = (found < len(ends)) & (times[mine] >= group["start_ns"].iloc[0])
        steps[mine] = np.where(inside, found, -1)
    return pa.array(steps.astype(np.int32), mask=steps < 0)
