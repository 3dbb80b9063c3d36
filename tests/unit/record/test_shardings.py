"""Shardings are read once, some cuts after the first, each parameter under its own name."""

from __future__ import annotations

import json
from typing import Any

from xla_insight.facts.events import Event, Kind
from xla_insight.record.shardings import CUTS, MeshFacts, ShardingWatch


class Parameter:
    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def numel(self) -> int:
        return self.shape[0] * self.shape[1]

    def element_size(self) -> int:
        return 4


class Module:
    def __init__(self, parts: dict[str, Any], parameters: dict[str, Parameter]) -> None:
        self.parts, self.own = parts, parameters

    def children(self) -> Any:
        return iter(self.parts.values())

    def named_parameters(self) -> Any:
        yield from self.own.items()
        for name, part in self.parts.items():
            yield from ((f"{name}.{inner}", found) for inner, found in part.named_parameters())

    def parameters(self) -> Any:
        return (parameter for _, parameter in self.named_parameters())


class Mesh:
    pass


def watch(events: list[Event]) -> ShardingWatch:
    facts = MeshFacts(("data", "model"), (2, 2), (0, 1, 2, 3))
    return ShardingWatch(
        events.append, Module, lambda _found: "{replicated}", lambda found: facts if type(found) is Mesh else None
    )


def test_read_once_after_some_cuts() -> None:
    inner = Module({}, {"weight": Parameter(8, 2)})
    model = Module({"_orig_module": inner}, {})
    mesh = Mesh()
    events: list[Event] = []
    watching = watch(events)
    for _ in range(CUTS - 1):
        watching.cut()
    assert not events
    for _ in range(3):
        watching.cut()
    assert [event.kind for event in events] == [Kind.MESH, Kind.SHARDING]
    assert (events[0].name, events[0].dims) == ("data=2, model=2", (2, 2))
    assert json.loads(events[0].detail or "")["devices"] == [0, 1, 2, 3]
    assert (events[1].name, events[1].dims, events[1].value, events[1].detail) == (
        "weight", (8, 2), 64.0, "{replicated}",
    )  # fmt: skip
    del model, mesh


def test_two_models_are_told_apart_and_a_short_recording_looks_at_its_end() -> None:
    models = [Module({}, {"weight": Parameter(2, 2)}), Module({}, {"bias": Parameter(2, 1)}), Module({}, {})]
    events: list[Event] = []
    watching = watch(events)
    watching.look()
    watching.look()
    assert sorted(str(event.name) for event in events) == ["Module.bias", "Module.weight"]
    del models
