"""Two graphs as rows: every instruction is in a row, in a fold, or said to be left out; the root is where it is."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.graph import modules
from xla_insight.analysis.explain.aligned import MAX_SHOWN_ROWS, AlignedGraphs, Block, Fold, Mark, Row
from xla_insight.analysis.explain.notation import plain
from xla_insight.graph.diff import compare, prepare
from xla_insight.graph.hlo_text import parse_hlo_text
from xla_insight.graph.model import Graph

BASE = modules.canonical(modules.graph("base"))
VALUES = [
    p for p, i in enumerate(BASE.instructions) if i.shape.dtype == "f32" and i.opcode not in ("constant", "tuple")
]


PAIRS = list(itertools.permutations(("first", "longer", "extra", "optimized"), 2))


def aligned(before: Graph, after: Graph) -> AlignedGraphs:
    ours, theirs = prepare(before), prepare(after)
    return AlignedGraphs(ours, theirs, compare(ours, theirs))


def sides(blocks: tuple[Block, ...]) -> tuple[int, int]:
    """Instructions of each graph that are shown or folded."""
    before = after = 0
    for block in blocks:
        counts = dict(block.counts) if isinstance(block, Fold) else {}
        if isinstance(block, Fold):
            before += block.count - counts.get(Mark.INSERTED, 0)
            after += block.count - counts.get(Mark.REMOVED, 0)
        else:
            before += bool(block.before)
            after += bool(block.after)
    return before, after


def all_are_there(found: AlignedGraphs, before: Graph, after: Graph, limit: int = MAX_SHOWN_ROWS) -> bool:
    counted = sides(found.blocks(limit))
    return (
        counted[0] + found.merged[0] == len(before.instructions)
        and counted[1] + found.merged[1] == len(after.instructions)
    )  # fmt: skip


def rows(found: AlignedGraphs) -> list[Row]:
    return [block for block in found.blocks() if isinstance(block, Row)]


@pytest.mark.parametrize("name", modules.NAMES)
def test_a_graph_with_itself_is_one_fold(name: str) -> None:
    for other in (modules.graph(name), modules.renamed(modules.graph(name)), modules.text_graph(name)):
        found = aligned(modules.graph(name), other)
        (fold,) = found.blocks()
        assert isinstance(fold, Fold) and fold.counts == ((Mark.EQUAL, len(found)),)
        assert found.root is None and not fold.holds_differences


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_nothing_is_lost_between_any_two_graphs(before: str, after: str) -> None:
    ours, theirs = modules.graph(before), modules.graph(after)
    found = aligned(ours, theirs)
    assert found.root is not None
    for limit in (0, 7, MAX_SHOWN_ROWS, 100_000):
        assert all_are_there(found, ours, theirs, limit)
    shown = [row.number for row in rows(found)]
    assert shown == sorted(set(shown)) and len(shown) <= MAX_SHOWN_ROWS + 9


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(VALUES), st.sampled_from(["cosine", "is-finite"]), st.integers(0, 50))
def test_random_insertions_are_the_root(at: int, opcode: str, limit: int) -> None:
    edited = modules.inserted(BASE, at, opcode)
    found = aligned(BASE, edited)
    assert all_are_there(found, BASE, edited, limit)
    root = found.root
    assert root is not None
    row = found.row(root)
    assert row.mark is Mark.ROOT and not row.before and opcode in plain(row.after)
    assert found.counts()[Mark.INSERTED] == found.counts()[Mark.REMOVED] == 0
    back = aligned(edited, BASE)
    assert back.root is not None and not back.row(back.root).after


@settings(max_examples=20, deadline=None)
@given(st.integers(-5, 500), st.integers(-5, 500), st.integers(1, 100))
def test_any_fold_can_be_opened_and_stays_bounded(start: int, stop: int, limit: int) -> None:
    found = aligned(BASE, modules.graph("longer"))
    opened = found.expand(start, stop, limit)
    assert sum(isinstance(block, Row) for block in opened) <= limit
    covered = sum(block.count if isinstance(block, Fold) else 1 for block in opened)
    assert covered == max(0, min(stop, len(found)) - max(0, start))


def test_a_longer_batch() -> None:
    found = aligned(modules.graph("base"), modules.graph("longer"))
    assert found.root is not None
    row = found.row(found.root)
    assert [piece.text for piece in row.after if piece.differs] == ["s64[4,16]"]
    assert plain(row.before) == "s64[4,12] parameter(6)"
    assert row.site is not None and (row.site.line, row.inferred) == (23, False)
    assert found.counts()[Mark.CHANGED] == 0 and found.counts()[Mark.FOLLOWS] > 50


def test_what_a_row_tells_of_attributes() -> None:
    found = aligned(modules.graph("longer"), modules.graph("start"))
    assert found.root is not None
    row = found.row(found.root)
    assert "slice={[3:11]}" in plain(row.before) and "slice={[5:13]}" in plain(row.after)
    assert [piece.text for piece in row.after if piece.differs] == ["slice={[5:13]}"]
    equal = next(row for row in rows(found) if row.mark is Mark.EQUAL)
    assert plain(equal.before) == plain(equal.after)


def test_operands_are_rows_of_the_same_listing() -> None:
    found = aligned(modules.graph("longer"), modules.graph("power"))
    for number in range(len(found)):
        for side in (0, 1):
            assert all(0 <= row < len(found) for row in found.operands(number, side))


def test_lines_are_those_of_the_partner_where_a_graph_has_none() -> None:
    bare = parse_hlo_text(re.sub(r", metadata=\{[^}]*\}", "", modules.read("start.txt").decode()))
    found = aligned(modules.text_graph("longer"), bare)
    assert found.root is not None
    row = found.row(found.root)
    assert row.inferred and row.site is not None and row.site.file.endswith("step.py")
    assert all_are_there(found, modules.text_graph("longer"), bare)


def test_a_difference_inside_a_called_computation_marks_the_caller() -> None:
    text = """HloModule m
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] {}(a, b)
}}
ENTRY e {{
  p = f32[8] parameter(0)
  z = f32[] constant(0)
  ROOT s = f32[] reduce(p, z), dimensions={{0}}, to_apply=add
}}
"""
    found = aligned(parse_hlo_text(text.format("add")), parse_hlo_text(text.format("maximum")))
    assert found.root is not None
    assert "reduce" in plain(found.row(found.root).after)
    assert found.row(found.root).inside or "calls=maximum" in plain(found.row(found.root).after)
