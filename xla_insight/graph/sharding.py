"""Sharding annotations in the notation of HLO text.

Owns the rendering of ``OpSharding``; equal text means equal sharding.
"""

from __future__ import annotations

from typing import Any

from xla_insight.graph.assembly import MAX_NESTING
from xla_insight.graph.schema import message_class

_SHARDING = message_class("OpSharding")
_TYPES = ("replicated", "maximal", "tuple", "other", "manual", "unknown", "unreduced")


def sharding_text(serialized: bytes) -> str:
    """An ``OpSharding`` as HLO text writes it, for example ``{devices=[4,1]<=[4]}``."""
    return _render(_SHARDING.FromString(serialized), 0)


def _render(message: Any, depth: int) -> str:
    if depth > MAX_NESTING:
        raise ValueError("shardings nested too deeply")
    kind = _TYPES[message.type] if 0 <= message.type < len(_TYPES) else str(message.type)
    if kind == "tuple":
        return "{" + ", ".join(_render(part, depth + 1) for part in message.tuple_shardings) + "}"
    if kind == "maximal":
        return "{maximal device=" + ",".join(map(str, message.tile_assignment_devices)) + "}"
    if kind != "other":
        return "{" + kind + "}"
    text = "{devices=[" + ",".join(map(str, message.tile_assignment_dimensions)) + "]"
    if message.iota_reshape_dims:
        text += "<=[" + ",".join(map(str, message.iota_reshape_dims)) + "]"
        order = tuple(message.iota_transpose_perm)
        if order != tuple(range(len(order))):
            text += "T(" + ",".join(map(str, order)) + ")"
    else:
        text += ",".join(map(str, message.tile_assignment_devices))
    if message.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if message.last_tile_dims:
        names = (_TYPES[kind] if 0 <= kind < len(_TYPES) else str(kind) for kind in message.last_tile_dims)
        text += " last_tile_dims={" + ", ".join(names) + "}"
    return text + "}"
