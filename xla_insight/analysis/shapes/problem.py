"""What a plan is judged by: the recorded shapes with their counts, and the costs fitted to this run.

Owns the choice of batches to plan for (those of the kind that took most time), and which measured times the models are
fitted to. Steps that compiled are left out of the fit where a shape has others. Leaves the search to ``plans``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from xla_insight.analysis.shapes.axes import Axis, find_axes
from xla_insight.analysis.shapes.batches import Batches, BatchInput, Frames, Kind
from xla_insight.analysis.shapes.costs import CostModel, fit
from xla_insight.analysis.shapes.variants import WARM_UP, Compiles, find_compiles, shape_memory
from xla_insight.facts import numbers

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_AXES = 2
ENOUGH_SHAPES, ENOUGH_STEPS = 3, 20
"""Fewer, and the data is called thin."""
_LONG = 4.0
"""A step longer than so many typical ones held something else (a checkpoint, an evaluation)."""


@dataclass(frozen=True)
class Problem:
    """Recorded batches of one kind, compressed to their distinct combinations."""

    kind: Kind
    combinations: tuple[tuple[BatchInput, ...], ...]
    counts: Integers
    """Batches of each combination."""
    batch_combination: Integers
    """Combination of each batch, in order of time; of several ranks, the first batch of each, then the second, …"""
    axes: tuple[Axis, ...]
    """Those to be bucketed: at most `MOST_AXES`."""
    rows: Axis | None
    padded_axes: tuple[Axis, ...]
    """Further ones, which every plan pads to their largest size."""
    shapes: Integers
    """Unit shape -> its batches' combinations, -1 where it has fewer."""
    shape_units: Floats
    """Units of each shape."""
    shape_busy_s: Floats
    """Median device seconds of each shape; NaN when not timed."""
    shape_memory: Floats
    """Bytes that the largest graph of each shape needs; NaN when not known."""
    compiles: Compiles
    step: CostModel | None
    """Device seconds of one unit."""
    overhead_s: float
    """What a unit takes beside its device time and compiles."""
    compile_models: tuple[CostModel | None, ...]
    """Of each variant."""
    compile_factor: float
    """Wall seconds of a compile for each second the compiler itself took: lowering, loading."""
    spread_s: float | None
    """Standard deviation of one unit's time around its model."""
    left_out: int
    """Batches of other kinds."""
    recorded_s: float
    """Seconds of a rank from its first unit of this kind on, those of other kinds left out."""
    memory: CostModel | None = None
    """Bytes of the largest graph of a unit."""
    drift: float = 0.0
    """How much longer steps got from the first half of the recording to the second, as a share of a step."""
    ranks: int = 1
    """Processes that trained side by side; counts are those of all of them."""

    @property
    def units(self) -> int:
        """Units of this kind, of all ranks."""
        return round(float(self.shape_units.sum()))

    @property
    def steps(self) -> int:
        """Steps this is about: units of a rank."""
        return round(self.units / self.ranks)

    @property
    def compile_error(self) -> float | None:
        """Typical distance of a compile's seconds from its model, as a share; None when no model can say."""
        pairs = zip(self.compiles.variants, self.compile_models, strict=True)
        known = [
            (float(np.nansum(variant.compile_s)), model.error)
            for variant, model in pairs
            if model is not None and model.error is not None
        ]
        whole = sum(seconds for seconds, _ in known)
        return sum(seconds * error for seconds, error in known) / whole if whole > 0 else None

    def scale(self, future_steps: int) -> float:
        """How often the recorded steps are taken, when so many of the same kind follow."""
        return 1 + future_steps * self.ranks / max(1, self.units)

    @property
    def sizes(self) -> Integers:
        """Size of each combination (row) on each of `axes` (column)."""
        return (
            np.stack([axis.sizes for axis in self.axes], axis=1)
            if self.axes
            else np.zeros((len(self.counts), 0), np.int64)
        )

    @property
    def batches_a_unit(self) -> int:
        """Batches of the largest unit: 1 unless gradients are accumulated over several before a cut."""
        return int(self.shapes.shape[1])

    @property
    def thin(self) -> tuple[str, ...]:
        """What there is too little of to trust the models."""
        reasons = []
        steady = 0 if self.step is None else self.step.samples
        if steady < ENOUGH_STEPS:
            reasons.append(f"only {numbers.plural(steady, 'timed step')}")
        if self.axes and (self.step is None or self.step.points < ENOUGH_SHAPES):
            reasons.append(f"only {0 if self.step is None else self.step.points} shapes were timed")
        unseen = sum(int(np.isnan(variant.compile_s).sum()) for variant in self.compiles.variants)
        if unseen:
            reasons.append(f"{unseen} graphs were not seen compiling, as in a run that finds them in a cache")
        if None in self.compile_models:
            reasons.append("seconds of compiles that were never seen are missing from the totals")
        if not self.compiles.named:
            reasons.append("graphs have no hash in this recording, so compiles are counted by shape")
        return tuple(reasons)


def build_problem(frames: Frames, batches: Batches) -> Problem | None:
    """The problem of the kind of batch that took most time; None when no unit could be timed."""
    chosen = _main_kind(batches)
    of_kind = batches.kind_of[batches.batch_combination] == chosen
    used = np.flatnonzero(batches.kind_of == chosen)
    number = np.full(len(batches.kind_of), -1, np.int64)
    number[used] = np.arange(len(used))
    combination = number[batches.batch_combination[of_kind]]
    unit_shape, shapes = _unit_shapes(combination, batches.batch_unit[of_kind], batches.units)
    combinations = tuple(batches.combinations[index] for index in used)
    counts = np.bincount(combination, minlength=len(used)).astype(np.int64)
    axes = find_axes(combinations, counts)
    bucketed = tuple(axis for axis in axes if not axis.rows)
    compiles = find_compiles(frames, batches, unit_shape)
    ranks = len(np.unique(batches.batch_rank[of_kind]))
    problem = Problem(
        kind=batches.kinds[chosen],
        combinations=combinations,
        counts=counts,
        batch_combination=combination[_side_by_side(batches.batch_rank[of_kind])],
        axes=bucketed[:MOST_AXES],
        rows=next((axis for axis in axes if axis.rows), None),
        padded_axes=bucketed[MOST_AXES:],
        shapes=shapes,
        shape_units=np.bincount(unit_shape[unit_shape >= 0], minlength=len(shapes)).astype(np.float64),
        shape_busy_s=np.full(len(shapes), np.nan),
        shape_memory=shape_memory(compiles, frames, len(shapes)),
        compiles=compiles,
        step=None,
        overhead_s=0.0,
        compile_models=(),
        compile_factor=1.0,
        spread_s=None,
        left_out=int((~of_kind).sum()),
        recorded_s=float(batches.unit_wall_s[unit_shape >= 0].sum()) / ranks,
        ranks=ranks,
    )
    return _with_costs(problem, batches, unit_shape)


def mean_sizes(problem: Problem, sizes: Integers) -> Floats:
    """Size of each unit shape on each axis: the mean over its batches. ``sizes``: those of each combination."""
    present = problem.shapes >= 0
    summed = (sizes[problem.shapes].astype(np.float64) * present[:, :, None]).sum(axis=1)
    means: Floats = summed / present.sum(axis=1)[:, None]
    return means


def _side_by_side(rank: Integers) -> Integers:
    """The order in which batches of several ranks are shown: by their number within the rank, then by rank."""
    if not rank.any():
        return np.arange(len(rank))
    number = pd.Series(rank).groupby(rank).cumcount().to_numpy(np.int64)
    return np.lexsort((rank, number)).astype(np.int64)


def _main_kind(batches: Batches) -> int:
    wall = batches.unit_wall_s[batches.batch_unit]
    kind = batches.kind_of[batches.batch_combination]
    return int(np.argmax(np.bincount(kind, wall + 1e-9, len(batches.kinds))))


def _unit_shapes(combination: Integers, unit: Integers, units: int) -> tuple[Integers, Integers]:
    """Shape of each unit (-1: none of this kind), and the combinations of each shape's batches."""
    first = np.flatnonzero(np.diff(unit, prepend=-1))
    present, counts = unit[first], np.diff(np.append(first, len(unit)))
    most = int(counts.max())
    table = np.full((len(present), most), -1, np.int64)
    position = np.arange(len(unit)) - np.repeat(first, counts)
    table[np.repeat(np.arange(len(present)), counts), position] = combination
    if most == 1:
        used = np.flatnonzero(np.bincount(table[:, 0]))
        shapes, code = used[:, None], np.searchsorted(used, table[:, 0])
    else:
        shapes, code = np.unique(table, axis=0, return_inverse=True)
    of_unit = np.full(units, -1, np.int64)
    of_unit[present] = code.ravel()
    return of_unit, shapes


def _with_costs(problem: Problem, batches: Batches, unit_shape: Integers) -> Problem | None:
    """The problem with its models."""
    ours = np.flatnonzero(unit_shape >= 0)
    shape, compiled = unit_shape[ours], batches.unit_compiles[ours] > 0
    wall = batches.unit_wall_s[ours] - batches.unit_compile_s[ours]
    busy = batches.unit_busy_s[ours]
    timed = np.isfinite(busy)
    if not timed.any():
        busy, timed = wall, np.ones(len(wall), np.bool_)
    steady = timed & ~compiled
    alone = ~np.isin(shape, shape[steady])
    medians, samples = _medians(shape, busy, steady | (timed & alone), len(problem.shapes))
    known = samples > 0
    if not known.any():
        return None
    model = fit(mean_sizes(problem, problem.sizes)[known], medians[known], samples[known], own=True)
    assert model is not None
    expected = model.seconds(mean_sizes(problem, problem.sizes))[shape]
    used = ~compiled if (~compiled).any() else compiled
    beside = np.minimum((wall - expected)[used], _LONG * float(np.median(wall)))
    overhead = max(0.0, float(np.mean(beside))) if len(beside) else 0.0
    enough = len(beside) >= ENOUGH_STEPS
    factor = _compile_factor(batches, ours[compiled], expected[compiled] + overhead)
    whole = replace(
        problem,
        shape_busy_s=medians,
        step=model,
        overhead_s=overhead,
        spread_s=float(np.std(beside)) if enough else None,
        drift=_drift(beside, batches.unit_rank[ours][used]) / float(np.mean(wall[used])) if enough else 0.0,
        compile_factor=factor,
    )
    return replace(whole, compile_models=_compile_models(whole), memory=_memory_model(whole))


def _drift(seconds: Floats, rank: Integers) -> float:
    """How much longer a step of the second half takes than one of the first, each rank's halves apart."""
    of_ranks = [seconds[rank == one] for one in range(int(rank.max()) + 1)]
    early, late = (np.concatenate(halves) for halves in zip(*(np.array_split(own, 2) for own in of_ranks), strict=True))
    return float(late.mean() - early.mean())


def _medians(shape: Integers, seconds: Floats, chosen: npt.NDArray[np.bool_], count: int) -> tuple[Floats, Floats]:
    """Median of the chosen units of each shape, and how many they are."""
    grouped = pd.Series(seconds[chosen]).groupby(shape[chosen]).median()
    medians = np.full(count, np.nan)
    medians[grouped.index.to_numpy(np.int64)] = grouped.to_numpy(np.float64)
    return medians, np.bincount(shape[chosen], minlength=count).astype(np.float64)


def _compile_factor(batches: Batches, units: Integers, expected: Floats) -> float:
    """How much longer a step gets by compiling than the compiler itself took."""
    compile_s = batches.unit_compile_s[units]
    worth = compile_s > expected
    if not worth.any():
        return 1.0
    ratio = (batches.unit_wall_s[units] - expected)[worth] / compile_s[worth]
    return float(np.clip(np.median(ratio), 1.0, 2.0))


def _compile_models(problem: Problem) -> tuple[CostModel | None, ...]:
    """Compile seconds of each variant by sizes, fitted to all ranks' compiles of that place and mode.

    What was compiled in the warm-up is as dear as it was.
    """
    sizes = mean_sizes(problem, problem.sizes)
    models: dict[tuple[int, int], CostModel | None] = {}
    for key in {(variant.place, variant.mode) for variant in problem.compiles.variants}:
        alike = [variant for variant in problem.compiles.variants if (variant.place, variant.mode) == key]
        shapes = np.concatenate([variant.shapes for variant in alike])
        seconds = np.concatenate([variant.compile_s for variant in alike])
        known = np.isfinite(seconds)
        at = sizes[shapes[known]]
        models[key] = fit(at[:, :0] if key[1] == WARM_UP else at, seconds[known], np.ones(int(known.sum())))
    return tuple(models[variant.place, variant.mode] for variant in problem.compiles.variants)


def _memory_model(problem: Problem) -> CostModel | None:
    """Bytes of the largest graph by sizes; None when no graph's memory is known."""
    known = np.isfinite(problem.shape_memory)
    at = mean_sizes(problem, problem.sizes)[known]
    return fit(at, problem.shape_memory[known], np.ones(int(known.sum())))
