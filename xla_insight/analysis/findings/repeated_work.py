"""What a value read runs and the next sync runs again: a read does not end the graph, so its part stays pending.

Owns the comparison of a read's graph with that of the sync behind it, by operation and line.
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from xla_insight.analysis.findings.context import Context
from xla_insight.facts.events import Trigger
from xla_insight.graph.model import Graph
from xla_insight.graph.roots import site_of

_PARTIAL = (Trigger.READ, Trigger.FORCED, Trigger.AUTOGRAD)
_NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})


def repeated_work(context: Context, reads: pd.DataFrame) -> tuple[int, int] | None:
    """(operations of the latest of these reads that the next sync ran again, operations that it ran).

    None when it ran no graph, no sync followed, or the graphs were not kept.
    """
    executing = reads[reads["executions"] > 0]
    if executing.empty or context.library is None:
        return None
    for row in executing.iloc[::-1].head(2).itertuples(index=False):
        syncs = context.tables.of("syncs", int(row.process))
        own = syncs[syncs["time_ns"] == row.time_ns]
        later = syncs[(syncs["time_ns"] > row.time_ns) & (syncs["executions"].fillna(0) > 0)]
        ended = later[~later["trigger"].isin(_PARTIAL)]
        if own.empty or ended.empty:
            continue
        ran, again = (context.library.prepared(_name(frame["graph"].iloc[0])) for frame in (own, ended))
        if ran is not None and again is not None:
            ours, theirs = _operations(ran.graph), _operations(again.graph)
            return (ours & theirs).total(), ours.total()
    return None


def _name(graph: object) -> str | None:
    return graph if isinstance(graph, str) else None


def _operations(graph: Graph) -> Counter[tuple[object, ...]]:
    counted = [i for i in graph.instructions if i.opcode not in _NO_WORK]
    return Counter((i.opcode, i.metadata.op_type, site_of(i.metadata.stack), i.shape.dims) for i in counted)
