"""Finding `transfer_bound`: the training thread spends much of the steady state moving tensors."""

from __future__ import annotations

import pandas as pd

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.steady import settled, steady_state
from xla_insight.analysis.tables import NOWHERE, Place
from xla_insight.analysis.windows import device_sessions
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Period, Severity

NOTABLE_SHARE = 0.1
WARNING_SHARE = 0.2
UNSEEN_SHARE = 0.4
"""The least share of the thread's time where nothing tells whether the device computed meanwhile."""
WAITING_SHARE = 0.2
"""A thread that waits for the device longer than this is not what the device waits for."""
LEAST_A_STEP_S = 0.001
"""Steps of a loop without work are so short that any upload is a tenth of them."""
MOST_SHARE = 0.5
_UPLOAD = "upload"
_UPLOADS = (
    "Move what does not change from step to step once, before the loop; make on the device what can be computed there"
    " (masks, positions, constants). The rest: fewer and larger tensors, a smaller dtype, and the next batch in the"
    " background (MpDeviceLoader)."
)
_BOTH = "Upload the next batch in the background, move fewer, larger tensors, keep results on the device."


def transfer_bound(context: Context) -> tuple[Finding, ...]:
    """At most one finding: a tenth or more of the steady state is spent on transfers that the device waits for."""
    period = steady_state(context)
    if period is None or context.main is None:
        return ()
    cost_s, idle_s = transfers_s(context, period)
    share = (cost_s if idle_s is None else idle_s) / period.wall_s
    if share < (UNSEEN_SHARE if idle_s is None else NOTABLE_SHARE) or cost_s < LEAST_A_STEP_S * period.steps:
        return ()
    moves = _moves(context, period)
    uploads = moves[(moves["name"] == _UPLOAD).to_numpy(dtype=bool) & (moves["thread"] == 0).to_numpy(dtype=bool)]
    of_uploads = _seconds(uploads) > cost_s / 2
    if not of_uploads and _seconds(_reads(context, period)) > cost_s / 2:  # host_sync and checkpoint_stall tell that
        return ()
    place, where = _longest_line(context, uploads) if of_uploads else (NOWHERE, "")
    takes = (
        f"Moving tensors between host and device takes {numbers.duration(cost_s)} of the training thread,"
        f" {numbers.share(cost_s, period.wall_s)} of the steady state{where}"
    )
    return (
        Finding(
            id="transfer_bound",
            severity=Severity.WARNING if share >= WARNING_SHARE and settled(period) else Severity.INFO,
            site=place.site,
            user_site=place.user_site,
            count=int((uploads if of_uploads else moves)["step"].nunique()),
            cost_s=cost_s,
            summary=f"{takes}{_meanwhile(cost_s, idle_s)}",
            advice=_UPLOADS if of_uploads else _BOTH,
            details={"directions": {str(name): int(n) for name, n in moves["name"].value_counts().items() if n}},
        ),
    )


def _meanwhile(cost_s: float, idle_s: float | None) -> str:
    if idle_s is None:
        return (
            ". Whether the device computes meanwhile or waits for these tensors, dispatch and ready times do not tell"
            " (a device window does: --window)."
        )
    if idle_s >= cost_s:
        return ", while the device has nothing to run."
    idle = numbers.duration(idle_s, inferred=True)
    return f"; the device has nothing to run for {idle} of it, or longer: while it waits for inputs it looks busy."


def _longest_line(context: Context, uploads: pd.DataFrame) -> tuple[Place, str]:
    """The line with most of the time of uploads, and how much that is."""
    assert context.main is not None
    by_site = uploads.dropna(subset=["site"]).groupby("site")["duration_ns"].sum()
    if by_site.empty:
        return NOWHERE, ""
    place = context.tables.place(context.main.index, by_site.idxmax())
    if place.site is None:
        return NOWHERE, ""
    of_all = by_site.max() / uploads["duration_ns"].sum()
    much = "most of it in uploads" if of_all > MOST_SHARE else f"in uploads, {numbers.percent(100 * of_all)} of them"
    return place, f", {much} at {numbers.where(place.site, place.user_site)}"


def _moves(context: Context, period: Period) -> pd.DataFrame:
    assert context.main is not None
    spans = context.tables.of("spans", context.main.index)
    return spans[(spans["kind"] == "transfer").to_numpy(dtype=bool) & spans["step"].ge(period.first_step)]


def _reads(context: Context, period: Period) -> pd.DataFrame:
    assert context.main is not None
    reads = context.tables.of("reads", context.main.index)
    return reads[reads["thread"].eq(0) & reads["step"].ge(period.first_step)]


def _seconds(rows: pd.DataFrame) -> float:
    return float(rows["duration_ns"].sum()) / 1e9


def transfers_s(context: Context, period: Period) -> tuple[float, float | None]:
    """Seconds that transfers cost at most, and for how long the device was seen to have nothing to run meanwhile.

    A graph whose inputs are on their way looks like one that runs: without a device window the cost is all of the
    time. None: a thread that mostly moves tensors and hardly waits for the device is taken to hold it up.
    """
    all_s = period.host.get(HostState.TRANSFER, 0.0)
    if period.device_busy_s is None:
        return all_s, all_s
    idle_s = period.device_idle_by_host_state.get(HostState.TRANSFER, 0.0)
    main = context.main
    if main is not None and any(one.measured is not None for one in device_sessions(context.tables, main.index)):
        return idle_s, idle_s
    waiting = period.host.get(HostState.DEVICE_WAIT, 0.0) > WAITING_SHARE * period.wall_s
    return all_s, idle_s if waiting or idle_s >= NOTABLE_SHARE * period.wall_s else None
