"""When the steady state of a run is long enough to be judged: short runs are mostly start-up and noise.

Owns these limits. Shared by the rules that compare host and device time.
"""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.facts.report import HostState, Period

JUDGED_STEPS = 5
"""From this many steady steps on a limit is told, as information."""
SETTLED_STEPS = 20
SETTLED_S = 2.0
"""From this many steady steps and seconds on a limit may be a warning."""


def steady_state(context: Context) -> Period | None:
    """The steady steps of the process that speaks for the run, when there are enough to be judged."""
    period = context.time.steady
    return period if period is not None and period.steps >= JUDGED_STEPS and period.wall_s > 0 else None


def settled(period: Period) -> bool:
    """Whether the steady state lasted long enough to warn about it."""
    return period.steps >= SETTLED_STEPS and period.wall_s >= SETTLED_S


def idle_or_all_s(period: Period, state: HostState) -> float:
    """Seconds that the device was idle while the host was in a state; all of that state when it was not observed."""
    source = period.host if period.device_busy_s is None else period.device_idle_by_host_state
    return source.get(state, 0.0)
