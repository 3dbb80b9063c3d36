"""One row a graph, for pages and exports."""

from __future__ import annotations

import pandas as pd

from xla_insight.facts.numbers import short_hash


def build_graph_table(graphs: pd.DataFrame) -> pd.DataFrame:
    """The graphs with ``short`` (first digits of the hash, longer where two would be equal), costly ones first."""
    table = graphs.sort_values(["compile_ns", "executions"], ascending=False, ignore_index=True)
    digits = _digits(table["graph"])
    table.insert(1, "short", [short_hash(graph, digits) for graph in table["graph"]])
    return table


def _digits(hashes: pd.Series[str]) -> int:
    """The fewest digits, from six on, that tell all hashes apart."""
    for digits in range(6, 33):
        if hashes.map(lambda graph, n=digits: short_hash(graph, n)).is_unique:
            return digits
    return 32
