"""What every finding rule may look at, and how severe a cost is."""

from __future__ import annotations

from dataclasses import dataclass

from xla_insight.analysis.recompiles import Explained, GraphLibrary
from xla_insight.analysis.tables import Process, RunTables
from xla_insight.facts import numbers
from xla_insight.facts.report import GraphFacts, Severity, StepFacts, TimeFacts

CRITICAL_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Context:
    """The tables of a run and the totals over them. ``main`` is the process that speaks for the run."""

    tables: RunTables
    graphs: GraphFacts
    steps: StepFacts
    time: TimeFacts
    main: Process | None
    explained: tuple[Explained, ...] = ()
    """Every compile with its cause."""
    library: GraphLibrary | None = None
    """The graphs that were kept."""

    def share_of_wall(self, seconds: float) -> float:
        """``seconds``, summed over all processes, as a share (0 to 1) of their wall time; 0 when that is unknown."""
        wall_s = self.time.wall_s * max(1, len(self.tables.processes))
        return seconds / wall_s if wall_s > 0 else 0.0

    def percent_of_wall(self, seconds: float) -> str:
        """`share_of_wall` in words."""
        return numbers.share(self.share_of_wall(seconds), 1) if self.time.wall_s > 0 else numbers.NOT_MEASURED

    def severity(self, seconds: float, *, warns: bool = True) -> Severity:
        """Critical from 30 % of wall time on; else a warning, or info when it does not deserve one."""
        if self.share_of_wall(seconds) >= CRITICAL_SHARE:
            return Severity.CRITICAL
        return Severity.WARNING if warns else Severity.INFO
