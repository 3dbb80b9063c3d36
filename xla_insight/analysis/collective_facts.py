"""What the devices exchange in each graph, from the programs that were kept, joined with how often the graphs ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from xla_insight.analysis.tables import RunTables
from xla_insight.errors import GraphFormatError
from xla_insight.facts import numbers
from xla_insight.facts.devices import CollectiveFacts, MeshFacts
from xla_insight.graph.collectives import KINDS, Collective, collectives
from xla_insight.graph.hlo_proto import parse_hlo_proto

MAX_GRAPHS = 200
"""Programs looked at, those that ran most: reading one of 50,000 instructions takes a second."""
_NAMES = tuple(kind.encode() for kind in KINDS)


def collective_facts(
    tables: RunTables, meshes: Sequence[MeshFacts]
) -> tuple[tuple[CollectiveFacts, ...], int, tuple[str, ...]]:
    """(collectives of each graph, most bytes of the run first; graphs looked at; what is not known)."""
    ran = {str(row.graph): _count(row.executions) for row in tables["graphs"].itertuples(index=False)}
    ordered = sorted(tables.programs, key=lambda graph: (-(ran.get(graph) or 0), graph))
    found: list[CollectiveFacts] = []
    damaged = 0
    for graph in ordered[:MAX_GRAPHS]:
        content = tables.optimized(graph)
        if content is None:
            damaged += 1
        elif any(name in content for name in _NAMES):
            try:
                listed = collectives(parse_hlo_proto(content))
            except GraphFormatError:
                damaged += 1
                continue
            found += [_facts(graph, one, ran.get(graph), meshes) for one in listed]
    found.sort(key=lambda fact: (-fact.graph_bytes * (fact.executions or 0), -fact.graph_bytes, fact.graph, fact.kind))
    return tuple(found), min(len(ordered), MAX_GRAPHS) - damaged, tuple(_notes(len(ordered), damaged))


def _notes(kept: int, damaged: int) -> Iterable[str]:
    if kept > MAX_GRAPHS:
        yield f"Collectives are those of the {MAX_GRAPHS} graphs that ran most, of {numbers.count(kept)}."
    if damaged:
        yield f"{numbers.plural(damaged, 'program')} could not be read."


def _facts(graph: str, one: Collective, executions: int | None, meshes: Sequence[MeshFacts]) -> CollectiveFacts:
    sizes = {len(group) for group in one.groups}
    return CollectiveFacts(
        graph=graph,
        kind=one.kind,
        count=one.count,
        payload_bytes=one.payload_bytes,
        graph_bytes=one.payload_bytes * one.count,
        shape=one.shape,
        group_size=sizes.pop() if len(sizes) == 1 and one.kind != "collective-permute" else None,
        groups=one.groups,
        axes=next((axes for mesh in meshes if (axes := exchange_axes(one.groups, mesh))), ()),
        looped=one.looped,
        executions=executions,
        file=one.site.file if one.site is not None else None,
        line=one.site.line if one.site is not None else None,
    )


def exchange_axes(groups: Sequence[Sequence[int]], mesh: MeshFacts) -> tuple[str, ...]:
    """The axes of a mesh along which these groups of devices exchange; empty when they fit none.

    A group fits when the places of its devices differ in some axes only, and are all the places that do.
    """
    sizes = [size for _, size in mesh.axes]
    places_of = {device: _place(number, sizes) for number, device in enumerate(mesh.devices)}
    varying: set[int] | None = None
    for group in groups:
        if not all(device in places_of for device in group):
            return ()
        places = [places_of[device] for device in group]
        axes = {axis for axis in range(len(sizes)) if len({place[axis] for place in places}) > 1}
        whole = 1
        for axis in axes:
            whole *= sizes[axis]
        if whole != len(set(group)) or (varying is not None and varying != axes):
            return ()
        varying = axes
    return tuple(mesh.axes[axis][0] for axis in sorted(varying or ()))


def _place(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    found = []
    for size in reversed(sizes):
        number, index = divmod(number, size)
        found.append(index)
    return tuple(reversed(found))


def _count(value: object) -> int | None:
    return None if value is None or pd.isna(value) else int(value)  # type: ignore[call-overload]
