"""Rows of a query as table, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

from xla_insight.report.table import write_csv, write_json, write_table

COLUMNS = ["name", "count", "share"]
ROWS = [("a,b", 12, 0.25), ("größe 漢", None, float("nan")), ('say "x"', 3, 2.0)]


def test_a_table_is_aligned_and_marks_missing_values() -> None:
    stream = io.StringIO()
    write_table(COLUMNS, ROWS, stream)
    lines = stream.getvalue().splitlines()
    assert lines[0].split() == COLUMNS
    assert lines[2].endswith("12   0.25") and lines[3].endswith("n/a    n/a")
    assert len(lines) == 5


def test_an_empty_result_still_has_its_head() -> None:
    stream = io.StringIO()
    write_table(["a"], [], stream)
    assert stream.getvalue().splitlines()[0] == "a"


def test_csv_reads_back() -> None:
    stream = io.StringIO()
    write_csv(COLUMNS, ROWS, stream)
    assert list(csv.reader(io.StringIO(stream.getvalue())))[1:] == [
        ["a,b", "12", "0.25"],
        ["größe 漢", "", ""],
        ['say "x"', "3", "2.0"],
    ]


def test_json_reads_back_without_nan() -> None:
    stream = io.StringIO()
    write_json(COLUMNS, [*ROWS, (b"\x01\xff", 1, float("inf"))], stream)
    rows = json.loads(stream.getvalue())
    assert rows[1] == {"name": "größe 漢", "count": None, "share": None}
    assert rows[3]["name"] == "01ff"
    empty = io.StringIO()
    write_json(COLUMNS, [], empty)
    assert json.loads(empty.getvalue()) == []
