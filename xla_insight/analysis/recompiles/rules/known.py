"""Rules that need no graph: compiled before, single operations, first of its place, and what stays unexplained."""

from __future__ import annotations

from xla_insight.analysis.recompiles.evidence import Evidence, Explanation


def evicted(evidence: Evidence) -> Explanation | None:
    """The same graph was compiled and executed before: it had been dropped from the cache in memory."""
    compile_ = evidence.compile
    if not compile_.seen_before or not compile_.ran_before:
        return None
    return Explanation("evicted")


def failed_before(evidence: Evidence) -> Explanation | None:
    """The same graph was compiled before and never ran: there was nothing to find in the cache."""
    if not evidence.compile.seen_before:
        return None
    return Explanation("unknown", note="compiled before, but it never ran: that compile failed or was interrupted")


def single_operation(evidence: Evidence) -> Explanation | None:
    """Eager mode compiles every operation by itself: each is the first graph of its kind."""
    if not evidence.compile.eager:
        return None
    return Explanation("first_graph", expected=True, note="eager", group="eager")


def first_graph(evidence: Evidence) -> Explanation | None:
    """No earlier relative: something has to be compiled once."""
    compile_ = evidence.compile
    if compile_.place.site is None and evidence.after is None:
        return None
    if evidence.against is None and (compile_.earlier is None or evidence.after is not None):
        return Explanation("first_graph", expected=True)
    return None


def without_graphs(evidence: Evidence) -> Explanation | None:
    """Graphs were not kept: nothing can be compared."""
    if evidence.difference is not None:
        return None
    return Explanation("unknown")


def unexplained(evidence: Evidence) -> Explanation | None:
    """The graphs differ, and no rule says why."""
    return Explanation("unknown", note="no rule explains the difference")
