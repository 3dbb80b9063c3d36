"""Meshes and how the parameters of the model lie on their devices, as the recorder read them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd

from xla_insight.analysis.tables import RunTables
from xla_insight.facts.devices import MeshFacts, ShardingFacts
from xla_insight.graph.placement import cutting_axes, placement


def mesh_facts(tables: RunTables, process: int) -> tuple[MeshFacts, ...]:
    """The meshes of a process, those with most devices first."""
    found: dict[MeshFacts, None] = {}
    for row in tables.of("meshes", process).itertuples(index=False):
        sizes = _whole_numbers(row.dims)
        try:
            detail = json.loads(str(row.detail))
            axes, devices = tuple(map(str, detail["axes"])), tuple(int(number) for number in detail["devices"])
        except (ValueError, TypeError, KeyError):
            continue
        if len(axes) == len(sizes):
            found[MeshFacts(process, tuple(zip(axes, sizes, strict=True)), devices)] = None
    return tuple(sorted(found, key=lambda mesh: -len(mesh.devices)))


def sharding_facts(tables: RunTables, process: int, meshes: Sequence[MeshFacts]) -> tuple[ShardingFacts, ...]:
    """The parameters of a process in the order of its model."""
    rows = tables.of("shardings", process)
    return tuple(_facts(process, row, meshes) for row in rows.itertuples(index=False))


def _facts(process: int, row: object, meshes: Sequence[MeshFacts]) -> ShardingFacts:
    text = "" if pd.isna(row.sharding) else str(row.sharding)  # type: ignore[attr-defined]
    dims = _whole_numbers(row.dims)  # type: ignore[attr-defined]
    size = None if pd.isna(row.bytes) else int(row.bytes)  # type: ignore[attr-defined]
    try:
        found = placement(text)
    except ValueError:
        found = None
    axes: tuple[str | None, ...] = (None,) * len(dims)
    if found is not None and len(found.tiles) == len(dims):
        for mesh in meshes:
            named = cutting_axes(found, [count for _, count in mesh.axes], mesh.devices)
            if any(axis is not None for axis in named):
                axes = tuple(None if axis is None else mesh.axes[axis][0] for axis in named)
                break
    known = found is not None and found.kind != "other"
    return ShardingFacts(
        process=process,
        parameter=str(row.parameter),  # type: ignore[attr-defined]
        dims=dims,
        bytes=size,
        sharding=text,
        placement=found.kind if found is not None else "none",
        pieces=found.pieces if found is not None and known else None,
        bytes_per_device=found.bytes_per_device(dims, size)
        if found is not None and known and size is not None
        else None,
        axes=axes,
    )


def _whole_numbers(text: object) -> tuple[int, ...]:
    """The numbers of a list that a query gave as text."""
    try:
        found = json.loads(str(text))
    except ValueError:
        return ()
    return tuple(number for number in found if isinstance(number, int)) if isinstance(found, list) else ()
