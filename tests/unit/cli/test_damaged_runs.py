"""Verbs on a run whose log cannot be read in part: what they print is not passed off as that of a whole run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kept_graphs import build_explained_run
from tests.synthetic import build_run
from xla_insight import cli

Output = pytest.CaptureFixture[str]
SAID = "xla-insight: 1 part of the log could not be read: rank-00000-node-1-4000/part-000001.parquet"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A run whose only part was cut off."""
    run = build_run(tmp_path / "run")
    (part,) = run.rglob("part-*.parquet")
    os.truncate(part, 100)
    return run


@pytest.mark.parametrize(
    "verb",
    [
        ["sql", "RUN", "select count(*) as n from steps"],
        ["shapes", "RUN"],
        ["shapes", "RUN", "--json"],
        ["export", "RUN", "--csv", "TABLES"],
        ["export", "RUN", "--perfetto", "TRACE"],
    ],
)
def test_damage_is_one_line_beside_the_results(verb: list[str], damaged: Path, tmp_path: Path, capsys: Output) -> None:
    places = {"RUN": str(damaged), "TABLES": str(tmp_path / "tables"), "TRACE": str(tmp_path / "trace")}
    assert cli.main([places.get(word, word) for word in verb]) == 0
    captured = capsys.readouterr()
    assert captured.out and captured.err.count("\n") == 1 and captured.err.startswith(SAID)


def test_explain_tells_damage_before_it_finds_nothing(damaged: Path, capsys: Output) -> None:
    assert cli.main(["explain", str(damaged), "3"]) in (0, 2)
    assert capsys.readouterr().err.startswith(SAID)


def test_explain_tells_graphs_that_cannot_be_read(tmp_path: Path, capsys: Output) -> None:
    run = build_explained_run(tmp_path / "run")
    for file in run.rglob("*.hlo.pb.zst"):
        os.truncate(file, 0)
    cli.main(["explain", str(run), "0"])
    assert "cannot be read (missing or damaged" in capsys.readouterr().err


def test_a_whole_run_says_nothing_on_stderr(tmp_path: Path, capsys: Output) -> None:
    assert cli.main(["sql", str(build_run(tmp_path / "run")), "select count(*) as n from steps"]) == 0
    assert capsys.readouterr().err == ""


def test_many_damaged_parts_are_named_in_short(tmp_path: Path, capsys: Output) -> None:
    run = build_run(tmp_path / "run", ranks=5)
    for part in run.rglob("part-*.parquet"):
        os.truncate(part, 100)
    cli.main(["sql", str(run), "select 1 as n"])
    told = capsys.readouterr().err
    assert "5 parts of the log could not be read" in told and told.rstrip().endswith("; and 2 more")


def test_compare_tells_graphs_that_cannot_be_read(tmp_path: Path, capsys: Output) -> None:
    whole, broken = (build_explained_run(tmp_path / name) for name in ("whole", "broken"))
    for file in broken.rglob("*.hlo.pb.zst"):
        os.truncate(file, 0)
    assert cli.main(["compare", str(whole), str(broken)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Of the second run," in told and "cannot be read" in told and "Of the first run" not in told
