"""Waits for the device, reads that no line of Python makes, and collections that a line asks for."""

from __future__ import annotations

from typing import Any

import pytest

from xla_insight.analysis.tables import Process
from xla_insight.facts.report import Severity

from .test_findings import MS, STEP, At, Make, Steps, compiled, counter, forced, found, in_steps, read, runs


def test_values_read_inside_the_backward_pass_and_the_graphs_compiled_for_them(
    context: Make, stepped: Steps, at_line: At
) -> None:
    """Anomaly detection looks at every gradient, in a thread without Python frames."""
    passes = [forced(n, "autograd") | {"executions": 10, "compiles": 10 if n == 0 else 0} for n in range(6)]
    made = context(
        places={1: at_line(18)}, steps=stepped(6, STEP), syncs=passes,
        executions=[{**row, "cut_ns": row["time_ns"], "graph": "g"} for row in passes],
        compiles=[{**compiled("autograd"), "duration_ns": 2 * MS, "cut_ns": passes[0]["time_ns"]}] * 10,
        counters=[counter("aten::_local_scalar_dense", 60)],
    )  # fmt: skip
    (finding,) = found(made, "host_sync")
    assert "read inside the backward pass at train.py:18: 6 backward passes in 6 of 6 steps" in finding.summary
    assert "10 graphs had to be compiled for it (20 ms)" in finding.summary
    assert "set_detect_anomaly" in finding.advice and finding.severity is not Severity.INFO


def test_what_another_thread_reads_costs_the_training_nothing(context: Make, stepped: Steps, at_line: At) -> None:
    reads = [read(n, thread=1) for n in range(8)]
    made = {"places": {1: at_line(16)}, "steps": stepped(8, STEP)}
    (finding,) = found(context(**made, reads=reads, executions=runs(8, 20, 40)), "host_sync")
    assert (finding.severity, finding.cost_s) == (Severity.INFO, 0.0)
    assert "in another thread, for which the training does not wait" in finding.summary
    (loud,) = found(context(**made, reads=[read(n, executions=1, thread=1) for n in range(8)]), "host_sync")
    assert loud.severity is not Severity.INFO, "a read in the backward pass: it runs part of the step"


def waiting(count: int, kind: str = "sync") -> list[dict[str, Any]]:
    """A wait at site 1 in each of ``count`` steps: a sync from 15 ms, before its execution begins, else one from 50 ms,
    and in both cases until 60 ms.
    """
    begin_ms = 15 if kind == "sync" else 50
    return [
        {"step": n, "time_ns": n * STEP + begin_ms * MS, "duration_ns": (60 - begin_ms) * MS, "thread": 0, "kind": kind,
         "name": "sync" if kind == "sync" else "wait_device_ops", "site": 1}
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "word", "cost_s"),
    [("sync", "sync with wait=True", 8 * 0.04), ("device_wait", "wait_device_ops", 8 * 0.01)],
)
def test_a_sync_that_waits_costs_what_host_and_device_could_do_at_once(
    context: Make, stepped: Steps, at_line: At, kind: str, word: str, cost_s: float
) -> None:
    waits = waiting(8, kind)
    made = context(
        places={1: at_line(13)}, steps=stepped(8, STEP), spans=waits, waits=waits, executions=runs(8, 20, 40)
    )
    (finding,) = found(made, "host_sync")
    assert finding.severity is not Severity.INFO and finding.count == 8
    assert finding.site is not None and finding.site.line == 13
    assert word in finding.summary and "in 8 of 8 steps" in finding.summary
    assert finding.details["device_idle_s"] == pytest.approx(7 * 0.06)
    assert finding.cost_s == pytest.approx(cost_s), "tracing cannot be spared, only waiting beside it"


def test_a_wait_now_and_then_or_without_effect_is_no_finding(context: Make, stepped: Steps, at_line: At) -> None:
    rare = waiting(12)[::4]
    places = {1: at_line(13)}
    assert not found(
        context(places=places, steps=stepped(12, STEP), spans=rare, waits=rare, executions=runs(12, 20, 40)),
        "host_sync",
    )
    waits = waiting(8)
    busy = [{"step": 0, "time_ns": 0, "duration_ns": 8 * STEP}]
    assert not found(
        context(places=places, steps=stepped(8, STEP), spans=waits, waits=waits, executions=busy), "host_sync"
    )


def test_a_line_that_asks_for_full_collections_is_named(context: Make, stepped: Steps, at_line: At) -> None:
    pauses = [{**row, "name": "gen2", "site": 1} for row in in_steps(40, "gc", 10, 8)]
    made = {"places": {1: at_line(14)}, "steps": stepped(40, STEP), "executions": runs(40, 50, 50)}
    (finding,) = found(context(**made, spans=pauses), "gc_pauses")
    assert finding.site is not None and finding.site.line == 14
    assert "most at train.py:14" in finding.summary and "gc.collect()" in finding.advice
    young = [{**row, "name": "gen0", "site": None} for row in in_steps(40, "gc", 30, 8)]
    (usual,) = found(context(**made, spans=[*pauses[::2], *young]), "gc_pauses")
    assert usual.site is None and "gc.freeze()" in usual.advice


def test_one_long_collection_among_short_ones_is_no_finding(context: Make, stepped: Steps) -> None:
    short = [{**row, "name": "gen0", "duration_ns": MS // 10} for row in in_steps(40, "gc", 80, 1)]
    long = [{**row, "name": "gen2"} for row in in_steps(40, "gc", 5, 90)]
    made = {"steps": stepped(40, STEP), "executions": runs(40, 96, 1)}
    assert not found(context(**made, spans=[*short, long[7]]), "gc_pauses")
    again = long[7::10]
    assert len(found(context(**made, spans=[*short, *again]), "gc_pauses")) == 1


def test_pauses_that_take_most_of_a_short_steady_state_are_no_noise(context: Make, stepped: Steps) -> None:
    made = {"steps": stepped(30, 20 * MS), "executions": [{"step": 29, "time_ns": 590 * MS, "duration_ns": MS}]}
    pauses = [{**row, "time_ns": (20 * n + 4) * MS} for n, row in enumerate(in_steps(30, "gc", 0, 12))]
    (finding,) = found(context(**made, spans=pauses), "gc_pauses")
    assert finding.severity is Severity.WARNING
    some = [{**row, "duration_ns": 3 * MS} for row in pauses]
    (finding,) = found(context(**made, spans=some), "gc_pauses")
    assert finding.severity is Severity.INFO


def test_reads_that_cost_nothing_are_information(context: Make, stepped: Steps, at_line: At) -> None:
    made = {"places": {1: at_line(17)}, "steps": stepped(8, STEP), "reads": [read(n) for n in range(8)]}
    busy = [{"step": 0, "time_ns": 0, "duration_ns": 8 * STEP}]
    (finding,) = found(context(**made, executions=busy), "host_sync")
    assert (finding.severity, finding.cost_s) == (Severity.INFO, 0.0)
    first_ran = [read(n, executions=1 if n == 0 else 0) for n in range(8)]
    (finding,) = found(context(**{**made, "reads": first_ran}, executions=busy), "host_sync")
    assert (finding.severity, finding.cost_s) == (Severity.INFO, 0.0)


def test_waits_of_all_ranks_at_one_line_are_one_finding(context: Make, stepped: Steps, at_line: At) -> None:
    ranks = range(4)
    waits = [{**row, "process": rank} for rank in ranks for row in waiting(8)]
    made = context(
        processes=tuple(Process(rank, rank, 0, 10_000 * MS) for rank in ranks),
        places={1: at_line(13)},
        steps=[{**row, "process": rank} for rank in ranks for row in stepped(8, STEP)],
        spans=waits, waits=waits, executions=[{**row, "process": rank} for rank in ranks for row in runs(8, 20, 40)],
    )  # fmt: skip
    (finding,) = found(made, "host_sync")
    assert finding.count == 32 and "in 32 of 32 steps" in finding.summary
