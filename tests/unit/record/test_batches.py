"""Which tensor came from which loader, under which key, made by which function; and optimizers left behind."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from xla_insight.facts.events import Event, Kind
from xla_insight.record.batches import MAX_TENSORS, Batches, named_values, place_of
from xla_insight.record.parameters import CUTS, ParameterWatch
from xla_insight.record.stacks import Place


class Tensor:
    dtype = "int64"
    shape = (4, 8)


def collate(items: list[Any]) -> list[Any]:
    return items


class Collator:
    def __call__(self, items: list[Any]) -> list[Any]:
        return self.torch_call(items)

    def torch_call(self, items: list[Any]) -> list[Any]:
        return items


class Wrapper:
    def __init__(self, inner: Any) -> None:
        self.data_collator = inner

    def __call__(self, items: list[Any]) -> list[Any]:
        return items


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        ({"input_ids": Tensor(), "n": 3}, ["input_ids"]),
        ({"a": {"b": Tensor()}, "c": [Tensor(), Tensor()]}, ["a.b", "c[0]", "c[1]"]),
        ((Tensor(), Tensor()), ["batch[0]", "batch[1]"]),
        (Tensor(), ["batch"]),
        ([["text"], None], []),
    ],
)
def test_names_of_a_batch(batch: Any, names: list[str]) -> None:
    assert [name for name, _ in named_values(batch)] == names


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (collate, "collate"),
        (functools.partial(collate), "collate"),
        (Collator(), "Collator.torch_call"),
        (Wrapper(Collator()), "Collator.torch_call"),
        (Wrapper(collate), "collate"),
        (None, None),
        (len, None),
    ],
)
def test_where_a_batch_is_made(function: Any, name: str | None) -> None:
    place = place_of(function)
    assert (place.function if place else None) == name
    assert place is None or place.file == __file__


def test_tensors_are_known_while_they_live_and_not_kept_alive() -> None:
    interned: list[Place] = []

    def intern(places: list[Place]) -> int:
        interned.extend(places)
        return 7

    batches = Batches(intern)
    batch = {"input_ids": Tensor()}
    batches.made(collate, batch)
    batches.made(collate, {"other": Tensor()})
    assert batches.origin(batch["input_ids"]) == ("input_ids", 7)
    assert batches.origin(Tensor()) is None
    assert len(interned) == 1
    kept = [Tensor() for _ in range(MAX_TENSORS)]
    batches.made(collate, kept)
    assert batches.origin(batch["input_ids"]) is None
    assert len(batches._known) == MAX_TENSORS


class Module:
    def __init__(self) -> None:
        self.held = [Tensor(), Tensor()]

    def parameters(self) -> Iterator[Tensor]:
        return iter(self.held)


class Optimizer:
    def __init__(self, parameters: Iterator[Tensor]) -> None:
        self.param_groups = [{"params": list(parameters)}]


class TestParameterWatch:
    def moved(self) -> tuple[list[Event], ParameterWatch, Module, Optimizer]:
        events: list[Event] = []
        watch, module = ParameterWatch(events.append, Optimizer), Module()
        optimizer = Optimizer(module.parameters())
        before = list(module.parameters())
        module.held = [Tensor(), Tensor()]
        watch.moved(module, before, site=3)
        return events, watch, module, optimizer

    def cut(self, watch: ParameterWatch) -> None:
        for _ in range(CUTS):
            watch.cut()

    def test_an_optimizer_left_behind_is_said_once(self) -> None:
        events, watch, _module, _optimizer = self.moved()
        assert events == []
        self.cut(watch)
        self.cut(watch)
        assert [(e.kind, e.name, e.value, e.site) for e in events] == [(Kind.STALE, "Optimizer", 2.0, 3)]

    def test_a_new_optimizer_in_time_is_fine(self) -> None:
        events, watch, module, _optimizer = self.moved()
        renewed = Optimizer(module.parameters())
        self.cut(watch)
        assert events == [] and renewed.param_groups

    def test_an_optimizer_that_is_gone_is_fine(self) -> None:
        events, watch, _module, optimizer = self.moved()
        del optimizer
        gc.collect()
        self.cut(watch)
        assert events == []

    def test_a_module_that_kept_its_parameters_is_fine(self) -> None:
        events: list[Event] = []
        watch, module = ParameterWatch(events.append, Optimizer), Module()
        optimizer = Optimizer(module.parameters())
        watch.moved(module, list(module.parameters()), site=3)
        self.cut(watch)
        assert events == [] and optimizer.param_groups
