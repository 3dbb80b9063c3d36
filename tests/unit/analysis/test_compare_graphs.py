"""Graphs of two runs paired by structure, on real modules: the line that changed is named."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.synthetic import build_run
from tests.unit.graph.modules import graph, renamed
from xla_insight.analysis.compare.batch_changes import BatchChanges
from xla_insight.analysis.compare.graph_loading import KnownGraph
from xla_insight.analysis.compare.graph_pairs import _changed, _equal_places, _equal_structures, _near_structures
from xla_insight.analysis.tables import RunTables, load_tables
from xla_insight.facts.report import Site
from xla_insight.graph.model import Graph
from xla_insight.store.reader import open_run


def known(name: str, parsed: Graph | None, executions: int = 5) -> KnownGraph:
    return KnownGraph(name, executions, 1.0, "sync", Site("/home/me/train.py", 40, "main"), parsed)


def by_name(*graphs: KnownGraph) -> dict[str, KnownGraph]:
    return {one.graph: one for one in graphs}


class Sources:
    """A run as far as its source lines go."""

    def snippet(self, file: str, line: int, around: int = 3) -> list[tuple[int, str]]:
        return [(line - 1, "before it"), (line, f"the text of line {line}")]


def no_tables() -> RunTables:
    """Of a run that uploaded and compiled nothing."""
    with open_run(build_run(Path(tempfile.mkdtemp()) / "run", steps=0)) as run:
        return load_tables(run)


def test_equal_computations_under_another_key() -> None:
    old, new = by_name(known("a", graph("base"))), by_name(known("b", renamed(graph("base"))))
    assert [(one.graph, other.graph) for one, other in _equal_structures(old, new)] == [("a", "b")]
    assert not old and not new


def test_each_graph_finds_its_later_version() -> None:
    old = by_name(known("warm-up", graph("first")), known("step", graph("base")))
    new = by_name(known("new step", graph("power")), known("unread", None))
    pairs = [(one.graph, other.graph) for one, other in _near_structures(old, new)]
    assert pairs == [("step", "new step")]
    assert set(old) == {"warm-up"} and set(new) == {"unread"}
    assert [(one.graph, other.graph) for one, other in _equal_places(old, new)] == [("warm-up", "unread")]


@pytest.mark.parametrize("name", ["power", "start", "longer", "extra"])
def test_the_difference_is_a_sentence_with_its_line(name: str) -> None:
    run: Any = Sources()
    pair = _changed(known("a", graph("base")), known("b", graph(name)), (run, run), BatchChanges(no_tables))
    assert (pair.change, pair.matched_by, pair.before, pair.now) == ("changed", "structure", "a", "b")
    assert pair.line_known and pair.site is not None
    assert pair.site.source == f"the text of line {pair.site.line}"
    assert pair.summary.startswith("At ") and f":{pair.site.line}: " in pair.summary
    assert "now " in pair.summary or " is new" in pair.summary


def test_graphs_that_do_other_jobs_are_not_paired() -> None:
    base = graph("base")
    alone = replace(base, computations=base.computations[:1])
    old, new = by_name(known("a", alone)), by_name(known("b", graph("base")))
    assert list(_near_structures(old, new)) == []
    assert list(_equal_places(old, new)) == [], "both are known and differ: the place proves nothing"
