"""What the report says about ranks, devices, what they exchange, and how parameters lie on them.

Owns these records; the concluding is in ``analysis``. ``None`` means not measured; it never means zero.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankFacts:
    """One recorded process that has steps. Times are over all its steps."""

    rank: int
    process: int
    host: str | None
    device: str | None
    """Kind of its devices, as the framework calls it."""
    devices: int | None
    """How many; None when the process did not say."""
    spmd: bool
    """Whether each execution runs on all of them at once."""
    steps: int
    executions: int
    """Of the process. Under SPMD each of them runs on every device, else on the one device there is."""
    executions_per_device: int | None
    """None where several devices share the executions in a way that was not recorded."""
    wall_s: float
    device_busy_s: float | None
    """Inferred. Of all devices of the process together; single ones are measured in device windows only."""
    median_ms: float
    host_work_ms: float
    """Median time of a step in which the host did not wait for the device: what differs where ranks wait for each
    other."""
    slowest_steps: int | None = None
    """Steps in which this rank took longest, of those that all ranks have; None with one rank."""
    behind_s: float | None = None
    """How much longer than the fastest rank its steps took, summed; None with one rank."""
    straggles: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """One device of a process with several, in the device windows of the process: measured, not inferred."""

    process: int
    rank: int
    device: str
    executions: int
    measured_s: float
    """From the first program of any device to the end of the last, in each window."""
    busy_s: float
    """In which this device ran a program, or waited in one for other devices."""


@dataclass(frozen=True, slots=True)
class MeshFacts:
    """How the devices of a process are arranged: axes with their sizes, devices in row-major order."""

    process: int
    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """Collectives of one kind, size and grouping in one graph, as each device runs them.

    ``count`` is how often they run in one execution. With ``looped`` they stand in a loop of unknown length: at least.
    """

    graph: str
    kind: str
    count: int
    payload_bytes: int
    """Of one of them, on one device: the larger of what goes in and what comes out."""
    graph_bytes: int
    """``count`` times that: of one execution of the graph."""
    shape: str
    group_size: int | None
    """How many devices exchange with each other; None when the program does not say."""
    groups: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]
    """Axes of the mesh along which they exchange, where that can be told."""
    looped: bool
    executions: int | None
    """Of the graph, over all processes."""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ShardingFacts:
    """How one parameter of a model lies on the devices."""

    process: int
    parameter: str
    dims: tuple[int, ...]
    bytes: int | None
    sharding: str
    """In the notation of HLO; empty: none."""
    placement: str
    """`sharded`, `replicated`, `maximal` (on one device), `other`, or `none`."""
    pieces: int | None
    """Into how many pieces it is cut; 1: whole on each device that has it."""
    bytes_per_device: int | None
    axes: tuple[str | None, ...]
    """For each dimension the axis of the mesh that cuts it; None: not cut, or by no single axis."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Ranks and devices of a run."""

    ranks: tuple[RankFacts, ...]
    spmd: bool
    meshes: tuple[MeshFacts, ...] = ()
    collectives: tuple[CollectiveFacts, ...] = ()
    shardings: tuple[ShardingFacts, ...] = ()
    graphs_read: int = 0
    """Graphs whose program was kept and looked at for collectives."""
    summary: str = ""
    notes: tuple[str, ...] = ()
    """What is not known, and why."""
    measured: tuple[MeasuredDevice, ...] = ()
    """Each device of processes that have several, in device windows; empty without windows that tell them apart."""
    measured_summary: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """Saving: how long the training thread stood still for it, and how long another thread wrote behind it."""

    saves: int
    stall_s: float
    behind_s: float
    """Written by other threads; 0: everything was written by the training thread."""
    overlapped_s: float
    """The part of ``behind_s`` in which the training thread was not saving itself."""
    summary: str
