"""The tables: steps, times, places and graphs, on runs whose every number is known."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.synthetic import (
    HOSTILE_FORMULA,
    HOSTILE_SCRIPT,
    LONG_FOLDER,
    MS,
    READ_SITE,
    SYNC_SITE,
    Plan,
    build_large_run,
    build_run,
    graph_hash,
    process_facts,
    site_text,
)
from xla_insight.facts.events import CacheOutcome, Event, Kind, StepSource, Trigger
from xla_insight.store import database
from xla_insight.store.reader import Run, open_run
from xla_insight.store.views import TABLES
from xla_insight.store.writer import RunWriter

ON_EACH_ROW = {"process", "rank", "time_ns"}
PLACE = {"site", "file", "line", "function", "user_file", "user_line", "user_function"}


def write(run: Path, events: list[Event], rank: int = 0, **facts: object) -> Run:
    known = {"rank": rank, "start_mono_ns": 0, "wall_anchor_ns": 1_000, **facts}
    log = RunWriter.create(str(run), group="g", run_facts={}, process_facts=known)
    log.append([Event(0, None, Kind.MARK, name="start"), *events])
    log.close(ended="clean")
    return open_run(run)


def mark(time_ns: int, number: float | None, source: str = StepSource.CALLBACK) -> Event:
    return Event(time_ns, None, Kind.STEP, name=source, value=number)


def collection(time_ns: int) -> Event:
    return Event(time_ns, 1, Kind.GC, thread=0, name="gen0")


def site(number: int, line: int) -> Event:
    return Event(0, None, Kind.SITE, site=number, name=site_text(("/u/train.py", line, "<module>"), None, ""))


def cut(time_ns: int, trigger: str, at: int, ran: int, duration_ns: int | None) -> Event:
    return Event(time_ns, duration_ns, Kind.SYNC, thread=0, site=at, name=trigger, value=float(ran))


@pytest.mark.parametrize("synced", [True, False])
def test_where_dynamo_runs_the_graphs_a_sync_ends_the_step_or_else_the_call(tmp_path: Path, synced: bool) -> None:
    events = [site(1, 16), site(2, 25)]
    for step in range(4):
        at = 1_000 * step
        events += [cut(at + n, Trigger.DYNAMO_COMPILE, 1, 0, 5) for n in (100, 200)]
        events.append(cut(at + 300, Trigger.DYNAMO_EXECUTE, 1, 1, None))
        events += [cut(at + 400, Trigger.SYNC, 2, 0, 50)] if synced else []
    with write(tmp_path / "run", events) as run:
        steps = run.table("steps")
    assert steps["end_ns"].tolist() == [1_000 * step + (450 if synced else 300) for step in range(4)]
    assert steps["inferred"].all()


def test_every_table_has_its_columns_also_without_rows(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty", [])
    full = open_run(build_run(tmp_path / "full", steps=10, hostile=True, save_every=3, fallback="aten::nonzero"))
    for name in TABLES:
        assert list(empty.table(name).columns) == list(full.table(name).columns), name
    for name in ("events", "syncs", "compiles", "executions", "reads", "host_spans", "transfers", "inputs", "counters"):
        assert ON_EACH_ROW | {"step", "thread"} - {"thread"} <= set(full.table(name).columns), name
    for name in ("syncs", "compiles", "executions", "reads", "host_spans", "inputs", "graphs", "loader_errors"):
        assert set(full.table(name).columns) >= PLACE, name


def test_a_step_covers_what_follows_the_mark_before_up_to_its_own(tmp_path: Path) -> None:
    times = [0, 1, 100, 101, 200, 201]
    run = write(tmp_path / "run", [mark(100, 0), mark(200, 1), *map(collection, times)])
    steps = run.steps
    assert steps[["step", "start_ns", "end_ns", "duration_ns"]].to_numpy().tolist() == [
        [0, 0, 100, 100],
        [1, 100, 200, 100],
    ]
    assert steps["source"].tolist() == ["callback"] * 2
    assert not steps["inferred"].any()
    found = run.sql("select step from events where kind = 'gc' order by time_ns")["step"]
    assert found.tolist()[:5] == [0, 0, 0, 1, 1]
    assert found.isna().tolist() == [False] * 5 + [True]


def test_the_best_source_marks_the_steps_of_each_process(tmp_path: Path) -> None:
    loader = [mark(time, n, StepSource.LOADER) for n, time in enumerate((10, 20, 30))]
    write(tmp_path / "run", [*loader, mark(25, 0, StepSource.PROF_STEP), mark(15, 0, StepSource.CALLBACK)])
    run = write(tmp_path / "run", [*loader, mark(5, 0, "unheard_of")], rank=1)
    assert run.sql("select rank, end_ns, source from steps order by all").to_numpy().tolist() == [
        [0, 25, "prof.step"],
        [1, 10, "loader"],
        [1, 20, "loader"],
        [1, 30, "loader"],
    ]


@pytest.mark.parametrize(
    ("numbers", "steps"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([0, 1, 7], [0, 1, 7]),
        ([0, 1, 1], [0, 1, 2]),
        ([0, None, 5], [0, 1, 2]),
        ([5, 1, 2], [0, 1, 2]),
    ],
    ids=["as recorded", "a mark was lost", "repeated", "unknown", "falling"],
)
def test_numbers_of_steps(tmp_path: Path, numbers: list[float | None], steps: list[int]) -> None:
    run = write(tmp_path / "run", [mark(10 * n + 10, number) for n, number in enumerate(numbers)])
    assert run.steps["step"].tolist() == steps


def test_without_marks_the_line_that_syncs_most_ends_the_steps(tmp_path: Path) -> None:
    sites = [
        Event(0, None, Kind.SITE, site=1, name=site_text(("train.py", 10, "main"), ("train.py", 10, "main"), "")),
        Event(0, None, Kind.SITE, site=2, name=site_text(("lib.py", 5, "f"), ("train.py", 20, "main"), "")),
        Event(0, None, Kind.SITE, site=3, name=site_text(("other.py", 7, "g"), ("train.py", 20, "main"), "")),
    ]
    cuts = [
        Event(10, 5, Kind.SYNC, site=1, name=Trigger.SYNC, value=1.0),
        Event(20, 5, Kind.SYNC, site=2, name=Trigger.SYNC, value=1.0),
        Event(30, 5, Kind.SYNC, site=3, name=Trigger.SYNC, value=1.0),  # the same line of the user
        *[Event(40 + n, 1, Kind.SYNC, site=1, name=Trigger.FORCED, value=1.0) for n in range(5)],  # nobody's step
        *[Event(60 + n, 1, Kind.SYNC, site=1, name=Trigger.SYNC, value=0.0) for n in range(5)],  # cut nothing
    ]
    run = write(tmp_path / "run", [*sites, *cuts])
    assert run.steps["end_ns"].tolist() == [25, 35]
    assert run.steps["inferred"].all()
    assert set(run.steps["source"]) == {StepSource.SYNC_SITE}


def test_a_compiled_function_is_one_step_though_it_cuts_before_and_after_its_body(tmp_path: Path) -> None:
    call = ("train.py", 20, "main")
    sites = [
        Event(0, None, Kind.SITE, site=1, name=site_text(("torch_xla.py", 5, "_clear_pending"), call, "")),
        Event(0, None, Kind.SITE, site=2, name=site_text(("torch_xla.py", 9, "_compile"), call, "")),
    ]
    cuts = [
        Event(
            10 * n + 4 * half, 2, Kind.SYNC, site=1 + half, name=Trigger.COMPILED_FUNCTION, value=float(half or n > 1)
        )
        for n in range(1, 4)
        for half in (0, 1)
    ]
    run = write(tmp_path / "run", [*sites, *cuts])
    assert run.steps["end_ns"].tolist() == [16, 26, 36]


def test_all_processes_are_on_one_axis(tmp_path: Path) -> None:
    second = 1_000_000_000
    write(tmp_path / "run", [collection(5)], start_mono_ns=0, wall_anchor_ns=10 * second)
    facts = {"start_mono_ns": 7_000 * second, "wall_anchor_ns": 12 * second}
    log = RunWriter.create(str(tmp_path / "run"), group="g", run_facts={}, process_facts={"rank": 1, **facts})
    log.append([collection(7_001 * second)])
    log.close(ended="clean")
    run = open_run(tmp_path / "run")
    assert run.sql("select time_ns from host_spans order by rank")["time_ns"].tolist() == [5, 3 * second]
    assert [(process.start_ns, process.end_ns) for process in run.processes] == [(0, 6), (3 * second, 3 * second + 1)]


def test_syncs_are_explicit_cuts_and_reads_and_backward_passes_that_ran_something(tmp_path: Path) -> None:
    events = [
        Event(10, 1, Kind.SYNC, thread=0, name=Trigger.LOADER, value=2.0, dims=(1,), graph="a"),
        Event(20, 1, Kind.READ, thread=0, name="item", value=1.0, dims=(0,), detail="3.5"),
        Event(30, 1, Kind.READ, thread=0, name="item", value=0.0, dims=(0,)),
        Event(40, 1, Kind.BACKWARD, thread=0, value=1.0, dims=(1,)),
        Event(50, 1, Kind.BACKWARD, thread=0, value=0.0, dims=(0,)),
        Event(60, 1, Kind.BACKWARD, thread=0),
    ]
    run = write(tmp_path / "run", events)
    assert run.syncs[["time_ns", "trigger", "executions", "compiles"]].to_numpy().tolist() == [
        [10, "loader", 2, 1],
        [20, "read", 1, 0],
        [40, "autograd", 1, 1],
    ]
    assert run.reads[["method", "executions"]].to_numpy().tolist() == [["item", 1], ["item", 0]]
    assert run.reads["scalar"][0] == "3.5"
    assert len(run.host_spans) == 6


def test_an_execution_that_never_became_ready_has_no_duration(tmp_path: Path) -> None:
    run = write(tmp_path / "run", [Event(10, None, Kind.EXECUTION, graph="a", detail="hit", dims=(4,))])
    assert run.executions["duration_ns"].isna().all()
    assert run.executions["cut_ns"].tolist() == [4]
    assert run.graphs["device_ns"].isna().all(), "not measured is not zero"
    assert run.graphs["executions"].tolist() == [1]


def test_device_time_of_graphs_counts_the_queue_once(tmp_path: Path) -> None:
    run = write(
        tmp_path / "run",
        [
            Event(0, 100, Kind.EXECUTION, graph="a", detail=CacheOutcome.COMPILE),
            Event(10, 150, Kind.EXECUTION, graph="b", detail=CacheOutcome.HIT),  # waits for a until 100, ready at 160
            Event(20, 30, Kind.EXECUTION, graph="c", detail=CacheOutcome.HIT),  # said to be ready before b was
            Event(500, 10, Kind.EXECUTION, graph="a", detail=CacheOutcome.HIT),
        ],
    )
    assert run.graphs.set_index("graph")["device_ns"].to_dict() == {"a": 110, "b": 60, "c": 0}
    assert run.graphs.set_index("graph")["hits"].to_dict() == {"a": 1, "b": 1, "c": 1}


def test_facts_of_graphs(tmp_path: Path) -> None:
    run = open_run(build_run(tmp_path / "run", steps=14, ranks=2))
    graphs = run.graphs.set_index("graph")
    usual = graphs.loc[graph_hash("A")]
    assert usual[["inputs", "outputs", "input_bytes", "program_bytes"]].tolist() == [20, 5, 4000, 9000]
    assert usual[["executions", "hits", "compiles"]].tolist() == [4 * 2, 4 * 2 - 2, 2]
    assert usual["compile_ns"] == 2 * 300 * MS
    assert usual[["first_step", "last_step", "processes"]].tolist() == [0, 8, 2]
    assert usual[["trigger", "line", "user_line"]].tolist() == ["loader", 40, 40]
    mask = graphs.loc[graph_hash("mask")]
    assert mask["file"].endswith("masking_utils.py")
    assert mask[["line", "user_line", "trigger"]].tolist() == [354, 31, "read"]
    unknown = write(tmp_path / "one", [Event(1, None, Kind.GRAPH, graph="g", dims=(3, -1, 7))]).graphs
    assert unknown["inputs"].tolist() == [3]
    assert unknown[["outputs", "output_bytes", "program_bytes"]].isna().all(axis=None)


def test_counts_of_a_whole_run(tmp_path: Path) -> None:
    plan = Plan(steps=70, ranks=2, save_every=10, fallback="aten::nonzero")
    run = open_run(build_run(tmp_path / "run", plan))
    assert len(run.steps) == 140
    assert len(run.executions) == len(run.syncs) == 280
    assert len(run.compiles) == 2 * 4
    assert len(run.inputs) == 280
    assert run.inputs["dims"][0].tolist() == [8, 72]
    assert run.executions["step"].notna().all()
    totals = run.sql("select name, sum(delta) as n from counters group by name").set_index("name")["n"].to_dict()
    assert totals == {"LazyTracing": 1260, "aten::nonzero": 140, "executions": 280, "compiles": 8, "cache_hits": 272}
    assert run.host_spans["kind"].value_counts()["checkpoint"] == 14
    assert run.threads["name"].tolist() == ["MainThread"] * 2
    assert run.marks["name"].tolist() == ["start", "end"] * 2


def test_places(tmp_path: Path) -> None:
    run = open_run(build_run(tmp_path / "run", steps=3, hostile=True))
    sites = run.sites.set_index("site")
    assert sites.loc[READ_SITE, "line"] == 354
    assert sites.loc[READ_SITE, "user_file"] == f"{LONG_FOLDER}/{HOSTILE_SCRIPT}.py"
    assert sites.loc[SYNC_SITE, "function"] == HOSTILE_FORMULA
    assert json.loads(sites.loc[READ_SITE, "stack"])[0][1] == 354
    assert run.loader_errors["exception"].tolist() == ["ValueError"]
    assert HOSTILE_FORMULA in run.loader_errors["message"][0]
    assert run.threads["name"][0] == HOSTILE_SCRIPT


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{", '{"site": 5}', '{"site": ["a", "b", []]}', '{"site": ["a", 1e99, null], "stack": 4}', None],
)
def test_a_broken_definition_of_a_place_is_no_place(tmp_path: Path, text: str | None) -> None:
    events = [Event(0, None, Kind.SITE, site=1, name=text), Event(5, 1, Kind.SYNC, site=1, name="sync", value=1.0)]
    run = write(tmp_path / "run", events)
    assert run.syncs["line"].isna().all()
    assert run.sites["stack"].isna().all()


def test_a_place_written_twice_is_one_place(tmp_path: Path) -> None:
    again = Event(0, None, Kind.SITE, site=1, name=site_text(("a.py", 1, "f"), None, ""))
    run = write(tmp_path / "run", [again, Event(5, 1, Kind.SYNC, site=1, name="sync", value=1.0), again])
    assert len(run.sites) == len(run.syncs) == 1
    assert run.sites["user_file"].isna().all()


def test_losses_and_faults(tmp_path: Path) -> None:
    run = write(
        tmp_path / "run",
        [
            Event(1, None, Kind.LOST, name="samples", value=3.0, detail="ring overran"),
            Event(2, None, Kind.FAULT, name="hooks", value=2.0, detail="KeyError: x"),
        ],
    )
    assert run.losses[["what", "count", "why"]].to_numpy().tolist() == [["samples", 3.0, "ring overran"]]
    assert run.faults[["what", "count", "why"]].to_numpy().tolist() == [["hooks", 2.0, "KeyError: x"]]


def test_times_that_no_clock_shows_are_left_out(tmp_path: Path) -> None:
    events = [collection(5), collection(2**62), collection(-(2**62)), Event(6, -4, Kind.GC), Event(7, 2**62, Kind.GC)]
    run = write(tmp_path / "run", events)
    found = run.sql("select time_ns, duration_ns from host_spans order by 1")
    assert found["time_ns"].tolist() == [5, 6, 7]
    assert found["duration_ns"].isna().tolist() == [False, True, True]


def test_rows_of_one_instant_come_in_the_same_order_every_time(tmp_path: Path) -> None:
    events = [Event(5, n % 3, Kind.SYNC, thread=0, name="sync", value=float(n)) for n in range(5_000)]
    run = write(tmp_path / "run", events)
    assert all(run.syncs.equals(run.syncs) for _ in range(5))
    assert run.syncs["duration_ns"].is_monotonic_increasing


def test_a_large_run_is_left_in_its_files_and_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_run(tmp_path / "run", steps=12, ranks=2, ended=None)
    log = "select count(*) as n from duckdb_tables() where table_name = 'log'"
    with open_run(path) as at_once:
        monkeypatch.setattr(database, "SMALL_BYTES", -1)
        with open_run(path) as left:
            assert [run.sql(log)["n"][0] for run in (at_once, left)] == [1, 0]
            for name in TABLES:
                pd.testing.assert_frame_equal(left.table(name), at_once.table(name))


def test_a_run_of_many_parts(tmp_path: Path) -> None:
    run = open_run(build_large_run(tmp_path / "run", 20_000, steps_a_part=3_000))
    assert len(run.steps) == 20_000
    assert run.problems == []
    assert run.executions["step"].value_counts().unique().tolist() == [2]
    assert run.executions["time_ns"].is_monotonic_increasing
    assert run.processes[0].facts["host"] == process_facts()["host"]
