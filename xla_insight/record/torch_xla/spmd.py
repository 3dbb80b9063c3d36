"""Several devices in one process (SPMD): whether it is on, what a mesh looks like and how a tensor is placed.

Owns torch_xla's names for these. None of the calls cuts a graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from xla_insight.facts.events import Event
from xla_insight.record.shardings import MeshFacts, ShardingWatch

_SPMD = "XLA_USE_SPMD"
"""Set by `xr.use_spmd`, and what torch_xla itself asks."""
_MESH_MODULE = "torch_xla.distributed.spmd.xla_sharding"


def is_spmd() -> bool:
    """Whether the process runs its graphs on all devices at once."""
    return os.environ.get(_SPMD, "0") in ("1", "true")


def sharding_watch(module: ModuleType, emit: Callable[[Event], None], module_type: type) -> ShardingWatch:
    """A watch over the parameters of all modules and all meshes of this process."""
    extension = module._XLAC

    def sharding(tensor: Any) -> str | None:
        return str(extension._get_xla_sharding_spec(tensor)) if tensor.is_xla else None

    return ShardingWatch(emit, module_type, sharding, _mesh)


def _mesh(found: Any) -> MeshFacts | None:
    kind = type(found)
    if kind.__name__ not in ("Mesh", "HybridMesh") or kind.__module__ != _MESH_MODULE:
        return None
    sizes = tuple(int(size) for size in found.mesh_shape)
    names = tuple(str(name) for name in found.axis_names or ())
    axes = names if len(names) == len(sizes) else tuple(f"axis{number}" for number in range(len(sizes)))
    return MeshFacts(axes, sizes, tuple(int(device) for device in found.device_ids))
