"""Finding `input_bound`: the training thread waits for batches for a large part of the run."""

from __future__ import annotations

import numpy as np

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.tables import NOWHERE
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Severity

WAITING_SHARE = 0.3


def input_bound(context: Context) -> tuple[Finding, ...]:
    """At most one finding: more than 30 % of wall spent waiting for input, and more than for compiling."""
    waited_s = context.time.host.get(HostState.INPUT_WAIT, 0.0)
    if context.share_of_wall(waited_s) <= WAITING_SHARE or waited_s <= context.time.host.get(HostState.COMPILE, 0.0):
        return ()
    assert context.main is not None  # no time is accounted for without a process
    spans = context.tables.of("spans", context.main.index)
    waits = spans[(spans["kind"] == "input_wait").to_numpy(dtype=np.bool_)]
    longest = waits.loc[waits["duration_ns"].idxmax()]
    place = context.tables.place(context.main.index, longest["site"]) if "site" in waits else NOWHERE
    return (
        Finding(
            id="input_bound",
            severity=Severity.CRITICAL if context.share_of_wall(waited_s) > 0.5 else Severity.WARNING,
            site=place.site,
            user_site=place.user_site,
            count=len(waits),
            cost_s=waited_s,
            summary=(
                f"The training thread waits for input for {numbers.duration(waited_s)},"
                f" {numbers.share(waited_s, context.time.wall_s)} of wall, in {numbers.plural(len(waits), 'wait')}."
            ),
            advice="More loader workers, prefetching to the device, or cheaper work for each sample.",
            details={"loaders": {str(name): int(n) for name, n in waits["name"].value_counts().items()}},
        ),
    )
