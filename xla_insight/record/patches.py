"""Attributes replaced for the time of a recording, and put back after it.

Owns undoing: an attribute is restored only while it still is our wrapper, so another tool that wrapped it after us is
left alone (our wrapper then passes calls through).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xla_insight.record.faults import Faults

MISSING = object()


class Patches:
    """A set of replaced attributes with one ``restore``."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._done: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
        """Replace ``owner.name`` by ``make(original)``. False, and a counted fault, when it is not there."""
        original: Any = getattr(owner, name, MISSING)
        if original is MISSING:
            self._faults.add(f"hook:{name}", AttributeError(f"{owner!r} has no {name}"))
            return False
        own = vars(owner).get(name, MISSING) if hasattr(owner, "__dict__") else original
        wrapper = make(original)
        functools.update_wrapper(wrapper, original, assigned=("__doc__", "__name__", "__qualname__"), updated=())
        try:
            setattr(owner, name, wrapper)
        except (AttributeError, TypeError) as error:
            self._faults.add(f"hook:{name}", error)
            return False
        self._done.append((owner, name, own, wrapper))
        return True

    def restore(self) -> None:
        """Undo, last first."""
        while self._done:
            owner, name, own, wrapper = self._done.pop()
            if vars(owner).get(name) is not wrapper:
                continue
            if own is MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
