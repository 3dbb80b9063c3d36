"""The search for buckets agrees with trying all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_insight.analysis.shapes.partition import MOST_SIZES, allowed_ends, best_buckets


def by_trying(costs: np.ndarray, buckets: int) -> float:
    """The cheapest of all ways to cut the sizes into so many buckets."""
    count, least = len(costs), np.inf
    for cuts in combinations(range(1, count), buckets - 1):
        begins, ends = (0, *cuts), (*(cut - 1 for cut in cuts), count - 1)
        least = min(least, sum(costs[begin, end] for begin, end in zip(begins, ends, strict=True)))
    return float(least)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_brute_force_agrees(count: int, seed: int) -> None:
    costs = np.random.default_rng(seed).uniform(0, 10, (count, count))
    plans = best_buckets(costs, count)
    assert len(plans) == count
    for number, (cost, ends) in enumerate(plans, 1):
        assert len(ends) == number
        assert ends[-1] == count - 1
        assert list(ends) == sorted(set(ends))
        assert cost == pytest.approx(by_trying(costs, number))
        begins = (0, *(end + 1 for end in ends[:-1]))
        assert cost == pytest.approx(sum(costs[b, e] for b, e in zip(begins, ends, strict=True)))


def test_more_buckets_than_sizes_are_not_made_up() -> None:
    assert [ends for _, ends in best_buckets(np.ones((2, 2)), 10)] == [(1,), (0, 1)]


def test_many_sizes_are_thinned_by_how_often_they_come() -> None:
    weights = np.ones(50_000)
    weights[:100] = 10_000
    chosen = allowed_ends(weights)
    assert len(chosen) <= MOST_SIZES + 1
    assert chosen[-1] == 49_999
    assert (chosen < 100).sum() == 100
    assert list(allowed_ends(np.ones(3))) == [0, 1, 2]
