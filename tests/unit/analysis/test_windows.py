"""Device windows: where one covers it, time is what the device did; elsewhere it is inferred, with the error known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import make_context
from tests.unit.graph.modules import graph, read
from tests.xspaces import Made, make_session
from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.data_facts import data_facts
from xla_insight.analysis.findings import all_findings
from xla_insight.analysis.intervals import Spans, refined
from xla_insight.analysis.step_table import build_step_table
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.time_account import process_account
from xla_insight.analysis.time_facts import time_facts
from xla_insight.analysis.windows import device_sessions, operation_table
from xla_insight.facts.report import HostState, Severity, TimeFacts

MS = 1_000_000
WALL_NS = 1_790_000_000_000_000_000
Make = Callable[..., RunTables]
Steps = Callable[[int, int], list[dict[str, Any]]]
PROGRAM = 4


def executed(*rows: tuple[float, float, str]) -> list[dict[str, Any]]:
    return [
        {"step": 0, "time_ns": round(begin * MS), "duration_ns": round((end - begin) * MS), "graph": name}
        for begin, end, name in rows
    ]


def a_window(begin_ms: float, end_ms: float, **changes: Any) -> dict[str, Any]:
    """A window as the log has it."""
    row = {
        "time_ns": int(begin_ms * MS),
        "duration_ns": int((end_ms - begin_ms) * MS),
        "name": "000001",
        "stop_ns": 2 * MS,
        "first_step": 1,
        "last_step": 2,
        "wall_ns": WALL_NS + int(begin_ms * MS),
        "note": None,
    }
    return {**row, **changes}


def ran(begin_ms: float, end_ms: float, operation: str, program: int = PROGRAM) -> Made:
    """A device operation of a session that began at 20 ms."""
    return Made(operation, int((begin_ms - 20) * MS), int((end_ms - 20) * MS), operation, program)


def session(*work: Made, programs: dict[int, bytes] | None = None) -> bytes:
    host = [Made("Wait for donation holds", MS, 3 * MS), Made("Wait for donation holds", 5 * MS, 6 * MS)]
    return make_session(
        {"python": host, "pool/12": work[::2], "pool/99": work[1::2]}, programs, WALL_NS + 20 * MS, line_start_ns=0
    )


OPERATIONS = [ran(21, 27, "dot.1"), ran(26, 28.5, "add.2"), ran(31, 38, "dot.1"), ran(38, 39, "gone.9", 5)]
RUN = {
    "executions": executed((0, 9, "a"), (20.8, 29, "a"), (30.5, 39.2, "a"), (52, 59, "a")),
    "windows": [a_window(20, 45)],
}


@pytest.fixture
def run(tables: Make, stepped: Steps) -> RunTables:
    """Six steps of 10 ms, of which a window covers from 20 to 45 ms."""
    return tables(steps=stepped(6, 10 * MS), window=lambda process, name: session(*OPERATIONS), **RUN)


def times(run: RunTables) -> TimeFacts:
    return time_facts(run, run.main_process())


def test_in_a_window_busy_is_what_the_device_did_and_elsewhere_what_is_inferred(run: RunTables) -> None:
    table = build_step_table(run)
    # Measured from 21 to 39 ms; the 0.2 ms before and after it are still inferred.
    assert table["device_busy_ns"].tolist() == [9 * MS, 0, 7_700_000, 8_200_000, 0, 7 * MS]
    assert table["device_quality"].tolist() == ["inferred"] * 6, "no step lies within the measured time"


def test_a_step_within_a_window_is_measured(tables: Make, stepped: Steps) -> None:
    run = tables(steps=stepped(12, 5 * MS), window=lambda process, name: session(*OPERATIONS), **RUN)
    quality = build_step_table(run)["device_quality"].tolist()
    assert [step for step, word in enumerate(quality) if word == "measured"] == [5, 6]


def test_time_adds_up_to_the_nanosecond_with_windows(run: RunTables) -> None:
    found = process_account(run, 0)
    for part in (found.whole, found.steps):
        assert part.busy is not None and part.idle is not None
        assert (part.busy + part.idle.sum(axis=1) == part.host.sum(axis=1)).all()
    outside = found.steps.host[:, STATES.index(HostState.OUTSIDE)]
    assert outside.tolist() == [0, 0, 0, 0, 2 * MS, 0], "ending the window is our time, not the program's tracing"


def test_the_error_of_what_is_inferred_is_told(run: RunTables) -> None:
    measured = times(run).measured
    assert measured is not None
    (window,) = measured.windows
    assert (window.measured_s, window.busy_s, window.inferred_busy_s) == (0.018, 0.0155, 0.0165)
    assert window.error_points == pytest.approx(100 * 1.0 / 18)
    assert measured.error_points == pytest.approx(5.56, abs=0.01)
    assert measured.summary.startswith("Measured for 18 ms in steps 1 to 2: the device was busy 86")
    assert "5.6 points off" in measured.summary
    spans = {(span.thread, span.name): (span.count, span.total_s) for span in measured.host_spans}
    assert spans == {("python", "Wait for donation holds"): (2, 0.003)}


def test_the_error_of_the_inferred_overlap_is_told(tables: Make, stepped: Steps) -> None:
    # From 21 to 39 ms. The profiler: blocked from 21 to 24 ms, so 15 ms of tracing, of which the device (at work to 29
    # and from 31 ms) is idle in 2. Dispatch and ready: never blocked, idle from 29 to 30.5 ms.
    host = [Made("StepMarker", 0, 5 * MS), Made("Wait for donation holds", MS, 4 * MS)]
    work = [ran(21, 29, "dot.1"), ran(31, 39, "dot.1")]
    content = make_session({"python": host, "pool/1": work}, None, WALL_NS + 20 * MS, line_start_ns=0)
    run = tables(steps=stepped(6, 10 * MS), window=lambda process, name: content, **RUN)
    measured = times(run).measured
    assert measured is not None and measured.overlap_error_points is not None
    assert measured.overlap_pct == pytest.approx(100 * 13 / 15)
    assert measured.inferred_overlap_pct == pytest.approx(100 * 16.5 / 18)
    assert measured.overlap_error_points == pytest.approx(5, abs=0.01)
    assert measured.summary.endswith("inferred, ~92 % is, 5.0 points off.")


def test_what_a_window_shows_of_waits_holds_for_the_rest_of_the_run(tables: Make, stepped: Steps) -> None:
    """Each cut lasts from 2 to 9 ms of its step and dispatches at 3 ms; in the window it is blocked from 6 ms on."""
    holds = [Made("Wait for donation holds", begin * MS, (begin + 3) * MS) for begin in (6, 16)]
    host = [Made("StepMarker", 2 * MS, 9 * MS), *holds]
    work = [ran(21, 21.5, "add.2"), ran(23, 29, "dot.1"), ran(39, 39.5, "add.2")]
    content = make_session({"python": host, "pool/1": work}, None, WALL_NS + 20 * MS, line_start_ns=0)
    rows = [{"step": n, "time_ns": (10 * n + 2) * MS, "duration_ns": 7 * MS, "thread": 0} for n in range(6)]
    run = tables(
        steps=stepped(6, 10 * MS),
        spans=[{**row, "kind": "sync"} for row in rows],
        executions=executed(*((10 * n + 3, 10 * n + 9, "a" if n < 5 else "b") for n in range(6))),
        windows=[a_window(20, 45)],
        window=lambda process, name: content,
    )
    waits = process_account(run, 0).steps.host[:, STATES.index(HostState.DEVICE_WAIT)]
    assert waits.tolist() == [3 * MS] * 5 + [6 * MS], "of a graph that no window shows it is not known"
    measured = times(run).measured
    assert measured is not None and measured.summary.endswith("points off, which is allowed for outside of windows.")


def test_a_sync_that_waits_for_donated_buffers_is_told_as_information(tables: Make, stepped: Steps) -> None:
    """Each sync lasts from 2 to 9 ms of its step of 10 ms; the session shows that it waits from 3 ms on."""
    holds = [Made("Wait for donation holds", (10 * n + 3) * MS, (10 * n + 9) * MS) for n in range(3)]
    work = [ran(10 * n + 3, 10 * n + 9, "dot.1") for n in range(2, 5)]
    content = make_session(
        {"python": [Made("StepMarker", 2 * MS, 9 * MS), *holds], "pool/1": work}, None, WALL_NS + 20 * MS, 0
    )
    rows = [{"step": n, "time_ns": (10 * n + 2) * MS, "duration_ns": 7 * MS, "thread": 0} for n in range(40)]
    run = tables(
        steps=stepped(40, 10 * MS),
        spans=[{**row, "kind": "sync"} for row in rows],
        executions=executed(*((10 * n + 3, 10 * n + 9, "a") for n in range(40))),
        windows=[a_window(20, 50)],
        window=lambda process, name: content,
    )
    (found,) = (finding for finding in all_findings(make_context(run)) if finding.id == "donation_wait")
    assert (found.severity, found.count) == (Severity.INFO, 3)
    assert found.details == {"waited_s": 0.018, "windows_s": 0.03}
    assert (
        "held the training thread for 60 % of the time (3 waits for buffers), until their own graph was done"
        in found.summary
    )
    assert found.cost_s == pytest.approx(0.004 * 39, rel=0.05), "4 ms of each step"


def test_without_a_thread_that_cuts_graphs_overlap_is_not_compared(run: RunTables) -> None:
    measured = times(run).measured
    assert measured is not None and measured.error_points is not None
    assert measured.overlap_pct is None is measured.overlap_error_points


def test_a_session_says_when_it_began_on_the_wall_clock(tables: Make) -> None:
    rows = [a_window(20, 45, wall_ns=WALL_NS + 20 * MS - 700)]
    run = tables(windows=rows, window=lambda process, name: session(*OPERATIONS))
    (found,) = device_sessions(run, 0)
    assert found.measured == (21 * MS + 700, 39 * MS + 700)


def test_operations_of_all_threads_by_program_with_the_graph_that_ran(run: RunTables) -> None:
    table = operation_table(run)
    rows = table[["graph", "operation", "count", "device_ns"]].to_numpy().tolist()
    assert rows == [["a", "dot.1", 2, 13 * MS], ["a", "add.2", 1, int(2.5 * MS)], ["a", "gone.9", 1, MS]]
    assert table["share"].sum() == pytest.approx(1)
    assert table["line"].isna().all(), "the program was not in the session: no line is guessed"


def test_an_operation_has_the_line_of_its_instruction(tables: Make, stepped: Steps) -> None:
    known = graph("optimized")
    placed = next(i for i in known.instructions if i.metadata.stack)
    content = session(ran(21, 27, placed.name), programs={PROGRAM: read("optimized.hlo.pb")})
    run = tables(steps=stepped(6, 10 * MS), window=lambda process, name: content, **RUN)
    (row,) = operation_table(run).to_dict("records")
    assert (row["opcode"], row["framework_operation"]) == (placed.opcode, placed.metadata.op_type)
    lines = {(frame.file, frame.line) for frame in placed.metadata.stack}
    assert (row["file"], row["line"]) in lines
    measured = times(run).measured
    assert measured is not None and measured.lines[0].site is not None
    assert measured.lines[0].share == 1.0 and f":{row['line']}" in measured.summary


def test_time_without_a_line_is_told_when_it_is_most(tables: Make, stepped: Steps) -> None:
    placed = next(i for i in graph("optimized").instructions if i.metadata.stack)
    content = session(ran(21, 23, placed.name), ran(23, 29, "gone.9"), programs={PROGRAM: read("optimized.hlo.pb")})
    measured = times(tables(steps=stepped(6, 10 * MS), window=lambda process, name: content, **RUN)).measured
    assert measured is not None
    assert "75 % of device time has no line; the largest part of the rest comes from" in measured.summary
    assert "largest part of device time" not in measured.summary


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "not kept"), (b"\x0a\x50\x01", "cannot be read"), (make_session({}), "no operation of the device")],
)
def test_what_cannot_be_read_measures_nothing_and_says_so(
    tables: Make, stepped: Steps, content: bytes | None, why: str
) -> None:
    run = tables(steps=stepped(6, 10 * MS), window=lambda process, name: content, **RUN)
    bare = tables(steps=stepped(6, 10 * MS), executions=RUN["executions"])
    measured = times(run).measured
    assert measured is not None and why in measured.summary
    assert measured.windows[0].busy_s is None and measured.error_points is None
    assert times(run).device_busy_s == times(bare).device_busy_s
    assert times(bare).measured is None


def test_a_loop_does_not_count_its_body_twice(tables: Make, stepped: Steps) -> None:
    work = [ran(21, 29, "while.1"), ran(21.5, 24, "dot.7"), ran(24, 28, "dot.7"), ran(25, 26, "copy.3")]
    content = make_session({"pool": work}, None, WALL_NS + 20 * MS, line_start_ns=0)
    run = tables(steps=stepped(6, 10 * MS), window=lambda process, name: content, **RUN)
    table = operation_table(run).set_index("operation")["device_ns"]
    assert table.to_dict() == {"while.1": 1.5 * MS, "dot.7": 5.5 * MS, "copy.3": MS}


def instants(rows: list[tuple[int, int]]) -> set[int]:
    return {i for begin, end in rows for i in range(begin, end)}


edges = st.lists(st.integers(0, 60), max_size=10, unique=True).map(
    lambda numbers: list(zip(sorted(numbers)[::2], sorted(numbers)[1::2], strict=False))
)


@settings(deadline=None)
@given(edges, edges, edges)
def test_a_graph_holds_the_device_where_it_was_measured_only_while_it_was_busy(
    spans: list[tuple[int, int]], known: list[tuple[int, int]], busy: list[tuple[int, int]]
) -> None:
    starts, ends, origin = refined(Spans.of(spans), Spans.of(known), Spans.of(busy))
    pieces = list(zip(starts.tolist(), ends.tolist(), strict=True))
    expected = (instants(spans) - instants(known)) | (instants(spans) & instants(known) & instants(busy))
    assert instants(pieces) == expected and sum(end - begin for begin, end in pieces) == len(expected)
    assert all(spans[n][0] <= begin < end <= spans[n][1] for (begin, end), n in zip(pieces, origin, strict=True))


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=12)


@settings(deadline=None)
@given(st.lists(spans, min_size=1, max_size=3))
def test_busy_is_every_instant_in_which_some_thread_ran_an_operation(threads: list[list[tuple[int, int]]]) -> None:
    from tests.unit.analysis.conftest import make_tables

    made = {
        f"pool/{n}": [Made("x", begin, begin + length, "x", 1) for begin, length in rows]
        for n, rows in enumerate(threads)
    }
    content = make_session(made, None, WALL_NS + 20 * MS, line_start_ns=0)
    run = make_tables(window=lambda process, name: content, windows=[a_window(20, 45)])
    (found,) = device_sessions(run, 0)
    seen = instants([(begin, begin + length) for rows in threads for begin, length in rows])
    assert int((found.busy.ends - found.busy.starts).sum()) == len(seen)
    assert (found.work["self_ns"] >= 0).all() and (found.work["self_ns"] <= found.work["duration_ns"]).all()


@pytest.mark.parametrize(
    ("facts", "notes"),
    [
        ({"plan": "3-4", "skipped": {"the run ended before its steps": 1}}, ["1 device window not taken: the run"]),
        ({"plan": "auto", "skipped": {"the steady part was too short": 1}}, []),
        ("nonsense", []),
    ],
)
def test_windows_that_were_asked_for_and_are_missing_are_told(tables: Make, facts: Any, notes: list[str]) -> None:
    run = tables(processes=[Process(0, 0, 0, 100 * MS, "clean", {"windows": facts})])
    told = data_facts(run, "ended", 0, ()).notes
    assert [note[:34] for note in told] == notes
