"""Verb `export`: which files it writes, and that it never writes over what is not its own."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from tests.synthetic import build_run
from xla_insight import cli

Output = pytest.CaptureFixture[str]


def test_csv_and_parquet_hold_the_tables_and_the_report(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run")
    tables, columns = tmp_path / "tables", tmp_path / "columns"
    assert cli.main(["export", str(run), "--csv", str(tables), "--parquet", str(columns)]) == 0
    assert capsys.readouterr().out.count("files written to") == 2
    with open(tables / "steps.csv", encoding="utf-8-sig", newline="") as file:
        assert len(list(csv.DictReader(file))) == 14
    with open(tables / "recompiles.csv", encoding="utf-8-sig", newline="") as file:
        assert sum(int(row["count"]) for row in csv.DictReader(file)) == 4
    assert len(pd.read_parquet(columns / "executions.parquet")) == 28


def test_what_and_where_must_be_said(tmp_path: Path, capsys: Output) -> None:
    assert cli.main(["export", str(build_run(tmp_path / "run"))]) == 2
    assert "--csv DIR" in capsys.readouterr().err


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "steps.csv").write_text("precious")
    assert cli.main(["export", str(run), "--csv", str(tmp_path / "mine")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (tmp_path / "mine" / "steps.csv").read_text() == "precious"


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    assert cli.main(["export", str(run), "--csv", str(tmp_path / "file" / "under")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
