"""What torch_xla says about itself: metrics and counters by name, phase, devices, versions, environment.

Owns the names of its metrics and counters and what of the environment is recorded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from xla_insight.record.framework import Framework
from xla_insight.record.torch_xla.spmd import is_spmd

MODULE = "torch_xla"
TESTED_VERSION = "2.9"
LOCAL_RANK = "PJRT_LOCAL_PROCESS_RANK"
KEY_PREFIXES = ("XLA_", "PT_XLA_", "PJRT_", "LIBTPU_", "TPU_", "NEURON_", "CPU_NUM_DEVICES")
"""Variables that can change a graph, its key or its cost; only these are recorded."""
_OURS = "XLA_INSIGHT_"


def graphs_ran(module: ModuleType) -> bool:
    """Whether this process has compiled or executed a graph."""
    counter = module._XLAC._xla_counter_value
    return any(counter(name) for name in ("UncachedCompile", "CachedCompile", "ExecuteComputation"))


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
        session=extension.profiler.TslProfilerSessionWrapper,
        lines=extension._set_ir_debug,
        ignored_counters=("xla::", "Create", "Destroy", "RegisterXLA", "DeviceData"),
    )


def is_tested(module: ModuleType) -> bool:
    """Whether the private API of this version is the one that this file was written for."""
    return str(module.__version__).startswith(f"{TESTED_VERSION}.")


def phase(module: ModuleType | None) -> str:
    """`before_runtime`, `before_first_graph` or `after_first_graph`: what can be captured depends on it."""
    if module is None:
        return "before_runtime"
    if graphs_ran(module):
        return "after_first_graph"
    return "before_first_graph" if module._XLAC._xla_runtime_is_initialized() else "before_runtime"


def process_facts(environment: Mapping[str, str]) -> dict[str, Any]:
    """Rank and the parts of the environment that matter, without starting the runtime."""

    def number(*names: str, default: int) -> int:
        for name in names:
            text = environment.get(name, "")
            if text.isdigit():
                return int(text)
        return default

    return {
        "rank": number("RANK", "PJRT_PROCESS_INDEX", default=0),
        "local_rank": number("LOCAL_RANK", LOCAL_RANK, default=0),
        "world_size": number("WORLD_SIZE", default=1),
        "environment": {
            name: value
            for name, value in sorted(environment.items())
            if name.startswith(KEY_PREFIXES) and not name.startswith(_OURS)
        },
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
    """Devices of this process and its persistent cache; empty while the runtime is down: asking would start it."""
    extension = module._XLAC
    if not extension._xla_runtime_is_initialized():
        return {}
    devices = [str(device) for device in extension._xla_real_devices()]
    kind = devices[0].split(":")[0] if devices else None
    # Set by the program, when it calls xr.initialize_cache: after the environment was looked at.
    cache = os.environ.get("XLA_PERSISTENT_CACHE_PATH")
    read_only = os.environ.get("XLA_PERSISTENT_CACHE_READ_ONLY", "0") in ("1", "true")
    return {
        "device": kind,
        "devices": devices,
        "spmd": is_spmd(),
        "persistent_cache": {"path": cache, "read_only": read_only} if cache else {},
    }
