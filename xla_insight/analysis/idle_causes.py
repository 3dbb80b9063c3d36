"""Idle gaps in words and by place: where each came from, which places open most of them, and all of them as a table.

Owns the sentences about a gap. Leaves finding gaps to ``idle`` and summing time to ``accounting``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.host_lines import RUNNING, line_in
from xla_insight.analysis.idle import NOT_OPENED, OPENING_KINDS, Gaps, busiest_row, longest, opened_by
from xla_insight.analysis.intervals import Nanoseconds
from xla_insight.analysis.tables import NOWHERE, Place, RunTables, spans_of
from xla_insight.analysis.time_account import process_account
from xla_insight.facts import numbers
from xla_insight.facts.report import HostState, IdleGap

WORDS = {
    HostState.COMPILE: "the host compiled a graph",
    HostState.DEVICE_WAIT: "the host waited for a device that was done, or not yet told to start,",
    HostState.INPUT_WAIT: "the host waited for the next batch",
    HostState.TRANSFER: "the host moved tensors",
    HostState.CHECKPOINT: "the host saved a checkpoint",
    HostState.GC: "Python collected garbage",
    HostState.TRACE: "the host ran Python and traced",
    HostState.OUTSIDE: "xla-insight itself closed a device window",
}
_NOT_HIDEABLE = (HostState.COMPILE, HostState.DEVICE_WAIT, HostState.OUTSIDE)
_HIDEABLE_COLUMNS = [number for number, state in enumerate(STATES) if state not in _NOT_HIDEABLE]
_SPAN_KINDS = {
    HostState.COMPILE: "compile",
    HostState.INPUT_WAIT: "input_wait",
    HostState.TRANSFER: "transfer",
    HostState.CHECKPOINT: "checkpoint",
    HostState.GC: "gc",
}


@dataclass(frozen=True)
class GapPlaces:
    """The gaps of a process with what opened them: ``opened`` are positions in ``cuts``, `NOT_OPENED` for none."""

    gaps: Gaps
    cuts: pd.DataFrame
    """Syncs and reads of the training thread, in order of time."""
    opened: NDArray[np.int64]


def gap_places(tables: RunTables, process: int) -> GapPlaces:
    """All gaps of a process and what opened each; remembered with the tables."""
    key = ("gaps", process)
    if key not in tables.accounts:
        tables.accounts[key] = _gap_places(tables, process)
    found: GapPlaces = tables.accounts[key]
    return found


def _gap_places(tables: RunTables, process: int) -> GapPlaces:
    gaps = process_account(tables, process).gaps
    frame = tables.of("spans", process)
    own = (frame["thread"] == 0).to_numpy(dtype=np.bool_) & frame["kind"].isin(OPENING_KINDS).to_numpy(dtype=np.bool_)
    cuts = frame[own]
    if not cuts["time_ns"].is_monotonic_increasing:
        cuts = cuts.sort_values("time_ns", kind="stable")
    return GapPlaces(gaps, cuts, opened_by(gaps, cuts))


def worst_gaps(tables: RunTables, process: int, count: int) -> tuple[IdleGap, ...]:
    """The longest gaps of a process, longest first."""
    gaps = process_account(tables, process).gaps
    if not len(gaps):
        return ()
    places = gap_places(tables, process)
    return tuple(describe_gap(tables, process, places, index) for index in longest(gaps, count))


def describe_gap(tables: RunTables, process: int, places: GapPlaces, index: int) -> IdleGap:
    """One gap with its cause, its places and a sentence."""
    gaps = places.gaps
    begin, end = int(gaps.starts[index]), int(gaps.ends[index])
    states = gaps.of(index)
    cause = STATES[int(gaps.by_state[index].argmax())]
    place, at = _cause_place(tables, process, places.cuts, cause, (begin, end))
    opened = int(places.opened[index])
    cut = None if opened == NOT_OPENED else places.cuts.iloc[opened]
    opener = NOWHERE if cut is None else tables.place(process, cut["site"])
    kind = None if cut is None else str(cut["kind"])
    step = step_at(tables, process, begin)
    return IdleGap(
        process=process,
        step=step,
        start_s=begin / 1e9,
        idle_s=(end - begin) / 1e9,
        cause=str(cause),
        by_host_state={str(state): ns / 1e9 for state, ns in states.items()},
        site=place.site,
        user_site=place.user_site,
        opened_by=kind,
        opened_site=opener.site,
        opened_user_site=opener.user_site,
        summary=_sentence((begin, end), step, (cause, states[cause], at), (kind, opener)),
    )


def step_at(tables: RunTables, process: int, time_ns: int) -> int | None:
    """The step that holds an instant, or None."""
    steps = tables.of("steps", process)
    row = int(np.searchsorted(steps["end_ns"].to_numpy(), time_ns, side="right"))
    if row >= len(steps) or time_ns < int(steps["start_ns"].iloc[row]):
        return None
    return int(steps["step"].iloc[row])


def _cause_place(
    tables: RunTables, process: int, cuts: pd.DataFrame, cause: HostState, stretch: tuple[int, int]
) -> tuple[Place, str]:
    """Where the state that takes most of a gap comes from, and in words: its own span; for Python and tracing where the
    thread was seen, else the cut that ends the gap."""
    seen = line_in(tables, process, stretch) if cause in RUNNING else None
    if seen is not None:
        place, count, samples = seen
        how = f", where {numbers.count(count)} of {numbers.count(samples)} samples found the training thread"
        return place, f" at {numbers.where(place.site, place.user_site)}{how},"
    place = _span_or_cut(tables, process, cuts, cause, stretch)
    return place, _at(cause, place)


def _span_or_cut(
    tables: RunTables, process: int, cuts: pd.DataFrame, cause: HostState, stretch: tuple[int, int]
) -> Place:
    kind = _SPAN_KINDS.get(cause)
    if kind is not None:
        rows, reach = _rows_of(tables, process, kind)
        first = int(np.searchsorted(reach, stretch[0], side="right"))
        last = int(np.searchsorted(rows["time_ns"].to_numpy(), stretch[1]))
        found = busiest_row(rows.iloc[first:last], *stretch)
        return NOWHERE if found is None else tables.place(process, rows["site"].iloc[first + found])
    executions = tables.of("executions", process)
    next_one = int(np.searchsorted(executions["time_ns"].to_numpy(dtype=np.int64), stretch[1]))
    if next_one < len(executions) and int(executions["time_ns"].iloc[next_one]) == stretch[1]:
        place = tables.place(process, executions["site"].iloc[next_one])
        if place.site is not None:
            return place
    before = int(np.searchsorted(cuts["time_ns"].to_numpy(dtype=np.int64), stretch[1], side="left")) - 1
    return NOWHERE if before < 0 else tables.place(process, cuts.iloc[before]["site"])


def _rows_of(tables: RunTables, process: int, kind: str) -> tuple[pd.DataFrame, Nanoseconds]:
    """The spans of a kind in order of time, and the latest end up to each; remembered with the tables."""
    key = (f"spans of kind {kind}", process)
    if key not in tables.accounts:
        frame = tables.of("spans", process)
        rows = frame[(frame["kind"] == kind) & frame["duration_ns"].notna()].sort_values("time_ns", kind="stable")
        tables.accounts[key] = rows, np.maximum.accumulate(spans_of(rows).ends)
    found: tuple[pd.DataFrame, Nanoseconds] = tables.accounts[key]
    return found


def _sentence(
    stretch: tuple[int, int],
    step: int | None,
    why: tuple[HostState, int, str],
    opener: tuple[str | None, Place],
) -> str:
    begin, end = stretch
    cause, ns, at = why
    kind, opened = opener
    during = "" if step is None else f" in step {numbers.count(step)}"
    part = "" if ns == end - begin else f" for {numbers.nanoseconds(ns)} of it"
    text = f"Idle for {numbers.nanoseconds(end - begin)}{during}: {WORDS[cause]}{at if part else at.rstrip(',')}{part}."
    if kind is None:
        return text
    where = numbers.where(opened.site, opened.user_site)
    what = "A value read" if kind == "read" else "The sync"
    return f"{text} {what} at {where} had waited until the device was done, so nothing was queued behind it."


def _at(cause: HostState, place: Place) -> str:
    if place.site is None or cause is HostState.OUTSIDE:
        return ""
    word = "until the cut at" if cause is HostState.TRACE else "at"
    return f" {word} {numbers.where(place.site, place.user_site)}"


def hideable_ns(gaps: Gaps) -> NDArray[np.int64]:
    """Of each gap the time in which the host did what it could have done before, while the device was busy."""
    hideable: NDArray[np.int64] = gaps.by_state[:, _HIDEABLE_COLUMNS].sum(axis=1)
    return hideable


def opened_idle(tables: RunTables, process: int) -> pd.DataFrame:
    """The cut that opened each gap that one did: its kind (`read` or `sync`), site, time_ns; and the gap's idle time.

    ``idle_ns`` is all of the gap, ``hideable_ns`` the part in which the host did what it could have done while the
    device was busy, had it not waited in the cut.
    """
    places = gap_places(tables, process)
    held = places.opened != NOT_OPENED
    cuts = places.cuts.iloc[places.opened[held]]
    hideable = hideable_ns(places.gaps)
    idle = {"idle_ns": places.gaps.lengths[held], "hideable_ns": hideable[held]}
    return cuts[["kind", "site", "time_ns"]].assign(**idle)


@dataclass(frozen=True, slots=True)
class Opener:
    """A place in the code that left the device without work. ``kind``: `read`, `sync`, or None for all gaps that began
    while the training thread was not blocked. ``hideable_s``: the part that could have been done while it was busy."""

    kind: str | None
    place: Place
    gaps: int
    idle_s: float
    hideable_s: float


def openers(tables: RunTables, process: int) -> tuple[Opener, ...]:
    """Who left the device without work for how long, most first."""
    opened = opened_idle(tables, process)
    by_place: dict[tuple[str, Place], list[int]] = {}
    for (kind, site), rows in opened.groupby(["kind", "site"], observed=True, dropna=False):
        sums = by_place.setdefault((str(kind), tables.place(process, site)), [0, 0, 0])
        for index, value in enumerate((len(rows), int(rows["idle_ns"].sum()), int(rows["hideable_ns"].sum()))):
            sums[index] += value
    found = [Opener(kind, place, n, idle / 1e9, hide / 1e9) for (kind, place), (n, idle, hide) in by_place.items()]
    gaps = process_account(tables, process).gaps
    rest = int(gaps.lengths.sum()) - int(opened["idle_ns"].sum())
    if rest:
        hideable = int(hideable_ns(gaps).sum()) - int(opened["hideable_ns"].sum())
        found.append(Opener(None, NOWHERE, len(gaps) - len(opened), rest / 1e9, hideable / 1e9))
    return tuple(sorted(found, key=lambda opener: -opener.idle_s))


def idle_table(tables: RunTables) -> pd.DataFrame:
    """One row a gap of every process: when, how long, why, in which host states, and what opened it where."""
    parts = [_idle_rows(tables, process.index, process.rank) for process in tables.processes]
    return pd.concat(parts, ignore_index=True) if parts else _idle_rows(tables, -1, 0)


def _idle_rows(tables: RunTables, process: int, rank: int) -> pd.DataFrame:
    places = gap_places(tables, process)
    gaps = places.gaps
    steps = tables.of("steps", process)
    ends = steps["end_ns"].to_numpy(dtype=np.int64)
    row = np.searchsorted(ends, gaps.starts, side="right")
    known = row < len(ends)
    step = pd.array([None] * len(gaps), dtype="Int64")
    step[known] = steps["step"].to_numpy(dtype=np.int64)[row[known]]
    opened = places.cuts.iloc[np.maximum(places.opened, 0)] if len(places.cuts) else None
    held = places.opened != NOT_OPENED
    where = [
        tables.place(process, site).site if has else None
        for site, has in zip([] if opened is None else opened["site"], held, strict=False)
    ] or [None] * len(gaps)
    table = pd.DataFrame(
        {
            "process": np.full(len(gaps), process, np.int64),
            "rank": np.full(len(gaps), rank, np.int64),
            "step": step,
            "time_ns": gaps.starts,
            "duration_ns": gaps.lengths,
            "cause": np.array([str(state) for state in STATES], dtype=object)[gaps.causes],
        }
    )
    for number, state in enumerate(STATES):
        table[f"{state}_ns"] = gaps.by_state[:, number]
    kinds = [None] * len(gaps) if opened is None else opened["kind"].astype(object).where(held, None).tolist()
    table["opened_by"] = pd.Series(kinds, dtype=object)
    table["opened_file"] = pd.Series([site.file if site else None for site in where], dtype=object)
    table["opened_line"] = pd.array([site.line if site else None for site in where], dtype="Int64")
    table["opened_function"] = pd.Series([site.function if site else None for site in where], dtype=object)
    return table
