"""Any view of a timeline holds exactly the time that the account has in that stretch, down to nanoseconds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.synthetic import build_run
from xla_insight.analysis import load_tables
from xla_insight.analysis.accounting import STATES, account
from xla_insight.analysis.intervals import Spans
from xla_insight.analysis.spans import thread_spans
from xla_insight.analysis.tables import RunTables
from xla_insight.analysis.timeline import OTHER_GRAPHS, Timeline
from xla_insight.facts.report import HostState
from xla_insight.store.reader import open_run

MS = 1_000_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> RunTables:
    return load_tables(open_run(build_run(tmp_path_factory.mktemp("runs") / "run", steps=40, save_every=10)))


@pytest.mark.parametrize("columns", [1, 7, 300, 5000])
@pytest.mark.parametrize("part", [(0.0, 1.0), (0.2, 0.7), (0.41, 0.4105)])
def test_a_view_sums_to_the_account_of_its_stretch(tables: RunTables, columns: int, part: tuple[float, float]) -> None:
    timeline = Timeline(tables, 0)
    whole = timeline.end_ns - timeline.begin_ns
    begin, end = (timeline.begin_ns + int(share * whole) for share in part)
    view = timeline.view(begin, end, columns)
    assert (view.begin_ns, view.end_ns) == (begin, end)
    expected = account(Spans.of([(begin, end)]), thread_spans(tables, 0))
    lengths = np.diff(view.edges)
    for number, state in enumerate(STATES):
        ns = (view.host[state] * lengths).sum() if state in view.host else 0
        assert ns == pytest.approx(expected.host[0, number], abs=1e-3 + 1e-12 * whole)
    assert expected.busy is not None and expected.idle is not None
    assert sum((shares * lengths).sum() for shares in view.device.values()) == pytest.approx(expected.busy[0], abs=1)
    totals = timeline.totals(begin, end)
    assert totals.busy == expected.busy[0] and sum(totals.host.values()) == totals.whole == end - begin
    assert totals.idle == {s: int(ns) for s, ns in zip(STATES, expected.idle[0], strict=True) if ns}


def test_close_up_each_column_is_one_thing(tables: RunTables) -> None:
    timeline = Timeline(tables, 0)
    begin = timeline.begin_ns + 900 * MS
    view = timeline.view(begin, begin + 15 * MS, 1000)
    assert view.exact
    for shares in (*view.host.values(), *view.device.values()):
        assert np.isin(shares, (0, 1)).all()
    nanoseconds = timeline.view(begin, begin + 7, 1000)
    assert len(nanoseconds.edges) == 8 and nanoseconds.exact


def test_a_view_outside_of_the_run_is_moved_into_it(tables: RunTables) -> None:
    timeline = Timeline(tables, 0)
    for begin, end in ((-(10**15), -(10**14)), (10**15, 10**16), (timeline.end_ns, timeline.end_ns)):
        view = timeline.view(begin, end, 100)
        assert timeline.begin_ns <= view.begin_ns < view.end_ns <= timeline.end_ns


def test_steps_are_named_while_they_can_be_told_apart(tables: RunTables) -> None:
    timeline = Timeline(tables, 0)
    assert timeline.view(timeline.begin_ns, timeline.end_ns, 500, most_steps=39).steps == ()
    stretch = timeline.stretch_of_steps(7, 9)
    assert stretch is not None
    assert [number for number, _ in timeline.view(*stretch, 500).steps] == [7, 8, 9]
    assert timeline.steps_within(*stretch) == (7, 9)
    assert timeline.stretch_of_steps(900, 901) is None


def test_the_longest_gaps_of_a_stretch_come_first(tables: RunTables) -> None:
    timeline = Timeline(tables, 0)
    found = timeline.longest_gaps(timeline.begin_ns, timeline.end_ns, 4)
    lengths = [timeline.gap(index).idle_s for index in found]
    assert lengths == sorted(lengths, reverse=True) and len(found) == 4
    opened = next(i for i in range(len(timeline.gaps)) if timeline.gap(i).opened_by == "read")
    assert timeline.opener_stack(opened)[0][0].endswith("transformers/masking_utils.py")


def test_gaps_of_a_stretch_are_ranked_by_their_part_in_it(tables: RunTables) -> None:
    timeline = Timeline(tables, 0)
    gaps = timeline.gaps
    (longest,) = timeline.longest_gaps(timeline.begin_ns, timeline.end_ns, 1)
    other = longest + 1
    begin, end = int(gaps.ends[longest]) - 1000, int(gaps.ends[other])
    assert timeline.longest_gaps(begin, end, 2) == [other, longest], "of the longest gap only 1 µs is in view"


def test_a_stretch_is_said_in_one_sentence(tables: RunTables) -> None:
    timeline = Timeline(tables, 0)
    said = timeline.totals(timeline.begin_ns, timeline.end_ns).sentence()
    assert said.startswith("The device has nothing to run for ~") and "the host compiled a graph" in said


def test_without_executions_and_without_anything(tables: RunTables) -> None:
    frames = {**tables.frames, "executions": tables["executions"].iloc[:0]}
    timeline = Timeline(RunTables(frames, tables.processes, tables.places), 0)
    assert not timeline.observed and timeline.view(timeline.begin_ns, timeline.end_ns, 10).device == {}
    assert "is not known" in timeline.totals(timeline.begin_ns, timeline.end_ns).sentence()
    empty = Timeline(RunTables({n: f.iloc[:0] for n, f in tables.frames.items()}, tables.processes), 0)
    assert empty.view(0, 1, 10).host == {} and not len(empty.gaps)


def test_unnamed_graphs_share_a_row(tables: RunTables) -> None:
    executions = tables["executions"].assign(graph=None)
    timeline = Timeline(RunTables({**tables.frames, "executions": executions}, tables.processes, tables.places), 0)
    assert list(timeline.view(timeline.begin_ns, timeline.end_ns, 10).device) == [OTHER_GRAPHS]
    assert HostState.TRACE in timeline.totals(timeline.begin_ns, timeline.end_ns).host


@pytest.mark.parametrize("columns", [1, 7, 300])
def test_a_coarser_view_says_the_same_of_the_whole(columns: int, tables: RunTables) -> None:
    timeline = Timeline(tables, 0)
    fine = timeline.view(timeline.begin_ns, timeline.end_ns, columns)
    coarse = fine.coarser()
    assert len(coarse.edges) - 1 == (len(fine.edges)) // 2
    shares = [(view.host | view.device | view.rows).values() for view in (fine, coarse)]
    for share, other in zip(*shares, strict=True):
        whole = float((share * np.diff(fine.edges)).sum())
        assert float((other * np.diff(coarse.edges)).sum()) == pytest.approx(whole)
        assert other.max() <= 1 + 1e-9
    assert all(coarse.counts[kind].sum() == counts.sum() for kind, counts in fine.counts.items())
