"""The recompile entries of the report: compiles of one cause at one place, with severity, worst first.

Owns grouping, severity, the form of ``root`` and the promise that counts add up to the number of compiles. Leaves
causes to ``rules`` and ``series``, words to ``wording`` and ``advice``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from xla_insight.analysis.recompiles.advice import advice, shown
from xla_insight.analysis.recompiles.evidence import Explanation
from xla_insight.analysis.recompiles.explain import Explained
from xla_insight.analysis.recompiles.history import Family, History
from xla_insight.analysis.recompiles.wording import summary
from xla_insight.analysis.tables import RunTables
from xla_insight.facts import numbers
from xla_insight.facts.report import Member, Recompile, Severity, ShapeFacts

CRITICAL_SHARE = 0.3
"""Share of wall time from which repeated compiles are critical."""
CRITICAL_COUNT = 3
_HARMLESS = {"shared_scalar": 2, "special_scalar": 2, "live_outputs": 1, "donation": 1}
"""Cause -> compiles in a run that deserve no change: a value that a schedule happens to pass, a counter that begins
with 0 and 1, a copy that was alive at one cut. Other graphs are found in the cache."""
_SEVERITY_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True)
class Totals:
    """What the entries are measured by: the compiles that the framework counted, and the wall time of all processes
    together, which decides what is critical. ``shapes`` has the plan of padding that the advice names."""

    compiles: int
    wall_s: float | None = None
    shapes: ShapeFacts | None = None


def recompile_entries(
    explained: Sequence[Explained], history: History, tables: RunTables, totals: Totals
) -> tuple[Recompile, ...]:
    """Entries whose counts add up to ``totals.compiles``.

    Compiles that were counted and left no event are an entry of their own.
    """
    tables = replace(tables, snippet=cache(tables.snippet))  # asked for by every compile, of few lines
    groups: dict[Hashable, list[Explained]] = defaultdict(list)
    for item in explained:
        groups[_key(item)].append(item)
    entries = [_entry(members, history, tables, totals) for members in groups.values()]
    missing = totals.compiles - len(history.compiles)
    if missing > 0:
        entries.append(_unseen(missing))
    return tuple(sorted(entries, key=lambda e: (_SEVERITY_ORDER.index(e.severity), -e.compile_s, -e.count)))


def _key(item: Explained) -> Hashable:
    """What one entry has in common: a cause and what causes it, wherever the graphs were cut; else where they were."""
    place, explanation = item.compile.place, item.explanation
    because = explanation.group if explanation.group is not None else (place.site, place.user_site)
    return explanation.cause, explanation.expected, because


def _entry(members: Sequence[Explained], history: History, tables: RunTables, totals: Totals) -> Recompile:
    first = members[0]
    compiles = [member.compile for member in members]
    compile_s = sum(c.compile_ns or 0 for c in compiles) / 1e9
    families = [history.families[key] for key in dict.fromkeys(c.family for c in compiles)]
    severity = _severity(first.explanation, len(members), compile_s, families, totals.wall_s)
    return Recompile(
        cause=first.explanation.cause,
        expected=first.explanation.expected,
        severity=severity,
        count=len(members),
        compile_s=compile_s,
        steps=tuple(sorted({c.step for c in compiles if c.step is not None})),
        site=first.compile.place.site,
        user_site=first.compile.place.user_site,
        trigger=first.compile.trigger,
        summary=summary(members),
        advice=advice(members, totals.shapes, harmless=severity is Severity.INFO),
        root=root_of(shown(members), first.compile.process, tables),
        graphs=tuple(dict.fromkeys(c.graph for c in compiles if c.graph is not None)),
        members=tuple(_member(member, tables) for member in members),
    )


def _member(item: Explained, tables: RunTables) -> Member:
    c = item.compile
    seconds = None if c.compile_ns is None else c.compile_ns / 1e9
    root = root_of(item.explanation, c.process, tables)
    return Member(
        c.graph, c.step, c.process, seconds, item.against, item.explanation.repeated, summary([item]), root
    )  # fmt: skip


def root_of(explanation: Explanation, process: int, tables: RunTables) -> dict[str, Any]:
    """The earliest difference: ``site`` with its source text, ``inferred`` (the line is that of a partner or user),
    ``kind`` (`DifferenceKind`), ``operation``, ``opcode``, ``before`` and ``now`` (only what differs), ``input`` and
    ``dimension`` of a batch input, ``follows`` (operations that differ only because of it). Empty without a difference.
    """
    frame = explanation.frame
    if frame is None and not explanation.kind:
        return {}
    site: dict[str, Any] = {}
    if frame is not None:
        file = absolute(frame.file, process, tables)
        source = next((text.strip() for line, text in tables.snippet(file, frame.line) if line == frame.line), "")
        site = {"file": file, "line": frame.line, "function": frame.function, "source": source}
    dims = {d for _, d in explanation.dims}
    return {
        "site": site,
        "inferred": explanation.inferred,
        "kind": explanation.kind,
        "operation": explanation.operation,
        "opcode": explanation.opcode,
        "before": explanation.before,
        "now": explanation.now,
        "input": explanation.inputs[0] if explanation.inputs else "",
        "dimension": next(iter(dims)) if len(dims) == 1 else None,
        "follows": explanation.follows,
    }


def absolute(file: str, process: int, tables: RunTables) -> str:
    """A file as recorded elsewhere: graphs name it as the interpreter was given it."""
    if file.startswith("<") or os.path.isabs(file):
        return file
    cwd = next((p.facts.get("cwd") for p in tables.processes if p.index == process), None)
    return os.path.normpath(os.path.join(str(cwd), file)) if cwd else file


def _severity(
    explanation: Explanation, count: int, compile_s: float, families: Sequence[Family], wall_s: float | None
) -> Severity:
    # Evicted graphs are few and used again: that they are compiled each time is the fault.
    by_size = explanation.cause == "input_shape"
    bounded = explanation.cause != "evicted" and all(f.bounded_and_reused(each_starts=by_size) for f in families)
    harmless = count <= _HARMLESS.get(explanation.cause, 0) and explanation.note != "leftover"
    # One graph that nobody knows is no proof that something is compiled again: it may be the optimizer's state.
    harmless = harmless or (explanation.cause == "unknown" and count == 1 and all(f.anonymous for f in families))
    if explanation.expected or bounded or harmless:
        return Severity.INFO
    if count >= CRITICAL_COUNT and wall_s and compile_s >= CRITICAL_SHARE * wall_s:
        return Severity.CRITICAL
    return Severity.WARNING


def _unseen(count: int) -> Recompile:
    return Recompile(
        cause="unknown",
        expected=False,
        severity=Severity.INFO,
        count=count,
        compile_s=0.0,
        steps=(),
        site=None,
        user_site=None,
        trigger="unknown",
        summary=(
            f"{numbers.plural(count, 'compile')} counted by the framework left no event in the recording; how long they"
            " took and where they happened is not known."
        ),
        advice="",
    )
