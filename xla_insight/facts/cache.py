"""A persistent compile cache as frozen records: its entries, why a run missed it, what a clean-up would take.

Owns the words for layouts, states and reasons. Leaves finding them to ``analysis.cache``. ``None`` means not known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

CACHE_SCHEMA = 1


class Layout(StrEnum):
    """Whose cache an entry belongs to."""

    TORCH_XLA = "torch_xla"
    JAX = "jax"
    NEURON = "neuron"


class State(StrEnum):
    """What is known of an entry."""

    USED = "used"
    """A recorded run has this graph."""
    ORPHAN = "orphan"
    """No recorded run has this graph."""
    OTHER_ENVIRONMENT = "other_environment"
    """Built by another version than the newest one here, or only for runs of another version."""
    FAILED = "failed"
    """The compiler left a log and no program."""
    LOCKED = "locked"
    """A compiler holds it, or was killed while it did."""
    TORN = "torn"
    """Empty or cut off."""
    UNJOINED = "unjoined"
    """Its name says nothing that a recording knows (JAX and Neuron name entries by keys of their own)."""


PRUNABLE = (State.ORPHAN, State.OTHER_ENVIRONMENT, State.TORN, State.FAILED, State.LOCKED)
"""States that an entry may be deleted for."""


class Entry(NamedTuple):
    """One entry as its folder shows it, small since there can be a million."""

    layout: Layout
    name: str
    size: int
    modified_unix_s: float
    used_unix_s: float | None = None
    """When it was last used, where the cache keeps that (JAX with a size limit)."""
    version: str | None = None
    damage: State | None = None
    parts: tuple[str, ...] = ()
    """Its files below the folder, unless it is the one file that has its name."""

    @property
    def files(self) -> tuple[str, ...]:
        """All files that belong to it, below the folder."""
        return self.parts or (self.name,)

    @property
    def key(self) -> str:
        """torch_xla: the graph's hash in hex; JAX: name and hash of the module; Neuron: its hash and flags."""
        if self.layout is Layout.TORCH_XLA:
            return f"{int(self.name):x}"
        return self.name.rsplit("/", 1)[-1].removeprefix("MODULE_")

    @property
    def last_use_unix_s(self) -> float:
        """When it was last used, as far as that is known: at least when it was written."""
        used = self.used_unix_s
        return self.modified_unix_s if used is None else max(self.modified_unix_s, used)


class JoinedEntry(NamedTuple):
    """An entry and what recorded runs say of its graph. ``compile_s``: what one load saves; None when not recorded."""

    entry: Entry
    state: State
    runs: tuple[str, ...] = ()
    command: str = ""
    first_step: int | None = None
    compile_s: float | None = None
    executions: int = 0
    loads: int = 0
    """Times that recorded runs took it from a cache instead of compiling."""
    loaded_unix_s: float | None = None
    """When the last of those runs started."""

    @property
    def last_use_unix_s(self) -> float:
        """When it was last used, as far as that is known: by its folder, or by a recorded run."""
        own = self.entry.last_use_unix_s
        return own if self.loaded_unix_s is None else max(own, self.loaded_unix_s)

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values."""
        entry = self.entry._asdict() | {"key": self.entry.key, "files": list(self.entry.files)}
        del entry["parts"]
        entry["last_use_unix_s"] = self.last_use_unix_s
        return {**entry, **{name: value for name, value in self._asdict().items() if name != "entry"}}


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """One folder. ``saves_s`` is what a start that loads every joined entry saves, over ``known_costs`` entries."""

    path: str
    layouts: tuple[str, ...]
    entries: int
    size: int
    foreign: int
    """Files that are no cache entry."""
    states: dict[str, int]
    saves_s: float | None
    known_costs: int
    loads: int
    oldest_unix_s: float | None
    newest_unix_s: float | None
    in_use: str | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {"schema": CACHE_SCHEMA, **asdict(self)}


class MissReason(StrEnum):
    """Why a run compiled a graph instead of loading it."""

    NEVER_BUILT = "never_built"
    OTHER_ENVIRONMENT = "other_environment"
    OTHER_GRAPH = "other_graph"
    UNREADABLE = "unreadable"
    OTHER_FOLDER = "other_folder"
    READ_ONLY = "read_only"
    """An earlier run built it and was not allowed to keep it."""
    NO_CACHE = "no_cache"
    GONE = "gone"
    """An earlier run built it; it is not in the folder any more, or never got there."""


@dataclass(frozen=True, slots=True)
class Miss:
    """One graph that a run compiled."""

    graph: str | None
    reason: MissReason
    sentence: str
    compile_s: float | None
    in_cache: bool


@dataclass(frozen=True, slots=True)
class CacheExplanation:
    """What a run took from a cache, why it compiled the rest, and what a start with this folder would do."""

    run: str
    cache: str
    loads: int
    misses: tuple[Miss, ...]
    graphs: int
    present: int
    saves_s: float
    would_compile: int
    would_compile_s: float | None
    summary: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {"schema": CACHE_SCHEMA, **asdict(self)}


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What a clean-up takes and what it costs to build that again. ``reasons``: entry name -> why it goes."""

    path: str
    chosen: tuple[JoinedEntry, ...]
    reasons: dict[str, str]
    size: int
    rebuild_s: float | None
    unknown_costs: int
    kept: int
    kept_size: int
    in_use: str | None


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What was deleted. ``skipped``: what was not, and why."""

    deleted: int
    size: int
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HitRate:
    """The in-memory cache at one size: executions that would find their graph, and those that would compile it."""

    size: int
    hits: int
    compiles: int
    evicted_compiles: int
    """Compiles of graphs that had been there before."""


@dataclass(frozen=True, slots=True)
class MemoryCache:
    """The in-memory cache (least recently used) over its size, simulated from the executions in their order."""

    executions: int
    distinct: int
    rates: tuple[HitRate, ...]
    enough: int
    """The smallest size at which nothing is compiled twice."""
    recorded_size: int | None
    recorded_compiles: int


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a run had of its caches, over all processes. ``folder`` is None when no persistent cache is known of."""

    compiles: int
    compile_s: float
    hits: int
    """Executions that found their graph in memory."""
    loads: int
    misses: int
    failures: int
    evictions: int
    folder: str | None
    read_only: bool
    memory: MemoryCache
    summary: str
