"""Parts of a run that are looked at apart: warm-up, the steady state after it, each epoch, and each rank.

Owns where warm-up and epochs end. Leaves the account itself to ``time_account``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import STATES, Account
from xla_insight.analysis.idle_causes import WORDS
from xla_insight.analysis.tables import Process, RunTables, integers, spans_of
from xla_insight.analysis.time_account import overlap_pct, process_account, step_windows
from xla_insight.facts import numbers
from xla_insight.facts.events import EpochSource
from xla_insight.facts.report import HostState, Period

DEVICE = "device"
BUSY_SHARE = 0.9
_WHEN = {"warm_up": "While warming up", "steady": "After warm-up", "rank": "Over all steps"}
LONGEST_WARM_UP_SHARE = 0.1
SHORTEST_WARM_UP = 3
TAIL_SHARE = 0.5
"""A step that waits so much of its time for what warm-up dispatched is warm-up."""


def warm_up_and_steady(tables: RunTables, process: Process) -> tuple[Period | None, Period | None]:
    """The first steps of a process that compile, and all after them. None where there is no such step."""
    if tables.of("steps", process.index).empty:
        return None, None
    first = warm_up_steps(tables, process.index)
    warm_up, steady = _periods(tables, process, [("warm_up", slice(0, first)), ("steady", slice(first, None))])
    return warm_up, steady


def epochs(tables: RunTables, process: Process) -> tuple[Period, ...]:
    """The steps of each pass over the data. A pass without a step (an evaluation) is none; empty without marks.

    The last of them may be a pass that the end of the run cut short.
    """
    marks = tables.of("epochs", process.index)
    best = next((source for source in EpochSource if (marks["source"] == source).any()), None)
    if best is None:
        return ()
    ends = integers(tables.of("steps", process.index)["end_ns"])
    cuts = np.searchsorted(ends, integers(marks["time_ns"][marks["source"] == best]), side="right")
    bounds = np.unique(np.concatenate(([0], cuts, [len(ends)]))).tolist()
    parts = [("epoch", slice(begin, end)) for begin, end in itertools.pairwise(bounds)]
    return tuple(period for period in _periods(tables, process, parts) if period is not None)


def warm_up_steps(tables: RunTables, process: int) -> int:
    """How many steps are warm-up: those that compile from the first on, until one does not, and those that go by until
    what they dispatched is ready, as a first execution takes far longer than the next.

    At least one; at most three or a tenth of all: a run that compiles all the time never becomes steady, and the
    compiles of its later steps are what is wrong with it, not its warm-up.
    """
    steps = tables.of("steps", process)
    compiled = set(tables.of("compiles", process)["step"].dropna().astype(int))
    longest = max(SHORTEST_WARM_UP, int(LONGEST_WARM_UP_SHARE * len(steps)))
    count = 0
    for number in steps["step"].astype(int).head(longest):
        if number not in compiled:
            break
        count += 1
    count = min(len(steps), max(1, count))
    if not count:
        return 0
    # A run of few steps keeps one that is not.
    return max(count, min(longest, len(steps) - 1, _until_ready(tables, process, count)))


def _until_ready(tables: RunTables, process: int, count: int) -> int:
    """``count`` steps and those after them that are over, for the most part, before what was dispatched is ready."""
    windows = step_windows(tables, process)
    executions = spans_of(tables.of("executions", process))
    dispatched = executions.ends[executions.starts < windows.ends[count - 1]]
    if not len(dispatched):
        return count
    waited = int(dispatched.max()) - windows.starts[count:]
    later = waited < TAIL_SHARE * (windows.ends - windows.starts)[count:]
    return count + (int(np.argmax(later)) if later.any() else len(later))


def rank_periods(tables: RunTables) -> tuple[Period, ...]:
    """All steps of each process that has steps, by rank."""
    found: list[Period] = []
    for process in tables.processes:
        found += [period for period in _periods(tables, process, [("rank", slice(None))]) if period is not None]
    return tuple(sorted(found, key=lambda period: (period.rank, period.process)))


def period_sentence(period: Period) -> str:
    """What the device waits for in some steps, as a person would say it."""
    if period.device_busy_s is None:
        return "When the device was busy is not known: no execution times were recorded."
    if period.device_busy_s >= BUSY_SHARE * period.wall_s:
        busy = numbers.share(period.device_busy_s, period.wall_s, inferred=True)
        return f"{_WHEN[period.name]} the device is busy {busy} of the time: it is the limit, as it should be."
    idle = numbers.share(period.wall_s - period.device_busy_s, period.wall_s, inferred=True)
    state, seconds_idle = max(period.device_idle_by_host_state.items(), key=lambda item: item[1])
    most = numbers.share(seconds_idle, period.wall_s, inferred=True)
    return (
        f"{_WHEN[period.name]} the device has nothing to run for {idle} of the time;"
        f" for {most}, {WORDS[HostState(state)]}."
    )


def _periods(tables: RunTables, process: Process, parts: Sequence[tuple[str, slice]]) -> list[Period | None]:
    """Periods by name and rows among the steps of a process; None where there is no row."""
    steps = tables.of("steps", process.index)
    found = process_account(tables, process.index)
    return [
        _period(name, process, steps.iloc[rows], _total(found.steps, rows), _total(found.step_paths, rows))
        for name, rows in parts
    ]


def _period(name: str, process: Process, steps: pd.DataFrame, total: Account, path: Account) -> Period | None:
    if steps.empty:
        return None
    wall_ns = int(integers(steps["duration_ns"]).sum())
    return Period(
        name=name,
        rank=process.rank,
        process=process.index,
        first_step=_number(steps, 0),
        last_step=_number(steps, -1),
        steps=len(steps),
        wall_s=wall_ns / 1e9,
        host=seconds(total.host[0]),
        device_busy_s=None if total.busy is None else int(total.busy[0]) / 1e9,
        device_idle_by_host_state={} if total.idle is None else seconds(total.idle[0]),
        overlap_pct=overlap_pct(total, 0, wall_ns),
        critical_path=path_seconds(path, 0),
    )


def _number(steps: pd.DataFrame, row: int) -> int:
    return int(steps["step"].iloc[row])


def _total(result: Account, chosen: slice) -> Account:
    host = result.host[chosen].sum(axis=0, keepdims=True)
    if result.busy is None or result.idle is None:
        return Account(host, None, None)
    return Account(host, result.busy[chosen].sum(keepdims=True), result.idle[chosen].sum(axis=0, keepdims=True))


def path_seconds(path: Account, row: int) -> dict[str, float]:
    """`DEVICE` and host state -> seconds of the critical path in a row, those that are on it; empty when unknown."""
    if path.busy is None or path.idle is None or not len(path.busy):
        return {}
    found = {DEVICE: int(path.busy[row]) / 1e9, **seconds(path.idle[row])}
    return {name: spent_s for name, spent_s in found.items() if spent_s}


def seconds(row: object) -> dict[str, float]:
    """State -> seconds of a row of an account. What device windows took is listed only where there was one."""
    named = zip(STATES, row, strict=True)  # type: ignore[call-overload]
    return {str(state): int(ns) / 1e9 for state, ns in named if ns or state is not HostState.OUTSIDE}
