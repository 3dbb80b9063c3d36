"""Finding `rank_divergence`: processes of one job cut different graphs at the same sync; collectives would hang there.

Owns what is said about the first sync at which ranks part, and the line that makes the graphs differ when both were
kept. Leaves finding that sync to ``rank_syncs``.
"""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.rank_syncs import Cut, compared_ranks, parting
from xla_insight.analysis.tables import Process
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity, Site
from xla_insight.graph.diff import compare
from xla_insight.graph.differences import GraphDiff
from xla_insight.graph.model import Frame
from xla_insight.graph.roots import site_of


def rank_divergence(context: Context) -> tuple[Finding, ...]:
    """At most one finding: the first sync at which some rank differs from the first rank."""
    ranks = compared_ranks(context.tables)
    found = parting(ranks)
    if found is None:
        return ()
    index, other = found
    cuts = ranks[0].cut(index), other.cut(index)
    return (_finding(context, (ranks[0].process, other.process), cuts, index),)


def _finding(context: Context, ranks: tuple[Process, Process], cuts: tuple[Cut, Cut], index: int) -> Finding:
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


def _difference(context: Context, cuts: tuple[Cut, Cut]) -> tuple[Frame | None, str]:
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
