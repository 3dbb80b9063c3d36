"""Two runs side by side as frozen records: what ``analysis.compare`` concludes and every surface shows.

Owns the shape of the answer and its JSON form (schema 1: fields are added, never renamed). ``before`` is always the
first run, ``now`` the second; ``None`` means not measured and never zero.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from xla_insight.facts.report import Site

COMPARISON_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the runs."""

    id: str
    path: str
    state: str
    steps: int
    started_unix_s: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The one sentence. ``direction``: `faster`, `slower`, `same` (no difference beyond noise) or `unknown`.

    ``change_pct`` is by how much a step takes longer now, as far as it is no noise; None when it cannot be said.
    ``because`` is the end of the summary: what came or went with the difference, and the line that changed.
    """

    direction: str
    change_pct: float | None
    summary: str
    because: str = ""


@dataclass(frozen=True, slots=True)
class StepTime:
    """Time of a step after warm-up, in ms.

    ``mean_*`` count everything; ``plain_*`` leave compiles out, and only they are compared statistically: by
    ``interval_pct`` (95 %, of their change, and never narrower than what counts as a change, so that it leaves out 0
    only where there is one), ``p_value`` (permutation of blocks of steps) and ``noise_pct``, by how much such blocks
    differ within one run. ``steps_*`` are those compared, ``warm_up_*`` those left out at the start.
    """

    mean_before_ms: float | None
    mean_now_ms: float | None
    plain_before_ms: float | None
    plain_now_ms: float | None
    change_pct: float | None
    interval_pct: tuple[float, float] | None
    p_value: float | None
    noise_pct: float | None
    significant: bool
    steps_before: int
    steps_now: int
    warm_up_before: int
    warm_up_now: int


@dataclass(frozen=True, slots=True)
class StatePart:
    """Where a step's time went: ms a step of one host state, after warm-up; None without such steps.

    ``idle_*``: the device idled meanwhile.
    """

    state: str
    before_ms: float | None
    now_ms: float | None
    idle_before_ms: float | None = None
    idle_now_ms: float | None = None


@dataclass(frozen=True, slots=True)
class GraphPair:
    """A graph of one run and what became of it.

    ``change``: `changed` (a graph of both runs that do the same job and differ), `renamed` (equal computation, another
    key), `added` or `gone`. ``matched_by``: `structure`, `place`, or empty. ``summary`` names the earliest difference.
    ``site`` is the line that makes it where that is known (``line_known``), else where the graph is cut. ``cause`` is
    `input_shape` or `input_dtype` when it is the batch that differs: then the line is where that enters.
    """

    change: str
    before: str | None
    now: str | None
    matched_by: str
    summary: str
    site: Site | None
    line_known: bool = False
    compile_s: float | None = None
    executions: int | None = 0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class GraphChanges:
    """How many graphs are the same, and all others."""

    same: int
    pairs: tuple[GraphPair, ...]

    def of(self, change: str) -> tuple[GraphPair, ...]:
        """Those of one kind of change."""
        return tuple(pair for pair in self.pairs if pair.change == change)


@dataclass(frozen=True, slots=True)
class CauseChange:
    """A recompile cause or a finding at one place. ``change``: `appeared`, `gone` or `stayed`."""

    what: str
    """`recompile` or `finding`."""
    name: str
    change: str
    before_count: int
    now_count: int
    before_s: float | None
    now_s: float | None
    summary: str
    advice: str
    site: Site | None


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """One thing that the runs were started with and that differs. None: not set, or not recorded, there."""

    name: str
    before: str | None
    now: str | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of both runs. ``unit``: `count`, `number`, `s`, `ms` or `percent`. ``scope``: what it is counted over,
    the `steady` steps after the warm-up or the whole `run`.
    """

    name: str
    unit: str
    before: float | None
    now: float | None
    scope: str = "run"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that the tool concludes about run ``now`` against run ``before``."""

    before: ComparedRun
    now: ComparedRun
    verdict: Judgement
    step_time: StepTime
    states: tuple[StatePart, ...]
    graphs: GraphChanges
    causes: tuple[CauseChange, ...]
    environment: tuple[EnvironmentDifference, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values; the first key is ``schema``."""
        return {"schema": COMPARISON_SCHEMA, **asdict(self)}


@dataclass(frozen=True, slots=True)
class TrendRow:
    """One run of several. ``against_first`` and ``against_previous`` are the judgements; None for the first run."""

    run: ComparedRun
    figures: tuple[Figure, ...]
    """``now`` is this run, ``before`` the one listed before it."""
    step_ms: float | None
    against_first: Judgement | None
    against_previous: Judgement | None


@dataclass(frozen=True, slots=True)
class Trend:
    """Several runs in the order they were given."""

    rows: tuple[TrendRow, ...] = field(default_factory=tuple)

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {"schema": COMPARISON_SCHEMA, **asdict(self)}
