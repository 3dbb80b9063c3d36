"""The whole report over runs written by the real writer: numbers follow from the plan, and damage is stated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.synthetic import build_run
from xla_insight.analysis import analyze, graph_table, step_table
from xla_insight.errors import RunNotFoundError
from xla_insight.facts.report import Severity
from xla_insight.report.json import render_json
from xla_insight.report.text import render_text
from xla_insight.store.reader import open_run

STEPS = 14
"""Of the default plan: pattern AABBBCB, each step reads a mask's value (a graph of its own) and cuts one graph."""


def test_totals_steps_and_causes_follow_from_the_plan(tmp_path: Path) -> None:
    report = analyze(build_run(tmp_path / "run"))
    assert (report.steps.count, report.steps.source, report.steps.inferred) == (STEPS, "callback", False)
    assert (report.graphs.executions, report.graphs.compiles, report.graphs.cache_hits) == (28, 4, 24)
    assert (report.graphs.distinct, report.graphs.syncs, report.graphs.compile_s) == (4, 28, 1.2)
    assert sum(entry.count for entry in report.recompiles) == report.graphs.compiles
    counts = {(e.cause, e.site.line if e.site else None): e.count for e in report.recompiles}
    assert counts == {("first_graph", 354): 1, ("first_graph", 40): 1, ("unknown", 40): 2}


def test_reads_in_a_library_are_found_with_the_users_line(tmp_path: Path) -> None:
    report = analyze(build_run(tmp_path / "run", save_every=5))
    (finding,) = [f for f in report.findings if f.id == "host_sync"]
    assert finding.site is not None and finding.user_site is not None
    assert (finding.count, finding.site.line, finding.user_site.line) == (STEPS, 354, 31)


def test_time_adds_up_on_every_level(tmp_path: Path) -> None:
    path = build_run(tmp_path / "run", save_every=5)
    report = analyze(path)
    assert sum(report.time.host.values()) == pytest.approx(report.time.wall_s, abs=1e-6)
    assert report.time.device_busy_s is not None
    idle = sum(report.time.device_idle_by_host_state.values())
    assert report.time.device_busy_s + idle == pytest.approx(report.time.wall_s, abs=1e-6)
    with open_run(path) as run:
        steps, graphs = step_table(run), graph_table(run)
    host = [name for name in steps.columns if name.startswith("host_")]
    assert (steps[host].sum(axis=1) == steps["duration_ns"]).all()
    assert steps["compiles"].sum() == graphs["compiles"].sum() == 4
    assert steps["host_compile_ns"].sum() == 1_200_000_000
    assert graphs["short"].str.len().tolist() == [6] * 4 and graphs["short"].is_unique


def test_several_ranks_are_one_report(tmp_path: Path) -> None:
    report = analyze(build_run(tmp_path / "run", ranks=3))
    assert (report.run.ranks, report.run.processes, report.steps.count) == (3, 3, STEPS)
    assert (report.graphs.executions, report.graphs.compiles) == (84, 12)
    assert sum(entry.count for entry in report.recompiles) == 12


def test_a_run_without_reads_or_surprises_is_healthy(tmp_path: Path) -> None:
    report = analyze(build_run(tmp_path / "run", reads=False, pattern="A", steps=40))
    severities = [e.severity for e in report.recompiles] + [f.severity for f in report.findings]
    assert set(severities) == {Severity.INFO}


@pytest.mark.parametrize("torn_bytes", [0, 100])
def test_a_killed_run_opens_and_says_so(tmp_path: Path, torn_bytes: int) -> None:
    path = build_run(tmp_path / "run", ended=None, torn_bytes=torn_bytes)
    report = analyze(path)
    assert report.run.state in ("recording", "crashed")
    assert report.graphs.compiles == sum(entry.count for entry in report.recompiles) > 0


def test_hostile_names_survive_every_format(tmp_path: Path) -> None:
    report = analyze(build_run(tmp_path / "run", hostile=True))
    assert json.loads(render_json(report))["findings"]
    assert "<script>" in render_text(report) and "\x1b" not in render_text(report)
    assert [f.severity for f in report.findings if f.id == "loader_error"] == [Severity.CRITICAL]


def test_no_run_is_an_error_for_the_user(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError):
        analyze(tmp_path / "nothing")
