"""What regrouping samples would do: batches of similar length, and as many tokens in every batch.

Single lengths are not recorded, only each batch's largest. Were a batch a random draw, its largest of n samples would
follow the n-th power of the distribution of one sample; the n-th root gives that distribution back. Nothing is known
below the smallest recorded batch, so all shorter samples count as that long: times here are upper bounds. Sorting is as
in the usual samplers: within groups of `GROUP_BATCHES` batches. Everything here is inferred, and says so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from xla_insight.analysis.shapes.plans import Goal, Plan, step_seconds
from xla_insight.analysis.shapes.problem import Problem
from xla_insight.analysis.shapes.search import optimal_plans
from xla_insight.facts import numbers

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

GROUP_BATCHES = 50
"""Batches that are sorted together."""
FEWEST_BATCHES = 50
_NOTE = (
    "At most this long: single lengths were not recorded; their distribution is inferred from the batches' largest,"
    " and the shorter half is not seen."
)
_TOKENS_NOTE = " Shorter batches hold more samples, which changes the optimisation; time is taken to grow with rows."


def alternatives(problem: Problem, goal: Goal) -> list[Plan]:
    """Group by length, and fixed tokens on top of it; none when it cannot be inferred."""
    rows = batch_rows(problem)
    if len(problem.axes) != 1 or rows is None or rows < 2 or problem.batches_a_unit > 1:
        return []
    if problem.rows is None and problem.axes[0].leader.index == 0:
        return []
    if int(problem.counts.sum()) < FEWEST_BATCHES:
        return []
    grouped = _regrouped(problem, rows)
    best = min(optimal_plans(grouped, goal), key=goal.cost)
    by_length = replace(
        best,
        id="group_by_length",
        word=f"group by length, {_count(best)}",
        note=_NOTE,
        range_s=None,
        changes_order=True,
        waste=1 - _recorded_share(problem, grouped) * (1 - best.waste),
    )
    return [by_length, _fixed_tokens(grouped, by_length, rows, goal.future_steps)]


def batch_rows(problem: Problem) -> int | None:
    """Samples in a whole batch; None when the leading tensor has no other dimension that says so."""
    if problem.rows is not None:
        return int(problem.rows.values[-1])
    if not problem.axes or problem.axes[0].leader.index == 0:
        return None
    lead = problem.axes[0].leader.input
    sizes = {entry.dims[0] for inputs in problem.combinations for entry in inputs if entry.name == lead}
    return sizes.pop() if len(sizes) == 1 else None


def sample_lengths(values: Integers, counts: Integers, rows: int) -> Floats:
    """Share of samples up to each size, from how often each size was the largest of ``rows``."""
    share: Floats = (np.cumsum(counts) / counts.sum()) ** (1 / rows)
    return share


def _regrouped(problem: Problem, rows: int) -> Problem:
    """The problem with batches sorted by length: as many of them, of other sizes."""
    axis = problem.axes[0]
    values = axis.values
    share = sample_lengths(values, axis.value_counts, rows)
    quantiles = 1 - np.arange(GROUP_BATCHES) / GROUP_BATCHES
    place = np.minimum(np.searchsorted(share, quantiles, "left"), len(values) - 1)
    weight_of = np.bincount(place, minlength=len(values)) / GROUP_BATCHES
    # One combination stands for each size: the most frequent one (others differ in rows only).
    counts = np.zeros(len(problem.counts))
    for value, weight in zip(values, weight_of, strict=True):
        alike = np.flatnonzero(axis.sizes == value)
        counts[alike[np.argmax(problem.counts[alike])]] = weight
    shape_units = counts[problem.shapes[:, 0]] * problem.units
    units = replace(problem, counts=counts * problem.counts.sum(), shape_units=shape_units)
    return replace(units, axes=(replace(axis, counts=units.counts),))


def _recorded_share(problem: Problem, grouped: Problem) -> float:
    """Elements of the recorded batches as a share of the regrouped ones, at least 1 where grouping saves."""
    before = float(problem.counts @ problem.sizes[:, 0])
    after = float(grouped.counts @ grouped.sizes[:, 0])
    return before / after if after else 1.0


def _fixed_tokens(grouped: Problem, plan: Plan, rows: int, future_steps: int) -> Plan:
    """Buckets of ``plan`` with as many rows as fit in the tokens of its largest batch."""
    assert grouped.step is not None and plan.buckets
    ends = np.array(plan.buckets[0])
    sizes = grouped.sizes[:, 0]
    end = ends[np.minimum(np.searchsorted(ends, sizes), len(ends) - 1)][grouped.shapes[:, 0]]
    more = np.maximum(1, rows * int(ends[-1]) // end) / rows
    at = np.stack([end], axis=1).astype(np.float64)
    device_s = step_seconds(grouped, at) - grouped.overhead_s
    scale = grouped.scale(future_steps) / grouped.ranks
    step_s = float(grouped.shape_units @ (device_s + grouped.overhead_s / more)) * scale
    return replace(
        plan,
        id="fixed_tokens",
        word=f"{numbers.count(rows * int(ends[-1]))} elements a batch, grouped by length",
        step_s=step_s,
        note=_NOTE + _TOKENS_NOTE,
        memory_bytes=None,
    )


def _count(plan: Plan) -> str:
    number = len(plan.buckets[0]) if plan.buckets else 0
    return f"{number} bucket{'s' if number != 1 else ''}"
