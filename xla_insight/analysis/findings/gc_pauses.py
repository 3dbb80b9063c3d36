"""Finding `gc_pauses`: Python's garbage collector stops the training thread for a notable part of the steady state."""

from __future__ import annotations

import pandas as pd

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.findings.steady import SETTLED_STEPS, settled, steady_state
from xla_insight.analysis.tables import NOWHERE, Place
from xla_insight.facts import numbers
from xla_insight.facts.report import Finding, HostState, Period, Severity

NOTABLE_SHARE = 0.02
WARNING_SHARE = 0.05
OVERWHELMING_SHARE = 0.3
"""Pauses of this share are no noise of a short run."""
MANY_PAUSES = 3


def gc_pauses(context: Context) -> tuple[Finding, ...]:
    """At most one finding: pauses of 2 % or more of the steady state, in at least three collections, also without the
    longest of them: one full collection among many short ones tells nothing about the next steps.
    """
    period = steady_state(context)
    if period is None or context.main is None:
        return ()
    paused_s = period.host.get(HostState.GC, 0.0)
    spans = context.tables.of("spans", context.main.index)
    within = spans["step"].between(period.first_step, period.last_step)
    pauses = spans[(spans["kind"] == "gc").to_numpy(dtype=bool) & within.to_numpy(dtype=bool, na_value=False)]
    if len(pauses) < MANY_PAUSES:
        return ()
    longest = float(pauses["duration_ns"].max())
    share = (paused_s - longest / 1e9) / period.wall_s
    if share < NOTABLE_SHARE:
        return ()
    place = _asked_for(context, pauses)
    where = "" if place.site is None else f", most at {numbers.where(place.site, place.user_site)}"
    return (
        Finding(
            id="gc_pauses",
            severity=Severity.WARNING if _warns(period, share) else Severity.INFO,
            site=place.site,
            user_site=place.user_site,
            count=len(pauses),
            cost_s=paused_s,
            summary=(
                f"Python's garbage collector stopped the training thread {numbers.plural(len(pauses), 'time')} for"
                f" {numbers.duration(paused_s)}{where}, {numbers.share(paused_s, period.wall_s)} of the steady state;"
                f" the longest pause took {numbers.nanoseconds(longest)}."
            ),
            advice=(
                "This line asks for a full collection again and again: take gc.collect() out of the step, or collect"
                " every few hundred steps. What it is to free is freed without it, unless it is part of a cycle."
            )
            if place.site is not None
            else (
                "Call gc.freeze() once everything is set up, so that long-lived objects are no longer looked through;"
                " or switch collection off and collect every few hundred steps, in all processes at the same step."
            ),
            details={"generations": {str(name): int(n) for name, n in pauses["name"].value_counts().items()}},
        ),
    )


def _warns(period: Period, share: float) -> bool:
    if share >= OVERWHELMING_SHARE and period.steps >= SETTLED_STEPS:
        return True
    return share >= WARNING_SHARE and settled(period)


def _asked_for(context: Context, pauses: pd.DataFrame) -> Place:
    """The line at which most of the collections were full ones, as only a line does that asks for them."""
    assert context.main is not None
    full = pauses.loc[(pauses["name"] == "gen2").to_numpy(dtype=bool), "site"].dropna()
    if not len(full):
        return NOWHERE
    counts = full.value_counts()
    return context.tables.place(context.main.index, counts.index[0]) if 2 * counts.iloc[0] > len(pauses) else NOWHERE
