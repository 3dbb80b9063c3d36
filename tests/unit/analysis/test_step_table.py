"""A row a step: counts fall into their step, time adds up, loader threads do not count as the training thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_insight.analysis.step_table import HOST_COLUMNS, build_step_table
from xla_insight.analysis.tables import Process, RunTables

MS = 1_000_000
Make = Callable[..., RunTables]
Steps = Callable[[int, int], list[dict[str, Any]]]


def span(
    kind: str, begin_ms: float, length_ms: float, thread: int | None = 0, name: str | None = None
) -> dict[str, Any]:
    return {
        "time_ns": int(begin_ms * MS),
        "duration_ns": int(length_ms * MS),
        "thread": thread,
        "kind": kind,
        "name": name,
    }


def test_counts_and_time_of_each_step(tables: Make, stepped: Steps) -> None:
    made = tables(
        steps=stepped(3, 100 * MS),
        compiles=[{"step": 0, "time_ns": 10 * MS, "duration_ns": 30 * MS, "graph": "aa"}],
        executions=[
            {"step": 0, "time_ns": 45 * MS, "duration_ns": 5 * MS, "graph": "aa"},
            {"step": 1, "time_ns": 145 * MS, "duration_ns": 5 * MS, "graph": "aa"},
            {"step": 1, "time_ns": 146 * MS, "duration_ns": 20 * MS, "graph": "bb"},
        ],
        reads=[{"step": 1, "time_ns": 150 * MS, "duration_ns": 2 * MS}],
        spans=[span("sync", 5, 40), span("compile", 10, 30, None), span("input_wait", 200, 60)],
    )
    table = build_step_table(made)
    assert table["compiles"].tolist() == [1, 0, 0]
    assert table["compile_ns"].tolist() == [30 * MS, 0, 0]
    assert table["executions"].tolist() == [1, 2, 0]
    assert table["reads"].tolist() == [0, 1, 0]
    assert table["graphs"].tolist() == [1, 2, 0]
    assert table["graph"].tolist()[:2] == ["aa", "bb"] and table["graph"].isna().tolist() == [False, False, True]
    assert table["host_compile_ns"].tolist() == [30 * MS, 0, 0]
    assert table["host_input_wait_ns"].tolist() == [0, 0, 60 * MS]
    assert table["device_busy_ns"].tolist() == [5 * MS, 21 * MS, 0]
    assert (table[list(HOST_COLUMNS)].sum(axis=1) == table["duration_ns"]).all()


def test_without_executions_the_device_is_not_known(tables: Make, stepped: Steps) -> None:
    table = build_step_table(tables(steps=stepped(2, MS)))
    assert table["device_busy_ns"].isna().all()


def test_transfers_of_a_loader_thread_do_not_count(tables: Make, stepped: Steps) -> None:
    made = tables(
        steps=stepped(1, 100 * MS),
        spans=[
            span("read", 10, 10),
            span("transfer", 12, 2, None, "from_device"),
            span("transfer", 50, 9, None, "to_device"),
        ],
    )
    assert build_step_table(made)["host_transfer_ns"].tolist() == [2 * MS]


def test_each_process_is_accounted_for_on_its_own(tables: Make, stepped: Steps) -> None:
    rows = [{**row, "process": process} for process in (0, 1) for row in stepped(1, 10 * MS)]
    made = tables(
        processes=(Process(0, 0, 0, 1), Process(1, 7, 0, 1)),
        steps=rows,
        spans=[{**span("checkpoint", 0, 4), "process": 1}],
    )
    table = build_step_table(made)
    assert table["rank"].tolist() == [0, 7]
    assert table["host_checkpoint_ns"].tolist() == [0, 4 * MS]


def test_no_steps_give_the_same_columns(tables: Make, stepped: Steps) -> None:
    empty, full = build_step_table(tables()), build_step_table(tables(steps=stepped(1, MS)))
    assert list(empty.columns) == list(full.columns) and len(empty) == 0
