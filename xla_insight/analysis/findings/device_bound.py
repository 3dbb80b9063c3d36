"""Finding `device_bound`: the device is busy nearly all of the time. Good news, so never above information."""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.steady import steady_state
from xla_insight.analysis.findings.transfer_bound import UNSEEN_SHARE, transfers_s
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity

BUSY_SHARE = 0.9


def device_bound(context: Context) -> tuple[Finding, ...]:
    """At most one finding: in the steady state the device is busy 90 % of the time or more."""
    period = steady_state(context)
    if period is None or period.device_busy_s is None or period.device_busy_s < BUSY_SHARE * period.wall_s:
        return ()
    moved_s, idle_s = transfers_s(context, period)
    if idle_s is None and moved_s >= UNSEEN_SHARE * period.wall_s:  # it may be waiting for its inputs
        return ()
    return (
        Finding(
            id="device_bound",
            severity=Severity.INFO,
            site=None,
            user_site=None,
            count=period.steps,
            cost_s=0.0,
            summary=(
                f"Healthy: in the steady state the device is busy"
                f" {numbers.share(period.device_busy_s, period.wall_s, inferred=True)} of the time."
            ),
            advice="To go faster, give the device less to do (lower precision, fewer operations) or use more of them.",
            details={"device_busy_s": period.device_busy_s, "steady_s": period.wall_s},
        ),
    )
