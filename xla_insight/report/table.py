"""Rows of a query as a plain table, CSV or JSON.

Owns the text form of database values: a missing value is ``n/a`` in a table, empty in CSV and null in JSON.
"""

from __future__ import annotations

import csv
import json
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from xla_insight.facts import numbers

Row = Sequence[Any]
_MAX_CELL = 60


def write_table(columns: Sequence[str], rows: Sequence[Row], stream: TextIO) -> None:
    """An aligned table: numbers to the right, long texts shortened in the middle, columns as wide as they need."""
    body = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(_columns(line[index]) for line in [list(columns), *body]) if columns else 0 for index in range(len(columns))
    ]
    right = [all(_is_number(row[index]) for row in rows) and bool(rows) for index in range(len(columns))]
    stream.write(_line(columns, widths, right))
    stream.write(_line(["─" * width for width in widths], widths, right))
    for line in body:
        stream.write(_line(line, widths, right))


def write_csv(columns: Sequence[str], rows: Iterable[Row], stream: TextIO) -> None:
    """RFC 4180 text with a header line."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if _is_missing(value) else _scalar(value) for value in row])


def write_json(columns: Sequence[str], rows: Iterable[Row], stream: TextIO) -> None:
    """A JSON list with one object a row, written row by row."""
    stream.write("[")
    for number, row in enumerate(rows):
        values = {name: _json_value(value) for name, value in zip(columns, row, strict=True)}
        stream.write((",\n " if number else "\n ") + json.dumps(values, default=str, allow_nan=False))
    stream.write("\n]\n")


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        gap = " " * (width - _columns(cell))
        padded.append(gap + cell if to_right else cell + gap)
    return "  ".join(padded).rstrip() + "\n"


def _cell(value: Any) -> str:
    if _is_missing(value):
        return numbers.NOT_MEASURED
    if isinstance(value, float):
        return f"{value:.6g}" if not value.is_integer() else f"{value:.0f}"
    text = "".join(char if char.isprintable() else " " for char in str(_scalar(value)))
    if len(text) <= _MAX_CELL:
        return text
    # From the middle: a path tells most at its end, a sentence at its start.
    half = _MAX_CELL // 2
    return f"{text[: half - 1]}…{text[-half:]}"


def _columns(text: str) -> int:
    """Terminal columns of a text: wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _is_number(value: Any) -> bool:
    return _is_missing(value) or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _scalar(value: Any) -> Any:
    """Bytes as hex, lists of the database as Python lists."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value.tolist() if hasattr(value, "tolist") else value


def _json_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return _scalar(value)
