"""Finding `input_bound`: the training thread waits for batches for a large part of the run."""

from __future__ import annotations

import numpy as np

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.steady import steady_state
from xla_insight.analysis.host_lines import WAITING_FOR_INPUT, host_lines, most_of_it
from xla_insight.analysis.tables import NOWHERE, Place
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Period, Severity, TimeFacts

WAITING_SHARE = 0.3


def input_bound(context: Context) -> tuple[Finding, ...]:
    """At most one finding: host and device wait for input more than 30 % of the time, and longer than for compiling.

    Judged in the steady state, where there is one: the compiles of the first steps say nothing about the loader.
    """
    steady = steady_state(context)
    share = _share(steady or context.time)
    if share <= WAITING_SHARE:
        return ()
    waited_s = context.time.host.get(HostState.INPUT_WAIT, 0.0)
    cost_s = _idle_s(context.time)
    assert context.main is not None  # no time is accounted for without a process
    spans = context.tables.of("spans", context.main.index)
    waits = spans[(spans["kind"] == "input_wait").to_numpy(dtype=np.bool_)]
    longest = waits.loc[waits["duration_ns"].idxmax()]
    place = context.tables.place(context.main.index, longest["site"]) if "site" in waits else NOWHERE
    return (
        Finding(
            id="input_bound",
            severity=Severity.CRITICAL if share > 0.5 else Severity.WARNING,
            site=place.site,
            user_site=place.user_site,
            count=len(waits),
            cost_s=cost_s,
            summary=(
                f"The training thread waits for input for {numbers.duration(waited_s)},"
                f" {numbers.share(waited_s, context.time.wall_s)} of wall{_after(steady)},"
                f" in {numbers.plural(len(waits), 'wait')}{_idle(context, cost_s)}{_where(context, steady, place)}."
            ),
            advice="More loader workers, prefetching to the device, or cheaper work for each sample.",
            details={"loaders": {str(name): int(n) for name, n in waits["name"].value_counts().items()}},
        ),
    )


def _where(context: Context, steady: Period | None, waiting: Place) -> str:
    """The lines that make the batches, where the training thread itself does; behind the loader they are not seen."""
    assert context.main is not None
    lines = host_lines(context.tables, context.main, steady, WAITING_FOR_INPUT)
    most = most_of_it([line for line in lines if line.site not in (waiting.site, waiting.user_site)])
    return f"; {most.replace(' of that', '')}" if most else ""


def _idle_s(time: TimeFacts | Period) -> float:
    """Waits in which the device has nothing to run; what the loader takes while the device is at work costs nothing."""
    source = time.host if time.device_busy_s is None else time.device_idle_by_host_state
    return source.get(HostState.INPUT_WAIT, 0.0)


def _share(time: TimeFacts | Period) -> float:
    """Share (0 to 1) of the time lost to the loader; 0 when compiling takes longer."""
    waited_s, compiled_s = (time.host.get(state, 0.0) for state in (HostState.INPUT_WAIT, HostState.COMPILE))
    return _idle_s(time) / time.wall_s if waited_s > compiled_s and time.wall_s > 0 else 0.0


def _after(steady: Period | None) -> str:
    if steady is None:
        return ""
    waited_s = steady.host.get(HostState.INPUT_WAIT, 0.0)
    return f" ({numbers.share(waited_s, steady.wall_s)} after warm-up)"


def _idle(context: Context, cost_s: float) -> str:
    if context.time.device_busy_s is None:
        return ""
    return f"; the device has nothing to run for {numbers.duration(cost_s, inferred=True)} of it"
