"""Hooks on torch itself: value reads, uploads, autograd passes, data loaders, saves; and Python's garbage collector.

Owns which torch calls are seen. None of them changes arguments or results. Each wrapper leaves at once when the
recording is over, when the tensor is not on the lazy device, or while a function is being compiled.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from xla_insight.facts.events import EpochSource, Event, Kind
from xla_insight.record.batches import Batches
from xla_insight.record.parameters import ParameterWatch
from xla_insight.record.patches import Patches
from xla_insight.record.recorder import Recorder
from xla_insight.record.stacks import Place, is_ours
from xla_insight.record.uploads import Uploads

READ_METHODS = {
    "item": "item",
    "tolist": "tolist",
    "cpu": "cpu",
    "numpy": "numpy",
    "is_nonzero": "bool",
    "__bool__": "bool",
    "__int__": "int",
    "__index__": "int",
    "__float__": "float",
    "__complex__": "complex",
    "__repr__": "repr",
    "__format__": "format",
    "__array__": "numpy",
}

GC_MIN_NS = 100_000
"""Shorter collections are not recorded: there are thousands, and together they are no pause."""

Function = Callable[..., Any]


FULL_COLLECTION = 2
"""The oldest generation of Python's garbage collector: everything is looked through."""


class TorchHooks:
    """Installs the hooks for one recorder; ``remove`` takes them off again."""

    def __init__(self, recorder: Recorder, patches: Patches) -> None:
        self.recorder = recorder
        self.patches = patches
        self._inside = threading.local()
        self._gc_begin_ns = 0
        self.batches = Batches(recorder.stacks.intern_places)
        self.uploads = Uploads(recorder.stacks, recorder.span)
        self._last_error = 0
        """Identity of the last loader error: it is seen once by each loop it passes, and must not be kept alive."""

    def install(self) -> None:
        """Hook everything. torch must have been imported by the user's program."""
        import torch
        from torch.utils.data import dataloader

        self._is_compiling = torch.compiler.is_compiling
        self._parameter = torch.nn.Parameter
        for name, label in READ_METHODS.items():
            self.patches.wrap(torch.Tensor, name, lambda original, label=label: self._read(original, label))  # type: ignore[misc]
        self.patches.wrap(torch.Tensor, "to", self._to)
        for name in ("backward", "grad"):
            self.patches.wrap(torch.autograd, name, self._backward)
        self.patches.wrap(torch.nn.Module, "_apply", self._apply)
        self.parameters = ParameterWatch(self.recorder.span, torch.optim.Optimizer)
        self.module_type = torch.nn.Module
        self.patches.wrap(torch, "save", lambda original: self.timed(original, Kind.CHECKPOINT, "torch.save"))
        self.patches.wrap(dataloader._BaseDataLoaderIter, "__next__", self._next_batch)
        gc.callbacks.append(self._collected)

    def remove(self) -> None:
        """Take the hooks off that ``Patches`` does not know."""
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)

    # ---- reads -----------------------------------------------------------------------------------------------------

    def _enter(self, tensor: Any) -> bool:
        """Whether this call is an outermost read of a lazy tensor that must be recorded."""
        if not self.recorder.active or self._is_compiling():
            return False
        return bool(tensor.is_xla) and not getattr(self._inside, "read", False)

    def _read(self, original: Function, label: str) -> Function:
        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._enter(tensor):
                return original(tensor, *args, **kwargs)
            return self.recorded_read(label, sys._getframe(1), original, (tensor, *args), kwargs)

        return read

    def recorded_read(
        self, label: str, frame: Any, call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run ``call`` as a value read named ``label`` at ``frame``."""
        token = self._begin(Kind.READ, frame)
        self._inside.read = True
        result = None
        try:
            result = call(*args, **kwargs)
            return result
        finally:
            self._inside.read = False
            if token is not None:
                scalar = repr(result) if isinstance(result, bool | int | float) else None
                self._end(Kind.READ, token, label, scalar)

    def _begin(self, kind: Kind, frame: Any) -> tuple[int, int] | None:
        recorder = self.recorder
        try:
            site = recorder.stacks.capture(frame)
            return recorder.begin(kind, site), site
        except Exception as error:
            recorder.faults.add(kind, error)
            return None

    def _end(self, kind: Kind, token: tuple[int, int], name: str, detail: str | None) -> None:
        recorder = self.recorder
        try:
            recorder.end(kind, token[0], name, token[1], detail)
        except Exception as error:
            recorder.faults.add(kind, error)

    # ---- uploads and copies to the host ----------------------------------------------------------------------------

    def _to(self, original: Function) -> Function:
        def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active or self._is_compiling():
                return original(tensor, *args, **kwargs)
            if tensor.is_xla:
                if _targets_host(args, kwargs) and self._enter(tensor):
                    return self.recorded_read("to", sys._getframe(1), original, (tensor, *args), kwargs)
                return original(tensor, *args, **kwargs)
            begin_ns = time.perf_counter_ns()
            result = original(tensor, *args, **kwargs)
            if result.is_xla and not isinstance(tensor, self._parameter):
                try:
                    origin = self.batches.origin(tensor)
                    name, maker = origin if origin is not None else (None, None)
                    self.uploads.moved(name, tensor, sys._getframe(1), maker, begin_ns)
                except Exception as error:
                    self.recorder.faults.add(Kind.INPUT, error)
            return result

        return to

    # ---- autograd, saves, loaders, garbage collection --------------------------------------------------------------

    def _backward(self, original: Function) -> Function:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active or self._is_compiling():
                return original(*args, **kwargs)
            token = self._begin(Kind.BACKWARD, sys._getframe(1))
            try:
                return original(*args, **kwargs)
            finally:
                if token is not None:
                    self._end(Kind.BACKWARD, token, "backward", None)

        return backward

    def timed(self, original: Function, kind: Kind, name: str) -> Function:
        """A wrapper that records the call as a span of ``kind``."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active:
                return original(*args, **kwargs)
            begin_ns = time.perf_counter_ns()
            try:
                return original(*args, **kwargs)
            finally:
                self.add_span(kind, begin_ns, name, sys._getframe(1))

        return call

    def add_span(self, kind: Kind, begin_ns: int, name: str, frame: Any) -> None:
        """A span of ``kind`` from ``begin_ns`` until now."""
        recorder = self.recorder
        try:
            duration = time.perf_counter_ns() - begin_ns
            site = recorder.stacks.capture(frame)
            recorder.span(Event(begin_ns, duration, kind, site=site, name=name))
        except Exception as error:
            recorder.faults.add(kind, error)

    def _next_batch(self, original: Function) -> Function:
        def next_batch(iterator: Any) -> Any:
            if not self.recorder.active:
                return original(iterator)
            begin_ns = time.perf_counter_ns()
            try:
                batch = original(iterator)
                self._made(iterator, batch)
                return batch
            except StopIteration:
                self.pass_ended(sys._getframe(1))
                raise
            except Exception as error:
                self.loader_failed(error)
                raise
            finally:
                if not getattr(self._inside, "loader", False):
                    self.add_span(Kind.INPUT_WAIT, begin_ns, type(iterator).__name__.strip("_"), sys._getframe(1))

        return next_batch

    def pass_ended(self, frame: FrameType) -> None:
        """A loader has no more batches for the code of ``frame``.

        Not said of accelerate's loaders: they fetch a batch ahead, so the last step of the pass is still to come.
        """
        fetches_ahead = str(frame.f_globals.get("__name__", "")).startswith("accelerate.")
        if not fetches_ahead and not getattr(self._inside, "loader", False):
            self.recorder.faults.guard(Kind.MARK)(self.recorder.mark_epoch)(EpochSource.LOADER)

    def _made(self, iterator: Any, batch: Any) -> None:
        try:
            self.batches.made(getattr(iterator, "_collate_fn", None), batch)
        except Exception as error:
            self.recorder.faults.add(Kind.INPUT, error)

    def _apply(self, original: Function) -> Function:
        """A module is moved or cast, with all its parameters."""

        def apply(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active or self._is_compiling() or not self.parameters.entered():
                return original(module, *args, **kwargs)
            try:
                before = list(module.parameters())
                result = original(module, *args, **kwargs)
                self._moved(module, before, sys._getframe(1))
                return result
            finally:
                self.parameters.left()

        return apply

    def _moved(self, module: Any, before: list[Any], frame: Any) -> None:
        try:
            self.parameters.moved(module, before, self.recorder.stacks.capture(frame))
        except Exception as error:
            self.recorder.faults.add(Kind.STALE, error)

    def in_loader_thread(self) -> None:
        """Say that the calling thread feeds a loader: its time is not the training thread's wait."""
        self._inside.loader = True

    def loader_failed(self, error: BaseException) -> None:
        """An exception in a loader thread: it ends training early and is printed at best."""
        if not getattr(self._inside, "loader", False) or self._last_error == id(error):
            return
        self._last_error = id(error)
        recorder = self.recorder
        try:
            places = [Place(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__)]
            places = [place for place in reversed(places) if not is_ours(place.file)]
            site = recorder.stacks.intern_places(places)
            now = time.perf_counter_ns()
            name, detail = type(error).__name__, str(error)[:1000]
            recorder.span(Event(now, None, Kind.LOADER_ERROR, site=site, name=name, detail=detail))
        except Exception as fault:
            recorder.faults.add(Kind.LOADER_ERROR, fault)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_begin_ns = time.perf_counter_ns()
            return
        recorder = self.recorder
        if not recorder.active or not self._gc_begin_ns:
            return
        begin_ns, self._gc_begin_ns = self._gc_begin_ns, 0
        duration = time.perf_counter_ns() - begin_ns
        if duration < GC_MIN_NS:
            return
        collected, generation = float(info.get("collected", 0)), info.get("generation", 0)
        try:
            # Full collections are rare, unless a line of the program asks for them.
            site = recorder.stacks.capture(sys._getframe(1)) if generation == FULL_COLLECTION else None
            recorder.span(Event(begin_ns, duration, Kind.GC, site=site, name=f"gen{generation}", value=collected))
        except Exception as error:
            recorder.faults.add(Kind.GC, error)


def _targets_host(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of ``Tensor.to`` name the CPU as the target."""
    target = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    if isinstance(target, str):
        return target.startswith("cpu")
    kind = getattr(target, "type", None)
    if isinstance(kind, str):
        return kind == "cpu"
    device = getattr(target, "device", None)
    return getattr(device, "type", None) == "cpu"
