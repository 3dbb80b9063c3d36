"""The figure of what surrounds the root: boxes do not overlap, edges end at boxes, names are never markup."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.unit.graph import modules
from xla_insight.analysis.explain.aligned import AlignedGraphs
from xla_insight.analysis.explain.around import Neighbourhood, neighbourhood
from xla_insight.graph.diff import compare, prepare
from xla_insight.report.figures_around import LEAST_WIDTH_PX, around_root
from xla_insight.report.figures_colours import Scheme


def around(before: str, after: str) -> Neighbourhood:
    ours, theirs = prepare(modules.graph(before)), prepare(modules.graph(after))
    found = neighbourhood(AlignedGraphs(ours, theirs, compare(ours, theirs)))
    assert found is not None
    return found


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("width", [320, 1400])
@pytest.mark.parametrize(("before", "after"), [("base", "longer"), ("longer", "extra"), ("first", "base")])
def test_boxes_stand_apart_and_inside(before: str, after: str, width: int, scheme: Scheme) -> None:
    found = around(before, after)
    figure = around_root(found, width, scheme)
    assert figure.layout.width == max(width, LEAST_WIDTH_PX)
    boxes = [(s.x0, s.x1, s.y0, s.y1) for s in figure.layout.shapes]
    assert len(boxes) == len(found.nodes)
    assert all(
        x0 >= 0 and x1 <= figure.layout.width and 0 <= y0 < y1 <= figure.layout.height for x0, x1, y0, y1 in boxes
    )
    for a, b in itertools.combinations(boxes, 2):
        assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]


def test_names_are_never_markup() -> None:
    found = around("base", "longer")
    hostile = [replace(node, opcode="<b>x</b>", operation="<a href=x>y</a>", after="<i>") for node in found.nodes]
    figure = around_root(replace(found, nodes=tuple(hostile)), 1400, Scheme.LIGHT)
    texts = [a.text for a in figure.layout.annotations] + [t for trace in figure.data for t in trace.hovertext or ()]
    assert texts and not any("<a" in text or "<i>" in text or "<b><b>" in text for text in texts)


def test_both_versions_of_a_node_are_told() -> None:
    texts = [a.text for a in around_root(around("base", "longer"), 1400, Scheme.LIGHT).layout.annotations]
    assert "s64[4,12] → s64[4,16]" in texts
