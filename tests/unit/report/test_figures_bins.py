"""Thinning of steps: sums and means are kept, and nothing odd is averaged away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_insight.facts.report import HostState
from xla_insight.report.figures_bins import NO_GRAPH, bin_steps, rank_graphs


def step_frame(graphs: Sequence[str | None], duration_ns: int = 100, *, busy: bool = True) -> pd.DataFrame:
    """A step table: one row a step, all of one length; a step of a graph not seen before has a compile of 50 ns."""
    count = len(graphs)
    starts = {graph: at for at, graph in reversed(list(enumerate(graphs)))}
    first = [graph is not None and starts[graph] == at for at, graph in enumerate(graphs)]
    host = {f"host_{state.value}_ns": np.zeros(count, np.int64) for state in HostState}
    host["host_trace_ns"] = np.full(count, duration_ns)
    return pd.DataFrame({
        "process": 0, "step": np.arange(count), "duration_ns": np.full(count, duration_ns),
        "graph": pd.Series(graphs, dtype=object), "graphs": 1, "compiles": np.array(first, dtype=np.int64),
        "compile_ns": np.where(first, 50, 0), **host,
        "device_busy_ns": pd.array([40 if busy else None] * count, dtype="Int64"),
    })  # fmt: skip


def test_graphs_are_ranked_by_steps_then_by_first_step() -> None:
    assert rank_graphs(step_frame(["b", "a", "a", "c"])) == ("a", "b", "c")


def test_few_steps_get_a_column_each() -> None:
    frame = step_frame(["a", "a", "b", None])
    bins = bin_steps(frame, ("a", "b"), columns=100)
    assert bins.first.tolist() == bins.last.tolist() == [0, 1, 2, 3]
    assert bins.graph.tolist() == [0, 0, 1, NO_GRAPH]
    assert bins.per_column == 1
    assert bins.busy.tolist() == [40.0] * 4


def test_one_odd_step_among_many_keeps_its_column() -> None:
    frame = step_frame(["a"] * 1000)
    frame.loc[777, "graph"] = "odd"
    frame.loc[777, "duration_ns"] = 10_000
    bins = bin_steps(frame, rank_graphs(frame), columns=10)
    odd = np.flatnonzero(bins.graph == 1)
    assert odd.tolist() == [7]
    assert bins.longest_ns[7] == 10_000
    assert bins.shortest_ns[7] == 100
    assert bins.mean_ns[7] == pytest.approx(199)


def test_lit_steps_light_their_column() -> None:
    bins = bin_steps(step_frame(["a"] * 100), ("a",), columns=10, lit={55})
    assert bins.lit is not None
    assert np.flatnonzero(bins.lit).tolist() == [5]
    assert bin_steps(step_frame(["a"]), ("a",), columns=10).lit is None


def test_unknown_device_time_is_not_zero() -> None:
    assert np.isnan(bin_steps(step_frame(["a"] * 9, busy=False), ("a",), columns=3).busy).all()


def test_no_steps_make_no_columns() -> None:
    bins = bin_steps(step_frame([]), (), columns=10)
    assert len(bins) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=300), st.integers(1, 80))
def test_thinning_loses_nothing(graphs: list[str | None], columns: int) -> None:
    frame = step_frame(graphs)
    bins = bin_steps(frame, rank_graphs(frame), columns=columns)
    assert len(bins) <= columns + 1
    counts = bins.last - bins.first + 1
    assert counts.sum() == len(graphs)
    assert bins.first[1:].tolist() == (bins.last[:-1] + 1).tolist()
    assert bins.compiles.sum() == frame["compiles"].sum()
    assert bins.compile_ns.sum() == frame["compile_ns"].sum()
    assert (bins.mean_ns * counts).sum() == pytest.approx(frame["duration_ns"].sum())
    assert set(bins.graph) - {NO_GRAPH} <= set(range(len(bins.names)))
    assert bins.graph.max() == max((bins.names.index(graph) for graph in graphs if graph), default=NO_GRAPH)
