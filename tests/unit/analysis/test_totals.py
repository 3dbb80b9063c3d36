"""Totals come from the framework's counters, else from events; time covers tensor work only; losses count once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xla_insight.analysis.data_facts import data_facts
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.time_facts import time_facts
from xla_insight.analysis.totals import graph_facts, step_facts

MS = 1_000_000
Make = Callable[..., RunTables]


def execution(n: int, outcome: str = "hit", graph: str | None = "a") -> dict[str, Any]:
    return {"time_ns": n * MS, "duration_ns": MS, "graph": graph, "outcome": outcome}


def counter(name: str, delta: float, process: int = 0) -> dict[str, Any]:
    return {"name": name, "delta": delta, "process": process}


def compiled(graph: str | None, n: int = 0) -> dict[str, Any]:
    return {"time_ns": n, "duration_ns": 500 * MS, "graph": graph, "trigger": "sync"}


def test_counters_of_all_processes_add_up(tables: Make) -> None:
    facts = graph_facts(
        tables(
            processes=(Process(0, 0, 0, 1), Process(1, 1, 0, 1)),
            counters=[counter(name, 5, p) for name in ("executions", "compiles", "cache_hits") for p in (0, 1)],
            executions=[execution(1)],
        )
    )
    assert (facts.executions, facts.compiles, facts.cache_hits, facts.persistent_hits) == (10, 10, 10, 0)


def test_without_counters_events_are_counted(tables: Make) -> None:
    facts = graph_facts(
        tables(
            executions=[execution(0, "compile"), execution(1), execution(2), execution(3, "persistent_hit", "b")],
            compiles=[compiled("a"), compiled("a", 1), compiled(None, 2)],
        )
    )
    assert (facts.executions, facts.compiles, facts.cache_hits, facts.persistent_hits) == (4, 3, 2, 1)
    assert (facts.distinct, facts.evictions, facts.compile_s) == (3, 1, 1.5)


def test_a_compile_event_counts_though_its_counter_was_lost(tables: Make) -> None:
    made = tables(counters=[counter("executions", 9), counter("compiles", 1)], compiles=[compiled("a"), compiled("b")])
    assert graph_facts(made).compiles == 2


def test_steps_of_the_main_process(tables: Make) -> None:
    rows = [
        {"step": n, "start_ns": 0, "end_ns": 0, "duration_ns": ms * MS, "source": "callback", "inferred": False}
        for n, ms in enumerate([10, 20, 90])
    ]
    made = tables(steps=[*rows, {**rows[0], "process": 1}])
    facts = step_facts(made, made.main_process())
    assert (facts.count, facts.median_ms, facts.source, facts.inferred) == (3, 20.0, "callback", False)
    assert facts.p95_ms == pytest.approx(83.0)
    assert step_facts(tables(), None).median_ms is None


def test_the_process_that_executed_most_speaks_for_equal_ranks(tables: Make) -> None:
    made = tables(
        processes=(Process(0, 0, 0, 1), Process(1, 0, 0, 1), Process(2, 1, 0, 1)),
        executions=[{**execution(n), "process": p} for p, count in ((1, 2), (2, 9)) for n in range(count)],
    )
    main = made.main_process()
    assert main is not None and main.index == 1


def test_wall_runs_from_the_first_to_the_last_tensor_work(tables: Make) -> None:
    made = tables(
        processes=(Process(0, 0, 0, 9_000 * MS),),
        inputs=[{"first_ns": 1_000 * MS, "last_ns": 1_500 * MS}],
        spans=[
            {"kind": "gc", "time_ns": 100 * MS, "duration_ns": MS, "thread": 0},
            {"kind": "sync", "time_ns": 1_400 * MS, "duration_ns": 200 * MS, "thread": 0},
        ],
        executions=[{"time_ns": 1_500 * MS, "duration_ns": 500 * MS, "graph": "a"}],
    )
    facts = time_facts(made, made.main_process())
    assert (facts.wall_s, facts.setup_s, facts.device_busy_s) == (1.0, 1.0, 0.5)
    assert sum(facts.host.values()) == pytest.approx(1.0) and "outside" not in facts.host
    assert sum(facts.device_idle_by_host_state.values()) == pytest.approx(0.5)
    assert facts.overlap_pct == pytest.approx(50.0)


def test_overlap_of_hardly_any_host_work_is_not_shown(tables: Make) -> None:
    made = tables(
        spans=[{"kind": "device_wait", "time_ns": 0, "duration_ns": 990 * MS, "thread": 0, "name": "lock"}],
        executions=[{"time_ns": 0, "duration_ns": 1_000 * MS, "graph": "a"}],
    )
    assert time_facts(made, made.main_process()).overlap_pct is None


def test_no_work_has_no_account(tables: Make) -> None:
    facts = time_facts(tables(), tables().main_process())
    assert (facts.wall_s, facts.host, facts.device_busy_s) == (0.0, {}, None)


def test_losses_are_stated(tables: Make) -> None:
    process = Process(0, 0, 0, 1, facts={"dropped": 3, "faults": {"drain": 2, "x": 0}, "lost": {"events": 7}})
    made = tables(
        processes=(process,),
        losses=[
            {"what": "samples", "count": 5, "why": "ring"},
            {"what": "events", "count": 3, "why": "the drain thread fell behind"},
            {"what": "clock", "count": 1, "why": "the wall clock stepped"},
        ],
        faults=[{"what": "drain", "count": 2.0}],
        executions=[{"time_ns": 0, "duration_ns": None, "graph": "a"}],
    )
    facts = data_facts(made, "crashed", 1, ("part-000002.parquet is damaged",))
    assert (facts.dropped, facts.faults, facts.skipped_parts) == (3, {"drain": 2}, 1)
    assert facts.lost == {"events": 7, "samples": 5}
    assert len(facts.notes) == 4 and "The wall clock stepped." in facts.notes


def test_faults_of_a_process_that_did_not_end_come_from_its_log(tables: Make) -> None:
    made = tables(faults=[{"what": "drain", "count": 2.0}, {"what": "drain", "count": 1.0}])
    assert data_facts(made, "recording", 0, ()).faults == {"drain": 3}
