"""Finding `fallback`: operations that this backend does not compile run on the CPU and cut the graph.

Owns which counters are fallbacks and which cuts they forced. Counters name the operations and not their lines, so the
lines are those of cuts that no Python read explains; operations of a backward pass belong to the backward call. Where
no cut tells, the graphs do that a size from such an operation made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.recompiles.entries import absolute
from xla_insight.analysis.tables import NOWHERE, Place, RunTables
from xla_insight.facts import numbers
from xla_insight.facts.events import Trigger
from xla_insight.facts.report import Finding, Site

_PREFIX = "aten::"
_READ_OPERATION = "aten::_local_scalar_dense"
_DATA_DEPENDENT = ("nonzero", "masked_select", "repeat_interleave", "unique")
_LISTED = 4


def fallback(context: Context) -> tuple[Finding, ...]:
    """One finding for the operations of the forward part and one for those of the backward part."""
    operations = fallback_counts(context.tables)
    if not operations:
        return ()
    forced = _cuts(context.tables, Trigger.FORCED)
    hidden = _cuts(context.tables, Trigger.AUTOGRAD)
    # Counters name the overload too: aten::_ctc_loss_backward.Tensor
    backward = {name: n for name, n in operations.items() if name.partition(".")[0].endswith("_backward")}
    forward = {name: n for name, n in operations.items() if name not in backward}
    if not len(hidden) or not backward:
        return (_finding(context, operations, forced if len(forced) else hidden),)
    if not forward:
        return (_finding(context, backward, hidden),)
    return (_finding(context, forward, forced), _finding(context, backward, hidden))


def fallback_counts(tables: RunTables) -> dict[str, int]:
    """Operation -> how often it fell back, most frequent first. Reading a scalar is a read, not a fallback."""
    frame = tables["counters"]
    rows = frame[frame["name"].astype(str).str.startswith(_PREFIX) & (frame["name"] != _READ_OPERATION)]
    sums = rows.groupby("name", observed=True)["delta"].sum().sort_values(ascending=False)
    return {str(name): round(float(n)) for name, n in sums.items() if n > 0}


def _cuts(tables: RunTables, trigger: Trigger) -> pd.DataFrame:
    syncs = tables["syncs"]
    return syncs[(syncs["trigger"] == trigger).to_numpy(dtype=np.bool_)]


def _finding(context: Context, operations: dict[str, int], cuts: pd.DataFrame) -> Finding:
    sites = _places(context.tables, cuts)
    place = sites[0][0] if sites else _where_sizes_come_from(context, operations)
    cost_s = _waited_s(context.tables, cuts)
    total = sum(operations.values())
    return Finding(
        id="fallback",
        severity=context.severity(cost_s or 0.0, warns=_recurs(context.tables, operations)),
        site=place.site,
        user_site=place.user_site,
        count=total,
        cost_s=cost_s,
        summary=_summary(operations, [p for p, _ in sites] or [place], cuts),
        advice=_advice(operations),
        details={
            "operations": operations,
            "graphs_run": int(cuts["executions"].fillna(0).sum()),
            "places": [{"file": p.site.file, "line": p.site.line, "cuts": n} for p, n in sites if p.site],
        },
    )


def _where_sizes_come_from(context: Context, operations: dict[str, int]) -> Place:
    """The line of an operation that cut nothing (its input was there already), known by the graphs its result made."""
    plain = {name.removeprefix(_PREFIX).lstrip("_") for name in operations}
    for item in context.explained:
        explanation, frame = item.explanation, item.explanation.frame
        if explanation.cause == "data_dependent_shape" and explanation.note in plain and frame is not None:
            file = absolute(frame.file, item.compile.process, context.tables)
            site = Site(file, frame.line, frame.function)
            return Place(site, site)
    return NOWHERE


def _waited_s(tables: RunTables, cuts: pd.DataFrame) -> float | None:
    """Time from dispatch to ready of the graphs that these cuts ran: the host needs their values to go on."""
    executions = tables["executions"]
    waits = executions[executions["trigger"].isin(cuts["trigger"].unique())]["duration_ns"].dropna()
    return float(waits.sum()) / 1e9 if len(waits) else None


def _places(tables: RunTables, cuts: pd.DataFrame) -> list[tuple[Place, int]]:
    """Where the cuts happened, most frequent first."""
    counts: dict[Place, int] = {}
    for (process, site), rows in cuts.groupby(["process", "site"]):
        place = tables.place(int(process), site)
        counts[place] = counts.get(place, 0) + len(rows)
    return sorted(counts.items(), key=lambda item: -item[1])


def _recurs(tables: RunTables, operations: dict[str, int]) -> bool:
    """Whether any of them ran in more than one step; once, in a start-up, it disturbs nobody."""
    counters = tables["counters"]
    rows = counters[counters["name"].isin(list(operations))]
    return tables["steps"].empty or bool((rows["steps"] > 1).any())


def _only_data_dependent(operations: dict[str, int]) -> bool:
    return all(name.removeprefix(_PREFIX).lstrip("_").startswith(_DATA_DEPENDENT) for name in operations)


def _summary(operations: dict[str, int], places: Sequence[Place], cuts: pd.DataFrame) -> str:
    named = [f"{name.removeprefix(_PREFIX)} {numbers.count(n)} times" for name, n in list(operations.items())[:_LISTED]]
    more = f" and {len(operations) - _LISTED} more" if len(operations) > _LISTED else ""
    known = [numbers.where(place.site, place.user_site) for place in places if place.site]
    others = [numbers.plural(len(known) - _LISTED, "more place")] if len(known) > _LISTED else []
    at = f" at {numbers.listed([*known[:_LISTED], *others])}" if known else ""
    text = f"On this backend these operations run on the CPU{at}: {', '.join(named)}{more}"
    graphs = int(cuts["executions"].fillna(0).sum())
    return f"{text}; they cut the graph and ran {numbers.plural(graphs, 'part')} of it early." if graphs else text + "."


def _advice(operations: dict[str, int]) -> str:
    if _only_data_dependent(operations):
        return (
            "The size of the result depends on values, so the graph must be run to know it. Multiply by the mask or use"
            " torch.where, so that shapes stay the same."
        )
    return (
        "Use operations that this backend compiles, or move this part to where the data is loaded. Other backends fall"
        " back on other operations: measure there before changing code for them."
    )
