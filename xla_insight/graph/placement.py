"""How a value lies on several devices, read from its sharding in the notation of HLO text.

Owns that notation's meaning: how often each dimension is cut, which device holds which piece, and which axis of a mesh
does the cutting. Leaves rendering of serialized shardings to ``sharding``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from xla_insight.graph.collectives import iota_order

_DEVICES = re.compile(r"\{?devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]*))(.*)$")
MAX_DEVICES = 1 << 16


@dataclass(frozen=True, slots=True)
class Placement:
    """``tiles`` says into how many pieces each dimension is cut (empty: whole on every device that has it).

    ``devices`` are the devices in the order of the pieces, each piece followed by its copies; empty when not said.
    ``copies`` is how many devices hold each piece, None when the sharding does not say.
    """

    kind: str
    """`replicated`, `sharded`, `maximal` (on one device) or `other`."""
    tiles: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    copies: int | None = None

    @property
    def pieces(self) -> int:
        """Into how many pieces the value is cut."""
        return math.prod(self.tiles)

    def bytes_per_device(self, dims: Sequence[int], size: int) -> int:
        """Bytes of the largest piece of a value with these dimensions that has ``size`` bytes as a whole."""
        elements = math.prod(dims)
        if not elements or len(self.tiles) != len(dims):
            return size
        piece = math.prod(-(-dim // tile) for dim, tile in zip(dims, self.tiles, strict=True))
        return size * piece // elements


def placement(text: str) -> Placement | None:
    """The placement that a sharding says; None for no sharding at all."""
    words = text.strip()
    if not words:
        return None
    if words.startswith("{replicated"):
        return Placement("replicated")
    if words.startswith("{maximal"):
        return Placement("maximal", copies=1)
    match = _DEVICES.match(words)
    if match is None:
        return Placement("other")
    return _tiled(match)


def _tiled(match: re.Match[str]) -> Placement:
    tiles, reshape, order, listed, rest = match.groups()
    sizes = _numbers(tiles)
    count = math.prod(sizes)
    if not 0 < count <= MAX_DEVICES:
        return Placement("other")
    devices = iota_order(_numbers(reshape), _numbers(order or "")) if reshape else _numbers(listed or "")
    if len(devices) != count:
        devices = ()
    copies = 1
    if "last_tile_dim_replicate" in rest:
        *sizes, copies = sizes
    elif "last_tile_dims=" in rest:
        subgroups = rest.split("last_tile_dims={", 1)[1].split("}", 1)[0].count(",") + 1
        copies = math.prod(sizes[len(sizes) - subgroups :])
        sizes = sizes[: len(sizes) - subgroups]
    if all(size == 1 for size in sizes):
        return Placement("replicated", copies=copies)
    return Placement("sharded", tuple(sizes), tuple(devices), copies)


def cutting_axes(found: Placement, sizes: Sequence[int], devices: Sequence[int]) -> tuple[int | None, ...]:
    """For each dimension which axis of a mesh cuts it, by position; None: no axis, or none alone.

    ``sizes`` and ``devices`` are those of the mesh, its devices in row-major order.
    """
    if len(found.devices) != len(devices) or math.prod(sizes) != len(devices):
        return (None,) * len(found.tiles)
    places = {device: _coordinates(place, sizes) for place, device in enumerate(devices)}
    axes: list[int | None] = []
    for dimension, tile in enumerate(found.tiles):
        inner = math.prod(found.tiles[dimension + 1 :]) * (found.copies or 1)
        indices = {device: place // inner % tile for place, device in enumerate(found.devices)}
        fitting = (
            axis
            for axis, size in enumerate(sizes)
            if size == tile > 1 and all(d in places and places[d][axis] == index for d, index in indices.items())
        )
        axes.append(next(fitting, None))
    return tuple(axes)


def _coordinates(place: int, sizes: Sequence[int]) -> tuple[int, ...]:
    found = []
    for size in reversed(sizes):
        place, index = divmod(place, size)
        found.append(index)
    return tuple(reversed(found))


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]
