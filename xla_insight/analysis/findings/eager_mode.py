"""Finding `eager_mode`: operations are compiled and run one by one, so nothing is fused."""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.recompiles.history import eager_processes
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity


def eager_mode(context: Context) -> tuple[Finding, ...]:
    """At most one finding: every compile of the run was that of a single operation."""
    compiles, executions = context.tables["compiles"], context.tables["executions"]
    if compiles.empty or set(compiles["process"]) - eager_processes(compiles):
        return ()
    cost_s = float(compiles["duration_ns"].sum()) / 1e9
    return (
        Finding(
            id="eager_mode",
            severity=Severity.WARNING,
            site=None,
            user_site=None,
            count=len(executions),
            cost_s=cost_s,
            summary=(
                f"Eager mode is on: {numbers.plural(context.graphs.executions, 'operation')} ran one at a time,"
                f" {numbers.count(context.graphs.compiles)} of them after a compile of their own; no step is one graph."
            ),
            advice="Switch eager mode off, or wrap the step in the framework's compile function.",
            details={"compiles": len(compiles), "executions": context.graphs.executions},
        ),
    )
