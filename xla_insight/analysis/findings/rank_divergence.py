"""Finding `rank_divergence`: processes of one job cut different graphs at the same sync; collectives would hang there.

Owns finding the first sync at which ranks part. Compares only syncs that every rank makes, among processes whose lives
overlap, and says which line makes the graphs differ when both were kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.tables import Place, Process
from xla_insight.facts import numbers
from xla_insight.facts.events import Trigger
from xla_insight.facts.report import Finding, Severity, Site
from xla_insight.graph.diff import compare
from xla_insight.graph.differences import GraphDiff
from xla_insight.graph.model import Frame
from xla_insight.graph.roots import site_of

_PARTIAL = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)


@dataclass(frozen=True, slots=True)
class _Cut:
    graph: str
    place: Place
    step: int | None

    @property
    def line(self) -> tuple[str, int]:
        site = self.place.user_site or self.place.site
        return (site.file, site.line) if site else ("", 0)


def rank_divergence(context: Context) -> tuple[Finding, ...]:
    """At most one finding: the first sync at which some rank differs from the first rank."""
    ranks = _ranks(context)
    if len(ranks) < 2:
        return ()
    (reference, ours), *others = [(process, _cuts(context, process)) for process in ranks]
    parted = [
        (index, other, theirs) for other, theirs in others if (index := _first_difference(ours, theirs)) is not None
    ]
    if not parted:
        return ()
    index, other, theirs = min(parted, key=lambda found: found[0])
    return (_finding(context, (reference, other), (ours[index], theirs[index]), index),)


def _ranks(context: Context) -> list[Process]:
    """One process of each rank, all alive at the same time as the first."""
    found: dict[int, Process] = {}
    for process in context.tables.processes:
        known = found.get(process.rank)
        first = next(iter(found.values()), process)
        overlaps = process.start_ns < first.end_ns and first.start_ns < process.end_ns
        if known is None and overlaps:
            found[process.rank] = process
    return [found[rank] for rank in sorted(found)]


def _cuts(context: Context, process: Process) -> list[_Cut]:
    syncs = context.tables.of("syncs", process.index)
    ran = syncs[~syncs["trigger"].isin(_PARTIAL) & (syncs["executions"].fillna(0) > 0) & syncs["graph"].notna()]
    return [
        _Cut(
            str(row.graph),
            context.tables.place(process.index, row.site),
            None if row.step != row.step else int(row.step),
        )
        for row in ran.itertuples(index=False)
    ]


def _first_difference(ours: list[_Cut], theirs: list[_Cut]) -> int | None:
    """The first sync at one line with two graphs; None when there is none, or the ranks sync at other lines."""
    for index, (x, y) in enumerate(zip(ours, theirs, strict=False)):
        if x.line != y.line:
            return None
        if x.graph != y.graph:
            return index
    return None


def _finding(context: Context, ranks: tuple[Process, Process], cuts: tuple[_Cut, _Cut], index: int) -> Finding:
    frame, what = _difference(context, cuts)
    place = cuts[0].place
    at = "" if cuts[0].step is None else f" (step {cuts[0].step})"
    line = f" The graphs part at {numbers.place(frame.file, frame.line)}{what}." if frame is not None else ""
    site = Site(frame.file, frame.line, frame.function) if frame is not None else place.site
    return Finding(
        id="rank_divergence",
        severity=Severity.CRITICAL,
        site=site,
        user_site=place.user_site,
        count=1,
        cost_s=None,
        summary=(
            f"Ranks {ranks[0].rank} and {ranks[1].rank} run different graphs from sync {index}{at} on, cut at"
            f" {numbers.where(place.site, place.user_site)}.{line}"
        ),
        advice=(
            "Let every rank trace the same operations: take rank-dependent values into account with torch.where or as"
            " inputs, and only print or log on one rank."
        ),
        details={
            "sync": index,
            "step": cuts[0].step,
            "graphs": {str(rank.rank): cut.graph for rank, cut in zip(ranks, cuts, strict=True)},
        },
    )


def _difference(context: Context, cuts: tuple[_Cut, _Cut]) -> tuple[Frame | None, str]:
    """The line of the earliest difference between two graphs, and what is there."""
    library = context.library
    before, after = (library.prepared(cut.graph) if library else None for cut in cuts)
    if before is None or after is None:
        return None, ""
    difference: GraphDiff = compare(before, after)
    roots = [root for root in difference.roots if root.stack]
    if not roots:
        return None, ""
    root = next((r for r in roots if not r.stack_inferred), roots[0])
    return site_of(root.stack), f" ({root.op_type.replace('__', '::', 1)})" if root.op_type else ""
