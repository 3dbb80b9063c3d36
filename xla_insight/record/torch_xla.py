"""The one file that names torch_xla: its private functions, its metrics, its debug variables and what can be had when.

Owns every assumption about torch_xla 2.9. A second framework is a second file like this one.

``_xla_step_marker`` is never wrapped: C++ reads the innermost Python frames to say why a graph was cut, and one more
frame there would change what the user's own debug output says. Its only caller, ``torch_xla.sync``, is bracketed
instead: it asks for the default device just before, and runs the step closures just after.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from types import CodeType, FrameType, ModuleType
from typing import Any

from xla_insight.facts.events import Kind, StepSource, Trigger
from xla_insight.record.debug_file import DebugFile
from xla_insight.record.framework import Framework
from xla_insight.record.patches import Patches
from xla_insight.record.recorder import Recorder
from xla_insight.record.torch_hooks import TorchHooks

MODULE = "torch_xla"
TESTED_VERSION = "2.9"
MAX_FRAMES = "32"

_LEVEL, _FILE, _FRAMES = "PT_XLA_DEBUG_LEVEL", "PT_XLA_DEBUG_FILE", "PT_XLA_DEBUG_MAX_FRAME"
_OWNER = "XLA_INSIGHT_DEBUG_OWNER"
"""The process that set the variables above: in any other they are inherited, not the user's wish."""
_LOCAL_RANK = "PJRT_LOCAL_PROCESS_RANK"
KEY_PREFIXES = ("XLA_", "PT_XLA_", "PJRT_", "LIBTPU_", "TPU_", "NEURON_", "CPU_NUM_DEVICES")
"""Variables that can change a graph, its key or its cost; only these are recorded."""

_TRIGGERS = (
    ("parallel_loader.py", "next", Trigger.LOADER),
    ("profiler.py", "__exit__", Trigger.STEP_TRACE),
    ("xla_model.py", "optimizer_step", Trigger.OPTIMIZER),
    ("dynamo_bridge.py", "", Trigger.DYNAMO_COMPILE),
    ("torch_xla.py", "_compile", Trigger.COMPILED_FUNCTION),
    ("torch_xla.py", "_clear_pending_ops_before_compile", Trigger.COMPILED_FUNCTION),
)


# ---- debug blocks: settings that C++ reads once, at the first graph -------------------------------------------------


class DebugSettings:
    """The variables that make the framework describe each graph, set for us and taken back after the first graph.

    One per process: C++ reads them once, so the file named at the first graph serves all recordings of the process.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        self._saved: dict[str, str | None] = {}
        self.file: DebugFile | None = None
        self.reason = ""
        self._pid = str(os.getpid())

    def arrange(self) -> None:
        """Set what must be set before the first graph; respect what the user set. Does nothing when already done."""
        if self.file is not None or self.reason:
            return
        if self._environment.get(_OWNER, self._pid) != self._pid:
            for name in (_LEVEL, _FILE, _FRAMES, _OWNER):
                self._environment.pop(name, None)
        level = self._environment.get(_LEVEL) or ("100" if self._environment.get("PT_XLA_DEBUG", "0") != "0" else None)
        file = self._environment.get(_FILE)
        if level is not None and not file:
            self.reason = f"{_LEVEL} is set and prints to stderr; set {_FILE} too and graph hashes can be read from it"
            return
        if file and level is not None:
            self.file = DebugFile(os.path.abspath(file))
            if not (level.isdigit() and int(level) >= 2):
                self.reason = f"{_LEVEL} is {level}: executions of known graphs are not described (2 is needed)"
            return
        self.file = DebugFile()
        atexit.register(self.file.remove)
        wanted = {_LEVEL: "2", _FILE: self.file.path, _OWNER: self._pid}
        if _FRAMES not in self._environment:
            wanted[_FRAMES] = MAX_FRAMES
        for name, value in wanted.items():
            self._saved[name] = self._environment.get(name)
            self._environment[name] = value

    @property
    def is_inherited(self) -> bool:
        """Whether these are the settings of a parent that forked."""
        return self._pid != str(os.getpid())

    def restore(self) -> None:
        """Take our variables back, so that child processes do not inherit them."""
        for name, value in self._saved.items():
            if value is None:
                self._environment.pop(name, None)
            else:
                self._environment[name] = value
        self._saved = {}


_known_settings = [DebugSettings(os.environ)]
"""The settings of this process, last; before them those of parents it was forked from."""


def arrange_debug_settings() -> DebugSettings:
    """The settings of this process, arranged when that is still of use. Needs no import of torch_xla."""
    if _known_settings[-1].is_inherited:
        _known_settings.append(DebugSettings(os.environ))
    settings = _known_settings[-1]
    module = sys.modules.get(MODULE)
    if settings.file is None and module is not None and _graphs_ran(module):
        settings.reason = "recording began after the first graph, when the debug settings had been read already"
        return settings
    settings.arrange()
    return settings


def drop_inherited_settings() -> None:
    """In a forked child: its graphs must not be described in the parent's file."""
    _known_settings[-1].restore()


def _graphs_ran(module: ModuleType) -> bool:
    counter = module._XLAC._xla_counter_value
    return any(counter(name) for name in ("UncachedCompile", "CachedCompile", "ExecuteComputation"))


# ---- facts -----------------------------------------------------------------------------------------------------------


def framework(module: ModuleType) -> Framework:
    """What the recorder reads, as plain functions."""
    extension = module._XLAC
    return Framework(
        metric=extension._xla_metric_data,
        counter=extension._xla_counter_value,
        counter_names=extension._xla_counter_names,
        eager=extension._get_use_eager_mode,
        hit_counter="CachedCompile",
        miss_counter="UncachedCompile",
        fact_counters={
            "CachedCompile": "cache_hits",
            "PersistentCacheHit": "persistent_hits",
            "PersistentCacheMiss": "persistent_misses",
            "PersistentCacheDeserializeFailure": "persistent_failures",
        },
        execute_metrics=("ExecuteTime", "ExecuteReplicatedTime", "EagerOpExecuteTime"),
        compile_metrics=("CompileTime", "EagerOpCompileTime"),
        wait_metric="DeviceLockWait",
        tracing_metric="LazyTracing",
        transfer_metrics={"to_device": "TransferToDeviceTime", "from_device": "TransferFromDeviceTime"},
        bytes_metrics={"to_device": "OutboundData", "from_device": "InboundData"},
        ignored_counters=("xla::", "Create", "Destroy", "RegisterXLA", "DeviceData"),
    )


def is_tested(module: ModuleType) -> bool:
    """Whether the private API of this version is the one that this file was written for."""
    return str(module.__version__).startswith(f"{TESTED_VERSION}.")


def phase(module: ModuleType | None) -> str:
    """`before_runtime`, `before_first_graph` or `after_first_graph`: what can be captured depends on it."""
    if module is None:
        return "before_runtime"
    if _graphs_ran(module):
        return "after_first_graph"
    return "before_first_graph" if module._XLAC._xla_runtime_is_initialized() else "before_runtime"


def process_facts(environment: MutableMapping[str, str]) -> dict[str, Any]:
    """Rank and the parts of the environment that matter, without starting the runtime."""

    def number(*names: str, default: int) -> int:
        for name in names:
            text = environment.get(name, "")
            if text.isdigit():
                return int(text)
        return default

    return {
        "rank": number("RANK", "PJRT_PROCESS_INDEX", default=0),
        "local_rank": number("LOCAL_RANK", _LOCAL_RANK, default=0),
        "world_size": number("WORLD_SIZE", default=1),
        "environment": {name: value for name, value in sorted(environment.items()) if name.startswith(KEY_PREFIXES)},
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    import importlib.metadata
    import platform

    found = {"python": platform.python_version()}
    for name in ("torch", "torch_xla", "transformers", "accelerate", "libtpu", "libneuronxla"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def device_facts(module: ModuleType) -> dict[str, Any]:
    """Devices of this process; empty while the runtime is down, since asking would start it."""
    extension = module._XLAC
    if not extension._xla_runtime_is_initialized():
        return {}
    devices = [str(device) for device in extension._xla_real_devices()]
    kind = devices[0].split(":")[0] if devices else None
    return {"device": kind, "devices": devices, "spmd": os.environ.get("XLA_USE_SPMD", "0") in ("1", "true")}


# ---- hooks -----------------------------------------------------------------------------------------------------------


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
        wrap(xla_model, "save", lambda f: self.hooks.timed(f, Kind.CHECKPOINT, "xm.save"))
        wrap(xla_model, "_maybe_convert_to_cpu", self._to_host)
        wrap(parallel_loader.ParallelLoader, "next_item", self._next_item)
        wrap(parallel_loader.ParallelLoader, "_loader_worker", self._loader_worker)
        self._arrange_rank()

    def _arrange_rank(self) -> None:
        """Only local rank 0 describes its graphs, and C++ asks once, at the first graph: be rank 0 for that moment."""
        rank = os.environ.get(_LOCAL_RANK, "0")
        settings = _known_settings[-1]

        def before() -> None:
            os.environ[_LOCAL_RANK] = "0"

        def after(ran: bool) -> None:
            if rank != "0":
                os.environ[_LOCAL_RANK] = rank
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
                    self._local.sync = (recorder.begin(Kind.SYNC, site), site, trigger)
                except Exception as error:
                    recorder.faults.add(Kind.SYNC, error)
            return original(*args, **kwargs)

        return default_device

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

    def _end_sync(self, begin_ns: int, site: int, trigger: Trigger) -> None:
        recorder = self.recorder
        recorder.read_counters_if_due()
        recorder.end(Kind.SYNC, begin_ns, trigger, site)
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
            return item

        return next_item

    def _inputs(self, item: Any, frame: FrameType) -> None:
        """Names and shapes of a batch as the training loop gets it; shapes of uploaded tensors cost no sync."""
        if hasattr(item, "items"):
            pairs = [(str(name), value) for name, value in item.items()]
        elif isinstance(item, list | tuple):
            pairs = [(f"[{index}]", value) for index, value in enumerate(item)]
        else:
            pairs = [("batch", item)]
        for name, value in pairs:
            if hasattr(value, "dtype") and hasattr(value, "shape"):
                self.hooks.uploaded(name, value, frame)

    def _loader_worker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def worker(*args: Any, **kwargs: Any) -> Any:
            self.hooks.in_loader_thread()
            try:
                return original(*args, **kwargs)
            except Exception as error:
                self.hooks.loader_failed(error)
                raise

        return worker
