"""Finding `checkpoint_stall`: the training thread saves while the device waits, or saving runs graphs of its own."""

from __future__ import annotations

import numpy as np

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.host_sync import inside_checkpoints
from xla_insight.analysis.intervals import union
from xla_insight.analysis.tables import NOWHERE, spans_of
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding

WARNING_SHARE = 0.05
NOTABLE_SHARE = 0.01
NOTABLE_READS = 3


def checkpoint_stall(context: Context) -> tuple[Finding, ...]:
    """At most one finding: all checkpoints of the process that speaks for the run."""
    tables, main = context.tables, context.main
    if main is None:
        return ()
    spans = tables.of("spans", main.index)
    saves = spans[(spans["kind"] == "checkpoint").to_numpy(dtype=np.bool_)]
    if saves.empty:
        return ()
    outer = union(spans_of(saves))
    cost_s = int((outer.ends - outer.starts).sum()) / 1e9
    share = context.share_of_wall(cost_s)
    reads = tables.of("reads", main.index)
    reads = reads[inside_checkpoints(tables, reads)]
    running = int((reads["executions"] > 0).sum())
    if share < NOTABLE_SHARE and running < NOTABLE_READS:
        return ()
    longest = saves.loc[saves["duration_ns"].idxmax()]
    place = tables.place(main.index, longest["site"]) if "site" in saves else NOWHERE
    count = len(outer.starts)
    text = (
        f"{numbers.plural(count, 'checkpoint')} took {numbers.duration(cost_s)} of the training thread"
        f" ({numbers.share(cost_s, context.time.wall_s)} of wall)"
    )
    if running:
        text += f"; {numbers.plural(running, 'read')} while saving had to run a graph each"
    return (
        Finding(
            id="checkpoint_stall",
            severity=context.severity(cost_s, warns=share >= WARNING_SHARE),
            site=place.site,
            user_site=place.user_site,
            count=count,
            cost_s=cost_s,
            summary=text + ".",
            advice="Cut the graph before copying tensors to the host, save less often, or write from another thread.",
            details={"reads": len(reads), "reads_that_ran_a_graph": running},
        ),
    )
