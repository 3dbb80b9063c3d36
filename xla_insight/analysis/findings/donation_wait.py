"""Finding `donation_wait`: syncs hold the training thread until their own graph is done, for donated buffers.

A step that updates its parameters in place gives their buffers to the graph that makes the new ones. On XLA:CPU the
thread that cuts the graph is then held until it has run: host and device take turns though the program reads nothing.
Only device windows show it.
"""

from __future__ import annotations

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.steady import steady_state
from xla_insight.analysis.idle_causes import openers
from xla_insight.analysis.windows import device_sessions
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, Severity

WAIT = "Wait for donation holds"
"""The framework's own name of such a wait."""
NOTABLE_SHARE = 0.1
LEAST_WAITS = 3


def donation_wait(context: Context) -> tuple[Finding, ...]:
    """At most one finding, and information only: nothing in the program is wrong."""
    if context.main is None or steady_state(context) is None:
        return ()
    index = context.main.index
    sessions = [each for each in device_sessions(context.tables, index) if each.measured is not None]
    waits = [found for each in sessions for (_, name), found in each.host.items() if name == WAIT]
    count, waited_ns = (sum(column) for column in zip(*waits, strict=True)) if waits else (0, 0)
    # Waits are counted over all of a session, before its first and after its last operation, too.
    open_ns = sum(each.end_ns - each.begin_ns for each in sessions)
    if count < LEAST_WAITS or waited_ns < NOTABLE_SHARE * open_ns:
        return ()
    opened = [opener for opener in openers(context.tables, index) if opener.kind == "sync"]
    # Nothing can be hidden behind a device for longer than it is busy.
    hideable_s = min(sum(opener.hideable_s for opener in opened), context.time.device_busy_s or 0.0)
    place = opened[0].place if opened else None
    hidden = numbers.duration(hideable_s, inferred=True)
    could = f" Of what the host did after that, {hidden} could have been hidden behind the device."
    return (
        Finding(
            id="donation_wait",
            severity=Severity.INFO,
            site=None if place is None else place.site,
            user_site=None if place is None else place.user_site,
            count=count,
            cost_s=hideable_s if opened else None,
            summary=(
                f"In device windows syncs held the training thread for {numbers.share(waited_ns, open_ns)} of the"
                f" time ({numbers.plural(count, 'wait')} for buffers), until their own graph was done: the step updates"
                f" tensors in place, so the graph takes over their buffers (donation), and this backend waits for that."
                f"{could if opened else ''}"
            ),
            advice=(
                "Nothing in the program asks for this wait. To see what overlap without it is worth, run once with"
                " XLA_ENABLE_PARAM_ALIASING=0 and compare: updated tensors then need their memory twice, and every"
                " graph compiles again, since the setting is part of its key."
            ),
            details={"waited_s": waited_ns / 1e9, "windows_s": open_ns / 1e9},
        ),
    )
