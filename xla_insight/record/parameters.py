"""Modules whose parameters become new tensors while an optimizer holds the old ones: their weights stop training.

Owns noticing it. Moving a module between device kinds makes new parameters; that an optimizer knew the old ones is seen
at that moment, and it is a fault only when the optimizer still holds them, and no other holds the new ones, some cuts
later. Costs nothing unless a module is moved.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xla_insight.facts.events import Event, Kind

CUTS = 2
"""Cuts after which an optimizer should have been made anew."""


@dataclass
class _Suspect:
    optimizer: weakref.ref[Any]
    module: weakref.ref[Any]
    old: list[weakref.ref[Any]]
    site: int
    time_ns: int
    cuts_left: int = CUTS


class ParameterWatch:
    """``emit`` takes the event of a fault; ``optimizer_type`` is the base class of optimizers."""

    def __init__(self, emit: Callable[[Event], None], optimizer_type: type) -> None:
        self._emit = emit
        self._type = optimizer_type
        self._inside = threading.local()
        self._suspects: list[_Suspect] = []

    def entered(self) -> bool:
        """Whether this is the outermost move; ``left`` must follow then."""
        if getattr(self._inside, "moving", False):
            return False
        self._inside.moving = True
        return True

    def left(self) -> None:
        """The outermost move is over."""
        self._inside.moving = False

    def moved(self, module: Any, before: list[Any], site: int) -> None:
        """``module`` had the parameters ``before``, and was moved at ``site``."""
        old = [p for p, now in zip(before, module.parameters(), strict=False) if p is not now]
        if not old:
            return
        gone = set(map(id, old))
        for optimizer in self._optimizers():
            if any(id(p) in gone for p in _held(optimizer)):
                suspect = _Suspect(
                    weakref.ref(optimizer), weakref.ref(module), [weakref.ref(p) for p in old], site,
                    time.perf_counter_ns(),
                )  # fmt: skip
                self._suspects.append(suspect)

    def cut(self) -> None:
        """A graph was cut: look again at who holds what, once enough have been."""
        if not self._suspects:
            return
        for suspect in self._suspects:
            suspect.cuts_left -= 1
        due = [s for s in self._suspects if s.cuts_left <= 0]
        self._suspects = [s for s in self._suspects if s.cuts_left > 0]
        for suspect in due:
            self._judge(suspect)

    def _judge(self, suspect: _Suspect) -> None:
        optimizer, module = suspect.optimizer(), suspect.module()
        if optimizer is None or module is None:
            return
        current = set(map(id, module.parameters()))
        held = set(map(id, _held(optimizer)))
        old = {id(p) for ref in suspect.old if (p := ref()) is not None}
        stale = len(old & held - current)
        renewed = any(current & set(map(id, _held(other))) for other in self._optimizers())
        if stale and not renewed:
            name = type(optimizer).__name__
            event = Event(suspect.time_ns, None, Kind.STALE, site=suspect.site, name=name, value=float(stale))
            self._emit(event)

    def _optimizers(self) -> list[Any]:
        # type(), not isinstance: the latter asks objects for __class__, which lazy ones answer by importing.
        return [found for found in gc.get_objects() if issubclass(type(found), self._type)]


def _held(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]
