"""Finding `host_sync` at a sync that was told to wait: the host traces nothing while the device works.

Owns syncs with ``wait=True`` and ``wait_device_ops`` during training. Leaves values that are read to ``host_sync``.
"""

from __future__ import annotations

import pandas as pd

from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.idle import NOT_OPENED, opened_by
from xla_insight.analysis.idle_causes import hideable_ns
from xla_insight.analysis.time_account import process_account
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Severity

MANY_WAITS = 3
FREQUENT_STEPS = 2
"""Waits in one of so many steps are a habit of the loop, and no measurement now and then."""
NOTABLE_SHARE = 0.05
"""Waiting for less is what a device that is never idle for long looks like."""


def waiting_sync(context: Context) -> tuple[Finding, ...]:
    """One finding for each place that waits for the device again and again and leaves it without work by that."""
    found = []
    for process, waits in context.tables["waits"].groupby("process"):
        account = process_account(context.tables, int(process))
        if account.whole.idle is None:
            continue
        opened = opened_by(account.gaps, waits)
        held = opened != NOT_OPENED
        gaps = waits.iloc[opened[held]][["site"]].assign(hideable_ns=hideable_ns(account.gaps)[held])
        waited_ns = int(account.whole.host[:, STATES.index(HostState.DEVICE_WAIT)].sum())
        for site, rows in waits.groupby("site"):
            finding = _finding(context, rows, gaps[gaps["site"] == site], waited_ns)
            found += [finding] if finding is not None else []
    return tuple(found)


def _finding(context: Context, rows: pd.DataFrame, gaps: pd.DataFrame, waited_ns: int) -> Finding | None:
    steps, all_steps = int(rows["step"].nunique()), len(context.tables["steps"])
    idle_s = float(gaps["hideable_ns"].sum()) / 1e9
    waited_s = min(float(rows["duration_ns"].sum()), waited_ns) / 1e9
    # Side by side, host and device take as long as the longer of them.
    cost_s = min(idle_s, waited_s)
    if len(rows) < MANY_WAITS or steps * FREQUENT_STEPS < all_steps or not cost_s:
        return None
    place = context.tables.place(int(rows["process"].iloc[0]), rows["site"].iloc[0])
    call = "A sync with wait=True" if rows["kind"].iloc[0] == "sync" else "wait_device_ops"
    idle, saved = (numbers.duration(seconds, inferred=True) for seconds in (idle_s, cost_s))
    notable = context.share_of_wall(cost_s) >= NOTABLE_SHARE
    return Finding(
        id="host_sync",
        severity=context.severity(cost_s) if notable else Severity.INFO,
        site=place.site,
        user_site=place.user_site,
        count=len(rows),
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
        details={"waits": len(rows), "steps": steps, "waited_s": waited_s, "device_idle_s": idle_s},
    )
