"""Value reads, told apart by what they are for: training, a step closure after the cut, or saving a checkpoint.

Reads by Python are recorded one by one. Some operations ask for a value themselves (one_hot for its largest class), and
so does autograd when it looks for anomalies: all that is seen is that they ran part of the pending graph while no
operation had to run on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.analysis.idle_causes import opened_idle
from xla_insight.analysis.intervals import Mask, Nanoseconds, index_inside, union
from xla_insight.analysis.tables import Place, RunTables, integers, spans_of
from xla_insight.analysis.time_account import process_account
from xla_insight.facts.events import Trigger

_STEP_CLOSURES = "_run_step_closures"
_CLOSURES_BEHIND = ("torch_xla/utils/closures.py", "event_loop")
"""The thread that runs step closures when they were added with ``run_async=True``."""
_MOVE_OF_A_MODULE = ("/nn/modules/module.py", "_apply")
"""Every tensor of a module is copied to the host: a checkpoint by hand."""


_PARTIAL = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)
INSIDE_OPERATION = "operation"
"""``method`` of a read that an operation made."""
INSIDE_BACKWARD = "backward"
"""``method`` of all the reads that a backward pass made outside Python."""
INSIDE = (INSIDE_OPERATION, INSIDE_BACKWARD)
_COUNTED = "aten::_local_scalar_dense"
_UNCOUNTED_METHODS = frozenset({"cpu", "numpy", "repr", "to_cpu"})
"""Reads of whole tensors by Python; the others ask for one value each, which the framework counts as well."""
_NEVER_NS = 1 << 62


class Role(StrEnum):
    """What a read is for."""

    TRAINING = "training"
    CLOSURE = "closure"
    SAVING = "saving"


@dataclass(frozen=True)
class Reads:
    """``rows``: reads with ``role``, ``stack`` (index into ``places``), ``wait_ns``, ``compile_ns``, ``idle_ns``."""

    rows: pd.DataFrame
    places: tuple[Place, ...]

    def of(self, role: Role) -> pd.DataFrame:
        """The reads of one role."""
        return self.rows[self.rows["role"] == role]


def classified_reads(tables: RunTables) -> Reads:
    """All reads of a run; remembered with the tables. ``wait_ns`` leaves out the compiles inside a read
    (``compile_ns``), which have an entry of their own.

    ``idle_ns``: for how long the device then had nothing to run while the host did what it could have done before;
    missing where the device was not observed, and for reads inside operations.
    """
    key = ("classified reads", 0)
    if key not in tables.accounts:
        tables.accounts[key] = _classified_reads(tables)
    found: Reads = tables.accounts[key]
    return found


def _classified_reads(tables: RunTables) -> Reads:
    reads = _all_reads(tables)
    if reads.empty:
        return Reads(reads.assign(stack=0, role="", wait_ns=0, compile_ns=0, idle_ns=np.nan), ())
    stack: NDArray[np.int64] = reads.groupby(["process", "site"], dropna=False, sort=False).ngroup().to_numpy()
    firsts = reads.iloc[np.unique(stack, return_index=True)[1]]
    places = tuple(tables.place(process, site) for process, site in zip(firsts["process"], firsts["site"], strict=True))
    roles = [str(role) for role in Role]
    role = np.array([roles.index(_role(place)) for place in places], np.int8)[stack]
    role[inside_checkpoints(tables, reads)] = roles.index(Role.SAVING)
    idle_ns = np.where(reads["method"].isin(INSIDE).to_numpy(np.bool_), np.nan, _idle_ns(tables, reads))
    compile_ns = _compile_ns(tables, reads)
    wait_ns = (reads["duration_ns"].fillna(0) - compile_ns).clip(lower=0)
    times = {"wait_ns": wait_ns, "compile_ns": compile_ns, "idle_ns": idle_ns}
    return Reads(reads.assign(stack=stack, role=pd.Categorical.from_codes(role, categories=roles), **times), places)


def _all_reads(tables: RunTables) -> pd.DataFrame:
    """Reads by Python and inside operations; these wait from the dispatch of what they ran until it is ready."""
    inside = _inside_operations(tables)
    if inside.empty:
        return tables["reads"]
    executions = tables["executions"]
    waits = executions.groupby(["process", "cut_ns"])["duration_ns"].sum()
    keys = pd.MultiIndex.from_arrays([inside["process"], inside["time_ns"]])
    method = np.where(inside["trigger"] == Trigger.AUTOGRAD, INSIDE_BACKWARD, INSIDE_OPERATION)
    rows = inside.assign(method=method, duration_ns=waits.reindex(keys).to_numpy())
    reads = tables["reads"]
    if reads.empty:
        return rows.reindex(columns=reads.columns)
    return pd.concat([reads, rows.reindex(columns=reads.columns)], ignore_index=True)


def _inside_operations(tables: RunTables) -> pd.DataFrame:
    """Cuts that an operation or a backward pass forced between two syncs in which no operation fell back to the CPU,
    where the framework counted more values read than Python asked for.
    """
    syncs = tables["syncs"]
    unasked = syncs["trigger"].isin((Trigger.FORCED, Trigger.AUTOGRAD))
    forced = syncs[(unasked & (syncs["executions"].fillna(0) > 0)).to_numpy(dtype=np.bool_)]
    found = [forced.iloc[:0]]
    for process, own in forced.groupby("process"):
        if not _more_values_than_asked_for(tables, int(process)):
            continue
        cuts = tables.of("syncs", int(process))
        ended = cuts[~cuts["trigger"].isin(_PARTIAL).to_numpy(dtype=np.bool_)]
        ends = integers(ended["time_ns"]) + integers(ended["duration_ns"].fillna(0))
        position = np.searchsorted(ends, integers(own["time_ns"]))
        bounds = np.concatenate([[-_NEVER_NS], ends, [_NEVER_NS]])
        # Counts are read at the end of a sync.
        counted = np.sort(integers(tables.of("data_operations", int(process))["time_ns"]))
        before, after = np.searchsorted(counted, bounds[position]), np.searchsorted(counted, bounds[position + 1] + 1)
        found.append(own[before == after])
    return pd.concat(found)


def _more_values_than_asked_for(tables: RunTables, process: int) -> bool:
    counters, reads = tables.of("counters", process), tables.of("reads", process)
    counted = float(counters.loc[counters["name"] == _COUNTED, "delta"].sum())
    return counted > int((~reads["method"].isin(_UNCOUNTED_METHODS)).sum())


def inside_checkpoints(tables: RunTables, rows: pd.DataFrame) -> Mask:
    """Which rows (with process and time_ns) happened while the training thread was saving a checkpoint."""
    spans = tables["spans"]
    saving = spans[(spans["kind"] == "checkpoint").to_numpy(dtype=np.bool_)]
    inside = np.zeros(len(rows), np.bool_)
    for process, saves in saving.groupby("process"):
        mine = (rows["process"] == process).to_numpy(dtype=np.bool_)
        inside[mine] = index_inside(integers(rows["time_ns"])[mine], union(spans_of(saves))) >= 0
    return inside


def _role(place: Place) -> Role:
    if any(function == _STEP_CLOSURES for _, _, function in place.stack) or _passes(place, *_CLOSURES_BEHIND):
        return Role.CLOSURE
    return Role.SAVING if _passes(place, *_MOVE_OF_A_MODULE) else Role.TRAINING


def _passes(place: Place, file_end: str, name: str) -> bool:
    """Whether a function of a file is on the stack."""
    return any(function == name and file.replace("\\", "/").endswith(file_end) for file, _, function in place.stack)


def _compile_ns(tables: RunTables, reads: pd.DataFrame) -> NDArray[np.float64]:
    compiles = tables["compiles"]
    inside = compiles[compiles["cut_ns"].notna()]
    found = np.zeros(len(reads), np.float64)
    for process in inside["process"].unique():
        own = inside[inside["process"] == process]
        mine = (reads["process"] == process).to_numpy(dtype=np.bool_)
        durations = own["duration_ns"].fillna(0).to_numpy(np.float64)
        found[mine] = _sums_at(integers(own["cut_ns"]), durations, integers(reads["time_ns"][mine]))
    return found


def _idle_ns(tables: RunTables, reads: pd.DataFrame) -> NDArray[np.float64]:
    idle = np.full(len(reads), np.nan)
    for process in reads["process"].unique():
        if process_account(tables, int(process)).whole.idle is None:
            continue
        mine = (reads["process"] == process).to_numpy(dtype=np.bool_)
        opened = opened_idle(tables, int(process))
        opened = opened[(opened["kind"] == "read").to_numpy(dtype=np.bool_)]
        hideable = opened["hideable_ns"].to_numpy(np.float64)
        idle[mine] = _sums_at(integers(opened["time_ns"]), hideable, integers(reads["time_ns"][mine]))
    return idle


def _sums_at(times: Nanoseconds, values: NDArray[np.float64], wanted: Nanoseconds) -> NDArray[np.float64]:
    """The sum of the values at each wanted time, 0 where there is none. Whole numbers: the order does not matter."""
    if not len(times):
        return np.zeros(len(wanted), np.float64)
    if (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    first = np.flatnonzero(np.append(True, times[1:] != times[:-1]))
    known, sums = times[first], np.add.reduceat(values, first)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found: NDArray[np.float64] = np.where(known[place] == wanted, sums[place], 0.0)
    return found
