"""Finding `trace_bound`: the host needs about as long to trace a step as the device needs to run it, or longer."""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.steady import settled, steady_state
from xla_insight.analysis.host_lines import most_of_it
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Severity

WITHIN_SHARE = 0.05
"""Tracing this close to the device's time counts: at the same length the slightest hiccup leaves the device idle."""
IDLE_SHARE = 0.1


def trace_bound(context: Context) -> tuple[Finding, ...]:
    """At most one finding: in the steady state tracing takes about as long as the device or longer, and it starves."""
    period = steady_state(context)
    if period is None or period.device_busy_s is None:
        return ()
    traced_s = period.host.get(HostState.TRACE, 0.0)
    idle_s = period.device_idle_by_host_state.get(HostState.TRACE, 0.0)
    if traced_s < (1 - WITHIN_SHARE) * period.device_busy_s or idle_s < IDLE_SHARE * period.wall_s:
        return ()
    if traced_s < max(period.host.values()):
        return ()
    traced, busy = (numbers.duration(s / period.steps, inferred=True) for s in (traced_s, period.device_busy_s))
    lines = most_of_it(context.time.host_lines)
    at = f", {lines}" if lines else ""
    shown = "" if context.time.host_lines else " (a Python profiler shows them)"
    return (
        Finding(
            id="trace_bound",
            severity=Severity.WARNING if settled(period) else Severity.INFO,
            site=None,
            user_site=None,
            count=period.steps,
            cost_s=idle_s,
            summary=(
                f"Python and tracing take {traced} a step and the device {busy}: it has nothing to run for"
                f" {numbers.share(idle_s, period.wall_s, inferred=True)} of the steady state"
                f" ({numbers.duration(idle_s, inferred=True)}) while the host runs Python and traces{at}."
            ),
            advice=(
                f"Keep other Python work out of the step: operations on the CPU, metrics, logging{shown}. Then give the"
                " device more work for each traced operation: a larger batch, several steps in one graph, layers traced"
                " once (scan), or the step compiled as one function."
            ),
            details={"trace_s": traced_s, "device_busy_s": period.device_busy_s, "steady_steps": period.steps},
        ),
    )
