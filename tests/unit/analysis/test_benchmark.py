"""The table of training minutes: what is extrapolated, from what, and what stays unknown."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from tests.synthetic import build_run
from xla_insight.analysis import analyze
from xla_insight.analysis.benchmark import Training, benchmark_row
from xla_insight.facts.report import Report
from xla_insight.report.benchmark_text import print_benchmark

FP32 = Training("bert-large-uncased", 64, "fp32", 1030)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("benchmark") / "run"
    build_run(path, steps=30, pattern="A")
    return analyze(str(path))


def test_missing_steps_last_as_long_as_those_after_the_warm_up(report: Report) -> None:
    row = benchmark_row(FP32, report)
    steady = report.time.steady
    assert steady is not None and row.step_s == pytest.approx(steady.wall_s / steady.steps)
    assert row.extrapolated and row.train_s == pytest.approx(report.time.wall_s + 1000 * (row.step_s or 0))
    assert row.compile_s == report.graphs.compile_s > 0
    parts = (row.trace_s, row.input_s, row.device_s)
    assert all(part is not None and 0 <= part <= row.step_s for part in parts)  # type: ignore[operator]


def test_a_whole_training_is_measured(report: Report) -> None:
    row = benchmark_row(FP32._replace(steps_full=30), report)
    assert (row.extrapolated, row.train_s) == (False, report.time.wall_s)


def test_what_is_not_known_stays_unknown(report: Report) -> None:
    unknown = benchmark_row(FP32._replace(steps_full=None), report)
    assert (unknown.train_s, unknown.extrapolated) == (None, False)
    short = replace(report, time=replace(report.time, steady=None))
    row = benchmark_row(FP32, short)
    assert (row.train_s, row.step_s, row.device_s, row.overlap_pct, row.extrapolated) == (None, None, None, None, True)
    stream = io.StringIO()
    print_benchmark([row, unknown], stream)
    assert stream.getvalue().count("n/a") >= 6 and "A step in" not in stream.getvalue()


def test_the_table_marks_what_it_extrapolates(report: Report) -> None:
    rows = [benchmark_row(FP32, report), benchmark_row(FP32._replace(precision="bf16", steps_full=30), report)]
    stream = io.StringIO()
    print_benchmark(rows, stream)
    lines = stream.getvalue().splitlines()
    fp32, bf16 = (next(line for line in lines if precision in line) for precision in ("FP32", "BF16"))
    assert "*" in fp32 and "*" not in bf16 and max(map(len, lines)) <= 110
    assert "* fp32: extrapolated from 30 steps of 1\u2009030." in lines
    assert "A step in BF16 takes 1 times the time of one in FP32, on this device." in lines
