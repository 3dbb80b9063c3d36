"""The tables of collectives and of shardings on the page Ranks & devices: columns, and rows as value and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_ag_grid as dag
from dash import html

from xla_insight.facts.devices import CollectiveFacts, DeviceFacts, ShardingFacts
from xla_insight.report import numbers

from .. import parts, table
from ..ids import Ranks

_COLLECTIVES = (
    ("kind", "kind", 148, "The kind of exchange"),
    ("count", "count", 88, "How often it runs in one execution of the graph, on each device"),
    ("payload_bytes", "bytes of one", 124, "The larger of what goes in and what comes out, on one device"),
    ("graph_bytes", "bytes a graph", 148, "Bytes of one times count"),
    ("shape", "shape", 168, "What is exchanged"),
    ("groups", "between", 148, "Devices that exchange with each other, and the axis of the mesh"),
    ("graph", "graph", 96, "The graph it is part of"),
    ("executions", "executions", 116, "Of the graph, over all processes"),
    ("place", "line", 264, "The line of code it comes from, where the graph says so"),
)
_SHARDINGS = (
    ("parameter", "parameter", 320, "Its name in the model"),
    ("dims", "dimensions", 124, "Of the whole"),
    ("bytes", "bytes", 104, "Of the whole"),
    ("bytes_per_device", "on a device", 116, "Bytes of the largest piece"),
    ("pieces", "pieces", 92, "Into how many it is cut; 1: whole on each device"),
    ("placement", "placement", 124, "How it lies on the devices"),
    ("axes", "cut by", 168, "Axis of the mesh that cuts each dimension"),
    ("sharding", "sharding", 280, "In the notation of HLO"),
)
_TEXTS = ("kind", "shape", "groups", "graph", "place", "parameter", "dims", "placement", "axes", "sharding")
_LEAST_PX, _MOST_PX = 160, 480
_LISTED_GROUPS = 4


def sections() -> list[html.Section]:
    """Both tables under their headings, without rows yet."""
    return [
        parts.section(
            "What devices exchange",
            html.P(
                "Read from the compiled programs. A device runs each of these once for every count.", className="quiet"
            ),
            _grid(Ranks.COLLECTIVES, _COLLECTIVES, "collectives.csv", "graph_bytes"),
            tools=html.Button("Export CSV", id=Ranks.EXPORT_COLLECTIVES, className="quiet-button", n_clicks=0),
        ),
        parts.section(
            "How parameters lie on the devices",
            _grid(Ranks.SHARDINGS, _SHARDINGS, "shardings.csv", None),
            tools=html.Button("Export CSV", id=Ranks.EXPORT_SHARDINGS, className="quiet-button", n_clicks=0),
        ),
    ]


def collective_rows(devices: DeviceFacts) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The rows of the first table, and how high it is for them."""
    return _with_height([_collective(number, fact) for number, fact in enumerate(devices.collectives)])


def sharding_rows(devices: DeviceFacts) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The rows of the second table, and how high it is for them."""
    return _with_height([_sharding(number, fact) for number, fact in enumerate(devices.shardings)])


def groups_text(fact: CollectiveFacts) -> str:
    """Who exchanges with whom: along which axis, or the groups themselves."""
    if fact.axes:
        return f"{numbers.count(fact.group_size)} along {', '.join(fact.axes)}"
    if not fact.groups:
        return "all devices, or not said"
    listed = [",".join(map(str, group)) for group in fact.groups[:_LISTED_GROUPS]]
    more = f" and {numbers.count(len(fact.groups) - _LISTED_GROUPS)} more" if len(fact.groups) > _LISTED_GROUPS else ""
    return parts.middle(" | ".join(listed), 60) + more


def _collective(number: int, fact: CollectiveFacts) -> dict[str, Any]:
    more = "≥ " if fact.looped else ""
    place = numbers.place(fact.file, fact.line) if fact.file else numbers.NOT_MEASURED
    return {
        "id": str(number),
        **{name: getattr(fact, name) for name in ("kind", "count", "payload_bytes", "graph_bytes", "shape", "graph")},
        "executions": fact.executions,
        "groups": groups_text(fact),
        "place": f"{fact.file}:{fact.line}" if fact.file else "",
        "kind_text": fact.kind,
        "count_text": f"{more}{numbers.count(fact.count)}",
        "payload_bytes_text": numbers.size(fact.payload_bytes),
        "graph_bytes_text": f"{more}{numbers.size(fact.graph_bytes)}",
        "shape_text": parts.middle(fact.shape, 80),
        "groups_text": groups_text(fact),
        "graph_text": numbers.short_hash(fact.graph),
        "executions_text": numbers.count(fact.executions),
        "place_text": place,
    }


def _sharding(number: int, fact: ShardingFacts) -> dict[str, Any]:
    dims = " × ".join(map(str, fact.dims)) or "scalar"
    axes = ", ".join(axis or "–" for axis in fact.axes) if any(fact.axes) else ""
    return {
        "id": str(number),
        **{name: getattr(fact, name) for name in ("parameter", "bytes", "bytes_per_device", "pieces", "placement")},
        "dims": dims,
        "axes": axes,
        "sharding": fact.sharding,
        "parameter_text": parts.middle(fact.parameter, 60),
        "dims_text": dims,
        "bytes_text": numbers.size(fact.bytes),
        "bytes_per_device_text": numbers.size(fact.bytes_per_device),
        "pieces_text": numbers.count(fact.pieces),
        "placement_text": fact.placement,
        "axes_text": axes or "—",
        "sharding_text": fact.sharding or "—",
    }


def _with_height(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    return rows, table.height(table.height_for(len(rows), _LEAST_PX, _MOST_PX))


def _grid(name: str, columns: Sequence[tuple[str, str, int, str]], file: str, sort: str | None) -> dag.AgGrid:
    definitions = table.sorted_by([_definition(*column) for column in columns], sort)
    return table.grid(name, definitions, file, _LEAST_PX)


def _definition(field: str, word: str, width: int, hint: str) -> dict[str, Any]:
    if field in _TEXTS:
        return table.column(field, word, width, hint, numeric=False, look="cell-place", tooltipField=field)
    return table.column(field, word, width, hint, numeric=True)
