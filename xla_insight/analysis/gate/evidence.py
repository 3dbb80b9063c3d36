"""What the checks look at: the report of a run, its tables, and the comparison with a baseline when one is asked for.

Owns which compiles and reads come after the warm-up that a budget grants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from xla_insight.analysis import analyze
from xla_insight.analysis.compare import compare_sides, load_side
from xla_insight.analysis.findings.reads import Role, classified_reads
from xla_insight.analysis.recompiles.history import began_late
from xla_insight.analysis.tables import RunTables, load_tables
from xla_insight.facts.budget import Budget
from xla_insight.facts.comparison import Comparison
from xla_insight.facts.report import Member, Recompile, Report, Site

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

FIRST_GRAPH = "first_graph"


@dataclass(frozen=True)
class Evidence:
    """All that a check may use. ``comparison`` is None without a baseline."""

    budget: Budget
    report: Report
    tables: RunTables
    comparison: Comparison | None = None
    told: set[tuple[str, str]] = field(default_factory=set)
    """(cause, sentence) of the causes that a broken limit has told in full."""

    @property
    def is_empty(self) -> bool:
        """Whether no graph ran at all."""
        return not self.report.graphs.executions and not self.report.graphs.compiles

    @property
    def no_steps(self) -> bool:
        """Whether the budget speaks of steps and the run has none."""
        return len(self.tables["steps"]) == 0

    @property
    def unnamed_executions(self) -> bool:
        """Whether graphs ran in a process whose recording could not learn their names, so that none can be counted."""
        blind = {process.index for process in self.tables.processes if not _names_graphs(process.facts)}
        executions = self.tables["executions"]
        return bool((executions["process"].isin(blind) & executions["graph"].isna()).any())

    def surprises(self) -> list[tuple[Recompile, int]]:
        """Entries of compiles that are not expected, with how many of each come after the warm-up; most first."""
        counted = [(entry, self._after(entry)) for entry in self.report.recompiles]
        return sorted((pair for pair in counted if pair[1]), key=lambda pair: (-pair[1], -pair[0].compile_s))

    def _after(self, entry: Recompile) -> int:
        after = self.budget.after_step
        if after is None or not entry.members:
            return 0 if entry.expected else entry.count
        return sum(self._is_late(member, after) for member in entry.members if self._surprises(entry, member))

    def _is_late(self, member: Member, after: int) -> bool:
        # Compiles without a step come after the last one: the first step begins with the recording.
        return member.step is None or member.step > after

    def _surprises(self, entry: Recompile, member: Member) -> bool:
        """Whether a compile is a recompile. A recording may begin when the cache is warm: then the first graph that is
        compiled at a place is not the first one that ran there.
        """
        if not entry.expected:
            return True
        return entry.cause == FIRST_GRAPH and entry.site is not None and self._ran_earlier(entry.site, member)

    def _ran_earlier(self, site: Site, member: Member) -> bool:
        return member.step is not None and self._first_uses.get((member.process, site), member.step) < member.step

    @cached_property
    def _first_uses(self) -> dict[tuple[int, Site], int]:
        """(process, place) -> the first step in which a graph ran there that this recording never saw compiled."""
        hits = self._warm_syncs
        first: dict[tuple[int, Site], int] = {}
        for row in hits.groupby(["process", "site"], observed=True)["step"].min().reset_index().itertuples(index=False):
            place = self.tables.place(int(row.process), row.site).site
            if place is not None:
                key = (int(row.process), place)
                first[key] = min(int(row.step), first.get(key, int(row.step)))
        return first

    @cached_property
    def _warm_syncs(self) -> pd.DataFrame:
        """Syncs in steps that ran a graph which this recording never saw compiled."""
        syncs, compiles = self.tables["syncs"], self.tables["compiles"]
        compiled = set(zip(compiles["process"], compiles["graph"].astype(object), strict=True))
        hits = syncs[
            (syncs["executions"] > 0) & (syncs["compiles"] == 0) & syncs["step"].notna() & syncs["graph"].notna()
        ]
        warm = [key not in compiled for key in zip(hits["process"], hits["graph"].astype(object), strict=True)]
        return hits[np.array(warm, dtype=np.bool_)]

    def compiled_before(self, *, late: bool = False) -> list[tuple[str, Site | None]]:
        """(graph, where it ran first) of graphs that had been compiled in memory before the recording began; ``late``:
        those that first ran after the warm-up. Empty for recordings that saw the first graph of their process.
        """
        late_starts = {process.index for process in self.tables.processes if began_late(process.facts)}
        after = self.budget.after_step or 0
        found = self._warm_syncs[self._warm_syncs["process"].isin(late_starts)].sort_values("step", kind="stable")
        firsts = found.drop_duplicates(["process", "graph"])
        return [
            (str(row.graph), self.tables.place(int(row.process), row.site).site)
            for row in firsts.itertuples(index=False)
            if not late or int(row.step) > after
        ]

    def late_steps(self) -> pd.DataFrame:
        """The steps after the warm-up, of all processes."""
        steps = self.tables["steps"]
        return steps if self.budget.after_step is None else steps[steps["step"] > self.budget.after_step]

    def late_reads(self) -> pd.DataFrame:
        """The reads of these steps that are part of training (not of a step closure or a checkpoint)."""
        reads = classified_reads(self.tables).of(Role.TRAINING)
        reads = reads[reads["step"].notna()]
        return reads if self.budget.after_step is None else reads[reads["step"] > self.budget.after_step]


def _names_graphs(facts: Mapping[str, Any]) -> bool:
    capabilities = facts.get("capabilities")
    return not isinstance(capabilities, Mapping) or capabilities.get("graph_hash") is not False


def gather(run: Run, budget: Budget) -> Evidence:
    """Analyse the run and, when the budget names one, its baseline."""
    tables = load_tables(run)
    report = analyze(run, tables)
    comparison = None
    if budget.baseline is not None:
        from xla_insight.store.reader import open_run

        with open_run(budget.baseline) as baseline:
            comparison = compare_sides(load_side(baseline), load_side(run, tables, report))
    return Evidence(budget, report, tables, comparison)
