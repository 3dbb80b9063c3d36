"""Longest common subsequences of integer sequences, with bounded time and memory.

Owns the matching of two sequences of tokens. ``rapidfuzz`` does the work; very long and very different sequences are
cut at tokens that occur once in both first, because its bit matrix grows with the product of the lengths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

# 20,000 x 20,000 tokens: about 50 MB and a quarter of a second.
MAX_CELLS = 400_000_000

Pairs = list[tuple[int, int]]


def common_pairs(before: Sequence[int], after: Sequence[int]) -> Pairs:
    """Positions (before, after) of a longest common subsequence; ascending in both, near-longest for huge inputs."""
    start = 0
    end = min(len(before), len(after))
    while start < end and before[start] == after[start]:
        start += 1
    tail = 0
    while tail < end - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    pairs = [(i, i) for i in range(start)]
    middle = _middle(before[start : len(before) - tail], after[start : len(after) - tail])
    pairs += [(start + i, start + j) for i, j in middle]
    pairs += [(len(before) - k, len(after) - k) for k in range(tail, 0, -1)]
    return pairs


def _middle(before: Sequence[int], after: Sequence[int]) -> Pairs:
    if not before or not after:
        return []
    if len(before) * len(after) <= MAX_CELLS:
        return [
            (code.src_start + k, code.dest_start + k)
            for code in LCSseq.opcodes(before, after)
            if code.tag == "equal"
            for k in range(code.src_end - code.src_start)
        ]
    anchors = _unique_anchors(before, after)
    if not anchors:
        return _in_order(before, after)
    pairs: Pairs = []
    previous = (-1, -1)
    for anchor in [*anchors, (len(before), len(after))]:
        gap = (before[previous[0] + 1 : anchor[0]], after[previous[1] + 1 : anchor[1]])
        inner = _middle(*gap)
        pairs += [(previous[0] + 1 + i, previous[1] + 1 + j) for i, j in inner]
        if anchor[0] < len(before):
            pairs.append(anchor)
        previous = anchor
    return pairs


def _unique_anchors(before: Sequence[int], after: Sequence[int]) -> Pairs:
    """Tokens that occur once in both, as a longest chain that ascends in both."""
    counts_before, counts_after = Counter(before), Counter(after)
    places = {token: j for j, token in enumerate(after) if counts_after[token] == 1}
    found = [(i, places[token]) for i, token in enumerate(before) if counts_before[token] == 1 and token in places]
    tails: list[int] = []
    chain: list[int] = []
    parents: list[int] = []
    for index, (_, j) in enumerate(found):
        slot = bisect_left(tails, j)
        parents.append(chain[slot - 1] if slot else -1)
        tails[slot : slot + 1] = [j]
        chain[slot : slot + 1] = [index]
    result: Pairs = []
    index = chain[-1] if chain else -1
    while index >= 0:
        result.append(found[index])
        index = parents[index]
    return result[::-1]


def _in_order(before: Sequence[int], after: Sequence[int]) -> Pairs:
    """Equal tokens paired first with first; may cross, costs linear time."""
    waiting: dict[int, deque[int]] = defaultdict(deque)
    for j, token in enumerate(after):
        waiting[token].append(j)
    return [(i, waiting[token].popleft()) for i, token in enumerate(before) if waiting.get(token)]
