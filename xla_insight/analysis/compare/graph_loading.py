"""The graphs of one run as a comparison needs them: what they cost, where they are cut, and their HLO when it was kept.

Owns how many graphs are parsed at most. Leaves pairing to ``graph_pairs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from xla_insight.errors import GraphFormatError
from xla_insight.facts.report import Site
from xla_insight.graph.canonical import Fingerprints, fingerprints
from xla_insight.graph.diff import Prepared, prepare
from xla_insight.graph.hlo_proto import parse_hlo_proto
from xla_insight.graph.model import Graph
from xla_insight.graph.nearest import Signature, signature

if TYPE_CHECKING:
    from xla_insight.store.reader import Run

MAX_PARSED = 48
"""Graphs of a run that are compared by structure: those that ran most often. The others are matched by their place."""


@dataclass(frozen=True)
class KnownGraph:
    """One graph of a run. ``parsed`` is None when its HLO was not kept or cannot be read."""

    graph: str
    executions: int | None
    compile_s: float | None
    trigger: str
    site: Site | None
    parsed: Graph | None

    @property
    def place(self) -> tuple[str, str, str]:
        """Where it is cut, in words that survive an edit above that line and another folder."""
        if self.site is None:
            return self.trigger, "", ""
        return self.trigger, self.site.file.replace("\\", "/").rsplit("/", 1)[-1], self.site.function

    @cached_property
    def fingerprints(self) -> Fingerprints | None:
        """Hashes of its structure."""
        return None if self.parsed is None else fingerprints(self.parsed)

    @cached_property
    def signature(self) -> Signature | None:
        """What tells how near two graphs are."""
        return None if self.parsed is None else signature(self.parsed)

    @cached_property
    def prepared(self) -> Prepared | None:
        """Its canonical form."""
        return None if self.parsed is None else prepare(self.parsed)


def known_graphs(run: Run, skip: frozenset[str] | set[str] = frozenset()) -> dict[str, KnownGraph]:
    """The named graphs of a run in order of their first use, without those to ``skip``."""
    table = run.table("graphs")
    table = table[~table["graph"].isin(list(skip))]
    costly = set(table.sort_values("executions", ascending=False)["graph"].head(MAX_PARSED))
    sources = _sources(run)
    return {
        str(row.graph): KnownGraph(
            graph=str(row.graph),
            executions=None if pd.isna(row.executions) else int(row.executions),
            compile_s=None if pd.isna(row.compile_ns) else float(row.compile_ns) / 1e9,
            trigger=row.trigger if isinstance(row.trigger, str) else "",
            site=_site(row, sources),
            parsed=_parsed(run, str(row.graph)) if row.graph in costly else None,
        )
        for row in table.itertuples(index=False)
    }


def _parsed(run: Run, graph: str) -> Graph | None:
    content = run.hlo(graph)
    if content is None:
        return None
    try:
        return parse_hlo_proto(content)
    except GraphFormatError:
        return None


def _site(row: Any, sources: dict[tuple[str, int], str]) -> Site | None:
    """The user's own line where the graph is cut, else the innermost one outside the framework."""
    for file, line, function in (
        (row.user_file, row.user_line, row.user_function),
        (row.file, row.line, row.function),
    ):
        if isinstance(file, str):
            number = 0 if pd.isna(line) else int(line)
            return Site(file, number, function if isinstance(function, str) else "", sources.get((file, number), ""))
    return None


def _sources(run: Run) -> dict[tuple[str, int], str]:
    frame = run.sql(
        "select file, line, source from sites where file is not null and line is not null"
        " union all select user_file, user_line, user_source from sites"
        " where user_file is not null and user_line is not null"
    )
    return {
        (str(row.file), int(row.line)): row.source
        for row in frame.itertuples(index=False)
        if isinstance(row.source, str)
    }
