"""One event record and the closed vocabulary of its fields: what a recorder may write and a reader must understand.

Owns the meaning of every column of the log per kind. Leaves the bytes on disk to ``store`` and the collecting to
``record``. Words here are free of any one framework, so that a second collector needs no new ones.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

SCHEMA_VERSION = 1


class Kind(StrEnum):
    """Event kinds. Per kind: what ``name``, ``value``, ``dims`` and ``detail`` hold (unlisted fields are null)."""

    SYNC = "sync"
    """An explicit cut of the lazy graph, or one that C++ forced outside any hook. name: `Trigger`; value: graphs
    executed inside it; dims: [graphs compiled inside it]; graph: the last graph executed in it, when known;
    detail: `wait` when the program asked to wait until the device is done."""
    READ = "read"
    """A tensor's value was read by Python. name: method (`item`, `bool`, `cpu`, ...); value: graphs executed inside it;
    dims: [graphs compiled inside it]; detail: the scalar read, as text, when it was one."""
    COMPILE = "compile"
    """One compilation. time/duration measured; graph; name: `Trigger`; detail: the trigger sentence of the framework;
    dims: [time_ns of the SYNC or READ it ran in]."""
    EXECUTION = "execution"
    """One execution of a graph: from dispatch to ready. graph; name: `Trigger`; detail: `CacheOutcome`;
    dims: [time_ns of the SYNC or READ that ran it]. duration null: not ready when recording ended."""
    TRANSFER = "transfer"
    """name: `to_device` or `from_device`, as the framework measures them; `upload`: a call that moves a tensor to the
    device, with its site. value: bytes when known."""
    DEVICE_WAIT = "device_wait"
    """The host waited for the device. name: `lock` (waiting for the previous dispatch) or `wait_device_ops`."""
    INPUT_WAIT = "input_wait"
    """The training thread waited for a batch. name: the loader's class."""
    CHECKPOINT = "checkpoint"
    """name: the saving function."""
    GC = "gc"
    """A Python garbage collection. name: `gen0`, `gen1` or `gen2`; value: objects collected; site: of full ones."""
    BACKWARD = "backward"
    """An autograd pass, as seen from the thread that called it. value: graphs executed inside it; dims: [compiled]."""
    STEP = "step"
    """A step mark: the END of a step. name: `StepSource`; value: the step number (from 0) that ended."""
    INPUT = "input"
    """A batch tensor on its way to the device. name: its key (`input_ids`) when known; dims: its dimensions;
    detail: dtype (`int64`); site: the line that uploaded it; value: the site of the function that made the batch."""
    SAMPLE = "sample"
    """Where the training thread was at an instant, as another thread saw it; site: without the frames between."""
    COUNTER = "counter"
    """name: counter; value: increase since the previous event of that name; duration: its increase as a time, ns."""
    GRAPH = "graph"
    """Facts of one graph, once per process. graph; dims: [inputs, outputs, input bytes, output bytes, aliased bytes,
    temporary bytes, program bytes], -1 where unknown; name: `Trigger` of its first cut; site."""
    SITE = "site"
    """A call stack, once. site: its id; name: JSON {"site": [file, line, function], "user_site": [...] or null,
    "stack": [[file, line, function], ...] innermost first, "source": text of the site's line, "user_source": ...}."""
    STALE = "stale"
    """An optimizer still holds parameters that its module has no longer. time, site: when and where the module's
    parameters were replaced; name: class of the optimizer; value: how many it holds."""
    MESH = "mesh"
    """How several devices of one process are arranged. name: axes and sizes (`data=4, model=1`); value: how many
    devices; dims: sizes of the axes; detail: JSON {"axes": [names], "devices": [ids, row-major]}."""
    SHARDING = "sharding"
    """How a parameter of a model lies on the devices, once. name: its name in the module; dims: its dimensions; value:
    bytes of the whole; detail: the sharding in the notation of HLO (`{devices=[4,1]0,1,2,3}`), empty: none."""
    SOURCE = "source"
    """Lines of source code as they were while the program ran. name: file; dims: [number of the first line];
    detail: the lines, joined by newlines."""
    WINDOW = "window"
    """A device window: a profiler session was open for ``duration``. name: of its stored session; value: ns that ending
    it took, right after it; dims: [wall clock ns since the epoch at ``time``, first step, last step, bytes stored];
    detail: why it was closed early, null when it was not."""
    THREAD = "thread"
    """thread: its index; name: its name. Index 0 is the thread that started recording (the training thread)."""
    CLOCK = "clock"
    """An anchor between the clocks. time: monotonic ns; dims: [wall clock ns since the epoch]."""
    MARK = "mark"
    """name: `start`, `end`, `exception` (detail: type and message of what ended the training), `epoch` (the END of a
    pass over the data; detail: `EpochSource`)."""
    LOADER_ERROR = "loader_error"
    """An exception in a loader thread that ends training early. name: exception type; detail: message; site."""
    FAULT = "fault"
    """An error of the recorder itself. name: where; value: how many since the last; detail: text of one."""
    LOST = "lost"
    """Data that was not kept. name: what (`events`, `samples`, `blocks`, `graphs`, `shardings`, `uploads`); value: how
    many; detail: why."""


class Trigger(StrEnum):
    """What forced a cut of the lazy graph."""

    SYNC = "sync"
    LOADER = "loader"
    STEP_TRACE = "step_trace"
    OPTIMIZER = "optimizer"
    COMPILED_FUNCTION = "compiled_function"
    DYNAMO_COMPILE = "dynamo_compile"
    DYNAMO_EXECUTE = "dynamo_execute"
    READ = "read"
    FORCED = "forced"
    """An operation needed a value (a CPU fallback, a data-dependent shape) outside any read that we saw."""
    AUTOGRAD = "autograd"
    """Ran inside a backward pass, on a thread without Python frames."""
    EAGER = "eager"
    WARM_UP_CACHE = "warm_up_cache"
    UNKNOWN = "unknown"


class CacheOutcome(StrEnum):
    """How an execution got its program."""

    HIT = "hit"
    COMPILE = "compile"
    PERSISTENT_HIT = "persistent_hit"


class StepSource(StrEnum):
    """Who marked a step. The reading side picks the first of this order that a run has, else infers."""

    PROF_STEP = "prof.step"
    CALLBACK = "callback"
    STEP_TRACE = "step_trace"
    LOADER = "loader"
    SYNC_SITE = "sync_site"
    """Inferred when reading: the most frequent user sync site."""


class EpochSource(StrEnum):
    """Who marked the end of a pass over the data. The reading side picks the first of this order that a run has."""

    CALLBACK = "callback"
    LOADER = "loader"
    """A loader had no more batches for the training loop."""


FACT_COUNTERS = ("compiles", "executions", "cache_hits", "persistent_hits", "persistent_misses", "persistent_failures")
"""Counters whose increases, summed, are the totals of the report (our own graphs already taken off)."""


class Event(NamedTuple):
    """One row of the log. Times are monotonic ns of the recording process; ``duration_ns`` is None when unknown."""

    time_ns: int
    duration_ns: int | None
    kind: str
    step: int | None = None
    thread: int | None = None
    graph: str | None = None
    site: int | None = None
    name: str | None = None
    value: float | None = None
    dims: tuple[int, ...] | None = None
    detail: str | None = None
