"""Batches of a recorded run and what each of them cost: shapes, time, and the graphs it was cut into.

Owns the joining of batch tensors to graphs. A *unit* begins with the first batch after a cut and lasts until the batch
after the next cut, so each cut belongs to the batches it used, wherever the step mark stands. Batches of one structure
(names, ranks, dtypes) fetched at one line are one *kind*: training and evaluation are kept apart. Works on codes and
counts, so that a million batches take a second. Leaves what the shapes mean to ``axes`` and ``variants``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchInput:
    """One tensor of a batch: its key in the batch, its dimensions, its dtype."""

    name: str
    dims: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Kind:
    """Batches that look alike but for their sizes, fetched at one line."""

    names: tuple[str, ...]
    ranks: tuple[int, ...]
    dtypes: tuple[str, ...]
    file: str | None
    line: int | None


@dataclass(frozen=True)
class Batches:
    """Batches of all ranks. A *combination* is the dimensions of all tensors of one batch."""

    kinds: tuple[Kind, ...]
    kind_of: Integers
    """Kind of each combination."""
    combinations: tuple[tuple[BatchInput, ...], ...]
    batch_combination: Integers
    batch_unit: Integers
    batch_rank: Integers
    unit_rank: Integers
    unit_start_ns: Integers
    unit_wall_s: Floats
    """From the unit's first batch to the next unit's."""
    unit_busy_s: Floats
    """Device time of its executions, without their time in the queue; NaN when none was timed."""
    unit_compile_s: Floats
    unit_compiles: Integers

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self.unit_start_ns)


@dataclass(frozen=True)
class Frames:
    """The tables of a run's processes, with the columns that ``ranks`` chooses; texts as categories.

    Inputs, executions and compiles have a column ``rank`` beside these: 0, 1, 2, … without gaps.
    """

    inputs: pd.DataFrame
    executions: pd.DataFrame
    compiles: pd.DataFrame
    graphs: pd.DataFrame
    sites: pd.DataFrame


def build_batches(frames: Frames) -> Batches | None:
    """Batches and units; None when no batch tensor, or no execution, was recorded."""
    inputs = batch_inputs(frames.inputs)
    cuts = np.sort(_integers(frames.executions["cut_ns"]), kind="stable")
    if inputs.empty or not len(cuts):
        return None
    times = _integers(inputs["time_ns"])
    following = np.searchsorted(cuts, times, "right")
    unit_of = np.cumsum(np.diff(following, prepend=following[0] - 1) != 0) - 1
    unit_start = times[np.flatnonzero(np.diff(unit_of, prepend=-1))]
    durations = _unit_times(frames, unit_start)  # before there is more in memory
    codes, meanings = _codes(inputs)
    first = _batch_starts(inputs, unit_of)
    combination, sample = distinct(_batch_keys(codes, first))
    ends = np.append(first[1:], len(codes))
    combinations, sites = [], []
    for batch in sample:
        rows = [meanings[code] for code in codes[first[batch] : ends[batch]]]
        combinations.append(_named([row[0] for row in rows]))
        sites.append(rows[0][1])
    kinds, kind_of = _kinds(combinations, sites, frames.sites)
    return Batches(
        kinds=kinds,
        kind_of=kind_of,
        combinations=tuple(combinations),
        batch_combination=combination,
        batch_unit=unit_of[first],
        batch_rank=_integers(inputs["rank"])[first],
        unit_rank=_integers(inputs["rank"])[np.flatnonzero(np.diff(unit_of, prepend=-1))],
        unit_start_ns=unit_start,
        **durations,
    )


def unit_at(batches: Batches, cut_ns: Integers) -> Integers:
    """The unit that each cut belongs to; -1 for cuts before the first batch."""
    return np.searchsorted(batches.unit_start_ns, cut_ns, "right").astype(np.int64) - 1


def distinct(values: npt.NDArray[Any]) -> tuple[Integers, Integers]:
    """A number for each value, in order of appearance, and where each number appears first. Takes no sorting."""
    codes, found = pd.factorize(values)
    first = np.empty(len(found), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes.astype(np.int64, copy=False), first


def batch_inputs(inputs: pd.DataFrame) -> pd.DataFrame:
    """Tensors with a key where there are any: what else goes to the device then is no part of a batch."""
    named = inputs["name"].notna()
    return inputs[named] if named.any() and not named.all() else inputs


def _codes(inputs: pd.DataFrame) -> tuple[Integers, list[tuple[BatchInput, int]]]:
    """A number for each distinct (name, dims, dtype, site), and what it stands for with its site."""
    columns = [_category(inputs[name]) for name in ("name", "dims", "dtype")]
    site = pd.factorize(inputs["site"])
    parts = [*((codes, len(words)) for codes, words in columns), (site[0].astype(np.int64), len(site[1]))]
    mixed = np.zeros(len(inputs), np.int64)
    for codes, size in parts:
        mixed = mixed * (size + 1) + codes + 1
    code, sample = distinct(mixed)
    meanings = []
    for row in sample:
        name, dims, dtype = (words[codes[row]] if codes[row] >= 0 else "" for codes, words in columns)
        place = int(site[1][site[0][row]]) if site[0][row] >= 0 else -1
        meanings.append((BatchInput(name, tuple(json.loads(dims)), dtype), place))
    return code, meanings


def _category(column: pd.Series[Any]) -> tuple[Integers, list[str]]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(np.int64), [str(word) for word in column.cat.categories]
    codes, words = pd.factorize(column)
    return codes.astype(np.int64), [str(word) for word in words]


def _batch_starts(inputs: pd.DataFrame, unit_of: Integers) -> Integers:
    """Rows at which a batch begins: with each unit, and where the first key of the unit comes again."""
    new_unit = np.diff(unit_of, prepend=-1) != 0
    names, _ = _category(inputs["name"])
    first_name = names[np.flatnonzero(new_unit)][unit_of]
    return np.flatnonzero(new_unit | ((names == first_name) & (names >= 0)))


def _batch_keys(codes: Integers, first: Integers) -> npt.NDArray[np.uint64]:
    """A 64-bit key of each batch from the codes of its tensors in their order."""
    words = np.random.default_rng(0).integers(1, 2**63, size=int(codes.max()) + 1, dtype=np.uint64)
    position = np.arange(len(codes)) - np.repeat(first, np.diff(np.append(first, len(codes))))
    turn = np.uint64(2) * position.astype(np.uint64) + np.uint64(1)
    return np.add.reduceat(words[codes] * turn, first)


UNNAMED = "tensor "
"""Begin of the name of a tensor that is of no batch of a loader: no collator knows it."""


def _named(inputs: list[BatchInput]) -> tuple[BatchInput, ...]:
    """Tensors without a key are called by their place among those that are uploaded."""
    return tuple(
        entry if entry.name else BatchInput(f"{UNNAMED}{number}", entry.dims, entry.dtype)
        for number, entry in enumerate(inputs, 1)
    )


def _kinds(
    combinations: list[tuple[BatchInput, ...]], sites: list[int], places: pd.DataFrame
) -> tuple[tuple[Kind, ...], Integers]:
    known = {int(row.site): (row.file, row.line) for row in places.itertuples()}
    found: dict[Kind, int] = {}
    kind_of = []
    for inputs, site in zip(combinations, sites, strict=True):
        file, line = known.get(site, (None, None))
        kind = Kind(
            tuple(entry.name for entry in inputs),
            tuple(len(entry.dims) for entry in inputs),
            tuple(entry.dtype for entry in inputs),
            file if isinstance(file, str) else None,
            None if pd.isna(line) else int(line),
        )
        kind_of.append(found.setdefault(kind, len(found)))
    return tuple(found), np.array(kind_of, np.int64)


def _unit_times(frames: Frames, start: Integers) -> dict[str, Any]:
    count = len(start)
    executions, compiles = frames.executions, frames.compiles
    known = executions["duration_ns"].notna().to_numpy(np.bool_)
    rows = executions if known.all() else executions[known]
    begin = _integers(rows["time_ns"])
    end = begin + _integers(rows["duration_ns"])
    cut = np.searchsorted(start, _integers(rows["cut_ns"]), "right") - 1
    free_from = np.maximum.accumulate(np.concatenate(([0], end)))[:-1] if len(end) else end
    busy = np.maximum(0, end - np.maximum(begin, free_from))
    if len(cut) and cut.min() < 0:
        cut, busy = cut[cut >= 0], busy[cut >= 0]
    # Of nothing, bincount makes integers.
    busy_s = np.bincount(cut, busy / 1e9, count).astype(np.float64)
    busy_s[np.bincount(cut, minlength=count) == 0] = np.nan
    compiled = np.searchsorted(start, _integers(compiles["cut_ns"]), "right") - 1
    inside = compiled >= 0
    compile_s = np.nan_to_num(compiles["duration_ns"].to_numpy(np.float64, na_value=np.nan)) / 1e9
    last = max([int(start[-1]), *([int(end.max())] if len(end) else [])])
    return {
        "unit_wall_s": np.diff(np.append(start, last)) / 1e9,
        "unit_busy_s": busy_s,
        "unit_compile_s": np.bincount(compiled[inside], compile_s[inside], count).astype(np.float64),
        "unit_compiles": np.bincount(compiled[inside], minlength=count).astype(np.int64),
    }


def _integers(column: pd.Series[Any]) -> Integers:
    values: Integers = column.to_numpy(np.int64)
    return values
