"""Finding `host_sync` at a sync that was told to wait: the host traces nothing while the device works.

Owns syncs with ``wait=True`` and ``wait_device_ops`` during training. Leaves values that are read to ``host_sync``.
"""

from __future__ import annotations

from typing import NamedTuple

from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.host_sync import FREQUENT_STEPS
from xla_insight.analysis.idle import NOT_OPENED, opened_by
from xla_insight.analysis.idle_causes import hideable_ns
from xla_insight.analysis.tables import Place
from xla_insight.analysis.time_account import process_account
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Severity

MANY_WAITS = 3
NOTABLE_SHARE = 0.05
"""Waiting for less is what a device that is never idle for long looks like."""


def waiting_sync(context: Context) -> tuple[Finding, ...]:
    """One finding for each place that waits for the device again and again and leaves it without work by that."""
    found: dict[Place, list[_Waits]] = {}
    for process, waits in context.tables["waits"].groupby("process"):
        account = process_account(context.tables, int(process))
        if account.whole.idle is None:
            continue
        opened = opened_by(account.gaps, waits)
        held = opened != NOT_OPENED
        gaps = waits.iloc[opened[held]][["site"]].assign(hideable_ns=hideable_ns(account.gaps)[held])
        blocked_ns = int(account.whole.host[:, STATES.index(HostState.DEVICE_WAIT)].sum())
        for site, rows in waits.groupby("site"):
            idle_ns = int(gaps.loc[(gaps["site"] == site).to_numpy(), "hideable_ns"].sum())
            waited_ns = min(int(rows["duration_ns"].sum()), blocked_ns)
            kept = _Waits(str(rows["kind"].iloc[0]), len(rows), int(rows["step"].nunique()), waited_ns, idle_ns)
            found.setdefault(context.tables.place(int(process), site), []).append(kept)
    findings = [_finding(context, place, waits) for place, waits in found.items()]
    return tuple(finding for finding in findings if finding is not None)


class _Waits(NamedTuple):
    """The waits of one process at one place; ``idle_ns``: what the device could have been given meanwhile."""

    kind: str
    times: int
    steps: int
    waited_ns: int
    idle_ns: int


def _finding(context: Context, place: Place, waits: list[_Waits]) -> Finding | None:
    count, steps, all_steps = sum(w.times for w in waits), sum(w.steps for w in waits), len(context.tables["steps"])
    idle_s, waited_s = sum(w.idle_ns for w in waits) / 1e9, sum(w.waited_ns for w in waits) / 1e9
    # Side by side, host and device take as long as the longer of them.
    cost_s = sum(min(w.idle_ns, w.waited_ns) for w in waits) / 1e9
    if count < MANY_WAITS or steps * FREQUENT_STEPS < all_steps or not cost_s:
        return None
    call = "A sync with wait=True" if waits[0].kind == "sync" else "wait_device_ops"
    idle, saved = (numbers.duration(seconds, inferred=True) for seconds in (idle_s, cost_s))
    notable = context.share_of_wall(cost_s) >= NOTABLE_SHARE
    return Finding(
        id="host_sync",
        severity=context.severity(cost_s) if notable else Severity.INFO,
        site=place.site,
        user_site=place.user_site,
        count=count,
        cost_s=cost_s,
        summary=(
            f"{call} at {numbers.where(place.site, place.user_site)} waits until the device is done, in"
            f" {numbers.count(steps)} of {numbers.plural(all_steps, 'step')}: the device then stood idle for {idle}"
            f" while the host prepared the next step; without the wait both work at once, and up to {saved} is saved."
        ),
        advice=(
            "Leave the wait out: what needs a result waits for it by itself. To time a step, wait once after many steps"
            " and divide."
        ),
        details={"waits": count, "steps": steps, "waited_s": waited_s, "device_idle_s": idle_s},
    )
