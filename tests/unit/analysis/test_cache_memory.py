"""The in-memory cache: stack distances against a cache that is simulated one access at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.synthetic import build_run
from xla_insight.analysis.cache.memory import memory_cache, simulate
from xla_insight.analysis.tables import load_tables
from xla_insight.report.cache_text import memory_sentence
from xla_insight.store.reader import open_run


def compiles(sequence: Sequence[int], size: int) -> int:
    """The plain definition of a least-recently-used cache."""
    cache: OrderedDict[int, None] = OrderedDict()
    count = 0
    for graph in sequence:
        if graph in cache:
            cache.move_to_end(graph)
        else:
            count += 1
            cache[graph] = None
            if len(cache) > size:
                cache.popitem(last=False)
    return count


@given(st.lists(st.lists(st.integers(0, 9), max_size=60), max_size=3), st.integers(1, 12))
def test_one_pass_gives_the_answer_for_each_size(sequences: list[list[int]], size: int) -> None:
    (rate,) = simulate(sequences, [size])
    assert rate.compiles == sum(compiles(sequence, size) for sequence in sequences)
    assert rate.hits + rate.compiles == sum(map(len, sequences))
    assert rate.evicted_compiles == rate.compiles - sum(len(set(sequence)) for sequence in sequences)


def test_a_recorded_run(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run", steps=12, pattern="ABC", reads=False)
    with open_run(run) as opened:
        memory = memory_cache(load_tables(opened))
    assert (memory.executions, memory.distinct, memory.enough, memory.recorded_size) == (12, 3, 3, 2048)
    assert [rate.compiles for rate in memory.rates] == [12, 12, 3]
    assert memory.recorded_compiles == 3
    assert "3 distinct graphs fit" in memory_sentence(memory)


def test_many_graphs_are_thinned() -> None:
    sequence = list(range(5000)) * 2
    rates = simulate([sequence])
    assert len(rates) < 250 and rates[-1].size == 5000
    assert (rates[-1].compiles, rates[0].compiles) == (5000, 10_000)


def test_nothing_recorded(tmp_path: Path) -> None:
    with open_run(build_run(tmp_path / "run", steps=0)) as opened:
        memory = memory_cache(load_tables(opened))
    assert memory.executions == 0 and "No execution" in memory_sentence(memory)
