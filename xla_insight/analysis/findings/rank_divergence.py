"""Finding `rank_divergence`: processes of one job cut different graphs at the same sync; collectives would hang there.

Owns what is said about the first sync at which ranks part, and what makes the graphs differ when both were kept: a
line, or flags and versions under which the same computation is another graph (`compiler_env`; within one process the
framework reads them once, so no recompile has this cause). Leaves finding that sync to ``rank_syncs``.
"""

from __future__ import annotations

from xla_insight.analysis.environment import Setting, key_differences
from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.rank_syncs import Cut, compared_ranks, parting
from xla_insight.analysis.tables import Process
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity, Site
from xla_insight.graph.diff import compare
from xla_insight.graph.differences import GraphDiff
from xla_insight.graph.model import Frame
from xla_insight.graph.roots import site_of

_NAMED = 3


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
    difference = _difference(context, cuts)
    frame, what = _line(difference)
    environment = _environment(ranks, difference)
    place = cuts[0].place
    at = "" if cuts[0].step is None else f" (step {cuts[0].step})"
    line = f" The graphs part at {numbers.place(frame.file, frame.line)}{what}." if frame is not None else ""
    if environment:
        line = f" They are the same computation under another environment: {environment}."
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
            "Start every rank with the same flags and versions: put them where all hosts read them, or into the command"
            " that starts the job."
            if environment
            else "Let every rank trace the same operations: take rank-dependent values into account with torch.where or"
            " as inputs, and only print or log on one rank."
        ),
        details={
            "sync": index,
            "step": cuts[0].step,
            "cause": "compiler_env" if environment else None,
            "graphs": {str(rank.rank): cut.graph for rank, cut in zip(ranks, cuts, strict=True)},
        },
    )


def _difference(context: Context, cuts: tuple[Cut, Cut]) -> GraphDiff | None:
    """What differs between two graphs; None when one of them was not kept."""
    library = context.library
    before, after = (library.prepared(cut.graph) if library else None for cut in cuts)
    return None if before is None or after is None else compare(before, after)


def _environment(ranks: tuple[Process, Process], difference: GraphDiff | None) -> str:
    """Which settings differ between two ranks that run the same computation; empty when that is not why they part."""
    if difference is None or not difference.same_computation:
        return ""
    found = key_differences(*(Setting(rank, 0, ()) for rank in ranks))
    return "; ".join(
        f"{part.name} has {part.before or 'nothing else'} on rank {ranks[0].rank} and {part.now or 'nothing else'} on"
        f" rank {ranks[1].rank}"
        for part in found[:_NAMED]
    )


def _line(difference: GraphDiff | None) -> tuple[Frame | None, str]:
    """The line of the earliest difference between two graphs, and what is there."""
    roots = [] if difference is None else [root for root in difference.roots if root.stack]
    if not roots:
        return None, ""
    root = next((r for r in roots if not r.stack_inferred), roots[0])
    return site_of(root.stack), f" ({root.op_type.replace('__', '::', 1)})" if root.op_type else ""
