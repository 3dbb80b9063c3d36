"""A plan of padding and what it costs: compiles, padding, seconds, with how far they can be trusted.

Every plan, listed or found by search, is judged by `evaluate` under the same model: the recorded batches, in their
order, each padded to the smallest bucket that holds it. Owns the judging; leaves the choice of buckets to ``search``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xla_insight.analysis.shapes.problem import Problem, mean_sizes
from xla_insight.analysis.shapes.variants import Variant
from xla_insight.facts.shapes import Objective

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Buckets = tuple[tuple[int, ...], ...]
"""For each axis its bucket ends, smallest first."""

AS_RECORDED = "as_recorded"
_LIKELY = 1.645
"""Standard deviations on each side that hold 90 %."""
_SMALL = 0.05
"""Compiles that take less than this share of the steps' time may be off by an unknown part."""


_WEIGHTS = {Objective.TIME: (1.0, 1.0), Objective.STEPS: (1e-6, 1.0), Objective.COMPILES: (1.0, 1e-6)}
"""Of compiling and of steps. What does not count decides between equals still."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What plans are compared by: the objective, over the recorded steps and ``future_steps`` of the same kind."""

    future_steps: int = 0
    objective: Objective = Objective.TIME

    @property
    def weights(self) -> tuple[float, float]:
        """What a second of compiling and a second of steps count."""
        return _WEIGHTS[self.objective]

    def cost(self, plan: Plan) -> float:
        """What is to be least, in seconds."""
        compiling, steps = self.weights
        return compiling * plan.compile_s + steps * plan.step_s


@dataclass(frozen=True)
class Plan:
    """A plan judged over the recorded steps and those to come. Seconds are inferred from the fitted models.

    With several ranks, compiles are those of all of them, and seconds those of a rank on average.
    """

    id: str
    """`as_recorded`, `pad_to_max`, `multiples_of_8`, `powers_of_two`, `optimal_3`, `group_by_length`, …"""
    word: str
    buckets: Buckets | None
    """None: sizes stay as they are. Empty: no axis to bucket, only rows to fill up."""
    compiles: int
    compile_s: float
    step_s: float
    waste: float
    """Share (0 to 1) of the padded batches that this plan adds to the recorded ones."""
    range_s: tuple[float, float] | None
    """Where the total lies with a likelihood of 90 %, as far as the models can say."""
    extrapolated: bool = False
    """Some bucket lies outside the sizes that were timed."""
    memory_bytes: int | None = None
    """Of the largest graph that the plan uses: inputs, outputs and temporaries, less what is shared."""
    memory_inferred: bool = False
    """No recorded graph had that size: its memory is worked out from that of others."""
    note: str = ""
    changes_order: bool = False
    """It regroups samples into other batches, so it is no matter of padding alone."""

    @property
    def total_s(self) -> float:
        """Compile and step seconds together."""
        return self.compile_s + self.step_s


def padded(problem: Problem, buckets: Buckets) -> Integers:
    """Size of each combination on each axis under the buckets; a size above the largest bucket stays as it is."""
    sizes = problem.sizes.copy()
    for axis, ends in enumerate(buckets):
        sizes[:, axis] = pad(sizes[:, axis], ends)
    return sizes


def pad(sizes: Integers, ends: tuple[int, ...]) -> Integers:
    """Each size raised to the smallest end that holds it."""
    limits = np.array(ends, np.int64)
    place = np.searchsorted(limits, sizes)
    return np.where(place < len(limits), limits[np.minimum(place, len(limits) - 1)], sizes)


def evaluate(problem: Problem, name: tuple[str, str], buckets: Buckets | None, future_steps: int = 0) -> Plan:
    """Judge buckets (None: as recorded) over the recorded steps and ``future_steps`` of the same kind."""
    recorded = buckets is None
    sizes = padded(problem, buckets or ())
    unit_sizes = mean_sizes(problem, sizes)
    group = _groups(problem, sizes, recorded=recorded)
    compiles, compile_s = problem.compiles.fixed, problem.compiles.fixed_s
    for number in range(len(problem.compiles.variants)):
        count, seconds = _variant_compiles(problem, number, group, unit_sizes, measured=recorded)
        compiles, compile_s = compiles + count, compile_s + seconds
    recorded_steps_s = float(problem.shape_units @ step_seconds(problem, unit_sizes))
    scale, ranks = problem.scale(future_steps), problem.ranks
    step_s = recorded_steps_s * scale / ranks
    compile_s /= ranks
    total = compile_s + step_s
    off_s = _standard_error(problem, recorded_steps_s, 0.0 if recorded else compile_s, scale)
    known = None if off_s is None else _LIKELY * off_s
    used = problem.shape_units > 0
    memory_bytes, memory_inferred = _memory(problem, unit_sizes[used])
    return Plan(
        *name,
        buckets=buckets,
        compiles=compiles,
        compile_s=compile_s,
        step_s=step_s,
        waste=waste(problem, sizes, rows_filled=not recorded),
        range_s=None if known is None else (max(0.0, total - known), total + known),
        extrapolated=problem.step is None or bool(problem.step.outside(unit_sizes[used]).any()),
        memory_bytes=memory_bytes,
        memory_inferred=memory_inferred,
    )


def step_seconds(problem: Problem, unit_sizes: Floats) -> Floats:
    """Seconds of one step of each row of sizes, compiles aside."""
    assert problem.step is not None
    return problem.step.seconds(unit_sizes) + problem.overhead_s


def compile_seconds(problem: Problem, variant: int, unit_sizes: Floats) -> Floats:
    """What compiling a variant once takes of a run's wall time, at each row of sizes."""
    model = problem.compile_models[variant]
    if model is None:
        return np.zeros(len(unit_sizes))
    return problem.compile_factor * model.seconds(unit_sizes)


def waste(problem: Problem, sizes: Integers, *, rows_filled: bool) -> float:
    """Share of the padded elements that were not in the recorded batches."""
    before, after = elements(problem, problem.sizes), elements(problem, sizes)
    if problem.rows is not None:
        before = before * problem.rows.sizes
        after = after * (problem.rows.sizes.max() if rows_filled else problem.rows.sizes)
    whole = float(problem.counts @ after)
    return 1 - float(problem.counts @ before) / whole if whole else 0.0


def elements(problem: Problem, sizes: Integers) -> Floats:
    """Elements a row of each combination: of each leading tensor the product of its axes, and their sum."""
    leaders: dict[str, Floats] = {}
    for number, axis in enumerate(problem.axes):
        name = axis.leader.input
        leaders[name] = leaders.get(name, np.ones(len(sizes))) * sizes[:, number]
    return np.sum(list(leaders.values()), axis=0) if leaders else np.ones(len(sizes))


def _groups(problem: Problem, sizes: Integers, *, recorded: bool) -> Integers:
    """A number for each unit shape: equal where the padded batches are equal, so that one graph serves both."""
    if recorded:
        return np.arange(len(problem.shapes))
    if not sizes.shape[1]:
        return np.zeros(len(problem.shapes), np.int64)
    _, code = np.unique(sizes, axis=0, return_inverse=True)
    code = np.append(code.ravel(), -1)
    return np.unique(code[problem.shapes], axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def _variant_compiles(
    problem: Problem, number: int, group: Integers, unit_sizes: Floats, *, measured: bool
) -> tuple[int, float]:
    """Compiles of one variant, and their seconds."""
    variant: Variant = problem.compiles.variants[number]
    shapes = variant.shapes[problem.shape_units[variant.shapes] > 0]
    _, first = np.unique(group[shapes], return_index=True)
    seconds = compile_seconds(problem, number, unit_sizes[shapes[first]])
    if measured:
        own = variant.compile_s[problem.shape_units[variant.shapes] > 0][first] * problem.compile_factor
        seconds = np.where(np.isfinite(own), own, seconds)
    return len(first), float(seconds.sum())


def _memory(problem: Problem, unit_sizes: Floats) -> tuple[int | None, bool]:
    """Memory of the graph at the largest padded sizes, and whether it is inferred as no recorded graph had them."""
    largest = unit_sizes[np.argmax(np.prod(unit_sizes, axis=1))]
    alike = np.flatnonzero((mean_sizes(problem, problem.sizes) == largest).all(axis=1))
    known = problem.shape_memory[alike]
    if np.isfinite(known).any():
        return int(np.nanmax(known)), False
    if problem.memory is None or problem.memory.error is None:
        return None, False
    return int(problem.memory.curve(largest[None, :])[0]), True


def _standard_error(problem: Problem, recorded_steps_s: float, compile_s: float, scale: float) -> float | None:
    """Of a plan's seconds on one rank; None when it is not known.

    Three things, each independent of the others: compiles, which are all off together when the machine was slower while
    it compiled; steps, by the curve and by so many single ones; and the machine's own change of speed. ``compile_s``:
    those that were not measured as they are.
    """
    if problem.step is None or problem.spread_s is None:
        return None
    compile_error = problem.compile_error
    if compile_error is None:
        if compile_s * problem.ranks > _SMALL * recorded_steps_s * scale:
            return None
        compile_error = 0.0
    device_s = max(0.0, recorded_steps_s - problem.units * problem.overhead_s)
    curve_s = (problem.step.error or 0.0) * device_s * scale / np.sqrt(max(1, problem.step.points))
    noise_s = problem.spread_s * np.sqrt(problem.units * scale) + problem.spread_s * scale * np.sqrt(problem.units)
    drift_s = abs(problem.drift) / 2 * recorded_steps_s * scale
    steps_s = float(np.hypot(curve_s, noise_s)) / problem.ranks
    return float(np.hypot(np.hypot(steps_s, drift_s / problem.ranks), compile_error * compile_s))
