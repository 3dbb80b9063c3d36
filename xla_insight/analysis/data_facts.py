"""What is missing from a recording, so that no total is trusted more than it deserves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from xla_insight.analysis.tables import RunTables
from xla_insight.facts import numbers
from xla_insight.facts.report import DataFacts

_UNKNOWN_END = "crashed"
_DROPPED = "events"
"""Name of the loss of events that the recorder dropped itself."""
_TIMED = "uploads"
"""Name of a loss of single entries, of which the sum is known."""
_CLOCK = "clock"
"""Name of a loss that is no count: times around it are off."""


def data_facts(tables: RunTables, state: str, skipped_parts: int, problems: tuple[str, ...]) -> DataFacts:
    """Losses, recorder faults and unreadable parts over all processes, each counted once."""
    lost: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    notes = [*problems]
    dropped = 0
    losses = tables["losses"]
    for process in tables.processes:
        logged = losses[losses["process"] == process.index]
        drops = sum(map(_whole, logged[logged["what"] == _DROPPED]["count"]))
        # Said twice, in the log and in the facts at the end; after a crash one of them may be missing.
        dropped += max(drops, _whole(process.facts.get("dropped")))
        lost.update(_positive(process.facts.get("lost")))
        faults.update(_faults(tables, process.index, process.facts.get("faults")))
        notes.extend(_windows_not_taken(process.facts.get("windows")))
    for row in losses[losses["what"] != _DROPPED].itertuples(index=False):
        if row.what == _CLOCK:
            notes.append(f"{str(row.why)[:1].upper()}{str(row.why)[1:]}.")
        elif row.what == _TIMED:
            notes.append(f"{numbers.plural(_whole(row.count), 'upload')} {row.why}.")
        else:
            lost[str(row.what)] += _whole(row.count)
    if state == _UNKNOWN_END:
        notes.append("The recording ends without an end mark: the last second may be missing.")
    failed = sum(process.facts.get("ended") == "exception" for process in tables.processes)
    if failed:
        whose = "The program" if len(tables.processes) == 1 else f"In {numbers.plural(failed, 'process')} the program"
        notes.append(f"{whose} ended with an exception; the recording is whole up to there.")
    open_executions = int(tables["executions"]["duration_ns"].isna().sum())
    if open_executions:
        notes.append(f"{numbers.plural(open_executions, 'execution')} have no known end; their device time is n/a.")
    return DataFacts(dropped, dict(faults), skipped_parts, dict(lost), tuple(notes))


def _faults(tables: RunTables, process: int, final: object) -> dict[str, int]:
    """The final counts of a process, or what its log says so far."""
    if isinstance(final, Mapping):
        return _positive(final)
    frame = tables["faults"]
    own = frame[frame["process"] == process]
    counts: Counter[str] = Counter()
    for name, value in zip(own["what"], own["count"], strict=True):
        counts[str(name)] += _whole(value)
    return dict(counts)


def _windows_not_taken(facts: object) -> list[str]:
    """Device windows that were asked for and are not there; one that nobody asked for is not missed."""
    if not isinstance(facts, Mapping) or facts.get("plan") == "auto":
        return []
    skipped = _positive(facts.get("skipped"))
    return [f"{numbers.plural(count, 'device window')} not taken: {why}." for why, count in skipped.items()]


def _positive(counts: object) -> dict[str, int]:
    if not isinstance(counts, Mapping):
        return {}
    return {str(name): _whole(value) for name, value in counts.items() if _whole(value)}


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0
