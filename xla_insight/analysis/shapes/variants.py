"""Which graphs each shape of a batch got: what another choice of shapes would have to compile.

A graph that ran for several shapes does not depend on them; it compiles once whatever the plan. Each other graph is a
*variant* of its place in the unit (first graph, second graph, …): one graph a shape there, in the mode most runs use.
A second graph at the same place for the same shape is another *mode* (a first step without optimizer state, a phase of
accumulation). A plan compiles each variant once for each padded shape it meets. Each rank compiles for itself, so a
variant is of one rank. Owns that model of compiles.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from xla_insight.analysis.shapes.batches import Batches, Frames, distinct, unit_at

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WARM_UP = -1
"""The mode of graphs that only the first two units ran, before optimizer state existed."""
_WARM_UP_UNITS = 2
_OTHER_INPUTS = 0.1


@dataclass(frozen=True)
class Variant:
    """One place in a unit, in one mode, on one rank: the shapes that got a graph of their own there."""

    place: int
    mode: int
    rank: int
    shapes: Integers
    """Unit shapes, as indices."""
    compile_s: Floats
    """Compile seconds of each shape's graph; NaN when it was not seen compiling."""
    graphs: tuple[str, ...]


@dataclass(frozen=True)
class Compiles:
    """All compiles of a process, divided into those that depend on shapes and the rest."""

    variants: tuple[Variant, ...]
    fixed: int
    """Compiles that no choice of shapes changes."""
    fixed_s: float
    named: bool
    """Whether graphs were told apart by their hash; if not, compiles are counted by shape only."""


@dataclass(frozen=True, slots=True)
class _Pair:
    shape: int
    graph: int
    """Place in the list of (rank, graph)."""
    first_unit: int
    last_unit: int
    executions: int


def find_compiles(frames: Frames, batches: Batches, unit_shape: Integers) -> Compiles:
    """Divide the compiles. ``unit_shape``: shape of each unit; -1 for units of another kind."""
    total, total_s = len(frames.compiles), float(frames.compiles["duration_ns"].sum()) / 1e9
    executions = frames.executions
    named = executions["graph"].notna().to_numpy(np.bool_)
    unit = unit_at(batches, executions["cut_ns"].to_numpy(np.int64))
    if not named.any():
        variants = _without_names(batches, unit_shape)
    else:
        codes, graphs = _named_graphs(executions)
        inside = named & (unit >= 0)
        inside[inside] = unit_shape[unit[inside]] >= 0
        if not inside.all():
            codes, unit = codes[inside], unit[inside]
        pairs = _dependent(_pairs(codes, unit, unit_shape))
        variants = _variants(pairs, _places(pairs, codes, unit), graphs, frames)
    seen = sum(int(np.isfinite(variant.compile_s).sum()) for variant in variants)
    seen_s = sum(float(np.nansum(variant.compile_s)) for variant in variants)
    return Compiles(tuple(variants), max(0, total - seen), max(0.0, total_s - seen_s), bool(named.any()))


def _named_graphs(executions: pd.DataFrame) -> tuple[Integers, list[tuple[int, str]]]:
    """A number for each execution's graph on its rank, and what it means; without a graph, it means nothing."""
    codes, names = pd.factorize(executions["graph"])
    rank = executions["rank"].to_numpy()
    if not rank.any():
        return codes.astype(np.int64, copy=False), [(0, str(name)) for name in names]
    number, first = distinct(codes.astype(np.int64) * (int(rank.max(initial=0)) + 1) + rank)
    return number, [(int(rank[row]), str(names[codes[row]]) if codes[row] >= 0 else "") for row in first]


def shape_memory(compiles: Compiles, frames: Frames, shapes: int) -> Floats:
    """Bytes of the largest graph of each shape: inputs, outputs and temporaries, less outputs that reuse an input."""
    graphs = frames.graphs.set_index(frames.graphs["graph"].astype(str))
    parts = graphs[["input_bytes", "output_bytes", "temporary_bytes", "aliased_bytes"]].astype("Float64")
    known = parts.iloc[:, :3].sum(axis=1, skipna=False) - parts["aliased_bytes"].fillna(0)
    bytes_of = {str(name): float(value) for name, value in known.dropna().items()}
    memory = np.full(shapes, np.nan)
    for variant in compiles.variants:
        for shape, graph in zip(variant.shapes.tolist(), variant.graphs, strict=False):
            memory[shape] = np.fmax(memory[shape], bytes_of.get(graph, np.nan))
    return memory


def _pairs(codes: Integers, unit: Integers, unit_shape: Integers) -> list[_Pair]:
    """Each (shape, graph) that ran, with the units it ran in."""
    if not len(codes):
        return []
    width = int(codes.max()) + 1
    key = unit_shape[unit] * width + codes
    pair, first = distinct(key)
    values, count = key[first], np.bincount(pair)
    last = np.empty(len(first), np.int64)
    last[pair] = np.arange(len(pair))
    return [
        _Pair(int(value // width), int(value % width), int(unit[begin]), int(unit[end]), int(number))
        for value, begin, end, number in zip(values, first, last, count, strict=True)
    ]


def _dependent(pairs: list[_Pair]) -> list[_Pair]:
    """Pairs of graphs that ran for one shape only."""
    shapes: dict[int, set[int]] = defaultdict(set)
    for pair in pairs:
        shapes[pair.graph].add(pair.shape)
    return [pair for pair in pairs if len(shapes[pair.graph]) == 1]


def _places(pairs: list[_Pair], codes: Integers, unit: Integers) -> dict[int, int]:
    """Graph -> its place among the graphs of its first unit that depend on shapes."""
    dependent = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
    dependent[[pair.graph for pair in pairs]] = True
    if (unit[1:] < unit[:-1]).any():  # an execution may belong to an earlier batch than the one before it
        order = np.argsort(unit, kind="stable")
        codes, unit = codes[order], unit[order]
    places = {}
    for pair in pairs:
        inside = codes[np.searchsorted(unit, pair.first_unit, "left") : np.searchsorted(unit, pair.first_unit, "right")]
        ran = list(dict.fromkeys(inside[dependent[inside]].tolist()))
        places[pair.graph] = ran.index(pair.graph)
    return places


def _variants(
    pairs: list[_Pair], place_of: dict[int, int], graphs: list[tuple[int, str]], frames: Frames
) -> list[Variant]:
    inputs = dict(zip(frames.graphs["graph"].astype(str), frames.graphs["inputs"].astype("Float64"), strict=True))
    seconds = _compile_seconds(frames)
    ranks = [rank for rank, _ in graphs]
    modes = _modes(pairs, place_of, [inputs.get(name) for _, name in graphs], ranks)
    grouped: dict[tuple[int, int, int], list[_Pair]] = defaultdict(list)
    for pair in pairs:
        grouped[place_of[pair.graph], modes[pair.graph], ranks[pair.graph]].append(pair)
    return [
        Variant(
            place,
            mode,
            rank,
            np.array([pair.shape for pair in members], np.int64),
            np.array([seconds.get(graphs[pair.graph], np.nan) for pair in members]),
            tuple(graphs[pair.graph][1] for pair in members),
        )
        for (place, mode, rank), members in sorted(grouped.items())
    ]


def _modes(pairs: list[_Pair], place_of: dict[int, int], inputs: list[object], ranks: list[int]) -> dict[int, int]:
    """Graph -> mode: by how often it ran among the graphs of its shape, place and rank; `WARM_UP` apart."""
    usual = _usual_inputs(pairs, place_of, inputs)
    first_units = _first_units(pairs, ranks)
    modes: dict[int, int] = {}
    taken: dict[tuple[int, int, int], int] = defaultdict(int)
    for pair in sorted(pairs, key=lambda pair: (-pair.executions, -pair.first_unit)):
        known, typical = _number(inputs[pair.graph]), usual.get(place_of[pair.graph])
        early = pair.last_unit in first_units
        if early and known is not None and typical and abs(known - typical) > _OTHER_INPUTS * typical:
            modes[pair.graph] = WARM_UP
            continue
        where = (pair.shape, place_of[pair.graph], ranks[pair.graph])
        modes[pair.graph] = taken[where]
        taken[where] += 1
    return modes


def _first_units(pairs: list[_Pair], ranks: list[int]) -> set[int]:
    """The first units of every rank in which a graph of a shape ran first."""
    began: dict[int, set[int]] = defaultdict(set)
    for pair in pairs:
        began[ranks[pair.graph]].add(pair.first_unit)
    return {unit for units in began.values() for unit in sorted(units)[:_WARM_UP_UNITS]}


def _usual_inputs(pairs: list[_Pair], place_of: dict[int, int], inputs: list[object]) -> dict[int, float]:
    """Place -> median number of inputs over executions there."""
    found: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for pair in pairs:
        known = _number(inputs[pair.graph])
        if known is not None:
            found[place_of[pair.graph]].append((known, pair.executions))
    return {
        place: float(np.median(np.repeat([known for known, _ in rows], [count for _, count in rows])))
        for place, rows in found.items()
    }


def _number(value: object) -> float | None:
    return None if value is None or pd.isna(value) else float(value)  # type: ignore[arg-type]


def _compile_seconds(frames: Frames) -> dict[tuple[int, str], float]:
    """(rank, graph) -> seconds of its first compile there."""
    known = frames.compiles[frames.compiles["graph"].notna() & frames.compiles["duration_ns"].notna()]
    first = known.drop_duplicates(["rank", "graph"])
    names = zip(first["rank"].tolist(), first["graph"].astype(str), strict=True)
    return dict(zip(names, first["duration_ns"].to_numpy(np.float64) / 1e9, strict=True))


def _without_names(batches: Batches, unit_shape: Integers) -> list[Variant]:
    """Without hashes: the compiles in the first unit of each shape, on each rank, are taken to be its own."""
    variants = []
    for rank in np.unique(batches.unit_rank).tolist():
        units = np.flatnonzero((unit_shape >= 0) & (batches.unit_compiles > 0) & (batches.unit_rank == rank))
        shapes, first = np.unique(unit_shape[units], return_index=True)
        counts = batches.unit_compiles[units[first]]
        for place in range(int(counts.max(initial=0))):
            having = counts > place
            seconds = batches.unit_compile_s[units[first]][having] / counts[having]
            variants.append(Variant(place, 0, rank, shapes[having], seconds, ()))
    return variants
