"""Exports: every table and the report as files, safe in a spreadsheet, never on top of something else."""

from __future__ import annotations

import csv
import errno
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.synthetic import HOSTILE_FORMULA, build_run
from xla_insight.analysis import analyze
from xla_insight.errors import ExportError
from xla_insight.facts.report import Report
from xla_insight.report.csv import export_csv
from xla_insight.report.export_files import MARK_FILE, report_columns
from xla_insight.report.parquet import export_parquet
from xla_insight.store.reader import Run, open_run
from xla_insight.store.views import TABLES

NAMES = [*TABLES, "idle", "device_ops", *report_columns(), "ranks", "devices", "collectives", "shapes", "plans"]
OWN_COLUMNS = {"steps", "shardings"}
"""Tables that an export has with more columns than the table of that name."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(build_run(tmp_path_factory.mktemp("runs") / "run", steps=20, ranks=2, hostile=True))


@pytest.fixture(scope="module")
def report(run: Run) -> Report:
    return analyze(run)


def test_one_csv_a_table_with_all_rows(run: Run, report: Report, tmp_path: Path) -> None:
    files = export_csv(run, report, tmp_path / "out")
    assert [path.name for path in files] == [f"{name}.csv" for name in NAMES]
    assert sorted(os.listdir(tmp_path / "out")) == sorted([MARK_FILE, *(f"{name}.csv" for name in NAMES)])
    for name in TABLES:
        frame = pd.read_csv(tmp_path / "out" / f"{name}.csv")
        assert list(frame.columns) == list(run.table(name).columns) or name in OWN_COLUMNS
        assert len(frame) == len(run.table(name))
    assert len(pd.read_csv(tmp_path / "out" / "recompiles.csv")) == len(report.recompiles) > 0
    assert pd.read_csv(tmp_path / "out" / "findings.csv")["id"].tolist() == [finding.id for finding in report.findings]


def test_a_spreadsheet_opens_it_right(run: Run, report: Report, tmp_path: Path) -> None:
    first = report.findings[0]
    hostile = [replace(first, summary=text) for text in ("+1", "-1", "@x", "\t=1", "\r=1", "fine = 1", 'q"uo\nte, é')]
    export_csv(run, replace(report, findings=tuple(hostile)), tmp_path / "out")
    for path in (tmp_path / "out").glob("*.csv"):
        content = path.read_bytes()
        assert content.startswith(b"\xef\xbb\xbf"), "without the mark a spreadsheet guesses the encoding"
        with path.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.reader(file):
                assert not [cell for cell in row if cell.startswith(("=", "+", "@", "\t", "\r"))], path.name
    frame = pd.read_csv(tmp_path / "out" / "findings.csv", encoding="utf-8-sig", dtype=str)
    assert frame["summary"].tolist() == ["'+1", "'-1", "'@x", "'\t=1", "'\r=1", "fine = 1", 'q"uo\nte, é']
    inputs = pd.read_csv(tmp_path / "out" / "inputs.csv", encoding="utf-8-sig")
    assert f"'{HOSTILE_FORMULA}" in set(inputs["name"])
    assert inputs["dims"][0] == "[8, 72]"


def test_steps_and_idle_account_for_all_time(run: Run, report: Report, tmp_path: Path) -> None:
    export_csv(run, report, tmp_path / "out")
    steps = pd.read_csv(tmp_path / "out" / "steps.csv", encoding="utf-8-sig")
    assert set(run.steps.columns) <= set(steps.columns)
    for parts in ("host_", "idle_"):
        columns = [name for name in steps.columns if name.startswith(parts) and name.endswith("_ns")]
        busy = 0 if parts == "host_" else steps["device_busy_ns"]
        assert len(columns) == 8 and (steps[columns].sum(axis=1) + busy == steps["duration_ns"]).all()
    idle = pd.read_csv(tmp_path / "out" / "idle.csv", encoding="utf-8-sig")
    states = [name for name in idle.columns if name.endswith("_ns") and name not in ("time_ns", "duration_ns")]
    assert (idle[states].sum(axis=1) == idle["duration_ns"]).all()
    in_steps = idle[idle["step"].notna()]["duration_ns"].sum()
    assert in_steps > 0 and idle["duration_ns"].sum() >= steps[[f"idle_{s[:-3]}_ns" for s in states]].sum().sum() * 0.9
    assert set(idle["opened_by"].dropna()) <= {"read", "sync"} and idle["opened_file"].notna().any()


def test_numbers_stay_numbers_and_missing_cells_are_empty(run: Run, report: Report, tmp_path: Path) -> None:
    export_csv(run, report, tmp_path / "out")
    steps = pd.read_csv(tmp_path / "out" / "steps.csv")
    assert steps["duration_ns"].tolist() == run.steps["duration_ns"].tolist()
    errors = (tmp_path / "out" / "loader_errors.csv").read_text(encoding="utf-8-sig").splitlines()
    assert errors[1].startswith("0,0,,"), "an event outside of any step has no step, not step 0"


def test_parquet_keeps_types(run: Run, report: Report, tmp_path: Path) -> None:
    files = export_parquet(run, report, tmp_path / "out")
    assert [path.name for path in files] == [f"{name}.parquet" for name in NAMES]
    for name in set(TABLES) - OWN_COLUMNS:
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / f"{name}.parquet"), run.table(name))


def test_an_earlier_export_is_replaced_and_nothing_else(run: Run, report: Report, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_parquet(run, report, out)
    (out / "notes.txt").write_text("mine")
    export_csv(run, report, out)
    assert not list(out.glob("*.parquet"))
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("export", [export_csv, export_parquet])
def test_a_folder_of_something_else_is_refused_unless_told(
    run: Run, report: Report, tmp_path: Path, export: type[object]
) -> None:
    (tmp_path / "photo.jpg").write_text("x")
    with pytest.raises(ExportError, match="not empty"):
        export(run, report, tmp_path)  # type: ignore[call-arg]
    assert os.listdir(tmp_path) == ["photo.jpg"]
    export(run, report, tmp_path, overwrite=True)  # type: ignore[call-arg]
    assert (tmp_path / "photo.jpg").read_text() == "x"


def test_a_forged_mark_deletes_nothing_outside(run: Run, report: Report, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    out = tmp_path / "out"
    out.mkdir()
    (out / MARK_FILE).write_text(
        '{"written_by": "xla-insight export", "files": ["../precious", "..", "", 5, "steps.csv"]}'
    )
    export_csv(run, report, out)
    assert (tmp_path / "precious").read_text() == "x"


def test_places_that_cannot_be_written(
    run: Run, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(ExportError, match="not a folder"):
            export_csv(run, report, place)

    def refuse(*_paths: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ExportError, match="No space left on device"):
        export_csv(run, report, tmp_path / "out")
    assert os.listdir(tmp_path / "out") == []


def test_a_run_without_anything_exports_empty_tables(report: Report, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"schema": 1}')
    nothing = replace(report, recompiles=(), findings=())
    export_csv(open_run(tmp_path / "run"), nothing, tmp_path / "out")
    header, *rows = (tmp_path / "out" / "findings.csv").read_text(encoding="utf-8-sig").splitlines()
    assert header.startswith('"id","severity"')
    assert rows == []
