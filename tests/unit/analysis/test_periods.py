"""Warm-up is told apart from the steady state, and a run that always compiles never counts as warming up for long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xla_insight.analysis.periods import epochs, rank_periods, warm_up_and_steady, warm_up_steps
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.analysis.time_facts import time_facts

MS = 1_000_000
Make = Callable[..., RunTables]
Steps = Callable[[int, int], list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("steps", "compiled", "warm_up"),
    [
        (20, [], 1),
        (20, [0, 1], 2),
        (20, [0, 1, 7], 2),
        (20, range(20), 3),
        (100, range(100), 10),
        (1, [0], 1),
        (20, [1, 2], 1),
    ],
)
def test_warm_up_ends_with_the_first_step_that_compiles_nothing(
    tables: Make, stepped: Steps, steps: int, compiled: list[int], warm_up: int
) -> None:
    compiles = [{"step": n, "time_ns": 10 * n * MS, "duration_ns": MS} for n in compiled]
    assert warm_up_steps(tables(steps=stepped(steps, 10 * MS), compiles=compiles), 0) == warm_up


@pytest.mark.parametrize(("ready_ms", "warm_up"), [(9, 1), (14, 1), (16, 2), (24, 2), (28, 3), (500, 3)])
def test_warm_up_lasts_until_what_it_dispatched_is_ready(
    tables: Make, stepped: Steps, ready_ms: int, warm_up: int
) -> None:
    compiles = [{"step": 0, "time_ns": 0, "duration_ns": MS}]
    runs = [{"step": n, "time_ns": (10 * n + 8) * MS, "duration_ns": MS} for n in range(20)]
    runs[0]["duration_ns"] = ready_ms * MS - runs[0]["time_ns"]
    assert warm_up_steps(tables(steps=stepped(20, 10 * MS), compiles=compiles, executions=runs), 0) == warm_up
    alone = tables(steps=stepped(1, 10 * MS), compiles=compiles, executions=runs[:1])
    assert warm_up_steps(alone, 0) == 1


def test_both_parts_add_up_to_all_steps(tables: Make, stepped: Steps) -> None:
    made = tables(
        steps=stepped(5, 100 * MS),
        compiles=[{"step": 0, "time_ns": 10 * MS, "duration_ns": 60 * MS}],
        spans=[{"time_ns": 10 * MS, "duration_ns": 60 * MS, "kind": "compile", "name": "sync"}],
        executions=[{"step": n, "time_ns": (100 * n + 80) * MS, "duration_ns": 10 * MS} for n in range(5)],
    )
    warm_up, steady = warm_up_and_steady(made, made.processes[0])
    assert warm_up is not None and steady is not None
    assert (warm_up.first_step, warm_up.last_step, steady.first_step, steady.last_step) == (0, 0, 1, 4)
    assert (warm_up.wall_s, steady.wall_s) == (0.1, 0.4)
    assert (warm_up.host["compile"], steady.host["compile"]) == (0.06, 0.0)
    assert (warm_up.device_busy_s, steady.device_busy_s) == (0.01, 0.04)
    for period in (warm_up, steady):
        assert period.device_busy_s is not None
        assert sum(period.host.values()) == pytest.approx(period.wall_s)
        assert sum(period.device_idle_by_host_state.values()) + period.device_busy_s == pytest.approx(period.wall_s)


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        ([], []),
        ([(30, "loader"), (35, "loader"), (60, "loader")], [(0, 2), (3, 5), (6, 6)]),
        ([(30, "callback"), (20, "loader"), (69, "callback"), (70, "callback")], [(0, 2), (3, 5), (6, 6)]),
        ([(5, "loader"), (70, "loader")], [(0, 6)]),
    ],
)
def test_steps_belong_to_the_pass_in_which_they_end(
    tables: Make, stepped: Steps, marks: list[tuple[int, str]], found: list[tuple[int, int]]
) -> None:
    rows = [{"time_ns": time * MS, "source": source} for time, source in marks]
    made = tables(steps=stepped(7, 10 * MS), epochs=rows)
    assert [(period.first_step, period.last_step) for period in epochs(made, made.processes[0])] == found


def test_each_rank_has_its_own(tables: Make, stepped: Steps) -> None:
    rows = [{**row, "process": process} for process in (0, 1) for row in stepped(4, (1 + process) * 10 * MS)]
    made = tables(processes=(Process(0, 1, 0, 1), Process(1, 0, 0, 1)), steps=rows)
    assert [(period.rank, period.process, period.wall_s) for period in rank_periods(made)] == [
        (0, 1, 0.08),
        (1, 0, 0.04),
    ]


def test_no_steps_have_no_parts(tables: Make) -> None:
    spans = [{"time_ns": 0, "duration_ns": MS, "thread": 0, "kind": "sync", "name": "sync"}]
    facts = time_facts(tables(spans=spans), Process(0, 0, 0, MS))
    assert (facts.warm_up, facts.steady, facts.ranks) == (None, None, ())
