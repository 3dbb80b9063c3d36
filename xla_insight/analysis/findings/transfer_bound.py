"""Finding `transfer_bound`: the training thread spends much of the steady state moving tensors."""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.steady import idle_or_all_s, settled, steady_state
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Severity

NOTABLE_SHARE = 0.1
WARNING_SHARE = 0.2


def transfer_bound(context: Context) -> tuple[Finding, ...]:
    """At most one finding: a tenth or more of the steady state is spent on transfers that the device waits for."""
    period = steady_state(context)
    if period is None or context.main is None:
        return ()
    cost_s = idle_or_all_s(period, HostState.TRANSFER)
    share = cost_s / period.wall_s
    if share < NOTABLE_SHARE:
        return ()
    spans = context.tables.of("spans", context.main.index)
    moves = spans[(spans["kind"] == "transfer").to_numpy(dtype=bool) & spans["step"].ge(period.first_step)]
    return (
        Finding(
            id="transfer_bound",
            severity=Severity.WARNING if share >= WARNING_SHARE and settled(period) else Severity.INFO,
            site=None,
            user_site=None,
            count=len(moves),
            cost_s=cost_s,
            summary=(
                f"Moving tensors between host and device takes {numbers.duration(cost_s)} of the training thread while"
                f" the device has nothing to run, {numbers.share(cost_s, period.wall_s)} of the steady state."
            ),
            advice="Upload the next batch in the background, move fewer, larger tensors, keep results on the device.",
            details={"directions": {str(name): int(n) for name, n in moves["name"].value_counts().items()}},
        ),
    )
