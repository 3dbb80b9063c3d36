"""Saving: how long the training thread stood still for it, and how long another thread wrote while training went on."""

from __future__ import annotations

import numpy as np
import pandas as pd

from xla_insight.analysis.intervals import Cover, Spans, joined, union
from xla_insight.analysis.tables import Process, RunTables, spans_of
from xla_insight.facts import numbers
from xla_insight.facts.devices import CheckpointFacts


def checkpoint_facts(tables: RunTables, main: Process | None) -> CheckpointFacts | None:
    """Saving in the process that speaks for the run; None when it saved nothing."""
    if main is None:
        return None
    rows = tables.of("saves", main.index)
    training = (rows["thread"].fillna(0) == 0).to_numpy(dtype=np.bool_)
    stalls, behind = union(spans_of(rows[training])), union(spans_of(rows[~training]))
    if not len(stalls.starts) and not len(behind.starts):
        return None
    stall_s, behind_s = without_compiles_ns(tables, main.index, stalls) / 1e9, _nanoseconds(behind) / 1e9
    beside = _before(behind, tables.of("steps", main.index)["end_ns"].max())
    overlapped_s = (_nanoseconds(union(joined((stalls, beside)))) - _nanoseconds(stalls)) / 1e9
    saves = len(stalls.starts) or len(behind.starts)
    return CheckpointFacts(saves, stall_s, behind_s, overlapped_s, _summary(saves, stall_s, behind_s, overlapped_s))


def without_compiles_ns(tables: RunTables, process: int, saving: Spans) -> int:
    """Ns of the spans (a `union`) in which nothing was compiled: what a save cuts and compiles first is the training's
    own graph, which would be compiled without it, too."""
    rows = tables.of("compiles", process)
    compiled = Cover(union(spans_of(rows[rows["duration_ns"].notna()])))
    return _nanoseconds(saving) - int((compiled.until(saving.ends) - compiled.until(saving.starts)).sum())


def _summary(saves: int, stall_s: float, behind_s: float, overlapped_s: float) -> str:
    text = f"{numbers.plural(saves, 'checkpoint')} held the training thread up for {numbers.duration(stall_s)}"
    if not behind_s:
        return f"{text}, all of the saving."
    return (
        f"{text}; another thread wrote for {numbers.duration(behind_s)},"
        f" {numbers.share(overlapped_s, behind_s)} of it while training went on."
    )


def _before(spans: Spans, last_ns: float) -> Spans:
    """The parts until the last step ended: what comes later is waited for. All of them when no step is known."""
    if pd.isna(last_ns):
        return spans
    return Spans(np.minimum(spans.starts, int(last_ns)), np.minimum(spans.ends, int(last_ns)))


def _nanoseconds(spans: Spans) -> int:
    return int((spans.ends - spans.starts).sum())
