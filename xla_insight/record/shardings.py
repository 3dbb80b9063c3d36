"""How the parameters of a model lie on several devices: read once, when they have been placed.

Owns when and of which modules; what a sharding is called comes from the framework. Looks at a cut of the graph, on the
training thread, where nothing is under way: some cuts after the first, since shardings of parameters that were not
annotated are known only then, or at the end of a shorter recording.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from xla_insight.facts.events import Event, Kind

CUTS = 2
MAX_PARAMETERS = 20_000
"""Of more than this the rest is left out, and said."""
_WRAPPERS = ("_orig_module.", "_fsdp_wrapped_module.", "_orig_mod.")
"""Parts of names that come from wrapping a module."""


class MeshFacts(NamedTuple):
    """How devices are arranged: names and sizes of the axes, and the devices in row-major order."""

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: tuple[int, ...]


class ShardingWatch:
    """``sharding`` gives that of a tensor in HLO's notation, or None for one that is on no device of ours; ``mesh``
    reads an object that is a mesh, or gives None."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        module_type: type,
        sharding: Callable[[Any], str | None],
        mesh: Callable[[Any], MeshFacts | None],
    ) -> None:
        self._emit = emit
        self._type = module_type
        self._sharding = sharding
        self._mesh = mesh
        self._cuts = 0
        self._done = False

    def cut(self) -> None:
        """A graph was cut under SPMD."""
        self._cuts += 1
        if self._cuts >= CUTS:
            self.look()

    def look(self) -> None:
        """Read meshes and shardings, unless that was done."""
        if self._done:
            return
        self._done = True
        # type(), not isinstance: the latter asks objects for __class__, which lazy ones answer by importing.
        objects = gc.get_objects()
        meshes = {facts: None for found in objects if (facts := self._mesh(found)) is not None}
        roots = _roots([found for found in objects if issubclass(type(found), self._type)])
        del objects
        now = time.perf_counter_ns()
        for facts in meshes:
            self._emit(_mesh_event(now, facts))
        for number, (name, parameter) in enumerate(_named(roots)):
            if number >= MAX_PARAMETERS:
                why = f"a model has more than {MAX_PARAMETERS} parameters"
                self._emit(Event(now, None, Kind.LOST, name="shardings", value=1.0, detail=why))
                return
            sharding = self._sharding(parameter)
            if sharding is not None:
                size = float(parameter.numel() * parameter.element_size())
                dims = tuple(int(size) for size in parameter.shape)
                self._emit(Event(now, None, Kind.SHARDING, name=name, value=size, dims=dims, detail=sharding))


def _mesh_event(now: int, facts: MeshFacts) -> Event:
    detail = json.dumps({"axes": facts.axes, "devices": facts.devices})
    name = ", ".join(f"{axis}={size}" for axis, size in zip(facts.axes, facts.sizes, strict=False))
    return Event(now, None, Kind.MESH, name=name, value=float(len(facts.devices)), dims=facts.sizes, detail=detail)


def _roots(modules: Sequence[Any]) -> list[Any]:
    """Modules that are part of no other one and have parameters, in the order in which they were found."""
    parts = {id(child) for module in modules for child in module.children()}
    return [module for module in modules if id(module) not in parts and next(module.parameters(), None) is not None]


def _named(roots: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Every parameter once, by its name in its module; with the module's class before it when there are several."""
    seen: set[int] = set()
    for root in roots:
        for name, parameter in root.named_parameters():
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            for wrapper in _WRAPPERS:
                name = name.replace(wrapper, "")  # noqa: PLW2901 - the same name, made plainer
            yield (name if len(roots) == 1 else f"{type(root).__name__}.{name}"), parameter
