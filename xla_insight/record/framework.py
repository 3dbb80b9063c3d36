"""What the recorder needs from outside: a framework to read and a log to write to, as plain protocols.

Owns the two interfaces. ``torch_xla`` fills the first, ``store.writer`` the second; tests fill both by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from xla_insight.facts.events import Event
from xla_insight.record.profiler import Session
from xla_insight.record.samples import ReadMetric


class Writer(Protocol):
    """What the recorder needs of ``store.writer.RunWriter``; none of it raises OSError."""

    lost: dict[str, int]
    last_error: str | None

    def append(self, events: list[Event]) -> None:
        """Add events to the part being filled."""

    def flush(self) -> None:
        """Write what was appended to disk."""

    def write_graph(self, graph: str, content: bytes, suffix: str = ...) -> int | None:
        """Store a graph, compressed (its HLO, unless ``suffix`` says otherwise); its size, None when that failed."""

    def write_window(self, name: str, content: bytes) -> int | None:
        """Store the session of a device window, compressed; its size, None when that failed."""

    def touch(self) -> None:
        """Show readers that this process is alive although there is nothing to write."""

    def close(self, **facts: Any) -> None:
        """Close the part and write the final facts of the process."""


@dataclass(frozen=True)
class Framework:
    """What the recorder reads from the framework, and under which names. No call may cut a graph.

    Metrics hold one sample an event: ``*_metrics`` are times in ns, ``bytes_metrics`` sizes, by direction of transfer.
    """

    metric: ReadMetric
    counter: Callable[[str], int | None]
    counter_names: Callable[[], list[str]]
    eager: Callable[[], bool]
    """Whether operations run one by one now, instead of being collected into graphs."""
    hit_counter: str
    miss_counter: str
    fact_counters: Mapping[str, str]
    """Counter of the framework -> one of ``facts.events.FACT_COUNTERS``."""
    execute_metrics: tuple[str, ...]
    compile_metrics: tuple[str, ...]
    wait_metric: str
    tracing_metric: str
    transfer_metrics: Mapping[str, str]
    bytes_metrics: Mapping[str, str]
    session: Callable[[], Session]
    """Opens a profiler session: an XSpace with what the device runs in it, and the optimized HLO of every live program.
    Raises RuntimeError while another one is open."""
    lines: Callable[[bool], object]
    """Switches source lines in graphs on or off; changes no graph's key."""
    ignored_counters: tuple[str, ...]
    """Prefixes of counters that move with every operation and say nothing here."""

    @property
    def sample_metrics(self) -> tuple[str, ...]:
        """All metrics whose samples are followed."""
        sizes = tuple(self.bytes_metrics.values())
        times = tuple(self.transfer_metrics.values())
        return (*self.execute_metrics, *self.compile_metrics, *times, *sizes, self.wait_metric)
