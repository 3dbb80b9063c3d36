"""Sequence matching: longest for ordinary inputs, ascending and cheap for huge ones."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_insight.graph import sequences
from xla_insight.graph.sequences import common_pairs

TOKENS = st.lists(st.integers(0, 5), max_size=30)


def length(before: list[int], after: list[int]) -> int:
    """Length of a longest common subsequence, by the textbook."""
    row = [0] * (len(after) + 1)
    for x in before:
        previous = 0
        for j, y in enumerate(after, 1):
            previous, row[j] = row[j], previous + 1 if x == y else max(row[j], row[j - 1])
    return row[-1]


@given(TOKENS, TOKENS)
def test_pairs_are_equal_ascending_and_longest(before: list[int], after: list[int]) -> None:
    pairs = common_pairs(before, after)
    assert all(before[i] == after[j] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
    assert len(pairs) == length(before, after)


@given(TOKENS, TOKENS)
def test_long_sequences_are_cut_at_unique_tokens(before: list[int], after: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "MAX_CELLS", 4)
        pairs = common_pairs(before, after)
    assert all(before[i] == after[j] for i, j in pairs)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs) <= length(before, after) + 30
