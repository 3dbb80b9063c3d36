"""Idle gaps hold exactly the time without device work, are split by host state, and name what emptied the device."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.test_accounting import MS, pairs, thread_spans, windows
from xla_insight.analysis.accounting import STATES, ThreadSpans, segments, sums
from xla_insight.analysis.idle import NOT_OPENED, idle_gaps, opened_by
from xla_insight.analysis.idle_causes import idle_table, opened_idle, worst_gaps
from xla_insight.analysis.intervals import Cover, Spans, union
from xla_insight.analysis.tables import Place, RunTables
from xla_insight.analysis.time_account import process_account

Make = Callable[..., RunTables]
At = Callable[..., Place]
Steps = Callable[[int, int], list[dict[str, Any]]]


@settings(deadline=None)
@given(thread_spans, windows)
def test_gaps_are_disjoint_and_hold_all_idle_time(spans: ThreadSpans, edges: list[int]) -> None:
    steps = Spans.of(itertools.pairwise(edges))
    parts = segments(steps, spans)
    gaps, account = idle_gaps(parts), sums(steps, parts)
    if account.idle is None:
        assert not len(gaps)
        return
    assert (gaps.by_state.sum(axis=1) == gaps.lengths).all() and (gaps.lengths > 0).all()
    assert (gaps.starts[1:] > gaps.ends[:-1]).all(), "gaps that touch would be one"
    assert (gaps.by_state.sum(axis=0) == account.idle.sum(axis=0)).all()


@settings(deadline=None)
@given(pairs, st.lists(st.integers(-60, 500), min_size=2, max_size=9).map(sorted))
def test_a_cover_counts_each_instant_of_a_stretch(rows: list[tuple[int, int]], edges: list[int]) -> None:
    cover = Cover(union(Spans.of(rows)))
    instants = {i for begin, end in rows for i in range(begin, end)}
    expected = [len(instants & set(range(begin, end))) for begin, end in itertools.pairwise(edges)]
    assert cover.between(np.array(edges)).tolist() == expected


def cuts(*rows: tuple[int, int]) -> pd.DataFrame:
    return pd.DataFrame([{"time_ns": begin * MS, "duration_ns": (end - begin) * MS} for begin, end in rows])


def test_a_gap_was_opened_by_the_cut_that_was_waiting_when_it_began() -> None:
    spans = ThreadSpans(executions=Spans.of([(10 * MS, 20 * MS), (40 * MS, 50 * MS), (70 * MS, 80 * MS)]))
    gaps = idle_gaps(segments(Spans.of([(0, 100 * MS)]), spans))
    assert gaps.starts.tolist() == [0, 20 * MS, 50 * MS, 80 * MS]
    # The first waits for the first execution, the second is over long before its execution is, the third holds a read.
    found = opened_by(gaps, cuts((5, 20), (38, 41), (68, 90), (75, 78)))
    assert found.tolist() == [NOT_OPENED, 0, NOT_OPENED, 2]
    assert opened_by(gaps, cuts()).tolist() == [NOT_OPENED] * 4


def test_a_gap_at_an_instant_and_the_longest_of_a_stretch() -> None:
    spans = ThreadSpans(executions=Spans.of([(10, 20), (50, 60)]))
    gaps = idle_gaps(segments(Spans.of([(0, 70)]), spans))
    assert [gaps.at(t) for t in (0, 9, 10, 30, 69, 70)] == [0, 0, None, 1, 2, None]
    assert (gaps.longest_within(5, 65), gaps.longest_within(12, 18)) == (1, None)


def made(tables: Make, stepped: Steps, at_line: At) -> RunTables:
    """Three steps of 100 ms: in each a batch is awaited, a value read waits for the execution, and the host traces."""

    def rows(kind: str, begin: int, length: int, site: int) -> list[dict[str, Any]]:
        return [
            {"step": n, "time_ns": (100 * n + begin) * MS, "duration_ns": length * MS, "thread": 0, "kind": kind,
             "name": "x", "site": site}
            for n in range(3)
        ]  # fmt: skip

    spans = sorted(
        rows("input_wait", 0, 30, 1) + rows("sync", 40, 5, 2) + rows("read", 50, 30, 3), key=lambda r: r["time_ns"]
    )
    executions = [{"step": n, "time_ns": (100 * n + 42) * MS, "duration_ns": 38 * MS, "graph": "aa"} for n in range(3)]
    places = {1: at_line(10), 2: at_line(20), 3: at_line(30)}
    return tables(places=places, steps=stepped(3, 100 * MS), spans=spans, executions=executions)


def test_a_gap_says_its_cause_its_place_and_what_opened_it(tables: Make, stepped: Steps, at_line: At) -> None:
    run = made(tables, stepped, at_line)
    gaps = worst_gaps(run, 0, 2)
    assert [gap.idle_s for gap in gaps] == [0.062, 0.062]
    first = gaps[0]
    assert (first.cause, first.step, first.opened_by) == ("trace", 0, "read")
    assert first.by_host_state == {"trace": 0.032, "input_wait": 0.03}
    assert first.site is not None and first.site.line == 20, "traced until the sync that ended the gap"
    assert first.opened_site is not None and first.opened_site.line == 30
    assert first.summary.startswith(
        "Idle for 62 ms in step 0: the host ran Python and traced until the cut at train.py:20"
    )
    assert "A value read at train.py:30 had waited until the device was done" in first.summary


def test_idle_time_is_charged_to_the_cut_that_opened_it(tables: Make, stepped: Steps, at_line: At) -> None:
    opened = opened_idle(made(tables, stepped, at_line), 0)
    assert opened["kind"].astype(str).tolist() == ["read", "read"]
    assert opened["idle_ns"].tolist() == [62 * MS, 62 * MS]
    assert opened["time_ns"].tolist() == [50 * MS, 150 * MS]


def test_the_table_of_gaps_has_a_row_a_gap(tables: Make, stepped: Steps, at_line: At) -> None:
    run = made(tables, stepped, at_line)
    table = idle_table(run)
    assert table["cause"].tolist() == ["input_wait", "trace", "trace"]
    assert table["step"].tolist() == [0, 0, 1] and table["opened_line"].tolist()[1:] == [30, 30]
    assert (table[[f"{state}_ns" for state in STATES]].sum(axis=1) == table["duration_ns"]).all()
    assert list(idle_table(tables()).columns) == list(table.columns)


def test_without_executions_there_are_no_gaps(tables: Make, stepped: Steps) -> None:
    run = tables(steps=stepped(2, MS))
    assert not len(process_account(run, 0).gaps) and worst_gaps(run, 0, 5) == () and idle_table(run).empty
