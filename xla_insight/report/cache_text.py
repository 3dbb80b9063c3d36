"""What is in a cache, for a terminal. Owns layout; names of files and runs are shown as text, on one line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TextIO

from xla_insight.facts import numbers
from xla_insight.facts.cache import (
    CacheExplanation,
    CacheStatus,
    Entry,
    JoinedEntry,
    Layout,
    MemoryCache,
    PrunePlan,
    PruneResult,
)
from xla_insight.report.table import write_table
from xla_insight.report.text import encodable, plain_line, wrapped

LISTED = 500
WIDTH = 100
_PRUNE_LISTED, _REASONS_LISTED = 20, 40


def write_status(status: CacheStatus, stream: TextIO) -> None:
    """Write the numbers of one folder."""
    now = time.time()
    states = ", ".join(f"{numbers.count(n)} {state.replace('_', ' ')}" for state, n in status.states.items())
    lines = [
        plain_line(status.path),
        f"  {', '.join(status.layouts) or 'no cache entry'}: {numbers.plural(status.entries, 'entry', 'entries')},"
        f" {numbers.size(status.size)}" + (f" ({states})" if states else ""),
    ]
    if status.newest_unix_s is not None and status.oldest_unix_s is not None:
        newest, oldest = (numbers.ago(now - at) for at in (status.newest_unix_s, status.oldest_unix_s))
        lines.append(f"  last written {newest}, oldest entry written {oldest}")
    if status.saves_s is not None:
        what = numbers.plural(status.known_costs, "entry", "entries")
        lines.append(f"  saves up to {numbers.duration(status.saves_s)} of compiling a start ({what} of known cost)")
    if status.loads:
        lines.append(f"  recorded runs loaded from a cache {numbers.plural(status.loads, 'time')}")
    if status.foreign:
        lines.append(f"  {numbers.plural(status.foreign, 'other file')}, never touched")
    lines += [f"  in use: {plain_line(status.in_use)}"] if status.in_use else []
    _write([*lines, *(f"  {plain_line(note)}" for note in status.notes)], stream)


def write_entries(entries: Sequence[JoinedEntry], stream: TextIO) -> None:
    """Write one row an entry."""
    now = time.time()
    columns = ("entry", "layout", "state", "size", "age", "last use", "saves", "first step", "runs", "loads", "command")
    rows = [
        [
            encodable(plain_line(joined.entry.key), stream),
            str(joined.entry.layout),
            str(joined.state).replace("_", " "),
            numbers.size(joined.entry.size),
            numbers.age(now - joined.entry.modified_unix_s),
            numbers.ago(now - joined.last_use_unix_s),
            numbers.duration(joined.compile_s),
            joined.first_step,
            len(joined.runs),
            joined.loads,
            encodable(plain_line(joined.command), stream),
        ]
        for joined in entries[:LISTED]
    ]
    write_table(columns, [[encodable(c, stream) if isinstance(c, str) else c for c in row] for row in rows], stream)
    if len(entries) > LISTED:
        _write([f"only the first {LISTED} of {numbers.count(len(entries))} entries; use --json for all"], stream)


def write_explanation(explanation: CacheExplanation, stream: TextIO) -> None:
    """Write why a run missed, graphs with the same reason together."""
    lines = [*wrapped(plain_line(explanation.summary), WIDTH)]
    if explanation.loads:
        lines.append(f"It loaded {numbers.plural(explanation.loads, 'graph')} instead of compiling.")
    groups: dict[str, list[str]] = {}
    costs: dict[str, float] = {}
    for miss in explanation.misses:
        text = plain_line(miss.sentence)
        groups.setdefault(text, []).append(numbers.short_hash(miss.graph))
        costs[text] = costs.get(text, 0.0) + (miss.compile_s or 0.0)
    for text, graphs in list(groups.items())[:_REASONS_LISTED]:
        named = ", ".join(graphs[:6]) + (f" and {len(graphs) - 6} more" if len(graphs) > 6 else "")
        head = f"{numbers.plural(len(graphs), 'graph')}, {numbers.duration(costs[text])} ({named})"
        lines += ["", head, *(f"  {line}" for line in wrapped(text, WIDTH - 2))]
    rest = sum(map(len, list(groups.values())[_REASONS_LISTED:]))
    lines += ["", f"{numbers.plural(rest, 'graph')} more for other reasons; --json names all"] if rest else []
    lines += [""] if explanation.notes else []
    _write([*lines, *(plain_line(note) for note in explanation.notes)], stream)


def write_plan(plan: PrunePlan, stream: TextIO) -> None:
    """Write what would be deleted."""
    cost = "" if plan.rebuild_s is None else f"; building them again costs {numbers.duration(plan.rebuild_s)}"
    if plan.unknown_costs and plan.rebuild_s is not None:
        cost += f" and the unknown cost of {numbers.count(plan.unknown_costs)}"
    elif plan.unknown_costs:
        cost = "; what building them again costs is not known"
    entries = numbers.plural(len(plan.chosen), "entry", "entries")
    lines = [plain_line(plan.path), f"  {entries}, {numbers.size(plan.size)} to delete{cost}",
             f"  {numbers.plural(plan.kept, 'entry', 'entries')}, {numbers.size(plan.kept_size)} to keep"]  # fmt: skip
    for joined in plan.chosen[:_PRUNE_LISTED]:
        entry = joined.entry
        lines.append(f"    {plain_line(_file(entry))}  {numbers.size(entry.size)}  {plan.reasons[entry.name]}")
    if len(plan.chosen) > _PRUNE_LISTED:
        lines.append(f"    and {numbers.count(len(plan.chosen) - _PRUNE_LISTED)} more")
    lines += [f"  in use: {plain_line(plan.in_use)}"] if plan.in_use else []
    _write(lines, stream)


def _file(entry: Entry) -> str:
    """The name of an entry in its folder, and the hash that everything else knows it by."""
    return f"{entry.name} ({numbers.short_hash(entry.key)})" if entry.layout is Layout.TORCH_XLA else entry.name


def write_result(result: PruneResult, stream: TextIO) -> None:
    """Write what was deleted and what was not."""
    lines = [f"  deleted {numbers.plural(result.deleted, 'entry', 'entries')}, {numbers.size(result.size)}"]
    _write([*lines, *(f"  left: {plain_line(text)}" for text in result.skipped)], stream)


def memory_sentence(memory: MemoryCache) -> str:
    """What the in-memory cache did and how large it should be, in one sentence."""
    if not memory.executions:
        return "No execution of a graph with a known hash was recorded."
    distinct = numbers.plural(memory.distinct, "distinct graph")
    recorded = next((rate for rate in memory.rates if rate.size == memory.recorded_size), None)
    if memory.recorded_size is None or memory.recorded_size >= memory.enough:
        return (
            f"{distinct} fit the cache in memory: nothing is compiled twice from {numbers.count(memory.enough)}"
            f" places on (XLA_COMPILATION_CACHE_SIZE; this run had {numbers.count(memory.recorded_size)})."
        )
    evicted = numbers.count(recorded.evicted_compiles) if recorded else "some"
    return (
        f"{distinct} do not fit {numbers.plural(memory.recorded_size, 'place')}: {evicted} compiles of graphs that had"
        f" been dropped. XLA_COMPILATION_CACHE_SIZE={memory.enough} avoids all of them."
    )


def write_memory(memory: MemoryCache, stream: TextIO) -> None:
    """Write the hit rate over the size of the in-memory cache."""
    lines = [*wrapped(memory_sentence(memory), WIDTH), ""]
    _write(lines, stream)
    rows = [
        [rate.size, rate.hits, numbers.share(rate.hits, memory.executions), rate.compiles, rate.evicted_compiles]
        for rate in memory.rates
    ]
    write_table(("size", "hits", "hit rate", "compiles", "of dropped graphs"), rows, stream)


def _write(lines: Sequence[str], stream: TextIO) -> None:
    for line in lines:
        stream.write(encodable(line, stream) + "\n")
