"""Which lines the training thread was at while it ran Python and traced: from samples of its stack.

Owns counting samples by place and the limits below which nothing is said. A share of samples is an estimate of a share
of time: its error is told. Leaves sampling to ``record`` and states to ``time_account``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from xla_insight.analysis.accounting import STATES
from xla_insight.analysis.tables import Place, Process, RunTables
from xla_insight.analysis.time_account import process_account
from xla_insight.facts import numbers
from xla_insight.facts.report import HostLine, HostState, Period, Site

LEAST_SAMPLES = 20
"""Samples in these states, below which its lines are not told, but for one that stands out even so."""
FEW_SAMPLES, CLEAR_SHARE = 6, 0.3
"""The least samples for that, and what its share must be above, error included."""
LEAST_SHARE = 0.02
LISTED = 10
_LEAST_IN_GAP = 2
RUNNING = (HostState.TRACE, HostState.OUTSIDE)
"""States in which the thread runs Python of its own, and no span says where."""
WAITING_FOR_INPUT = (HostState.INPUT_WAIT,)
"""The state in which a loader without workers makes the batch on the training thread."""
_NORMAL_95 = 1.96


def host_lines(
    tables: RunTables, process: Process, period: Period | None, states: tuple[HostState, ...] = RUNNING
) -> tuple[HostLine, ...]:
    """Where the training thread was in some states in the steps of a period, most time first; empty where there is too
    little.

    Shares are of the time in these states; the rest of it is at lines of less than `LEAST_SHARE`.
    """
    if period is None:
        return ()
    samples = _seen_in(tables, process.index, states)
    seen = samples["site"][samples["step"].between(period.first_step, period.last_step)]
    if len(seen) < FEW_SAMPLES:
        return ()
    spent_s = sum(period.host.get(state, 0.0) for state in states)
    counts: Counter[tuple[Site, Site | None]] = Counter()
    for number, count in seen.value_counts(sort=False).items():
        place = tables.place(process.index, number)
        if place.site is not None:
            counts[place.site, place.user_site] += int(count)
    if len(seen) < LEAST_SAMPLES:
        most = max(counts.values(), default=0)
        if most / len(seen) - _error(most, len(seen)) < CLEAR_SHARE:
            return ()
    return tuple(
        HostLine(
            site=site,
            user_site=user_site,
            samples=count,
            share=count / len(seen),
            error=_error(count, len(seen)),
            spent_s=spent_s * count / len(seen),
        )
        for (site, user_site), count in counts.most_common(LISTED)
        if count >= LEAST_SHARE * len(seen)
    )


def most_of_it(lines: Sequence[HostLine], least: float = 0.1) -> str:
    """The lines that take most of the host's own time, as the end of a sentence; empty when none stands out."""
    told = [line for line in lines if line.share - line.error >= least][:2]
    if not told:
        return ""
    words = [
        f"{numbers.percent(100 * line.share, inferred=True)}{of_that} at {numbers.where(line.site, line.user_site)}"
        for line, of_that in zip(told, (" of that", ""), strict=False)
    ]
    return f"{' and '.join(words)} ({numbers.count(sum(line.samples for line in told))} samples)"


def line_in(tables: RunTables, process: int, stretch: tuple[int, int]) -> tuple[Place, int, int] | None:
    """The place at which most samples of a stretch found the thread running Python, how many did, and of how many.

    None when they are too few, or at no place more often than elsewhere.
    """
    samples = _seen_in(tables, process, RUNNING)
    low, high = np.searchsorted(samples["time_ns"].to_numpy(), stretch)
    sites = samples["site"].iloc[int(low) : int(high)]
    if len(sites) < _LEAST_IN_GAP:
        return None
    counts = sites.map(lambda site: tables.place(process, site)).value_counts()
    place, count = counts.index[0], int(counts.iloc[0])
    return (place, count, len(sites)) if 2 * count > len(sites) and place.site is not None else None


def _seen_in(tables: RunTables, process: int, states: tuple[HostState, ...]) -> pd.DataFrame:
    """The samples that found the thread in one of some states; remembered with the tables."""
    key = (f"samples in {', '.join(states)}", process)
    if key not in tables.accounts:
        rows = tables.of("samples", process)
        running = np.isin(process_account(tables, process).samples, [STATES.index(state) for state in states])
        tables.accounts[key] = rows[running & rows["site"].notna().to_numpy()]
    found: pd.DataFrame = tables.accounts[key]
    return found


def _error(count: int, total: int) -> float:
    """Half the width of the 95 % interval of a share (0 to 1), by Wilson."""
    share, square = count / total, _NORMAL_95**2
    root = math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    return _NORMAL_95 * root / (1 + square / total)
