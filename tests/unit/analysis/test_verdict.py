"""The verdict names the limit that binds, proves it with a number, and accuses no healthy run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xla_insight.analysis.verdict import Evidence, verdict
from xla_insight.facts.report import (
    Finding,
    GraphFacts,
    Period,
    Quality,
    Recompile,
    RunFacts,
    Severity,
    ShapeFacts,
    Site,
    StepFacts,
    TimeFacts,
)

SITE = Site("/home/me/train.py", 31, "<module>")


def entry(cause: str, compile_s: float, severity: Severity = Severity.WARNING, count: int = 14) -> Recompile:
    expected = cause == "first_graph"
    return Recompile(cause, expected, severity, count, compile_s, (), SITE, SITE, "sync", "said", "do")


def finding(name: str, cost_s: float | None, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(name, severity, SITE, SITE, 412, cost_s, f"{name} was found.", "do")


def evidence(
    *entries: Recompile | Finding, host: dict[str, float] | None = None, busy: float | None = None, **graphs: Any
) -> Evidence:
    time = TimeFacts(100.0, host or {"trace": 100.0}, busy, {}, None, Quality.INFERRED)
    counts = {"executions": 100, "compiles": 17, **graphs}
    return Evidence(
        RunFacts("run", "runs/run", 1, 1, "light", {}),
        StepFacts(412),
        GraphFacts(17, 100, counts["executions"], counts["compiles"], 83, 0, 0, 60.0),
        tuple(e for e in entries if isinstance(e, Recompile)),
        tuple(e for e in entries if isinstance(e, Finding)),
        time,
    )


def test_compiling_again_is_the_limit() -> None:
    said = verdict(evidence(entry("unknown", 61.0), host={"compile": 62.0, "trace": 38.0}))
    assert (said.bound, said.saves_s) == ("compile", 61.0)
    assert (
        "61 %" in said.summary
        and "1 m 1 s of 1 m 40 s" in said.summary
        and "14 of 17 compiles only repeat" in said.summary
    )
    assert "train.py:31" in said.summary


def test_compiles_that_every_run_needs_are_no_limit() -> None:
    said = verdict(evidence(entry("first_graph", 61.0, Severity.INFO), host={"compile": 61.0, "trace": 39.0}))
    assert (said.bound, said.saves_s) == ("nothing", 0.0)
    assert "61 %" in said.summary


def test_graphs_that_pile_up_are_not_the_fault_of_what_reads_them() -> None:
    reads = replace(finding("host_sync", 40.0), details={"compile_s": 38.0})
    growth = entry("graph_growth", 35.0)
    host = {"compile": 40.0, "trace": 60.0}
    assert verdict(evidence(growth, reads, host=host)).bound == "host_sync"
    said = verdict(evidence(growth, reads, finding("missing_sync", 35.0), host=host))
    assert said.bound == "compile" and said.summary.endswith("no sync ends the graph.")


def test_a_graph_that_no_sync_ends_is_no_compile_that_the_run_needs() -> None:
    host = {"compile": 71.0, "trace": 29.0}
    said = verdict(evidence(entry("first_graph", 71.0, Severity.INFO), finding("missing_sync", None), host=host))
    assert said.bound == "compile" and said.summary.startswith("missing_sync was found. Compiling takes 71 % of this")
    assert "needs" not in said.summary


def test_reads_and_waits_are_counted_apart() -> None:
    waits = replace(finding("host_sync", 30.0), details={"waits": 25}, count=25)
    host = {"device_wait": 60.0, "trace": 40.0}
    said = verdict(evidence(waits, host=host, busy=50.0)).summary
    assert said.startswith(
        "Waiting until the device is done holds the training thread for 30 % of this run (30 s, 25 w"
    )
    both = verdict(evidence(waits, finding("host_sync", 10.0), host=host, busy=50.0)).summary
    assert both.startswith("Reading values and waiting until the device is done holds") and "412 reads and 25" in both


def test_what_padding_would_save_of_compiles_that_are_used_again_is_not_kept_back() -> None:
    shapes = ShapeFacts("said", "pad_to_max", ((96,),), 42.0, 8, "code", change="padding all to 96")
    made = evidence(entry("first_graph", 61.0, Severity.INFO), host={"compile": 61.0, "trace": 39.0})
    said = verdict(replace(made, shapes=shapes)).summary
    assert said.startswith("Nothing to fix so far") and said.endswith(", of which padding all to 96 would save ~42 s.")
    assert "padding" not in verdict(replace(made, shapes=replace(shapes, saves_s=4.0))).summary


def test_the_largest_removable_limit_leads() -> None:
    parts = (entry("unknown", 20.0), finding("host_sync", 40.0), finding("input_bound", 35.0))
    host = {"compile": 20.0, "input_wait": 35.0, "device_wait": 40.0}
    assert verdict(evidence(*parts, host=host, busy=30.0)).bound == "host_sync"
    assert verdict(evidence(*parts[:1], *parts[2:], host=host, busy=30.0)).bound == "input"


def test_reads_on_a_busy_device_do_not_limit() -> None:
    said = verdict(evidence(finding("host_sync", 98.0), host={"device_wait": 98.0, "trace": 2.0}, busy=98.0))
    assert said.bound == "device" and "98 %" in said.summary


def test_findings_of_severity_info_never_lead() -> None:
    said = verdict(evidence(finding("host_sync", 40.0, Severity.INFO), host={"trace": 100.0}, busy=30.0))
    assert said.bound == "trace" and said.saves_s == 70.0


def test_a_broken_run_says_so_before_anything_else() -> None:
    said = verdict(evidence(finding("loader_error", None, Severity.CRITICAL), entry("unknown", 90.0)))
    assert said.bound == "loader_error" and said.summary == "loader_error was found."


def test_without_executions_there_is_nothing_to_judge() -> None:
    said = verdict(evidence(executions=0, compiles=0))
    assert (said.bound, said.saves_s) == ("nothing", None)


def test_without_a_device_nothing_is_said_about_it() -> None:
    said = verdict(evidence(host={"trace": 100.0}))
    assert said.bound == "trace" and "busy" not in said.summary and said.saves_s is None


def test_reads_say_how_long_they_wait_and_how_idle_they_leave_the_device() -> None:
    read = replace(finding("host_sync", 30.0), details={"waited_s": 25.0, "device_idle_s": 40.0})
    said = verdict(evidence(read, host={"device_wait": 25.0, "trace": 75.0}, busy=30.0))
    assert (said.bound, said.saves_s) == ("host_sync", 30.0)
    assert "25 % of this run" in said.summary and "~40 %" in said.summary


def test_tracing_that_starves_the_device_is_named() -> None:
    said = verdict(evidence(finding("trace_bound", 55.0), host={"trace": 80.0, "device_wait": 20.0}, busy=30.0))
    assert (said.bound, said.saves_s) == ("trace", 55.0) and said.summary.endswith("the host limits this run.")


def test_transfers_and_pauses_lead_when_nothing_costs_more() -> None:
    host = {"transfer": 30.0, "gc": 20.0, "trace": 50.0}
    both = (finding("transfer_bound", 30.0), finding("gc_pauses", 20.0))
    assert verdict(evidence(*both, host=host, busy=30.0)).bound == "transfer"
    assert verdict(evidence(both[1], host=host, busy=30.0)).bound == "gc"
    assert verdict(evidence(finding("gc_pauses", 6.0), host=host, busy=30.0)).bound == "trace"


def test_the_input_that_changes_is_named() -> None:
    root = {
        "site": {"file": "/home/me/train.py", "line": 7, "function": "collate"},
        "input": "input_ids",
        "dimension": 1,
    }
    shapes = replace(entry("input_shape", 61.0), root=root)
    said = verdict(evidence(shapes, host={"compile": 62.0, "trace": 38.0})).summary
    assert said.endswith("most because dimension 1 of input_ids changes (collate, train.py:7).")
    branch = replace(entry("control_flow", 61.0), root={**root, "input": ""})
    assert verdict(evidence(branch, host={"compile": 62.0})).summary.endswith(
        "most because of control flow at train.py:7."
    )


def period(name: str, steps: int, wall_s: float) -> Period:
    return Period(name, 0, 0, 0, steps - 1, steps, wall_s, {"trace": wall_s}, None, {}, None)


def test_what_the_first_steps_do_once_limits_nothing() -> None:
    short = evidence(host={"trace": 60.0, "compile": 40.0}, busy=5.0)
    warm = replace(short.time, warm_up=period("warm_up", 1, 140.0), steady=period("steady", 9, 20.0))
    said = verdict(replace(short, time=warm))
    assert (said.bound, said.saves_s) == ("nothing", 0.0)
    assert "80 % of this run went into its first step" in said.summary, "set-up before it is no part of wall time"
    beside = replace(short, time=warm, findings=(finding("host_sync", 1.0),))
    assert verdict(beside).summary.startswith("Too short to judge") and "host_sync was found" in verdict(beside).summary
    long = replace(warm, warm_up=period("warm_up", 1, 20.0), steady=period("steady", 9, 80.0))
    assert verdict(replace(short, time=long)).bound == "trace"


def test_graphs_compiled_for_reads_are_no_compiles_that_the_run_needs() -> None:
    read = replace(finding("host_sync", 70.0), details={"waited_s": 2.0, "device_idle_s": 1.0, "compile_s": 68.0})
    said = verdict(evidence(read, host={"compile": 90.0, "trace": 10.0}, busy=1.0))
    assert (said.bound, said.saves_s) == ("host_sync", 70.0)
    assert "for 70 % of this run" in said.summary and "1 m 8 s of it compiling graphs for them" in said.summary


def test_input_that_only_the_first_epoch_waits_for_is_said_to_be_so() -> None:
    def waiting(wall_s: float, waited_s: float, steps: int = 10) -> Period:
        return replace(period("epoch", steps, wall_s), host={"input_wait": waited_s})

    made = evidence(finding("input_bound", 40.0), host={"input_wait": 40.0, "trace": 60.0}, busy=30.0)

    def said(*epochs: Period) -> str:
        return verdict(replace(made, time=replace(made.time, epochs=epochs))).summary

    assert said(waiting(50.0, 40.0), waiting(10.0, 0.1), waiting(10.0, 0.1)).endswith(
        "first of 3 epochs, and no other."
    )
    assert said(waiting(50.0, 20.0), waiting(50.0, 20.0)).endswith("limits this run.")
    assert said(waiting(50.0, 40.0), waiting(10.0, 0.1, steps=3)).endswith("limits this run."), "too early to say"
    assert said().endswith("limits this run.")


def test_a_program_that_failed_is_not_judged() -> None:
    failed = evidence(entry("first_graph", 61.0, Severity.INFO), host={"compile": 61.0, "trace": 39.0})
    failed = replace(failed, run=replace(failed.run, failed=True), steps=StepFacts(1))
    assert verdict(failed).summary == "The program ended with an exception after 1 step: too early to judge it."
    nothing = replace(failed, graphs=replace(failed.graphs, executions=0, compiles=0))
    assert "exception" in verdict(nothing).summary


def test_weights_that_do_not_train_come_before_any_speed() -> None:
    stale = finding("stale_parameters", None, Severity.CRITICAL)
    assert verdict(evidence(stale, entry("unknown", 90.0), host={"compile": 90.0})).bound == "stale_parameters"
