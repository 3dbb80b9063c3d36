"""Which tensor came from which loader: its key in the batch, and the function that made the batch.

Owns the naming of inputs. Keeps the tensors of the latest batches by identity, and no tensor alive.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from xla_insight.record.stacks import Place, is_framework

MAX_TENSORS = 512
_DEPTH = 4


class Origin(NamedTuple):
    """Key of a tensor in its batch, and the site id of the function that made the batch (None: not a user's)."""

    name: str
    maker: int | None


class Batches:
    """``intern`` turns a place into a site id."""

    def __init__(self, intern: Callable[[list[Place]], int]) -> None:
        self._intern = intern
        self._known: OrderedDict[int, tuple[weakref.ref[Any], Origin]] = OrderedDict()
        self._makers: dict[int, tuple[Any, int | None]] = {}
        self.latest_maker: int | None = None
        """That of the batch fetched last by a loader thread."""

    def made(self, collate: Any, batch: Any) -> None:
        """A loader returned ``batch``, put together by ``collate``."""
        maker = self.maker(collate)
        self.latest_maker = maker
        for name, value in named_values(batch):
            try:
                self._known[id(value)] = (weakref.ref(value), Origin(name, maker))
            except TypeError:
                continue
        while len(self._known) > MAX_TENSORS:
            self._known.popitem(last=False)

    def origin(self, tensor: Any) -> Origin | None:
        """Where a tensor came from, when it is one of a recent batch."""
        found = self._known.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else None

    def maker(self, collate: Any) -> int | None:
        """The site of a collate function; None for the framework's own."""
        key = id(collate)
        if key not in self._makers:
            place = place_of(collate)
            site = None if place is None or is_framework(place.file) else self._intern([place])
            self._makers[key] = (collate, site)  # kept alive: another function could get its id
        return self._makers[key][1]


def named_values(batch: Any) -> Iterator[tuple[str, Any]]:
    """(key, tensor) of a batch: a mapping, a sequence, or one tensor. Nested mappings give ``outer.inner``."""
    yield from _walk("", batch, _DEPTH)


def _walk(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        yield name or "batch", value
    elif depth and hasattr(value, "items"):
        for key, inner in value.items():
            yield from _walk(f"{name}.{key}" if name else str(key), inner, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _walk(f"{name or 'batch'}[{index}]", inner, depth - 1)


def place_of(function: Any) -> Place | None:
    """Where a collate function is defined: the innermost one of wrappers that libraries put around it."""
    for _ in range(_DEPTH):
        inner = function.func if isinstance(function, functools.partial) else getattr(function, "data_collator", None)
        if inner is None:
            break
        function = inner
    # A transformers collator is an object whose __call__ only chooses the method for the framework.
    candidates = (function, getattr(type(function), "torch_call", None), type(function).__call__)
    for candidate in candidates:
        code = getattr(getattr(candidate, "__func__", candidate), "__code__", None)
        if code is not None:
            return Place(code.co_filename, code.co_firstlineno, code.co_qualname.rpartition("<locals>.")[2])
    return None
