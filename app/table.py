"""Tables of the pages: one look, one way to sort, filter, select and export.

A row holds each value under its column's name, to sort, filter and export by, and beside it as ``<name>_text`` what is
shown. What a table is about is left to its page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_ag_grid as dag

ROW_PX = 36
_HEAD_PX = 40
_FRAME_PX = 58
"""What a table needs besides its rows: the head, a scroll bar, borders."""


def column(
    field: str, word: str, width: int, hint: str, *, numeric: bool, look: str = "", **more: Any
) -> dict[str, Any]:
    """A column of that many pixels under ``word``; ``look``: the class of its cells, ``more``: options of ag-grid."""
    definition: dict[str, Any] = {
        "field": field,
        "headerName": word,
        "headerTooltip": hint,
        "width": width,
        "valueFormatter": {"function": f"params.data.{field}_text"},
    }
    if numeric:
        definition |= {"filter": "agNumberColumnFilter", "type": "rightAligned"}
        look = f"{look} ag-right-aligned-cell".strip()
    return definition | {"cellClass": look} | more


def sorted_by(columns: Sequence[dict[str, Any]], field: str | None) -> list[dict[str, Any]]:
    """The columns; the table starts sorted by that one, largest first."""
    return [definition | {"sort": "desc"} if definition["field"] == field else definition for definition in columns]


def grid(
    name: str, columns: Sequence[dict[str, Any]], file: str, height_px: int, *, selectable: bool = False, **more: Any
) -> dag.AgGrid:
    """A table without rows yet, exported as ``file``; ``more``: properties of its own, ``getRowId`` among them."""
    options: dict[str, Any] = {
        "rowHeight": ROW_PX,
        "headerHeight": _HEAD_PX,
        "animateRows": False,
        "tooltipShowDelay": 300,
        "enableCellTextSelection": True,
        "ensureDomOrder": True,
    }
    if selectable:
        options["rowSelection"] = {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True}
    properties = {"getRowId": "params.data.id"} | more
    return dag.AgGrid(
        id=name,
        columnDefs=list(columns),
        defaultColDef={
            "sortable": True,
            "filter": "agTextColumnFilter",
            "resizable": True,
            "suppressHeaderMenuButton": True,
        },
        dashGridOptions=options,
        csvExportParams={
            "fileName": file,
            "processCellCallback": {"function": "plainCell(params)"},
            "processHeaderCallback": {"function": "plainHeader(params)"},
        },
        className="grid",
        style=height(height_px),
        **properties,
    )


def height(px: int) -> dict[str, str]:
    """The style of a table that is so many pixels high."""
    return {"height": f"{px}px"}


def height_for(rows: int, least_px: int, most_px: int) -> int:
    """As high as its rows, within limits, so that neither half a screen is empty nor the page becomes endless."""
    return min(most_px, max(least_px, _FRAME_PX + ROW_PX * rows))
