"""Verbs on a real folder: what they print, where, and how they fail."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.synthetic import MONO_NS, build_run, process_facts
from xla_insight import cli
from xla_insight.facts.events import Event, Kind
from xla_insight.store.writer import RunWriter

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small finished run."""
    return str(build_run(tmp_path_factory.mktemp("runs") / "small", fallback="aten::nonzero"))


def test_report_in_text_and_json(run: str, capsys: Output) -> None:
    assert cli.main(["report", run]) == 0
    assert "What costs most" in capsys.readouterr().out
    assert cli.main(["report", run, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["schema"] == 1 and plain["graphs"]["executions"] == 28
    assert {finding["id"] for finding in plain["findings"]} >= {"host_sync", "fallback"}


@pytest.mark.parametrize("verb", [["report"], ["sql"]])
def test_a_missing_run_is_one_line(verb: list[str], tmp_path: Path, capsys: Output) -> None:
    assert cli.main([*verb, str(tmp_path / "none")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and "none" in captured.err


def test_sql_lists_the_tables_without_a_query(run: str, capsys: Output) -> None:
    assert cli.main(["sql", run]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("steps(process, rank, step") for line in lines)


def test_sql_writes_tables_csv_and_json(run: str, capsys: Output) -> None:
    query = "select step, duration_ns, graph from executions order by step, graph limit 2"
    assert cli.main(["sql", run, query]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["step", "duration_ns", "graph"]
    assert cli.main(["sql", run, query, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert cli.main(["sql", run, query, "-f", "json"]) == 0
    objects = json.loads(capsys.readouterr().out)
    assert [row["graph"] for row in rows] == [item["graph"] for item in objects]
    assert [int(row["duration_ns"]) for row in rows] == [item["duration_ns"] for item in objects]


def test_whole_numbers_stay_whole_beside_missing_ones(run: str, capsys: Output) -> None:
    query = "select * from (values (12, 0.5, [1, 2]), (null, null, null)) t(whole, share, many)"
    assert cli.main(["sql", run, query, "-f", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["whole,share,many", '12,0.5,"[1, 2]"', ",,"]
    assert cli.main(["sql", run, query, "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"whole": 12, "share": 0.5, "many": [1, 2]}


@pytest.mark.parametrize(
    "query", ["selec 1", "select nope from steps", "", "select * from read_text('/etc/hostname')", "select 1/"]
)
def test_a_bad_query_is_one_line_and_two(run: str, query: str, capsys: Output) -> None:
    assert cli.main(["sql", run, query]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("xla-insight: ") and captured.err.count("\n") == 1


def test_a_closed_pipe_ends_quietly(run: str) -> None:
    wide = "select repeat('x', 1000) as text from range(5000)"
    command = [sys.executable, "-m", "xla_insight.cli", "sql", run, wide, "-f", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.parametrize("arguments", [["report"], ["sql", "-f", "csv"], ["--help"]])
def test_a_full_disk_is_one_line_and_two(run: str, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "xla_insight.cli", *arguments]
    command += [] if arguments == ["--help"] else [run]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "xla-insight: cannot write all of it: No space left on device\n")


def test_a_terminal_without_unicode_still_gets_a_report(run: str) -> None:
    command = [sys.executable, "-m", "xla_insight.cli", "report", run]
    done = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}, check=True)
    assert b"host_sync" in done.stdout and b"?" not in done.stdout


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select unnest([9007199254740993, null]) as a", [{"a": 9007199254740993}, {"a": None}]),
        ("select [1759876954003713793, null] as a", [{"a": [1759876954003713793, None]}]),
        ("select ['nan'::double, 1.5] as a", [{"a": [None, 1.5]}]),
        ("select [['inf'::double], [-'inf'::double]] as a", [{"a": [[None], [None]]}]),
        ("select {'x': 'nan'::double, 'y': [{'z': 'inf'::double}]} as a", [{"a": {"x": None, "y": [{"z": None}]}}]),
        ("select map {'k': 'nan'::double} as a", [{"a": [["k", None]]}]),
        ("select sum(x) as a from (values (1), (2)) t(x)", [{"a": 3}]),
    ],
)
def test_digits_are_exact_and_json_is_json(run: str, query: str, rows: list[object], capsys: Output) -> None:
    assert cli.main(["sql", run, query, "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == rows


def test_a_value_without_a_form_is_one_line(run: str, capsys: Output) -> None:
    assert cli.main(["sql", run, "select date '99999-01-01'"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_ended_the_training_is_said_in_text_and_json(tmp_path: Path, capsys: Output) -> None:
    run = str(tmp_path / "run")
    writer = RunWriter.create(run, group=None, run_facts={}, process_facts=process_facts())
    message = "ValueError: loss exploded\nat step 5 " + "x" * 1000
    writer.append([Event(MONO_NS, None, Kind.MARK, name="exception", detail=text) for text in (message, "Stop: ")])
    writer.close(ended="exception")
    assert cli.main(["report", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["exceptions"] == [message, "Stop"]
    assert cli.main(["report", run]) == 0
    told = capsys.readouterr().out
    assert "Training ended with ValueError: loss exploded at step 5" in " ".join(told.split())
    assert "Training ended with Stop" in told and 300 < told.count("x") < 500, "pages of a message are cut"
