"""What surrounds the root: both graphs in one picture, bounded, with every edge between nodes that are there."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.graph import modules
from xla_insight.analysis.explain.aligned import AlignedGraphs, Mark
from xla_insight.analysis.explain.around import HOPS, MAX_NODES, Neighbourhood, neighbourhood
from xla_insight.graph.diff import compare, prepare

PAIRS = list(itertools.permutations(("first", "longer", "extra", "optimized"), 2))


def around(before: str, after: str) -> Neighbourhood | None:
    ours, theirs = prepare(modules.graph(before)), prepare(modules.graph(after))
    return neighbourhood(AlignedGraphs(ours, theirs, compare(ours, theirs)))


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_it_is_bounded_and_closed(before: str, after: str) -> None:
    found = around(before, after)
    assert found is not None
    rows = [node.row for node in found.nodes]
    assert found.root in rows and len(rows) == len(set(rows)) <= MAX_NODES
    assert all(abs(node.hop) <= HOPS for node in found.nodes)
    assert len({(node.hop, node.slot) for node in found.nodes}) == len(rows)
    assert all({edge.source, edge.target} <= set(rows) and (edge.in_before or edge.in_after) for edge in found.edges)


def test_an_input_and_what_it_flows_into() -> None:
    found = around("base", "longer")
    assert found is not None
    root = next(node for node in found.nodes if node.row == found.root)
    assert (root.hop, root.before, root.after, root.mark) == (0, "s64[4,12]", "s64[4,16]", Mark.ROOT)
    assert root.operation == "xla::device_data" and root.site is not None and root.site.line == 23
    assert {node.hop for node in found.nodes} == {0, 1, 2}
    assert all(edge.in_before and edge.in_after for edge in found.edges)


def test_a_constant_shows_its_values() -> None:
    found = around("longer", "power")
    assert found is not None
    root = next(node for node in found.nodes if node.row == found.root)
    assert (root.before, root.after) == ("f32[] 1.5", "f32[] 1.7")


def test_new_operations_have_edges_of_one_graph() -> None:
    found = around("longer", "extra")
    assert found is not None
    assert any(edge.in_after and not edge.in_before for edge in found.edges)
    assert any(not node.before for node in found.nodes)


def test_without_a_root_there_is_nothing_to_surround() -> None:
    assert around("base", "base") is None
