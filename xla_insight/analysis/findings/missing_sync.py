"""Finding `missing_sync`: nothing ends the graph, so work piles up until a value is read.

Owns three proofs: graphs cut by reads that each contain the one before; operations that a read ran and that the next
sync runs again as its own; and a batch uploaded again and again before a read runs it all, with no sync to follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from xla_insight.analysis.findings.context import Context
from xla_insight.analysis.recompiles import Explained
from xla_insight.analysis.tables import NOWHERE, Place, integers
from xla_insight.facts import numbers
from xla_insight.facts.events import Trigger
from xla_insight.facts.report import Finding

REPEATED_UPLOADS = 3
_PARTIAL = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)
_ADVICE = (
    "Call torch_xla.sync() at the end of each step of this loop (in a Trainer it is there already; with"
    " xm.optimizer_step, pass barrier=True; MpDeviceLoader does it when it fetches the next batch)."
)


def missing_sync(context: Context) -> tuple[Finding, ...]:
    """At most one finding, of the strongest proof."""
    for rule in (_growth, _leftover, _piled_up):
        found = rule(context)
        if found is not None:
            return (found,)
    return ()


def _growth(context: Context) -> Finding | None:
    """Every graph that a read cuts contains the one before."""
    members = [e for e in context.explained if e.explanation.cause == "graph_growth" and e.compile.is_read]
    if not members:
        return None
    seconds = _compile_s(members)
    first, last = members[0].explanation.note.split()
    place = members[0].compile.place
    summary = (
        f"No sync ends the graph: each value read at {numbers.where(place.site, place.user_site)} runs what has"
        " piled up"
        f" so far, {numbers.count(int(first))} operations at first and {numbers.count(int(last))} in the end, compiled"
        f" anew {numbers.plural(len(members), 'time')} ({numbers.duration(seconds)})."
    )
    return _finding(context, place, len(members), seconds, summary)


def _leftover(context: Context) -> Finding | None:
    """What a read ran was still pending, and became part of the next sync's graph."""
    members = [e for e in context.explained if e.explanation.note == "leftover"]
    if not members:
        return None
    seconds = _compile_s(members)
    place = members[0].compile.place
    reads = _last_reads(context, members[0])
    at = numbers.where(reads.site, reads.user_site)
    summary = (
        f"No sync ends the rounds of the loop whose values are read at {at}: its operations stayed pending and were"
        " compiled and run"
        f" again with the graph cut at {numbers.where(place.site, place.user_site)}"
        f" ({numbers.plural(len(members), 'compile')}, {numbers.duration(seconds)})."
    )
    return _finding(context, reads if reads.site else place, len(members), seconds, summary)


def _last_reads(context: Context, member: Explained) -> Place:
    """Where the last read before a compile happened."""
    reads = context.tables.of("reads", member.compile.process)
    cut_ns = member.compile.cut_ns if member.compile.cut_ns is not None else member.compile.time_ns
    before = reads[(reads["time_ns"] < cut_ns) & (reads["executions"].fillna(0) > 0)]
    return NOWHERE if before.empty else context.tables.place(member.compile.process, before["site"].iloc[-1])


def _piled_up(context: Context) -> Finding | None:
    """Several batches were uploaded at one line before a read ran them all, and no sync came after."""
    for process in context.tables.processes:
        if context.tables.of("spans", process.index).empty:
            continue
        syncs = context.tables.of("syncs", process.index)
        ran = syncs[syncs["executions"].fillna(0) > 0]
        times = integers(ran["time_ns"])
        suspect = ran["trigger"].isin([Trigger.READ]).to_numpy(dtype=np.bool_)
        ended = times[~ran["trigger"].isin(_PARTIAL).to_numpy(dtype=np.bool_)]
        if len(ended):
            suspect = suspect & (times >= ended.max())
        uploads = context.tables.of("uploads", process.index)
        uploaded = integers(uploads["time_ns"])
        lows = np.searchsorted(uploaded, np.concatenate([[process.start_ns], times[:-1]]), side="right")
        highs = np.searchsorted(uploaded, times, side="left")
        # A read with fewer uploads before it than that cannot have run so many of one batch.
        for position in np.flatnonzero(suspect & (highs - lows >= REPEATED_UPLOADS)):
            count = _repeats(uploads.iloc[lows[position] : highs[position]])
            if count >= REPEATED_UPLOADS:
                return _piled_finding(context, context.tables.place(process.index, ran["site"].iloc[position]), count)
    return None


def _repeats(uploads: pd.DataFrame) -> int:
    """How often the most frequent upload happened: of two tensors uploaded at one line each counts for itself."""
    kinds = [uploads[name].astype(str) for name in ("name", "dtype", "dims") if name in uploads]
    return max(Counter(zip(uploads["site"], *kinds, strict=True)).values())


def _piled_finding(context: Context, place: Place, times: int) -> Finding:
    summary = (
        f"{numbers.plural(times, 'batch', 'batches')} were uploaded before the read at"
        f" {numbers.where(place.site, place.user_site)} ran them all as one graph, and no sync came after."
    )
    return _finding(context, place, times, None, summary)


def _finding(context: Context, place: Place, count: int, seconds: float | None, summary: str) -> Finding:
    return Finding(
        id="missing_sync",
        severity=context.severity(seconds or 0.0),
        site=place.site,
        user_site=place.user_site,
        count=count,
        cost_s=seconds,
        summary=summary,
        advice=_ADVICE,
    )


def _compile_s(members: Sequence[Explained]) -> float:
    return sum(member.compile.compile_ns or 0 for member in members) / 1e9
