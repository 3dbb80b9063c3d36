"""Plans to choose from: the usual rules of thumb, and the best buckets there are.

One axis: exact, by dynamic programming over all recorded sizes and all ends of the rules of thumb, so no rule can be
better. Two axes: the buckets of each are found exactly while the other's stand still, in turns until nothing improves,
from several starts that include the rules of thumb; that is a local optimum, never worse than any of its starts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from xla_insight.analysis.shapes.axes import Axis
from xla_insight.analysis.shapes.partition import MOST_SIZES, allowed_ends, best_buckets
from xla_insight.analysis.shapes.plans import (
    AS_RECORDED,
    Buckets,
    Goal,
    Plan,
    compile_seconds,
    evaluate,
    pad,
    step_seconds,
)
from xla_insight.analysis.shapes.problem import Problem

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MULTIPLES = (8, 16, 32, 64, 128)
LISTED = 8
"""The best plan of each number of buckets up to this is listed."""
_MANY_SIZES, _MOST_BUCKETS, _FEWER_BUCKETS = 512, 64, 24
_MOST_TURNS = 4
_MOST_SIZES_OF_TWO = 48
_ANY = Goal()
_LARGEST = np.iinfo(np.int64).max


def rules_of_thumb(problem: Problem) -> Iterator[tuple[tuple[str, str], Buckets]]:
    """The usual rules, each as ((id, word), buckets). No bucket is larger than the largest recorded size."""
    yield ("pad_to_max", "pad all to the largest"), tuple((int(axis.values[-1]),) for axis in problem.axes)
    for multiple in MULTIPLES:
        if any(multiple < int(axis.values[-1]) for axis in problem.axes):
            ends = tuple(_rounded(axis, _up_to_multiple(axis.values, multiple)) for axis in problem.axes)
            yield (f"multiples_of_{multiple}", f"multiples of {multiple}"), ends
    yield ("powers_of_two", "powers of two"), tuple(_rounded(axis, _up_to_power(axis.values)) for axis in problem.axes)


def optimal_plans(problem: Problem, goal: Goal = _ANY, most: int | None = None) -> list[Plan]:
    """The best plan of each number of buckets, fewest first: up to ``most``, else as many as may pay."""
    if not problem.axes:
        return (
            [evaluate(problem, ("fill_rows", "fill up the last batch"), (), goal.future_steps)] if problem.rows else []
        )
    if len(problem.axes) == 1:
        found: list[Buckets] = [(ends,) for _, ends in _best_ends(problem, 0, (), goal, most)]
    else:
        found = _in_turns(problem, goal, most)
    plans = []
    for buckets in found:
        number = max(len(ends) for ends in buckets)
        word = "1 bucket, the best" if number == 1 else f"{number} buckets, the best"
        plans.append(evaluate(problem, (f"optimal_{number}", word), buckets, goal.future_steps))
    return plans


def recorded_plan(problem: Problem, future_steps: int = 0) -> Plan:
    """Everything left as it was recorded."""
    return evaluate(problem, (AS_RECORDED, "as recorded"), None, future_steps)


def cost_matrix(problem: Problem, axis: int, ends: Integers, others: Buckets, goal: Goal) -> Floats:
    """``[i, j]``: seconds of one bucket of the sizes above ``ends[i - 1]`` and up to ``ends[j]``.

    Infinite where there is none, so that no bucket stays empty. ``others``: the buckets of every axis (those of
    ``axis`` are not looked at); empty when there is only one.
    """
    sizes = problem.sizes.astype(np.int64)
    for other, limits in enumerate(others):
        if other != axis:
            sizes[:, other] = pad(sizes[:, other], limits)
    place = np.minimum(np.searchsorted(ends, sizes[:, axis]), len(ends) - 1)
    beside = np.delete(sizes, axis, axis=1)
    lines, line_of = _lines(beside)
    compiling, steps = goal.weights
    scale = steps * problem.scale(goal.future_steps) / problem.batches_a_unit
    total = np.where(_within(place, np.ones(len(sizes)), len(ends)) > 0, 0.0, np.inf)
    for number, line in enumerate(lines):
        mine = line_of == number
        at = np.insert(np.repeat(line[None, :], len(ends), axis=0), axis, ends, axis=1).astype(np.float64)
        batches = _within(place[mine], problem.counts[mine].astype(np.float64), len(ends))
        total += batches * (step_seconds(problem, at) * scale)[None, :]
        for variant, entry in enumerate(problem.compiles.variants):
            having = np.zeros(len(sizes), np.bool_)
            shapes = problem.shapes[entry.shapes[problem.shape_units[entry.shapes] > 0]]
            having[shapes[shapes >= 0]] = True
            if (having & mine).any():
                present = _within(place[having & mine], np.ones(int((having & mine).sum())), len(ends)) > 0
                total += present * (compiling * compile_seconds(problem, variant, at))[None, :]
    return total


def _lines(beside: Integers) -> tuple[Integers, Integers]:
    """The distinct sizes on the other axes, and which of them each combination has."""
    if not beside.shape[1]:
        return np.zeros((1, 0), np.int64), np.zeros(len(beside), np.int64)
    lines, line_of = np.unique(beside, axis=0, return_inverse=True)
    return lines, line_of.ravel().astype(np.int64)


def _within(place: Integers, weights: Floats, count: int) -> Floats:
    """``[i, j]``: the weight of entries whose place is i to j."""
    reached = np.concatenate(([0.0], np.cumsum(np.bincount(place, weights, count))))
    return reached[None, 1:] - reached[:-1, None]


def _best_ends(
    problem: Problem, axis: int, others: Buckets, goal: Goal, most: int | None
) -> list[tuple[float, tuple[int, ...]]]:
    """The best ends of one axis for each number of buckets, with their cost, while the other axes stand still."""
    ends = _candidates(problem, axis)
    if most is None:
        most = _MOST_BUCKETS if len(ends) <= _MANY_SIZES else _FEWER_BUCKETS
    found = best_buckets(cost_matrix(problem, axis, ends, others, goal), most)
    return [(cost, _used(problem.axes[axis], tuple(int(ends[place]) for place in chosen))) for cost, chosen in found]


def _candidates(problem: Problem, axis: int) -> Integers:
    """Sizes that may end a bucket: the recorded ones and those of the rules of thumb."""
    values, counts = problem.axes[axis].values, problem.axes[axis].value_counts
    thumb = {end for _, buckets in rules_of_thumb(problem) for end in buckets[axis]}
    ends = np.union1d(values, np.array(sorted(thumb), np.int64))
    weights = np.zeros(len(ends))
    weights[np.searchsorted(ends, values)] = counts
    return ends[allowed_ends(weights, MOST_SIZES if len(problem.axes) == 1 else _MOST_SIZES_OF_TWO)]


def _used(axis: Axis, ends: tuple[int, ...]) -> tuple[int, ...]:
    """The ends that hold at least one recorded size."""
    return tuple(int(end) for end in np.unique(pad(axis.values, ends)))


def _in_turns(problem: Problem, goal: Goal, most: int | None) -> list[Buckets]:
    """The best buckets of two axes for each largest number of buckets an axis; last without a limit, if none is asked.

    Each limit starts from what the one before it found, and from the best rule of thumb, thinned to the limit.
    """
    rules = [buckets for _, buckets in rules_of_thumb(problem)]
    rule = min(rules, key=lambda buckets: _total(problem, buckets, goal))
    limits: list[int | None] = [*range(1, min(most or LISTED, LISTED) + 1)]
    found: list[Buckets] = []
    for limit in limits if most is not None else [*limits, None]:
        starts = {rule if limit is None else _at_most(problem, rule, limit), *found[-1:]}
        tried = [_settle(problem, start, goal, limit) for start in sorted(starts)]
        found.append(min(tried, key=lambda buckets: _total(problem, buckets, goal)))
    return list(dict.fromkeys(found))


def _at_most(problem: Problem, buckets: Buckets, limit: int) -> Buckets:
    """A start within the limit: where an axis has more buckets, evenly spread ones of them and the largest."""
    thinned = []
    for ends in buckets:
        places = np.unique(np.linspace(len(ends) - 1, 0, limit, endpoint=limit > 1).round().astype(int))
        thinned.append(tuple(ends[place] for place in (places if len(ends) > limit else range(len(ends)))))
    return tuple(thinned)


def _settle(problem: Problem, start: Buckets, goal: Goal, limit: int | None) -> Buckets:
    buckets, least = start, _total(problem, start, goal)
    for _ in range(_MOST_TURNS):
        before = least
        for axis in range(len(problem.axes)):
            _, ends = min(_best_ends(problem, axis, buckets, goal, limit))
            tried = (*buckets[:axis], ends, *buckets[axis + 1 :])
            total = _total(problem, tried, goal)
            if total < least:
                buckets, least = tried, total
        if least >= before:
            break
    return buckets


def _total(problem: Problem, buckets: Buckets, goal: Goal) -> float:
    return goal.cost(evaluate(problem, ("", ""), buckets, goal.future_steps))


def _rounded(axis: Axis, ends: Integers) -> tuple[int, ...]:
    return tuple(int(end) for end in np.unique(np.minimum(ends, axis.values[-1])))


def _up_to_multiple(values: Integers, multiple: int) -> Integers:
    """To the next multiple; to the largest number of 64 bits where there is none."""
    return values + np.minimum(-values % multiple, _LARGEST - values)


def _up_to_power(values: Integers) -> Integers:
    powers = 2 ** np.arange(63, dtype=np.int64)
    place = np.searchsorted(powers, np.maximum(values, 1))
    return np.where(place < len(powers), powers[np.minimum(place, len(powers) - 1)], _LARGEST)
