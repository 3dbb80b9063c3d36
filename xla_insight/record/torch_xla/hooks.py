"""Hooks on torch_xla: every cut of the lazy graph, and what the host waits for.

``_xla_step_marker`` is never wrapped: C++ reads the innermost Python frames to say why a graph was cut, and one more
frame there would change what the user's own debug output says. Its only caller, ``torch_xla.sync``, is bracketed
instead: it asks for the default device just before, and runs the step closures just after.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from xla_insight.facts.events import Kind, StepSource, Trigger
from xla_insight.record.batches import named_values
from xla_insight.record.patches import Patches
from xla_insight.record.recorder import Recorder
from xla_insight.record.torch_hooks import TorchHooks
from xla_insight.record.torch_xla.facts import LOCAL_RANK, MODULE
from xla_insight.record.torch_xla.settings import current_settings
from xla_insight.record.torch_xla.spmd import is_spmd, sharding_watch

_TRIGGERS = (
    ("parallel_loader.py", "next", Trigger.LOADER),
    ("profiler.py", "__exit__", Trigger.STEP_TRACE),
    ("xla_model.py", "optimizer_step", Trigger.OPTIMIZER),
    ("dynamo_bridge.py", "", Trigger.DYNAMO_COMPILE),
    ("torch_xla.py", "_compile", Trigger.COMPILED_FUNCTION),
    ("torch_xla.py", "_clear_pending_ops_before_compile", Trigger.COMPILED_FUNCTION),
)


class XlaHooks:
    """Brackets every cut of the lazy graph and what the host waits for."""

    def __init__(self, module: ModuleType, hooks: TorchHooks, patches: Patches) -> None:
        self.module = module
        self.hooks = hooks
        self.recorder: Recorder = hooks.recorder
        self.patches = patches
        self._local = threading.local()
        self._batch_given = False
        self._triggers: dict[int, Trigger] = {}

    def install(self) -> None:
        """Hook torch_xla, which must be imported."""
        from torch_xla.core import xla_model
        from torch_xla.distributed import parallel_loader

        extension = self.module._XLAC
        # From where it is defined: the public name may be a wrapper of the user's.
        self._sync_code: CodeType = sys.modules[f"{MODULE}.torch_xla"].sync.__code__
        wrap = self.patches.wrap
        wrap(extension, "_xla_get_default_device", self._sync_begins)
        wrap(xla_model, "_run_step_closures", self._sync_ends)
        wrap(extension, "_xla_wait_device_ops", lambda f: self.hooks.timed(f, Kind.DEVICE_WAIT, "wait_device_ops"))
        wrap(extension, "_clear_xla_counters", lambda original: self._cleared(original, counters=True))
        wrap(extension, "_clear_xla_metrics", lambda original: self._cleared(original, counters=False))
        wrap(extension.profiler, "TslProfilerSessionWrapper", self._users_session)
        wrap(xla_model, "save", lambda f: self.hooks.timed(f, Kind.CHECKPOINT, "xm.save"))
        wrap(xla_model, "_maybe_convert_to_cpu", self._to_host)
        wrap(parallel_loader.ParallelLoader, "next_item", self._next_item)
        wrap(parallel_loader.ParallelLoader, "_loader_worker", self._loader_worker)
        self._arrange_rank()
        self._shardings = sharding_watch(self.module, self.recorder.span, self.hooks.module_type)

    def ending(self) -> None:
        """The recording is about to end: what waits for more cuts is done now."""
        self.hooks.uploads.ending()
        if is_spmd():
            self._shardings.look()

    def _arrange_rank(self) -> None:
        """Only local rank 0 describes its graphs, and C++ asks once, at the first graph: be rank 0 for that moment."""
        rank = os.environ.get(LOCAL_RANK, "0")
        settings = current_settings()

        def before() -> None:
            os.environ[LOCAL_RANK] = "0"

        def after(ran: bool) -> None:
            if rank != "0":
                os.environ[LOCAL_RANK] = rank
            if ran:
                settings.restore()

        if rank != "0" and settings.file is not None and settings.file.owned:
            self.recorder.before_first_graph = before
        self.recorder.after_first_graph = after

    def _sync_begins(self, original: Callable[..., Any]) -> Callable[..., Any]:
        code = self._sync_code
        recorder = self.recorder

        def default_device(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if frame.f_code is code and recorder.active:
                try:
                    site = recorder.stacks.capture(frame)
                    trigger = self._trigger(frame.f_back)
                    wait = "wait" if _waits(frame) else None
                    self._local.sync = (recorder.begin(Kind.SYNC, site), site, trigger, wait)
                    if trigger is Trigger.DYNAMO_COMPILE and frame.f_back is not None:
                        self._generated(frame.f_back)
                except Exception as error:
                    recorder.faults.add(Kind.SYNC, error)
            return original(*args, **kwargs)

        return default_device

    def _generated(self, frame: FrameType) -> None:
        """The bridge to dynamo cuts the graph before it traces a module, which it holds by this name."""
        module = frame.f_locals.get("xla_model")
        if module is not None:
            self.recorder.generated(module)

    def _sync_ends(self, original: Callable[..., Any]) -> Callable[..., Any]:
        recorder = self.recorder

        def run_step_closures(*args: Any, **kwargs: Any) -> Any:
            opened = getattr(self._local, "sync", None)
            if opened is not None:
                self._local.sync = None
                if recorder.active:
                    try:
                        self._end_sync(*opened)
                    except Exception as error:
                        recorder.faults.add(Kind.SYNC, error)
            return original(*args, **kwargs)

        return run_step_closures

    def _end_sync(self, begin_ns: int, site: int, trigger: Trigger, wait: str | None) -> None:
        recorder = self.recorder
        recorder.read_counters_if_due()
        recorder.end(Kind.SYNC, begin_ns, trigger, site, wait)
        self.hooks.parameters.cut()
        self.hooks.uploads.cut()
        if trigger is Trigger.SYNC:
            recorder.asked_cut(site)
        if is_spmd():
            recorder.faults.guard("shardings")(self._shardings.cut)()
        if trigger is Trigger.STEP_TRACE:
            recorder.mark_step(StepSource.STEP_TRACE)
        elif trigger is Trigger.LOADER and self._batch_given:
            self._batch_given = False
            recorder.mark_step(StepSource.LOADER)

    def _trigger(self, frame: FrameType | None) -> Trigger:
        """Who called sync, told by the calling frame (decorators in between are skipped)."""
        if frame is None:
            return Trigger.SYNC
        known = self._triggers.get(id(frame.f_code))
        if known is not None:
            return known
        code = frame.f_code
        found = Trigger.SYNC
        for file, function, trigger in _TRIGGERS:
            if code.co_filename.endswith(file) and MODULE in code.co_filename and function in ("", code.co_name):
                found = trigger
        self._triggers[id(code)] = found
        return found

    def _users_session(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The program profiles by itself: only one session can be open, and it is the program's."""
        recorder = self.recorder

        def open_session(*args: Any, **kwargs: Any) -> Any:
            if recorder.active:
                recorder.give_way()
            return original(*args, **kwargs)

        return open_session

    def _cleared(self, original: Callable[..., Any], counters: bool) -> Callable[..., Any]:
        recorder = self.recorder

        def clear(*args: Any, **kwargs: Any) -> Any:
            if not recorder.active:
                return original(*args, **kwargs)
            recorder.before_clear()
            try:
                return original(*args, **kwargs)
            finally:
                recorder.after_clear(counters)

        return clear

    def _to_host(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def convert(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active:
                return original(*args, **kwargs)
            return self.hooks.recorded_read("to_cpu", sys._getframe(1), original, args, kwargs)

        return convert

    def _next_item(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def next_item(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.active:
                return original(*args, **kwargs)
            begin_ns = time.perf_counter_ns()
            item = original(*args, **kwargs)
            self.hooks.add_span(Kind.INPUT_WAIT, begin_ns, "MpDeviceLoader", sys._getframe(1))
            if item is not None:
                self._batch_given = True
                self.recorder.faults.guard(Kind.INPUT)(self._inputs)(item, sys._getframe(1))
            else:
                self.hooks.pass_ended(sys._getframe(1))
            return item

        return next_item

    def _inputs(self, item: Any, frame: FrameType) -> None:
        """Names and shapes of a batch as the training loop gets it; shapes of uploaded tensors cost no sync."""
        for name, value in named_values(item):
            self.hooks.uploads.given(name, value, frame, self.hooks.batches.latest_maker)

    def _loader_worker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def worker(*args: Any, **kwargs: Any) -> Any:
            self.hooks.in_loader_thread()
            try:
                return original(*args, **kwargs)
            except Exception as error:
                self.hooks.loader_failed(error)
                raise

        return worker


def _waits(sync: FrameType) -> bool:
    """Whether a call of ``torch_xla.sync`` returns only when the device is done: its argument, or a setting for all."""
    setting = os.environ.get("XLA_SYNC_WAIT")
    return bool(sync.f_locals.get("wait") if setting is None else setting.strip("0"))
