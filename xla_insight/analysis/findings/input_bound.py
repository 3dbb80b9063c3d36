"""Finding `input_bound`: the training thread waits for batches for a large part of the run."""

from __future__ import annotations

import numpy as np

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.tables import NOWHERE
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Severity

WAITING_SHARE = 0.3


def input_bound(context: Context) -> tuple[Finding, ...]:
    """At most one finding: for more than 30 % of wall host and device wait for input, and longer than for compiling."""
    waited_s = context.time.host.get(HostState.INPUT_WAIT, 0.0)
    # What the loader takes while the device is at work costs nothing.
    cost_s = context.time.device_idle_by_host_state.get(HostState.INPUT_WAIT, waited_s)
    if context.share_of_main(cost_s) <= WAITING_SHARE or waited_s <= context.time.host.get(HostState.COMPILE, 0.0):
        return ()
    assert context.main is not None  # no time is accounted for without a process
    spans = context.tables.of("spans", context.main.index)
    waits = spans[(spans["kind"] == "input_wait").to_numpy(dtype=np.bool_)]
    longest = waits.loc[waits["duration_ns"].idxmax()]
    place = context.tables.place(context.main.index, longest["site"]) if "site" in waits else NOWHERE
    return (
        Finding(
            id="input_bound",
            severity=Severity.CRITICAL if context.share_of_main(cost_s) > 0.5 else Severity.WARNING,
            site=place.site,
            user_site=place.user_site,
            count=len(waits),
            cost_s=cost_s,
            summary=(
                f"The training thread waits for input for {numbers.duration(waited_s)},"
                f" {numbers.share(waited_s, context.time.wall_s)} of wall, in {numbers.plural(len(waits), 'wait')}"
                f"{_idle(context, cost_s)}."
            ),
            advice="More loader workers, prefetching to the device, or cheaper work for each sample.",
            details={"loaders": {str(name): int(n) for name, n in waits["name"].value_counts().items()}},
        ),
    )


def _idle(context: Context, cost_s: float) -> str:
    if context.time.device_busy_s is None:
        return ""
    return f"; the device has nothing to run for {numbers.duration(cost_s, inferred=True)} of it"
