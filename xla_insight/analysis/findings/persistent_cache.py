"""Finding `persistent_cache_unusable`: a compile cache on disk is configured and never gives anything back."""

from __future__ import annotations

import itertools

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.tables import Process
from xla_insight.analysis.totals import counted
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity


def persistent_cache_unusable(context: Context) -> tuple[Finding, ...]:
    """At most one finding: entries fail to load, or processes one after another miss without a single hit."""
    tables = context.tables
    failures = counted(tables, "persistent_failures") or 0
    hits = counted(tables, "persistent_hits") or 0
    misses = counted(tables, "persistent_misses") or 0
    using = [
        p
        for p in tables.processes
        if counted(tables, "persistent_misses", p.index) or counted(tables, "persistent_failures", p.index)
    ]
    missing = [p for p in tables.processes if counted(tables, "persistent_misses", p.index)]
    if not failures and (hits or not _one_after_another(missing)):
        return ()
    if failures:
        summary = (
            f"The persistent cache cannot be read back: {numbers.plural(failures, 'entry', 'entries')} failed to load"
            f" and had to be compiled again ({numbers.plural(hits, 'hit')},"
            f" {numbers.plural(misses, 'miss', 'misses')})."
        )
        advice = (
            "This backend cannot load what it wrote: switch the persistent cache off here, or keep one cache for each"
            " framework version and device type."
        )
    else:
        summary = (
            f"{numbers.plural(len(missing), 'process', 'processes')} ran one after another with a persistent cache and"
            f" none found anything in it ({numbers.plural(misses, 'miss', 'misses')}, 0 hits)."
        )
        advice = (
            "Compare what the key is made of between the runs: framework version, compiler flags, debug variables,"
            " number of devices; and check that all use the same folder."
        )
    details = {"failures": failures, "misses": misses, "hits": hits, "processes": len(missing)}
    compiles = tables["compiles"]
    cost_s = float(compiles[compiles["process"].isin([p.index for p in using])]["duration_ns"].sum()) / 1e9
    return (
        Finding("persistent_cache_unusable", Severity.WARNING, None, None, failures or misses, cost_s, summary, advice,
                details),
    )  # fmt: skip


def _one_after_another(processes: list[Process]) -> bool:
    ordered = sorted(processes, key=lambda p: p.start_ns)
    return any(later.start_ns >= earlier.end_ns for earlier, later in itertools.pairwise(ordered))
