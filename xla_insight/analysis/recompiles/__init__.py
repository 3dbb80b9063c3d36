"""Why each graph was compiled: families, the nearest earlier relative, an ordered list of rules, entries of the report.

``history`` says what is known of each compile without its graph, ``explain`` compares it with its relative and asks
``rules``, ``series`` looks again at whole families, ``entries`` groups what has one cause at one place.
"""

from __future__ import annotations

from xla_insight.analysis.recompiles.explain import Explained, explain_compiles
from xla_insight.analysis.recompiles.history import History, build_history
from xla_insight.analysis.recompiles.library import GraphLibrary
from xla_insight.analysis.recompiles.series import in_hindsight
from xla_insight.analysis.tables import RunTables

__all__ = ["Explained", "GraphLibrary", "History", "explained_compiles"]


def explained_compiles(tables: RunTables, library: GraphLibrary) -> tuple[History, tuple[Explained, ...]]:
    """All compiles of a run with their families, and each with its cause."""
    history = build_history(tables)
    return history, in_hindsight(explain_compiles(history, tables, library), tables, library)
