"""Tensors on their way: whose line moves them, and a device that waits for them although it looks busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.conftest import make_context, make_tables, user_place
from tests.xspaces import Made, make_session
from xla_insight.analysis.accounting import STATES, clipped_executions, queued
from xla_insight.analysis.findings import all_findings
from xla_insight.analysis.intervals import Spans
from xla_insight.analysis.tables import RunTables
from xla_insight.analysis.time_account import process_account
from xla_insight.analysis.timeline import Timeline
from xla_insight.analysis.verdict import Evidence, verdict
from xla_insight.analysis.windows import not_yet_at_work
from xla_insight.facts.report import Finding, HostState, RunFacts, Severity

MS = 1_000_000
WALL_NS = 1_790_000_000_000_000_000
STEPS = 40
STEP = 100 * MS
Rows = list[dict[str, Any]]


def in_steps(kind: str, begin_ms: int, length_ms: int, **more: Any) -> Rows:
    row = {"duration_ns": length_ms * MS, "thread": 0, "kind": kind, "name": "x", "site": None, **more}
    return [{**row, "step": n, "time_ns": n * STEP + begin_ms * MS} for n in range(STEPS)]


def runs(begin_ms: int, length_ms: int, graph: str = "a") -> Rows:
    return [
        {"step": n, "time_ns": n * STEP + begin_ms * MS, "duration_ns": length_ms * MS, "graph": graph}
        for n in range(STEPS)
    ]


def uploads(begin_ms: int, length_ms: int, site: int = 1) -> Rows:
    return in_steps("transfer", begin_ms, length_ms, name="upload", site=site)


@pytest.fixture
def made(stepped: Callable[[int, int], Rows]) -> Callable[..., RunTables]:
    """40 steps of 100 ms with what a test gives; lines 1 to 9 have the sites 1 to 9."""
    places = {line: user_place(line) for line in range(1, 10)}
    return lambda **rows: make_tables(steps=stepped(STEPS, STEP), places=places, **rows)


def found(tables: RunTables) -> dict[str, Finding]:
    return {finding.id: finding for finding in all_findings(make_context(tables))}


def test_the_line_that_uploads_most_is_named(made: Callable[..., RunTables]) -> None:
    spans = [*uploads(1, 5, site=3), *uploads(10, 30, site=7)]
    finding = found(made(spans=spans, executions=runs(60, 30)))["transfer_bound"]
    assert finding.severity is Severity.WARNING and finding.site is not None and finding.site.line == 7
    assert finding.summary.endswith("most of it in uploads at train.py:7, while the device has nothing to run.")
    assert "once, before the loop" in finding.advice and finding.cost_s == pytest.approx(0.035 * (STEPS - 1), rel=0.05)


def test_a_device_that_may_wait_for_its_inputs_is_not_called_healthy(made: Callable[..., RunTables]) -> None:
    found_ones = found(made(spans=uploads(1, 60), executions=runs(2, 99)))
    assert "device_bound" not in found_ones
    finding = found_ones["transfer_bound"]
    assert "do not tell (a device window does: --window)" in finding.summary
    assert finding.cost_s == pytest.approx(0.06 * (STEPS - 1), rel=0.05)


def test_uploads_of_several_lines_have_their_share(made: Callable[..., RunTables]) -> None:
    spans = [row for line in (1, 2, 3) for row in uploads(10 * line, 10, site=line)]
    finding = found(made(spans=spans, executions=runs(60, 30)))["transfer_bound"]
    assert "in uploads, 33 % of them at train.py:1, while" in finding.summary


def test_what_is_only_seen_in_part_costs_all_of_it_at_most(made: Callable[..., RunTables]) -> None:
    """Uploads from 1 to 41 ms; from 21 ms on a graph seems to run, which the thread waits for from 60 ms on."""
    spans = [*uploads(1, 40), *in_steps("device_wait", 60, 30)]
    finding = found(made(spans=spans, executions=runs(21, 69)))["transfer_bound"]
    assert finding.cost_s == pytest.approx(0.04 * (STEPS - 1), rel=0.05)
    assert "nothing to run for ~780 ms of it, or longer: while it waits for inputs it looks busy." in finding.summary


@pytest.mark.parametrize(
    "spans",
    [
        uploads(1, 20),  # hidden behind the device, as far as can be seen
        [*uploads(1, 45), *in_steps("device_wait", 50, 45)],  # the thread has time: nothing waits for its uploads
    ],
)
def test_uploads_beside_a_busy_device_cost_nothing(made: Callable[..., RunTables], spans: Rows) -> None:
    found_ones = found(made(spans=spans, executions=runs(1, 99)))
    assert "transfer_bound" not in found_ones and "device_bound" in found_ones


def windowed(made: Callable[..., RunTables], executions: Rows, work: list[tuple[int, int]], **rows: Any) -> RunTables:
    """A device window from 200 to 500 ms, in which the device worked from and to these ms of the run."""
    own = [Made("dot.1", (begin - 200) * MS, (end - 200) * MS, "dot.1", 4) for begin, end in work]
    content = make_session({"python": [Made("StepMarker", MS, 2 * MS)], "pool/1": own}, None, WALL_NS + 200 * MS, 0)
    row = {"time_ns": 200 * MS, "duration_ns": 300 * MS, "name": "000001", "stop_ns": 0, "first_step": 2}
    window = {**row, "last_step": 4, "wall_ns": WALL_NS + 200 * MS, "note": None}
    return made(executions=executions, windows=[window], window=lambda process, name: content, **rows)


def test_what_a_window_shows_of_a_graph_that_waits_for_its_inputs_holds_elsewhere(
    made: Callable[..., RunTables],
) -> None:
    """Each execution seems to run from 10 to 90 ms of its step; the window shows the device at work from 70 ms on."""
    shown = [(begin + 70, begin + 90) for begin in (200, 300, 400)]
    tables = windowed(made, runs(10, 80), shown, spans=uploads(5, 60))
    steps = process_account(tables, 0).steps
    assert steps.busy is not None and steps.idle is not None
    assert steps.busy[5:].tolist() == [20 * MS] * (STEPS - 5)
    assert steps.idle[5:, STATES.index(HostState.TRANSFER)].tolist() == [60 * MS] * (STEPS - 5)
    assert Timeline(tables, 0).totals(10 * STEP, 20 * STEP).busy == 10 * 20 * MS, "the Timeline draws the same"
    finding = found(tables)["transfer_bound"]
    assert "while the device has nothing to run" in finding.summary
    measured = make_context(tables).time.measured
    assert measured is not None and "points off, which is allowed for outside of windows." in measured.summary


def test_a_graph_that_runs_as_long_as_it_seems_is_left_alone(made: Callable[..., RunTables]) -> None:
    shown = [(begin + 11, begin + 90) for begin in (200, 300, 400)]
    other = [{**row, "graph": "b"} for row in runs(92, 6)]
    tables = windowed(made, [*runs(10, 80), *other], shown)
    assert not len(not_yet_at_work(tables, 0).starts), "neither it, nor one of which the window shows nothing"


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)), min_size=1, max_size=30))
def test_what_is_queued_is_what_is_clipped(pairs: list[tuple[int, int]]) -> None:
    spans = Spans.of(sorted((begin, begin + length) for begin, length in pairs))
    begins, ends = queued(spans)
    assert np.array_equal(ends - begins, clipped_executions(spans))
    assert (begins[1:] >= ends[:-1]).all()


def test_a_wait_for_a_device_that_waits_for_inputs_of_another_thread_is_no_device_limit(
    made: Callable[..., RunTables],
) -> None:
    """The thread waits from 10 to 90 ms for a graph of which the window shows 20 ms of work; a loader uploads."""
    shown = [(begin + 70, begin + 90) for begin in (200, 300, 400)]
    context = make_context(windowed(made, runs(10, 80), shown, spans=in_steps("device_wait", 10, 80)))
    facts = Evidence(RunFacts("run", "run", 1, 1, "light", {}), context.steps, context.graphs, (), (), context.time)
    said = verdict(facts)
    assert said.bound == "transfer" and "that is busy only ~20 %: it waits for inputs" in said.summary
