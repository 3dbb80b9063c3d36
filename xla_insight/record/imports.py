"""Calls a function once a module has been imported: hooks must wait for the user's own imports.

Owns one finder at the head of ``sys.meta_path`` that only watches: the module is found and executed by whoever would
have done it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Callback = Callable[[ModuleType], None]


class _WatchingLoader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader, after: Callback) -> None:
        self._inner = inner
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must look as if we had never been there: its own code may read __spec__ and __loader__.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        self._after(module)


class ImportWatch(importlib.abc.MetaPathFinder):
    """``after(name, callback)``: run the callback when ``name`` is imported, at once when it already is."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callback]] = {}
        self._busy = False

    def after(self, name: str, callback: Callback) -> None:
        """``callback(module)`` must not raise; it runs on the importing thread."""
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            callback(module)
            return
        self._waiting.setdefault(name, []).append(callback)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Watch no longer."""
        self._waiting.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find ``fullname`` as the others would, with a loader that tells us when it is done."""
        if fullname not in self._waiting or self._busy:
            return None
        self._busy = True
        try:
            spec = None
            for finder in sys.meta_path:
                if finder is not self and hasattr(finder, "find_spec"):
                    spec = finder.find_spec(fullname, path, target)
                    if spec is not None:
                        break
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _WatchingLoader(spec.loader, self._done)
        return spec

    def _done(self, module: ModuleType) -> None:
        for callback in self._waiting.pop(module.__name__, []):
            callback(module)
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
