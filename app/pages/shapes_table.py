"""The table of all shapes on the page Shapes: its columns, and its rows as value and text."""

from __future__ import annotations

from typing import Any

import dash_ag_grid as dag

from xla_insight.analysis.shapes import Problem
from xla_insight.analysis.shapes.tables import shape_rows
from xla_insight.report import numbers

from .. import parts, table
from ..ids import Shapes

_COLUMNS = (
    ("shape", "shape", 400, "The tensors of a batch with their sizes"),
    ("batches", "batches", 124, "Batches of this shape"),
    ("first_batch", "first", 88, "The first batch of this shape, counted from 0"),
    ("last_batch", "last", 88, "The last batch of this shape"),
    ("execute_ms", "device time", 124, "Median device time of a step of this shape"),
    ("model_ms", "fitted", 104, "Device time that the model gives it"),
    ("compiles", "compiles", 116, "Compiles of graphs that only this shape had"),
    ("compile_s", "compile time", 128, "Seconds of those compiles"),
    ("graphs", "graphs", 240, "The graphs that only this shape had"),
)
_TEXTS = ("shape", "graphs")
_LEAST_PX, _MOST_PX = 200, 560


def grid() -> dag.AgGrid:
    """The table, without rows yet."""
    columns = table.sorted_by([_definition(*column) for column in _COLUMNS], "batches")
    return table.grid(Shapes.GRID, columns, "shapes.csv", _MOST_PX, getRowId="params.data.shape")


def rows_of(problem: Problem | None) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The rows, and how high the table is for them."""
    rows = [] if problem is None else [_row(row) for row in shape_rows(problem)]
    return rows, table.height(table.height_for(len(rows), _LEAST_PX, _MOST_PX))


def _definition(field: str, word: str, width: int, hint: str) -> dict[str, Any]:
    if field in _TEXTS:
        return table.column(field, word, width, hint, numeric=False, look="cell-place", tooltipField=field)
    return table.column(field, word, width, hint, numeric=True)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    texts = {
        f"{field}_text": numbers.count(row[field]) for field in ("batches", "first_batch", "last_batch", "compiles")
    }
    texts["execute_ms_text"] = _milliseconds(row["execute_ms"])
    texts["model_ms_text"] = _milliseconds(row["model_ms"], inferred=True)
    texts["compile_s_text"] = numbers.duration(row["compile_s"])
    texts["shape_text"] = parts.middle(row["shape"], 120)
    texts["graphs_text"] = ", ".join(numbers.short_hash(graph) for graph in row["graphs"].split())
    return row | texts


def _milliseconds(value: float | None, *, inferred: bool = False) -> str:
    return numbers.duration(None if value is None else value / 1e3, inferred=inferred)
