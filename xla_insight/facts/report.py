"""The report as frozen records: what ``analysis`` concludes and every surface (text, JSON, page) shows.

Owns the shape of the answer and its JSON form (schema 1: fields are added, never renamed). Leaves the concluding to
``analysis`` and the wording of pages to the surfaces. ``None`` means not measured; it never means zero.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from xla_insight.facts.devices import CheckpointFacts, DeviceFacts

REPORT_SCHEMA = 1


class Severity(StrEnum):
    """How much an entry should disturb its reader."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class HostState(StrEnum):
    """What the training thread does at an instant: the first of this order that applies. Disjoint; adds up to wall."""

    COMPILE = "compile"
    DEVICE_WAIT = "device_wait"
    INPUT_WAIT = "input_wait"
    TRANSFER = "transfer"
    CHECKPOINT = "checkpoint"
    GC = "gc"
    TRACE = "trace"
    OUTSIDE = "outside"
    """No part of the training: the recorder held the thread up while it closed a device window."""


class Quality(StrEnum):
    """Whether a number was measured or worked out from others."""

    MEASURED = "measured"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in source code. ``source`` is the text of the line as it was when recorded."""

    file: str
    line: int
    function: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Which run this is and what could be captured."""

    id: str
    path: str
    ranks: int
    processes: int
    level: str
    capabilities: dict[str, Any]
    command: tuple[str, ...] = ()
    started_unix_s: float | None = None
    state: str = "ended"
    """`recording`, `ended`, `crashed` (no end mark and no recent write) or `empty`."""
    failed: bool = False
    """Whether the program, or a process of it, ended with an exception."""
    paths: dict[str, str] = field(default_factory=dict)
    """What sentences call files whose short names would be the same; most often empty."""
    exceptions: tuple[str, ...] = ()
    """Type and message of each exception that ended the training, in order of the processes."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """Steps of the run; times in ms."""

    count: int
    median_ms: float | None = None
    p95_ms: float | None = None
    source: str | None = None
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Totals over graphs, counted by the framework itself and read as differences over the recording."""

    distinct: int
    syncs: int
    executions: int
    compiles: int
    cache_hits: int
    persistent_hits: int
    evictions: int
    compile_s: float


@dataclass(frozen=True, slots=True)
class Member:
    """One compile of an entry, and the earlier graph it was compared with (None: there is none)."""

    graph: str | None
    step: int | None
    process: int
    compile_s: float | None
    against: str | None
    inferred: bool = False
    """The cause was told by the types of the inputs alone, as in dozens of graphs that were compared in full."""
    summary: str = ""
    """The sentence about this compile alone."""
    root: dict[str, Any] = field(default_factory=dict)
    """The earliest difference of this compile, in the form of ``Recompile.root``."""


@dataclass(frozen=True, slots=True)
class Recompile:
    """Compiles of one cause at one place. Expected ones are listed too: counts add up to ``GraphFacts.compiles``."""

    cause: str
    expected: bool
    severity: Severity
    count: int
    compile_s: float
    steps: tuple[int, ...]
    site: Site | None
    user_site: Site | None
    trigger: str
    summary: str
    advice: str
    root: dict[str, Any] = field(default_factory=dict)
    """The earliest difference of the example that the sentence gives, see `xla_insight.analysis.recompiles.entries`;
    empty when there is none."""
    graphs: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem beside recompiles. ``cost_s`` is None when its cost was not measured."""

    id: str
    severity: Severity
    site: Site | None
    user_site: Site | None
    count: int
    cost_s: float | None
    summary: str
    advice: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Period:
    """Where the time of some steps of one process went, in seconds.

    ``name``: `warm_up`, `steady`, `epoch` or `rank`.
    """

    name: str
    rank: int
    process: int
    first_step: int
    last_step: int
    steps: int
    wall_s: float
    host: dict[str, float]
    device_busy_s: float | None
    device_idle_by_host_state: dict[str, float]
    overlap_pct: float | None
    critical_path: dict[str, float] = field(default_factory=dict)
    """What the steps depended on: seconds of the device and of each host state, which sum to ``wall_s``; empty when the
    device was not observed. Shortening anything else saves nothing."""


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A stretch in which the device had nothing to run.

    ``cause`` is the host state that takes most of it, ``site`` where that happened. ``opened_by`` (`read` or `sync`) is
    what the training thread was blocked in when the device ran out of work, at ``opened_site``; None: not blocked."""

    process: int
    step: int | None
    start_s: float
    """Since the run began."""
    idle_s: float
    cause: str
    by_host_state: dict[str, float]
    site: Site | None
    user_site: Site | None
    opened_by: str | None
    opened_site: Site | None
    opened_user_site: Site | None
    summary: str


@dataclass(frozen=True, slots=True)
class HostLine:
    """A line that the training thread was seen at while it ran Python and traced, after warm-up, in ``samples`` of its
    stack.

    ``share`` (0 to 1) is that of all such samples, ``error`` half the width of its 95 % interval, ``spent_s`` the same
    share of the time.
    """

    site: Site
    user_site: Site | None
    samples: int
    share: float
    error: float
    spent_s: float


@dataclass(frozen=True, slots=True)
class DeviceWindow:
    """A profiler session over some steps. ``measured_s`` is from the first to the last device operation that it shows;
    it and what follows from it are None when it shows none (``note`` says why, or why it was closed early)."""

    first_step: int
    last_step: int
    start_s: float
    """Since the run began."""
    length_s: float
    stop_s: float
    """What ending it cost the training thread."""
    measured_s: float | None
    busy_s: float | None
    inferred_busy_s: float | None
    """What dispatch and ready times say about the same time."""
    error_points: float | None
    """Inferred less measured busy share, in percentage points."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class DeviceOperation:
    """What one operation of a program cost the device in the windows. ``share``, 0 to 1: of all device time there."""

    operation: str
    opcode: str | None
    framework_operation: str | None
    graph: str | None
    site: Site | None
    count: int
    device_s: float
    share: float


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """What one line of code cost the device in the windows. ``site`` is None for what comes from no known line."""

    site: Site | None
    operations: tuple[str, ...]
    count: int
    device_s: float
    share: float


@dataclass(frozen=True, slots=True)
class HostSpan:
    """What the framework itself says that a thread of the host did in the windows. Spans may lie in each other."""

    thread: str
    name: str
    count: int
    total_s: float


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """What device windows measured, and the error of what is inferred elsewhere (``error_points``: mean over time)."""

    summary: str
    windows: tuple[DeviceWindow, ...]
    measured_s: float
    busy_s: float | None
    inferred_busy_s: float | None
    error_points: float | None
    stop_s: float
    lines: tuple[DeviceLine, ...] = ()
    operations: tuple[DeviceOperation, ...] = ()
    host_spans: tuple[HostSpan, ...] = ()
    overlap_pct: float | None = None
    """Percent of the host's tracing and input work done while the device was busy, as the windows show it; None where
    there was too little of it, or the profiler does not show when the host was blocked."""
    inferred_overlap_pct: float | None = None
    overlap_error_points: float | None = None


@dataclass(frozen=True, slots=True)
class TimeFacts:
    """Where wall time of the training thread went (rank 0 of the run), in seconds. ``host`` sums to ``wall_s``."""

    wall_s: float
    host: dict[str, float]
    device_busy_s: float | None
    device_idle_by_host_state: dict[str, float]
    overlap_pct: float | None
    quality: Quality
    setup_s: float | None = None
    """Recorded time before the first tensor work (imports, reading data). Not part of ``wall_s``."""
    warm_up: Period | None = None
    """The first steps, in which graphs compile that later steps reuse. None without steps."""
    steady: Period | None = None
    """All steps after them; None when there is none."""
    ranks: tuple[Period, ...] = ()
    """All steps of each process."""
    epochs: tuple[Period, ...] = ()
    """The steps of each pass over the data, in order; none where no end of a pass was seen."""
    worst_gaps: tuple[IdleGap, ...] = ()
    """The longest stretches without device work, longest first."""
    critical_path: dict[str, float] = field(default_factory=dict)
    """As of a period, over all tensor work."""
    host_lines: tuple[HostLine, ...] = ()
    """Where the training thread ran Python and traced after warm-up, most time first; empty: too little was seen."""
    measured: MeasuredTime | None = None
    """Where device windows were taken, busy and idle time is measured, and its error elsewhere is known. None: none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one sentence. ``saves_s``: upper bound of what removing the limit saves; None when it cannot be said."""

    bound: str
    summary: str
    saves_s: float | None


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What is missing from the recording, so that no total is trusted more than it deserves."""

    dropped: int
    faults: dict[str, int]
    skipped_parts: int
    lost: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeFacts:
    """What padding the batches to a plan of sizes would do. Seconds are inferred from the run."""

    summary: str
    plan: str | None
    """The advised plan; None: leave the shapes as they are."""
    buckets: tuple[tuple[int, ...], ...]
    saves_s: float
    compiles: int
    """Under the plan, or as recorded."""
    code: str
    thin: tuple[str, ...] = ()
    """What there is too little of to trust the figures."""
    change: str = ""
    """What the plan does, in words: ``padding all to 96``."""
    dimensions: tuple[str, ...] = ()
    """The dimensions that change and that the plan is about: ``input_ids[1]``."""

    def covers(self, name: str, dimension: int | None) -> bool:
        """Whether the plan is about a dimension of a batch input; None: about any of it."""
        of_input = [known for known in self.dimensions if known.rpartition("[")[0] == name]
        return bool(of_input) if dimension is None else f"{name}[{dimension}]" in of_input


@dataclass(frozen=True, slots=True)
class Report:
    """All that the tool concludes about one run."""

    run: RunFacts
    steps: StepFacts
    graphs: GraphFacts
    recompiles: tuple[Recompile, ...]
    findings: tuple[Finding, ...]
    time: TimeFacts
    verdict: Verdict
    data: DataFacts
    shapes: ShapeFacts | None = None
    """None when every batch has the same shape, or none was recorded."""
    devices: DeviceFacts | None = None
    """Ranks and devices, what they exchange and how parameters lie on them. None without any process."""
    checkpoints: CheckpointFacts | None = None
    """None when nothing was saved."""

    def to_json(self) -> dict[str, Any]:
        """The report as JSON-ready values; the first key is ``schema``. An absent site is ``{}``."""
        plain: dict[str, Any] = {"schema": REPORT_SCHEMA, **asdict(self)}
        measured = plain["time"]["measured"] or {"lines": (), "operations": ()}
        time_entries = (*plain["time"]["worst_gaps"], *measured["lines"], *measured["operations"])
        for entry in (*plain["recompiles"], *plain["findings"], *time_entries):
            for key in ("site", "user_site", "opened_site", "opened_user_site"):
                if key in entry:
                    entry[key] = entry[key] or {}
        return plain
