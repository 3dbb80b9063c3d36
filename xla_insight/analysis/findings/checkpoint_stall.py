"""Finding `checkpoint_stall`: the training thread saves while the device waits, or saving runs graphs of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.analysis.checkpoint_facts import without_compiles_ns
from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.reads import Role, classified_reads
from xla_insight.analysis.intervals import joined, union
from xla_insight.analysis.tables import spans_of
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding

WARNING_SHARE = 0.05
NOTABLE_SHARE = 0.01
NOTABLE_READS = 3


def checkpoint_stall(context: Context) -> tuple[Finding, ...]:
    """At most one finding: all saving of the process that speaks for the run, by a function or tensor by tensor."""
    tables, main = context.tables, context.main
    if main is None:
        return ()
    spans = tables.of("spans", main.index)
    saves = spans[(spans["kind"] == "checkpoint").to_numpy(dtype=np.bool_)]
    reads = classified_reads(tables).of(Role.SAVING)
    reads = reads[(reads["process"] == main.index).to_numpy(dtype=np.bool_)]
    outer = union(joined((spans_of(saves), spans_of(reads))))
    if not len(outer.starts):
        return ()
    cost_s = without_compiles_ns(tables, main.index, outer) / 1e9
    share = cost_s / context.time.wall_s
    running = int((reads["executions"] > 0).sum())
    if share < NOTABLE_SHARE and running < NOTABLE_READS:
        return ()
    longest = pd.concat([saves, reads])[["duration_ns", "site"]].sort_values("duration_ns").iloc[-1]
    place = tables.place(main.index, longest["site"])
    return (
        Finding(
            id="checkpoint_stall",
            severity=context.severity(cost_s, warns=share >= WARNING_SHARE),
            site=place.site,
            user_site=place.user_site,
            count=len(outer.starts),
            cost_s=cost_s,
            summary=_summary(cost_s, context.time.wall_s, len(union(spans_of(saves)).starts), (len(reads), running)),
            advice="Cut the graph before copying tensors to the host, save less often, or write from another thread.",
            details={"reads": len(reads), "reads_that_ran_a_graph": running},
        ),
    )


def _summary(cost_s: float, wall_s: float, saves: int, reads: tuple[int, int]) -> str:
    copied, running = reads
    what = [numbers.plural(saves, "checkpoint")] if saves else []
    if copied:
        what.append(f"{numbers.plural(copied, 'copy', 'copies')} of tensors to the host")
    text = (
        f"{' with '.join(what)} took {numbers.duration(cost_s)} of the training thread"
        f" ({numbers.share(cost_s, wall_s)} of wall)"
    )
    return f"{text}; {numbers.plural(running, 'copy', 'copies')} had to run a graph first." if running else f"{text}."
