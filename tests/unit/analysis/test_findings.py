"""Each finding is reported when it is there and stays silent when it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from xla_insight.analysis.findings import Context, all_findings
from xla_insight.analysis.tables import Place, Process
from xla_insight.facts.report import Finding, Severity, Site

MS = 1_000_000
STEP = 100 * MS
Make = Callable[..., Context]
At = Callable[..., Place]
Steps = Callable[[int, int], list[dict[str, Any]]]


def read(step: int | None, executions: int = 0, site: int = 1, **more: Any) -> dict[str, Any]:
    begin = (10 if step is None else step) * STEP + 50 * MS
    row = {"step": step, "time_ns": begin, "duration_ns": 10 * MS, "thread": 0, "method": "item", "site": site}
    return {**row, "executions": executions, "compiles": 0, **more}


def as_spans(rows: list[dict[str, Any]], kind: str = "read") -> list[dict[str, Any]]:
    names = ("step", "time_ns", "duration_ns", "thread", "site")
    return [{**{name: row[name] for name in names}, "kind": kind, "name": "x"} for row in rows]


def found(context: Context, name: str) -> list[Finding]:
    return [finding for finding in all_findings(context) if finding.id == name]


def test_a_read_each_step_is_a_host_sync(context: Make, stepped: Steps, at_line: At) -> None:
    reads = [read(n, executions=1) for n in range(8)]
    made = context(places={1: at_line(17)}, steps=stepped(10, STEP), reads=reads, spans=as_spans(reads))
    (finding,) = found(made, "host_sync")
    assert (finding.count, finding.cost_s, finding.severity) == (8, 0.08, Severity.WARNING)
    assert finding.site is not None and finding.site.line == 17
    assert "8 reads in 8 of 10 steps, waiting 80 ms" in finding.summary and "each of them" in finding.summary


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([read(None)], id="one read after the loop"),
        pytest.param([read(None, executions=1) for _ in range(9)], id="a loop of reads after training"),
        pytest.param([read(0, executions=1) for _ in range(9)], id="checks before training"),
        pytest.param([read(1), read(2)], id="two reads that ran nothing"),
    ],
)
def test_reads_that_do_not_recur_are_no_host_sync(
    context: Make, stepped: Steps, at_line: At, reads: list[dict[str, Any]]
) -> None:
    made = context(places={1: at_line(17)}, steps=stepped(10, STEP), reads=reads)
    assert not found(made, "host_sync")


def test_two_executing_reads_without_any_step_are_a_host_sync(context: Make, at_line: At) -> None:
    reads = [read(None, executions=1), read(None, executions=1)]
    assert len(found(context(places={1: at_line(12)}, reads=reads), "host_sync")) == 1


def test_reads_of_step_closures_are_none(context: Make, stepped: Steps) -> None:
    site = Site("/home/me/train.py", 14, "<lambda>", "")
    stack = (
        ("/home/me/train.py", 14, "<lambda>"),
        ("/lib/site-packages/torch_xla/core/xla_model.py", 900, "_run_step_closures"),
        ("/home/me/train.py", 15, "<module>"),
    )
    reads = [read(n) for n in range(8)]
    assert not found(context(places={1: Place(site, site, stack)}, steps=stepped(8, STEP), reads=reads), "host_sync")


def test_a_library_line_keeps_the_users_own(context: Make, stepped: Steps) -> None:
    library = Site("/lib/site-packages/transformers/masking_utils.py", 354, "mask", "")
    user = Site("/home/me/train.py", 34, "<module>", "")
    reads = [read(n, executions=1) for n in range(8)]
    (finding,) = found(context(places={1: Place(library, user)}, steps=stepped(8, STEP), reads=reads), "host_sync")
    assert (finding.site, finding.user_site) == (library, user)
    assert "transformers/masking_utils.py:354 (called from train.py:34)" in finding.summary
    assert "4-D float mask" in finding.advice and "Leave attention_mask out" in finding.advice
    packed = replace(library, line=761, function="find_packed_sequence_indices")
    (finding,) = found(context(places={1: Place(packed, user)}, steps=stepped(8, STEP), reads=reads), "host_sync")
    assert "4-D float mask" in finding.advice and "triu" in finding.advice and "Leave" not in finding.advice


@pytest.mark.parametrize(
    ("callee", "told"),
    [((), "logging_steps"), (("evaluate",), "step closure"), (("_save_checkpoint",), "save_steps")],
    ids=["logging", "evaluating", "saving"],
)
def test_a_trainer_that_logs_each_step_is_told_how_to_log_less(
    context: Make, stepped: Steps, callee: tuple[str, ...], told: str
) -> None:
    trainer, user = "/lib/site-packages/transformers/trainer.py", ("/home/me/train.py", 34, "<module>")
    functions = (*callee, "_maybe_log_save_evaluate", "train")
    stack = (*((trainer, 900 + n, name) for n, name in enumerate(functions)), user)
    place = Place(Site(*stack[0], ""), Site(*user, ""), stack)
    reads = [read(n, executions=1) for n in range(8)]
    (finding,) = found(context(places={1: place}, steps=stepped(8, STEP), reads=reads), "host_sync")
    assert told in finding.advice and ("logging_steps" in finding.advice) is (not callee)


def test_an_operation_that_asks_for_a_value_reads_it(context: Make, stepped: Steps, at_line: At) -> None:
    def cuts(trigger: str, at_ns: int, site: int) -> list[dict[str, Any]]:
        return [
            {
                "step": n,
                "time_ns": n * STEP + at_ns,
                "duration_ns": MS,
                "trigger": trigger,
                "executions": 1,
                "site": site,
            }
            for n in range(6)
        ]

    forced, ended = cuts("forced", 10 * MS, 1), cuts("sync", 60 * MS, 2)
    executions = [{**row, "cut_ns": row["time_ns"], "graph": "g"} for row in forced]
    made = {"places": {1: at_line(21), 2: at_line(30)}, "steps": stepped(6, STEP), "syncs": [*forced, *ended]}
    assert not found(context(**made, executions=executions), "host_sync"), "nothing says that a value was read"
    made["counters"] = [counter("aten::_local_scalar_dense", 6)]
    (finding,) = found(context(**made, executions=executions), "host_sync")
    assert finding.summary.startswith("A tensor's value is read inside an operation at train.py:21: 6 reads in 6 of 6")
    assert "waiting ~6 ms" in finding.summary and "num_classes of one_hot" in finding.advice
    on_cpu = [{"time_ns": n * STEP + 60 * MS + 1, "name": "aten::median", "delta": 1.0} for n in range(6)]
    assert not found(context(**made, executions=executions, data_operations=on_cpu), "host_sync"), "a fallback"


def test_rare_cheap_reads_are_information_only(context: Make, stepped: Steps, at_line: At) -> None:
    reads = [read(n, duration_ns=MS) for n in range(0, 60, 20)]
    sync = as_spans([read(59)], "sync")
    (finding,) = found(
        context(places={1: at_line(9)}, steps=stepped(60, STEP), reads=reads, spans=as_spans(reads) + sync), "host_sync"
    )
    assert finding.severity is Severity.INFO


def test_reads_while_saving_are_a_checkpoint_stall(context: Make, stepped: Steps, at_line: At) -> None:
    reads = [read(n, executions=1) for n in range(4)]
    saves = as_spans([{**row, "time_ns": row["time_ns"] - MS, "duration_ns": 20 * MS} for row in reads], "checkpoint")
    made = context(places={1: at_line(15)}, steps=stepped(4, STEP), reads=reads, spans=saves + as_spans(reads))
    assert not found(made, "host_sync")
    (finding,) = found(made, "checkpoint_stall")
    assert (finding.count, finding.cost_s, finding.severity) == (4, 0.08, Severity.WARNING)
    assert "4 checkpoints with 4 copies" in finding.summary and "4 copies had to run" in finding.summary


def test_moving_a_module_to_the_host_is_saving(context: Make, stepped: Steps) -> None:
    site = Site("/home/me/train.py", 16, "<module>", "")
    stack = (("/lib/site-packages/torch/nn/modules/module.py", 900, "_apply"), ("/home/me/train.py", 16, "<module>"))
    reads = [read(n, executions=1) for n in range(4)]
    made = context(places={1: Place(site, site, stack)}, steps=stepped(4, STEP), reads=reads, spans=as_spans(reads))
    assert not found(made, "host_sync")
    (finding,) = found(made, "checkpoint_stall")
    assert finding.site == site and finding.summary.startswith("4 copies of tensors to the host took 40 ms")


def test_a_compile_inside_a_read_is_not_waiting(context: Make, stepped: Steps, at_line: At) -> None:
    reads = [read(n, executions=1) for n in range(4)]
    compiles = [{**compiled("read"), "cut_ns": reads[0]["time_ns"], "duration_ns": 8 * MS}]
    made = context(places={1: at_line(17)}, steps=stepped(4, STEP), reads=reads, compiles=compiles)
    assert [finding.cost_s for finding in found(made, "host_sync")] == [0.032]


def counter(name: str, delta: float, steps: int = 6, **more: Any) -> dict[str, Any]:
    return {"name": name, "delta": delta, "duration_ns": None, "steps": steps, **more}


def forced(step: int, trigger: str = "forced", site: int = 1) -> dict[str, Any]:
    row = {"step": step, "time_ns": step * STEP, "duration_ns": None, "thread": 0, "trigger": trigger, "site": site}
    return {**row, "executions": 1, "compiles": 0}


def test_a_fallback_is_found_at_the_cut_it_forced(context: Make, stepped: Steps, at_line: At) -> None:
    made = context(
        places={1: at_line(12), 2: at_line(15)},
        steps=stepped(6, STEP),
        counters=[counter("aten::grid_sampler_2d", 6), counter("aten::grid_sampler_2d_backward", 6)],
        syncs=[forced(n) for n in range(6)] + [forced(n, "autograd", 2) for n in range(6)],
    )
    assert {f.site.line: f.details["operations"] for f in found(made, "fallback") if f.site} == {
        12: {"aten::grid_sampler_2d": 6},
        15: {"aten::grid_sampler_2d_backward": 6},
    }
    assert all("On this backend" in f.summary for f in found(made, "fallback"))


def test_a_fallback_without_a_known_cut_has_no_line(context: Make, stepped: Steps) -> None:
    (finding,) = found(context(steps=stepped(6, STEP), counters=[counter("aten::median", 3)]), "fallback")
    assert finding.site is None and finding.cost_s is None and finding.count == 3


def test_reading_a_scalar_is_no_fallback(context: Make) -> None:
    assert not found(context(counters=[counter("aten::_local_scalar_dense", 10)]), "fallback")


def test_a_fallback_of_the_start_up_is_information_only(context: Make, stepped: Steps) -> None:
    (finding,) = found(context(steps=stepped(6, STEP), counters=[counter("aten::median", 1, steps=1)]), "fallback")
    assert finding.severity is Severity.INFO


def test_a_loader_error_is_critical_and_says_what_was_raised(context: Make, stepped: Steps, at_line: At) -> None:
    error = {"step": 3, "time_ns": 1, "exception": "ValueError", "message": "row 24 has no label", "site": 1}
    made = context(places={1: at_line(38)}, steps=stepped(6, STEP), loader_errors=[error])
    (finding,) = found(made, "loader_error")
    assert finding.severity is Severity.CRITICAL and finding.cost_s is None
    assert "ValueError: row 24 has no label" in finding.summary and "6 steps" in finding.summary


RUNS = (Process(0, 0, 0, 100), Process(1, 0, 100, 200), Process(2, 0, 200, 300))


@pytest.mark.parametrize(
    ("processes", "counters", "expected"),
    [
        pytest.param(RUNS[:1], [counter("persistent_failures", 1)], True, id="entries fail to load"),
        pytest.param(RUNS[:1], [counter("persistent_misses", 3)], False, id="the first run of a cache"),
        pytest.param(
            RUNS, [counter("persistent_misses", 1, process=n) for n in (0, 2)], True, id="misses one after another"
        ),
        pytest.param(
            RUNS,
            [counter("persistent_misses", 1, process=n) for n in (0, 2)] + [counter("persistent_hits", 1, process=1)],
            False,
            id="a hit between",
        ),
        pytest.param(
            (RUNS[0], Process(1, 1, 50, 150)),
            [counter("persistent_misses", 1, process=n) for n in (0, 1)],
            False,
            id="at the same time",
        ),
    ],
)
def test_a_persistent_cache_that_gives_nothing_back(
    context: Make, processes: tuple[Process, ...], counters: list[dict[str, Any]], expected: bool
) -> None:
    assert bool(found(context(processes=processes, counters=counters), "persistent_cache_unusable")) is expected


def compiled(trigger: str) -> dict[str, Any]:
    return {"step": None, "time_ns": 1, "duration_ns": MS, "trigger": trigger, "graph": None}


def test_eager_mode_is_found_when_all_compiles_are_eager(context: Make) -> None:
    assert found(context(compiles=[compiled("eager")] * 3), "eager_mode")
    assert found(context(compiles=[compiled("eager"), compiled("autograd")]), "eager_mode")
    assert not found(context(compiles=[compiled("autograd")]), "eager_mode")
    assert not found(context(compiles=[compiled("eager"), compiled("sync")]), "eager_mode")
    assert not found(context(), "eager_mode")


def test_waiting_for_input_more_than_for_compiles_is_input_bound(context: Make, stepped: Steps, at_line: At) -> None:
    def spans(compile_ms: int) -> list[dict[str, Any]]:
        waits = [{**read(n), "duration_ns": 40 * MS} for n in range(10)]
        compiles = as_spans([{**read(0), "time_ns": 0, "duration_ns": compile_ms * MS}], "compile")
        return as_spans(waits, "input_wait") + compiles

    (finding,) = found(context(places={1: at_line(16)}, steps=stepped(10, STEP), spans=spans(10)), "input_bound")
    assert finding.cost_s == 0.4 and finding.site is not None and finding.site.line == 16
    assert not found(context(steps=stepped(10, STEP), spans=spans(600)), "input_bound")


def test_an_empty_run_has_no_findings(context: Make) -> None:
    assert all_findings(context()) == ()


def in_steps(count: int, kind: str, begin_ms: int, length_ms: int) -> list[dict[str, Any]]:
    """A span of ``kind`` in each of ``count`` steps of 100 ms."""
    return [
        {"step": n, "time_ns": n * STEP + begin_ms * MS, "duration_ns": length_ms * MS, "thread": 0, "kind": kind,
         "name": "x", "site": None}
        for n in range(count)
    ]  # fmt: skip


def runs(count: int, begin_ms: int, length_ms: int) -> list[dict[str, Any]]:
    """An execution in each of ``count`` steps of 100 ms."""
    return [{"step": n, "time_ns": n * STEP + begin_ms * MS, "duration_ns": length_ms * MS} for n in range(count)]


def test_reads_cost_the_idle_time_that_waiting_for_them_leaves_behind(
    context: Make, stepped: Steps, at_line: At
) -> None:
    reads = [read(n) for n in range(8)]  # each waits from 50 to 60 ms, when its execution is ready
    made = context(
        places={1: at_line(17)}, steps=stepped(8, STEP), reads=reads, spans=as_spans(reads), executions=runs(8, 20, 40)
    )
    (finding,) = found(made, "host_sync")
    assert finding.details["waited_s"] == 0.08
    # From 60 ms of a step to 20 ms of the next: traced while the device had nothing; the run ends with the last read.
    assert finding.details["device_idle_s"] == pytest.approx(7 * 0.06)
    assert finding.cost_s == pytest.approx(0.08), "tracing cannot be spared, only waiting beside it"
    assert "stood idle for ~420 ms" in finding.summary and "up to ~80 ms is saved" in finding.summary


@pytest.mark.parametrize(("steps", "severity"), [(40, Severity.WARNING), (10, Severity.INFO), (4, None)])
def test_tracing_longer_than_the_device_runs_binds(
    context: Make, stepped: Steps, steps: int, severity: Severity | None
) -> None:
    made = context(steps=stepped(steps, STEP), spans=in_steps(steps, "sync", 79, 1), executions=runs(steps, 80, 20))
    assert [finding.severity for finding in found(made, "trace_bound")] == ([] if severity is None else [severity])


def test_a_busy_device_is_healthy_and_nothing_else_is_said(context: Make, stepped: Steps) -> None:
    made = context(steps=stepped(40, STEP), spans=in_steps(40, "sync", 1, 97), executions=runs(40, 2, 97))
    (finding,) = all_findings(made)
    assert (finding.id, finding.severity, finding.cost_s) == ("device_bound", Severity.INFO, 0.0)
    assert finding.summary.startswith("Healthy: in the steady state the device is busy ~97 %")


@pytest.mark.parametrize(
    ("kind", "name", "length_ms", "severity"),
    [
        ("gc", "gc_pauses", 8, Severity.WARNING),
        ("gc", "gc_pauses", 3, Severity.INFO),
        ("gc", "gc_pauses", 1, None),
        ("transfer", "transfer_bound", 25, Severity.WARNING),
        ("transfer", "transfer_bound", 15, Severity.INFO),
        ("transfer", "transfer_bound", 5, None),
    ],
)
def test_pauses_and_transfers_by_their_share_of_the_steady_state(
    context: Make, stepped: Steps, kind: str, name: str, length_ms: int, severity: Severity | None
) -> None:
    made = context(steps=stepped(40, STEP), spans=in_steps(40, kind, 10, length_ms), executions=runs(40, 50, 50))
    assert [finding.severity for finding in found(made, name)] == ([] if severity is None else [severity])


def test_input_that_hides_behind_the_device_costs_nothing(context: Make, stepped: Steps) -> None:
    waits = in_steps(10, "input_wait", 10, 60)
    assert len(found(context(steps=stepped(10, STEP), spans=waits), "input_bound")) == 1
    made = context(steps=stepped(10, STEP), spans=waits, executions=runs(10, 5, 70))
    assert found(made, "input_bound") == []


def test_a_long_first_compile_does_not_hide_a_slow_loader(context: Make, stepped: Steps) -> None:
    compile_span = {**in_steps(1, "compile", 0, 95)[0], "thread": None}
    steps = [{**row, "end_ns": row["end_ns"] + (2 * STEP if row["step"] == 0 else 0)} for row in stepped(8, STEP)]
    for row in steps[1:]:
        row["start_ns"], row["end_ns"] = row["start_ns"] + 2 * STEP, row["end_ns"] + 2 * STEP
    waits = [{**row, "time_ns": row["time_ns"] + 2 * STEP} for row in in_steps(8, "input_wait", 10, 60)[1:]]
    long_compile = {**compile_span, "duration_ns": 3 * STEP}
    compiles = [{**compiled("sync"), "step": 0, "time_ns": 0, "duration_ns": 3 * STEP}]
    made = context(steps=steps, compiles=compiles, spans=[long_compile, *waits], executions=runs(1, 305, 3))
    (finding,) = found(made, "input_bound")
    assert finding.severity is Severity.CRITICAL


def test_graphs_compiled_for_reads_alone_are_their_cost_also_in_a_run_that_was_stopped(
    context: Make, stepped: Steps, at_line: At
) -> None:
    reads = [read(0, executions=1, time_ns=STEP // 2 + n) for n in range(4)]
    compiles = [{**compiled("read"), "cut_ns": row["time_ns"], "duration_ns": 8 * MS} for row in reads]
    made = context(places={1: at_line(37)}, steps=stepped(1, STEP), reads=reads, compiles=compiles)
    (finding,) = found(made, "host_sync")
    assert finding.cost_s == pytest.approx(4 * (0.008 + 0.002)) and finding.details["compile_s"] == 0.032
    assert "4 graphs had to be compiled for it (32 ms)" in finding.summary
    assert not found(context(places={1: at_line(37)}, steps=stepped(1, STEP), reads=reads), "host_sync")


def test_reads_of_argument_checks_can_be_switched_off(context: Make, stepped: Steps) -> None:
    site = Site("/home/me/train.py", 21, "<module>", "")
    stack = (
        ("/lib/site-packages/torch/distributions/categorical.py", 70, "__init__"),
        ("/home/me/train.py", 21, "<module>"),
    )
    reads = [read(n, executions=1) for n in range(8)]
    made = context(places={1: Place(site, site, stack)}, steps=stepped(8, STEP), reads=reads)
    assert "validate_args=False" in found(made, "host_sync")[0].advice


def test_the_overload_of_an_operation_does_not_hide_that_it_is_of_the_backward_pass(
    context: Make, stepped: Steps, at_line: At
) -> None:
    made = context(
        places={1: at_line(12), 2: at_line(15)},
        steps=stepped(6, STEP),
        counters=[counter("aten::_ctc_loss.Tensor", 6), counter("aten::_ctc_loss_backward.Tensor", 6)],
        syncs=[forced(n) for n in range(6)] + [forced(n, "autograd", 2) for n in range(6)],
    )
    assert {f.site.line: f.count for f in found(made, "fallback") if f.site} == {12: 6, 15: 6}
