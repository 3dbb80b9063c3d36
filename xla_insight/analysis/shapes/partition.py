"""The best buckets for one dimension: exact dynamic programming over the recorded sizes.

A bucket holds consecutive sizes and pads them to its last one, its *end*; an end that no batch has would only pad more,
so ends are recorded sizes. Buckets are independent of each other: the cost of a plan is the sum over its buckets, and
the best k buckets up to a size follow from the best k-1 up to each smaller one. Owns the search; what a bucket costs
comes from ``plans``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_SIZES = 2048
"""With more distinct sizes, only so many of them may be ends (evenly spread over the batches)."""


def best_buckets(costs: Floats, most: int) -> list[tuple[float, tuple[int, ...]]]:
    """The cheapest plan of exactly 1, 2, … ``most`` buckets, as (cost, index of each bucket's last size).

    ``costs[i, j]``: cost of one bucket of sizes i to j, read where i <= j. Fewer plans when there are fewer sizes.
    """
    count = len(costs)
    reachable = np.where(np.arange(count)[:, None] <= np.arange(count)[None, :], costs, np.inf)
    best = reachable[0].copy()
    steps: list[Integers] = []
    plans: list[tuple[float, tuple[int, ...]]] = [(float(best[-1]), (count - 1,))]
    for _ in range(1, min(most, count)):
        # A bucket of sizes i..j after the best plan for sizes before i.
        total = np.concatenate(([np.inf], best[:-1]))[:, None] + reachable
        first = np.argmin(total, axis=0)
        steps.append(first)
        best = total[first, np.arange(count)]
        plans.append((float(best[-1]), _ends(steps, count)))
    return [plan for plan in plans if np.isfinite(plan[0])]


def _ends(steps: list[Integers], count: int) -> tuple[int, ...]:
    """Walk back from the last size: the first size of each bucket says where the one before it ends."""
    ends = [count - 1]
    for first in reversed(steps):
        ends.append(int(first[ends[-1]]) - 1)
    return tuple(reversed(ends))


def allowed_ends(weights: Floats, most: int = MOST_SIZES) -> Integers:
    """Indices of sizes that may be ends: all of them, or ``most`` evenly spread over the batches and the last."""
    if len(weights) <= most:
        return np.arange(len(weights))
    reached = np.cumsum(weights) / weights.sum()
    chosen = np.searchsorted(reached, np.linspace(0, 1, most), "left")
    return np.unique(np.append(np.minimum(chosen, len(weights) - 1), len(weights) - 1))
